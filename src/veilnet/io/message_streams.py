"""Lines of messages, what ``veilnet sanitize`` writes and ``veilnet fuse`` reads.

    CSV     row,plan,agent,z1,z2          a header, then 7,cf6785d0,kitchen,-50.8330078125,8.86328125
    JSON    {"row": 7, "plan": "cf6785d0", "agent": "kitchen", "values": [-50.8330078125, 8.86328125]}

The first column is how rows are identified (:mod:`veilnet.io.row_keys`): ``row``, ``time`` or ``counted``.

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

from veilnet._core.errors import InvalidReading
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.io.cells import Dialect, as_cell
from veilnet.io.row_keys import ROW, RowKey
from veilnet.io.sources import Line, RowSource
from veilnet.io.streams import Block, Format, Refused, Repeated, RowReader

_MISSED = "missed"
SENT_AT_ONCE = 2048  # messages: as many may come once more by a pipe, where a run was killed
_MARK = 8  # characters of a plan's id that its messages carry


@dataclass(frozen=True)
class MessageMark:
    """What every message of a stream says of itself: plan, agent, whether noise was secret, the key of rows."""

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
    return (",".join([*mark.columns, *_names(columns)]) + "\n").encode()


def message_lines(format: Format, rows: Sequence[int], values: Array, mark: MessageMark) -> bytes:
    """Messages as lines; a row that is infinite says that its reading was missed."""
    key, as_csv, lines = mark.key, format == "csv", []
    if as_csv:
        between = _csv_line(mark.fields)
    else:
        private = "" if mark.private else ', "private": false'
        agent = json.dumps(mark.agent, ensure_ascii=False)
        between = f'"plan": {json.dumps(mark.short_plan)}, "agent": {agent}{private}'
    for row, numbers in zip(rows, values.tolist(), strict=True):
        missed = bool(numbers) and all(number == MISSED for number in numbers)
        if as_csv:
            cells = [_MISSED] * len(numbers) if missed else map(repr, numbers)
            lines.append(",".join([key.text(row), between, *cells]) + "\n")
        else:
            content = '"missed": true' if missed else f'"values": {numbers!r}'
            lines.append(f'{{"{key.name}": {key.json(row)}, {between}, {content}}}\n')
    return "".join(lines).encode()


class MessageReader(RowReader):
    """Reads the messages of one agent of one plan.

    A file that is not theirs, or does not say whose it is, is refused as a whole; a damaged line alone. What comes
    once more, the same in every number, counts once: a run that was killed cannot know what a pipe has taken.

    simulated: how many of the rows so far were made with repeatable noise.
    missed:    how many said that their reading was missed.
    """

    _keys = ("row", "time", "counted")
    _texts = ("plan", "agent", "private")
    _listed = "values"

    def __init__(self, source: RowSource, columns: int, *, mark: MessageMark) -> None:
        super().__init__(source, columns, _names(columns))
        self.mark = mark
        self.rows_named = True
        self.simulated = 0
        self.missed = 0
        self._header: Any = None
        self._recent: dict[int, tuple[object, list[float]]] = {}  # rows that a pipe may bring once more

    def _take(self, line: Line, block: Block) -> None:
        if line.cells and line.cells == self._header:  # as every run begins that writes to a pipe
            return
        super()._take(line, block)

    def _out_of_order(self, block: Block, row: int) -> None:
        del block
        key = self.key or ROW
        raise InvalidReading(
            f"{self.source}, line {self._line}: {key.words(row)} comes after {key.words(self.last_row)}; "
            f"{'times' if key.is_time else 'rows'} must increase: sort the file, and send each row once"
        )

    def _at_end(self) -> None:
        if not self._json and self._line == 0:
            self._bad_header("it is empty")

    def _is_header(self, line: Line) -> bool:
        names = [str(cell).strip() for cell in line.cells or ()]
        self._header = line.cells
        self._read_header(names)
        if self._key_at is None or None in self._texts_at[:2]:
            self._bad_header("it does not name all of these")
        if self._width != self._columns + 4 - self._texts_at.count(None):
            self._bad_header("it names others beside")
        return True

    def _bad_header(self, trouble: str) -> NoReturn:
        wanted = ",".join([*MessageMark("", "").columns, *self._names])
        raise InvalidReading(
            f"{self.source}: expected messages of {self.mark.agent!r} under a header "
            f"{wanted if len(wanted) < 80 else wanted[:77] + '...'}, but {trouble}; is it the right file? "
            "'veilnet sanitize' writes it"
        )

    def _numbers_in(self, table: dict[str, Any], row: int | None) -> list[Any]:
        if table == {_MISSED: True}:
            return [_MISSED] * self._columns
        return super()._numbers_in(table, row)

    def _checked(self, row: int | None, texts: list[Any], cells: list[Any], dialect: Dialect) -> list[float]:
        plan, agent, private = texts
        self._check_origin(plan, self.mark.agent if agent == self._agent_cell else agent)
        simulated = private not in (None, True)
        if simulated and private is not False and str(private).strip() != "no":
            raise Refused("'private' says something else than no", row)
        missed = _MISSED in cells
        if missed and any(cell != _MISSED for cell in cells):
            raise Refused("some numbers are missed and others not", row)
        numbers = [MISSED] * self._columns if missed else super()._checked(row, texts, cells, dialect)
        if not missed and not all(
            map(math.isfinite, numbers)
        ):  # as only what was missed is, or did not arrive
            raise Refused("a number is missing or infinite", row)
        if row is not None and row <= self.last_row and self._recent.get(row) == (private, numbers):
            raise Repeated
        self._remember(row or 0, (private, numbers))
        self.simulated += simulated
        self.missed += missed
        return numbers

    def _remember(self, row: int, message: tuple[object, list[float]]) -> None:
        self._recent[row] = message
        if len(self._recent) > SENT_AT_ONCE:
            del self._recent[next(iter(self._recent))]

    @cached_property
    def _agent_cell(self) -> str:
        return self.mark.agent if self._json else as_cell(self.mark.agent)

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


def _names(columns: int) -> list[str]:
    return [f"z{k + 1}" for k in range(columns)]


def _csv_line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
