"""Most privacy at perfect utility with limited noise power (section V of the paper).

Read in this order: ``plan`` (from a question to a plan), ``problem`` (the concave program), ``reduction`` (what
cannot matter), ``solver`` (who does what), ``splitting``, ``barrier`` and ``polish`` (its three stages).
"""

from veilnet.designs.power.plan import power_plan

__all__ = ["power_plan"]
