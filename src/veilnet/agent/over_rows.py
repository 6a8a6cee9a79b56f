"""A sanitizer with a memory as one without, over the first rows of its stream: for whoever asks what it tells.

The memory begins at zero, which everybody knows, so the numbers of T rows are one linear function of the readings of
those rows: z_t = C_y y_t + Σ_j C_s F^j K y_{t-j}. What they tell of the first row is told of no later row more: of
those the receiver does not know for sure what the memory held before.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer

__all__ = ["fading", "first_row", "first_rows"]

_MOST_ROWS = 16
_MOST_READINGS = 256  # in all rows looked at
_LITTLE = 0.01


def first_row(sanitizer: Sanitizer) -> Sanitizer:
    """What the numbers of the first row are made of, without a memory."""
    return _plain(sanitizer, 1)


def first_rows(sanitizer: Sanitizer) -> Sanitizer:
    """What the numbers of the first rows together are made of: as many as the memory needs to show all it holds."""
    rows = min(sanitizer.order + 2, _MOST_ROWS, max(1, _MOST_READINGS // sanitizer.readings))
    return _plain(sanitizer, rows)


def fading(sanitizer: Sanitizer) -> int:
    """After how many rows less than a hundredth of a reading is left in what is sent; 0 where it never enters."""
    memory = sanitizer.memory
    if memory is None:
        return 0
    through, kept, largest, last = sanitizer.compression[:, : memory.order], memory.gain, 0.0, 0
    for age in range(100_000):
        size = float(np.max(np.abs(through @ kept), initial=0.0))
        largest = max(largest, size)
        last = age + 1 if size > _LITTLE * largest else last
        if age > 2 * last + memory.order:
            break
        kept = memory.transition @ kept
    return last


def _plain(sanitizer: Sanitizer, rows: int) -> Sanitizer:
    memory, sent, readings = sanitizer.memory, sanitizer.sent, sanitizer.readings
    assert memory is not None
    through, direct = sanitizer.compression[:, : memory.order], sanitizer.compression[:, memory.order :]
    responses: list[Array] = []
    kept = memory.gain
    for age in range(rows):
        responses.append(through @ kept + (direct if age == 0 else 0.0))
        kept = memory.transition @ kept
    compression = np.zeros((rows * sent, rows * readings))
    for row in range(rows):
        for age in range(row + 1):
            place = (
                slice(row * sent, (row + 1) * sent),
                slice((row - age) * readings, (row - age + 1) * readings),
            )
            compression[place] = responses[age]
    return Sanitizer(
        compression,
        np.kron(np.eye(rows), sanitizer.noise),
        grid=None if sanitizer.grid is None else np.tile(sanitizer.grid, rows),
        limits=None if sanitizer.limits is None else tuple(np.tile(edge, rows) for edge in sanitizer.limits),
        resolution=None if sanitizer.resolution is None else np.tile(sanitizer.resolution, rows),
        agent=sanitizer.agent,
    )
