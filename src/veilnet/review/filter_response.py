"""What a sanitizer with memory lets through: its response to each reading, at some frequencies.

A receiver who waits can run a filter of exact numbers backwards, so what counts is not one row but what the numbers
carry of a reading at each frequency: h(ω) = C_s (I - F e^{-iω})^-1 K + C_y. What holds at some frequencies holds at
almost all of them.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array, Booleans
from veilnet.agent.memory import impulses, response
from veilnet.agent.sanitizer import Sanitizer

_FREQUENCIES = 32  # what holds at so many holds at almost all
# A reading is in the span of what is sent when less than this part of it (units removed) is outside.
_OUTSIDE = 1e-7
# Less than this part of a reading, in what is sent, is next to nothing.
_LITTLE = 0.01
_MOST_ROWS = 100_000


def unrolled(sanitizer: Sanitizer, rows: int = 1) -> Sanitizer:
    """What the numbers of one row are made of: its readings, beside those of the rows before it, newest first.

    rows: how many are looked at. With one it is what the very first row tells. There is no memory any more.
    """
    memory = sanitizer.memory
    assert memory is not None
    shown = list(islice(impulses(sanitizer.compression, memory.transition, memory.gain), rows))
    return Sanitizer(
        np.concatenate(shown, axis=1),
        sanitizer.noise,
        grid=sanitizer.grid,
        limits=tuple(np.tile(edge, rows) for edge in sanitizer.edges),
        resolution=None if sanitizer.resolution is None else np.tile(sanitizer.resolution, rows),
        dither=np.tile(sanitizer.dither, rows),
        agent=sanitizer.agent,
    )


def fading(sanitizer: Sanitizer, part: float = _LITTLE) -> int:
    """In how many rows after its own a reading shows by more than a part (a hundredth) of what it ever does."""
    memory = sanitizer.memory
    if memory is None:
        return 0
    largest, last = np.zeros(memory.readings), 0
    shown = impulses(sanitizer.compression, memory.transition, memory.gain)
    for age, each in enumerate(islice(shown, _MOST_ROWS)):
        size = np.max(np.abs(each), axis=0, initial=0.0)  # of each reading in its own unit
        largest = np.maximum(largest, size)
        if np.any(size > part * largest):
            last = age
        elif age > 2 * last + memory.order:
            break
    return last


def frequency_responses(sanitizer: Sanitizer, rows: Array) -> NDArray[Any]:
    """h(ω) of some rows on (memory, reading), (frequencies, rows, readings); one without a memory."""
    angles = (np.arange(_FREQUENCIES) + 0.5) * (np.pi / _FREQUENCIES)
    memory = sanitizer.memory
    transition, gain = (None, None) if memory is None else (memory.transition, memory.gain)
    return response(rows, transition, gain, np.exp(-1j * angles))


def recoverable(whole: NDArray[Any], noisy: Booleans, place: int, outside: float = _OUTSIDE) -> float | None:
    """The least deviation with which one reading is recovered from all that is sent; None where nobody can.

    whole:   h(ω) of all numbers, in normal form; ``noisy`` those with noise of variance one.
    outside: the part of a reading, units removed, that may be outside the span of what is sent.
    """
    columns = np.sqrt(np.mean(np.sum(np.abs(whole) ** 2, axis=1), axis=0))
    columns = np.where(columns > 0, columns, 1.0)
    target = np.zeros(whole.shape[2])
    target[place] = 1.0
    variances = []
    for one in whole / columns:
        # Numbers without noise may be weighed as one likes: what they do not see is left to the others.
        free = _unseen_by(one[~noisy])
        weights = np.linalg.lstsq((one[noisy] @ free).T, target @ free, rcond=None)[0]
        if np.linalg.norm((one[noisy] @ free).T @ weights - target @ free) > outside:
            return None
        variances.append(float(np.sum(np.abs(weights) ** 2)))
    return float(np.sqrt(np.mean(variances)) / columns[place])


def _unseen_by(exact: NDArray[Any]) -> NDArray[Any]:
    """Orthonormal columns that numbers without noise do not see."""
    if not len(exact):
        return np.eye(exact.shape[1], dtype=complex)
    _, singular, directions = np.linalg.svd(exact, full_matrices=True)
    rank = int(np.sum(singular > _OUTSIDE * singular[0]))
    return np.asarray(np.conj(directions[rank:].T))
