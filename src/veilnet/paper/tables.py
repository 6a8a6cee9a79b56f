"""Tables of numbers as CSV text that reads back to the same numbers, and columns of them to compute with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array, Booleans


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
