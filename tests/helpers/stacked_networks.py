"""Networks given as stacks of agents, and the same network agent by agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import veilnet as vn
from veilnet._core.types import Array


def stacks(seed: int, counts: Sequence[tuple[int, int]], parameters: int) -> tuple[list[Array], list[Array]]:
    """Stacks of H and R for (how many agents, how many readings each)."""
    rng = np.random.default_rng(seed)
    observe = [rng.standard_normal((count, size, parameters)) for count, size in counts]
    noise = []
    for count, size in counts:
        root = rng.standard_normal((count, size, size))
        covariance = root @ np.swapaxes(root, 1, 2) + np.eye(size)
        noise.append((covariance + np.swapaxes(covariance, 1, 2)) / 2)
    return observe, noise


def stacked_network(
    seed: int, counts: Sequence[tuple[int, int]], parameters: int = 6, **options: Any
) -> vn.Network:
    """A network of stacks, with two public and two private parameters."""
    observe, noise = stacks(seed, counts, parameters)
    rng = np.random.default_rng([seed, 1])
    chosen: dict[str, Any] = {
        "public": rng.standard_normal((2, parameters)),
        "private": {"g": rng.standard_normal((2, parameters)), "h": rng.standard_normal(parameters)},
    } | options
    one = len(counts) == 1
    return vn.Network(observe=observe[0] if one else observe, noise=noise[0] if one else noise, **chosen)


def agent_by_agent(network: vn.Network) -> vn.Network:
    """The same network with every agent given by itself under its name."""
    return vn.Network(
        observe={agent: np.array(rows) for agent, rows in network.observe.items()},
        noise={agent: network.sensor_noise.block(place) for place, agent in enumerate(network.agents)},
        public=dict(network.public),
        private=dict(network.private),
        prior=network.prior,
        offset=network.offset,
        resolution=dict(network.resolution) or None,
    )
