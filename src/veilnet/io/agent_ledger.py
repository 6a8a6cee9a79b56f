"""The ledger of an agent: the chain of releases in its store, read by somebody who did not write it.

An agent's store is an SQLite file (:mod:`veilnet.io.agent_store`). Each release, and each reading reported as
missed, is an entry in its table ``releases``, numbered from 1. With the message goes the hash of the entry,

    hash = SHA-256(hash before, sequence, epoch, plan, whether it has numbers, SHA-256 of the message),

and the first one continues a hash of whose store it is and of its budget. Messages leave the store when they are
where they should be; their digests stay, so that the chain can be computed again. The hashes are no signatures: they
tell accidents, and, with a *head* that was kept elsewhere, whether the store still continues what it was. That
somebody put back an older copy, or continues two copies, the count of messages at the centre tells.

Epochs go up, but where a clock that had been ahead was repaired: from then on they go up from the present again, and
none is sent twice.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io._chain import continues
from veilnet.io._formats import check_format
from veilnet.io._sqlite import connect

KIND = "veilnet-agent/4"
STORE_IN_WORDS = "an agent's store (the --store of 'sanitize' or 'agent')"
_MAGIC = b"SQLite format 3\0"
_MOST_PROBLEMS = 5
_ABOUT = (str, bytes, int | None, int, int, bytes)
_RELEASE = (int, int, str, str, bytes | None, bytes | None)
_WAITING = (int, bytes)
_REPAIR = (int, int, float)


def start_hash(agent: str, store: bytes, budget: int | None) -> bytes:
    """What the chain of a store begins with."""
    return hashlib.sha256(_text(["veilnet-releases", agent, store.hex(), budget])).digest()


def next_hash(before: bytes, sequence: int, epoch: int, plan: str, released: bool, digest: bytes) -> bytes:
    """The hash of an entry; digest: :func:`digest_of` its message."""
    return hashlib.sha256(before + _text([sequence, epoch, plan, released, digest.hex()])).digest()


def digest_of(payload: bytes) -> bytes:
    """What stays of a message in the chain."""
    return hashlib.sha256(payload).digest()


def _text(entry: list[object]) -> bytes:
    return msgspec.json.encode(entry)


def require_store(path: Path) -> None:
    """InvalidPlan, which says what to do, where a file is another one, or of before there were stores."""
    if is_agent_store(path):
        return
    found = "no such file"
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(64)
        found = "found another file"
        if b"veilnet-releases/" in start or b"veilnet-state/" in start:
            found = (
                "found a ledger or a memory as an earlier veilnet kept it, which none continues. Keep it for the "
                "record, name a store that is not there yet, and give it only readings after that file's last row"
            )
    raise InvalidPlan(f"{path}: expected {STORE_IN_WORDS}, {found}")


def is_agent_store(path: Path) -> bool:
    """Whether a file is an SQLite file, and none that says it is another; an audit says what is damaged."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        with closing(connect(path)) as database:
            (kind,) = database.execute("SELECT kind FROM kind").fetchone()
            return not str(kind).startswith("veilnet-ledger/")
    except OSError:
        return False
    except (sqlite3.Error, TypeError):
        return True


@dataclass(frozen=True)
class Ledger:
    """What the store has recorded.

    releases: messages with numbers; ``missed`` those that say that there were none to release.
    waiting:  messages that the centre has not acknowledged; ``refused`` those it will not take.
    left:     how many releases the budget still allows, None for any number.
    epoch:    the last one; ``head`` a hash of all releases so far, for an auditor to keep.
    """

    releases: int
    missed: int
    waiting: int
    refused: int
    left: int | None
    epoch: int
    head: str


def read_ledger(database: sqlite3.Connection) -> Ledger:
    """The ledger of a store that may be open elsewhere."""
    counts = dict(database.execute("SELECT state, count(*) FROM releases GROUP BY state").fetchall())
    budget, epoch, head = database.execute("SELECT budget, epoch, head FROM about").fetchone()
    (waiting,) = database.execute("SELECT count(*) FROM outbox").fetchone()
    released = sum(counts.values()) - counts.get("missed", 0)
    return Ledger(
        releases=released,
        missed=counts.get("missed", 0),
        waiting=waiting,
        refused=counts.get("refused", 0),
        left=None if budget is None else max(0, budget - released),
        epoch=epoch,
        head=f"{sum(counts.values()) - counts.get('reserved', 0)}-{head.hex()}",
    )


@dataclass(frozen=True)
class ReleaseAudit:
    """What an agent's store shows to somebody who did not write it.

    count, last_row, left: rows (or epochs) released, the last one sent, how many more the budget allows (None: any).
    head:     to keep for the next audit.
    problems: what is wrong, in words; empty where nothing is.
    agent:    whose it is.
    missed:   rows that were reported as missed; ``reserved`` those of which nothing is kept (yet).
    repaired: the entries after which a clock was repaired.
    """

    count: int
    last_row: int
    left: int | None
    head: str
    problems: tuple[str, ...]
    agent: str = ""
    missed: int = 0
    reserved: int = 0
    repaired: tuple[int, ...] = ()

    def __str__(self) -> str:
        left = "no budget" if self.left is None else f"{self.left} more within its budget"
        whole = "" if self.problems else "whole, "
        said = f"Ledger: {whole}{self.count} rows released, the last one {self.last_row}, {left}; head {self.head}"
        return "\n".join([said, *(f"ALARM: {problem}" for problem in self.problems)])

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not wrong, and worth knowing."""
        found = []
        if self.reserved:
            found.append(
                f"{self.reserved} more reserved, and nothing is kept of them: it is at work, or was ended there, and "
                "the next start tells them as missed"
            )
        if self.repaired:
            found.append(
                f"a clock that had been ahead was repaired after entry {' and '.join(map(str, self.repaired))}: "
                "epochs go up from the present again"
            )
        return tuple(found)


@dataclass(frozen=True)
class _Entry:
    sequence: int
    epoch: int
    plan: str
    state: str
    hash: bytes | None
    digest: bytes | None

    @property
    def kept(self) -> bool:
        return self.state != "reserved"


def audit_releases(
    path: Path, agent: str | None = None, head: str | None = None, received: int | None = None
) -> ReleaseAudit:
    """Read an agent's store without changing it, also while the agent runs.

    path:     the ``--store`` of ``sanitize`` or ``agent``.
    agent:    whose it has to be; anybody's if None.
    head:     the head at the last audit (``live status`` tells it), which the store must continue.
    received: how many messages with numbers of this agent the centre has (``fuse``, or ``live status`` there).
    """
    require_store(path)
    try:
        with closing(connect(path, read_only=True)) as database:
            found = _audit(database, path, head)
    except sqlite3.Error as error:
        return ReleaseAudit(0, 0, None, "", (f"{path}: the store is damaged or torn ({error})",))
    if agent is not None and found.agent != agent:
        raise InvalidPlan(f"{path}: the store is of {found.agent!r}, not of {agent!r}; give its own")
    if received is not None and received > found.count:
        problem = (
            f"the centre received {received} messages, {found.count} are recorded: {received - found.count} were "
            "released outside this store, or recorded in a copy of it"
        )
        return replace(found, problems=(*found.problems, problem))
    return found


def _audit(database: sqlite3.Connection, path: Path, head: str | None) -> ReleaseAudit:
    database.execute("BEGIN")  # one moment for all that follows
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    kind = database.execute("SELECT kind FROM kind").fetchone() if "kind" in tables else None
    try:
        check_format(None if kind is None else kind[0], KIND)
    except InvalidPlan as error:
        raise InvalidRequest(f"{path}: expected {STORE_IN_WORDS}; {error}") from None
    problems: list[str] = []
    whole = database.execute("PRAGMA integrity_check").fetchone()[0]
    if whole != "ok":
        problems.append(f"the file is damaged ({whole})")
    about = database.execute("SELECT agent, store, budget, sequence, epoch, head FROM about").fetchone()
    if about is None:
        raise sqlite3.DatabaseError("it does not say whose it is")
    agent, store, budget, sequence, epoch, last = _of(about, _ABOUT, "about")
    rows = database.execute(
        "SELECT sequence, epoch, plan, state, hash, digest FROM releases ORDER BY sequence"
    )
    entries = [_Entry(*_of(row, _RELEASE, "releases")) for row in rows]
    messages = database.execute("SELECT sequence, payload FROM outbox")
    waiting = dict(_of(row, _WAITING, "outbox") for row in messages)
    start = start_hash(agent, store, budget)
    repairs = database.execute("SELECT sequence, epoch, clock FROM repairs ORDER BY rowid")
    repaired = dict(_of(row, _REPAIR, "repairs")[:2] for row in repairs)
    problems += _order(entries, sequence, epoch, repaired)
    problems += _chain(entries, start, last, waiting)
    kept = [each for each in entries if each.kept]
    if head is not None:
        hashes = (start, *(each.hash or b"" for each in kept))
        problems += continues(head, "--head", [each.hex() for each in hashes])
    released = sum(each.state != "missed" for each in entries)
    if budget is not None and released > budget:
        problems.append(f"it has {released} releases, and was begun with a budget of {budget}")
    if len(problems) > _MOST_PROBLEMS:
        problems = [*problems[:_MOST_PROBLEMS], f"and {len(problems) - _MOST_PROBLEMS} more of the kind"]
    return ReleaseAudit(
        count=released,
        last_row=max((each.epoch for each in entries), default=0),
        left=None if budget is None else max(0, budget - released),
        head=f"{len(kept)}-{last.hex()}",
        problems=tuple(problems),
        agent=agent,
        missed=sum(each.state == "missed" for each in entries),
        reserved=len(entries) - len(kept),
        repaired=tuple(repaired),
    )


def _of(row: tuple[Any, ...], kinds: Sequence[Any], table: str) -> tuple[Any, ...]:
    """A row as it is, each cell being what an agent writes there: SQLite itself takes anything anywhere."""
    if not all(isinstance(cell, kind) for cell, kind in zip(row, kinds, strict=True)):
        raise sqlite3.DatabaseError(f"{table} holds what no agent writes there")
    return row


def _order(entries: list[_Entry], sequence: int, epoch: int, repaired: Mapping[int, int]) -> Iterator[str]:
    """Numbers without a gap, epochs that go up, nothing unfinished before what was finished later.

    repaired: entry -> the epoch from which epochs go up again after it.
    """
    expected, last = 1, 0
    first_in: dict[int, int] = {}
    for each in entries:
        last = repaired.get(each.sequence - 1, last)
        if each.sequence != expected:
            yield f"entries {expected} to {each.sequence - 1} are missing: they were cut out"
        expected = each.sequence + 1
        if each.epoch in first_in:
            yield f"epoch {each.epoch} was sent twice, in entries {first_in[each.epoch]} and {each.sequence}"
        elif each.epoch < last:
            yield f"entry {each.sequence} is of epoch {each.epoch}, after epoch {last}: the order was changed"
        first_in[each.epoch] = each.sequence
        last = max(last, each.epoch)
    for one, after in pairwise(entries):
        if not one.kept and after.kept:
            yield f"entry {one.sequence} was never finished, though entry {after.sequence} was: it was changed"
    last = repaired.get(expected - 1, last)
    if sequence != expected - 1:
        yield f"{sequence} sequence numbers were taken, and entries end at {expected - 1}: its end was cut off"
    elif epoch != last:
        yield f"the last epoch it took is {epoch}, and the last one recorded {last}: it was changed"


def _chain(entries: list[_Entry], start: bytes, last: bytes, waiting: dict[int, bytes]) -> Iterator[str]:
    """Every hash from the one before; what is in the outbox is what was hashed."""
    before = start
    for each in entries:
        if not each.kept:
            continue
        payload, digest, stored = waiting.get(each.sequence), each.digest or b"", each.hash or b""
        if stored != next_hash(before, each.sequence, each.epoch, each.plan, each.state != "missed", digest):
            yield f"entry {each.sequence} does not continue the one before: it was changed, or put in its place"
        elif payload is not None and digest_of(payload) != digest:
            yield f"the message of entry {each.sequence} in the outbox is not the one that was recorded"
        before = stored
    if last != before:
        yield "its head is not that of its last entry: its end was cut off or changed"
