"""Tables of numbers as CSV text that reads back to the same numbers, and bands of 95 % for columns by a bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array, Booleans

Found = TypeVar("Found")


def csv_lines(rows: Iterable[Sequence[float]]) -> str:
    """Rows as CSV lines: whole numbers as such, others to their last digit, "inf" and "nan" by name."""
    return "".join(",".join(_cell(value) for value in row) + "\n" for row in rows)


def _cell(value: float) -> str:
    return str(int(value)) if isinstance(value, int | np.integer) else repr(float(value))


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length."""

    columns: tuple[str, ...]
    values: Array

    def __getitem__(self, column: str) -> Array:
        return np.asarray(self.values[:, self.columns.index(column)])

    def where(self, **wanted: float) -> Table:
        """The rows with these values."""
        keep: Booleans = np.ones(len(self.values), bool)
        for column, value in wanted.items():
            keep &= self[column] == value
        return Table(self.columns, self.values[keep])

    def levels(self, column: str) -> list[float]:
        """The values a column takes, ascending."""
        return [float(value) for value in np.unique(self[column])]

    def series(self, line: str, along: str, measure: Callable[[Table], Found]) -> dict[float, list[Found]]:
        """Level of one column -> what is measured of the rows at each level of another."""
        return {
            level: [measure(self.where(**{line: level, along: other})) for other in self.levels(along)]
            for level in self.levels(line)
        }

    @cached_property
    def draws(self) -> int:
        """How many draws the table holds."""
        return len(np.unique(self["draw"]))


def read_table(text: str, columns: tuple[str, ...]) -> Table:
    """A table from CSV text with a header."""
    header, *lines = text.splitlines()
    if header != ",".join(columns):
        raise VeilnetError(f"table: expected the columns {','.join(columns)}, found {header[:200]!r}")
    values = [[float(cell) for cell in line.split(",")] for line in lines]
    return Table(columns, np.array(values, dtype=np.float64).reshape(-1, len(columns)))


_RESAMPLES = 1000
_BAND = (2.5, 97.5)


@dataclass(frozen=True)
class Summary:
    """A sample in few numbers; NaNs (draws for which there is nothing to measure) are left out.

    outliers_rule: the mean lies outside the middle half of the draws, so a few of them decide it.
    """

    count: int
    mean: float
    mean_band: tuple[float, float]
    median: float
    median_band: tuple[float, float]
    outliers_rule: bool


def summarize(sample: Array) -> Summary:
    """Mean and median with bands; infinite values make the mean infinite and its band with it."""
    kept = np.sort(sample[~np.isnan(sample)])
    if kept.size == 0:
        nothing = (float("nan"), float("nan"))
        return Summary(0, float("nan"), nothing, float("nan"), nothing, False)
    rng = np.random.default_rng(0)  # the band belongs to the sample: same sample, same band
    resampled = kept[rng.integers(kept.size, size=(_RESAMPLES, kept.size))]
    middle = np.quantile(kept, [0.25, 0.5, 0.75], method="inverted_cdf")
    mean = float(np.mean(kept))
    return Summary(
        count=int(kept.size),
        mean=mean,
        mean_band=_band(np.mean(resampled, axis=1)),
        median=_median(kept),
        median_band=_band(np.array([_median(each) for each in np.sort(resampled, axis=1)])),
        outliers_rule=bool(not middle[0] <= mean <= middle[2]),
    )


def _band(values: Array) -> tuple[float, float]:
    low, high = np.percentile(values, _BAND, method="inverted_cdf")
    return float(low), float(high)


def _median(ascending: Array) -> float:
    """The median of sorted values; np.median warns of infinite neighbours."""
    low, high = ascending[(ascending.size - 1) // 2], ascending[ascending.size // 2]
    return float(low if low == high else (low + high) / 2)
