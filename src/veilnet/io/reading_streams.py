"""Lines of readings, what agents read.

    CSV     T,CO2,RH,W                    a header, then 20.1,431,6.2,118; or T;CO2;RH;W and 20,1;431;6,2;118
    JSON    {"T": 20.1, "CO2": 431, ...}  one key per named reading; or [20.1, 431, 6.2, 118], or
            {"readings": [...]}, where readings have no names

Parquet, Feather and Excel files are read as a CSV with a header (:mod:`veilnet.io.sources`).

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
from typing import Any, NoReturn

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.io.cells import Dialect, NoNumber
from veilnet.io.row_keys import COUNTED, ROW, RowKey, looks_like_times
from veilnet.io.sources import LIKE_JSON, Line, RowSource
from veilnet.io.streams import Block, Refused, RowReader, numbers_of

__all__ = ["ReadingReader"]


class ReadingReader(RowReader):
    """Reads rows of readings; a missing one is NaN.

    names:  of the readings, if known: a CSV header or a JSON table must then have each of them.
    header: whether a CSV begins with names; None: it must where names are known, and else is told from its
            first line. False also lets JSON lists through where names are known.
    time:   the column or key that tells the time of a row; None: ``row`` or ``time`` where there is one.

    unused_times: once lines were read, the column of a CSV whose lines are counted though it looks like times;
                  empty for none.
    """

    def __init__(
        self,
        source: RowSource,
        columns: int,
        *,
        names: Sequence[str] = (),
        header: bool | None = None,
        time: str | None = None,
    ) -> None:
        super().__init__(source, columns)
        self._names = tuple(names)
        self._by_position = header is False or not names
        typed = source.kind not in ("csv", "jsonl")
        self._header = True if header is None and (time is not None or typed) else header
        self._order: list[int] | None = None  # columns of the numbers, where a header told them
        self._told_in = time  # the column or key that tells rows, once that is known
        self._row_column: int | None = None
        self._width = columns
        self.unused_times = ""
        self._others: list[tuple[str, int]] = []  # columns that may be times, until a line tells
        if time is not None and time in self._names:
            raise InvalidRequest(f"--time: {time!r} is a reading, which is not sent; name a column of times")
        if time is not None and header is False and not self._json:
            raise InvalidRequest("--time: a table without a header has no names; leave one of the two out")

    def _parse(self, cells: Any, dialect: Dialect) -> tuple[int | None, list[float]]:
        return self._parse_json(cells, dialect) if self._json else self._parse_cells(cells, dialect)

    def _out_of_order(self, block: Block, row: int) -> None:
        what = "times must increase, each once" if self._key.is_time else "row numbers must increase"
        block.refused.append((self._line, row, what))

    def _at_end(self) -> None:
        if self.key is None:  # no readings, no messages
            self.key = COUNTED if self._told_in is None else self._key

    @property
    def _key(self) -> RowKey:
        return ROW if self._told_in == "row" else RowKey("time")

    # --- tables

    def _is_header(self, line: Line) -> bool:
        self.key = COUNTED
        if self._header is False:
            return False
        trouble = line.trouble or ("" if line.cells else "the first line is empty")
        if self._names or self._header:
            if trouble:
                self._bad_header(trouble)
        elif line.trouble == LIKE_JSON or not (line.cells or trouble):
            return False  # a row, and refused with advice
        elif line.trouble:
            self._unclear()
        names = ["" if cell is None else str(cell).strip() for cell in line.cells or ()]
        if not self._names and not self._header:
            values = [_is_value(name, line.dialect) for name in names]
            if all(values):
                return False
            if any(values) or len(set(names)) != len(names):
                self._unclear()
        self._read_header(names)
        return True

    def _unclear(self) -> NoReturn:
        raise InvalidReading(
            f"{self.source}: the first line is neither a row of numbers nor a header of distinct names; nothing "
            "was sent: give --header or --no-header to say which it is"
        )

    def _read_header(self, names: list[str]) -> None:
        if len(set(names)) != len(names):
            self._bad_header("a name is given twice")
        if "plan" in names and "agent" in names:
            self._bad_header("it is that of messages, which are sanitized already")
        if self._told_in is None:
            self._told_in = next((name for name in ("row", "time") if name in names), None)
        if self._told_in is not None:
            if self._told_in not in names:
                self._bad_header(f"there is no column {self._told_in!r} of times")
            self._row_column = names.index(self._told_in)
            self.rows_told = True
            self.key = None
        self._width = len(names)
        if self._names:
            missing = [name for name in self._names if name not in names]
            if missing:
                self._bad_header(f"there is no column {missing[0]!r}")
            self._order = [names.index(name) for name in self._names]
            if self._row_column is None:
                self._others = [(name, k) for k, name in enumerate(names) if name not in self._names]
            return
        self._order = [place for place in range(len(names)) if place != self._row_column]
        if len(self._order) != self._columns:
            self._bad_header(f"it names {len(self._order)} columns of numbers")

    def _bad_header(self, trouble: str) -> NoReturn:
        wanted = ", ".join(self._names) if self._names else f"{self._columns} columns"
        advice = " Where there is none, --no-header takes the columns in this order" if self._names else ""
        raise InvalidReading(
            f"{self.source}: expected a header with {wanted}, but {trouble}; nothing was sent: "
            f"is it the right file?{advice}"
        )

    def _parse_cells(self, cells: list[Any], dialect: Dialect) -> tuple[int | None, list[float]]:
        if len(cells) != self._width:
            raise Refused(f"expected {self._width} cells, found {len(cells)}")
        row = None if self._row_column is None else self._told(self._key, cells[self._row_column])
        if self._others:  # the first complete line tells
            like = (name for name, place in self._others if looks_like_times(name, [str(cells[place])]))
            self.unused_times, self._others = next(like, ""), []
        if self._order is not None:
            cells = [cells[place] for place in self._order]
        return row, numbers_of(cells, dialect, row, self._names)

    # --- JSON lines

    def _parse_json(self, value: Any, dialect: Dialect) -> tuple[int | None, list[float]]:
        if isinstance(value, list) and not self.rows_told and self._told_in is None:
            if not self._by_position:
                raise Refused("the list does not say which reading is which; name them, or give --no-header")
            if len(value) != self._columns:
                raise Refused(f"expected {self._columns} numbers, found {len(value)}")
            self.key = COUNTED
            return None, value
        if not isinstance(value, dict):
            raise Refused('expected a JSON table with "row" and "readings"')
        row = self._row_in(value)
        if self._names and all(name in value for name in self._names):
            return row, numbers_of([value[name] for name in self._names], dialect, row, self._names)
        if not self._by_position:
            missing = next(name for name in self._names if name not in value)
            raise Refused(f'the key "{missing}" is missing', row)
        if "readings" not in value:
            raise Refused('the key "readings" is missing', row)
        readings = value.pop("readings")
        if value:
            raise Refused('there are other keys beside "row" and "readings"', row)
        if not isinstance(readings, list) or len(readings) != self._columns:
            raise Refused(f"expected a list of {self._columns} numbers", row)
        return row, numbers_of(readings, dialect, row, self._names)

    def _row_in(self, table: dict[str, Any]) -> int | None:
        """The row that a JSON table tells, which is taken out of it; None where rows are counted."""
        if self.key == COUNTED and table.get("row") is not None:
            raise Refused("the row is given, but those before were counted; give each, or none")
        if self.key is None and self._told_in is None:
            self._told_in = next((name for name in ("row", "time") if table.get(name) is not None), None)
        told = None if self._told_in is None else table.pop(self._told_in, None)
        if told is None and self._told_in is not None:
            raise Refused(f"the {'row' if self._told_in == 'row' else 'time'} is missing")
        if told is None:
            self.key = COUNTED
            return None
        row = self._told(self._key, told)
        self.rows_told = True  # from now on every line must tell its row
        return row


def _is_value(text: str, dialect: Dialect) -> bool:
    """Whether a cell is a number, or says that there is none."""
    try:
        dialect.number(text)
    except NoNumber:
        return False
    return True
