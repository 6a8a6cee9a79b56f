"""The promise and its proof: ``plan``, ``certificate`` (recomputed by another route), ``release_grid``."""
