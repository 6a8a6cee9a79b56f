"""Rows of numbers that come line by line, in constant memory: what readings and messages share.

Rows are counted or tell their number or time, and a line is refused with a reason that never quotes it. What a line
of readings is stands in :mod:`veilnet.io.reading_streams`, what a message is in :mod:`veilnet.io.message_streams`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, cast

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.io.cells import Dialect, NoNumber, column_of, is_number
from veilnet.io.following import Following
from veilnet.io.row_keys import COUNTED, LARGEST_ROW, Clock, RowKey, key_of
from veilnet.io.sources import Line, RowSource

Format = Literal["csv", "jsonl"]


@dataclass
class Block:
    """Some lines, parsed: the rows that are numbers, and why others are not.

    refused holds (line, row or None where it is not known, reason).
    """

    rows: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    refused: list[tuple[int, int | None, str]] = field(default_factory=list)

    def values(self, columns: int) -> Array:
        """The numbers as (rows, columns)."""
        return np.array(self.numbers, dtype=np.float64).reshape(len(self.numbers), columns)


class Refused(Exception):
    """Why a line is refused; the row if it is known."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.row = row


class Repeated(Exception):
    """A line that came before, the same in every number."""


def in_windows(blocks: Iterator[Block], window: int) -> Iterator[Block]:
    """Blocks of rows as blocks of windows: rows 1 to ``window`` side by side, then those after them, and so on.

    A window is known by its last row. It is refused whole where one of its rows is, or has no line. Rows after the
    last whole window are left out.
    """
    rows: list[list[float]] = []  # of the window that is being read
    number, line, reason = 0, 0, ""
    for block in blocks:
        found = Block(refused=[each for each in block.refused if each[1] is None])
        read = [(row, 0, "", each) for row, each in zip(block.rows, block.numbers, strict=True)]
        read += [(row, place, why, []) for place, row, why in block.refused if row is not None]
        for row, place, why, numbers in sorted(read, key=lambda each: each[0]):
            if -(-row // window) != number:
                if number and len(rows) < window:
                    missing = f"only {len(rows)} of the {window} rows of its window can be used"
                    found.refused.append((line, number * window, reason or missing))
                rows, number, reason = [], -(-row // window), ""
            if why:
                line, reason = place, reason or why
                continue
            rows.append(numbers)
            if len(rows) == window:
                found.rows.append(number * window)
                found.numbers.append([each for numbers in rows for each in numbers])
        yield found


def format_for(*paths: Path | None, given: str | None = None) -> Format:
    """The format asked for, or that of the first file name that shows one, or CSV."""
    if given is not None:
        if given not in ("csv", "jsonl"):
            raise InvalidRequest(f"--format: expected csv or jsonl, found {given!r}")
        return "csv" if given == "csv" else "jsonl"
    for path in paths:
        if path is not None and RowSource(str(path)).kind == "jsonl":
            return "jsonl"
        if path is not None and Path(path.name.lower().removesuffix(".gz")).suffix in (".csv", ".txt"):
            return "csv"
    return "csv"


def source_of(
    path: Path | None, format: str | None = None, *, beside: Path | None = None, follow: bool = False
) -> RowSource:
    """The rows of a file or a named pipe, None for standard input.

    format: "csv" or "jsonl"; None where the name tells, of standard input that of a file ``beside``.
    follow: whether to wait for more where it ends.
    """
    if path is None:
        if follow:
            raise InvalidRequest(
                "--follow: standard input ends when its writer does; name a file or a pipe by --in"
            )
        return RowSource("standard input", sys.stdin.buffer, format_for(beside, given=format))
    source = RowSource(str(path), None, None if format is None else format_for(given=format))
    if not follow:
        return source
    if source.kind not in ("csv", "jsonl") or path.name.lower().endswith(".gz"):
        raise InvalidRequest(f"--follow: expected a table in lines (csv or jsonl, not packed), found {path}")
    lines = Following(path, again=source.kind == "csv")
    return RowSource(str(path), cast(IO[bytes], lines), source.kind)


class RowReader(ABC):
    """Reads rows of ``columns`` numbers from a source: by their names, or by their places where there are none.

    last_row:  the last row read, as a number (:mod:`veilnet.io.row_keys`).
    rows_named: whether lines give their row; otherwise they are counted.
    key:       how rows are identified; None until the first of them was read.
    """

    _keys: tuple[str, ...] = ("row", "time")  # the columns or JSON keys that may tell a row
    _texts: tuple[str, ...] = ()  # what else stands beside the numbers
    _listed = "readings"  # the JSON key of numbers in a list

    def __init__(
        self, source: RowSource, columns: int, names: Sequence[str], key_column: str | None = None
    ) -> None:
        self.source = source
        self._columns, self._names = columns, tuple(names)
        self._json = source.kind == "jsonl"
        self._key_column = key_column  # the column or key of rows, once that is known
        self._key_at: int | None = None
        self._texts_at: list[int | None] = []
        self._numbers_at: list[int] = list(range(columns))
        self._counts_as_one: dict[int, str] = {}  # which number -> the text for which it is 1
        self._width = columns
        self._clock = Clock()
        self._line = 0
        self._blank: list[int] = []  # empty lines count as rows only if another line follows
        self.last_row = 0
        self.rows_named = False
        self.key: RowKey | None = None

    def blocks(self, rows_at_most: int) -> Iterator[Block]:
        """Blocks of at most so many lines, each given as soon as it is read."""
        block = Block()
        for line in self.source.lines():
            self._take(line, block)
            if len(block.rows) + len(block.refused) >= rows_at_most:
                yield block
                block = Block()
        self._at_end()
        if block.rows or block.refused:
            yield block

    @abstractmethod
    def _is_header(self, line: Line) -> bool:
        """Whether the first line of a table names columns, which it then reads."""

    @abstractmethod
    def _bad_header(self, trouble: str) -> NoReturn:
        """Refuse the source."""

    @abstractmethod
    def _out_of_order(self, block: Block, row: int) -> None:
        """What to do about a row that does not come after the one before."""

    @abstractmethod
    def _at_end(self) -> None:
        """What to do when the source has ended."""

    def _checked(self, row: int | None, texts: list[Any], cells: list[Any], dialect: Dialect) -> list[float]:
        """The numbers of a row, NaN where one is missing."""
        del texts
        at = None
        try:
            for at, one in self._counts_as_one.items():
                cells[at] = dialect.counts_as_one(cells[at], one)
            at = None
            return dialect.numbers(cells)
        except NoNumber as error:
            place = error.place if at is None else at
            which = repr(self._names[place]) if self._names else place + 1
            wanted = "a number" if is_number(self._counts_as_one.get(place, "0")) else "a text"
            raise Refused(f"{self._listed[:-1]} {which} is not {wanted}", row) from None

    def _take(self, line: Line, block: Block) -> None:
        first, self._line = self._line == 0, line.number
        try:
            if first and not self._json and self._is_header(line):
                return
            if line.cells == []:
                self._blank.append(line.number)
                return
            for number in self._blank:
                self._refuse(block, number, "the line is empty", None)
            self._blank.clear()
            if line.trouble:
                raise Refused(line.trouble)
            row, texts, cells = (self._in_json if self._json else self._in_cells)(line.cells)
            numbers = self._checked(row, texts, cells, line.dialect)
        except Refused as refusal:
            self._refuse(block, line.number, str(refusal), refusal.row)
            return
        except Repeated:
            return
        if row is None:
            row = self.last_row + 1
        elif row <= self.last_row:
            self._out_of_order(block, row)
            return
        self.last_row = row
        block.rows.append(row)
        block.numbers.append(numbers)

    def _refuse(self, block: Block, line: int, reason: str, row: int | None) -> None:
        if not self.rows_named and row is None:
            self.last_row += 1
            row = self.last_row
        block.refused.append((line, row, reason))

    # --- cells under a header

    def _read_header(self, names: list[str]) -> None:
        """Find what is wanted among the names of columns."""
        if len(set(names)) != len(names):
            self._bad_header("a name is given twice")
        self._key_column = self._key_column or next((name for name in self._keys if name in names), None)
        if self._key_column is not None:
            if self._key_column not in names:
                self._bad_header(f"there is no column {self._key_column!r} of times")
            self._key_at, self.rows_named, self.key = names.index(self._key_column), True, None
        self._width = len(names)
        self._texts_at = [names.index(name) if name in names else None for name in self._texts]
        found = [column_of(name, names) for name in self._names]
        missing = [name for name, _ in found if name not in names]
        if missing:
            self._bad_header(f"there is no column {missing[0]!r}")
        self._numbers_at = [names.index(name) for name, _ in found]
        self._counts_as_one = {place: text for place, (_, text) in enumerate(found) if text}
        if not self._names:
            others = {self._key_at, *self._texts_at}
            self._numbers_at = [place for place in range(len(names)) if place not in others]
        if len(self._numbers_at) != self._columns:
            self._bad_header(f"it names {len(self._numbers_at)} columns of numbers")

    def _in_cells(self, cells: list[Any]) -> tuple[int | None, list[Any], list[Any]]:
        """(row or None where it is counted, texts, cells of the numbers)."""
        if len(cells) != self._width:
            raise Refused(f"expected {self._width} cells, found {len(cells)}")
        row = None if self._key_at is None else self._row_of_key(cells[self._key_at])
        texts = [None if place is None else cells[place] for place in self._texts_at]
        return row, texts, [cells[place] for place in self._numbers_at]

    def _row_of_key(self, cell: object) -> int:
        """The row that a cell tells; every time must be written as the first was."""
        key = key_of(self._key_column)
        if key.is_time:
            try:
                row = self._clock.read(cell)
            except ValueError as error:
                raise Refused(str(error)) from None
            key = self._clock.key or key
        else:
            row = _row_number(cell, as_text=not self._json)
        self.key = key
        return row

    # --- JSON lines

    def _in_json(self, value: Any) -> tuple[int | None, list[Any], list[Any]]:
        """The same of a JSON value."""
        if not isinstance(value, dict):
            keys = ", ".join(f'"{name}"' for name in ("row", *self._texts, self._listed))
            raise Refused(f"expected a JSON table with {keys}")
        row = self._row_in(value)
        texts = [value.pop(name, None) for name in self._texts]
        return row, texts, self._numbers_in(value, row)

    def _row_in(self, table: dict[str, Any]) -> int | None:
        """The row that a JSON table tells, which is taken out of it; None where rows are counted."""
        if self.key == COUNTED and not self.rows_named and table.get("row") is not None:
            raise Refused("the row is given, but those before were counted; give each, or none")
        if self.key is None and self._key_column is None:
            self._key_column = next((name for name in self._keys if table.get(name) is not None), None)
        if self._key_column is None and not self.rows_named:
            self.key = COUNTED
            return None
        cell = table.pop(self._key_column or "row", None)
        if cell is None:
            raise Refused(f"the {'time' if self._key_column not in (None, 'row') else 'row'} is missing")
        row = self._row_of_key(cell)
        self.rows_named = True  # from now on every line must give its row
        return row

    def _numbers_in(self, table: dict[str, Any], row: int | None) -> list[Any]:
        """The list of numbers of a JSON table, in which nothing else is left."""
        if self._listed not in table:
            raise Refused(f'the key "{self._listed}" is missing', row)
        cells = table.pop(self._listed)
        if table:
            beside = ", ".join(f'"{name}"' for name in ("row", *self._texts, self._listed))
            raise Refused(f"there are other keys beside {beside}", row)
        if not isinstance(cells, list) or len(cells) != self._columns:
            raise Refused(f"expected a list of {self._columns} numbers", row)
        return cells


def _row_number(cell: object, *, as_text: bool) -> int:
    if isinstance(cell, str) and as_text:
        digits = cell.strip()
        cell = int(digits) if digits.isdigit() and digits.isascii() and len(digits) <= 18 else 0
    elif isinstance(cell, float) and as_text and cell.is_integer():  # as spreadsheets and frames have it
        cell = int(cell)
    if type(cell) is not int or not 0 < cell < LARGEST_ROW:
        raise Refused("the row is not a positive whole number")
    return cell
