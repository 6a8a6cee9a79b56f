"""What several tests share: networks, oracles and statistics."""
