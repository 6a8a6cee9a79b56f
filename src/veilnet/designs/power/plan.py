"""Most privacy at perfect utility with limited noise power per agent (the paper's section V).

max Σ_j p_j(I, Θ) subject to U Ψ_i Θ_i = 0 and tr Θ_i <= δ_i. With Θ_i = B_i X_i B_i', B_i an orthonormal basis of
Null(U Ψ_i), the constraint is gone and the problem keeps an interior (facial reduction); what is left is concave in
X, and the solver returns a certified upper bound with its value.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.linalg import cholesky
from veilnet._core.progress import Progress
from veilnet.agent.sanitizer import Sanitizer
from veilnet.designs.power.reduction import free_noise_problem
from veilnet.designs.power.solver import maximize_privacy_from_root
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict

# Φ is N x N: beyond this many readings it no longer fits the memory of an ordinary machine.
_MOST_READINGS = 20_000
# Rounding of Θ_i is a part of its power: where some noise of the readings is as small as that, less power is used.
_PARTS_OF_POWER = (1.0, 1e-2, 1e-4, 1e-6)


def power_plan(
    verdict: Verdict,
    power: Mapping[str, float],
    *,
    progress: Progress | None = None,
) -> Plan:
    """The plan of most total privacy Σ_j p_j at perfect utility, with tr Θ_i <= power[agent]."""
    network = verdict.network
    if network.N > _MOST_READINGS:
        raise InvalidRequest(
            f"power: expected at most {_MOST_READINGS} readings, found {network.N}; the power-limited problem "
            "couples all of them. Use design(network) or method='noise' instead"
        )
    apart = network.common_apart
    by_place = dict(verdict.shares.free())
    free = [by_place[place] for place in range(network.S)]
    root, gain = free_noise_problem(
        apart.H, cholesky(apart.noise.matrix()), apart.prior_root, list(apart.private.values()), free
    )
    limits = np.array([power[agent] for agent in network.agents])
    sizes = [columns.shape[1] for columns in free]
    refusal: InvalidPlan | None = None
    upper_bound = np.inf
    for part in _PARTS_OF_POWER:
        result = maximize_privacy_from_root(root, gain, sizes, part * limits, progress=progress)
        upper_bound = min(upper_bound, result.upper_bound) if part == 1.0 else upper_bound
        sanitizers = {}
        for place, (agent, columns, block) in enumerate(
            zip(network.agents, free, result.blocks, strict=True)
        ):
            noise = columns @ block @ columns.T
            sanitizers[agent] = Sanitizer(
                np.eye(columns.shape[0]),
                (noise + noise.T) / 2,
                offset=network.offset[network.blocks.rows(place)],
                agent=agent,
            )
        details = {
            "total_privacy": result.value,
            "upper_bound": upper_bound,
            "relative_gap": result.relative_gap if part == 1.0 else 1.0 - result.value / upper_bound,
            "iterations": result.iterations,
            "interrupted": result.interrupted,
            "power": {agent: float(np.trace(s.noise)) for agent, s in sanitizers.items()},
            "power_allowed": dict(power),
        }
        try:
            return make_plan(network, sanitizers, "power", most_loss=0.0, details=details)
        except InvalidPlan as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal
