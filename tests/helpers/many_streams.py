"""Stream networks small enough for both ways of computing them, and a switch that has them evaluated by stacks."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import random_stream
from veilnet.bounds.streams import knowledge
from veilnet.model import stream_size


def as_stacks(monkeypatch: pytest.MonkeyPatch, most_joint: int = 0) -> None:
    """From here on streams of more than so many agents times parameters are evaluated by stacks."""
    monkeypatch.setattr(stream_size, "MOST_JOINT", most_joint)
    knowledge.raw_stream.cache_clear()


def wandering() -> vn.Network:
    """A position that runs away, its speed, a random walk and something that returns: all of it is seen."""
    rng = np.random.default_rng(5)
    moves = np.array([[1.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0.8]])
    return vn.Network(
        {f"a{k}": rng.standard_normal((3, 4)) for k in range(4)},
        1.0,
        rng.standard_normal((1, 4)),
        {"g": rng.standard_normal((1, 4))},
        dynamics=vn.Dynamics(moves, np.eye(4)),
    )


def apart() -> vn.Network:
    """Two random walks that have nothing to do with one another: what is private stays without bound."""
    return vn.Network(
        {"a": np.eye(2), "b": np.eye(2), "c": [[0.0, 1.0]]},
        1.0,
        [[1.0, 0.0]],
        {"g": [[0.0, 1.0]], "h": [[1.0, 1.0]], "u": [[2.0, -1.0]]},
        dynamics=vn.Dynamics(np.eye(2), np.eye(2)),
    )


def renewed_in_part() -> vn.Network:
    """Q singular, one agent's readings on a lattice."""
    drawn = random_stream(0)
    assert drawn.dynamics is not None
    noise = np.diag([1.0, 0.5, 0.0, 0.0])
    return drawn.replace(
        dynamics=vn.Dynamics(drawn.dynamics.transition, noise), resolution={"a0": 0.5, "a1": 0.1}
    )


STREAMS = {
    "one public row": random_stream(0, mean=True),
    "mixed sizes": random_stream(1, sizes=(1, 2, 4, 4, 2), public_rows=2, radius=0.9, mean=True),
    "quickly forgotten": random_stream(2, sizes=(3, 3, 3, 3, 3), public_rows=2, radius=0.3),
    "sending readings": random_stream(3, sizes=(1, 1, 2, 6), public_rows=3, radius=0.97),
    "singular": renewed_in_part(),
    "wandering": wandering(),
    "apart": apart(),
}
