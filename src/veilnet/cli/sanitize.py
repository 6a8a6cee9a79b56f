"""``veilnet sanitize``: a filter from an agent's readings to what it may send."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet.cli._command_line import ACCEPTED, HEADER, TRUST, argument, option
from veilnet.cli._lines import (
    LINES_AT_ONCE,
    USED_UP,
    refuse_unnumbered,
    say_unused_times,
    speaker,
    with_first,
)

if TYPE_CHECKING:
    from veilnet.agent.randomness import NoiseSource
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.agent_store import AgentStore
    from veilnet.io.outbox import Sink
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import Format
    from veilnet.symbols.agent import SymbolAgent

say = speaker("sanitize")


def command(
    sanitizer: Path = argument("Agent's file in a plan folder."),
    source: Path | None = option("--in", "Readings; standard input by default."),
    out: Path | None = option("--out", "Output file, written atomically; standard output by default."),
    store: Path | None = option(
        "--store", "File for memory, outbox and ledger; continues after its last row, created if missing."
    ),
    budget: int | None = option("--budget", "Largest number of rows a new --store releases.", at_least=1),
    again: bool = option("--again", "Release readings again, with fresh noise."),
    format: str | None = option("--format", "csv or jsonl; by default from the file names."),
    header: bool | None = HEADER,
    time: str | None = option("--time", "Column of timestamps, if not called time; sent, to align rows."),
    flush: bool = option("--flush", "Write each row at once."),
    summed: bool = option(
        "--summed", "Simulate a member of a sum: write its unmasked messages, which protect nothing."
    ),
    seed: int | None = option("--seed", "Simulation seed. NOT private.", at_least=0),
    json: bool = option("--json", "Messages as JSON lines."),
    trust: str | None = TRUST,
    accepted: Path | None = ACCEPTED,
) -> int:
    """Sanitize an agent's readings: one row per input line, one message per output line.

    Every message carries its plan, agent and row, so that the centre can align agents. Rows are identified by a
    "row" or "time" column, or else counted from 1. A row that is incomplete or not numeric is not sent: its number
    and the reason go to standard error, and the exit code is 1.

    Noise protects a reading once. Hashes of released readings are kept beside the agent's file (kitchen.released),
    and the same readings are refused from then on, wherever they would go; --again overrides this.

    With --store the agent is in service: outbox, ledger and, for a stream, memory are in that file. Each run
    continues after the last row, appends to --out, and resends what a killed run left behind, with the same
    numbers. Piped readings then need row numbers or times.

    A signed plan (--trust with a public key) is refused when it has expired, is older than one that was run, or
    reveals more than the one agreed to, until 'veilnet inspect --confirm'.

    For a stream, every row gives a line: a message, or a note that the reading was missed. If the plan has a step,
    times are rounded to it, and steps without a line count as gaps. An agent of symbols with windows sends one
    message per whole window, numbered as its last row.
    """
    from veilnet.agent.randomness import noise_source
    from veilnet.cli._symbols import runnable
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.acceptance import PlanFile
    from veilnet.io.streams import format_for, source_of

    _check_options(source, out, store, budget, flush, seed)
    agent, plan, _ = runnable(PlanFile(sanitizer, trust, accepted), sealed_bytes(sanitizer))
    agent = _bare(agent, summed=summed, store=store)
    noise = noise_source(randbits(63) if summed and seed is None else seed)  # a simulation's, either way
    if not noise.private:
        why = "--summed" if seed is None else "--seed"
        say(f"{why} was given: the output is a simulation, NOT private, and says so in every row")
    run = _Run(
        agent, plan, sanitizer, source_of(source, format, beside=out), out, store, budget, again, header, time,
        flush, noise, accepted, "jsonl" if json else format_for(out, source, given=format),
    )  # fmt: skip
    with ExitStack() as opened:
        run.begin(opened)
        run.to_the_end()
    return run.conclude()


def _check_options(
    source: Path | None,
    out: Path | None,
    store: Path | None,
    budget: int | None,
    flush: bool,
    seed: int | None,
) -> None:
    if store is None and budget is not None:
        raise InvalidRequest("--budget: it is kept in a store; give --store")
    if store is not None and seed is not None:
        raise InvalidRequest("--seed: a simulation releases nothing that a store could record; leave one out")
    if flush and store is None and out is not None and (out.is_file() or not out.exists()):
        raise InvalidRequest("--flush: the file appears when all messages are there; add --store to see each")
    for name, path in (("--in", source), ("--store", store)):
        if path is not None and out is not None and _same(path, out):
            raise InvalidRequest(f"{out}: the output would replace what {name} names; choose another name")


def _bare(agent: Sanitizer | SymbolAgent, *, summed: bool, store: Path | None) -> Sanitizer | SymbolAgent:
    """The agent as it runs; a member of a sum without its group, where a simulation was asked for."""
    group = getattr(agent, "summed", None)
    if group is None:
        if summed:
            raise InvalidRequest("--summed: this agent is no member of a sum; leave it out")
        return agent
    if not summed:
        raise InvalidRequest(
            f"{agent.agent}: its messages are for the sum of {group.group!r} alone, and an unmasked one reveals "
            f"more. Nothing was sent: run 'veilnet agent', or --summed for a simulation"
        )
    if store is not None:
        raise InvalidRequest("--summed: a simulation is not in service; leave --store out")
    say("--summed: messages are bare, a simulation of a sum that protects nothing of it")
    return agent.replace(summed=None, dither=agent.dither)  # type: ignore[union-attr]  # a Sanitizer, since it has a group


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.absolute() == other.absolute()


@dataclass(eq=False)
class _Run:
    """One run: read, look, reserve, draw, record, send, block by block. Its fields are named as the options."""

    agent: Sanitizer | SymbolAgent
    plan: str
    path: Path
    source: RowSource
    out: Path | None
    store: Path | None
    budget: int | None
    again: bool
    header: bool | None
    time: str | None
    flush: bool
    noise: NoiseSource
    accepted: Path | None
    sent_as: Format

    def begin(self, opened: ExitStack) -> None:
        """Look at the first readings, and open the store and the output."""
        from veilnet.io.message_streams import MessageMark
        from veilnet.io.outbox import Unsealed
        from veilnet.io.reading_streams import ReadingReader
        from veilnet.io.released_rows import CountedRows, released_beside
        from veilnet.io.row_keys import COUNTED
        from veilnet.io.streams import in_windows
        from veilnet.live.agent import LiveAgent
        from veilnet.live.feeding import Fed
        from veilnet.review.lattice_watch import LatticeWatch

        agent, source = self.agent, self.source
        step = None if agent.memory is None else agent.step
        columns = len(agent.names) or agent.readings
        window = agent.readings // columns if columns else 1
        self._reader = reader = ReadingReader(
            source, columns, names=agent.names, header=self.header, time=self.time, step=step
        )
        at_once = LINES_AT_ONCE if source.is_regular or not self.flush else 1
        # Nothing is begun, let alone replaced, before the input is known to be what it should be.
        blocks = reader.blocks(at_once)
        self._blocks = with_first(blocks if window == 1 else in_windows(blocks, window), reader)
        self._key = key = reader.key or COUNTED
        if agent.memory is not None and key.is_time:
            raise InvalidRequest(
                f"{source}: this plan is for a stream, and does not say how long a row takes, so times do not number "
                "rows. Nothing was sent. Ask for a plan that says so (design --step), or add a column 'row' that "
                "counts the steps of time, also those without a reading"
            )
        if window > 1 and key.is_time:
            raise InvalidReading(
                f"{source}: this plan has windows of {window} rows, which times do not count; nothing was "
                "sent: number the rows in a column 'row'"
            )
        say_unused_times(
            reader,
            "number them in a column 'row', so that steps that were not read count too"
            if agent.memory is not None and step is None
            else "--time {} goes by it",
        )
        self._live = LiveAgent(self._opened(opened), Unsealed(), agent, self.plan, self.noise)
        self._released = self._counted = None
        if self.noise.private:
            self._released = released_beside(self.path, agent.readings, self.accepted, again=self.again)
        if self.store is not None and key == COUNTED:
            self._counted = CountedRows(self._live.resumed, self._live.store.counted, str(source))
        self._mark = MessageMark(self.plan, agent.agent, self.noise.private, key)
        self._sink = opened.enter_context(self._outlet())
        self._watch = LatticeWatch(agent)
        self._fed = Fed()
        self._exhausted = False

    def _opened(self, opened: ExitStack) -> AgentStore:
        """The agent's store, or one for this run alone."""
        from veilnet.io.agent_store import AgentStore, begin_agent_store
        from veilnet.io.row_keys import COUNTED

        path, name = self.store, self.agent.agent
        if path is None:
            return opened.enter_context(AgentStore(None, name))
        if not self.plan:
            raise InvalidPlan("--store: expected a sanitizer of a plan, found one saved on its own")
        if self._key == COUNTED:
            refuse_unnumbered(self.source)
        if not path.exists():
            begin_agent_store(path, name, self.budget)
        store = opened.enter_context(AgentStore(path, name))
        if self.budget not in (None, store.budget):
            raise InvalidRequest(
                f"--budget: {path} was begun with {store.budget or 'none'}, found {self.budget}; a store keeps its "
                "budget: leave the option out, or begin a store for another x"
            )
        store.keep_to(self._identified_by())
        store.give_back()
        return store

    def _identified_by(self) -> str:
        """How rows are identified, in words; steps of times as a live agent counts them."""
        from veilnet.live.epochs import epochs_of

        times = self._reader.times
        if times is None:
            return "rows of logs" if self._key.name == "row" else "rows of logs, counted"
        if self._key.is_time:
            return f"times of logs, {times.style}"
        return epochs_of(None, self.agent.step).in_words(times)

    @contextmanager
    def _outlet(self) -> Iterator[Sink]:
        """Where messages go: a file that grows with the store, one that appears at the end, or a pipe."""
        import numpy as np

        from veilnet.io._atomic import replacing
        from veilnet.io.message_streams import message_header, message_lines
        from veilnet.io.outbox import Sink, added_to

        store, out, says_missed = self._live.store, self.out, self.agent.memory is not None
        sent = self.sent_as, self.agent.sent, self._mark
        # With another memory than it had before, a stream begins with a row that was missed.
        before = [store.last_epoch] if says_missed and not self._live.remembers and store.last_epoch else []
        first = message_lines(
            self.sent_as, before, np.full((len(before), self.agent.sent), np.inf), self._mark
        )
        if self.store is not None and out is not None and (out.is_file() or not out.exists()):
            with added_to(out, store, *sent, says_missed=says_missed, first=first) as sink:
                yield sink
            return
        with ExitStack() as stack:
            messages = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
            at_once = self.flush or self.store is not None

            def write(lines: bytes) -> None:
                messages.write(lines)
                if at_once:
                    messages.flush()

            write(message_header(*sent) + first)
            yield Sink(store, *sent, write, says_missed=says_missed)
            messages.flush()

    def to_the_end(self) -> None:
        """Send what an earlier run left, then what the readings become."""
        from veilnet.live.agent import Exhausted
        from veilnet.live.feeding import feed_rows

        self._catch_up()
        try:
            for block in self._blocks:
                say(self._watch.look(block.values(self.agent.readings)))
                self._fed += feed_rows(
                    self._live, block, self._key, say, self._send, released=self._released,
                    counted=self._counted, at_once=1 if self.flush else LINES_AT_ONCE,
                )  # fmt: skip
        except Exhausted:
            self._exhausted = True
        if self._released is not None and self._live.sent:
            self._released.look_at_all(sent=not self._appears_at_the_end)
            self._released.keep()
        if self.store is not None:
            ledger = self._live.store.ledger()
            last = self._key.words(ledger.epoch)
            say(f"the store has {ledger.releases} releases, up to {last}; head {ledger.head}")

    @property
    def _appears_at_the_end(self) -> bool:
        return self.store is None and self.out is not None

    def _send(self) -> None:
        if self._released is not None and not self._appears_at_the_end:
            self._released.keep()
        self._sink.deliver()

    def _catch_up(self) -> None:
        sent = self._sink.deliver()
        if sent:
            rows = self._span(sent)
            say(f"{rows} were recorded by a run that was ended, and are sent now, the same numbers")
        others = self._sink.of_others()
        if others:
            say(
                f"{self._span([each.epoch for each in others])} wait to be sent under the plan {others[0].plan[:8]}: "
                "its file, with this store, sends them"
            )

    def _span(self, rows: list[int]) -> str:
        text = self._key.text
        return f"rows {text(rows[0])} to {text(rows[-1])}" if len(rows) > 1 else self._key.words(rows[0])

    def conclude(self) -> int:
        """The last words, and the exit code."""
        from veilnet._core.words import counted

        say(self._watch.conclude())
        resumed, sent, read = self._live.resumed, self._live.sent, self._reader.last_row
        missed, fed = self._fed.missed, self._fed
        if not sent + missed + resumed + read:
            say(f"{self.source} has no readings: nothing was sent")
        if self._exhausted:
            say(USED_UP)
        elif read < resumed:
            say(
                f"the input ends at {self._key.words(read)}, before the last row sent, {self._key.text(resumed)}: "
                "is it the right file?"
            )
            return 1
        if fed.without:
            many = f"{fed.gaps} gaps, the longest of {counted(fed.longest, 'row')}"
            where = "one gap" if fed.gaps == 1 else many
            say(f"{counted(fed.without, 'row')} without a line, in {where}: reported as missed")
        if missed:
            centre = "knows it" if self.agent.memory is not None else "sees that they are missing"
            say(
                f"{missed} of {sent + missed} rows were not sent; the centre {centre}, and learns from "
                "it that a reading was faulty"
            )
        return 1 if missed or self._exhausted else 0
