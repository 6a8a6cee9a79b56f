"""The same plan when an agent keeps silent, or hands the centre its raw readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.what_if.collusion import with_colluders, without_dither
from veilnet.bounds.detectability import Detectability, detectability
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.plans.plan import Plan

__all__ = ["known_if"]


def known_if(
    plan: Plan, silent: Sequence[str], betrayed: Sequence[str]
) -> tuple[dict[str, TypicalError], dict[str, Detectability]]:
    """The centre's errors, and how surely it sees changes, when some agents send nothing and others' readings are
    known to it as they are.

    plan:     what all other agents keep to.
    silent:   agents of which nothing arrives.
    betrayed: agents that hand over their readings; one that is silent too counts as this.
    """
    seen: Mapping[str, Sanitizer] = {
        agent: _nothing(plan, agent) if agent in silent else sanitizer
        for agent, sanitizer in plan.sanitizers.items()
    }
    known = with_colluders(plan.network, seen, tuple(betrayed), "readings")
    network = without_dither(plan.network, tuple(betrayed))
    return typical_errors(network, known), detectability(network, known)


def _nothing(plan: Plan, agent: str) -> Sanitizer:
    return Sanitizer(np.zeros((0, plan.sanitizers[agent].readings)), agent=agent)
