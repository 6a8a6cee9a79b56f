"""An estimate for every epoch, from whatever arrived by its deadline; what comes late revises it.

The deadline of an epoch is a wait after the first message of it arrived: clocks of agents and centre need not agree.
Where all agents have told, whether numbers or that their reading was missed, nothing is waited for. Each estimate is
one call of :class:`veilnet.Fusion`, so that it has the bits that the same call has anywhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from veilnet._core.errors import InvalidReading
from veilnet._core.types import Array
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion
from veilnet.live.centre_store import CentreStore
from veilnet.live.messages import Message

__all__ = ["Estimator", "Made", "estimator"]

_HISTORY = 64  # rows back that a late message may change
_LONGEST_GAP = 100_000  # rows of a stream of which nobody heard


@dataclass(frozen=True, eq=False)
class Made:
    """An estimate of an epoch, and how many agents had told when it was made."""

    epoch: int
    told: int
    estimate: Estimate


class Estimator(Protocol):
    """What makes estimates of the messages of one plan."""

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store; "late" or "far" where it can change no estimate, else nothing."""

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


class RowEstimator:
    """Epochs that have nothing to do with one another."""

    def __init__(self, fusion: Fusion, plan: int, store: CentreStore, wait: float, now: float) -> None:
        self._fusion, self._plan, self._store, self._wait = fusion, plan, store, wait
        self._agents = sum(size > 0 for size in fusion.sent.values())
        self._waiting: dict[int, list[float]] = {}  # epoch -> [deadline, how many told]; the oldest first
        for epoch in store.unestimated(plan):
            self._waiting[epoch] = [now + wait, float(len(store.told(plan, epoch)))]

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store."""
        del values  # it is read from the store with the others of its epoch
        found = self._waiting.get(message.epoch)
        if found is None:
            told = float(len(self._store.told(self._plan, message.epoch)))
            self._waiting[message.epoch] = [now + self._wait, told]
        else:
            found[1] += 1
        return ""

    def due(self, now: float) -> Iterator[Made]:
        """The estimates of epochs that are complete, or whose deadline has passed."""
        ready = [
            epoch
            for epoch, (deadline, told) in self._waiting.items()
            if told >= self._agents or now >= deadline
        ]
        for epoch in ready:
            del self._waiting[epoch]
            told = self._store.told(self._plan, epoch)
            sent = {agent: values for agent, values in told.items() if values is not None}
            yield Made(epoch, len(told), self._fusion.estimate(sent))

    def next_deadline(self) -> float | None:
        """When something is due at the latest."""
        return min((deadline for deadline, _ in self._waiting.values()), default=None)


class StreamEstimator:
    """Epochs that follow one another: the centre filters, row after row from the first epoch that anybody told."""

    def __init__(self, fusion: Fusion, plan: int, store: CentreStore, wait: float, now: float) -> None:
        self._made_as, self._plan, self._store, self._wait = fusion, plan, store, wait
        self._senders = [agent for agent, size in fusion.sent.items() if size > 0]
        self._begin(now)

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
                elif each[1] < epoch:
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
        for epoch in range(max(message.after + 1, self._start, changeable), message.epoch):
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
            yield Made(epoch, len(row), estimate)
        if self._revised:
            self._revised = False
            yield Made(self._newest, len(self._senders) - len(self._last.missing), self._last)

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
