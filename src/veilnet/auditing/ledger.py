"""A ledger of releases: it adds up what they tell, and refuses the one that would tell too much.

Releases of the same x, by one plan or by several of the same network, add Fisher information if their readings are
others. Releases of the same readings share the readings' noise: together they may tell far more than the sum, as a
sum and a difference tell both readings. Each release has therefore its *epoch*, the number of its readings; what is
released of one epoch is stacked, (C, Θ) of all of it, and the information of the epochs added.

Dither counts where an agent released its readings of an epoch once. Of two releases the mean has less of it, and of
many none: readings on a lattice are then named from what is sent. Stacked numbers therefore count no dither where
their noise alone hides the lattice, and otherwise as if the readings themselves had been sent. The ledger is an
append-only file and refuses a release after which some p_j would be below the least that has to remain. One ledger
serves one x: one subject and one period over which x does not change. A new plan goes on with the ledger of the old.

The file is a chain of entries (:mod:`veilnet.io._chain`): first the network and the least privacy, then one
entry per record with its epochs and, where a plan is new, what its agents send. An auditor who keeps the last *head*
(counter and hash) detects every later change of what it covers: entries altered, removed, reordered, and a ledger set
back or begun anew. What the file cannot tell: releases that were never recorded, a reset when nobody kept a
head, and copies. Two copies of one ledger, each continued, are both sound; they share their heads up to the
copy and neither knows of the other's releases. The number of messages that the centre received decides:
:meth:`Ledger.verify` compares it with the counter. The hashes are not signatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidNetwork, InvalidPlan, InvalidRequest
from veilnet._core.linalg import triangle
from veilnet._core.types import Array, Booleans
from veilnet._core.words import number
from veilnet.agent.dither import own_noise
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.measures import privacies, read_least_privacy
from veilnet.auditing.options import LedgerCheck
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.what_if.repetition import first_below
from veilnet.bounds.knowledge import knowledge_of_factor, message_factor
from veilnet.io._chain import Chain, begin_chain, continues, open_chain
from veilnet.io.agent_ledger import audit_releases, is_agent_store
from veilnet.model.network import Network
from veilnet.plans.fingerprint import network_fingerprint, plan_fingerprint
from veilnet.plans.plan import Plan

_FORMAT = "veilnet-ledger/4"
_LEAST_PRIVACY = "least_privacy"
_LAST_EPOCH = 2**53

# of a step squared: a Gaussian so wide has on the lattice the moments it has without, but for 1e-3
_SMOOTH = 0.5

Sent = Mapping[str, tuple[Array, Booleans, Array]]
"""agent -> its rows in normal form, which of them carry noise of variance one, and its readings' dither variances."""


class Ledger:
    """Fisher information of all releases of one x, with the privacy that has to remain after them.

    ``Ledger.create(path, network, least_privacy)`` begins one; ``Ledger(path, network)`` opens it. Threads may
    share one object, and processes one file: each record is added whole, after all others.

    path:          the ledger's file.
    network:       the network whose x is released, the one the ledger was begun with.
    least_privacy: (attribute) private name -> the least p_j that has to remain, as it was begun with.
    """

    def __init__(self, path: str | PathLike[str], network: Network) -> None:
        _refuse_stream(network)
        self.path = Path(path)
        self.network = network
        self.least_privacy: dict[str, float] = {}
        self._undithered = network.replace(dither=0.0)
        self._sent: dict[str, Sent] = {}
        self._factors: dict[tuple[str, ...], Array] = {}
        self._records: list[tuple[str, int, int]] = []
        self._factor: Array = np.zeros((0, network.L))
        self._count = 0
        self._hashes: list[str] = []
        self._turn = RLock()
        with open_chain(self.path, _FORMAT, write=False) as chain:
            self._read(chain)

    def __reduce__(self) -> Any:
        return Ledger, (self.path, self.network)  # a lock cannot be carried to another process; the file can

    @classmethod
    def create(
        cls, path: str | PathLike[str], network: Network, least_privacy: float | Mapping[str, float]
    ) -> Ledger:
        """Begin a ledger.

        path:          the file to begin; there must be none yet.
        network:       the network whose x is released.
        least_privacy: the privacy p_j that has to remain after all releases, one number or name -> number
                       (0: as much as one raw release leaves).
        """
        _refuse_stream(network)
        asked = read_least_privacy(network, least_privacy)
        if not asked:
            raise InvalidRequest(
                "least_privacy: expected at least one number; give least_privacy=5.0 or {'gait': 5.0}"
            )
        begin_chain(path, _FORMAT, {"network": network_fingerprint(network), _LEAST_PRIVACY: asked})
        return cls(path, network)

    # --- what is in it

    @property
    def count(self) -> int:
        """How many releases were recorded."""
        return self._count

    @property
    def head(self) -> str:
        """What an auditor keeps: the number of records and the hash of the last."""
        return f"{len(self._hashes) - 1}-{self._hashes[-1]}"

    def privacy(self) -> dict[str, float]:
        """p_j after all releases so far; below zero when more is known than one raw release tells."""
        with self._turn:
            return self._privacy_of(self._factor)

    def remaining(self, plan: Plan) -> float:
        """How many more releases of new readings leave enough privacy; inf when as many as one likes.

        plan: the plan by which they would be made.
        """
        once = self._factor_of((self._name_of(plan),))

        def margin(count: int) -> float:
            left = self._privacy_of(np.concatenate([self._factor, np.sqrt(count) * once]))
            return min(left[name] - least for name, least in self.least_privacy.items())

        with self._turn:
            return first_below(margin, 0.0) - 1.0

    # --- adding to it

    def record(self, plan: Plan, releases: int = 1, *, epoch: int | None = None) -> dict[str, float]:
        """Record releases *before* they are made; returns the privacy left after them.

        plan:     the plan by which they are made, one of the ledger's own network.
        releases: how many, each of the readings of one epoch, one after the other.
        epoch:    the number of the readings that are released first, at least 0. Readings of an epoch that was
                  released before, by this plan or another, are the same readings with the same noise. New ones, after
                  all that were released, when left out.

        Raises Infeasible, and records nothing, when less than the least privacy would remain.
        """
        if not isinstance(releases, int | np.integer) or releases < 1:
            raise InvalidRequest(f"releases: expected a positive whole number, found {releases!r}")
        if epoch is not None and (not isinstance(epoch, int | np.integer) or not 0 <= epoch < _LAST_EPOCH):
            raise InvalidRequest(f"epoch: expected a whole number of at least 0, found {epoch!r}")
        name_of_plan = self._name_of(plan)
        with self._turn:
            with open_chain(self.path, _FORMAT) as chain:
                self._read(chain)  # another process may have added to it
                known = name_of_plan in {name for name, _, _ in self._records}
                self._name_of(plan)  # reading forgets what is not in the file
                first = self._next_epoch if epoch is None else int(epoch)
                record = (name_of_plan, first, int(releases))
                factor = self._factor_with([*self._records, record])
                left = self._privacy_of(factor)
                for name, least in self.least_privacy.items():
                    if left[name] < least:
                        raise Infeasible(
                            f"ledger: {releases} more release{'s' if releases > 1 else ''} would leave the privacy "
                            f"of {name} at {number(left[name])}, below the {number(least)} that has to remain; "
                            f"{number(self.remaining(plan))} more of new readings are possible, then x has to change "
                            "or stay unsent"
                        )
                entry = {"plan": name_of_plan, "epoch": first, "releases": int(releases)}
                chain.append(entry | ({} if known else {"sent": _as_lists(self._sent[name_of_plan])}))
            self._hashes, self._count = chain.hashes, self._count + int(releases)
            self._records.append(record)
            self._factor = factor
        return left

    # --- checking it

    def verify(self, head: str | None = None, releases: int | None = None) -> list[str]:
        """What is wrong with the ledger, in words: nothing, if the list is empty.

        head:     the last head the auditor kept; the ledger must continue it.
        releases: how many releases are known to have been made; the ledger must have them all.
        """
        return verify_ledger(self.path, self.network, head, releases)

    # --- inside

    def _name_of(self, plan: Plan) -> str:
        """The plan's fingerprint; what its agents send is known by it from now on."""
        if plan.network is not self.network and (
            network_fingerprint(plan.network) != network_fingerprint(self.network)
        ):
            raise InvalidRequest(
                "plan: expected a plan of the ledger's own network, found one of another (parameters "
                f"{', '.join(plan.network.parameters[:6])}); keep a ledger for each network and x"
            )
        name = plan_fingerprint(plan.network, plan.sanitizers)
        if name not in self._sent:
            self._sent[name] = {
                agent: (*each.normal, each.dither_variance) for agent, each in plan.sanitizers.items()
            }
        return name

    @property
    def _next_epoch(self) -> int:
        return max((first + count for _, first, count in self._records), default=0)

    def _factor_with(self, records: list[tuple[str, int, int]]) -> Array:
        """F of all releases: epochs in which the same plans released tell as much each."""
        ends = sorted({edge for _, first, count in records for edge in (first, first + count)})
        many: dict[tuple[str, ...], int] = {}
        for start, end in pairwise(ends):
            released = sorted(name for name, first, count in records if first <= start < first + count)
            if released:
                many[tuple(released)] = many.get(tuple(released), 0) + end - start
        factors = [np.sqrt(float(count)) * self._factor_of(plans) for plans, count in many.items()]
        return triangle(np.concatenate([np.zeros((0, self.network.L)), *factors]))

    def _factor_of(self, plans: tuple[str, ...]) -> Array:
        """F of one epoch of which these plans released the readings, each with noise of its own."""
        if plans not in self._factors:
            together = {
                agent: self._stacked(place, [self._sent[name][agent] for name in plans])
                for place, agent in enumerate(self.network.agents)
            }
            self._factors[plans] = triangle(message_factor(self._undithered, together))
        return self._factors[plans]

    def _stacked(self, place: int, releases: list[tuple[Array, Booleans, Array]]) -> Sanitizer:
        """What an agent revealed by all releases of its readings of one epoch."""
        releases = [each for each in releases if len(each[0])] or releases[:1]
        rows = np.concatenate([each[0] for each in releases])
        noise = np.diag(np.concatenate([each[1] for each in releases]).astype(np.float64))
        dithered = np.max([each[2] for each in releases], axis=0)
        if len(releases) == 1:
            return Sanitizer(rows, noise + (rows * dithered) @ rows.T)
        coarse, steps = (
            dithered > 0,
            np.sqrt(12 * dithered[dithered > 0]),
        )  # at least as wide as the lattice's
        own = own_noise(self._undithered).block(place)
        half = rows @ own
        left = own - half.T @ np.linalg.pinv(half @ rows.T + noise, hermitian=True) @ half
        if np.any(np.linalg.eigvalsh(left[np.ix_(coarse, coarse)] / np.outer(steps, steps)) < _SMOOTH):
            return Sanitizer(np.eye(len(own)))
        return Sanitizer(rows, noise)

    def _privacy_of(self, factor: Array) -> dict[str, float]:
        return privacies(knowledge_of_factor(self._undithered, factor))

    def _read(self, chain: Chain) -> None:
        entries = chain.read()
        header = next(entries)
        if header.get("network") != network_fingerprint(self.network):
            raise InvalidPlan(f"{self.path}: the ledger belongs to another network; open it with its own")
        try:
            self.least_privacy = read_least_privacy(self.network, header.get(_LEAST_PRIVACY))
        except InvalidRequest as error:
            raise InvalidPlan(f"{self.path}: {error}") from error
        if not self.least_privacy:
            raise InvalidPlan(
                f"{self.path}: the ledger does not say what privacy has to remain: it was changed"
            )
        self._count, self._records, self._sent = 0, [], {}
        for place, line in enumerate(entries, 1):
            try:
                name, first, releases = str(line["plan"]), int(line["epoch"]), int(line["releases"])
                if name not in self._sent:
                    self._sent[name] = _from_lists(line["sent"], self.network)
                if releases < 1 or not 0 <= first < _LAST_EPOCH:
                    raise ValueError("not a release")
            except (KeyError, TypeError, ValueError, OverflowError, InvalidNetwork) as error:
                raise InvalidPlan(f"{self.path}: entry {place}: not a ledger entry") from error
            self._count += releases
            self._records.append((name, first, releases))
        self._factor = self._factor_with(self._records)
        self._hashes = chain.hashes


def _as_lists(sent: Sent) -> dict[str, dict[str, Any]]:
    return {
        agent: {"rows": rows.tolist(), "noisy": [int(each) for each in noisy], "dither": dither.tolist()}
        for agent, (rows, noisy, dither) in sent.items()
    }


def _from_lists(given: Any, network: Network) -> Sent:
    """What agents send, from an entry; an error where it is nothing of the kind."""
    found = {}
    for agent, rows in network.observe.items():
        sent = np.array(given[agent]["rows"], dtype=np.float64).reshape(-1, len(rows))
        noisy = np.array(given[agent]["noisy"], dtype=np.float64)
        dither = np.array(given[agent]["dither"], dtype=np.float64)
        shapes = noisy.shape == (len(sent),) and dither.shape == (len(rows),)
        if not (
            shapes and np.all(np.isin(noisy, (0, 1))) and np.all(np.isfinite(sent)) and np.all(dither >= 0)
        ):
            raise ValueError("not what an agent sends")
        found[agent] = sent, noisy > 0, dither
    return found


def _refuse_stream(network: Network) -> None:
    if network.is_stream:
        raise InvalidRequest(
            "network: a ledger adds up releases of one x that stays, found a network with dynamics; the promise of a "
            "stream plan counts every row already, so it needs none (network.one_row is the network of single rows)"
        )


def verify_ledger(
    path: str | PathLike[str], network: Network, head: str | None = None, releases: int | None = None
) -> list[str]:
    """What is wrong with a ledger file, in words; see :meth:`Ledger.verify`."""
    try:
        ledger = Ledger(path, network)
    except (InvalidPlan, InvalidRequest) as error:
        return [str(error)]
    problems = [] if head is None else continues(head, "head", ledger._hashes)
    if releases is not None and ledger.count < releases:
        problems.append(
            f"{releases} releases were made, the ledger has {ledger.count}: some were not recorded, "
            "or recorded in a copy"
        )
    left = ledger.privacy()
    problems += [
        f"the recorded releases leave the privacy of {name} at {number(left[name])}, "
        f"below the {number(least)} that has to remain"
        for name, least in ledger.least_privacy.items()
        if left[name] < least
    ]
    return problems


def ledger_rows(plan: Plan, check: LedgerCheck) -> list[Row]:
    """Whether it is whole and continues the head that was kept, and how many releases it still allows."""
    path = Path(check.path)
    left: float | None = None
    remarks = [] if check.head is not None else ["keep its head, or a reset will go unnoticed"]
    if is_agent_store(path):
        what = "releases of a live agent"
        found = audit_releases(path, head=check.head, received=check.releases)
        problems = list(found.problems)
        if found.agent and found.agent not in plan.network.position:
            problems.append(f"it is the store of {found.agent!r}, which is no agent of this plan")
        left = None if found.left is None else float(found.left)
        remarks = [*found.remarks, *remarks]
        figures = {"agent": found.agent, "head": found.head, "releases": found.count, "missed": found.missed}
        figures |= {"reserved": found.reserved, "last epoch": found.last_row}
    else:
        what = "ledger of releases"
        problems = verify_ledger(path, plan.network, check.head, check.releases)
        figures = {}
        if not problems:
            opened = Ledger(path, plan.network)
            left = opened.remaining(plan)
            figures = {"head": opened.head, "releases": opened.count, "privacy": opened.privacy()}
    section = Section.LEDGER.heading
    if problems:
        return [Row(section, what, "whole", "not whole", "fail", "; ".join(problems) + ".")]
    verdict: Judgement = "ok" if check.head is not None else "warn"
    headings = ("agent", "releases", "missed", "last epoch", "head")
    shown = {"found": "whole"} | {each: str(figures[each]) for each in headings if each in figures}
    why = f"{'; '.join(remarks)}." if remarks else ""
    rows = [Row(section, what, "whole", "whole", verdict, why, None, figures, shown)]
    if left is None:
        return rows
    return [*rows, Row(section, "releases left", None, left, "info", shown={"more releases": number(left)})]
