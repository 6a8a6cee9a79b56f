"""Can privacy be free? ``shares`` says what each agent must send, ``exact_test`` decides, ``verdict`` is its answer.

``printed_theorems`` has the paper's own conditions, for comparison; ``notes`` says what dither costs;
``streams`` has all of it for rows that follow one another.
"""
