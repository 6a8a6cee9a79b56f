"""The resolution of readings as their data show it, and the noise that a lattice alone brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from veilnet._core.types import Array
from veilnet.model.lattice import ENOUGH_ROWS, step_of
from veilnet.model.readings import dither_variance

Places = TypeVar("Places", slice, Array)


def found_resolution(readings: Array, owners: Mapping[str, Places]) -> dict[str, Array]:
    """agent -> step of each of its readings (T, N), 0 where they show none.

    That readings are continuous takes enough rows to say; an agent is left out where there are too few for that.
    """
    steps = np.array([step_of(column) for column in readings.T])
    enough = len(readings) >= ENOUGH_ROWS
    return {agent: steps[mine] for agent, mine in owners.items() if enough or np.all(steps[mine] > 0)}


def with_rounding(noise: Array, resolution: Mapping[str, Array], owners: Mapping[str, Places]) -> Array:
    """The noise covariance, no variance below step²/12.

    A parameter that never moves by a step can be fitted with less; new rows will err by as much as rounding does.
    """
    least = np.zeros(len(noise))
    for agent, steps in resolution.items():
        least[owners[agent]] = dither_variance(steps)
    missing = np.maximum(least - np.diag(noise), 0.0)
    return np.asarray(noise + np.diag(missing)) if np.any(missing) else noise
