"""Values of a calibration table that stand alone: named by row and column, so that someone can look at them.

Two kinds. A value beyond the limits that its own column proposes (:mod:`veilnet.calibration.limits`) would be refused
at the agent, so its row is no part of what a network has to describe: it is left out of the fit. A reading within
its limits that the parameters leave far from the others can come again: it stays, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.calibration.limits import bulk, credible_limits

_MANY_VALUES = 50  # different ones, of a reading that could move
_OFTEN = 0.02  # part of the rows that have one value, where it counts as often
_BESIDE = 10.0  # times as often as the next value: 0, -1 or 999 among readings
_LONG = 50  # rows in a row at one value, at least
_LONGER = 20.0  # times as long as 19 of 20 such runs


@dataclass(frozen=True)
class Outlier:
    """One value that stands alone.

    column:     where it is.
    row:        which row of the table's data, from 1.
    deviations: how far it is from the rest: from the middle of the column, in deviations of the values that do
                not stand alone; where it was kept, of what the parameters leave of them.
    kept:       whether its row stayed in the fit.
    """

    column: str
    row: int
    deviations: float
    kept: bool


def beyond_limits(
    columns: Array, limits: Callable[[Array], tuple[float, float]] = credible_limits
) -> Booleans:
    """(T, columns): which values lie beyond the limits their own column proposes."""
    edges = np.array([limits(column) for column in columns.T])
    return np.asarray((columns < edges[:, 0]) | (columns > edges[:, 1]))


def far_from_explained(residuals: Array) -> Booleans:
    """(T, N): which residuals are further from all others than these are spread."""
    return beyond_limits(residuals, partial(bulk, reach=1.0))


def outliers(
    columns: Array, alone: Booleans, names: Sequence[str], numbers: Integers, *, kept: bool
) -> tuple[Outlier, ...]:
    """The values marked as alone, column by column.

    columns: (T, columns) where they stand; names: of the columns; numbers: (T,) which row of the table each row is.
    """
    found = []
    for place, name in enumerate(names):
        column, mine = columns[:, place], alone[:, place]
        others = column[~mine]
        middle, scale = float(np.median(others)), float(np.std(others))
        for row in np.flatnonzero(mine):
            away = abs(float(column[row]) - middle) / scale if scale > 0 else np.inf
            found.append(Outlier(name, int(numbers[row]), away, kept))
    return tuple(found)


def worst_of_each(outliers: Sequence[Outlier]) -> list[str]:
    """A sentence for each column: the row furthest away, and how far. For a screen alone: it tells the value."""
    columns = dict.fromkeys(one.column for one in outliers)
    sentences = []
    for column in columns:
        mine = [one for one in outliers if one.column == column]
        worst = max(mine, key=lambda one: one.deviations)
        rows = f"row {worst.row}" if len(mine) == 1 else f"{len(mine)} rows, worst row {worst.row}"
        sentences.append(f"Outlier in {column}: {rows}, {worst.deviations:.3g} deviations away.")
    return sentences


def stays_at_one_value(columns: Array, names: Sequence[str], segments: Integers) -> list[str]:
    """A sentence for each reading that has one value far more often than any other, or stays at one for long.

    A code for "no value" within credible limits (0, -1), or a sensor that is stuck. For a screen alone.
    """
    sentences = []
    for column, name in zip(columns.T, names, strict=True):
        values, counts = np.unique(column, return_counts=True)
        if values.size <= _MANY_VALUES:
            continue
        most = int(np.argmax(counts))
        often = counts[most] > max(_OFTEN * column.size, _BESIDE * np.sort(counts)[-2])
        begins = np.flatnonzero(np.concatenate([[True], (np.diff(column) != 0) | (np.diff(segments) != 0)]))
        runs = np.diff(np.append(begins, column.size))
        longest = int(np.argmax(runs))
        long = runs[longest] >= max(_LONG, _LONGER * np.quantile(runs, 0.95))
        if often or long:
            value, count = (column[begins[longest]], runs[longest]) if long else (values[most], counts[most])
            how = "rows in a row" if long else "rows"
            sentences.append(
                f"{name} is {value:.6g} in {count} {how}: a code for no value, or a sensor that is stuck? If so, "
                "leave these rows out and fit again."
            )
    return sentences
