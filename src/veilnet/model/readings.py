"""What is known of an agent's readings besides the model: their names, and what is credible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_names, freeze


def read_reading_names(names: Sequence[str], readings: int) -> tuple[str, ...]:
    """One name per reading, or none at all."""
    found = as_names(list(names), "names")
    if found and len(found) != readings:
        raise InvalidNetwork(f"names: expected {readings}, one per reading, found {len(found)}")
    return found


def read_limits(limits: Any, readings: int) -> tuple[Array, Array]:
    """(lowest, highest) credible value of each reading."""
    try:
        low, high = limits
    except (TypeError, ValueError) as error:
        raise InvalidNetwork(f"limits: expected (lowest, highest), found {limits!r}") from error
    edges = []
    for value, name in ((low, "lowest limit"), (high, "highest limit")):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.asarray(np.nan)
        if np.any(np.isnan(array)) or array.shape not in ((), (readings,)):
            raise InvalidNetwork(f"{name}: expected one number or {readings}, found {value!r}")
        edges.append(np.array(np.broadcast_to(array, (readings,))))
    if np.any(edges[0] >= edges[1]):
        raise InvalidNetwork("limits: expected lowest below highest for every reading")
    freeze(*edges)
    return edges[0], edges[1]
