"""An estimate for every epoch, from whatever arrived by its deadline; what comes late revises it.

The deadline of an epoch is a wait after the first message of it arrived: clocks of agents and centre need not agree.
Where all agents have told, whether numbers or that their reading was missed, nothing is waited for. Each estimate is
one call of :class:`veilnet.Fusion`, so that it has the bits that the same call has anywhere else.
"""

from __future__ import annotations

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
        """Take in a message that is in the store; "late" where it can change no estimate any more, else nothing."""

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
        self._model, self._plan, self._store, self._wait = fusion.model, plan, store, wait
        self._senders = [agent for agent, size in fusion.sent.items() if size > 0]
        self._begin(now)

    def _begin(self, now: float) -> None:
        """All that the store holds, as if it had come in time."""
        self._fusion = Fusion(self._model)
        self._rows: dict[int, dict[str, Array | None]] = {}  # epochs that are not estimated yet
        self._deadlines: dict[int, float] = {}
        self._start = self._newest = 0  # the first epoch, and the last one that was estimated
        estimated = self._store.newest_estimate(self._plan)
        heads = {agent: self._store.all_told(self._plan, agent) for agent in self._senders}
        nexts = {agent: next(told, None) for agent, told in heads.items()}
        firsts = [each[0] for each in nexts.values() if each is not None]
        if not firsts:
            return
        self._start = min(firsts)
        self._newest = self._start - 1
        epoch = self._start
        while any(each is not None for each in nexts.values()):
            if min(each[0] for each in nexts.values() if each is not None) - epoch > _LONGEST_GAP:
                break  # as in tell: an epoch that far ahead is somebody's mistake
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

    def tell(self, message: Message, values: Array | None, now: float) -> str:
        """Take in a message that is in the store, and what it says of the epochs before."""
        if self._start and message.epoch < self._start:
            self._begin(now)
            return ""
        if not self._start:
            self._start, self._newest = message.epoch, message.epoch - 1
        if message.epoch - self._newest > _LONGEST_GAP:
            return "far"
        problem = ""
        for epoch in range(max(message.after + 1, self._start), message.epoch):
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
