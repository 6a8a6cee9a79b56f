"""What one agent has released, row by row: no restart draws noise a second time for the same reading.

Noise protects a reading once. Whoever sees the same reading under a thousand draws averages them away, so a
run that was killed must neither sanitize a row again nor forget what it sent. ``veilnet sanitize --ledger``
therefore records the messages of a block, on the disk, before any of them is sent:

    {"format": "veilnet-releases/2", "agent": ..., "key": ..., "budget": null or the most rows}
    {"entry": 1, "plan": ..., "rows": [1, 2, ...], "values": [[...], ...]}    recorded, then sent
    {"entry": 2, "sent": true}                           a run ended, and had sent all it recorded

It is of an agent, whatever plans that agent goes by: a row that was released under one is not released under
another. Twenty-one plans with noise of their own for the same reading would leave a fifth of the noise.

An entry counts as sent once another follows. The last one of a killed run may have been sent or not: where
messages go to a file, the file tells, and what is missing there is added from the ledger, the same numbers;
where they go to a pipe, the user decides whether to send that entry again.

The file is a chain (:mod:`veilnet.io._chain`). It notices lines that were changed, not that somebody put back
an older copy, or continues two copies of it: compare its count with the number of the agent's messages that
the centre received, which ``veilnet fuse`` reports, and trust the centre's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array
from veilnet.io._chain import Chain, begin_chain, open_chain, read_head

__all__ = ["ReleaseAudit", "ReleaseLedger", "audit_releases", "open_release_ledger"]

FORMAT = "veilnet-releases/2"
_TOLD = {"row": "in a column 'row'", "time": "in a column of times", "counted": "counted"}


class ReleaseLedger:
    """The releases of one agent, under whatever plans.

    plan:      the one that it goes by now.
    last_row:  the last row recorded; ``last_before`` the one before the last entry, ``count`` how many there are.
    last_plan: the plan of the last entry; empty before the first.
    budget:    the most rows that may ever be recorded, None for no limit.
    key:       how rows are told apart: counted, row or time.
    unsure:    (rows, values) of the last entry, if a killed run may not have sent them.
    """

    def __init__(self, chain: Chain, path: Path, plan: str, agent: str) -> None:
        self._chain = chain
        self.plan = plan
        self.last_plan = ""
        self.last_row = self.last_before = 0
        self.count = 0
        self.unsure: tuple[list[int], Array] | None = None
        lines = chain.read()
        header = next(lines)
        if header.get("agent") != agent:
            raise InvalidPlan(
                f"{path}: expected the ledger of {agent!r}, found that of another agent; give its own"
            )
        self.budget: int | None = _whole(header.get("budget"), path, "budget", optional=True)
        self.key = header.get("key")
        for line in lines:
            self._add(line, path)

    @property
    def left(self) -> int | None:
        """How many more rows may be released; None for any number."""
        return None if self.budget is None else max(0, self.budget - self.count)

    @property
    def head(self) -> str:
        """What an auditor keeps: the number of entries and the hash of the last line."""
        return self._chain.head

    def record(self, rows: Sequence[int], values: Array) -> None:
        """Record messages, before they are sent."""
        entry = {
            "entry": self._chain.lines,
            "plan": self.plan,
            "rows": list(rows),
            "values": values.tolist(),
        }
        self._chain.append(entry)
        self._keep(self.plan, list(rows), values)

    def all_sent(self) -> None:
        """Record that what was recorded was sent."""
        if self.unsure is not None:
            self._chain.append({"entry": self._chain.lines, "sent": True})
            self.unsure, self.last_before = None, self.last_row

    def _add(self, line: dict[str, Any], path: Path) -> None:
        if line.get("sent") is True:
            self.unsure, self.last_before = None, self.last_row
            return
        try:
            rows = [_whole(row, path, "row") or 0 for row in line["rows"]]
            values = np.array(line["values"], dtype=np.float64).reshape(len(rows), -1)
            plan = str(line["plan"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidPlan(f"{path}: entry {line.get('entry')}: not a ledger entry") from error
        if not rows or rows[0] <= self.last_row or any(b <= a for a, b in pairwise(rows)):
            raise InvalidPlan(f"{path}: entry {line.get('entry')}: rows do not increase; it was changed")
        self._keep(plan, rows, values)

    def _keep(self, plan: str, rows: list[int], values: Array) -> None:
        self.last_plan = plan
        self.last_before, self.last_row = self.last_row, rows[-1]
        self.count += len(rows)
        self.unsure = rows, values


@contextmanager
def open_release_ledger(
    path: Path, plan: str | None, agent: str, budget: int | None, key: str
) -> Iterator[ReleaseLedger]:
    """The agent's ledger, begun where there is none, and nobody else's until the block ends.

    key: how its rows are told apart, which stays the same.
    """
    if plan is None:
        raise InvalidPlan("--ledger: expected a sanitizer of a plan, found one saved on its own")
    if not path.exists():
        begin_chain(path, {"format": FORMAT, "agent": agent, "budget": budget, "key": key})
    with open_chain(path, FORMAT, wait=False) as chain:
        ledger = ReleaseLedger(chain, path, plan, agent)
        if ledger.key != key:
            raise InvalidRequest(
                f"{path}: this ledger has its rows {_TOLD.get(str(ledger.key), ledger.key)}, the input {_TOLD[key]}; "
                "tell them as before, so that none is released twice"
            )
        if budget is not None and budget != ledger.budget:
            raise InvalidRequest(
                f"--budget: {path} was begun with {'none' if ledger.budget is None else ledger.budget}, found "
                f"{budget}; a ledger keeps its budget: leave the option out, or begin a ledger for another x"
            )
        yield ledger


@dataclass(frozen=True)
class ReleaseAudit:
    """What an agent's ledger shows to whoever did not write it.

    count, last_row, left: rows recorded, the last of them, and how many more the budget allows (None: any number).
    head:                  to keep for the next audit.
    problems:              what is wrong, in words; empty where nothing is.
    """

    count: int
    last_row: int
    left: int | None
    head: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        left = "no budget" if self.left is None else f"{self.left} more within its budget"
        whole = "" if self.problems else "whole, "
        said = f"Ledger: {whole}{self.count} rows recorded, the last one {self.last_row}, {left}; head {self.head}"
        return "\n".join([said, *(f"ALARM: {problem}" for problem in self.problems)])


def audit_releases(
    path: Path, agent: str, head: str | None = None, received: int | None = None
) -> ReleaseAudit:
    """Read an agent's ledger without changing it.

    path:     the ledger of ``sanitize --ledger``.
    agent:    whose it has to be; a ledger of another is an error.
    head:     the head at the last audit, which the ledger must continue.
    received: how many messages of the agent the centre has received, as ``fuse`` tells: no more than are recorded.
    """
    with open_chain(path, FORMAT, write=False) as chain:
        ledger = ReleaseLedger(chain, path, "", agent)
    problems = []
    if head is not None:
        place, kept = read_head(head, "--head")
        with open_chain(path, FORMAT, write=False) as chain:
            hashes = [str(line["hash"]) for line in chain.read()]
        if place >= len(hashes):
            problems.append(f"it was set back: {place} entries at the last audit, now {len(hashes) - 1}")
        elif hashes[place] != kept:
            problems.append(f"it was rewritten: entry {place} is not the one of the last audit")
    if received is not None and received > ledger.count:
        problems.append(
            f"the centre received {received} messages, {ledger.count} are recorded: {received - ledger.count} were "
            "released outside this ledger, or recorded in a copy of it"
        )
    return ReleaseAudit(ledger.count, ledger.last_row, ledger.left, ledger.head, tuple(problems))


def _whole(value: Any, path: Path, what: str, *, optional: bool = False) -> int | None:
    if optional and value is None:
        return None
    if type(value) is not int or value < 1:
        raise InvalidPlan(f"{path}: {what}: expected a positive whole number; the ledger was changed")
    return value
