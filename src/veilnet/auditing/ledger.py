"""A ledger of releases: it adds up what they tell, and refuses the one that would tell too much.

Every release of the same x adds Fisher information, by one plan or by several. The ledger keeps the sum in an
append-only file and refuses a release after which some p_j would be below its limit. One ledger serves one x:
one subject and one period over which x does not change.

The file has one JSON object per line: a header with the network and the limits, then one entry per release
with a counter and the information released. Each line carries a hash of itself and of the line before. An
auditor who keeps the last *head* (counter and hash) detects every later change of what it covers: lines
altered, removed, reordered, and a ledger set back or begun anew. What it cannot detect: releases that were
never recorded (compare the counter with the number of messages the centre received), and a reset when nobody
kept a head. The hashes are not signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidPlan, InvalidRequest
from veilnet._core.linalg import triangle
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.auditing.fingerprint import network_fingerprint, plan_fingerprint
from veilnet.auditing.measures import privacies, read_limits
from veilnet.auditing.what_if.repetition import first_below
from veilnet.bounds.information import message_factor
from veilnet.bounds.knowledge import knowledge_of_factor
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

__all__ = ["Ledger"]

_FORMAT = "veilnet-ledger/1"


class Ledger:
    """Fisher information of all releases of one x, with a limit on what they may tell.

    ``Ledger.create(path, network, limits)`` begins one; ``Ledger(path, network)`` opens it.
    """

    def __init__(self, path: str | PathLike[str], network: Network) -> None:
        self.path = Path(path)
        self.network = network
        self.limits: dict[str, float] = {}
        self._factor: Array = np.zeros((0, network.L))
        self._lines, self._count, self._hash = 0, 0, ""
        with self._file("rb") as file:
            self._read(file)

    @classmethod
    def create(
        cls, path: str | PathLike[str], network: Network, limits: float | Mapping[str, float]
    ) -> Ledger:
        """Begin a ledger: ``limits`` is the least privacy p_j that has to remain (0: one raw release)."""
        asked = read_limits(network, limits)
        if not asked:
            raise InvalidRequest("limits: expected at least one limit; give limits=5.0 or {'gait': 5.0}")
        header = {"format": _FORMAT, "network": network_fingerprint(network), "limits": asked}
        try:
            with Path(path).open("xb") as file:
                _append(file, header, "")
        except FileExistsError:
            raise InvalidRequest(
                f"{path}: a ledger is there already; open it, or choose another name (a new one forgets)"
            ) from None
        return cls(path, network)

    # --- what is in it

    @property
    def count(self) -> int:
        """How many releases were recorded."""
        return self._count

    @property
    def head(self) -> str:
        """What an auditor keeps: the number of entries and the hash of the last line."""
        return f"{self._lines - 1}-{self._hash}"

    def privacy(self) -> dict[str, float]:
        """p_j after all releases so far; below zero when more is known than one raw release tells."""
        return privacies(knowledge_of_factor(self.network, self._factor))

    def remaining(self, plan: Plan) -> float:
        """How many more releases of a plan the limits allow; inf when it is as many as one likes."""
        once = self._factor_of(plan)

        def margin(count: int) -> float:
            return self._margin(np.sqrt(count) * once)

        return first_below(margin, 0.0) - 1.0

    # --- adding to it

    def record(self, plan: Plan, releases: int = 1) -> dict[str, float]:
        """Record releases *before* they are made; returns the privacy left after them.

        Raises Infeasible, and records nothing, when a limit would be crossed.
        """
        if not isinstance(releases, int | np.integer) or releases < 1:
            raise InvalidRequest(f"releases: expected a positive whole number, found {releases!r}")
        once = self._factor_of(plan)
        with self._file("r+b") as file:
            self._read(file)  # another process may have added to it
            added = np.sqrt(float(releases)) * once
            left = self._privacy_with(added)
            for name, limit in self.limits.items():
                if left[name] < limit:
                    raise Infeasible(
                        f"ledger: {releases} more release{'s' if releases > 1 else ''} would leave the privacy "
                        f"of {name} at {number(left[name])}, below its limit {number(limit)}; "
                        f"{number(self.remaining(plan))} more are possible, then x has to change or stay untold"
                    )
            entry = {
                "entry": self._lines,
                "plan": plan_fingerprint(plan.network, plan.sanitizers),
                "releases": int(releases),
                "factor": once.tolist(),
            }
            file.seek(0, os.SEEK_END)
            self._hash = _append(file, entry, self._hash)
        self._lines += 1
        self._count += int(releases)
        self._factor = triangle(np.concatenate([self._factor, added]))
        return left

    # --- checking it

    def verify(self, head: str | None = None, releases: int | None = None) -> list[str]:
        """What is wrong with the ledger, in words: nothing, if the list is empty.

        head:     the last head the auditor kept; the ledger must continue it.
        releases: how many releases are known to have been made; the ledger must have them all.
        """
        return verify_ledger(self.path, self.network, head, releases)

    # --- inside

    def _factor_of(self, plan: Plan) -> Array:
        if plan.network.parameters != self.network.parameters:
            raise InvalidRequest(
                "plan: expected a plan about the same parameters as the ledger's network, found "
                f"{', '.join(plan.network.parameters[:6])}; keep a ledger for each x"
            )
        return triangle(message_factor(plan.network, plan.sanitizers))

    def _privacy_with(self, added: Array) -> dict[str, float]:
        return privacies(knowledge_of_factor(self.network, np.concatenate([self._factor, added])))

    def _margin(self, added: Array) -> float:
        left = self._privacy_with(added)
        return min(left[name] - limit for name, limit in self.limits.items())

    def _read(self, file: IO[bytes]) -> None:
        lines = _checked_lines(file.read(), self.path)
        header = lines[0]
        if header.get("network") != network_fingerprint(self.network):
            raise InvalidPlan(f"{self.path}: the ledger belongs to another network; open it with its own")
        try:
            self.limits = read_limits(self.network, header.get("limits"))
        except InvalidRequest as error:
            raise InvalidPlan(f"{self.path}: {error}") from error
        if not self.limits:
            raise InvalidPlan(f"{self.path}: the ledger has no limits: it was changed")
        self._lines, self._count = len(lines), 0
        self._factor = np.zeros((0, self.network.L))
        for line in lines[1:]:
            try:
                once = np.array(line["factor"], dtype=np.float64).reshape(-1, self.network.L)
                releases = int(line["releases"])
                if releases < 1 or not np.all(np.isfinite(once)):
                    raise ValueError("not a release")
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise InvalidPlan(f"{self.path}: entry {line.get('entry')}: not a ledger entry") from error
            self._count += releases
            self._factor = triangle(np.concatenate([self._factor, np.sqrt(float(releases)) * once]))
        self._hash = str(lines[-1]["hash"])

    @contextmanager
    def _file(self, mode: str) -> Iterator[IO[bytes]]:
        try:
            with self.path.open(mode) as file:
                _lock(file)
                yield file
        except FileNotFoundError:
            raise InvalidPlan(f"{self.path}: no such ledger; begin one with Ledger.create") from None


def verify_ledger(
    path: str | PathLike[str], network: Network, head: str | None = None, releases: int | None = None
) -> list[str]:
    """What is wrong with a ledger file, in words; see :meth:`Ledger.verify`."""
    try:
        ledger = Ledger(path, network)
        lines = _checked_lines(Path(path).read_bytes(), Path(path))
    except InvalidPlan as error:
        return [str(error)]
    problems = []
    if head is not None:
        place, _, kept = head.partition("-")
        if not place.isdigit() or not kept:
            raise InvalidRequest(f"head: expected what Ledger.head gave, number-hash, found {head!r}")
        if int(place) >= len(lines):
            problems.append(
                f"the ledger was reset: it had {place} entries when its head was kept, now {len(lines) - 1}"
            )
        elif lines[int(place)]["hash"] != kept:
            problems.append(f"the ledger was rewritten: entry {place} is not the one whose head was kept")
    if releases is not None and ledger.count < releases:
        problems.append(f"{releases} releases were made, the ledger has {ledger.count}")
    left = ledger.privacy()
    problems += [
        f"the recorded releases leave the privacy of {name} at {number(left[name])}, "
        f"below its limit {number(limit)}"
        for name, limit in ledger.limits.items()
        if left[name] < limit
    ]
    return problems


def _append(file: IO[bytes], entry: Mapping[str, Any], previous: str) -> str:
    digest = _digest(entry, previous)
    line = json.dumps({**entry, "previous": previous, "hash": digest}, separators=(",", ":"))
    file.write(line.encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return digest


def _digest(entry: Mapping[str, Any], previous: str) -> str:
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def _checked_lines(content: bytes, path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger whose chain of hashes holds; InvalidPlan, naming the line, otherwise."""
    if not content.endswith(b"\n"):
        raise InvalidPlan(f"{path}: the ledger is empty or its last line is torn; restore it from a copy")
    lines: list[dict[str, Any]] = []
    previous = ""
    for place, text in enumerate(content.splitlines()):
        try:
            line = json.loads(text)
            entry = {key: value for key, value in line.items() if key not in ("previous", "hash")}
            sound = line["previous"] == previous and line["hash"] == _digest(entry, previous)
            sound = sound and (entry["format"] == _FORMAT if place == 0 else entry["entry"] == place)
        except (ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise InvalidPlan(f"{path}: line {place + 1} does not continue the ledger: it was changed")
        previous = line["hash"]
        lines.append(line)
    return lines


def _lock(file: IO[bytes]) -> None:
    """Only one process reads and adds at a time, where the system can see to it."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover  (Windows)
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)
