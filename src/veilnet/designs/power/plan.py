"""Most privacy at perfect utility with limited noise power per agent (the paper's section V).

max Σ_j p_j(I, Θ) subject to U Ψ_i Θ_i = 0 and tr Θ_i <= δ_i. With Θ_i = B_i X_i B_i', B_i an orthonormal basis of
Null(U Ψ_i), the constraint is gone and the problem keeps an interior (facial reduction); what is left is concave in
X, and the solver returns a certified upper bound with its value. Few agents are solved for as one dense problem
(:mod:`veilnet.designs.power.dense`); where agents are many and meet only in x, an estimate is searched for that all
of them answer (:mod:`veilnet.designs.power.ascent`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.linalg import orthonormal_rows
from veilnet._core.names import ByAgent
from veilnet._core.progress import Progress
from veilnet._core.stacks import summed
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.designs.power.ascent import Ascent, AscentSearch, relative_gap
from veilnet.designs.power.dense import noise_of_few
from veilnet.designs.power.free import Agents
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


_ROUNDING = 1e-14  # of a unit row: what is left of one that the public rows see


def noise_of_many(
    verdict: Verdict, power: Array, progress: Progress | None
) -> tuple[Mechanisms, Array, Ascent]:
    """The noise within the powers, (S,), that hides most in total: what all send, the power used, how found.

    Common disturbances count as parameters.
    """
    network, shares = verdict.network, verdict.shares
    apart = network.common_apart
    change = apart.in_raw_coordinates(np.eye(apart.L))
    groups = [
        Agents(
            apart.blocks.take(apart.H, group.agents),
            roots,
            rows,
            shares.ranks[group.agents],
            power[group.agents],
        )
        for group, roots, rows in zip(apart.blocks.groups, apart.R.own_roots(), shares.rows, strict=True)
    ]
    free = [stack for group in groups for stack in group.free(change)]
    wanted = wanted_columns(
        apart.in_raw_coordinates(apart.U), map(apart.in_raw_coordinates, apart.private.values())
    )
    found = AscentSearch(partial(summed, free), wanted, progress).run()
    free.clear()  # what the search needed has served
    used, stacks = np.zeros(network.S), []
    for group, agents in zip(network.blocks.groups, groups, strict=True):
        rows, variances, used[group.agents] = agents.sending(change, found.estimate)
        stacks.append(SanitizerStack(group.agents, rows, variances if np.any(variances) else None))
    return Mechanisms(network, stacks), used, found


def wanted_columns(public: Array, private: Iterable[Array]) -> Array:
    """G', (L, r), with Σ_j p_j = tr(G (J̃^-1 - I) G'): every parameter's rows divided by the root of its raw error.

    No noise at perfect utility touches what the public rows see, so that it is left out; none is left where all that
    is private is public too.

    public, private: U and the G_j in coordinates of x in which the raw information is the identity.
    """
    seen = orthonormal_rows(public)
    rows = np.concatenate([each / np.linalg.norm(each) for each in private])
    rows = rows - (rows @ seen.T) @ seen
    left, sizes, _ = np.linalg.svd(rows.T, full_matrices=False)
    kept = sizes > _ROUNDING
    return np.asarray(left[:, kept] * sizes[kept])
