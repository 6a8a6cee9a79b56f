"""What runs at an agent. ``sanitizer`` says what is sent, ``release`` sends it.

Then ``normal_form`` (noise and compression are one thing), ``grid`` (the public grid numbers are rounded to),
``randomness`` (where noise and dither come from) and ``lattice_watch`` (whether readings have the resolution that the
plan states).
"""
