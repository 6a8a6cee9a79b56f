"""The agent, without a network: from a reading to a sealed message in the outbox, each step once.

Everything that may be sent goes through :meth:`LiveAgent.take`: reserve, then draw noise, then keep. Where anything
is in doubt (an epoch that was told before, a clock that went back, a store that cannot be written) it raises, and
nothing is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array
from veilnet.agent.randomness import NoiseSource, SystemNoise
from veilnet.agent.recipe import ROWS_AT_ONCE
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.stream import Stream
from veilnet.live.agent_store import AgentStore, Kept, Reserved
from veilnet.live.messages import MOST_BYTES, SHORT, Message, Seal

__all__ = ["Exhausted", "LiveAgent", "Released", "check_runnable"]


class Exhausted(Exception):
    """The budget is used up: nothing more may be sent."""


@dataclass(frozen=True)
class Released:
    """What came of some readings.

    sent:   how many became messages.
    missed: epoch -> why its reading could not be released; the message says only that it was missed.
    """

    sent: int
    missed: dict[int, str]


def check_runnable(sanitizer: Sanitizer, plan: str) -> None:
    """Refuse what no agent can run: a sanitizer of no plan, and one that has nothing, or too much, to send."""
    if not plan:
        raise InvalidPlan("plan: expected an agent's file of a plan, found a sanitizer saved on its own")
    if sanitizer.sent == 0:
        raise InvalidRequest(
            f"plan: {sanitizer.agent!r} sends nothing under this plan, so there is nothing to run"
        )
    if 8 * sanitizer.sent + 1024 > MOST_BYTES:
        raise InvalidPlan(f"plan: {sanitizer.sent} numbers do not fit into a message of {MOST_BYTES} bytes")


class LiveAgent:
    """One agent under one plan at a time.

    store:     its sequence store.
    seal:      its secret with the centre.
    sanitizer: what it does to readings; ``plan`` the id of the plan that says so.
    noise:     where noise comes from.
    """

    def __init__(
        self,
        store: AgentStore,
        seal: Seal,
        sanitizer: Sanitizer,
        plan: str,
        noise: NoiseSource | None = None,
    ) -> None:
        self.store = store
        self._seal = seal
        self._noise = SystemNoise() if noise is None else noise
        self.take_up(sanitizer, plan)

    def take_up(self, sanitizer: Sanitizer, plan: str) -> None:
        """From now on, sanitize by another plan. What waits in the outbox is sent as it is; a memory goes on where it
        is the same.
        """
        if sanitizer.agent != self.store.agent:
            raise InvalidPlan(
                f"plan: expected the file of {self.store.agent!r}, found that of {sanitizer.agent!r}; nothing is sent"
            )
        check_runnable(sanitizer, plan)
        self.sanitizer, self.plan = sanitizer, plan[:SHORT]
        self._after, state = self.store.memory(sanitizer.memory_key, sanitizer.order)
        self._stream = Stream(sanitizer.recipe, self._noise, state if sanitizer.order else None)

    def recover(self) -> list[int]:
        """Say of every epoch that an earlier run reserved, and kept nothing for, that it was missed; these epochs."""
        found = []
        for reserved, plan, key in self.store.unfinished():
            if plan == self.plan and reserved.epoch <= self.store.last_epoch:
                self._release([reserved], np.full((1, self.sanitizer.readings), np.nan))
            else:
                payload = self._sealed(reserved, None, plan, self.store.remembered(key))
                self.store.keep(plan, [Kept(reserved, payload, released=False)])
            found.append(reserved.epoch)
        return found

    def take(self, epochs: Sequence[int], readings: Array) -> Released:
        """Sanitize the readings (T, N_i) of epochs, in order, and put their messages into the outbox.

        readings: not a number where there is none.

        Raises Exhausted, having sent nothing, where the budget does not allow as many releases.
        """
        left = self.store.left
        if left is not None and len(epochs) > left:
            raise Exhausted
        sent = 0
        missed: dict[int, str] = {}
        for start in range(0, len(epochs), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            reserved = self.store.reserve(self.plan, epochs[part], self.sanitizer.memory_key)
            released = self._release(reserved, readings[part])
            sent += released.sent
            missed |= released.missed
        return Released(sent, missed)

    def _release(self, reserved: Sequence[Reserved], readings: Array) -> Released:
        kept, missed = [], {}
        for each, row in zip(reserved, readings, strict=True):
            if self.sanitizer.order and self._after:
                self._stream.skip(each.epoch - self._after - 1)
            values, reasons = self._stream.advance(row[None, :])
            after = self._after if self.sanitizer.order else 0
            numbers = None if reasons else values[0]
            if reasons:
                missed[each.epoch] = reasons[0]
            payload = self._sealed(each, numbers, self.plan, after)
            memory = self._stream.state if self.sanitizer.order else None
            kept.append(Kept(each, payload, released=numbers is not None, memory=memory))
            self._after = each.epoch
        self.store.keep(self.plan, kept, self.sanitizer.memory_key)
        return Released(len(kept) - len(missed), missed)

    def _sealed(self, reserved: Reserved, numbers: Array | None, plan: str, after: int) -> bytes:
        return self._seal.message(
            Message(
                plan=plan,
                agent=self.store.agent,
                store=self.store.id,
                sequence=reserved.sequence,
                epoch=reserved.epoch,
                after=after,
                private=self._noise.private,
                values=None if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").tobytes(),
            )
        )
