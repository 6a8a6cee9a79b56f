"""``veilnet agent --repair-clock``: go on in the present where a clock had been ahead, and say what that gives up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest

if TYPE_CHECKING:
    from veilnet.io.agent_store import AgentStore
    from veilnet.live.epochs import Epochs


def repair(path: Path, agent: str, epochs: Epochs, *, confirmed: bool) -> int:
    """Set the store of an agent back to the present, once its owner has agreed; 1 where nothing was changed.

    Any reading that was sent while the clock was wrong was taken before now. So whatever was read until now is given
    up, and no reading gets noise twice.
    """
    from veilnet._core.words import counted
    from veilnet.io.agent_store import CLOCKS_SET, AgentStore, moment

    now = time.time()
    if now < CLOCKS_SET:
        raise InvalidRequest("--repair-clock: the clock of this machine was never set; set it first")
    with AgentStore(path, agent) as store:
        last = _present(store, epochs, now)
        count, first, end = store.sent_after(last)
        if last == store.last_epoch and store.clock <= now:
            sys.stderr.write(
                "veilnet agent: nothing to repair: neither the last release nor its epoch is ahead of the clock, "
                f"{moment(now)}; a wrong row number looks like a right one: --begin another store, "
                "for readings that were never sent\n"
            )
            return 1
        lines = [f"The clock of this machine says {moment(now)}; it said {moment(store.clock)} at a release."]
        if last < store.last_epoch:
            lines += [
                f"{counted(count, 'epoch')} ahead of now, {first} to {end}: sent by the wrong clock. No reading of "
                "them is ever sent again.",
                f"Readings up to epoch {last}, which is now, are given up, since some may have been sent by the "
                f"wrong clock; the last one sent by the right one is {store.newest_until(last)}.",
                "A memory of the readings before is given up, too.",
            ]
        else:
            lines.append(f"Epochs go on after {last}, as before; no reading is given up.")
        sys.stderr.write("\n".join(lines) + "\n")
        if not confirmed and not _agrees("Give that up?"):
            sys.stderr.write("veilnet agent: nothing was changed; --repair-clock --confirm does it\n")
            return 1
        store.repair_clock(last, now)
    sys.stderr.write(f"veilnet agent: {agent} goes on after epoch {last}\n")
    return 0


def _agrees(question: str) -> bool:
    """Whether somebody at a terminal says yes."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _present(store: AgentStore, epochs: Epochs, now: float) -> int:
    """The last epoch that a reading taken until now can be of, or the last one taken if that is earlier."""
    from veilnet.live.epochs import NUMBERED

    style = epochs.style_in(store.epochs)
    if style is None:
        raise InvalidRequest(f"--step: the epochs of {store.path} are {store.epochs}; say that step")
    if not style or store.last_epoch <= epochs.at(now, style):
        return store.last_epoch
    right = store.newest_until(epochs.at(now, style))
    if style == "seconds" and right > 0 and epochs.seconds(right) < NUMBERED:
        raise InvalidRequest(
            f"{store.path}: its seconds are not counted from 1970, so nothing tells which epoch is now; --begin "
            "another store, for readings that were never sent"
        )
    return epochs.at(now, style)
