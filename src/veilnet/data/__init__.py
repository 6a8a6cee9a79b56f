"""Networks that come with veilnet, read through importlib.resources."""
