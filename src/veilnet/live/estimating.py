"""An estimate for every epoch that a quorum reported, from what arrived by its deadline; what comes late revises it.

The deadline of an epoch is a wait after the first message of it arrived, of a stream after a quorum got there: clocks
of agents and centre need not agree. Where all agents have reported, whether numbers or that their reading was missed,
nothing is waited for. Each estimate is one call of the plan's fusion (:mod:`veilnet.live.fusions`), so that it
has the bits that the same call has anywhere else.

A stolen agent can tell epochs that nobody else tells, where there is nothing to test its messages against. So nothing
is estimated that fewer than a quorum reported, nor by one agent alone that the gate cannot judge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from veilnet._core.errors import InvalidReading
from veilnet._core.missed import LONGEST_GAP
from veilnet._core.types import Array
from veilnet.centre.fusion import Fusion
from veilnet.centre.gate import Gate
from veilnet.centre.messages import CentreModel
from veilnet.centre.models import Messages, can_mix, mixed, same_messages
from veilnet.centre.partial_sums import partial_sum
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.live.centre_store import CentreStore
from veilnet.live.epochs import middle
from veilnet.live.fusions import AnyFusion, LiveEstimate, estimated, sums_of
from veilnet.live.messages import Message

_HISTORY = 64  # rows back that a late message may change
_ROWS_BEFORE = 1000  # after which a memory is as usual, whatever it was
_MIXTURES = 16  # ways of agents to go by several plans whose fusions are kept


@dataclass(frozen=True, eq=False)
class MadeEstimate:
    """An estimate of an epoch, under which plan, and how many agents had reported when it was made."""

    epoch: int
    plan: int
    heard: int
    estimate: LiveEstimate


def quorum_of(fusion: AnyFusion, asked: int | None) -> int:
    """More than half of those who send, unless another number is asked for; a sum is that of many already."""
    senders = len(_senders(fusion))
    usual = 1 if sums_of(fusion) else senders // 2 + 1
    return usual if asked is None else min(asked, senders)


def _senders(fusion: AnyFusion) -> tuple[str, ...]:
    """The agents that send anything."""
    return tuple(agent for agent, size in fusion.sent.items() if size > 0)


def _identical(one: Messages, other: Messages) -> bool:
    """Whether two models of a stream are the same to the last bit, so that agents' memories are too."""
    return not isinstance(one, CentreModel) and same_messages(one, other, exactly=True)


def _remembering(model: Messages) -> frozenset[str]:
    """The agents of a stream that keep a memory, whose messages say which epochs entered it."""
    if isinstance(model, SumModel):
        return frozenset(agent for agent, tells in zip(model.agents, model.telling, strict=True) if not tells)
    return frozenset(model.memories if isinstance(model, StreamModel) else ())


@dataclass
class _Waiting:
    """An epoch until its deadline: how many reported it, and who did since it is waited for."""

    deadline: float
    heard: int
    came: list[str] = field(default_factory=list)


class RowEstimator:
    """Epochs that have nothing to do with one another, by one plan, or by several whose messages can be mixed.

    wait:   seconds from the first message of an epoch to its deadline. now: the clock that deadlines are measured by.
    quorum: how many agents have to tell an epoch; more than half of those who send when left out.
    least:  how many besides, the quorum of the plan that counts: by an earlier one, of fewer agents, fewer must not
            speak for the network.
    """

    least = 1

    def __init__(
        self, fusion: AnyFusion, plan: int, store: CentreStore, wait: float, now: float, quorum: int | None
    ) -> None:
        self._store, self._wait, self._asked = store, wait, quorum
        self._fusions: dict[int, AnyFusion] = {}
        self._senders: dict[int, tuple[str, ...]] = {}
        self._mixed: dict[tuple[int, ...], Fusion] = {}
        self._waiting: dict[int, _Waiting] = {}  # by epoch, the oldest first
        self.join(fusion, plan, now)

    def join(self, fusion: AnyFusion, plan: int, now: float) -> bool:
        """Take messages of another plan too; whether they can be fused with those there are."""
        if not all(can_mix(fusion.model, each.model) for each in self._fusions.values()):
            return False
        self._fusions[plan] = fusion
        self._senders[plan] = _senders(fusion)
        self._mixed.clear()
        for epoch in self._store.unestimated(self._fusions, min(map(self._quorum, self._fusions))):
            heard = len(self._store.reports(self._fusions, epoch))
            self._waiting.setdefault(epoch, _Waiting(now + self._wait, heard)).heard = heard
        return True

    def _quorum(self, plan: int) -> int:
        return max(self.least, quorum_of(self._fusions[plan], self._asked))

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store; "far" or "late" where it can change no estimate, else nothing."""
        del values  # it is read from the store with the others of its epoch
        found = self._waiting.get(message.epoch)
        if found is None:
            heard = len(self._store.reports(self._fusions, message.epoch))
            found = self._waiting[message.epoch] = _Waiting(now + self._wait, heard)
        else:
            found.heard += 1
        found.came.append(message.agent)
        return ""

    def due(self, now: float) -> Iterator[MadeEstimate]:
        """The estimates of epochs that are complete, or whose deadline has passed."""
        least = min(map(len, self._senders.values()))
        ready = [
            epoch for epoch, each in self._waiting.items() if each.heard >= least or now >= each.deadline
        ]
        for epoch in ready:
            reports = self._store.reports(self._fusions, epoch)
            plans = {plan for plan, _ in reports.values()}
            if now < self._waiting[epoch].deadline and not self._complete(reports, max(plans)):
                continue
            waited = self._waiting.pop(epoch)
            estimate = self._estimate(reports, plans)
            if estimate is None:  # another message makes it wait again
                for agent in waited.came:
                    self._store.count(agent, "few")
                continue
            under = self._store.estimated_under(self._fusions, epoch) or max(plans)
            yield MadeEstimate(epoch, under, len(reports), estimate)

    def _estimate(
        self, reports: Mapping[str, tuple[int, Array | None]], plans: Collection[int]
    ) -> LiveEstimate | None:
        """The estimate of an epoch; None where too few reported it, or one of several alone that nothing judges."""
        newest = max(plans)
        if len(reports) < self._quorum(newest):
            return None
        fusion = self._fusion_of(reports, plans)
        sent = {agent: values for agent, (_, values) in reports.items() if values is not None}
        estimate = estimated(fusion, sent)
        used = set(sent) if fusion.keep else set(sent).difference(estimate.contradicting)
        if len(used) == 1 and len(self._senders[newest]) > 1 and not used & set(sums_of(fusion)):
            judged = isinstance(fusion.gate, Gate) and fusion.gate.judges_alone(*used)
            return estimate if judged else None
        return estimate

    def sum_of(self, epoch: int, estimate: LiveEstimate) -> dict[str, Any]:
        """The sum over the messages that an estimate was made of, in words."""
        reports = self._store.reports(self._fusions, epoch)
        fusion = self._fusion_of(reports, {plan for plan, _ in reports.values()})
        assert isinstance(fusion, Fusion)
        unused = {*estimate.missing, *(() if fusion.keep else estimate.contradicting)}
        sent = {agent: values for agent, (_, values) in reports.items() if agent not in unused}
        total = partial_sum(fusion, {agent: values for agent, values in sent.items() if values is not None})
        return total.as_words(fusion.model.basis)

    def _complete(self, reports: Mapping[str, tuple[int, Array | None]], newest: int) -> bool:
        """Whether all have reported who send by the newest plan that anybody went by."""
        return all(agent in reports for agent in self._senders[newest])

    def _fusion_of(
        self, reports: Mapping[str, tuple[int, Array | None]], plans: Collection[int]
    ) -> AnyFusion:
        """The fusion in which each agent's rows are those of the plan it went by."""
        newest = self._fusions[max(plans)]
        if len(plans) == 1:
            return newest
        chosen = tuple(reports[agent][0] if agent in reports else max(plans) for agent in newest.agents)
        if chosen not in self._mixed:
            if len(self._mixed) >= _MIXTURES:
                self._mixed.clear()
            model = mixed([self._fusions[plan].model for plan in chosen])
            gate = None if newest.gate is None else newest.gate.rate
            self._mixed[chosen] = Fusion(model, gate=gate, keep=newest.keep)
        return self._mixed[chosen]

    def next_deadline(self) -> float | None:
        """When something is due at the latest."""
        return min((each.deadline for each in self._waiting.values()), default=None)


class StreamEstimator:
    """Epochs that follow one another: the centre filters, row after row from the first epoch that any agent reported.

    It goes on to the newest epoch that a quorum has reached, its front: no one agent draws it ahead of the others.
    Rows up to there that fewer reported go through the filter, which counts them as missing, and are not estimated.

    Where another plan says the same of every message, agents' memories go on under it, and so does the filter. Those
    that were there before the first row, of an agent whose first message says so, are not empty then: the filter
    begins so many rows earlier, of which nothing arrived, that what they hold is as usual.
    """

    least = 1

    def __init__(
        self, fusion: AnyFusion, plan: int, store: CentreStore, wait: float, now: float, quorum: int | None
    ) -> None:
        self._made_as, self._plan, self._store, self._wait = fusion, plan, store, wait
        self._plans = {plan}
        self._senders = _senders(fusion)
        judged = fusion.gate is not None  # one alone, by the rows before
        self._own_quorum = max(quorum_of(fusion, quorum), 1 if judged else min(2, len(self._senders)))
        self._remembering = _remembering(fusion.model)
        self._begin(now)

    @property
    def _quorum(self) -> int:
        return max(self.least, self._own_quorum)

    def join(self, fusion: AnyFusion, plan: int, now: float) -> bool:
        """Take messages of another plan too, where it is the same to the last bit, memories included."""
        if not _identical(self._made_as.model, fusion.model):
            return False
        self._plans.add(plan)
        self._plan = plan
        if self._store.newest_reported([plan]):
            self._begin(now)
        return True

    def _begin(self, now: float) -> None:
        """All that the store holds, as if it had come in time."""
        made = self._made_as
        gate = None if made.gate is None else made.gate.rate
        self._fusion = Fusion(made.model, gate=gate, keep=made.keep, history=_HISTORY)
        self._rows: dict[int, dict[str, Array | None]] = {}  # epochs that are not estimated yet
        self._deadlines: dict[int, float] = {}
        self._start = self._newest = 0  # the first epoch, and the last one that went through the filter
        self._lead = 0  # rows of the filter before the first epoch
        self._reported = self._store.newest_reported(self._plans)  # agent -> its last epoch
        self._front = self._beyond = 0  # and how many agents are beyond it
        if not self._reported:
            return
        first, last = self._where_most_are()
        begun, estimated = self._store.estimated(self._plans, first, last)
        self._start = begun or first
        self._newest = self._start - 1
        heads = {
            agent: self._store.reports_of(self._plans, agent, self._start, last) for agent in self._senders
        }
        nexts = {agent: next(reports, None) for agent, reports in heads.items()}
        if any(each is not None and self._held_before(agent, each[1]) for agent, each in nexts.items()):
            self._lead = _ROWS_BEFORE
        epoch = self._start
        while any(each is not None for each in nexts.values()):
            row: dict[str, Array | None] = {}
            for agent, each in nexts.items():
                if each is None:
                    continue
                if each[0] == epoch:
                    row[agent] = each[2]
                    nexts[agent] = next(heads[agent], None)
                elif each[1] < epoch and agent in self._remembering:
                    row[agent] = None
            if epoch <= estimated:
                self._take(epoch, row)
                self._newest = epoch
            elif row:
                self._rows[epoch] = row
            epoch += 1
        self._go_on(now)

    def _held_before(self, agent: str, after: int) -> bool:
        """Whether a message says that its agent's memory holds epochs before the first row."""
        return agent in self._remembering and 0 < after < self._start

    def _is_first(self, message: Message) -> bool:
        """Whether its agent reported no epoch from the first row to this one: another must not start all over."""
        reports = self._store.reports_of(self._plans, message.agent, self._start, message.epoch)
        return next(reports)[0] == message.epoch

    def _go_on(self, now: float) -> None:
        """Find the front, and wait from now on for those who have not reported rows up to there."""
        newest = sorted(self._reported.values(), reverse=True)
        before, self._front = self._front, newest[self._quorum - 1] if len(newest) >= self._quorum else 0
        self._beyond = sum(epoch > self._front for epoch in newest[: self._quorum])
        for epoch in self._rows:
            if before < epoch <= self._front:
                self._deadlines.setdefault(epoch, now + self._wait)

    def _where_most_are(self) -> tuple[int, int]:
        """The first and the last epoch of those, without a long gap, in which the agent in the middle is.

        One that is far from all others has a wrong clock, or a false one, and must not decide where rows begin.
        """
        epochs = self._store.epochs_reported(self._plans)
        low = high = bisect_left(epochs, middle(self._reported.values()))
        while low > 0 and epochs[low] - epochs[low - 1] <= LONGEST_GAP:
            low -= 1
        while high + 1 < len(epochs) and epochs[high + 1] - epochs[high] <= LONGEST_GAP:
            high += 1
        return epochs[low], epochs[high]

    def _most_are_near(self, epoch: int) -> bool:
        near = sum(abs(each - epoch) <= LONGEST_GAP for each in self._reported.values())
        return 2 * near > len(self._reported)

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store, and what it says of the epochs before."""
        before = self._reported.get(message.agent, 0)
        self._reported[message.agent] = max(message.epoch, before)
        self._beyond += before <= self._front < message.epoch
        if not self._start:
            self._start, self._newest = message.epoch, message.epoch - 1
        if not self._start - LONGEST_GAP <= message.epoch <= self._newest + LONGEST_GAP:
            if not self._most_are_near(message.epoch):
                return "far"
            self._begin(now)
            return ""
        if message.epoch < self._start:
            if self._newest >= self._start:
                return "late"
            self._begin(now)
            return ""
        if not self._lead and self._held_before(message.agent, message.after) and self._is_first(message):
            self._begin(now)
            return ""
        if self._beyond >= self._quorum:
            self._go_on(now)
        problem = ""
        changeable = self._newest - _HISTORY
        # what an agent without a memory did not tell may be on its way
        after = message.after if message.agent in self._remembering else message.epoch
        for epoch in range(max(after + 1, self._start, changeable), message.epoch):
            problem = self._note(epoch, message.agent, None, now) or problem
        return self._note(message.epoch, message.agent, values, now) or problem

    def _note(self, epoch: int, agent: str, values: Array | None, now: float) -> str:
        if epoch > self._newest:
            self._rows.setdefault(epoch, {})[agent] = values
            if epoch <= self._front:
                self._deadlines.setdefault(epoch, now + self._wait)
            return ""
        try:
            self._take(epoch, {agent: values})
        except InvalidReading:
            return "late"
        self._reported_newest += epoch == self._newest
        self._revised = True
        return ""

    def due(self, now: float) -> Iterator[MadeEstimate]:
        """Rows in order, each complete or past the deadline of any row reported since; then what was revised."""
        while self._deadlines:
            epoch = self._newest + 1
            row = self._rows.get(epoch, {})
            if len(row) < len(self._senders) and now < min(self._deadlines.values()):
                break
            self._rows.pop(epoch, None)
            self._deadlines.pop(epoch, None)
            estimate = self._take(epoch, row)
            self._newest, self._reported_newest, self._revised = epoch, len(row), False
            if len(row) >= self._quorum:
                yield MadeEstimate(epoch, self._under(epoch), len(row), estimate)
            else:
                for agent in row:
                    self._store.count(agent, "few")
        if self._revised and self._reported_newest >= self._quorum:
            yield MadeEstimate(self._newest, self._under(self._newest), self._reported_newest, self._last)
        self._revised = False

    def _under(self, epoch: int) -> int:
        """The plan that an estimate is kept under: the one it was made under before, or the newest."""
        return self._store.estimated_under(self._plans, epoch) or self._plan

    def next_deadline(self) -> float | None:
        """When something is due at the latest."""
        return min(self._deadlines.values(), default=None)

    def _take(self, epoch: int, row: dict[str, Array | None]) -> LiveEstimate:
        sent = {agent: values for agent, values in row.items() if values is not None}
        missed = [agent for agent, values in row.items() if values is None]
        self._last = self._fusion.update(sent, missed=missed, row=self._lead + epoch - self._start + 1)
        return self._last

    _revised = False
    _reported_newest = 0  # how many reported the newest row
    _last: LiveEstimate


Estimator = RowEstimator | StreamEstimator
