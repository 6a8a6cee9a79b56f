"""What the centre has on its disk: every message once, every estimate with its revisions, and what was refused.

A message is identified by agent, epoch and sequence number. It is committed before it is acknowledged; one that
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
    about       the last epoch that was forgotten (0: none), and how many epochs and estimates were

A message for an epoch that was forgotten is refused: a broker may have kept last year's messages.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from veilnet._core.types import Array
from veilnet.io._sqlite import Lock, Opened, create_database, open_database, transaction
from veilnet.live.fusions import LiveEstimate
from veilnet.live.messages import SHORT, Message

KIND = "veilnet-centre-store/2"
_WHAT = "a centre's store of estimates"
_MEND = "bring back a copy of 'veilnet live backup', or move it away: the centre then begins another"
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
    batch INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (epoch, agent)
) WITHOUT ROWID;
CREATE TABLE estimates (
    epoch INTEGER NOT NULL, plan INTEGER NOT NULL, revision INTEGER NOT NULL, made REAL NOT NULL,
    told INTEGER NOT NULL, public TEXT NOT NULL, covariance TEXT NOT NULL, missing TEXT NOT NULL,
    contradicting TEXT NOT NULL, batch INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (epoch, plan, revision)
) WITHOUT ROWID;
CREATE VIEW latest AS SELECT * FROM estimates AS e WHERE revision =
    (SELECT max(revision) FROM estimates AS f WHERE f.epoch = e.epoch AND f.plan = e.plan);
CREATE TABLE counts (
    agent TEXT NOT NULL, what TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (agent, what)
);
CREATE TABLE about (
    put_away INTEGER NOT NULL, epochs INTEGER NOT NULL, estimates INTEGER NOT NULL, id BLOB NOT NULL,
    batch INTEGER NOT NULL DEFAULT 0, followed INTEGER NOT NULL DEFAULT 0
);
INSERT INTO about VALUES (0, 0, 0, randomblob(8), 0, 0)
"""
EPOCHS_KEPT = 1000  # the newest, which are never forgotten
_AT_ONCE = 500  # epochs that are forgotten between two batches
_ROWS_AT_ONCE = 5000  # for a standby that catches up
_UNSHARED = 1 << 62  # batch of a message that the other centre may lack: it led when this one had taken it

# agent, plan, epoch, sequence, store, after, private, early, numbers
MessageRow = tuple[str, str, int, int, bytes, int, bool, bool, bytes | None]
# plan, epoch, revision, made, how many reported, public, covariance, missing, contradicting
EstimateRow = tuple[str, int, int, float, int, str, str, str, str]


@dataclass(frozen=True)
class CopiedRows:
    """What batches wrote, up to and with the batch of this number; plans are named by their ids."""

    batch: int
    messages: list[MessageRow]
    estimates: list[EstimateRow]


@dataclass(frozen=True)
class StoredPlan:
    """A plan that the centre took up: its number here, its whole id, and the bytes of its centre file."""

    number: int
    plan: str
    document: bytes


class CentreStore(Opened):
    """The store of one centre, nobody else's to write to while it is open.

    path: the file; it is begun where there is none.

    ``newest`` has the newest epoch each agent reported, ``last_heard`` when any was heard, in seconds since 1970.
    ``id`` is a random number of its own, ``last_batch`` the number of the last batch that was committed.
    ``followed`` says whether it was last written as the copy of another centre's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heard: dict[int, list[float]] = {}
        self._uncounted: Counter[tuple[str, str]] = Counter()
        with ExitStack() as files:
            files.enter_context(closing(Lock(path, "estimates into this store")))
            if not path.exists():
                create_database(path, KIND, _SCHEMA)
            self._db = files.enter_context(closing(open_database(path, KIND, what=_WHAT, mend=_MEND)))
            self._read()
            super().__init__(files.pop_all())

    def _read(self) -> None:
        self._agents: dict[str, int] = dict(self._db.execute("SELECT agent, number FROM agents").fetchall())
        self._forgotten, self.id, self.last_batch, followed = self._db.execute(
            "SELECT put_away, id, batch, followed FROM about"
        ).fetchone()
        self.followed = bool(followed)
        self._wrote: tuple[list[MessageRow], list[EstimateRow]] = [], []
        self._plan_ids = dict(self._db.execute("SELECT number, plan FROM plans").fetchall())
        self.newest: dict[str, int] = dict(
            self._db.execute("SELECT agent, epoch FROM agents WHERE epoch > 0").fetchall()
        )
        (self.last_heard,) = self._db.execute("SELECT coalesce(max(heard), 0) FROM agents").fetchone()
        self.counts: Counter[tuple[str, str]] = Counter(
            {(agent, what): n for agent, what, n in self._db.execute("SELECT agent, what, count FROM counts")}
        )
        self._heard.clear()
        self._uncounted.clear()

    def reload(self) -> None:
        """Forget what could not be written; Unwritable while nothing can be."""
        with transaction(self._db):
            self._db.execute("UPDATE about SET batch = batch")
        self._read()

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
        self._plan_ids[row[0]] = plan
        return StoredPlan(*row)

    # --- what arrives; all of a batch in one transaction

    @property
    @contextmanager
    def batch(self) -> Iterator[None]:
        """A transaction: what is added in it is on the disk when it ends, or not at all."""
        self._wrote = [], []
        self.last_batch += 1
        try:
            with transaction(self._db):
                self._db.execute("UPDATE about SET batch = ?", (self.last_batch,))
                yield
        except BaseException:
            self.last_batch -= 1
            raise

    @property
    def wrote(self) -> CopiedRows:
        """What the last batch wrote."""
        return CopiedRows(self.last_batch, *self._wrote)

    def add(self, message: Message, plan: int, *, early: bool = False) -> str:
        """Keep a message: "new", "duplicate" (the same one came before) or "conflict" (another one did).

        It is "old", and not kept, where its epoch was forgotten.
        early: of an epoch so far ahead of the clock that it is never to be used.
        """
        if message.epoch <= self._forgotten:
            return "old"
        agent = self._agents[message.agent]
        added = self._db.execute(
            "INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                message.epoch, agent, message.sequence, message.store, plan, message.after, message.private, early,
                message.values, self.last_batch,
            ),
        ).rowcount  # fmt: skip
        if added:
            self._copy_too(message, plan, early=early)
            heard = self._heard.setdefault(agent, [0, 0, 0])
            if not early:
                heard[0] = max(heard[0], message.epoch)
                self.newest[message.agent] = max(message.epoch, self.newest.get(message.agent, 0))
            heard[1] += message.values is not None
            heard[2] += message.values is None
            return "new"
        *there, batch = self._db.execute(
            'SELECT sequence, store, plan, after, private, "values", batch FROM messages '
            "WHERE epoch = ? AND agent = ?",
            (message.epoch, agent),
        ).fetchone()
        same = [message.sequence, message.store, plan, message.after, message.private, message.values]
        if there != same:
            return "conflict"
        if batch == _UNSHARED:  # it comes from the other centre, or is acknowledged only now
            self._db.execute(
                "UPDATE messages SET batch = ? WHERE epoch = ? AND agent = ?",
                (self.last_batch, message.epoch, agent),
            )
            self._copy_too(message, plan, early=early)
        return "duplicate"

    def _copy_too(self, message: Message, plan: int, *, early: bool) -> None:
        """What a standby gets of this batch."""
        row = message.agent, self._plan_ids[plan], message.epoch, message.sequence, message.store
        self._wrote[0].append((*row, message.after, message.private, early, message.values))

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
        self.last_heard = now if self._heard else self.last_heard
        self._heard.clear()
        self._db.executemany(
            "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in self._uncounted.items()],
        )
        self._uncounted.clear()

    def forget_before(self, made: float) -> int:
        """Forget the oldest epochs up to the first one estimated since a time, some hundreds; how many there were.

        made: that time, seconds since 1970. The newest thousand epochs stay, and what was forgotten stays counted.
              The file does not shrink: what comes takes the room.
        """
        oldest = self._db.execute(
            "SELECT epoch, min(made) FROM estimates WHERE epoch <= (SELECT epoch FROM estimates GROUP BY epoch "
            "ORDER BY epoch DESC LIMIT 1 OFFSET ?) GROUP BY epoch ORDER BY epoch LIMIT ?",
            (EPOCHS_KEPT, _AT_ONCE),
        ).fetchall()
        old = [epoch for epoch, _ in takewhile(lambda each: each[1] < made, oldest)]
        if old:
            with transaction(self._db):
                self._db.execute(
                    "UPDATE about SET put_away = ?, epochs = epochs + ?, estimates = estimates + "
                    "(SELECT count(*) FROM estimates WHERE epoch <= ?)",
                    (old[-1], len(old), old[-1]),
                )
                for table in ("messages", "estimates"):
                    self._db.execute(f"DELETE FROM {table} WHERE epoch <= ?", (old[-1],))
            self._forgotten = old[-1]
        return len(old)

    # --- what is reported for an epoch

    def reports(self, plans: Collection[int], epoch: int) -> dict[str, tuple[int, Array | None]]:
        """agent -> (plan, numbers, None where missed) of an epoch under some plans."""
        rows = self._db.execute(
            'SELECT a.agent, m.plan, m."values" FROM messages m JOIN agents a ON a.number = m.agent '
            "WHERE m.epoch = ? AND NOT m.early ORDER BY m.agent",
            (epoch,),
        )
        return {agent: (plan, _numbers(values)) for agent, plan, values in rows if plan in plans}

    def newest_reported(self, plans: Collection[int]) -> dict[str, int]:
        """agent -> the last epoch that it reported under some plans."""
        rows = self._db.execute(
            "SELECT a.agent, max(m.epoch) FROM messages m JOIN agents a ON a.number = m.agent WHERE "
            f"m.plan IN ({_listed(plans)}) AND NOT m.early GROUP BY m.agent"
        )
        return dict(rows.fetchall())

    def epochs_reported(self, plans: Collection[int]) -> list[int]:
        """The epochs that any agent reported under some plans, in order."""
        rows = self._db.execute(
            f"SELECT DISTINCT epoch FROM messages WHERE plan IN ({_listed(plans)}) AND NOT early ORDER BY epoch"
        )
        return [row[0] for row in rows]

    def reports_of(
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
        """Epochs that more agents reported, under some plans, than their last estimate used, so many at least."""
        some = _listed(plans)
        rows = self._db.execute(
            "SELECT m.epoch, count(*) AS heard, (SELECT max(e.told) FROM estimates e WHERE e.epoch = m.epoch AND "
            f"e.plan IN ({some})) AS used FROM messages m WHERE m.plan IN ({some}) AND NOT m.early "
            "GROUP BY m.epoch HAVING heard >= ? AND (used IS NULL OR used <> heard) ORDER BY m.epoch",
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

    def latest(self, first: int, last: int) -> list[tuple[int, int, int, Array, Array, list[str], list[str]]]:
        """(epoch, plan, revision, public, covariance, missing, contradicting) of the last revisions in between."""
        rows = self._db.execute(
            "SELECT epoch, plan, revision, public, covariance, missing, contradicting FROM latest "
            "WHERE epoch BETWEEN ? AND ? ORDER BY epoch, plan",
            (first, last),
        ).fetchall()
        return [
            (*row[:3], *(np.array(json.loads(each), float) for each in row[3:5]), *map(json.loads, row[5:]))
            for row in rows
        ]

    def add_estimate(self, plan: int, epoch: int, heard: int, estimate: LiveEstimate) -> int:
        """Keep an estimate as the next revision of its epoch, inside a batch; the number of the revision, from 0."""
        (revision,) = self._db.execute(
            "SELECT coalesce(max(revision) + 1, 0) FROM estimates WHERE epoch = ? AND plan = ?", (epoch, plan)
        ).fetchone()
        row: EstimateRow = (
            self._plan_ids[plan], epoch, int(revision), time.time(), heard, _json(estimate.public),
            _json(estimate.covariance), json.dumps(list(estimate.missing)),
            json.dumps(list(estimate.contradicting)),
        )  # fmt: skip
        self._wrote[1].append(row)
        self._insert_estimate(row, plan)
        return int(revision)

    def _insert_estimate(self, row: EstimateRow, plan: int) -> None:
        _, epoch, *rest = row
        self._db.execute(
            "INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (epoch, plan, *rest, self.last_batch),
        )

    # --- of another centre's store, which this one copies

    def follow(self, begun: int) -> None:
        """From now on a copy of another store is written here, until :meth:`lead`.

        begun: the last batch before that store's centre began to lead; what this one estimated since, nobody read,
               and what it took since, that one may lack.
        """
        self.last_batch = min(self.last_batch, begun)
        with transaction(self._db):
            self._db.execute("UPDATE about SET followed = 1, batch = ?", (self.last_batch,))
            self._db.execute("DELETE FROM estimates WHERE batch > ?", (self.last_batch,))
            self._db.execute("UPDATE messages SET batch = ? WHERE batch > ?", (_UNSHARED, self.last_batch))
        self.followed = True

    def lead(self) -> None:
        """From now on what is written is this centre's own."""
        with transaction(self._db):
            self._db.execute("UPDATE about SET followed = 0")
        self.followed = False

    def since(self, batch: int) -> CopiedRows:
        """What the batches after one wrote, thousands of rows of whole batches."""
        at = f"min(m.batch, {self.last_batch})"  # what is unshared goes with the last
        found = self._db.execute(
            f"SELECT {at} FROM messages m WHERE m.batch > ? ORDER BY 1 LIMIT 1 OFFSET ?",
            (batch, _ROWS_AT_ONCE),
        ).fetchone()
        last = self.last_batch if found is None else found[0]
        messages = self._db.execute(
            'SELECT a.agent, p.plan, m.epoch, m.sequence, m.store, m.after, m.private, m.early, m."values" '
            "FROM messages m JOIN agents a ON a.number = m.agent JOIN plans p ON p.number = m.plan "
            f"WHERE m.batch > ? AND {at} <= ? ORDER BY {at}",
            (batch, last),
        )
        estimates = self._db.execute(
            "SELECT p.plan, epoch, revision, made, told, public, covariance, missing, contradicting "
            "FROM estimates e JOIN plans p ON p.number = e.plan WHERE e.batch > ? AND e.batch <= ?",
            (batch, last),
        )
        bare: list[MessageRow] = [(*row[:6], bool(row[6]), bool(row[7]), row[8]) for row in messages]
        return CopiedRows(last, bare, estimates.fetchall())

    def copy_in(self, rows: CopiedRows, *, whole: bool) -> str:
        """Write what another centre's batches wrote; the id of a plan that is not here, and nothing is written then.

        whole: whether these are all rows up to the batch they name, with what was copied before.
        """
        numbers = {plan: number for number, plan in self._plan_ids.items()}
        unknown = [row[1] for row in rows.messages if row[1] not in numbers]
        unknown += [row[0] for row in rows.estimates if row[0] not in numbers]
        if unknown:
            return unknown[0]
        before = self.last_batch
        self._wrote = [], []
        try:
            with transaction(self._db):
                self.last_batch = rows.batch
                for agent, plan, epoch, sequence, store, after, private, early, values in rows.messages:
                    message = Message(plan[:SHORT], agent, store, sequence, epoch, after, private, values)
                    self.add(message, numbers[plan], early=early)
                for row in rows.estimates:
                    self._insert_estimate(row, numbers[row[0]])
                self.note()
                if whole:
                    self._db.execute("UPDATE about SET batch = ?", (rows.batch,))
            before = rows.batch if whole else before
        finally:
            self.last_batch = before
        return ""


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
