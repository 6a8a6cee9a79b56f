"""What a sanitizer is given, read and checked once."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_matrix, as_vector
from veilnet.agent.grid import checked_steps
from veilnet.agent.memory import Memory
from veilnet.model.readings import read_resolution


def read_compression(compression: Any, noise: Any) -> Array:
    """C, rows of the numbers sent; the identity where only noise is given."""
    if compression is None:
        size = np.atleast_1d(as_array(noise, "noise")).shape[0]
        return np.eye(size)
    array = as_array(compression, "compression")
    if array.ndim == 2 and array.shape[0] == 0 and array.shape[1] > 0:
        return array
    return as_matrix(array, "compression")


def read_memory(memory: Memory | None, compression: Any) -> Memory | None:
    """The memory, checked together with whether there is a compression to use it."""
    if memory is None:
        return None
    if not isinstance(memory, Memory):
        raise InvalidNetwork(
            f"memory: expected a veilnet.Memory, found {type(memory).__name__}; write Memory(transition=F, gain=K)"
        )
    if compression is None:
        raise InvalidNetwork(
            "compression: expected which numbers are sent of the memory and the readings, found none; give C, "
            f"with {memory.order + memory.readings} columns"
        )
    return memory


def readings_of_columns(columns: int, memory: Memory) -> int:
    """How many readings a compression with so many columns leaves beside a memory."""
    if columns != memory.order + memory.readings:
        raise InvalidNetwork(
            f"compression: expected {memory.order + memory.readings} columns, {memory.order} for the memory and "
            f"{memory.readings} for the readings, found {columns}"
        )
    return memory.readings


def read_reading_count(readings: Any) -> int:
    """A positive number of readings."""
    if not isinstance(readings, int | np.integer) or readings < 1:
        raise InvalidNetwork(f"readings: expected a positive whole number, found {readings!r}")
    return int(readings)


def read_lattice(resolution: Any, readings: int) -> Array:
    """The resolution of each reading."""
    try:
        return read_resolution(resolution, readings)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"resolution: {error}") from None


def read_grid(grid: Any, sent: int) -> Array:
    """The step of each number sent, powers of two."""
    steps = as_array(grid, "grid")
    steps = np.array(np.broadcast_to(steps, (sent,))) if steps.ndim == 0 else as_vector(steps, "grid", sent)
    return checked_steps(steps, "grid")
