"""How a live network is doing, read from the centre's store, whether the centre runs or not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io import agent_ledger
from veilnet.io._formats import check_format
from veilnet.io._sqlite import connect, copy_database
from veilnet.live import centre_store
from veilnet.live.epochs import farthest
from veilnet.live.fusions import fusion_of
from veilnet.live.intake import DRIFT, is_refusal
from veilnet.live.messages import SHORT

_CENTRES = "a centre's store (the --out of 'veilnet center')"


@dataclass(frozen=True)
class AgentStatus:
    """One agent, as the centre knows it.

    messages: kept; ``missed`` epochs of which it said that it had no reading to release.
    silent:   epochs that were estimated without a word of it.
    epoch:    the newest one it reported, 0 for none; ``lag`` how many epochs that is behind the newest of all (of one
              that was never heard: how many were estimated).
    heard:    when a message of it was last committed, in seconds since 1970; 0 for never.
    refused:  how many of its messages were refused; ``duplicates`` came again.
    """

    agent: str
    messages: int
    missed: int
    silent: int
    epoch: int
    lag: int
    heard: float
    refused: int
    duplicates: int


@dataclass(frozen=True)
class Status:
    """A centre's store at a glance.

    plans:     ids of the plans taken up, the newest last.
    newest:    the newest epoch that any agent reported, unless it is far ahead of most.
    epochs:    how many were estimated; ``estimates`` with revisions. Both count what was forgotten.
    counts:    (agent, reason) -> how many; the agent is empty for strangers.
    made:      when the newest epoch was estimated last, in seconds since 1970; 0 for never.
    drifted:   agents whose symbols have another law than the newest plan's: what it promises is void.
    """

    plans: tuple[str, ...]
    newest: int
    epochs: int
    estimates: int
    agents: tuple[AgentStatus, ...]
    counts: dict[tuple[str, str], int]
    drifted: tuple[str, ...] = ()
    made: float = 0.0

    @property
    def refusals(self) -> dict[tuple[str, str], int]:
        """Of the counts, what was refused or not used, in order."""
        return {each: count for each, count in sorted(self.counts.items()) if is_refusal(each[1])}

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "plans": list(self.plans),
            "newest_epoch": self.newest,
            "epochs": self.epochs,
            "estimates": self.estimates,
            "agents": {each.agent: _fields(each) for each in self.agents},
            "refusals": [
                {"agent": agent, "reason": reason, "count": count}
                for (agent, reason), count in self.refusals.items()
            ],
            "drifted": list(self.drifted),
        }


@lru_cache(maxsize=2)
def _agents_of(document: bytes) -> frozenset[str]:
    """Whom a plan has, by its centre file."""
    return frozenset(fusion_of(document, Path("center.json")).agents)


def read_status(path: Path) -> Status:
    """The status in a centre's store, which is not changed."""
    with _reading(path, centre_store.KIND, _CENTRES) as database:
        database.execute("BEGIN")  # one moment for all that follows
        plans = tuple(row[0] for row in database.execute("SELECT plan FROM plans ORDER BY number"))
        epochs, estimates = database.execute(
            "SELECT count(DISTINCT e.epoch) + a.epochs, count(e.epoch) + a.estimates "
            "FROM about a LEFT JOIN estimates e"
        ).fetchone()
        counts = {
            (agent, what): n for agent, what, n in database.execute("SELECT agent, what, count FROM counts")
        }
        rows = database.execute("SELECT agent, epoch, messages, missed, heard FROM agents").fetchall()
        document = database.execute("SELECT document FROM plans ORDER BY number DESC LIMIT 1").fetchone()
        made = database.execute("SELECT made FROM estimates ORDER BY epoch DESC LIMIT 1").fetchone()
    heard_by = frozenset() if document is None else _agents_of(document[0])
    reported = [row[1] for row in rows if row[1] and row[0] in heard_by]
    newest = max((epoch for epoch in reported if epoch <= farthest(reported)), default=0)
    agents = tuple(
        AgentStatus(
            agent=agent,
            messages=messages,
            missed=missed,
            silent=max(0, epochs - messages - missed),
            epoch=epoch,
            lag=max(0, newest - epoch) if epoch else epochs,
            heard=heard,
            refused=sum(n for (who, what), n in counts.items() if who == agent and is_refusal(what)),
            duplicates=counts.get((agent, "duplicate"), 0),
        )
        for agent, epoch, messages, missed, heard in rows
    )
    mark = f"{DRIFT}{plans[-1][:SHORT]}" if plans else DRIFT
    drifted = tuple(each.agent for each in agents if (each.agent, mark) in counts)
    last = 0.0 if made is None else made[0]
    return Status(plans, newest, epochs, estimates, agents, counts, drifted, last)


def newest_estimates(path: Path, most: int) -> list[dict[str, Any]]:
    """The last revisions of the newest epochs, the newest first."""
    with _reading(path, centre_store.KIND, _CENTRES) as database:
        rows = database.execute(
            "SELECT epoch, plan, revision, public, covariance, missing, contradicting FROM latest "
            "ORDER BY epoch DESC, told DESC, plan DESC LIMIT ?",
            (most,),
        ).fetchall()
    names = ("epoch", "plan", "revision", "public", "covariance", "missing", "contradicting")
    return [dict(zip(names, (*row[:3], *map(json.loads, row[3:])), strict=True)) for row in rows]


def plan_document(path: Path, plan: str) -> bytes:
    """The centre file of a plan that was taken up."""
    with _reading(path, centre_store.KIND, _CENTRES) as database:
        (found,) = database.execute("SELECT document FROM plans WHERE plan = ?", (plan,)).fetchone()
    return bytes(found)


def copy_store(path: Path, copy: Path) -> None:
    """A copy of a centre's store, which may be in use, in a new file."""
    with _reading(path, centre_store.KIND, _CENTRES) as database:
        copy_database(database, copy)


def agent_status(path: Path) -> tuple[str, agent_ledger.Ledger]:
    """(agent, ledger) in an agent's store, which is not changed."""
    with _reading(path, agent_ledger.KIND, agent_ledger.STORE_IN_WORDS) as database:
        (agent,) = database.execute("SELECT agent FROM about").fetchone()
        return agent, agent_ledger.read_ledger(database)


def kind_of(path: Path) -> str:
    """What a store is, by its own word; empty where it is none."""
    if not path.is_file():
        raise InvalidRequest(f"{path}: no such file")
    try:
        with closing(connect(path, read_only=True)) as database:
            return str(database.execute("SELECT kind FROM kind").fetchone()[0])
    except (sqlite3.Error, TypeError):
        return ""


def _reading(path: Path, kind: str, what: str) -> closing[sqlite3.Connection]:
    try:
        check_format(kind_of(path) or None, kind)
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: expected {what}; {error}") from None
    return closing(connect(path, read_only=True))


def _fields(each: AgentStatus) -> dict[str, Any]:
    return {name: value for name, value in vars(each).items() if name != "agent"}
