"""From lines of readings to an agent: each epoch once, by its first line; one that cannot be read is missed.

Epochs go up: a reading of one that was passed over, which a wrong clock can have done, is left out, and that is said.
:func:`feed` is for readings that come as time goes by, :func:`feed_rows` for those of a log, whose rows are epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.missed import LONGEST_GAP
from veilnet._core.types import Array
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.released_rows import CountedRows, ReleasedRows
from veilnet.io.row_keys import COUNTED, RowKey
from veilnet.io.streams import Block
from veilnet.live.agent import Exhausted, LiveAgent
from veilnet.live.epochs import Epochs

_LINES_AT_ONCE = 2048
_Found = dict[int, tuple[str, list[float] | None]]  # epoch -> why it has no numbers, or the numbers


@dataclass
class Fed:
    """What came of some lines of a log.

    missed:  rows that have a line, and were missed or left out.
    without: rows of an agent with a memory that have none, in so many ``gaps``, the longest of so many rows.
    """

    missed: int = 0
    without: int = 0
    gaps: int = 0
    longest: int = 0

    def count_gaps(self, rows: Sequence[int]) -> None:
        """Count the rows that are not among these, between the first and the last."""
        between = [after - before - 1 for before, after in pairwise(rows) if after - before > 1]
        self.without, self.gaps, self.longest = sum(between), len(between), max(between, default=0)

    def __iadd__(self, other: Fed) -> Fed:
        self.missed += other.missed
        self.without += other.without
        self.gaps += other.gaps
        self.longest = max(self.longest, other.longest)
        return self


def feed(
    agent: LiveAgent,
    block: Block,
    key: RowKey,
    epochs: Epochs,
    say: Callable[[str], None],
    released: ReleasedRows | None = None,
) -> int:
    """Sanitize what is new in a block of lines; how many readings were missed, or left out for their epoch.

    key: how lines give their rows, and ``epochs`` theirs. say: called with what is left out, and why.
    released: what was released before, from whatever store; those readings are refused.

    Raises Exhausted when the budget is used up before the block's end.
    """
    agent.store.keep_to(epochs.in_words(key))
    found: _Found = {}
    for line, row, reason in block.refused:
        if row is None or epochs.too_soon(row, key):
            say(f"line {line} left out: {reason}")
        else:
            found.setdefault(epochs.of(row, key), (reason, None))
    for row, numbers in zip(block.rows, block.numbers, strict=True):
        if epochs.too_soon(row, key):
            say(
                f"{key.words(row)} left out: it is in the future; set the clock of the sensor, or of this machine"
            )
            continue
        epoch = epochs.of(row, key)
        if epoch in found and found[epoch][1] is not None:
            say(f"{key.words(row)} left out: another reading of epoch {epoch} came before")
            continue
        found[epoch] = "", numbers
    sent, last = agent.store.sent_before(found), agent.store.last_epoch
    new = sorted(epoch for epoch in found if epoch > last and epoch not in sent)
    passed = sorted(epoch for epoch in found if epoch <= last and epoch not in sent)
    if passed:
        which = (
            f"epoch {passed[0]}"
            if len(passed) == 1
            else f"{len(passed)} epochs, {passed[0]} to {passed[-1]},"
        )
        ahead = (
            ", ahead of the clock of this machine; if a clock was wrong, and is right now, --repair-clock"
            if epochs.is_ahead(last, time.time())
            else ""
        )
        say(f"{which} left out: never sent, but epochs were taken up to {last}{ahead}")
    missed = len(passed)
    for part in _within_budget(agent, new, len(new)):
        readings = _readings(agent, found, part)
        _note(released, found, part, readings)
        gone = agent.take(part, readings, note=None if released is None else released.keep).missed
        for epoch, reason in gone.items():
            say(f"epoch {epoch} missed: {found[epoch][0] or reason}")
        missed += len(gone)
    return missed


def look_ahead(reader: ReadingReader, epochs: Epochs, last: int, released: ReleasedRows) -> None:
    """An error where readings of epochs after the last one were released before, from whatever store."""
    for block in reader.blocks(_LINES_AT_ONCE):
        key = reader.key or COUNTED
        rows = [
            (epochs.of(row, key), numbers) for row, numbers in zip(block.rows, block.numbers, strict=True)
        ]
        new = [(epoch, numbers) for epoch, numbers in rows if epoch > last]
        if new:
            released.look([epoch for epoch, _ in new], np.array([numbers for _, numbers in new]))


def feed_rows(
    agent: LiveAgent,
    block: Block,
    key: RowKey,
    say: Callable[[str], None],
    send: Callable[[], object],
    *,
    released: ReleasedRows | None,
    counted: CountedRows | None,
    at_once: int,
) -> Fed:
    """Sanitize what is new in a block of a log.

    send:     called after each ``at_once`` rows, once all that is to be known of them is on the disk.
    released: what was released before, from whatever store; those readings are refused.
    counted:  looks whether lines are those that were counted before.

    Every row of an agent with a memory is reported, also one without a line, from its first on; so is the row before
    that, as missed, which says that nothing of earlier ones is remembered. Of another, only rows that are released.
    Raises Exhausted when the budget is used up before the block's end.
    """
    fed = Fed()
    last, remembers = agent.store.last_epoch, agent.sanitizer.memory is not None
    hashes = None if counted is None else counted.look(block)
    found: _Found = {
        row: ("", numbers) for row, numbers in zip(block.rows, block.numbers, strict=True) if row > last
    }
    for line, row, reason in block.refused:
        if remembers and row is not None and row > last and row not in found:
            found[row] = reason, None
        elif row is None or row > agent.resumed:
            say(f"{f'line {line}' if row is None else key.words(row)} not sent: {reason}")
            fed.missed += 1
    new = sorted(found)
    if remembers and new:
        start = last + 1 if last else max(1, new[0] - 1)
        if new[-1] - start - len(found) > LONGEST_GAP:
            raise InvalidReading(
                f"row {new[-1]} comes after row {last}: more than {LONGEST_GAP:,} rows without a reading would all "
                "be said to be missed; number the rows of the stream one by one, or begin another store"
            )
        fed.count_gaps([last, *new] if last else new)
        new = list(range(start, new[-1] + 1))
    if released is not None:
        released.refuse(_readings(agent, found, [row for row in new if row in found and found[row][1]]))
    for part in _within_budget(agent, new, at_once):
        readings = _readings(agent, found, part)
        _note(released, found, part, readings)
        for row, reason in agent.take(part, readings, hashes).missed.items():
            if row in found:
                say(f"{key.words(row)} {'missed' if remembers else 'not sent'}: {found[row][0] or reason}")
                fed.missed += 1
        send()
    return fed


def _within_budget(agent: LiveAgent, epochs: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Epochs, so many at a time, as far as the budget goes."""
    while epochs:
        left = agent.store.left
        part = epochs[: most if left is None else min(most, left)]
        if not part:
            raise Exhausted
        yield part
        epochs = epochs[len(part) :]


def _readings(agent: LiveAgent, found: _Found, epochs: Sequence[int]) -> Array:
    nothing = [np.nan] * agent.sanitizer.readings
    rows = [found.get(epoch, ("", None))[1] or nothing for epoch in epochs]
    return np.array(rows, dtype=np.float64).reshape(len(epochs), agent.sanitizer.readings)


def _note(released: ReleasedRows | None, found: _Found, epochs: Sequence[int], readings: Array) -> None:
    """Take note of readings that are about to be released; an error where they were before."""
    if released is not None:
        there = [place for place, epoch in enumerate(epochs) if epoch in found and found[epoch][1]]
        released.look([epochs[place] for place in there], readings[there])
