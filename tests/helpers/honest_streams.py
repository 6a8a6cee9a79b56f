"""Stream plans drawn at random and deployed as they are: memories short and long, noise strong and weak."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

import veilnet as vn
from helpers.memories import random_memory
from helpers.stream_plans import Kind, stream_network
from veilnet.plans.plan import Plan, make_plan

KINDS: tuple[Kind, ...] = ("white", "joint", "coloured", "dithered")


def honest_plan(seed: int) -> Plan:
    """A plan whose agents let in whatever its network gives them to read: no two seeds give the same one."""
    rng = np.random.default_rng([seed, 99])
    network = stream_network(seed, KINDS[seed % len(KINDS)], agents=2)
    while True:
        sanitizers = {agent: _sanitizer(rng, network, agent) for agent in network.agents}
        with suppress(vn.InvalidNetwork):  # its grid does not reach as far as its readings go
            return make_plan(network, sanitizers, "test")


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
