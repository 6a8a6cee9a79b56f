"""What runs at the fusion centre: ``messages`` (the model of what arrives) and ``fusion`` (the estimate)."""
