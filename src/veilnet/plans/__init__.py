"""The promise and its proof.

Read ``plan`` first, then ``certificate`` (every promise recomputed by another route), ``release_grid`` and
``verification`` (a saved plan is believed only when all of it is confirmed).
"""
