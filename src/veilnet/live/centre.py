"""The centre, without a network: from what arrived to what is committed, acknowledged and estimated.

:meth:`Centre.take` commits a batch of what arrived, and only then says what may be acknowledged. It never raises for
what somebody sent: that is refused and counted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from veilnet._core.durations import duration_in_words, same_step
from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet._core.types import Array
from veilnet.io.agent_store import STORE_BYTES
from veilnet.live.centre_store import CentreStore
from veilnet.live.epochs import Epochs, epochs_of, farthest
from veilnet.live.estimating import Estimator, MadeEstimate, RowEstimator, StreamEstimator, quorum_of
from veilnet.live.fusions import (
    AnyFusion,
    LiveEstimate,
    SymbolFusion,
    SymbolWatch,
    fusion_of,
    restored,
    senders,
    sums_of,
)
from veilnet.live.halves_desk import HalvesDesk
from veilnet.live.intake import DRIFT, Intake, TakenMessage
from veilnet.live.messages import SHORT, Malformed, Message, Receipt, Seal, as_ranges
from veilnet.live.sum_desk import Desk, EndedSum, SumDesk
from veilnet.live.topics import SECOND, Topics
from veilnet.sums.terms import FromAgent, SumRefused, Terms, read_message, written_message

USUAL_GATE = 1e-6
_QUIET = 3  # epochs without a word of any agent: what is known is old
_SHARE = 1.0  # seconds of a batch that estimates may take: senders are answered in between


@dataclass(frozen=True, eq=False)
class Estimated:
    """An estimate that is committed: of an epoch, by a plan, in its last revision so far (0 is the first).

    current: whether it is for readers: its epoch is near the centre's clock or, where epochs are rows, not far ahead
             of most agents.
    newest:  whether no later epoch was estimated; what is not the newest stands in the history.
    drifted: agents whose symbols have another law than the counted one: what the plan promises is void.
    """

    epoch: int
    plan: str
    revision: int
    estimate: LiveEstimate
    current: bool = True
    newest: bool = True
    drifted: tuple[str, ...] = ()


@dataclass
class Taken:
    """What came of a batch.

    receipts:  (agent, receipt) to be sent: everything in them is on the disk.
    estimates: made since the last batch.
    rounds:    (agent, its message in the rounds of a sum), sealed.
    ended:     epochs of sums that are over.
    new, duplicates, refused: how many there were of each.
    """

    receipts: list[tuple[str, Receipt]] = field(default_factory=list)
    estimates: list[Estimated] = field(default_factory=list)
    rounds: list[tuple[str, bytes]] = field(default_factory=list)
    ended: list[EndedSum] = field(default_factory=list)
    new: int = 0
    duplicates: int = 0
    refused: int = 0


@dataclass(frozen=True, eq=False)
class _Plan:
    number: int
    plan: str
    fusion: AnyFusion
    estimator: Estimator
    watch: SymbolWatch | None
    desk: Desk | None


class Centre:
    """Takes in messages under one or more plans, and estimates.

    store:    where everything is kept; plans that it has already go on.
    seals:    agent -> its seal.
    topics:   where agents send.
    wait:     seconds that an epoch waits for agents after its first message.
    gate:     false-alarm rate of the test against the model, None for none.
    keep:     name messages that contradict the model, and use them all the same.
    quorum:   how many agents have to tell an epoch; more than half of those who send when left out.
    step:     how long an epoch is, in words, where plans do not say so.
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
        quorum: int | None = None,
        step: str | None = None,
    ) -> None:
        if not wait >= 0:
            raise InvalidRequest(f"--wait: expected a number of seconds, found {wait!r}")
        self.store = store
        self._wait, self._gate, self._keep, self._quorum = wait, gate, keep, quorum
        self._step, self.epochs = step, Epochs()
        self._behind = False  # whether estimates that are due were left for the next batch
        self._plans: dict[str, _Plan] = {}
        self._sent: dict[str, dict[str, int]] = {}
        self._symbols: dict[str, dict[str, int]] = {}
        self._intake = Intake(seals, self._sent, topics, self._symbols)
        self._topics, self._members = topics, dict[str, tuple[str, Seal]]()
        self._members_of(seals)
        for stored in store.plans():
            self._open(stored.number, stored.plan, stored.document)
            self._go_by(stored.plan)
        self._newest = store.newest_estimate(self._farthest())

    @property
    def plan(self) -> str:
        """The id of the plan that counts: the one taken up last."""
        return self._plans[self._current].plan

    @property
    def plans(self) -> tuple[str, ...]:
        """The ids of all plans whose messages are taken, the newest last."""
        return tuple(each.plan for each in self._plans.values())

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of all these plans."""
        return tuple(dict.fromkeys(agent for each in self._plans.values() for agent in senders(each.fusion)))

    @property
    def fusion(self) -> AnyFusion:
        """That of the plan that counts."""
        return self._plans[self._current].fusion

    def admit(self, seals: Mapping[str, Seal]) -> None:
        """Listen to further agents, which a new plan may have.

        seals: agent -> its seal.
        """
        self._intake.admit(seals)
        self._members_of(seals)

    def _members_of(self, seals: Mapping[str, Seal]) -> None:
        self._members |= {self._topics.sums(agent): (agent, seal) for agent, seal in seals.items()}

    def take_up(self, document: bytes, path: Path) -> bool:
        """Take messages of another plan too, by its centre file; whether it was new.

        Messages of plans taken up before are fused by those, as before, but only from agents that send by this one.
        """
        fusion = fusion_of(document, path)
        model = fusion.model
        epochs = epochs_of(self._step, model.step)
        if not model.plan:
            raise InvalidPlan(
                f"{path}: expected the centre's file of a saved plan, found one without a plan's id"
            )
        senders = sum(size > 0 for size in fusion.sent.values())
        if self._quorum is not None and not 1 <= self._quorum <= senders:
            raise InvalidRequest(
                f"--quorum: expected 1 to {senders}, the agents that send by {path}, found {self._quorum}"
            )
        known = self._plans.get(model.plan[:SHORT])
        if known is not None:
            if known.plan != model.plan:
                raise InvalidPlan(f"{path}: its id begins like that of another plan; design it again")
            self._go_by(model.plan)
            self.epochs = epochs
            return False
        for plan in self._plans.values():
            before = plan.fusion.model.step
            if before is not None and model.step is not None and not same_step(before, model.step):
                raise InvalidPlan(
                    f"{path}: its epochs take {duration_in_words(model.step)}, those in {self.store.path} "
                    f"{duration_in_words(before)}, and epochs are known by number alone; begin another store (--out)"
                )
        stored = self.store.take_up(model.plan, model.agents, document)
        self._open(stored.number, stored.plan, stored.document)
        self._go_by(model.plan)
        self.epochs = epochs
        return True

    def _go_by(self, plan: str) -> None:
        """Listen to those who send by a plan, and to nobody else."""
        self._current = plan[:SHORT]
        self._intake.heard = frozenset(agent for agent, size in self.fusion.sent.items() if size)
        for each in self._estimators():
            each.least = quorum_of(self.fusion, self._quorum)

    def _open(self, number: int, plan: str, document: bytes) -> None:
        fusion = fusion_of(document, self.store.path, gate=self._gate, keep=self._keep)
        now = time.monotonic()
        made = next((each for each in self._estimators() if each.join(fusion, number, now)), None)
        if made is None:
            kind = StreamEstimator if fusion.is_stream else RowEstimator
            made = kind(fusion, number, self.store, self._wait, now, self._quorum)
        watch, desk = None, None
        self._sent[plan[:SHORT]] = fusion.sent
        if sums_of(fusion):
            desk = self._new_desk(plan[:SHORT], fusion)
            alone = {agent: size for agent, size in fusion.sent.items() if agent not in sums_of(fusion)}
            self._sent[plan[:SHORT]] = alone  # members send no bare message
        if isinstance(fusion, SymbolFusion):
            watch, self._symbols[plan[:SHORT]] = SymbolWatch(fusion), fusion.centre.agents
        self._plans[plan[:SHORT]] = _Plan(number, plan, fusion, made, watch, desk)

    def _new_desk(self, plan: str, fusion: AnyFusion) -> Desk:
        """Where sums are added up: by rounds, or, where there is a second centre, by halves."""
        if self._topics.sums(SECOND) not in self._members:
            return SumDesk(plan, sums_of(fusion), self._wait)
        if fusion.is_stream:
            raise InvalidPlan(
                "keys: sums of a stream are added up in rounds, whose members tell which rows they remember; found "
                "keys for a second centre: make a folder of keys without one"
            )

        def key_of(terms: Terms, agent: str) -> bytes:
            return self._members[self._topics.sums(agent)][1].half_key(terms.digest)

        return HalvesDesk(plan, sums_of(fusion), self._wait, key_of)

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
        clock = time.time()
        with self.store.batch:
            for topic, payload in arrived:
                if topic in self._members:
                    taken.refused += not self._hear(*self._members[topic], payload, now)
                    continue
                found = self._intake.look(topic, payload)
                if not isinstance(found, TakenMessage):
                    self.store.count(found.agent, found.reason)
                    taken.refused += 1
                    if found.message is not None:
                        whose = found.agent, found.message.store
                        never.setdefault(whose, []).append((found.message.sequence, found.reason))
                    continue
                message = found.message
                plan = self._plans[message.plan]
                whose = message.agent, message.store
                early = self.epochs.is_ahead(message.epoch, clock)
                how = self.store.add(message, plan.number, early=early)
                if how in ("conflict", "old"):
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
                problem = "far" if early else plan.estimator.tell(message, found.values, now)
                if problem:
                    self.store.count(message.agent, problem)
                if plan.watch is not None and not early and plan.watch.tell(message.agent, found.values):
                    self.store.count(message.agent, f"{DRIFT}{message.plan}")
            self._add_up(taken, now)
            taken.estimates = self._estimates(now, clock)
            self.store.note()
        for whose in dict.fromkeys([*kept, *never]):
            agent, store = whose
            receipt = Receipt(store, as_ranges(kept.get(whose, [])), never.get(whose, []))
            taken.receipts.append((agent, receipt))
        return taken

    def _hear(self, agent: str, seal: Seal, payload: bytes, now: float) -> bool:
        """Take in a member's part in the rounds of a sum; whether it belongs there."""
        desk = self._plans[self._current].desk
        try:
            message = read_message(seal.open_round(payload, by_agent=True))
            if desk is None or not isinstance(message, FromAgent):
                raise SumRefused("there is no sum to take part in")
            desk.take(agent, message, now)
        except Malformed as error:
            self.store.count(agent, str(error))
        except VeilnetError:
            self.store.count(agent, "round")
        else:
            return True
        return False

    def _add_up(self, taken: Taken, now: float) -> None:
        """Bring the rounds of sums forward; one that is open is kept as the message of its group."""
        plan = self._plans[self._current]
        if plan.desk is None:
            return
        plan.desk.advance(now)
        taken.ended = plan.desk.ended()
        for each in taken.ended:
            if each.values is None:
                continue
            newest = self.store.newest.get(each.group, 0)
            if newest and each.since > 1:  # members' memories began anew then: the row before was missed
                self._add_sum(plan, each.group, each.since - 1, None, min(newest, each.since - 2), now)
            begins = each.since == each.epoch and not newest
            self._add_sum(plan, each.group, each.epoch, each.values, 0 if begins else each.epoch - 1, now)
        seals = dict(self._members.values())
        taken.rounds = [
            (agent, seals[agent].round(written_message(message), by_agent=False))
            for agent, message in plan.desk.outgoing()
            if agent in seals
        ]

    def _add_sum(
        self, plan: _Plan, group: str, epoch: int, values: Array | None, after: int, now: float
    ) -> None:
        """Keep a sum as the message of its group, None for a row that was missed."""
        numbers = None if values is None else values.astype("<f8").tobytes()
        sent = Message(plan.plan[:SHORT], group, bytes(STORE_BYTES), epoch, epoch, after, values=numbers)
        if self.store.add(sent, plan.number) == "new":
            plan.estimator.tell(sent, values, now)

    def _estimates(self, now: float, clock: float) -> list[Estimated]:
        names = {each.number: each.plan for each in self._plans.values()}
        until, made = time.monotonic() + _SHARE, list[MadeEstimate]()
        self._behind = False
        for each in chain.from_iterable(one.due(now) for one in self._estimators()):
            made.append(each)
            if time.monotonic() > until:
                self._behind = True
                break
        return [self._committed(each, names[each.plan], clock) for each in made]

    def _committed(self, made: MadeEstimate, plan: str, clock: float) -> Estimated:
        revision = self.store.add_estimate(made.plan, made.epoch, made.heard, made.estimate)
        current = self._is_current(made.epoch, clock)
        newest = current and (made.epoch >= self._newest or self._newest > self._farthest())
        self._newest = made.epoch if newest else self._newest
        return Estimated(made.epoch, plan, revision, made.estimate, current, newest, self.drifted(plan))

    def kept(self, first: int, last: int) -> Iterator[Estimated]:
        """The estimates of the epochs in between, as they were made; none of them is the newest any more."""
        plans = {each.number: each for each in self._plans.values()}
        for epoch, number, revision, public, covariance, missing, doubted in self.store.latest(first, last):
            plan = plans[number]
            made = restored(plan.fusion, public, covariance, missing, doubted)
            yield Estimated(epoch, plan.plan, revision, made, newest=False, drifted=self.drifted(plan.plan))

    def unsaid(
        self, which: Collection[tuple[str, int, int]], published: tuple[str, int, int] | None
    ) -> list[Estimated]:
        """Estimates that were made and not published; the newest is the newest.

        which:     (plan, epoch, revision) of those that a centre before this one was going to publish.
        published: of the newest that readers have; None for none, and they get the newest alone. A centre that was
                   killed after a commit left the later ones unpublished.
        """
        said, clock = (self._newest, -1) if published is None else published[1:], time.time()
        epochs = [said[0], self._newest, *(epoch for _, epoch, _ in which)]
        later = [
            each
            for each in self.kept(min(epochs), max(epochs))
            if (each.plan, each.epoch, each.revision) in which
            or (self._is_current(each.epoch, clock) and said < (each.epoch, each.revision))
        ]
        return [replace(each, newest=each.epoch == self._newest) for each in later]

    def sum_of(self, made: Estimated) -> dict[str, Any]:
        """What an estimate of rows was made of, added up, for somebody who merges several centres'."""
        estimator = self._plans[made.plan[:SHORT]].estimator
        assert isinstance(estimator, RowEstimator)
        return estimator.sum_of(made.epoch, made.estimate)

    @property
    def quiet(self) -> float | None:
        """Seconds without a word of any agent after which what is known is old; None where epochs are rows."""
        step = self.epochs.step
        return None if step is None else _QUIET * step + self._wait

    def is_heard(self, clock: float) -> bool:
        """Whether any agent was heard lately."""
        return self.quiet is None or clock - self.store.last_heard <= self.quiet

    def drifted(self, plan: str) -> tuple[str, ...]:
        """Agents of a plan of symbols whose law was found to be another than the one that was counted."""
        return tuple(agent for agent in self.agents if self.store.counts[agent, f"{DRIFT}{plan[:SHORT]}"])

    def _is_current(self, epoch: int, clock: float) -> bool:
        if self.epochs.start(epoch) is not None:
            return self.epochs.is_current(epoch, clock)
        return epoch <= self._farthest()

    def _farthest(self) -> int:
        """The last epoch that is not far ahead of most agents that send by the plan that counts."""
        newest = self.store.newest.items()
        return farthest([epoch for agent, epoch in newest if agent in self._intake.heard])

    def _estimators(self) -> list[Estimator]:
        """One for all plans whose messages can be fused together."""
        return list(dict.fromkeys(each.estimator for each in self._plans.values()))

    def is_due(self, now: float) -> bool:
        """Whether some estimate's deadline has passed."""
        deadline = self.next_deadline()
        return self._behind or (deadline is not None and now >= deadline)

    def next_deadline(self) -> float | None:
        """When the next estimate is due at the latest, by the clock of :meth:`take`; None for none."""
        found = [each.next_deadline() for each in self._estimators()]
        found += [each.desk.next_deadline() for each in self._plans.values() if each.desk is not None]
        return min((each for each in found if each is not None), default=None)
