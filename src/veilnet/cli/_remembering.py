"""``veilnet sanitize`` for an agent with a memory: every row enters it once, whatever ends a run.

The memory is kept in a file (:mod:`veilnet.io.state_files`) that is replaced before what it says is sent. So after a
kill it stands for a row, R, and holds the messages of the rows up to R that the run was sending. Where messages go to
a file (``--append``), the file tells which of them are there, and the others are added: every row once. Where they go
to a pipe nobody can tell: without ``--resend`` they may be missing, with it the same numbers are sent again.

Every row from 1 on is either a message or says that it was missed: a gap in the readings' row numbers too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet.agent.randomness import NoiseSource
from veilnet.agent.stream import Stream
from veilnet.cli._lines import LINES_AT_ONCE, after, outlet, say, say_unused_times, with_first
from veilnet.io.message_streams import MessageMark, message_lines
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.release_ledger import ReleaseLedger, open_release_ledger
from veilnet.io.row_keys import COUNTED, RowKey
from veilnet.io.state_files import AgentState, StateFile, begin_state, open_state, state_beside
from veilnet.review.lattice_watch import LatticeWatch

if TYPE_CHECKING:
    from veilnet._core.types import Array
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import Block, Format

_LONGEST_GAP = 1_000_000  # rows without a reading, each of which becomes a line


@dataclass(frozen=True)
class Remembering:
    """What the command was asked for; names as its options."""

    agent: Sanitizer
    plan: str
    path: Path
    source: RowSource
    out: Path | None
    append: bool
    ledger: Path | None
    budget: int | None
    resend: bool
    begin: bool
    state: Path | None
    header: bool | None
    flush: bool
    noise: NoiseSource
    sent_as: Format

    def run(self) -> int:
        """Sanitize to the end of the input; the exit code."""
        self._check()
        with ExitStack() as stack:
            agent = self.agent
            reader = ReadingReader(self.source, agent.readings, names=agent.names, header=self.header)
            blocks = with_first(reader.blocks(1 if self.flush else LINES_AT_ONCE), reader)
            say_unused_times(
                reader, "number them in a column 'row', so that steps that were not read count too"
            )
            key = self._key(reader)
            mark = MessageMark(self.plan, agent.agent, self.noise.private, key)
            record = None
            if self.ledger is not None:
                record = stack.enter_context(
                    open_release_ledger(self.ledger, self.plan or None, agent.agent, self.budget, key.name)
                )
            kept = None if self.begin or not self.noise.private else stack.enter_context(self._opened())
            opened = outlet(self.out, self.sent_as, agent.sent, mark, append=self.append, flush=True)
            send, last_in_file = stack.enter_context(opened)
            if kept is None:
                self._refuse_to_forget(last_in_file, record)
            if self.begin:
                begun = AgentState(
                    0, Stream(agent.recipe, self.noise).state, np.zeros((0, agent.sent)), self.plan
                )
                begin_state(self._state_path, agent.agent, agent.memory_key, begun)
                kept = stack.enter_context(self._opened())
            run = _Run(self, kept, record, send, mark)
            if kept is not None:
                run.catch_up(last_in_file)
            resume = run.row
            for block in blocks:
                told = reader.rows_told or reader.source.is_regular
                run.take(after(block, resume, told=told) if resume else block)
                if run.exhausted:
                    break
            run.end()
        if resume and reader.last_row < resume and not run.exhausted:
            say(
                f"the input ends at row {reader.last_row}, before the last row sent, {resume}: is it the right file?"
            )
            return 1
        return run.conclude()

    def _key(self, reader: ReadingReader) -> RowKey:
        """How rows are told apart: by numbers, since the memory has to know how many rows have passed."""
        key = reader.key or COUNTED
        if key.is_time:
            raise InvalidRequest(
                f"{self.source}: it tells its rows by a column of "
                "times, and this plan is for a stream, whose rows follow one another in equal steps, which times do "
                "not count. Nothing was sent. Put a column 'row' beside the times: 1 in the first row, 1 more for "
                "every step of time since, also for steps that were not read"
            )
        return key

    @property
    def _state_path(self) -> Path:
        return state_beside(self.path) if self.state is None else self.state

    def _opened(self) -> AbstractContextManager[StateFile]:
        agent = self.agent
        return open_state(self._state_path, agent.agent, agent.memory_key, agent.order)

    def _check(self) -> None:
        private = self.noise.private
        if self.out is not None and not self.append and private:
            raise InvalidRequest(
                "--out: an agent with a memory goes on where it was, so what it sends is added to the file; add "
                "--append"
            )
        if not private and (self.begin or self.state is not None):
            raise InvalidRequest(
                "--seed: a simulation begins with an empty memory and keeps none; leave out "
                f"{'--begin' if self.begin else '--state'}"
            )
        if self.resend and not private:
            raise InvalidRequest("--resend: a simulation keeps nothing to send again; leave one out")
        inputs = [
            each for each in (Path(self.source.name), self.path, self.out, self.ledger) if each is not None
        ]
        if private and any(each.absolute() == self._state_path.absolute() for each in inputs):
            raise InvalidRequest(
                f"--state: {self._state_path} is another of the files given; choose another name"
            )

    def _refuse_to_forget(self, last_in_file: int | None, record: ReleaseLedger | None) -> None:
        """An empty memory must not continue what was sent with another."""
        recorded = 0 if record is None or record.last_plan != self.plan else record.last_row
        sent = max(last_in_file or 0, recorded)
        if not sent:
            return
        what = str(self.out) if last_in_file else str(self.ledger)
        asked = "--begin" if self.begin else "--seed"
        raise InvalidRequest(
            f"{asked}: {what} has rows up to {sent}, which an empty memory would not continue; nothing was sent: "
            f"leave {asked} out to go on, or choose new files for a stream that begins anew"
        )


class _Run:
    """One run: what enters, what is kept, what is sent, and what there is to say about it."""

    def __init__(
        self,
        asked: Remembering,
        kept: StateFile | None,
        record: ReleaseLedger | None,
        send: Callable[[bytes], None],
        mark: MessageMark,
    ) -> None:
        self._kept = kept
        self._record = record
        self._send = send
        self._mark = mark
        self._asked = asked
        self._watch = LatticeWatch(asked.agent)
        memory = None if kept is None else kept.state.memory
        self._stream = Stream(asked.agent.recipe, asked.noise, memory)
        self.row = 0 if kept is None else kept.state.row
        self.exhausted = False
        # rows that were released under an earlier plan, and have no reading for this one
        self._before = 0 if record is None or record.last_plan == asked.plan else record.last_row
        self._sent = self._missed = 0
        self._trouble = False

    # --- what an earlier run left

    def catch_up(self, last_in_file: int | None) -> None:
        """Record and send what a killed run kept and did not send, as far as that can be known."""
        assert self._kept is not None
        state = self._kept.state
        if self._record is not None:
            self._complete(self._record, state)
        if state.plan != self._asked.plan:
            say(f"the memory goes on after row {state.row}, which it had under the plan {state.plan[:8]}")
            if len(state.sending):
                say(
                    f"rows {state.before + 1} to {state.row} were being sent under that plan by a run that was "
                    "ended, and may not have arrived: messages of that plan are not sent under this one"
                )
            return
        if last_in_file and not state.before <= last_in_file <= state.row:
            where, other = self._asked.out, self._kept.path
            raise InvalidPlan(
                f"{other}: the memory is that after row {state.row}, but {where} ends with row {last_in_file}; is it "
                "another file, or an older copy of either? Nothing was sent: add to the right one, or a new one"
            )
        if not len(state.sending):
            return
        if last_in_file or (last_in_file == 0 and state.before == 0):  # it is the file that was written
            first = last_in_file + 1
        elif self._asked.resend:
            first = state.before + 1
        else:
            say(
                f"rows {state.before + 1} to {state.row} were being sent by a run that was ended, and may not have "
                "arrived; --resend sends the same numbers again"
            )
            return
        if first <= state.row:
            rows = range(first, state.row + 1)
            self._send(
                message_lines(self._asked.sent_as, rows, state.sending[first - state.row - 1 :], self._mark)
            )
            say(f"rows {first} to {state.row} were kept by a run that was ended, and are sent now")

    def _complete(self, record: ReleaseLedger, state: AgentState) -> None:
        """Record what was kept, but not recorded, before a run was ended."""
        if record.last_row > state.row and record.last_plan == self._asked.plan:
            raise InvalidPlan(
                f"{self._asked.ledger}: its last release is row {record.last_row}, but the agent's memory is that "
                f"after row {state.row}: an older copy of it was put back; nothing was sent: give the newest one"
            )
        if state.plan != self._asked.plan:
            return  # they are another plan's, which the ledger would not say
        rows = np.arange(state.before + 1, state.row + 1)
        missing = (rows > record.last_row) & _released(state.sending)
        if missing.any():
            record.record(rows[missing].tolist(), state.sending[missing])

    # --- what is new

    def take(self, block: Block) -> None:
        """Let the rows of a block enter, keep what follows from them, and send it."""
        rows = np.array(block.rows, dtype=np.int64)
        new = rows > self.row
        readings = block.values(self._asked.agent.readings)
        say(self._watch.look(readings))
        refused = {row: reason for _, row, reason in block.refused if row is not None}
        for line, row, reason in block.refused:
            if row is None or row <= self.row or row in block.rows:
                say(f"line {line} left out: {reason}")
                self._trouble = True
        last = max([self.row, *block.rows, *refused])
        if last - self.row - len(rows) > _LONGEST_GAP:
            raise InvalidReading(
                f"row {last} comes after row {self.row}: so many rows without a reading would all be said to be "
                "missed; number the rows of the stream one by one from 1"
            )
        for start, stop in _pieces(self.row, last):
            whole = np.full((stop - start, readings.shape[1]), np.nan)
            here = new & (rows > max(start, self._before)) & (rows <= stop)
            whole[rows[here] - start - 1] = readings[here]
            told = range(start + 1, min(stop, self._before) + 1)
            refused |= dict.fromkeys(told, "released under an earlier plan, and not released again")
            self._advance(whole, refused, set(rows[here].tolist()))
            if self.exhausted:
                return

    def _advance(self, readings: Array, refused: dict[int, str], given: set[int]) -> None:
        """Some rows, in parts that the ledger's budget allows."""
        while len(readings):
            left = None if self._record is None else self._record.left
            if left == 0:
                self.exhausted = True
                return
            part, readings = (readings, readings[:0]) if left is None else (readings[:left], readings[left:])
            first = self.row + 1
            values, reasons = self._stream.advance(part)
            self._release(first, values)
            self._report(first, reasons, refused, given)

    def _release(self, first: int, values: Array) -> None:
        self.row = first + len(values) - 1
        if self._kept is not None:
            self._kept.keep(AgentState(self.row, self._stream.state, values, self._asked.plan))
        rows = np.arange(first, self.row + 1)
        released = _released(values)
        if self._record is not None and released.any():
            self._record.record(rows[released].tolist(), values[released])
        self._send(message_lines(self._asked.sent_as, rows.tolist(), values, self._mark))
        self._sent += int(released.sum())

    def _report(self, first: int, reasons: dict[int, str], refused: dict[int, str], given: set[int]) -> None:
        """Say of each row that was missed why; of rows without a line, once for all that follow one another."""
        self._missed += len(reasons)
        absent: list[int] = []
        for place, reason in reasons.items():
            row = first + place
            if row in given or row in refused:
                say(f"row {row} missed: {reason if row in given else refused[row]}")
            elif absent and row == absent[-1] + 1:
                absent[-1] = row
            else:
                absent += [row, row]
        for start, stop in zip(absent[::2], absent[1::2], strict=True):
            say(f"{f'row {start}' if start == stop else f'rows {start} to {stop}'} missed: no reading")

    # --- the end

    def end(self) -> None:
        """Everything kept was sent."""
        if self._kept is not None and len(self._kept.state.sending):
            state = self._kept.state
            self._kept.keep(AgentState(state.row, state.memory, state.sending[:0], state.plan))
        if self._record is not None:
            self._record.all_sent()
            say(
                f"the ledger has {self._record.count} releases, the last of row {self._record.last_row}; "
                f"head {self._record.head}"
            )

    def conclude(self) -> int:
        """The last words, and the exit code."""
        say(self._watch.conclude())
        if self.exhausted:
            say(
                "the ledger's budget is used up: nothing more is sent until x changes, with a ledger of its own"
            )
        if self._missed:
            say(
                f"{self._missed} of {self._sent + self._missed} rows were missed; the centre is told so, and can "
                "tell from it that a reading was faulty"
            )
        return 1 if self._missed or self.exhausted or self._trouble else 0


def _pieces(row: int, last: int) -> Iterator[tuple[int, int]]:
    """The rows after one, up to another, in pieces: each from after ``start`` up to ``stop``."""
    for start in range(row, last, LINES_AT_ONCE):
        yield start, min(last, start + LINES_AT_ONCE)


def _released(values: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows are messages, and not missed."""
    return np.asarray(~np.isposinf(values).all(axis=1) if values.shape[1] else np.ones(len(values), bool))
