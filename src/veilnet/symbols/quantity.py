"""A public or private column, classes or numbers, and what is counted of it in each cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.types import AnyArray, Array, Integers


@dataclass(frozen=True, eq=False)
class Quantity:
    """A column.

    values:  of each row: the place of its class in ``classes``, or a number.
    classes: the values it can have, in order; empty for numbers.
    """

    name: str
    values: AnyArray
    classes: tuple[Any, ...]

    def take(self, rows: AnyArray) -> Quantity:
        """The same of some rows."""
        return replace(self, values=self.values[rows])

    def within(self, edges: tuple[float, float]) -> Quantity:
        """Numbers as parts of an interval, clipped to it; classes as they are."""
        if self.classes:
            return self
        return replace(self, values=np.clip((self.values - edges[0]) / (edges[1] - edges[0]), 0.0, 1.0))

    def counted(self, place: Integers, cells: int) -> Array:
        """What each cell has: (cells, K) rows of each class, or (cells, 3) rows, sum and sum of squares of numbers.

        place: the cell of each row.
        """
        if self.classes:
            width = len(self.classes)
            found = np.bincount(place * width + self.values, minlength=cells * width)
            return found.reshape(cells, width).astype(float)
        powers = [np.bincount(place, self.values**power, minlength=cells) for power in range(3)]
        return np.stack(powers, axis=1)


def leak_of(counts: Array, is_class: bool) -> float:
    """How much the best rule for these very rows learns, 0 to 1.

    How often it names the class; or 1 less its mean square error, of numbers in [0, 1].
    """
    if is_class:
        return float(counts.max(axis=1).sum() / counts.sum())
    rows, total, squares = counts.T
    return float(1 - (squares - total**2 / rows).sum() / rows.sum())
