"""The best filter on raw readings of very many agents: only the L x L information of a row enters it.

With white noise independent between agents, y_i = H_i x + n_i of a row tell of x what T x + N(0, I) tells, T upper
triangular with T'T = Σ H_i'R_i^-1 H_i. So the Riccati equation is one of L numbers, whatever the number of agents.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.stacks import joined_triangle, parts
from veilnet._core.stacks import raw_triangle as stack_triangle
from veilnet._core.types import Array
from veilnet.bounds.streams.riccati import Messages, Steady, steady_state
from veilnet.model.network import Network

__all__ = ["readings_triangle", "steady_of_stacks"]


def readings_triangle(network: Network) -> Array:
    """T with T'T = Σ H_i'R_i^-1 H_i, (L, L): what one row of raw readings tells, without what is known beforehand."""
    told = (
        stack_triangle(network.blocks.take(network.H, group.agents[part]), roots[part])
        for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True)
        for part in parts(group.count, group.size * network.L)
    )
    return joined_triangle(told, network.L)


def steady_of_stacks(network: Network) -> Steady:
    """The steady state of the best filter on raw readings, in the state x."""
    assert network.dynamics is not None
    return steady_state(
        Messages(
            network.dynamics.transition,
            network.dynamics.noise,
            readings_triangle(network),
            np.eye(network.L),
        )
    )
