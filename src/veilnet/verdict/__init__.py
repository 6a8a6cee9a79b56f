"""Can privacy be free? ``shares`` says what each agent must send, ``exact_test`` decides.

``printed_theorems`` has the paper's own conditions, for comparison; ``resolution`` says what dither costs.
"""
