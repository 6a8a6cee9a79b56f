"""What a cell of a table says: a number, that there is none, or a text. One answer for fits and for agents.

Numbers are written as computers do, or with a decimal comma where commas do not separate cells. Cells of JSON,
Parquet and Excel have types of their own: there a number that is written as text is none.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

_MISSING = frozenset({"", "-", "--", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none"})
# What loggers write instead of a number. In a column of texts they are texts like others: ok, fault.
_FAILED = frozenset({"missing", "error", "err", "fail", "fault"})
_OTHER_MISSING = ("NAType", "NaTType", "MaskedConstant")  # of pandas and NumPy, which need not be there
_DELIMITERS = (",", ";", "\t")
_OF = ":"  # between a column of texts and the one that counts as 1
_RUN = ("=", "+", "-", "@", "\t", "\r", "'")


class NoNumber(ValueError):
    """What a cell holds in place of a number.

    text:  whether it may be one of a column of texts.
    place: which of several cells it is, from 0.
    """

    def __init__(self, found: str, *, text: bool = False) -> None:
        super().__init__(found)
        self.text, self.place = text, 0


@dataclass(frozen=True)
class Dialect:
    """How the cells of a table are written.

    delimiter: what stands between them; empty where each has a type of its own.
    """

    delimiter: str = ""

    def split(self, line: str) -> list[str]:
        """The cells of a line without its end; ValueError where quotes do not match."""
        if '"' not in line:
            return line.split(self.delimiter)
        try:
            (cells,) = csv.reader([line], delimiter=self.delimiter, strict=True)
        except csv.Error as error:
            raise ValueError(str(error)) from None
        return cells

    def number(self, cell: Any) -> float:
        """A cell as a number, NaN where it says that there is none; NoNumber for anything else."""
        if isinstance(cell, str):
            return self._written(cell)
        if is_missing(cell):
            return math.nan
        if isinstance(cell, bool | bytes | complex) or not hasattr(cell, "__float__"):
            raise NoNumber(f"{type(cell).__name__}; convert it first")
        try:
            return float(cell)
        except OverflowError:
            raise NoNumber("a number that is too large") from None

    def counts_as_one(self, cell: Any, one: str) -> Any:
        """A cell as one of numbers: 1 where it says this text or number, 0 where another, else it is missing."""
        if is_number(one):  # the column is one of numbers, as the fit found it
            number = self.number(cell)
            found = number if math.isnan(number) else float(number == float(one))
        elif is_missing(cell, among_texts=True):
            found = math.nan
        elif not isinstance(cell, str) or is_number(cell):
            raise NoNumber("a number; mend that cell")
        else:
            found = float(cell.strip() == one)
        return repr(found) if self.delimiter else found

    def numbers(self, cells: Sequence[Any]) -> list[float]:
        """Cells as numbers, as :meth:`number` reads them."""
        if self.delimiter:
            try:
                quickly = list(map(float, cells))
                if _plain("".join(cells)):
                    return quickly
            except ValueError:
                pass
        found: list[float] = []
        try:
            for cell in cells:
                found.append(self.number(cell))
        except NoNumber as error:
            error.place = len(found)
            raise
        return found

    def _written(self, cell: str) -> float:
        if self.delimiter and is_number(cell):
            return float(cell)
        if is_missing(cell):
            return math.nan
        if is_number(cell):
            raise NoNumber("a number that is written as text; convert it first")
        with_point = cell.replace(",", ".", 1)
        if not self.delimiter or not is_number(with_point):
            raise NoNumber("text; mend that cell", text=True)
        if self.delimiter == ",":
            raise NoNumber("a decimal comma; write decimals with a point, or put ; between cells")
        return float(with_point)


TYPED = Dialect()


def dialect_of(line: str) -> Dialect:
    """How a table is written, by its first line: as numbers if it can be, and else in as many cells as it can be."""

    def seen(dialect: Dialect) -> tuple[bool, int]:
        try:
            cells = dialect.split(line)
        except ValueError:
            return False, 0
        try:
            return not all(map(math.isnan, dialect.numbers(cells))), len(cells)
        except NoNumber:
            return False, len(cells)

    return max(map(Dialect, _DELIMITERS), key=seen)


def is_missing(cell: Any, *, among_texts: bool = False) -> bool:
    """Whether a cell says that there is no value."""
    if isinstance(cell, str):
        word = cell.strip().lower()
        return word in _MISSING or (not among_texts and word in _FAILED)
    if cell is None or type(cell).__name__ in _OTHER_MISSING:
        return True
    return isinstance(cell, float) and math.isnan(cell)


def column_of(name: str, known: Collection[str]) -> tuple[str, str]:
    """(the column that a name is of, the text that counts as 1 in it): of ``weather:rain``, if weather is known."""
    column, mark, text = name.rpartition(_OF)
    return (column, text) if mark and name not in known and column in known else (name, "")


def is_number(text: str) -> bool:
    """Whether a text reads as a number, to others than Python too: 1_000 and Arabic digits do not."""
    try:
        float(text)
    except ValueError:
        return False
    return _plain(text)


def as_cell(text: str) -> str:
    """A text as a cell that no spreadsheet runs: an apostrophe before one that begins as a formula does.

    One that begins with an apostrophe gets another; numbers stay.
    """
    return f"'{text}" if text.startswith(_RUN) and not is_number(text) else text


def _plain(text: str) -> bool:
    return text.isascii() and "_" not in text
