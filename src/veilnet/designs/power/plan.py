"""Most privacy at perfect utility with limited noise power per agent (the paper's section V).

max Σ_j p_j(I, Θ) subject to U Ψ_i Θ_i = 0 and tr Θ_i <= δ_i. With Θ_i = B_i X_i B_i', B_i an orthonormal basis of
Null(U Ψ_i), the constraint is gone and the problem keeps an interior (facial reduction); what is left is concave in
X, and the solver returns a certified upper bound with its value. Few agents are solved for as one dense problem
(:mod:`veilnet.designs.power.dense`); where agents are many and meet only in x, an estimate is searched for that all
of them answer (:mod:`veilnet.designs.power.ascent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.names import ByAgent
from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet.designs.power.ascent import relative_gap
from veilnet.designs.power.dense import noise_of_few
from veilnet.designs.power.network import noise_of_many
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict

MANY_READINGS = 500
"""With more readings than this, agents that meet only in x are not solved for as one dense problem."""
# Φ is N x N: beyond this many readings it no longer fits the memory of an ordinary machine.
_MOST_COUPLED_READINGS = 20_000
# Rounding of Θ_i is a part of its power: where some noise of the readings is as small as that, less power is used.
PARTS_OF_POWER = (1.0, 1e-2, 1e-4, 1e-6)


def power_plan(verdict: Verdict, power: Array, *, progress: Progress | None = None) -> Plan:
    """The plan of most total privacy Σ_j p_j at perfect utility, with tr Θ_i <= power[i], (S,), in sending order."""
    network = verdict.network
    many = network.N > MANY_READINGS and network.common_apart.R.independent
    if not many and network.N > _MOST_COUPLED_READINGS:
        raise InvalidRequest(
            f"power: expected at most {_MOST_COUPLED_READINGS} readings, found {network.N}; noise that is correlated "
            "between agents couples all readings in one matrix. Give it as CommonNoise if few disturbances are "
            "behind it, for which there is no limit, or use design(network) or method='noise' instead"
        )
    allowed = by_agent(network, power)
    refusal: InvalidPlan | None = None
    upper_bound = np.inf
    for part in PARTS_OF_POWER:
        sanitizers, used, found = (noise_of_many if many else noise_of_few)(verdict, part * power, progress)
        upper_bound = min(upper_bound, found.upper_bound) if part == 1.0 else upper_bound
        try:
            plan = make_plan(network, sanitizers, "power", Asked(most_loss=0.0, power=allowed))
        except InvalidPlan as error:
            refusal = refusal or error
            continue
        total = sum(plan.privacy.values()) if many else found.value
        details: dict[str, Any] = {
            "total_privacy": total,
            "upper_bound": upper_bound,
            "relative_gap": relative_gap(total, upper_bound),
            "iterations": found.iterations,
            "interrupted": found.interrupted,
            "power": by_agent(network, used),
            "power_allowed": allowed,
        }
        return replace(plan, details=MappingProxyType(details))
    assert refusal is not None
    raise refusal


def by_agent(network: Network, values: Array) -> Mapping[str, float]:
    """agent -> its value, looked up by name where agents are many."""
    if network.N > MANY_READINGS:
        return ByAgent(network.agents, network.position, lambda place: float(values[place]))
    return dict(zip(network.agents, values.tolist(), strict=True))
