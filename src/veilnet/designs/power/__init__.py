"""Most privacy at perfect utility with limited noise power (section V of the paper).

Read ``plan`` first (from a question to a plan). Few agents are one dense problem, ``dense``. Very many meet only in
x: one estimate goes to all and L x L sums come back. There ``ascent`` is the search, in L x r numbers, ``answers``
how one agent answers an estimate, with the iteration that finds noise, and ``free`` has stacks of agents.
"""

from veilnet.designs.power.ascent import AscentSearch, relative_gap
from veilnet.designs.power.free import Agents, FreeStack
from veilnet.designs.power.plan import PARTS_OF_POWER, power_plan, wanted_columns

__all__ = [
    "PARTS_OF_POWER",
    "Agents",
    "AscentSearch",
    "FreeStack",
    "power_plan",
    "relative_gap",
    "wanted_columns",
]
