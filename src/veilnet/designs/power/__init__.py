"""Most privacy at perfect utility with limited noise power (section V of the paper).

Read ``plan`` (from a question to a plan) and ``splitting`` (the iteration that finds noise). Few agents are one dense
problem, ``dense``. Very many meet only in x: one estimate goes to all and L x L sums come back. There ``ascent`` is
the search, in L x r numbers, ``answers`` how one agent answers an estimate, ``free`` and ``agents`` are stacks of
them, and ``network`` is one in one piece, and what to hide.
"""

from veilnet.designs.power.agents import Agents
from veilnet.designs.power.ascent import AscentSearch, PowerCrowd, relative_gap
from veilnet.designs.power.free import FreeStack
from veilnet.designs.power.network import wanted_columns
from veilnet.designs.power.plan import PARTS_OF_POWER, power_plan

__all__ = [
    "PARTS_OF_POWER",
    "Agents",
    "AscentSearch",
    "FreeStack",
    "PowerCrowd",
    "power_plan",
    "relative_gap",
    "wanted_columns",
]
