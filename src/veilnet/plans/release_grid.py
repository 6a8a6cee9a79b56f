"""The grid of every sanitizer in a plan, from the noise the centre knows each sent number to carry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet.agent.grid import grid_steps
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network


def with_release_grid(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
    """The sanitizers in sending order, each with the grid its numbers are rounded to.

    Rows that repeat others (a singular C R C' + Θ) leave no grid far below every combination's noise: their
    normal form is sent instead.
    """
    independent = {
        agent: sanitizers[agent] if _independent_rows(sanitizers[agent]) else sanitizers[agent].normalized()
        for agent in network.agents
        if agent in sanitizers
    }
    if network.noise.independent:
        steps = {
            agent: grid_steps(
                s.compression @ network.noise.block(network.position[agent]) @ s.compression.T + s.noise
            )
            for agent, s in independent.items()
        }
    else:
        steps = _joint_steps(network, independent)
    return {
        agent: sanitizer.with_grid(steps[agent]).for_agent(agent, network)
        for agent, sanitizer in independent.items()
    }


def _independent_rows(sanitizer: Sanitizer) -> bool:
    return bool(sanitizer.normal[0].shape[0] == sanitizer.sent)


def _joint_steps(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, np.ndarray]:
    parts = [(network.blocks.rows(network.position[a]), s.compression) for a, s in sanitizers.items()]
    half = np.concatenate([c @ network.noise.matrix()[rows] for rows, c in parts]).T
    covariance = np.concatenate([c @ half[rows] for rows, c in parts])
    ends = np.cumsum([s.sent for s in sanitizers.values()])
    for end, sanitizer in zip(ends, sanitizers.values(), strict=True):
        mine = slice(end - sanitizer.sent, end)
        covariance[mine, mine] += sanitizer.noise
    steps = grid_steps((covariance + covariance.T) / 2)
    return dict(zip(sanitizers, np.split(steps, ends[:-1]), strict=True))
