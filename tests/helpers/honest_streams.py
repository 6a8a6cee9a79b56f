"""Stream plans drawn at random and deployed as they are: memories short and long, noise strong and weak."""

from __future__ import annotations

import numpy as np

import veilnet as vn
from helpers.memories import random_memory
from helpers.stream_plans import Kind, stream_network
from veilnet.agent.grid import CROSSING_LIMIT
from veilnet.plans.plan import Plan, make_plan

KINDS: tuple[Kind, ...] = ("white", "joint", "coloured", "dithered")
_DEVIATIONS = 8.0  # a plan whose reach lies nearer than this holds rows back, and an audit has to say so


def honest_plan(seed: int) -> Plan:
    """A plan whose agents let in whatever its network gives them to read: no two seeds give the same one."""
    rng = np.random.default_rng([seed, 99])
    network = stream_network(seed, KINDS[seed % len(KINDS)], agents=2)
    while True:
        plan = make_plan(
            network, {agent: _sanitizer(rng, network, agent) for agent in network.agents}, "test"
        )
        if all(_reach(plan, agent) > _DEVIATIONS for agent in network.agents):
            return plan


def _sanitizer(rng: np.random.Generator, network: vn.Network, agent: str) -> vn.Sanitizer:
    order, sent = int(rng.integers(1, 7)), int(rng.integers(1, 3))
    memory = random_memory(rng, order, 2, radius=float(1 - 10 ** rng.uniform(-2, -0.3)))
    return vn.Sanitizer(
        rng.standard_normal((sent, order + 2)),
        10 ** rng.uniform(-3, 1) * np.eye(sent),
        memory=memory,
        agent=agent,
        resolution=network.resolution.get(agent),
    )


def _reach(plan: Plan, agent: str) -> float:
    """How many deviations of each of its readings an agent lets in, all of them at once."""
    network, weights = plan.network, plan.sanitizers[agent].recipe.weights
    assert network.dynamics is not None
    assert network.dynamics.stationary is not None
    assert weights is not None
    mine = network.blocks.rows(network.position[agent])
    H = network.H[mine]
    variance = np.diag(H @ network.dynamics.stationary @ H.T + network.noise.matrix()[mine, mine])
    return float(CROSSING_LIMIT / (weights @ np.sqrt(variance)))
