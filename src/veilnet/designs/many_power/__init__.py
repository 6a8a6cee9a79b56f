"""Limited noise power with very many agents: one estimate goes to all, L x L sums come back (mathematics, section 4).

Read in this order: ``ascent`` (the search, in L x r numbers), ``answers`` (how one agent answers an estimate) with
``smoothed`` and ``smoothing`` (where that has no formula), ``free`` and ``agents`` (stacks of them), ``wanted`` (what
is to be hidden) and ``network`` (a network in one piece).
"""

from veilnet.designs.many_power.agents import Agents, left_open_by, withheld_by
from veilnet.designs.many_power.ascent import Ascent, AscentSearch, PowerCrowd, relative_gap
from veilnet.designs.many_power.free import FreeStack
from veilnet.designs.many_power.network import noise_of_many
from veilnet.designs.many_power.wanted import wanted_columns

__all__ = [
    "Agents",
    "Ascent",
    "AscentSearch",
    "FreeStack",
    "PowerCrowd",
    "left_open_by",
    "noise_of_many",
    "relative_gap",
    "wanted_columns",
    "withheld_by",
]
