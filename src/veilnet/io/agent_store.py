"""What an agent has on its disk: which sequence numbers are taken, what waits to be sent, its memory, its ledger.

The order of things is what makes a message count once, whenever the process is killed:

1. :meth:`AgentStore.reserve` commits that a sequence number and an epoch are taken. Noise is drawn only afterwards.
2. :meth:`AgentStore.keep` commits the message, its entry in the ledger and the agent's memory together.
3. The message is sent, and sent again, the same bytes, until it is known to have arrived: :meth:`settle`.

A process killed between 1 and 2 leaves an epoch for which noise may have been drawn and nothing was kept, so that
nothing of it has left. Where its reading comes once more, from a log, :meth:`give_back` lets it enter again; a live
agent, whose sensor has moved on, tells that it was missed. Epochs go up, so that none is sent twice: only
:meth:`AgentStore.repair_clock` goes back, to the present and no further, and what was sent stays sent. The store is
the agent's, whatever plans come after one another: a reading sent under one is not sent under the next.

Readings are never written down. The memory of an agent with one is as private as the readings it was made of, so the
file is its owner's alone.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet._core.types import Array
from veilnet.io._sqlite import (
    Lock,
    Opened,
    connect,
    create_database,
    fill_database,
    open_database,
    transaction,
)
from veilnet.io.agent_ledger import KIND, Ledger, digest_of, next_hash, read_ledger, require_store, start_hash

_PAGE = 512  # bytes: a reading writes a sixth of what it does with pages of 4,096
_LOG = 262_144  # bytes of changes beside the store, of which the store then gets its own
CLOCKS_SET = 1_704_067_200.0  # seconds since 1970, the year 2024: a clock before that was never set
STORE_BYTES = 8
_WHAT = "an agent's store"
NO_COPIES = (
    "nothing is sent. Never bring back a copy: it does not know what was sent since, and would draw noise for it "
    "again. Begin another store, under another name (--begin --store)"
)
_USE = "sends from this store"
_SCHEMA = """
CREATE TABLE about (
    agent TEXT NOT NULL, store BLOB NOT NULL, budget INTEGER, clock REAL NOT NULL,
    sequence INTEGER NOT NULL, epoch INTEGER NOT NULL, head BLOB NOT NULL, epochs TEXT, counted BLOB
);
CREATE TABLE releases (
    sequence INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, plan TEXT NOT NULL,
    state TEXT NOT NULL, hash BLOB, digest BLOB, memory_key TEXT NOT NULL
);
CREATE INDEX releases_by_epoch ON releases (epoch);
CREATE TABLE repairs (sequence INTEGER NOT NULL, epoch INTEGER NOT NULL, clock REAL NOT NULL);
CREATE TABLE outbox (sequence INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE memory (memory_key TEXT PRIMARY KEY, epoch INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE file (length INTEGER NOT NULL, end BLOB NOT NULL, messages TEXT NOT NULL)
"""
_CLOCK_MAY_GO_BACK = 60.0  # seconds: clocks are set right now and then


def moment(seconds: float) -> str:
    """A time in seconds since 1970, in words."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


@dataclass(frozen=True)
class Reserved:
    """A sequence number that is taken, and the epoch it is for."""

    sequence: int
    epoch: int


@dataclass(frozen=True, eq=False)
class Kept:
    """What is to be kept of a release.

    payload:  the message; ``released`` whether it has numbers, or says that the reading was missed.
    waits:    in the outbox, until it arrived; a part in a sum leaves in its round or never.
    """

    reserved: Reserved
    payload: bytes
    released: bool
    waits: bool = True


@dataclass(frozen=True)
class FileEnd:
    """How far the file goes that messages were added to last.

    length:   in bytes; ``end`` a hash of the last of them.
    messages: which messages it has: plan, agent, format.
    """

    length: int
    end: bytes
    messages: str


def begin_agent_store(path: Path, agent: str, budget: int | None = None) -> None:
    """An empty store, from sequence number 1 on.

    budget: the most releases that it ever lets through.
    """
    if budget is not None and budget < 1:
        raise InvalidRequest(f"--budget: expected at least one release, found {budget}")
    with closing(Lock(path, _USE)):
        try:
            fill = partial(_fill, agent=agent, budget=budget)
            create_database(path, KIND, _SCHEMA, fill, page=_PAGE)
        except FileExistsError:
            check_not_begun(path)
            raise


def _fill(database: sqlite3.Connection, agent: str, budget: int | None) -> None:
    store = secrets.token_bytes(STORE_BYTES)
    about = (agent, store, budget, time.time(), start_hash(agent, store, budget))
    database.execute("INSERT INTO about VALUES (?, ?, ?, ?, 0, 0, ?, NULL, NULL)", about)


def check_not_begun(path: Path) -> None:
    """Refuse a second beginning before anything else is done for it."""
    if path.exists():
        raise InvalidRequest(
            f"--begin: {path} exists, and a second beginning would use its sequence numbers twice; leave --begin out "
            "to go on with it, or choose another name (--store)"
        )


class AgentStore(Opened):
    """The store of one agent, nobody else's while it is open; threads may share it.

    path:  the file; None for one in memory, which is gone when it is closed: for readings that are sanitized in one
           go. ``agent`` says whose it is, ``id`` is a random number of its own.
    budget: the most releases that it lets through, None for any number.
    last_epoch: the last one taken; ``epochs`` the way in which they are counted, in words, None before the first.
    clock:  the latest time at which anything was released, in seconds since 1970.
    counted: a hash of all rows up to the last, where rows are counted.
    """

    def __init__(self, path: Path | None, agent: str) -> None:
        self.path = path
        self._turn = threading.RLock()
        with ExitStack() as files:
            self._open(path, agent, files)
            about = self._about(agent)
            super().__init__(files.pop_all())
        self.agent = agent
        self.id: bytes = about[1]
        self.budget: int | None = about[2]
        self.last_epoch: int = about[4]
        self._sequence: int = about[3]
        self.clock: float = about[5]
        self.epochs: str | None = about[6]
        self.counted: bytes | None = about[7]
        self._released: int = about[8]
        self._newest: int = about[9]

    def _open(self, path: Path | None, agent: str, files: ExitStack) -> None:
        if path is None:
            self._db = self._settling = files.enter_context(closing(connect(None)))
            fill_database(self._db, KIND, _SCHEMA, lambda database: _fill(database, agent, None))
            return
        if not path.exists():
            raise InvalidRequest(
                f"{path}: there is no store of this agent, so nothing is sent. At its very first start give "
                "--begin; afterwards the file has to be where it was (--store says where)"
            )
        require_store(path)
        files.enter_context(closing(Lock(path, _USE)))
        self._db = files.enter_context(closing(open_database(path, KIND, what=_WHAT, mend=NO_COPIES)))
        # settling may be undone by a crash of the machine: what arrived is sent again
        self._settling = files.enter_context(closing(connect(path, durable=False)))
        for each in (self._db, self._settling):
            each.execute(f"PRAGMA wal_autocheckpoint = {_LOG // _PAGE}")

    def _about(self, agent: str) -> tuple[Any, ...]:
        try:
            about = self._db.execute(
                "SELECT agent, store, budget, sequence, epoch, clock, epochs, counted FROM about"
            ).fetchone()
            counts = self._db.execute(
                "SELECT count(*) FILTER (WHERE state <> 'missed'), coalesce(max(epoch), 0) FROM releases"
            ).fetchone()
        except sqlite3.Error as error:
            raise InvalidPlan(f"{self.path}: {_WHAT} is broken ({error}); nothing is sent") from None
        if about is None or about[0] != agent:
            found = "" if about is None else about[0]
            raise InvalidPlan(
                f"{self.path}: expected the store of {agent!r}, found that of {found!r}; nothing is sent: "
                "give its own with --store"
            )
        return (*about, *counts)

    def _all(self, query: str, *asked: object) -> list[Any]:
        with self._turn:
            return self._db.execute(query, asked).fetchall()

    @property
    def left(self) -> int | None:
        """How many more releases the budget allows; None for any number."""
        return None if self.budget is None else max(0, self.budget - self._released)

    def sent_before(self, epochs: Collection[int]) -> set[int]:
        """Those of some epochs that were sent, or are reserved."""
        asked = [epoch for epoch in epochs if epoch <= self._newest]
        if not asked:
            return set()
        rows = self._all("SELECT epoch FROM releases WHERE epoch BETWEEN ? AND ?", min(asked), max(asked))
        return {row[0] for row in rows}.intersection(asked)

    def sent_after(self, epoch: int) -> tuple[int, int, int]:
        """(how many epochs after one were sent, the first, the last); zeros for none."""
        found = self._all("SELECT count(*), min(epoch), max(epoch) FROM releases WHERE epoch > ?", epoch)
        count, first, last = found[0]
        return count, first or 0, last or 0

    def newest_until(self, epoch: int) -> int:
        """The newest epoch up to one that was sent; 0 for none."""
        return self._all("SELECT max(epoch) FROM releases WHERE epoch <= ?", epoch)[0][0] or 0

    def repair_clock(self, epoch: int, now: float) -> None:
        """Go on after an epoch, where a wrong clock had led further; those that were sent are never sent again.

        epoch: the last one that any reading taken until now can be of: what was sent by a wrong clock must not be
               sent again by a right one. now: the clock, seconds since 1970.

        A memory of readings with wrong times is given up; the next reading begins another. Keys that were met stay.
        """
        epoch = min(epoch, self.last_epoch)
        with self._turn, transaction(self._db):
            self._db.execute("INSERT INTO repairs VALUES (?, ?, ?)", (self._sequence, epoch, now))
            self._db.execute("UPDATE about SET epoch = ?, clock = ?", (epoch, now))
            if epoch < self.last_epoch:
                self._db.execute("DELETE FROM memory WHERE memory_key NOT LIKE 'met %'")
        self.last_epoch, self.clock = epoch, now

    # --- before noise is drawn, and after

    def keep_to(self, epochs: str) -> None:
        """Refuse to count epochs in another way than this store did: readings sent before would get new ones.

        epochs: the way, in words.
        """
        if self.epochs == epochs:
            return
        if self.epochs is not None:
            raise InvalidRequest(
                f"{self.path}: its epochs were {self.epochs}, and would now be {epochs}, so that readings could be "
                "sent twice; nothing is sent: give them as before (a column 'row', --time, the plan's step, --step), "
                "or use another store for readings that were never sent"
            )
        with self._turn, transaction(self._db):
            self._db.execute("UPDATE about SET epochs = ?", (epochs,))
        self.epochs = epochs

    def reserve(
        self, plan: str, epochs: Sequence[int], memory_key: str = "", *, now: float | None = None
    ) -> list[Reserved]:
        """Take sequence numbers for epochs, each after the one before: on the disk when this returns.

        memory_key: of the memory that they are for (:attr:`veilnet.Sanitizer.memory_key`).
        now: the clock, seconds since 1970, where readings come as time goes by: one that went back, or was never
             set, is refused. None where no clock tells which readings they are.
        """
        if now is not None and now < max(CLOCKS_SET, self.clock - _CLOCK_MAY_GO_BACK):
            raise VeilnetError(
                "the clock of this machine was set back or never set, so epochs could be sent twice; nothing is "
                f"sent: set it right (it was {moment(self.clock)} at the last release, and is {moment(now)}); "
                "if it was wrong then and is right now, --repair-clock"
            )
        with self._turn:
            last, before = self.last_epoch, self.sent_before(epochs)
            for epoch in epochs:
                if epoch <= last or epoch in before:
                    raise VeilnetError(
                        f"epoch {epoch} was sent before, up to {last}; nothing is sent of it twice"
                    )
                last = epoch
            if self.left is not None and len(epochs) > self.left:
                raise VeilnetError("the budget is used up: nothing more is sent from this store")
            taken = [Reserved(self._sequence + 1 + k, epoch) for k, epoch in enumerate(epochs)]
            if not taken:
                return []
            clock = max(now or 0.0, self.clock)
            if self.path is not None:
                with transaction(self._db):
                    self._db.executemany(
                        "INSERT INTO releases (sequence, epoch, plan, state, memory_key) "
                        "VALUES (?, ?, ?, 'reserved', ?)",
                        [(each.sequence, each.epoch, plan, memory_key) for each in taken],
                    )
                    self._db.execute(
                        "UPDATE about SET sequence = ?, epoch = ?, clock = ?",
                        (taken[-1].sequence, last, clock),
                    )
            self._sequence, self.last_epoch, self.clock = taken[-1].sequence, last, clock
            self._released += len(taken)
            self._newest = max(last, self._newest)
            return taken

    def keep(
        self,
        plan: str,
        releases: Sequence[Kept],
        memory_key: str = "",
        memory: Array | None = None,
        counted: bytes | None = None,
    ) -> None:
        """Keep messages, their entries in the ledger and the memory: all are on the disk afterwards, or nothing.

        memory:  the agent's after the last of them, None where it has none.
        counted: a hash of all rows up to the last of them, where they are counted.
        """
        with self._turn, transaction(self._db):
            if self.path is not None:
                self._record(plan, releases, counted)
            self._db.executemany(
                "INSERT INTO outbox VALUES (?, ?)",
                [(each.reserved.sequence, each.payload) for each in releases if each.waits],
            )
            if releases and memory is not None:
                content = np.ascontiguousarray(memory, dtype="<f8").tobytes()
                epoch = releases[-1].reserved.epoch
                self._db.execute(
                    "INSERT OR REPLACE INTO memory VALUES (?, ?, ?)", (memory_key, epoch, content)
                )
        self.counted = self.counted if counted is None else counted
        self._released -= sum(not each.released for each in releases)

    def _record(self, plan: str, releases: Sequence[Kept], counted: bytes | None) -> None:
        """The entries in the ledger; a store in memory, which nobody can look at, has none."""
        (head,) = self._db.execute("SELECT head FROM about").fetchone()
        entries = []
        for each in releases:
            reserved, digest = each.reserved, digest_of(each.payload)
            head = next_hash(head, reserved.sequence, reserved.epoch, plan, each.released, digest)
            state = "waiting" if each.released else "missed"
            entries.append((state, head, digest, reserved.sequence))
        self._db.executemany(
            "UPDATE releases SET state = ?, hash = ?, digest = ? WHERE sequence = ? AND state = 'reserved'",
            entries,
        )
        self._db.execute("UPDATE about SET head = ?, counted = coalesce(?, counted)", (head, counted))

    def give_back(self) -> None:
        """Give up what an earlier run reserved and kept nothing for: its readings may come once more."""
        with self._turn:
            with transaction(self._db):
                gone = self._db.execute("DELETE FROM releases WHERE state = 'reserved'").rowcount
                (sequence,) = self._db.execute("SELECT coalesce(max(sequence), 0) FROM releases").fetchone()
                found = self._db.execute(
                    "SELECT epoch FROM (SELECT sequence, 0 AS place, epoch FROM releases UNION ALL "
                    "SELECT sequence, 1, epoch FROM repairs) ORDER BY sequence DESC, place DESC LIMIT 1"
                ).fetchone()
                epoch = found[0] if found else 0
                self._db.execute("UPDATE about SET sequence = ?, epoch = ?", (sequence, epoch))
                (newest,) = self._db.execute("SELECT coalesce(max(epoch), 0) FROM releases").fetchone()
            self._sequence, self.last_epoch, self._newest = sequence, epoch, newest
            self._released -= gone

    def unfinished(self) -> list[tuple[Reserved, str, str]]:
        """Sequence numbers that an earlier run took and kept nothing for, with their plans and keys of memories."""
        rows = self._all(
            "SELECT sequence, epoch, plan, memory_key FROM releases WHERE state = 'reserved' ORDER BY sequence"
        )
        return [(Reserved(sequence, epoch), plan, key) for sequence, epoch, plan, key in rows]

    def remembered(self, memory_key: str) -> int:
        """The last epoch that entered a memory; 0 where none did."""
        rows = self._all("SELECT epoch FROM memory WHERE memory_key = ?", memory_key)
        return int(rows[0][0]) if rows else 0

    def memory(self, memory_key: str, order: int) -> tuple[int, Array | None]:
        """(the last epoch that entered, the memory) of a key; (0, None) where none has begun."""
        rows = self._all("SELECT epoch, state FROM memory WHERE memory_key = ?", memory_key)
        if not rows:
            return 0, None
        state = np.frombuffer(rows[0][1], dtype="<f8").copy()
        if state.size != order or not np.isfinite(state).all():
            raise InvalidPlan(f"{self.path}: the agent's memory is damaged; nothing is sent")
        return int(rows[0][0]), state

    def met(self, terms: str) -> dict[str, bytes]:
        """member -> its key, of those that this agent met under the terms of a sum."""
        rows = self._all("SELECT memory_key, state FROM memory WHERE memory_key LIKE ?", f"met {terms} %")
        return {key.split(" ", 2)[2]: public for key, public in rows}

    def meet(self, terms: str, keys: Mapping[str, bytes]) -> None:
        """Keep members' keys: on the disk when this returns, for as long as the store is."""
        rows = [(f"met {terms} {member}", public) for member, public in keys.items()]
        with self._turn, transaction(self._db):
            self._db.executemany("INSERT INTO memory VALUES (?, 0, ?)", rows)

    def answer(self, terms: str, epoch: int) -> None:
        """Take an epoch of a sum as answered, each later than those before: on the disk when this returns."""
        key = f"answered {terms}"
        with self._turn, transaction(self._db):
            rows = self._db.execute("SELECT epoch FROM memory WHERE memory_key = ?", (key,)).fetchall()
            if rows and epoch <= rows[0][0]:
                raise VeilnetError(
                    f"epoch {epoch} was answered before, up to {rows[0][0]}; nothing is said of it"
                )
            self._db.execute("INSERT OR REPLACE INTO memory VALUES (?, ?, x'')", (key, epoch))

    # --- what waits for the centre

    def waiting(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """The first messages in the outbox beyond a sequence number, with their numbers."""
        return self._all(
            "SELECT sequence, payload FROM outbox WHERE sequence > ? ORDER BY sequence LIMIT ?", after, most
        )

    def count_waiting(self) -> int:
        """How many messages the centre has not acknowledged."""
        return int(self._all("SELECT count(*) FROM outbox")[0][0])

    def settle(
        self, kept: Sequence[tuple[int, int]], refused: Sequence[int] = (), file: FileEnd | None = None
    ) -> int:
        """What arrived, by (first, last), or will not be taken, leaves the outbox; how many messages that were.

        file: how far the file of messages goes with them, where they went to one.
        """
        gone = 0
        with self._turn, transaction(self._settling):
            if file is not None:
                self._settling.execute("DELETE FROM file")
                self._settling.execute(
                    "INSERT INTO file VALUES (?, ?, ?)", (file.length, file.end, file.messages)
                )
            for first, last in kept:
                gone += self._settling.execute(
                    "DELETE FROM outbox WHERE sequence BETWEEN ? AND ?", (first, last)
                ).rowcount
            for sequence in refused:
                found = self._settling.execute("DELETE FROM outbox WHERE sequence = ?", (sequence,)).rowcount
                gone += found
                if found:
                    self._settling.execute(
                        "UPDATE releases SET state = 'refused' WHERE sequence = ? AND state = 'waiting'",
                        (sequence,),
                    )
        return gone

    def file(self) -> FileEnd | None:
        """How far the file goes that messages were added to last."""
        found = self._all("SELECT length, end, messages FROM file")
        return FileEnd(*found[0]) if found else None

    def ledger(self) -> Ledger:
        """What the store has recorded so far."""
        with self._turn:
            return read_ledger(self._db)
