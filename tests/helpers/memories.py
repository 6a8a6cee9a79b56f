"""Sanitizers that keep something of the past, drawn at random, and what they send computed row by row."""

from __future__ import annotations

import numpy as np

import veilnet as vn
from veilnet._core.types import Array


def random_memory(rng: np.random.Generator, order: int, readings: int, radius: float = 0.9) -> vn.Memory:
    """A memory whose transition has a given spectral radius."""
    transition = rng.normal(size=(order, order))
    transition *= radius / np.max(np.abs(np.linalg.eigvals(transition)))
    return vn.Memory(transition, rng.normal(size=(order, readings)))


def with_memory(
    rng: np.random.Generator,
    *,
    readings: int,
    order: int,
    sent: int,
    noise: float = 0.0,
    agent: str = "kitchen",
) -> vn.Sanitizer:
    """A sanitizer that sends combinations of its memory and its readings, on a grid."""
    return vn.Sanitizer(
        rng.normal(size=(sent, order + readings)),
        noise * np.eye(sent),
        memory=random_memory(rng, order, readings),
        offset=rng.normal(size=readings),
        grid=2.0**-14,
        agent=agent,
    )


def sent_row_by_row(sanitizer: vn.Sanitizer, readings: Array) -> Array:
    """C (s, y - offset) for each row, nothing for rows that are not a number: the definition, in a plain loop."""
    memory = sanitizer.memory
    assert memory is not None
    state = np.zeros(memory.order)
    rows = []
    for row in readings - sanitizer.offset:
        if not np.all(np.isfinite(row)):
            state = memory.transition @ state
            continue
        state = memory.transition @ state + memory.gain @ row
        rows.append(sanitizer.compression @ np.concatenate([state, row]))
    return np.array(rows).reshape(len(rows), sanitizer.sent)
