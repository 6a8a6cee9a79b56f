"""The lattice that readings lie on, found in the readings themselves."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array

_ON_LATTICE = 1e-4  # of a step: how far rounding may move a value from its place
_FINEST_LATTICE = 1e-8  # of the range: anything finer is as good as continuous
ENOUGH_ROWS = 64
"""Rows from which a lattice that all of them lie on is none by chance."""


def step_of(column: Array) -> float:
    """The step of the lattice all values lie on; 0 where there is none that could be told from a continuum.

    Euclid's algorithm on the differences of neighbouring values, all at once.
    """
    values = np.unique(column)
    differences = np.diff(values)
    if differences.size == 0:
        return 0.0
    finest = _FINEST_LATTICE * float(values[-1] - values[0])
    step = float(np.min(differences))
    while step > finest:
        remainders = np.abs(differences - step * np.rint(differences / step))
        off = remainders[remainders > _ON_LATTICE * step]
        if off.size == 0:
            whole = float(values[-1] - values[0])  # the multiple in which rounding weighs least
            return float(f"{whole / round(whole / step):.10g}")
        step = float(np.min(off))
    return 0.0


def lattice_of(readings: Array) -> tuple[Array, Array]:
    """(steps, phases) of the columns of (T, N) readings: y = phase + step * whole; steps of 0 where continuous."""
    steps = np.array([step_of(column) for column in readings.T])
    unit = np.where(steps > 0, steps, 1.0)
    first = readings[0]
    return steps, np.where(steps > 0, first - unit * np.rint(first / unit), 0.0)
