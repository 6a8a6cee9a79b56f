"""Plans in other people's libraries: Kalman filters, Stone Soup, data frames (docs/how-to/adapters.md)."""
