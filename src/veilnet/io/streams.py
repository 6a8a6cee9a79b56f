"""Rows of numbers as lines of text, CSV or JSON lines, in and out, in constant memory.

Readings come as lines of N numbers. Their row number, which lets the centre align the agents, is counted from
1 and counts every line but the header and empty lines at the end, refused ones too; or it is given, as the
column ``row`` of a CSV with a header or the key "row" of a JSON table, and must then increase.

    CSV     20.1,431,6.2,118              with or without a header; columns are found by name if names are known
    JSON    [20.1, 431, 6.2, 118]         or {"row": 7, "readings": [...]}, or one key per named reading

Messages, what ``veilnet sanitize`` writes and ``veilnet fuse`` reads, always carry their row:

    CSV     row,z1@cf6785d0,z2@cf6785d0   header, then 7,-50.8330078125,8.86328125
    JSON    {"row": 7, "values": [-50.8330078125, 8.86328125], "plan": "cf6785d0"}

The mark, the beginning of the plan's id, keeps messages of one plan from being fused by another's centre.
A line that is not so is refused with a reason that never quotes it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import msgspec
import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array
from veilnet.io import _json

__all__ = ["Block", "LineReader", "format_for", "write_messages"]

Format = Literal["csv", "jsonl"]

_LONGEST_LINE = 2**20  # bytes; a longer line is refused without being held in memory
_LARGEST_ROW = 2**62
_MARK = 8  # characters of a plan's id that its messages carry
# What loggers write instead of a number: a first line of these is a bad row, not a header.
_GAPS = frozenset(
    {"", "-", "--", "na", "n/a", "nan", "null", "none", "missing", "error", "err", "fail", "fault"}
)


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


class _Refused(Exception):
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


class LineReader:
    """Reads rows of ``columns`` numbers from a binary file.

    key:    of the numbers in a JSON table, "readings" or "values".
    names:  of the columns, if known: a CSV header or a JSON table must then have them.
    header: whether a CSV begins with one; None to tell from the first line.
    plan:   id of the plan that messages must come from, as far as they tell.
    """

    def __init__(
        self,
        file: IO[bytes],
        format: Format,
        columns: int,
        *,
        key: str,
        names: Sequence[str] = (),
        header: bool | None = None,
        label: str = "input",
        plan: str = "",
    ) -> None:
        self._file = file
        self._columns = columns
        self._key = key
        self._names = tuple(names)
        self._header = header
        self._label = label
        self._mark = plan[:_MARK]
        self._rows_given = key == "values"  # messages always carry their row
        self._parse = self._parse_csv if format == "csv" else self._parse_json
        self._order: list[int] | None = None  # columns of the numbers, where a header told them
        self._row_column: int | None = 0 if self._rows_given else None
        self._width = columns + (1 if self._rows_given else 0)
        self._first = format == "csv"
        self._line = 0
        self._row = 0
        self._blank: list[int] = []  # empty lines count as rows only if another line follows

    def blocks(self, most: int) -> Iterator[Block]:
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
            if len(block.rows) + len(block.refused) >= most:
                yield block
                block = Block()
        if block.rows or block.refused:
            yield block

    def _take(self, raw: bytes, block: Block, *, long: bool) -> None:
        if not long and not raw.strip():
            self._blank.append(self._line)
            return
        for line in self._blank:
            self._refuse(block, line, "the line is empty", None)
        self._blank.clear()
        try:
            if long:
                raise _Refused(f"the line is longer than {_LONGEST_LINE:,} bytes")
            if self._first:
                self._first = False
                raw = raw.removeprefix(b"\xef\xbb\xbf")
                if self._is_header(raw):
                    return
            row, numbers = self._parse(raw)
        except _Refused as refusal:
            self._refuse(block, self._line, str(refusal), refusal.row)
            return
        if row is None:
            row = self._row + 1
        elif row <= self._row:
            self._out_of_order(block, row)
            return
        self._row = row
        block.lines.append(self._line)
        block.rows.append(row)
        block.numbers.append(numbers)

    def _refuse(self, block: Block, line: int, reason: str, row: int | None) -> None:
        if self._row_column is None and row is None:
            self._row += 1
            row = self._row
        block.refused.append((line, row, reason))

    def _out_of_order(self, block: Block, row: int) -> None:
        if self._rows_given:
            raise InvalidReading(
                f"{self._label}, line {self._line}: row {row} comes after row {self._row}; "
                "rows must increase: sort the file, and send each row once"
            )
        block.refused.append((self._line, row, "row numbers must increase"))

    # --- CSV

    def _is_header(self, raw: bytes) -> bool:
        if self._header is False or _looks_like_json(raw):
            return False
        try:
            fields = [name.strip() for name in _csv_fields(raw)]
        except _Refused:
            if self._header:
                self._bad_header("it is not readable text")
            return False
        if self._header is None and not _looks_like_names(fields):
            return False
        self._read_header(fields)
        return True

    def _read_header(self, fields: list[str]) -> None:
        if len(set(fields)) != len(fields):
            self._bad_header("a name is given twice")
        self._row_column = fields.index("row") if "row" in fields else self._row_column
        if "row" not in fields and self._rows_given:
            self._bad_header("there is no column 'row'")
        self._width = len(fields)
        if self._rows_given and any(
            self._is_foreign(name.rpartition("@")[2]) for name in fields if "@" in name
        ):
            self._bad_header("its messages were made by another plan")
        if self._names:
            missing = [name for name in self._names if name not in fields]
            if missing:
                self._bad_header(f"there is no column {missing[0]!r}")
            self._order = [fields.index(name) for name in self._names]
            return
        self._order = [place for place in range(len(fields)) if place != self._row_column]
        if len(self._order) != self._columns:
            self._bad_header(f"it names {len(self._order)} columns of numbers")

    def _is_foreign(self, mark: object) -> bool:
        return bool(self._mark) and mark != self._mark

    def _bad_header(self, trouble: str) -> NoReturn:
        wanted = ", ".join(self._names) if self._names else f"{self._columns} columns"
        raise InvalidReading(
            f"{self._label}: expected a header with {wanted}"
            f"{' and row' if self._rows_given else ''}, but {trouble}; is it the right file?"
        )

    def _parse_csv(self, raw: bytes) -> tuple[int | None, list[float]]:
        if _looks_like_json(raw):
            raise _Refused("the line looks like JSON; give --format jsonl")
        fields: list[Any] = raw.split(b",") if b'"' not in raw else list(_csv_fields(raw))
        if len(fields) != self._width:
            what = "numbers" if self._row_column is None else "fields"
            raise _Refused(f"expected {self._width} {what} separated by commas, found {len(fields)}")
        row = None if self._row_column is None else _row_number(fields[self._row_column])
        if self._order is not None:
            fields = [fields[place] for place in self._order]
        elif self._row_column is not None:
            fields = fields[1:]
        try:
            numbers = list(map(float, fields))
        except ValueError:
            raise _Refused(_first_bad_field(fields), row) from None
        if b"_" in raw:  # Python reads 1_000 as a number; nobody else writes it
            raise _Refused("a field is not a number", row)
        return row, numbers

    # --- JSON lines

    def _parse_json(self, raw: bytes) -> tuple[int | None, list[float]]:
        if not self._rows_given and self._row_column is None and raw.lstrip().startswith(b"["):
            try:
                numbers = _FLOATS.decode(raw)
            except (ValueError, RecursionError):
                raise _Refused("expected a JSON list of numbers") from None
            if len(numbers) != self._columns:
                raise _Refused(f"expected {self._columns} numbers, found {len(numbers)}")
            return None, numbers
        try:
            table = _json.parse(raw)
        except ValueError:
            raise _Refused("the line is not valid JSON") from None
        if not isinstance(table, dict):
            raise _Refused(f'expected a JSON table with "row" and "{self._key}"')
        return self._from_table(table)

    def _from_table(self, table: dict[str, Any]) -> tuple[int | None, list[float]]:
        row = table.pop("row", None)
        if row is not None and (type(row) is not int or not 0 < row < _LARGEST_ROW):
            raise _Refused("the row is not a positive whole number")
        if row is None and (self._rows_given or self._row_column is not None):
            raise _Refused("the row is missing")
        if row is not None:
            self._row_column = 0  # from now on every line must tell its row
        if self._rows_given and self._is_foreign(table.pop("plan", self._mark)):
            raise _Refused("the message was made by another plan", row)
        if self._key in table and self._key not in self._names:
            numbers = table.pop(self._key)
            if table:
                raise _Refused(f'there are other keys beside "row" and "{self._key}"', row)
        elif self._names and all(name in table for name in self._names):
            numbers = [table[name] for name in self._names]
        else:
            raise _Refused(f'the key "{self._names[0] if self._names else self._key}" is missing', row)
        if not isinstance(numbers, list) or len(numbers) != self._columns:
            raise _Refused(f"expected a list of {self._columns} numbers", row)
        if not all(type(number) in (int, float) for number in numbers):
            raise _Refused("an entry is not a number", row)
        try:
            return row, [float(number) for number in numbers]
        except OverflowError:
            raise _Refused("a number is too large", row) from None


_FLOATS: msgspec.json.Decoder[list[float]] = msgspec.json.Decoder(list[float])


def write_messages(
    file: IO[bytes], format: Format, rows: Sequence[int], values: Array, plan: str | None = None
) -> None:
    """Append messages to a binary file; see :func:`write_header`."""
    if format == "csv":
        lines = [
            f"{row},{','.join(map(repr, numbers))}\n" if numbers else f"{row}\n"
            for row, numbers in zip(rows, values.tolist(), strict=True)
        ]
    else:
        mark = f', "plan": "{plan[:_MARK]}"' if plan else ""
        lines = [
            f'{{"row": {row}, "values": {numbers!r}{mark}}}\n'
            for row, numbers in zip(rows, values.tolist(), strict=True)
        ]
    file.write("".join(lines).encode())


def write_header(file: IO[bytes], format: Format, columns: int, plan: str | None = None) -> None:
    """The first line of a CSV of messages."""
    if format == "csv":
        mark = f"@{plan[:_MARK]}" if plan else ""
        file.write((",".join(["row", *(f"z{k + 1}{mark}" for k in range(columns))]) + "\n").encode())


def _csv_fields(raw: bytes) -> list[str]:
    try:
        parsed = list(csv.reader([raw.decode("utf-8").rstrip("\r\n")], strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise _Refused("the line is not readable as CSV") from None
    if len(parsed) != 1:
        raise _Refused("the line is not readable as CSV")
    return parsed[0]


def _looks_like_names(fields: list[str]) -> bool:
    """Whether a first line names columns: distinct texts, none a number or what loggers write for a gap."""
    if len(set(fields)) != len(fields):
        return False
    return not any(name.casefold() in _GAPS or _is_number(name) for name in fields)


def _looks_like_json(raw: bytes) -> bool:
    return raw.lstrip()[:1] in (b"{", b"[")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _row_number(text: str | bytes) -> int:
    digits = text.strip()
    if not digits.isdigit() or not digits.isascii() or len(digits) > 18 or int(digits) == 0:
        raise _Refused("the row is not a positive whole number")
    return int(digits)


def _first_bad_field(fields: Sequence[str | bytes]) -> str:
    for place, text in enumerate(fields):
        try:
            float(text)
        except ValueError:
            return f"field {place + 1} is {'not a number' if text.strip() else 'empty'}"
    return "a field is not a number"
