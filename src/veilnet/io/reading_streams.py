"""Lines of readings, what ``veilnet sanitize`` reads.

    CSV     T,CO2,RH,W                    a header, then 20.1,431,6.2,118
    JSON    {"T": 20.1, "CO2": 431, ...}  one key per named reading; or [20.1, 431, 6.2, 118], or
            {"readings": [...]}, where readings have no names

Where the agent's readings have names, a CSV must begin with a header that holds each of them exactly once,
in any order and among others, and a JSON table must have them as keys: numbers that nobody named are refused
unless the caller says that there are no names to go by (``header=False``, ``--no-header``). Without names, a
first line of numbers is a row, one of distinct words is a header, and of anything else nobody can tell: the
stream is refused until it is told which.

The row number, which lets the centre align the agents, is counted from 1 and counts every line but the header
and empty lines at the end, refused ones too; or it is given, as the column ``row`` of a CSV with a header or
the key "row" of a JSON table, and must then increase. Where there is none, a column or key ``time``, or another
that the caller names, tells the time of each row and takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, NoReturn

import msgspec

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.io.row_keys import COUNTED, ROW, RowKey, read_time
from veilnet.io.streams import (
    Block,
    Format,
    LineReader,
    Refused,
    csv_fields,
    csv_numbers,
    is_number,
    json_numbers,
    json_table,
    looks_like_json,
)

__all__ = ["ReadingReader"]

# What loggers write instead of a number: a first line of these and numbers is a bad row, not a header.
_GAPS = frozenset(
    {"", "-", "--", "na", "n/a", "nan", "null", "none", "missing", "error", "err", "fail", "fault"}
)
_LIKE_TIMES = frozenset(
    {"time", "date", "datetime", "date_time", "date time", "timestamp", "ts", "when", "moment"}
)
_FLOATS: msgspec.json.Decoder[list[float]] = msgspec.json.Decoder(list[float])


class ReadingReader(LineReader):
    """Reads rows of readings.

    names:  of the readings, if known: a CSV header or a JSON table must then have each of them.
    header: whether a CSV begins with names; None: it must where names are known, and else is told from its
            first line. False also lets JSON lists through where names are known.
    time:   the column or key that tells the time of a row; None: ``row`` or ``time`` where there is one.

    unused_times: once lines were read, the column of a CSV whose lines are counted though it looks like times;
                  empty for none.
    """

    def __init__(
        self,
        file: IO[bytes],
        format: Format,
        columns: int,
        *,
        names: Sequence[str] = (),
        header: bool | None = None,
        time: str | None = None,
        label: str = "input",
    ) -> None:
        super().__init__(file, format, columns, label)
        self._names = tuple(names)
        self._by_position = header is False or not names
        self._header = True if header is None and time is not None else header
        self._order: list[int] | None = None  # columns of the numbers, where a header told them
        self._told_in = time  # the column or key that tells rows, once that is known
        self._row_column: int | None = None
        self._width = columns
        self.unused_times = ""
        self._like_times: dict[
            str, int
        ] = {}  # columns of such a name, until a line tells whether they are times
        if time is not None and time in self._names:
            raise InvalidRequest(f"--time: {time!r} is a reading, which is not sent; name a column of times")
        if time is not None and header is False and self._csv:
            raise InvalidRequest("--time: a table without a header has no names; leave one of the two out")

    def _parse(self, raw: bytes) -> tuple[int | None, list[float]]:
        return self._parse_csv(raw) if self._csv else self._parse_json(raw)

    def _out_of_order(self, block: Block, row: int) -> None:
        what = "times must increase, each once" if self._key.is_time else "row numbers must increase"
        block.refused.append((self._line, row, what))

    def _at_end(self) -> None:
        if self.key is None:  # no readings, no messages
            self.key = COUNTED if self._told_in is None else self._key

    @property
    def _key(self) -> RowKey:
        return ROW if self._told_in == "row" else RowKey("time")

    # --- CSV

    def _is_header(self, raw: bytes) -> bool:
        self.key = COUNTED
        if self._header is False:
            return False
        if looks_like_json(raw):
            if self._by_position:
                return False  # a row, and refused with advice
            self._bad_header("it looks like JSON: give --format jsonl")
        try:
            fields = [name.strip() for name in csv_fields(raw)]
        except Refused:
            if self._names or self._header:
                self._bad_header("the first line is not readable as CSV in UTF-8")
            self._unclear()
        if self._names or self._header:
            if not raw:
                self._bad_header("the first line is empty")
            if not raw.endswith(b"\n"):
                self._bad_header("the first line has no end")
            self._read_header(fields)
            return True
        numbers = [is_number(name) for name in fields]
        if not raw or (
            any(numbers) and all(n or f.casefold() in _GAPS for n, f in zip(numbers, fields, strict=True))
        ):
            return False
        if any(numbers) or any(f.casefold() in _GAPS for f in fields) or len(set(fields)) != len(fields):
            self._unclear()
        self._read_header(fields)
        return True

    def _unclear(self) -> NoReturn:
        raise InvalidReading(
            f"{self._label}: the first line is neither a row of numbers nor a header of distinct names; nothing "
            "was sent: give --header or --no-header to say which it is"
        )

    def _read_header(self, fields: list[str]) -> None:
        if len(set(fields)) != len(fields):
            self._bad_header("a name is given twice")
        if "plan" in fields and "agent" in fields:
            self._bad_header("it is that of messages, which are sanitized already")
        if self._told_in is None:
            self._told_in = next((name for name in ("row", "time") if name in fields), None)
        if self._told_in is not None:
            if self._told_in not in fields:
                self._bad_header(f"there is no column {self._told_in!r} of times")
            self._row_column = fields.index(self._told_in)
            self.rows_told = True
            self.key = None
        self._width = len(fields)
        if self._names:
            missing = [name for name in self._names if name not in fields]
            if missing:
                self._bad_header(f"there is no column {missing[0]!r}")
            self._order = [fields.index(name) for name in self._names]
            if self._row_column is None:
                others = [name for name in fields if name not in self._names]
                self._like_times = {n: fields.index(n) for n in others if n.casefold() in _LIKE_TIMES}
            return
        self._order = [place for place in range(len(fields)) if place != self._row_column]
        if len(self._order) != self._columns:
            self._bad_header(f"it names {len(self._order)} columns of numbers")

    def _bad_header(self, trouble: str) -> NoReturn:
        wanted = ", ".join(self._names) if self._names else f"{self._columns} columns"
        advice = " Where there is none, --no-header takes the columns in this order" if self._names else ""
        raise InvalidReading(
            f"{self._label}: expected a header with {wanted}, but {trouble}; nothing was sent: "
            f"is it the right file?{advice}"
        )

    def _parse_csv(self, raw: bytes) -> tuple[int | None, list[float]]:
        if looks_like_json(raw):
            raise Refused("the line looks like JSON; give --format jsonl")
        fields: list[Any] = raw.split(b",") if b'"' not in raw else list(csv_fields(raw))
        if len(fields) != self._width:
            what = "numbers" if self._row_column is None else "fields"
            raise Refused(f"expected {self._width} {what} separated by commas, found {len(fields)}")
        row = None if self._row_column is None else self._told(self._key, fields[self._row_column])
        if self._like_times:
            self._look_for_times(fields)
        if self._order is not None:
            fields = [fields[place] for place in self._order]
        return row, csv_numbers(fields, raw, row, self._names)

    def _look_for_times(self, fields: list[Any]) -> None:
        """Whether a line that is complete has a time in a column of such a name: the first one tells."""
        for name, place in self._like_times.items():
            field = fields[place]
            with suppress(ValueError):
                read_time(field.decode() if isinstance(field, bytes) else field)
                self.unused_times = name
                break
        self._like_times = {}

    # --- JSON lines

    def _parse_json(self, raw: bytes) -> tuple[int | None, list[float]]:
        if raw.lstrip().startswith(b"[") and not self.rows_told and self._told_in is None:
            if not self._by_position:
                raise Refused("the list does not say which reading is which; name them, or give --no-header")
            try:
                numbers = _FLOATS.decode(raw)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                raise Refused("expected a JSON list of numbers") from None
            if len(numbers) != self._columns:
                raise Refused(f"expected {self._columns} numbers, found {len(numbers)}")
            self.key = COUNTED
            return None, numbers
        table = json_table(raw)
        if not isinstance(table, dict):
            raise Refused('expected a JSON table with "row" and "readings"')
        return self._from_table(table)

    def _from_table(self, table: dict[str, Any]) -> tuple[int | None, list[float]]:
        if self.key == COUNTED and table.get("row") is not None:
            raise Refused("the row is given, but those before were counted; give each, or none")
        if self.key is None and self._told_in is None:
            self._told_in = next((name for name in ("row", "time") if table.get(name) is not None), None)
        told = None if self._told_in is None else table.pop(self._told_in, None)
        if told is None and self._told_in is not None:
            raise Refused(f"the {'row' if self._told_in == 'row' else 'time'} is missing")
        if told is None:
            row, self.key = None, COUNTED
        else:
            row = self._told(self._key, told)
        self.rows_told = row is not None  # from now on every line must tell its row
        if self._names and all(name in table for name in self._names):
            return row, json_numbers([table[name] for name in self._names], self._columns, row)
        if not self._by_position:
            missing = next(name for name in self._names if name not in table)
            raise Refused(f'the key "{missing}" is missing', row)
        if "readings" not in table:
            raise Refused('the key "readings" is missing', row)
        numbers = table.pop("readings")
        if table:
            raise Refused('there are other keys beside "row" and "readings"', row)
        return row, json_numbers(numbers, self._columns, row)
