"""Streams drawn at random, and plans for them with memory and noise."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import veilnet as vn
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.streams.share_filters import share_filters

Kind = Literal["white", "joint", "coloured", "dithered", "walk"]


def stream_network(
    seed: int, kind: Kind = "white", *, agents: int = 3, size: int = 3, **more: Any
) -> vn.Network:
    """x of a few parameters that move, two readings an agent, one public and one private row.

    white: independent noise; joint: correlated between agents; coloured: it carries over; dithered: readings have
    a resolution; walk: x is a random walk, which never returns.
    """
    rng = np.random.default_rng([seed, 1313])
    transition = rng.standard_normal((size, size))
    transition *= 0.9 / np.max(np.abs(np.linalg.eigvals(transition)))
    if kind == "walk":
        transition = np.eye(size)
    root = rng.standard_normal((size, size))
    observe = {f"a{k}": rng.standard_normal((2, size)) for k in range(agents)}
    noise: Any = 0.5
    if kind == "joint":
        half = rng.standard_normal((2 * agents, 2 * agents))
        noise = half @ half.T / (2 * agents) + 0.2 * np.eye(2 * agents)
    elif kind == "coloured":
        noise = vn.ColouredNoise(memory=0.8, innovation=0.3, floor=0.1)
    if kind == "dithered":
        more["resolution"] = 0.25
    return vn.Network(
        observe,
        noise,
        rng.standard_normal((1, size)),
        {"g": rng.standard_normal((1, size))},
        dynamics=vn.Dynamics(transition, root @ root.T / size + 0.1 * np.eye(size)),
        **more,
    )


def noisy_stream_plan(network: vn.Network, noise: float = 0.1) -> Plan:
    """Share filters with some noise on what they send: neither perfect nor exact."""
    shares = share_filters(network).sanitizers
    scaled = {
        agent: s.replace(noise=noise * np.diag(np.diag(s.compression @ s.compression.T)))
        for agent, s in shares.items()
    }
    return make_plan(network, scaled, "test")
