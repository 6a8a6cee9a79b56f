"""Lines of messages, what ``veilnet sanitize`` writes and ``veilnet fuse`` reads.

    CSV     row,plan,agent,z1,z2          a header, then 7,cf6785d0,kitchen,-50.8330078125,8.86328125
    JSON    {"row": 7, "plan": "cf6785d0", "agent": "kitchen", "values": [-50.8330078125, 8.86328125]}

The first column is how rows are told apart (:mod:`veilnet.io.row_keys`): ``row``, ``time`` or ``counted``.

Every message names its row, the plan it was made by (the beginning of its id) and the agent that sent it, so
that no file of another agent or plan is fused by mistake, wherever in it a foreign line stands. What was made
with ``--seed`` says so in every row: the column ``private`` after the agent holds ``no``, or the key "private"
is false.

In a stream a row whose reading was missed says so, and nothing else: ``7,cf6785d0,kitchen,missed,missed``, or the key
"missed" is true in place of the values. In arrays such a row is infinite in every number.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.io.cells import Dialect, as_cell
from veilnet.io.row_keys import ROW, RowKey, key_named
from veilnet.io.sources import Line, RowSource
from veilnet.io.streams import Block, Format, Refused, RowReader, numbers_of

__all__ = ["MessageMark", "MessageReader", "message_header", "message_lines"]

_MISSED = "missed"
_MARK = 8  # characters of a plan's id that its messages carry


@dataclass(frozen=True)
class MessageMark:
    """What every message of a stream says of itself: plan, agent, whether noise was secret, and how rows are told."""

    plan: str
    agent: str
    private: bool = True
    key: RowKey = ROW

    @cached_property
    def short_plan(self) -> str:
        """The plan as messages name it."""
        return self.plan[:_MARK]

    @property
    def columns(self) -> list[str]:
        """The first columns of a CSV."""
        return [self.key.name, "plan", "agent"] + ([] if self.private else ["private"])

    @property
    def fields(self) -> list[str]:
        """What stands in them, beside the row."""
        return [self.short_plan, as_cell(self.agent)] + ([] if self.private else ["no"])


def message_header(format: Format, columns: int, mark: MessageMark) -> bytes:
    """The first line of a CSV of messages; JSON lines have none."""
    if format != "csv":
        return b""
    return (",".join([*mark.columns, *(f"z{k + 1}" for k in range(columns))]) + "\n").encode()


def message_lines(format: Format, rows: Sequence[int], values: Array, mark: MessageMark) -> bytes:
    """Messages as lines; a row that is infinite says that its reading was missed."""
    missed = np.isposinf(values).all(axis=1) if values.shape[1] else np.zeros(len(rows), bool)
    if format == "csv":
        between, told = _csv_line(mark.fields), mark.key.text
        lines = [
            f"{told(row)},{between},{','.join(map(repr, numbers))}\n"
            if numbers
            else f"{told(row)},{between}\n"
            for row, numbers in zip(rows, values.tolist(), strict=True)
        ]
        for place in np.flatnonzero(missed).tolist():
            lines[place] = f"{told(rows[place])},{between},{','.join([_MISSED] * values.shape[1])}\n"
    else:
        between = (
            f'"plan": {json.dumps(mark.short_plan)}, "agent": {json.dumps(mark.agent, ensure_ascii=False)}'
        )
        between += "" if mark.private else ', "private": false'
        told = mark.key.json
        lines = [
            f'{{"{mark.key.name}": {told(row)}, {between}, "values": {numbers!r}}}\n'
            for row, numbers in zip(rows, values.tolist(), strict=True)
        ]
        for place in np.flatnonzero(missed).tolist():
            lines[place] = f'{{"{mark.key.name}": {told(rows[place])}, {between}, "missed": true}}\n'
    return "".join(lines).encode()


class MessageReader(RowReader):
    """Reads the messages of one agent of one plan.

    A file that is not theirs, or does not say whose it is, is refused as a whole; a damaged line alone.

    simulated: how many of the rows so far were made with repeatable noise.
    missed:    how many said that their reading was missed.
    """

    def __init__(self, source: RowSource, columns: int, *, mark: MessageMark) -> None:
        super().__init__(source, columns)
        self.mark = mark
        self._origin = [mark.short_plan, as_cell(mark.agent)]
        self._places = 3  # fields before the numbers
        self._named: RowKey | None = None  # the column or key that tells rows
        self.rows_told = True
        self.simulated = 0
        self.missed = 0

    def _parse(self, cells: Any, dialect: Dialect) -> tuple[int | None, list[float]]:
        return self._parse_json(cells, dialect) if self._json else self._parse_cells(cells, dialect)

    def _out_of_order(self, block: Block, row: int) -> None:
        del block
        key = self.key or ROW
        raise InvalidReading(
            f"{self.source}, line {self._line}: {key.words(row)} comes after {key.words(self.last_row)}; "
            f"{'times' if key.is_time else 'rows'} must increase: sort the file, and send each row once"
        )

    def _at_end(self) -> None:
        if not self._json and self._line == 0:
            self._refuse_file("it is empty")

    # --- CSV

    def _is_header(self, line: Line) -> bool:
        names = [str(cell).strip() for cell in line.cells or ()]
        numbers = [f"z{k + 1}" for k in range(self._columns)]
        self._named = key_named(names[0]) if names else None
        for private in (True, False):
            columns = MessageMark("", "", private, self._named or ROW).columns
            if names == columns + numbers:
                self._places = len(columns)
                break
        else:
            self._refuse_file(f"it names {len(names)} others" if self._named else "it has none")
        return True

    def _refuse_file(self, found: str) -> NoReturn:
        wanted = ",".join([*MessageMark("", "").columns, *(f"z{k + 1}" for k in range(self._columns))])
        raise InvalidReading(
            f"{self.source}: expected messages of {self.mark.agent!r} under a header "
            f"{wanted if len(wanted) < 80 else wanted[:77] + '...'}, but {found}; is it the right file? "
            "'veilnet sanitize' writes it"
        )

    def _parse_cells(self, cells: list[Any], dialect: Dialect) -> tuple[int | None, list[float]]:
        if len(cells) != self._places + self._columns:
            raise Refused(f"expected {self._places + self._columns} cells, found {len(cells)}")
        row = self._told(self._named or ROW, cells[0])
        if cells[1:3] != self._origin:
            plan, agent = cells[1:3]
            self._check_origin(plan, self.mark.agent if agent == as_cell(self.mark.agent) else agent)
        if self._places == 4:
            if cells[3].strip() != "no":
                raise Refused("the column 'private' holds neither 'no' nor a number", row)
            self.simulated += 1
        return row, self._values(cells[self._places :], dialect, row)

    def _values(self, cells: list[Any], dialect: Dialect, row: int) -> list[float]:
        if _MISSED in cells:
            if any(cell != _MISSED for cell in cells):
                raise Refused("some numbers are missed and others not", row)
            return self._missed()
        numbers = numbers_of(cells, dialect, row)
        if not all(
            map(math.isfinite, numbers)
        ):  # as only a reading that was missed is, and one that did not arrive
            raise Refused("a number is missing or infinite", row)
        return numbers

    def _missed(self) -> list[float]:
        self.missed += 1
        return [MISSED] * self._columns

    # --- JSON lines

    def _parse_json(self, table: Any, dialect: Dialect) -> tuple[int | None, list[float]]:
        if not isinstance(table, dict):
            raise Refused('expected a JSON table with "row", "plan", "agent" and "values"')
        if self._named is None:
            self._named = next(filter(None, map(key_named, table)), None)
        if self._named is None or self._named.name not in table:
            raise Refused(f"the {'row' if self._named is None else self._named.name} is missing")
        row = self._told(self._named, table.pop(self._named.name))
        self._check_origin(table.pop("plan", None), table.pop("agent", None))
        if table.pop("private", True) is not True:
            self.simulated += 1
        if list(table) == [_MISSED] and table[_MISSED] is True:
            return row, self._missed()
        if list(table) != ["values"]:
            raise Refused('expected "values" and no other keys beside "row", "plan" and "agent"', row)
        values = table["values"]
        if not isinstance(values, list) or len(values) != self._columns:
            raise Refused(f"expected a list of {self._columns} numbers", row)
        return row, self._values(values, dialect, row)

    def _check_origin(self, plan: object, agent: object) -> None:
        if plan == self.mark.short_plan and agent == self.mark.agent:
            return
        if not isinstance(plan, str) or not isinstance(agent, str) or not plan or not agent:
            trouble = "the message does not say which plan and agent it is of"
        elif plan != self.mark.short_plan:
            trouble = "the message was made by another plan"
        else:
            trouble = f"the message is one of {agent!r}"
        raise InvalidReading(
            f"{self.source}, line {self._line}: expected messages of {self.mark.agent!r} by this plan, but "
            f"{trouble}; is it the right file?"
        )


def _csv_line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
