"""Lines of readings, what agents read.

    CSV     T,CO2,RH,W                    a header, then 20.1,431,6.2,118; or T;CO2;RH;W and 20,1;431;6,2;118
    JSON    {"T": 20.1, "CO2": 431, ...}  one key per named reading; or [20.1, 431, 6.2, 118], or
            {"readings": [...]}, where readings have no names

Parquet, Feather and Excel files are read as a CSV with a header (:mod:`veilnet.io.sources`).

A reading called ``heating:on`` is the column ``heating``: 1 where that is "on", 0 where it is another text.

Where the agent's readings have names, a CSV must begin with a header that holds each of them exactly once,
in any order and among others, and a JSON table must have them as keys: numbers that nobody named are refused
unless the caller says that there are no names to go by (``header=False``, ``--no-header``). Without names, a
first line of numbers is a row, one of distinct words is a header, and of anything else nobody can tell: the
stream is refused until that is given.

The row number, which lets the centre align the agents, is counted from 1 and counts every line but the header
and empty lines at the end, refused ones too; or it is given, as the column ``row`` of a CSV with a header or
the key "row" of a JSON table, and must then increase. Where there is none, a column or key ``time``, or another
that the caller names, tells the time of each row and takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from veilnet._core.durations import RowStep
from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.io.cells import Dialect, NoNumber, column_of
from veilnet.io.row_keys import COUNTED, ROW, RowKey, key_of, looks_like_times
from veilnet.io.sources import LIKE_JSON, Line, RowSource
from veilnet.io.streams import Block, Refused, RowReader


class ReadingReader(RowReader):
    """Reads rows of readings; a missing one is NaN.

    names:  of the readings, if known: a CSV header or a JSON table must then have each of them.
    header: whether a CSV begins with names; None: it must where names are known, and else is seen from its
            first line. False also lets JSON lists through where names are known.
    time:   the column or key that tells the time of a row; None: ``row`` or ``time`` where there is one.
    step:   from row to row of a stream, whose rows times then number, as the epochs of live agents: all agents count
            from one origin.

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
        step: RowStep | None = None,
    ) -> None:
        super().__init__(source, columns, names, time)
        self._step = step
        self._by_position = header is False or not names
        typed = source.kind not in ("csv", "jsonl")
        self._header = True if header is None and (time is not None or typed or names) else header
        self.unused_times = ""
        self._others: list[tuple[str, int]] = []  # columns that may be times, until a line tells
        if time is not None and time in self._names:
            raise InvalidRequest(f"--time: {time!r} is a reading, which is not sent; name a column of times")
        if time is not None and header is False and not self._json:
            raise InvalidRequest("--time: a table without a header has no names; leave one of the two out")

    @property
    def times(self) -> RowKey | None:
        """How times are written that tell rows, or number them; None where none did."""
        return self._clock.key

    def _row_of_key(self, cell: object) -> int:
        row = super()._row_of_key(cell)
        if self._step is None or self.key is None or not self.key.is_time:
            return row
        self.key = ROW
        return int(self._step.row_at(row - 1))

    def _out_of_order(self, block: Block, row: int) -> None:
        what = "row numbers must increase"
        if self._clock.key is not None:
            what = "times must increase, " + ("each once" if self._step is None else "one for each step")
        block.refused.append((self._line, row, what))

    def _at_end(self) -> None:
        if self.key is None:  # no readings, no messages
            key = key_of(self._key_column)
            self.key = ROW if key.is_time and self._step is not None else key

    # --- cells

    def _is_header(self, line: Line) -> bool:
        self.key = COUNTED
        if self._header is False or (not self._header and line.trouble == LIKE_JSON):
            return False  # a row, if need be refused with advice
        if self._header and not line.cells:
            self._bad_header(line.trouble or "the first line is empty")
        if line.trouble:
            self._unclear()
        names = ["" if cell is None else str(cell).strip() for cell in line.cells]
        if not self._header:
            values = [_is_value(name, line.dialect) for name in names]
            if all(values):
                return False
            if any(values) or len(set(names)) != len(names):
                self._unclear()
        if "plan" in names and "agent" in names:
            self._bad_header("it is that of messages, which are sanitized already")
        self._read_header(names)
        if self._key_at is None and self._names:
            self._others = [(name, at) for at, name in enumerate(names) if at not in self._numbers_at]
        return True

    def _unclear(self) -> NoReturn:
        raise InvalidReading(
            f"{self.source}: the first line is neither a row of numbers nor a header of distinct names; nothing "
            "was sent: give --header or --no-header to say which it is"
        )

    def _bad_header(self, trouble: str) -> NoReturn:
        wanted = ", ".join(self._names) if self._names else f"{self._columns} columns"
        advice = " Where there is none, --no-header takes the columns in this order" if self._names else ""
        raise InvalidReading(
            f"{self.source}: expected a header with {wanted}, but {trouble}; nothing was sent: "
            f"is it the right file?{advice}"
        )

    def _in_cells(self, cells: list[Any]) -> tuple[int | None, list[Any], list[Any]]:
        found = super()._in_cells(cells)
        if self._others:  # the first complete line tells
            like = (name for name, place in self._others if looks_like_times(name, [str(cells[place])]))
            self.unused_times, self._others = next(like, ""), []
        return found

    # --- JSON lines

    def _in_json(self, value: Any) -> tuple[int | None, list[Any], list[Any]]:
        if not isinstance(value, list) or self.rows_named or self._key_column is not None:
            return super()._in_json(value)
        if not self._by_position:
            raise Refused("the list does not say which reading is which; name them, or give --no-header")
        if len(value) != self._columns:
            raise Refused(f"expected {self._columns} numbers, found {len(value)}")
        self.key = COUNTED
        return None, [], value

    def _numbers_in(self, table: dict[str, Any], row: int | None) -> list[Any]:
        found = [column_of(name, table) for name in self._names]
        missing = [name for name, _ in found if name not in table]
        if self._names and not missing:
            self._counts_as_one = {place: text for place, (_, text) in enumerate(found) if text}
            return [table[name] for name, _ in found]
        if not self._by_position:
            raise Refused(f'the key "{missing[0]}" is missing', row)
        return super()._numbers_in(table, row)


def _is_value(text: str, dialect: Dialect) -> bool:
    """Whether a cell is a number, or says that there is none."""
    try:
        dialect.number(text)
    except NoNumber:
        return False
    return True
