"""Most privacy at perfect utility with limited noise power (section V of the paper).

Read in this order: ``plan`` (from a question to a plan; for many agents through :mod:`veilnet.designs.many_power`),
``problem`` (the concave program), ``reduction`` (what cannot matter), ``solver`` and ``splitting`` (its iteration).
"""

from veilnet.designs.power.plan import PARTS_OF_POWER, power_plan

__all__ = ["PARTS_OF_POWER", "power_plan"]
