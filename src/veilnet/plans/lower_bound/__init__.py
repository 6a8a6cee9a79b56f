"""How far from the best possible can a trade-off be? A proof that anybody can check, in plain NumPy.

Read in this order: ``lifted_form`` (what is read of a network), ``theorem`` and ``rapidity`` (two statements, their
proofs and their checks), ``precise`` (the latter with 32 digits) and ``proof`` (a statement about one
network with the multipliers that prove it). How multipliers are found is the business of
:mod:`veilnet.designs.lower_bound`, and nothing here believes it.
"""
