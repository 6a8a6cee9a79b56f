"""The centre, without a network: from what arrived to what is committed, acknowledged and estimated.

:meth:`Centre.take` commits a batch of what arrived, and only then says what may be acknowledged. It never raises for
what somebody sent: that is refused and counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from veilnet._core.durations import in_words, same_step
from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion
from veilnet.centre.streams.sum_model import SumModel
from veilnet.io.centre_files import centre_from_bytes
from veilnet.live.centre_store import CentreStore
from veilnet.live.estimating import Estimator, estimator
from veilnet.live.intake import Accepted, Intake
from veilnet.live.messages import SHORT, Receipt, Seal, as_ranges
from veilnet.live.topics import Topics

__all__ = ["USUAL_GATE", "Centre", "Estimated", "Taken"]

USUAL_GATE = 1e-6


@dataclass(frozen=True, eq=False)
class Estimated:
    """An estimate that is committed: of an epoch, by a plan, in its last revision so far (0 is the first)."""

    epoch: int
    plan: str
    revision: int
    estimate: Estimate


@dataclass
class Taken:
    """What came of a batch.

    receipts:  (agent, receipt) to be sent: everything in them is on the disk.
    estimates: made since the last batch.
    new, duplicates, refused: how many there were of each.
    """

    receipts: list[tuple[str, Receipt]] = field(default_factory=list)
    estimates: list[Estimated] = field(default_factory=list)
    new: int = 0
    duplicates: int = 0
    refused: int = 0


@dataclass(frozen=True, eq=False)
class _Plan:
    number: int
    plan: str
    fusion: Fusion
    estimator: Estimator


class Centre:
    """Takes in messages under one or more plans, and estimates.

    store:    where everything is kept; plans that it has already go on.
    seals:    agent -> its seal.
    topics:   where agents send.
    wait:     seconds that an epoch waits for agents after its first message.
    gate:     false-alarm rate of the test against the model, None for none.
    keep:     name messages that contradict the model, and use them all the same.
    """

    def __init__(
        self,
        store: CentreStore,
        seals: Mapping[str, Seal],
        topics: Topics,
        *,
        wait: float = 30.0,
        gate: float | None = USUAL_GATE,
        keep: bool = False,
    ) -> None:
        if not wait >= 0:
            raise InvalidRequest(f"--wait: expected a number of seconds, found {wait!r}")
        self.store = store
        self._wait, self._gate, self._keep = wait, gate, keep
        self._plans: dict[str, _Plan] = {}
        self._sent: dict[str, dict[str, int]] = {}
        self._intake = Intake(seals, self._sent, topics)
        for stored in store.plans():
            self._open(stored.number, stored.plan, stored.document)

    @property
    def plans(self) -> tuple[str, ...]:
        """The ids of all plans whose messages are taken, the newest last."""
        return tuple(each.plan for each in self._plans.values())

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of all these plans."""
        return tuple(dict.fromkeys(agent for each in self._plans.values() for agent in each.fusion.agents))

    @property
    def fusion(self) -> Fusion:
        """That of the newest plan."""
        return list(self._plans.values())[-1].fusion

    def fusion_of(self, plan: str) -> Fusion:
        """That of a plan by its id."""
        return self._plans[plan[:SHORT]].fusion

    def admit(self, seals: Mapping[str, Seal]) -> None:
        """Listen to further agents, which a new plan may have.

        seals: agent -> its seal.
        """
        self._intake.admit(seals)

    def take_up(self, document: bytes, path: Path) -> bool:
        """Take messages of another plan too, by its centre file; whether it was new.

        Messages of plans taken up before are taken as before, and fused by those.
        """
        model = centre_from_bytes(document, path)
        if not model.plan:
            raise InvalidPlan(
                f"{path}: expected the centre's file of a saved plan, found one without a plan's id"
            )
        known = self._plans.get(model.plan[:SHORT])
        if known is not None:
            if known.plan != model.plan:
                raise InvalidPlan(f"{path}: its id begins like that of another plan; design it again")
            return False
        for plan in self._plans.values():
            before = plan.fusion.model.step
            if before is not None and model.step is not None and not same_step(before, model.step):
                raise InvalidPlan(
                    f"{path}: its epochs take {in_words(model.step)}, those in {self.store.path} "
                    f"{in_words(before)}, and are told apart by their numbers alone; begin another store (--out)"
                )
        stored = self.store.take_up(model.plan, model.agents, document)
        self._open(stored.number, stored.plan, stored.document)
        return True

    def _open(self, number: int, plan: str, document: bytes) -> None:
        model = centre_from_bytes(document, self.store.path)
        gate = None if isinstance(model, SumModel) else self._gate
        fusion = Fusion(model, gate=gate, keep=self._keep and gate is not None)
        now = time.monotonic()
        made = next((each for each in self._estimators() if each.join(fusion, number, now)), None)
        made = made or estimator(fusion, number, self.store, self._wait, now)
        self._plans[plan[:SHORT]] = _Plan(number, plan, fusion, made)
        self._sent[plan[:SHORT]] = fusion.sent

    def take(self, arrived: Sequence[tuple[str, bytes]], now: float | None = None) -> Taken:
        """Commit what arrived, as (topic, payload), and the estimates whose time has come.

        now: a clock that never goes back, that deadlines are measured by.
        """
        now = time.monotonic() if now is None else now
        if not arrived and not self.is_due(now):
            return Taken()
        taken = Taken()
        kept: dict[tuple[str, bytes], list[int]] = {}
        never: dict[tuple[str, bytes], list[tuple[int, str]]] = {}
        with self.store.batch:
            for topic, payload in arrived:
                found = self._intake.look(topic, payload)
                if not isinstance(found, Accepted):
                    self.store.count(found.agent, found.reason)
                    taken.refused += 1
                    if found.message is not None:
                        whose = found.agent, found.message.store
                        never.setdefault(whose, []).append((found.message.sequence, found.reason))
                    continue
                message = found.message
                plan = self._plans[message.plan]
                whose = message.agent, message.store
                how = self.store.add(message, plan.number)
                if how == "conflict":
                    self.store.count(message.agent, how)
                    taken.refused += 1
                    never.setdefault(whose, []).append((message.sequence, how))
                    continue
                kept.setdefault(whose, []).append(message.sequence)
                if how == "duplicate":
                    self.store.count(message.agent, how)
                    taken.duplicates += 1
                    continue
                taken.new += 1
                problem = plan.estimator.tell(message, found.values, now)
                if problem:
                    self.store.count(message.agent, problem)
            taken.estimates = self._estimates(now)
            self.store.note()
        for whose in dict.fromkeys([*kept, *never]):
            agent, store = whose
            receipt = Receipt(store, as_ranges(kept.get(whose, [])), never.get(whose, []))
            taken.receipts.append((agent, receipt))
        return taken

    def _estimates(self, now: float) -> list[Estimated]:
        found = []
        names = {each.number: each.plan for each in self._plans.values()}
        for each in self._estimators():
            for made in each.due(now):
                revision = self.store.add_estimate(made.plan, made.epoch, made.told, made.estimate)
                found.append(Estimated(made.epoch, names[made.plan], revision, made.estimate))
        return found

    def _estimators(self) -> list[Estimator]:
        """One for all plans whose messages can be fused together."""
        return list(dict.fromkeys(each.estimator for each in self._plans.values()))

    def is_due(self, now: float) -> bool:
        """Whether some estimate's deadline has passed."""
        deadline = self.next_deadline()
        return deadline is not None and now >= deadline

    def next_deadline(self) -> float | None:
        """When the next estimate is due at the latest, by the clock of :meth:`take`; None for none."""
        found = [each.next_deadline() for each in self._estimators()]
        return min((each for each in found if each is not None), default=None)
