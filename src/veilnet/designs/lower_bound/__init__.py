"""Proving how good a trade-off is: from a design to the multipliers of the theorem.

Read :mod:`veilnet.plans.lower_bound` first: the theorem, its proof and its check. Then, in this order,
``lifted_program`` (the semidefinite relaxation whose dual variables are multipliers), ``splitting`` (how it is
solved, NumPy alone), ``proving`` (from a plan to a proof, and what a proof says is worth hiding).
"""
