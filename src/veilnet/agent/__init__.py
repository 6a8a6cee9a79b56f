"""What runs at an agent. ``sanitizer`` says what is sent, ``release`` sends it.

Then ``normal_form`` (noise and compression are one thing), ``grid`` (the public grid numbers are rounded to) and
``randomness`` (where noise and dither come from). ``mechanisms`` are the sanitizers of all agents, as a few arrays.
"""
