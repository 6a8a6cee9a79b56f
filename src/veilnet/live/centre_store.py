"""What the centre has on its disk: every message once, every estimate with its revisions, and what was refused.

A message is told from others by agent, epoch and sequence number. It is committed before it is acknowledged; one that
comes again is acknowledged again and changes nothing. An agent tells each epoch once: another message for it, with
other bytes, is a conflict. One that was early, of an epoch far ahead of the centre's clock, is kept so that it cannot
come again, and never used. The file is SQLite's, and its owner may read it while the centre runs:

    estimates   epoch, plan, revision, when it was made, public (JSON; of a class the chance of each value),
                covariance (JSON), missing, contradicting
    latest      the same, the last revision of each epoch and plan alone
    messages    epoch, agent, sequence, plan, early, values (float64, little-endian; null where a reading was missed)
    agents      what is known of each: last epoch, messages, when last heard
    counts      refusals and duplicates, per agent
    plans       the centre's file of every plan that was taken up
    about       the last epoch that was put away (0: none), and how many epochs and estimates were

:meth:`CentreStore.put_away` moves all but the newest epochs to another file. What is told of those again is refused:
a broker may have kept last year's messages.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from veilnet._core.types import Array
from veilnet.io._sqlite import Lock, Opened, copy_database, create_database, open_database, transaction
from veilnet.live.fusions import LiveEstimate
from veilnet.live.messages import Message

__all__ = ["CentreStore", "StoredPlan"]

KIND = "veilnet-centre-store/1"
_WHAT = "a centre's store of estimates"
_SCHEMA = """
CREATE TABLE plans (
    number INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, taken REAL NOT NULL, document BLOB NOT NULL
);
CREATE TABLE agents (
    number INTEGER PRIMARY KEY, agent TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0, heard REAL NOT NULL DEFAULT 0
);
CREATE TABLE messages (
    epoch INTEGER NOT NULL, agent INTEGER NOT NULL, sequence INTEGER NOT NULL, store BLOB NOT NULL,
    plan INTEGER NOT NULL, after INTEGER NOT NULL, private INTEGER NOT NULL, early INTEGER NOT NULL, "values" BLOB,
    PRIMARY KEY (epoch, agent)
) WITHOUT ROWID;
CREATE TABLE estimates (
    epoch INTEGER NOT NULL, plan INTEGER NOT NULL, revision INTEGER NOT NULL, made REAL NOT NULL,
    told INTEGER NOT NULL, public TEXT NOT NULL, covariance TEXT NOT NULL, missing TEXT NOT NULL,
    contradicting TEXT NOT NULL, PRIMARY KEY (epoch, plan, revision)
) WITHOUT ROWID;
CREATE VIEW latest AS SELECT * FROM estimates AS e WHERE revision =
    (SELECT max(revision) FROM estimates AS f WHERE f.epoch = e.epoch AND f.plan = e.plan);
CREATE TABLE counts (
    agent TEXT NOT NULL, what TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (agent, what)
);
CREATE TABLE about (put_away INTEGER NOT NULL, epochs INTEGER NOT NULL, estimates INTEGER NOT NULL);
INSERT INTO about VALUES (0, 0, 0)
"""
EPOCHS_KEPT = 1000  # that stay in a store when it is rotated


@dataclass(frozen=True)
class StoredPlan:
    """A plan that the centre took up: its number here, its whole id, and the bytes of its centre file."""

    number: int
    plan: str
    document: bytes


class CentreStore(Opened):
    """The store of one centre, nobody else's to write to while it is open.

    path: the file; it is begun where there is none.

    ``newest`` has the newest epoch that each agent told.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heard: dict[int, list[float]] = {}
        self._uncounted: Counter[tuple[str, str]] = Counter()
        with ExitStack() as files:
            files.enter_context(closing(Lock(path, "estimates into this store")))
            if not path.exists():
                create_database(path, KIND, _SCHEMA)
            self._db = files.enter_context(closing(open_database(path, KIND, what=_WHAT)))
            self._agents: dict[str, int] = dict(
                self._db.execute("SELECT agent, number FROM agents").fetchall()
            )
            (self._put_away,) = self._db.execute("SELECT put_away FROM about").fetchone()
            self.newest: dict[str, int] = dict(
                self._db.execute("SELECT agent, epoch FROM agents WHERE epoch > 0").fetchall()
            )
            self.counts: Counter[tuple[str, str]] = Counter(
                {
                    (agent, what): n
                    for agent, what, n in self._db.execute("SELECT agent, what, count FROM counts")
                }
            )
            super().__init__(files.pop_all())

    # --- plans

    def plans(self) -> list[StoredPlan]:
        """All plans that were taken up, the oldest first."""
        rows = self._db.execute("SELECT number, plan, document FROM plans ORDER BY number").fetchall()
        return [StoredPlan(*row) for row in rows]

    def take_up(self, plan: str, agents: Sequence[str], document: bytes) -> StoredPlan:
        """Remember a plan, so that its messages can be fused for as long as they come."""
        with transaction(self._db):
            self._db.execute(
                "INSERT OR IGNORE INTO plans (plan, taken, document) VALUES (?, ?, ?)",
                (plan, time.time(), document),
            )
            for agent in agents:
                self._db.execute("INSERT OR IGNORE INTO agents (agent) VALUES (?)", (agent,))
        self._agents = dict(self._db.execute("SELECT agent, number FROM agents").fetchall())
        row = self._db.execute("SELECT number, plan, document FROM plans WHERE plan = ?", (plan,)).fetchone()
        return StoredPlan(*row)

    # --- what arrives; all of a batch in one transaction

    @property
    def batch(self) -> AbstractContextManager[None]:
        """A transaction: what is added in it is on the disk when it ends, or not at all."""
        return transaction(self._db)

    def add(self, message: Message, plan: int, *, early: bool = False) -> str:
        """Keep a message: "new", "duplicate" (the same one came before) or "conflict" (another one did).

        It is "old", and not kept, where its epoch was put away.
        early: of an epoch so far ahead of the clock that it is never to be used.
        """
        if message.epoch <= self._put_away:
            return "old"
        agent = self._agents[message.agent]
        added = self._db.execute(
            "INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                message.epoch, agent, message.sequence, message.store, plan, message.after, message.private, early,
                message.values,
            ),
        ).rowcount  # fmt: skip
        if added:
            heard = self._heard.setdefault(agent, [0, 0, 0])
            if not early:
                heard[0] = max(heard[0], message.epoch)
                self.newest[message.agent] = max(message.epoch, self.newest.get(message.agent, 0))
            heard[1] += message.values is not None
            heard[2] += message.values is None
            return "new"
        there = self._db.execute(
            'SELECT sequence, store, plan, after, private, "values" FROM messages WHERE epoch = ? AND agent = ?',
            (message.epoch, agent),
        ).fetchone()
        same = (message.sequence, message.store, plan, message.after, message.private, message.values)
        return "duplicate" if there == same else "conflict"

    def count(self, agent: str, what: str) -> None:
        """One more of something, written with the next :meth:`note`."""
        self.counts[agent, what] += 1
        self._uncounted[agent, what] += 1

    def note(self) -> None:
        """Write what was heard of whom and what was counted since the last time; inside a batch."""
        now = time.time()
        self._db.executemany(
            "UPDATE agents SET epoch = max(epoch, ?), messages = messages + ?, missed = missed + ?, heard = ? "
            "WHERE number = ?",
            [(*heard, now, agent) for agent, heard in self._heard.items()],
        )
        self._heard.clear()
        self._db.executemany(
            "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in self._uncounted.items()],
        )
        self._uncounted.clear()

    # --- rotation

    def put_away(self, archive: Path, keep: int = EPOCHS_KEPT) -> int:
        """Copy the store to another file, and forget all but the newest epochs; the last one forgotten, 0 for none.

        keep: how many estimated epochs stay. What is forgotten is never taken again; the newest epoch of each agent,
              plans and counts stay. A copy that was not finished leaves the store as it was.
        """
        found = self._db.execute(
            "SELECT DISTINCT epoch FROM estimates ORDER BY epoch DESC LIMIT 1 OFFSET ?", (keep,)
        ).fetchone()
        if found is None:
            return 0
        copy_database(self._db, archive)
        last = int(found[0])
        with transaction(self._db):
            self._db.execute(
                "UPDATE about SET put_away = ?, epochs = epochs + (SELECT count(DISTINCT epoch) FROM estimates WHERE "
                "epoch <= ?), estimates = estimates + (SELECT count(*) FROM estimates WHERE epoch <= ?)",
                (last, last, last),
            )
            for table in ("messages", "estimates"):
                self._db.execute(f"DELETE FROM {table} WHERE epoch <= ?", (last,))
        self._put_away = last
        self._db.execute("VACUUM")
        return last

    # --- what is told of an epoch

    def told(self, plans: Collection[int], epoch: int) -> dict[str, tuple[int, Array | None]]:
        """agent -> (plan, numbers, None where missed) of an epoch under some plans."""
        rows = self._db.execute(
            'SELECT a.agent, m.plan, m."values" FROM messages m JOIN agents a ON a.number = m.agent '
            "WHERE m.epoch = ? AND NOT m.early ORDER BY m.agent",
            (epoch,),
        )
        return {agent: (plan, _numbers(values)) for agent, plan, values in rows if plan in plans}

    def newest_told(self, plans: Collection[int]) -> dict[str, int]:
        """agent -> the last epoch that it told under some plans."""
        rows = self._db.execute(
            "SELECT a.agent, max(m.epoch) FROM messages m JOIN agents a ON a.number = m.agent WHERE "
            f"m.plan IN ({_listed(plans)}) AND NOT m.early GROUP BY m.agent"
        )
        return dict(rows.fetchall())

    def epochs_told(self, plans: Collection[int]) -> list[int]:
        """The epochs that anybody told under some plans, in order."""
        rows = self._db.execute(
            f"SELECT DISTINCT epoch FROM messages WHERE plan IN ({_listed(plans)}) AND NOT early ORDER BY epoch"
        )
        return [row[0] for row in rows]

    def all_told(
        self, plans: Collection[int], agent: str, first: int, last: int
    ) -> Iterator[tuple[int, int, Array | None]]:
        """(epoch, the epoch before that entered the memory, numbers) of an agent under some plans, in order.

        first, last: the epochs in between.
        """
        rows = self._db.execute(
            f'SELECT epoch, after, "values" FROM messages WHERE plan IN ({_listed(plans)}) AND agent = ? '
            "AND epoch BETWEEN ? AND ? AND NOT early ORDER BY epoch",
            (self._agents[agent], first, last),
        )
        return ((epoch, after, _numbers(values)) for epoch, after, values in rows)

    def unestimated(self, plans: Collection[int], least: int = 1) -> list[int]:
        """Epochs of which more was told, under some plans, than their last estimate used, by so many at least."""
        some = _listed(plans)
        rows = self._db.execute(
            "SELECT m.epoch, count(*) AS told, (SELECT max(e.told) FROM estimates e WHERE e.epoch = m.epoch AND "
            f"e.plan IN ({some})) AS used FROM messages m WHERE m.plan IN ({some}) AND NOT m.early "
            "GROUP BY m.epoch HAVING told >= ? AND (used IS NULL OR used <> told) ORDER BY m.epoch",
            (least,),
        )
        return [row[0] for row in rows]

    def estimated_under(self, plans: Collection[int], epoch: int) -> int | None:
        """The newest of some plans under which an epoch was estimated; None for none."""
        rows = self._db.execute("SELECT DISTINCT plan FROM estimates WHERE epoch = ?", (epoch,))
        return max((plan for (plan,) in rows if plan in plans), default=None)

    # --- estimates

    def newest_estimate(self, last: int) -> int:
        """The newest epoch up to ``last`` that was estimated; 0 for none."""
        found = self._db.execute("SELECT max(epoch) FROM estimates WHERE epoch <= ?", (last,)).fetchone()
        return int(found[0] or 0)

    def estimated(self, plans: Collection[int], first: int, last: int) -> tuple[int, int]:
        """The first and the last epoch in between that were estimated under some plans; zeros where none was."""
        found = self._db.execute(
            "SELECT min(epoch), max(epoch) FROM estimates "
            f"WHERE plan IN ({_listed(plans)}) AND epoch BETWEEN ? AND ?",
            (first, last),
        ).fetchone()
        return int(found[0] or 0), int(found[1] or 0)

    def add_estimate(self, plan: int, epoch: int, told: int, estimate: LiveEstimate) -> int:
        """Keep an estimate as the next revision of its epoch, inside a batch; the number of the revision, from 0."""
        (revision,) = self._db.execute(
            "SELECT coalesce(max(revision) + 1, 0) FROM estimates WHERE epoch = ? AND plan = ?", (epoch, plan)
        ).fetchone()
        self._db.execute(
            "INSERT INTO estimates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                epoch, plan, revision, time.time(), told, _json(estimate.public), _json(estimate.covariance),
                json.dumps(list(estimate.missing)), json.dumps(list(estimate.contradicting)),
            ),
        )  # fmt: skip
        return int(revision)


def _listed(plans: Collection[int]) -> str:
    return ",".join(str(int(plan)) for plan in plans)


def _numbers(values: bytes | None) -> Array | None:
    return None if values is None else np.frombuffer(values, dtype="<f8")


def _json(values: Array) -> str:
    """Numbers with the fewest digits that read back to the same bits; null where there is none."""

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [plain(each) for each in value]
        return value if isinstance(value, float) and math.isfinite(value) else None

    return json.dumps(plain(np.asarray(values, dtype=float).tolist()))
