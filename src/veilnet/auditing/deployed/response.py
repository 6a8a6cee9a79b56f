"""What a sanitizer would send without noise, dither and rounding, with memory or without.

Written apart from the agent's own filter: row by row, as the definition says.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer

_MOST_DEVIATIONS = 12.0  # no draw is larger
_FORGOTTEN = 0.01


def combined(sanitizer: Sanitizer, readings: Array) -> Array:
    """What C acts on (T, k + n): (s_t, y_t - offset) of a stream that begins with the first row."""
    centred = readings - sanitizer.offset
    memory = sanitizer.memory
    if memory is None:
        return centred
    found = np.empty((len(centred), memory.order + centred.shape[1]))
    state = np.zeros(memory.order)
    for row, reading in enumerate(centred):
        state = memory.transition @ state + memory.gain @ reading
        found[row, : memory.order], found[row, memory.order :] = state, reading
    return found


def planned_answers(sanitizer: Sanitizer, readings: Array) -> Array:
    """C (s_t, y_t - offset) for every row (T, N_i) of a stream."""
    return np.asarray(combined(sanitizer, readings) @ sanitizer.compression.T)


def rows_to_forget(sanitizer: Sanitizer) -> int:
    """After how many rows what a memory began with moves no number by more than a hundredth of its step."""
    memory, grid = sanitizer.memory, sanitizer.grid
    if memory is None or memory.start is None or grid is None:
        return 0
    largest = _MOST_DEVIATIONS * np.sqrt(np.diag(memory.start))
    kept, power, rows = sanitizer.compression[:, : memory.order], memory.transition, 1
    while np.any(np.abs(kept @ power) @ largest > _FORGOTTEN * grid):
        power, rows = power @ power, 2 * rows
    return rows


def first_numbers(sanitizer: Sanitizer) -> Array:
    """Covariance of what the drawn memory and the noise add to the numbers of the very first row."""
    memory = sanitizer.memory
    assert memory is not None
    assert memory.start is not None
    entered = sanitizer.compression[:, : memory.order] @ memory.transition
    return np.asarray(entered @ memory.start @ entered.T + sanitizer.noise)


def rounding_allowed(sanitizer: Sanitizer, readings: Array) -> Array:
    """By how much floating point may move each answer: a small multiple of the sum of all terms in it.

    An error in a memory lives on as long as the memory does.
    """
    centred = np.abs(readings - sanitizer.offset)
    memory = sanitizer.memory
    if memory is None:
        return 4e-15 * (sanitizer.readings + 2) * (centred @ np.abs(sanitizer.compression).T)
    kept, direct = np.split(sanitizer.compression, [memory.order], axis=1)
    most = np.max(centred, axis=0, initial=0.0)
    summed = np.abs(memory.transition) @ (memory.held @ most) + np.abs(memory.gain) @ most
    terms = sanitizer.readings + 2 * memory.order + 2
    return np.asarray(4e-15 * terms * (memory.passed_on(kept) @ summed + centred @ np.abs(direct).T))


def reach_of_dither(sanitizer: Sanitizer) -> Array:
    """(sent,): how far dither alone may ever move each number."""
    width = sanitizer.dither_width
    memory = sanitizer.memory
    if memory is None:
        return np.asarray(np.abs(sanitizer.compression) @ (width / 2.0))
    kept, direct = np.split(sanitizer.compression, [memory.order], axis=1)
    return np.asarray((memory.passed_on(kept) @ np.abs(memory.gain) + np.abs(direct)) @ (width / 2.0))


def impulse(sanitizer: Sanitizer) -> Array:
    """(sent, readings): what a reading adds to the numbers of its own row, by way of the memory too."""
    memory = sanitizer.memory
    if memory is None:
        return sanitizer.compression
    kept, direct = np.split(sanitizer.compression, [memory.order], axis=1)
    return np.asarray(kept @ memory.gain + direct)
