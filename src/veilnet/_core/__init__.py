"""What every room stands on: arrays cut into agents, linear algebra, validation, frozen objects, errors, words.

Nothing in here knows of privacy.
"""
