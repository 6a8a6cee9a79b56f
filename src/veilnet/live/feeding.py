"""From lines of readings to an agent: each epoch once, by its first line; one that cannot be read is missed.

Epochs go up: a reading of one that was passed over, which a wrong clock can have done, is left out, and that is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from veilnet.io.row_keys import RowKey
from veilnet.io.streams import Block
from veilnet.live.agent import Exhausted, LiveAgent
from veilnet.live.epochs import Epochs

__all__ = ["feed"]


def feed(agent: LiveAgent, block: Block, key: RowKey, epochs: Epochs, say: Callable[[str], None]) -> int:
    """Sanitize what is new in a block of lines; how many readings were missed, or left out for their epoch.

    key: how the lines tell their rows, from which ``epochs`` tells theirs. say: told what is left out, and why.

    Raises Exhausted when the budget is used up before the block's end.
    """
    agent.store.keep_to(epochs.in_words(key))
    found: dict[int, tuple[str, list[float] | None]] = {}
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
    told, last = agent.store.told(found), agent.store.last_epoch
    new = sorted(epoch for epoch in found if epoch > last and epoch not in told)
    passed = sorted(epoch for epoch in found if epoch <= last and epoch not in told)
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
        say(f"{which} left out: never told, but epochs were taken up to {last}{ahead}")
    nothing = [np.nan] * agent.sanitizer.readings
    missed = len(passed)
    while new:
        left = agent.store.left
        part = new if left is None else new[:left]
        if not part:
            raise Exhausted
        new = new[len(part) :]
        readings = np.array([nothing if found[epoch][1] is None else found[epoch][1] for epoch in part])
        released = agent.take(part, readings)
        for epoch, reason in released.missed.items():
            say(f"epoch {epoch} missed: {found[epoch][0] or reason}")
        missed += len(released.missed)
    return missed
