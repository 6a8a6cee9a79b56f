"""Rows of numbers as lines of text, CSV or JSON lines, in constant memory.

What all streams share is here: reading line by line, counting rows, and refusing a line with a reason that
never quotes it. What a line of readings is stands in :mod:`veilnet.io.reading_streams`, what a message is in
:mod:`veilnet.io.message_streams`.

A line counts once it has its line end: a last line without one was cut off, as far as anybody can tell, and
is no row.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.io import _json
from veilnet.io.row_keys import LARGEST_ROW, RowKey, read_time

__all__ = ["Block", "Format", "LineReader", "format_for"]

Format = Literal["csv", "jsonl"]

_LONGEST_LINE = 2**20  # bytes; a longer line is refused without being held in memory
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass
class Block:
    """Some lines, parsed: the rows that are numbers, and why others are not.

    refused holds (line, row or None where it is not known, reason).
    """

    lines: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    refused: list[tuple[int, int | None, str]] = field(default_factory=list)

    def values(self, columns: int) -> Array:
        """The numbers as (rows, columns)."""
        return np.array(self.numbers, dtype=np.float64).reshape(len(self.numbers), columns)

    def without_rows_up_to(self, last: int) -> Block:
        """What comes after a row; lines whose row is not known stay."""
        kept = [place for place, row in enumerate(self.rows) if row > last]
        return Block(
            [self.lines[place] for place in kept],
            [self.rows[place] for place in kept],
            [self.numbers[place] for place in kept],
            [entry for entry in self.refused if entry[1] is None or entry[1] > last],
        )


class Refused(Exception):
    """Why a line is refused; the row if it is known."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.row = row


def format_for(*paths: Path | None, given: str | None = None) -> Format:
    """The format asked for, or told by the first telling file name, or CSV."""
    if given is not None:
        if given not in ("csv", "jsonl"):
            raise InvalidRequest(f"--format: expected csv or jsonl, found {given!r}")
        return "csv" if given == "csv" else "jsonl"
    for path in paths:
        suffix = "" if path is None else path.suffix.lower()
        if suffix in (".jsonl", ".ndjson", ".json"):
            return "jsonl"
        if suffix in (".csv", ".txt"):
            return "csv"
    return "csv"


class LineReader(ABC):
    """Reads rows of ``columns`` numbers from a binary file; ``label`` names it in errors.

    last_row:  the last row read, as a number (:mod:`veilnet.io.row_keys`).
    rows_told: whether the lines tell their rows; otherwise they are counted.
    key:       how rows are told apart; None until the first of them was read.
    """

    def __init__(self, file: IO[bytes], format: Format, columns: int, label: str) -> None:
        self._file = file
        self._columns = columns
        self._label = label
        self._csv = format == "csv"
        self._first = True
        self._line = 0
        self._blank: list[int] = []  # empty lines count as rows only if another line follows
        self.last_row = 0
        self.rows_told = False
        self.key: RowKey | None = None

    def blocks(self, rows_at_most: int) -> Iterator[Block]:
        """Blocks of at most so many lines, each given as soon as it is read."""
        block = Block()
        while True:
            raw = self._file.readline(_LONGEST_LINE + 1)
            if not raw:
                break
            self._line += 1
            long = len(raw) > _LONGEST_LINE
            while long and raw and not raw.endswith(b"\n"):
                raw = self._file.readline(_LONGEST_LINE)
            self._take(b"" if long else raw, block, long=long)
            if len(block.rows) + len(block.refused) >= rows_at_most:
                yield block
                block = Block()
        self._at_end()
        if block.rows or block.refused:
            yield block

    @abstractmethod
    def _is_header(self, raw: bytes) -> bool:
        """Whether the first line of a CSV (b"" where it is empty or too long) names columns, which it then reads."""

    @abstractmethod
    def _parse(self, raw: bytes) -> tuple[int | None, list[float]]:
        """(row or None where it is counted, numbers) of a line."""

    @abstractmethod
    def _out_of_order(self, block: Block, row: int) -> None:
        """What to do about a row that does not come after the one before."""

    @abstractmethod
    def _at_end(self) -> None:
        """What to do when the file has ended."""

    def _take(self, raw: bytes, block: Block, *, long: bool) -> None:
        try:
            if self._first:
                self._first = False
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
                if self._csv and self._is_header(raw.strip() and raw):
                    return
            if not long and not raw.strip():
                self._blank.append(self._line)
                return
            for line in self._blank:
                self._refuse(block, line, "the line is empty", None)
            self._blank.clear()
            if long:
                raise Refused(f"the line is longer than {_LONGEST_LINE:,} bytes")
            if not raw.endswith(b"\n"):
                raise Refused("the line has no end, so it may have been cut off; end the last line too")
            row, numbers = self._parse(raw)
        except Refused as refusal:
            self._refuse(block, self._line, str(refusal), refusal.row)
            return
        if row is None:
            row = self.last_row + 1
        elif row <= self.last_row:
            self._out_of_order(block, row)
            return
        self.last_row = row
        block.lines.append(self._line)
        block.rows.append(row)
        block.numbers.append(numbers)

    def _refuse(self, block: Block, line: int, reason: str, row: int | None) -> None:
        if not self.rows_told and row is None:
            self.last_row += 1
            row = self.last_row
        block.refused.append((line, row, reason))

    def _told(self, key: RowKey, value: object) -> int:
        """The row that a field or a JSON value tells; every time must be written as the first was."""
        if not key.is_time:
            row = row_number(value) if isinstance(value, str | bytes) and self._csv else json_row(value)
        else:
            row, key = _time_told(value)
        if self.key is not None and self.key != key:
            raise Refused("the time is written in another way than those before; keep to one")
        self.key = key
        return row


# --- what lines of either kind are made of


def csv_fields(raw: bytes) -> list[str]:
    """The fields of a line that may hold quotes."""
    try:
        parsed = list(csv.reader([raw.decode("utf-8").rstrip("\r\n")], strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise Refused("the line is not readable as CSV") from None
    if len(parsed) != 1:
        raise Refused("the line is not readable as CSV")
    return parsed[0]


def json_table(raw: bytes) -> Any:
    """A JSON value without repeated keys or numbers that JSON does not have."""
    try:
        return _json.parse(raw)
    except ValueError:
        raise Refused("the line is not valid JSON") from None


def json_row(value: object) -> int:
    """The row a JSON table tells."""
    if type(value) is not int or not 0 < value < LARGEST_ROW:
        raise Refused("the row is not a positive whole number")
    return value


def json_numbers(values: object, columns: int, row: int | None) -> list[float]:
    """A list of so many JSON numbers."""
    if not isinstance(values, list) or len(values) != columns:
        raise Refused(f"expected a list of {columns} numbers", row)
    if not all(type(number) in (int, float) for number in values):
        raise Refused("an entry is not a number", row)
    try:
        return [float(number) for number in values]
    except OverflowError:
        raise Refused("a number is too large", row) from None


def csv_numbers(
    fields: Sequence[str | bytes], raw: bytes, row: int | None, names: Sequence[str] = ()
) -> list[float]:
    """Fields as numbers. names: of the readings they are, where those are known."""
    try:
        numbers = list(map(float, fields))
    except ValueError:
        raise Refused(_first_bad_field(fields, names), row) from None
    if b"_" in raw and any((b"_" if isinstance(text, bytes) else "_") in text for text in fields):  # type: ignore[operator]
        raise Refused("a field is not a number", row)  # Python reads 1_000 as one; nobody else writes it
    return numbers


def looks_like_json(raw: bytes) -> bool:
    """Whether a line begins as JSON does."""
    return raw.lstrip()[:1] in (b"{", b"[")


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def row_number(text: str | bytes) -> int:
    """The row a CSV field tells."""
    digits = text.strip()
    if not digits.isdigit() or not digits.isascii() or len(digits) > 18 or int(digits) == 0:
        raise Refused("the row is not a positive whole number")
    return int(digits)


def _time_told(value: object) -> tuple[int, RowKey]:
    try:
        if isinstance(value, bytes):
            value = value.decode()
        elif type(value) in (int, float):
            value = repr(value)
        if isinstance(value, str):
            return read_time(value)
    except UnicodeDecodeError:
        raise Refused("the line is not readable as CSV") from None
    except ValueError as error:
        raise Refused(str(error)) from None
    raise Refused("the time is neither a text nor a number")


def _first_bad_field(fields: Sequence[str | bytes], names: Sequence[str]) -> str:
    for place, text in enumerate(fields):
        try:
            float(text)
        except ValueError:
            which = f"reading {names[place]!r}" if names else f"field {place + 1}"
            return f"{which} is {'not a number' if text.strip() else 'empty'}"
    return "a field is not a number"
