"""The lattice that readings lie on, found in the readings themselves.

Readings that were averaged before they were written down lie on two lattices: all of them on a fine one (twelve
readings of 0.1 °C a minute have means in steps of 1/120 °C), and those of quiet minutes on the sensor's own. Who
knows that names the readings of every quiet row, unless they are dithered by the sensor's step: it is the coarsest
lattice that counts, if more than a few rows lie on it. A step that is a whole multiple of another one covers both.
Loggers that cut digits off move points of the sensor's lattice by a little (20.7, 20.79, 20.89, 21.0): values that
crowd around the points of a lattice count as lying on it.
"""

from __future__ import annotations

from math import log

import numpy as np

from veilnet._core.types import Array, Booleans, Integers

_ON_LATTICE = 1e-4  # of a step: how far rounding may move a value from its place
_FINEST_LATTICE = 1e-8  # of the range: anything finer is as good as continuous
_CROWDED = 0.12  # of a step: how far from their points values may crowd
_A_FEW = 0.02  # of the rows: so many more than by chance have to lie on a coarser lattice
_FEWEST_VALUES = 8  # on a coarser lattice
_MOST_TRIALS = 64  # so that a long log costs no more than a short one
_CHANCE = 1e-9  # that values of a fine lattice look as if they preferred a coarser one
# at most, that a value of no lattice is the most frequent one of its neighbourhood and lies on one
_BY_CHANCE = 0.01
ENOUGH_ROWS = 64
"""Rows from which a lattice that all of them lie on is none by chance."""


def step_of(column: Array) -> float:
    """The step of the coarsest lattice that more than a few of the values lie on; 0 where there is none."""
    return _step_and_phase(column)[0]


def lattice_of(readings: Array) -> tuple[Array, Array]:
    """(steps, phases) of the columns of (T, N) readings: y = phase + step * whole; steps of 0 where continuous."""
    found = np.array([_step_and_phase(column) for column in readings.T]).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def on_lattice(readings: Array, steps: Array, phases: Array) -> Booleans:
    """Which of the readings (..., N) lie on their lattice; those of no lattice do."""
    unit = np.where(steps > 0, steps, 1.0)
    off = np.abs(readings - phases - unit * np.rint((readings - phases) / unit))
    return np.asarray((off <= _ON_LATTICE * unit) | (steps == 0))


def _step_and_phase(column: Array) -> tuple[float, float]:
    """Values that come often are looked at by themselves, ever fewer of them; what they show must be no chance."""
    if not column.size:
        return 0.0, 0.0
    values, counts = _distinct(column)
    step, first = _common_step(values), float(values[0])
    for least in _trials(counts):
        often = values[counts >= least]
        if often.size < _FEWEST_VALUES:
            break
        exact = (_common_step(often), float(often[0]), _ON_LATTICE)
        for coarser, start, tolerance in (exact, (*_crowded_step(often, step), _CROWDED)):
            if coarser > 1.5 * step and _preferred(values, counts, step, coarser, start, tolerance):
                step, first = coarser, start
    return (step, float(first - step * np.rint(first / step))) if step > 0 else (0.0, 0.0)


def _distinct(column: Array) -> tuple[Array, Integers]:
    """The values and how often they come; those that differ by rounding (a third as 0.333 and 0.334) count as one."""
    values, counts = np.unique(column, return_counts=True)
    apart = np.diff(values) > _FINEST_LATTICE * float(values[-1] - values[0])
    starts = np.flatnonzero(np.concatenate([[True], apart]))
    return values[starts], np.add.reduceat(counts, starts)


def _common_step(values: Array) -> float:
    """The step of the lattice all values lie on, by Euclid's algorithm on all differences at once; 0 for none."""
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


def _crowded_step(values: Array, finer: float) -> tuple[float, float]:
    """(step, a point) of a lattice around whose points all values crowd; a step of 0 where there is none.

    The step is a whole multiple of that of the finer lattice on which all values lie, where there is one.
    """
    step, first = float(np.median(np.diff(values))), float(values[0])
    for _ in range(2):
        places = np.rint((values - first) / step)
        if places[-1] == places[0]:
            return 0.0, 0.0
        step, first = (float(each) for each in np.polyfit(places - places[0], values, 1))
    step = finer * float(np.rint(step / finer)) if finer > 0 else float(f"{step:.4g}")
    if step == 0:
        return 0.0, 0.0
    first = float(np.median(values - step * np.rint((values - first) / step)))
    off = np.abs(values - first - step * np.rint((values - first) / step))
    return (step, first) if np.max(off) <= _CROWDED * step else (0.0, 0.0)


def _trials(counts: Integers) -> Integers:
    """How often a value has to come to be looked at: every number there is, or some of many."""
    every = np.unique(counts)[1:]
    return every if every.size <= _MOST_TRIALS else every[:: -(-every.size // _MOST_TRIALS)]


def _preferred(
    values: Array, counts: Integers, step: float, coarser: float, first: float, tolerance: float
) -> bool:
    """Whether values of one lattice (a step of 0: of none) lie on a coarser one more often than by chance.

    Every point of the coarser lattice is compared with the points of the finer one around it: without a preference,
    the one that comes most often is any of them. A reading that stays at a value for hours does not change that.
    """
    many = coarser / step if step > 0 else np.inf
    chance = 2 * tolerance if np.isinf(many) else (2 * np.floor(tolerance * many) + 1) / many
    cells = np.rint((values - first) / coarser).astype(np.int64)
    on = np.abs(values - first - cells * coarser) <= tolerance * coarser
    if counts[on].sum() < (chance + _A_FEW * (1 - chance)) * counts.sum():
        return False
    _, cell = np.unique(cells, return_inverse=True)
    most = np.zeros(cell.max() + 1, dtype=counts.dtype)
    np.maximum.at(most, cell, counts)
    leading = counts == most[cell]
    won = np.bincount(cell[leading & on], minlength=most.size) / np.bincount(cell[leading])
    return _exceeds(float(np.mean(won)), most.size, max(chance, _BY_CHANCE))


def _exceeds(part: float, tried: int, chance: float) -> bool:
    """Whether the mean of so many numbers from 0 to 1 is above what is expected of each by no chance (Hoeffding)."""
    if part <= chance:
        return False
    divergence = part * log(part / chance)
    if part < 1:
        divergence += (1 - part) * log((1 - part) / (1 - chance))
    return tried * divergence > -log(_CHANCE)
