"""Values of a calibration table that stand alone: named by row and column, so that someone can look at them.

Two kinds. A value beyond the limits that its own column proposes (:mod:`veilnet.calibration.limits`) would be refused
at the agent, so its row is no part of what a network has to describe: it is left out of the fit. A reading within
its limits that the parameters leave far from the others can come again: it stays, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.calibration.limits import bulk, credible_limits

__all__ = ["Outlier", "beyond_limits", "outliers", "worst_of_each"]


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


def beyond_limits(columns: Array) -> Booleans:
    """(T, columns): which values lie beyond the limits their own column proposes."""
    edges = np.array([credible_limits(column) for column in columns.T])
    return np.asarray((columns < edges[:, 0]) | (columns > edges[:, 1]))


def far_from_explained(residuals: Array) -> Booleans:
    """(T, N): which residuals are further from all others than these are spread."""
    edges = np.array([bulk(column, reach=1.0) for column in residuals.T])
    return np.asarray((residuals < edges[:, 0]) | (residuals > edges[:, 1]))


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
