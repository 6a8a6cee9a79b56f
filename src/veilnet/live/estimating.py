"""An estimate for every epoch, from whatever arrived by its deadline; what comes late revises it.

The deadline of an epoch is a wait after the first message of it arrived: clocks of agents and centre need not agree.
Where all agents have told, whether numbers or that their reading was missed, nothing is waited for. Each estimate is
one call of :class:`veilnet.Fusion`, so that it has the bits that the same call has anywhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from veilnet._core.errors import InvalidReading
from veilnet._core.types import Array
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion
from veilnet.centre.mixing import can_mix, mixed
from veilnet.centre.models import Messages
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.live.centre_store import CentreStore
from veilnet.live.messages import Message

__all__ = ["Estimator", "Made", "estimator"]

_HISTORY = 64  # rows back that a late message may change
_MIXTURES = 16  # ways of agents to go by several plans whose fusions are kept
_LONGEST_GAP = 100_000  # rows of a stream of which nobody heard


@dataclass(frozen=True, eq=False)
class Made:
    """An estimate of an epoch, under which plan, and how many agents had told when it was made."""

    epoch: int
    plan: int
    told: int
    estimate: Estimate


class Estimator(Protocol):
    """What makes estimates of the messages of one plan."""

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store; "late" or "far" where it can change no estimate, else nothing."""

    def join(self, fusion: Fusion, plan: int, now: float) -> bool:
        """Take messages of another plan too; whether that can be."""

    def due(self, now: float) -> Iterator[Made]:
        """The estimates whose time has come."""

    def next_deadline(self) -> float | None:
        """When something is due at the latest; None where nothing is waited for."""


def estimator(fusion: Fusion, plan: int, store: CentreStore, wait: float, now: float) -> Estimator:
    """The estimator of a plan, as far as what the store holds.

    wait: seconds from the first message of an epoch to its deadline. now: the clock that deadlines are measured by.
    """
    kind = StreamEstimator if fusion.is_stream else RowEstimator
    return kind(fusion, plan, store, wait, now)


def _senders(fusion: Fusion) -> tuple[str, ...]:
    """The agents that send anything."""
    return tuple(agent for agent, size in fusion.sent.items() if size > 0)


def _remembering(model: Messages) -> frozenset[str]:
    """The agents of a stream that keep a memory, whose messages say which epochs entered it."""
    if isinstance(model, SumModel):
        return frozenset(agent for agent, tells in zip(model.agents, model.telling, strict=True) if not tells)
    return frozenset(model.memories if isinstance(model, StreamModel) else ())


class RowEstimator:
    """Epochs that have nothing to do with one another, by one plan, or by several whose messages can be mixed."""

    def __init__(self, fusion: Fusion, plan: int, store: CentreStore, wait: float, now: float) -> None:
        self._store, self._wait = store, wait
        self._fusions: dict[int, Fusion] = {}
        self._senders: dict[int, tuple[str, ...]] = {}
        self._mixed: dict[tuple[int, ...], Fusion] = {}
        self._waiting: dict[int, list[float]] = {}  # epoch -> [deadline, how many told]; the oldest first
        self.join(fusion, plan, now)

    def join(self, fusion: Fusion, plan: int, now: float) -> bool:
        """Take messages of another plan too; whether they can be fused with those there are."""
        if not all(can_mix(fusion.model, each.model) for each in self._fusions.values()):
            return False
        self._fusions[plan] = fusion
        self._senders[plan] = _senders(fusion)
        self._mixed.clear()
        before, self._waiting = self._waiting, {}
        for epoch in self._store.unestimated(self._fusions):
            deadline = before[epoch][0] if epoch in before else now + self._wait
            self._waiting[epoch] = [deadline, float(len(self._store.told(self._fusions, epoch)))]
        return True

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store."""
        del values  # it is read from the store with the others of its epoch
        found = self._waiting.get(message.epoch)
        if found is None:
            told = float(len(self._store.told(self._fusions, message.epoch)))
            self._waiting[message.epoch] = [now + self._wait, told]
        else:
            found[1] += 1
        return ""

    def due(self, now: float) -> Iterator[Made]:
        """The estimates of epochs that are complete, or whose deadline has passed."""
        least = min(map(len, self._senders.values()))
        ready = [epoch for epoch, (end, told) in self._waiting.items() if told >= least or now >= end]
        for epoch in ready:
            told = self._store.told(self._fusions, epoch)
            plans = {plan for plan, _ in told.values()}
            if now < self._waiting[epoch][0] and not self._complete(told, max(plans)):
                continue
            del self._waiting[epoch]
            sent = {agent: values for agent, (_, values) in told.items() if values is not None}
            under = self._store.estimated_under(self._fusions, epoch) or max(plans)
            yield Made(epoch, under, len(told), self._fusion_of(told, plans).estimate(sent))

    def _complete(self, told: Mapping[str, tuple[int, Array | None]], newest: int) -> bool:
        """Whether all have told who send by the newest plan that anybody went by."""
        return all(agent in told for agent in self._senders[newest])

    def _fusion_of(self, told: Mapping[str, tuple[int, Array | None]], plans: set[int]) -> Fusion:
        """The fusion in which each agent's rows are those of the plan it went by."""
        newest = self._fusions[max(plans)]
        if len(plans) == 1:
            return newest
        chosen = tuple(told[agent][0] if agent in told else max(plans) for agent in newest.agents)
        if chosen not in self._mixed:
            if len(self._mixed) >= _MIXTURES:
                self._mixed.clear()
            model = mixed([self._fusions[plan].model for plan in chosen])
            gate = None if newest.gate is None else newest.gate.rate
            self._mixed[chosen] = Fusion(model, gate=gate, keep=newest.keep)
        return self._mixed[chosen]

    def next_deadline(self) -> float | None:
        """When something is due at the latest."""
        return min((deadline for deadline, _ in self._waiting.values()), default=None)


class StreamEstimator:
    """Epochs that follow one another: the centre filters, row after row from the first epoch that anybody told."""

    def __init__(self, fusion: Fusion, plan: int, store: CentreStore, wait: float, now: float) -> None:
        self._made_as, self._plan, self._store, self._wait = fusion, plan, store, wait
        self._senders = _senders(fusion)
        self._remembering = _remembering(fusion.model)
        self._begin(now)

    def join(self, fusion: Fusion, plan: int, now: float) -> bool:
        """Never: what agents remember by one plan is nothing to another."""
        del fusion, plan, now
        return False

    def _begin(self, now: float) -> None:
        """All that the store holds, as if it had come in time."""
        made = self._made_as
        gate = None if made.gate is None else made.gate.rate
        self._fusion = Fusion(made.model, gate=gate, keep=made.keep, history=_HISTORY)
        self._rows: dict[int, dict[str, Array | None]] = {}  # epochs that are not estimated yet
        self._deadlines: dict[int, float] = {}
        self._start = self._newest = 0  # the first epoch, and the last one that was estimated
        self._told = self._store.newest_told(self._plan)  # agent -> its last epoch
        if not self._told:
            return
        first, last = self._where_most_are()
        begun, estimated = self._store.estimated(self._plan, first, last)
        self._start = begun or first
        self._newest = self._start - 1
        heads = {agent: self._store.all_told(self._plan, agent, self._start, last) for agent in self._senders}
        nexts = {agent: next(told, None) for agent, told in heads.items()}
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
            else:
                self._rows[epoch] = row
                self._deadlines[epoch] = now + self._wait
            epoch += 1

    def _where_most_are(self) -> tuple[int, int]:
        """The first and the last epoch of those, without a long gap, in which the agent in the middle is.

        One that is far from all others has a wrong clock, or a false one, and must not decide where rows begin.
        """
        newest = sorted(self._told.values())
        middle = newest[(len(newest) - 1) // 2]
        epochs = self._store.epochs_told(self._plan)
        low = high = bisect_left(epochs, middle)
        while low > 0 and epochs[low] - epochs[low - 1] <= _LONGEST_GAP:
            low -= 1
        while high + 1 < len(epochs) and epochs[high + 1] - epochs[high] <= _LONGEST_GAP:
            high += 1
        return epochs[low], epochs[high]

    def _most_are_near(self, epoch: int) -> bool:
        near = sum(abs(each - epoch) <= _LONGEST_GAP for each in self._told.values())
        return 2 * near > len(self._told)

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store, and what it says of the epochs before."""
        self._told[message.agent] = max(message.epoch, self._told.get(message.agent, 0))
        if not self._start:
            self._start, self._newest = message.epoch, message.epoch - 1
        if not self._start - _LONGEST_GAP <= message.epoch <= self._newest + _LONGEST_GAP:
            if not self._most_are_near(message.epoch):
                return "far"
            self._begin(now)
            return ""
        if message.epoch < self._start:
            if self._newest >= self._start:
                return "late"
            self._begin(now)
            return ""
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
            self._deadlines.setdefault(epoch, now + self._wait)
            return ""
        try:
            self._take(epoch, {agent: values})
        except InvalidReading:
            return "late"
        self._revised = True
        return ""

    def due(self, now: float) -> Iterator[Made]:
        """Rows in order, each complete or past the deadline of any row told since; then what was revised."""
        while self._rows:
            epoch = self._newest + 1
            row = self._rows.get(epoch, {})
            if len(row) < len(self._senders) and now < min(self._deadlines.values()):
                break
            self._rows.pop(epoch, None)
            self._deadlines.pop(epoch, None)
            estimate = self._take(epoch, row)
            self._newest, self._revised = epoch, False
            yield Made(epoch, self._plan, len(row), estimate)
        if self._revised:
            self._revised = False
            told = len(self._senders) - len(self._last.missing)
            yield Made(self._newest, self._plan, told, self._last)

    def next_deadline(self) -> float | None:
        """When something is due at the latest."""
        return min(self._deadlines.values(), default=None)

    def _take(self, epoch: int, row: dict[str, Array | None]) -> Estimate:
        sent = {agent: values for agent, values in row.items() if values is not None}
        missed = [agent for agent, values in row.items() if values is None]
        self._last = self._fusion.update(sent, missed=missed, row=epoch - self._start + 1)
        return self._last

    _revised = False
    _last: Estimate
