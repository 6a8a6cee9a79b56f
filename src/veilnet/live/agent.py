"""The agent, wherever it sends to: from a reading to a message in the outbox, each step once.

Everything that may be sent goes through :meth:`LiveAgent.take`: reserve, then draw noise, then keep. Where anything
is in doubt (an epoch that was sent before, a clock that went back, a store that cannot be written) it raises, and
nothing is sent. What feeds it is in :mod:`veilnet.live.feeding`; its outbox is emptied by :mod:`veilnet.live.sending`
(a broker) or :mod:`veilnet.io.outbox` (a file, a pipe).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.agent.randomness import NoiseSource, SystemNoise
from veilnet.agent.recipe import ROWS_AT_ONCE
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.stream import Stream
from veilnet.io.agent_store import AgentStore, Kept, Reserved
from veilnet.io.outbox import SHORT, Message, Unsealed
from veilnet.live.messages import MOST_BYTES, Seal
from veilnet.sums.terms import NO_READING
from veilnet.symbols.agent import SymbolAgent

if TYPE_CHECKING:  # cryptography, which an agent without sums does not need
    from veilnet.live.sum_rounds import AnyRounds
    from veilnet.sums.masks import Words


class Exhausted(Exception):
    """The budget is used up: nothing more may be sent."""


@dataclass(frozen=True)
class ReleaseOutcome:
    """What came of some readings.

    sent:   how many became messages.
    missed: epoch -> why its reading could not be released; the message says only that it was missed.
    """

    sent: int
    missed: dict[int, str]


def check_runnable(sanitizer: Sanitizer | SymbolAgent, plan: str) -> None:
    """Refuse what no agent can run: a sanitizer of no plan, and one that has nothing, or too much, to send."""
    if not plan:
        raise InvalidPlan("plan: expected an agent's file of a plan, found a sanitizer saved on its own")
    if sanitizer.sent == 0:
        raise InvalidRequest(
            f"plan: {sanitizer.agent!r} sends nothing under this plan, so there is nothing to run"
        )
    if isinstance(sanitizer, SymbolAgent) and sanitizer.window > 1:
        raise InvalidRequest(
            f"plan: {sanitizer.agent!r} sends a symbol for each window of {sanitizer.window} rows; run it by "
            "sanitize, whose rows are numbered"
        )
    group, memory = (getattr(sanitizer, part, None) for part in ("summed", "memory"))
    if group and memory and (memory.start is None or group.threshold < len(group.members)):
        raise InvalidPlan(
            f"plan: {sanitizer.agent!r} adds to sums of a stream; expected that all members have to be there, and "
            "memories that are drawn where they begin anew, found others; design the plan again"
        )
    if 8 * sanitizer.sent + 1024 > MOST_BYTES:
        raise InvalidPlan(f"plan: {sanitizer.sent} numbers do not fit into a message of {MOST_BYTES} bytes")


class LiveAgent:
    """One agent under one plan at a time.

    store:     its store.
    seal:      its secret with the centre, or :class:`~veilnet.io.outbox.Unsealed` for a file or a pipe. Readings of a
               sealed agent come as time goes by, so that its store looks at the clock.
    sanitizer: what it does to readings; ``plan`` the id of the plan that says so.
    noise:     where noise comes from.
    rounds:    where its messages go into a sum: its part in that. They are never sent in any other way.
    sent:      how many messages with numbers this run kept; ``resumed`` the last epoch that was sent before it.
    """

    def __init__(
        self,
        store: AgentStore,
        seal: Seal | Unsealed,
        sanitizer: Sanitizer | SymbolAgent,
        plan: str,
        noise: NoiseSource | None = None,
        rounds: AnyRounds | None = None,
    ) -> None:
        self._rounds = rounds
        self.store = store
        self.sent = 0
        self.resumed = store.last_epoch
        self._since = 0  # of a memory in a sum: the first epoch that entered since it began
        self._seal = seal
        self._noise = SystemNoise() if noise is None else noise
        self.take_up(sanitizer, plan)

    def take_up(self, sanitizer: Sanitizer | SymbolAgent, plan: str) -> None:
        """From now on, sanitize by another plan. What waits in the outbox is sent as it is; a memory goes on where it
        is the same.
        """
        if sanitizer.agent != self.store.agent:
            raise InvalidPlan(
                f"plan: expected the file of {self.store.agent!r}, found that of {sanitizer.agent!r}; nothing is sent"
            )
        if isinstance(self._seal, Seal):
            check_runnable(sanitizer, plan)
            summed = sanitizer.summed if isinstance(sanitizer, Sanitizer) else None
            terms = None if self._rounds is None else self._rounds.terms
            known = None if terms is None else terms.membership
            if summed != known or (terms is not None and plan[:SHORT] != terms.plan[:SHORT]):
                raise InvalidPlan(
                    "plan: its messages are added up with those of others; restart the agent with it"
                )
        self.sanitizer, self.plan = sanitizer, plan[:SHORT]
        in_sums = self._rounds is not None and sanitizer.order > 0
        self._after, state = self.store.memory(sanitizer.memory_key, sanitizer.order + in_sums)
        if in_sums and state is not None:
            state, self._since = state[:-1], int(state[-1])
        self._stream: Stream | None = None
        if isinstance(sanitizer, Sanitizer):
            # Also where nothing is remembered: a sanitizer without a grid is refused before anything is written.
            stream = Stream(sanitizer.recipe, self._noise, state if sanitizer.order else None)
            self._stream = stream if sanitizer.order else None

    @property
    def remembers(self) -> int:
        """The last epoch that entered the memory; 0 where it is as it was at its beginning."""
        return self._after if self.sanitizer.order else 0

    def since(self, epoch: int) -> int:
        """From which epoch on the memory has all readings, where that of an epoch enters it next."""
        return self._since if self._after and epoch == self._after + 1 else epoch

    def recover(self) -> list[int]:
        """Say of every epoch that an earlier run reserved, and kept nothing for, that it was missed; these epochs."""
        found = []
        for reserved, plan, key in self.store.unfinished():
            if self._rounds is not None:  # its round is over, and nobody waits for a word of it
                self.store.keep(plan, [Kept(reserved, b"", released=False, waits=False)])
            elif plan == self.plan and reserved.epoch <= self.store.last_epoch:
                self._release([reserved], np.full((1, self.sanitizer.readings), np.nan))
            else:
                payload = self._sealed(reserved, None, plan, self.store.remembered(key))
                self.store.keep(plan, [Kept(reserved, payload, released=False)])
            found.append(reserved.epoch)
        return found

    def take(
        self,
        epochs: Sequence[int],
        readings: Array,
        counted: Mapping[int, bytes] | None = None,
        note: Callable[[], None] | None = None,
    ) -> ReleaseOutcome:
        """Sanitize the readings (T, N_i) of epochs, in order, and put their messages into the outbox.

        readings: not a number where there is none.
        counted:  epoch -> a hash of all rows up to it, where rows are counted.
        note:     called when epochs are taken for good, and nothing is in the outbox yet, from where it may be sent.

        Raises Exhausted, having sent nothing, where the budget does not allow as many releases.
        """
        left = self.store.left
        if left is not None and len(epochs) > left:
            raise Exhausted
        sent = 0
        missed: dict[int, str] = {}
        now = time.time() if isinstance(self._seal, Seal) else None
        if self._rounds is not None:
            return self._take_part(self._rounds, epochs, readings, note)
        for start in range(0, len(epochs), ROWS_AT_ONCE):
            part = epochs[start : start + ROWS_AT_ONCE]
            reserved = self.store.reserve(self.plan, part, self.sanitizer.memory_key, now=now)
            if note is not None:
                note()
            known = None if counted is None else counted.get(part[-1])
            released = self._release(reserved, readings[start : start + ROWS_AT_ONCE], known)
            sent += released.sent
            missed |= released.missed
        self.sent += sent
        return ReleaseOutcome(sent, missed)

    def _take_part(
        self, rounds: AnyRounds, epochs: Sequence[int], readings: Array, note: Callable[[], None] | None
    ) -> ReleaseOutcome:
        """As :meth:`take`, epoch after epoch in the rounds of a sum."""
        missed: dict[int, str] = {}
        for epoch, reading in zip(epochs, readings, strict=True):
            part = _Contribution(self, reading, note)
            why = rounds.run(epoch, part)
            part.end()
            if part.why or why:
                missed[epoch] = part.why or why
        self.sent += len(epochs) - len(missed)
        return ReleaseOutcome(len(epochs) - len(missed), missed)

    def _release(
        self, reserved: Sequence[Reserved], readings: Array, counted: bytes | None = None
    ) -> ReleaseOutcome:
        epochs = [each.epoch for each in reserved]
        before = [self.remembers, *epochs[:-1]] if self.sanitizer.order else [0] * len(epochs)
        values, reasons = self._drawn(epochs, readings)
        kept = []
        for place, row in enumerate(np.ascontiguousarray(values, dtype="<f8")):
            each, numbers = reserved[place], None if place in reasons else row.tobytes()
            payload = self._sealed(each, numbers, self.plan, before[place])
            kept.append(Kept(each, payload, released=numbers is not None))
        memory = None if self._stream is None else self._stream.state
        self.store.keep(self.plan, kept, self.sanitizer.memory_key, memory, counted)
        return ReleaseOutcome(
            len(kept) - len(reasons), {epochs[place]: why for place, why in reasons.items()}
        )

    def _drawn(self, epochs: Sequence[int], readings: Array) -> tuple[Array, dict[int, str]]:
        """The numbers (T, M) to send of readings, infinite where one was missed, and why each of those was."""
        if self._stream is None:
            released = self.sanitizer.release(readings, self._noise)
            values = np.full((len(readings), self.sanitizer.sent), MISSED)
            values[released.valid] = released.values.reshape(-1, self.sanitizer.sent)
            return values, released.reasons
        found: list[Array] = []
        reasons: dict[int, str] = {}
        ends = [k for k in range(1, len(epochs)) if epochs[k] != epochs[k - 1] + 1]
        for start, stop in zip([0, *ends], [*ends, len(epochs)], strict=True):
            if self._after:
                self._stream.skip(epochs[start] - self._after - 1)
            values, why = self._stream.advance(readings[start:stop])
            found.append(values)
            reasons |= {start + place: reason for place, reason in why.items()}
            self._after = epochs[stop - 1]
        return np.concatenate(found), reasons

    def _sealed(self, reserved: Reserved, numbers: bytes | None, plan: str, after: int) -> bytes:
        return self._seal.message(
            Message(
                plan=plan,
                agent=self.store.agent,
                store=self.store.id,
                sequence=reserved.sequence,
                epoch=reserved.epoch,
                after=after,
                private=self._noise.private,
                values=numbers,
            )
        )


class _Contribution:
    """What an agent adds to the sum of one epoch: reserved before anything leaves, kept as it leaves, under masks."""

    def __init__(self, agent: LiveAgent, reading: Array, note: Callable[[], None] | None) -> None:
        self._agent, self._reading, self._note = agent, reading, note
        self._reserved: Reserved | None = None
        self.why = ""

    def since(self, epoch: int) -> int:
        """From which epoch on the agent's memory has all readings, this one included; 0 where it has no memory."""
        sanitizer = self._agent.sanitizer
        if not isinstance(sanitizer, Sanitizer) or not sanitizer.order:
            return 0
        readable = sanitizer.recipe.examine(self._reading[None])[1][0]
        return self._agent.since(epoch) if readable else NO_READING

    def begin(self, epoch: int) -> None:
        """The epoch is taken, on the disk."""
        agent = self._agent
        (self._reserved,) = agent.store.reserve(agent.plan, [epoch], now=time.time())
        if self._note is not None:
            self._note()

    def residues(self) -> Words | None:
        """What would be sent bare, in whole steps of its grid modulo 2^k; None where there is nothing to release."""
        assert self._reserved is not None
        sanitizer = self._agent.sanitizer
        assert isinstance(sanitizer, Sanitizer)
        assert sanitizer.summed is not None
        assert sanitizer.grid is not None
        epoch = self._reserved.epoch
        since = self._agent.since(epoch)
        values, reasons = self._agent._drawn([epoch], self._reading[None])
        self._agent._since = epoch + 1 if reasons else since
        self.why = reasons.get(0, "")
        return (
            None if reasons else sanitizer.summed.residues(sanitizer.summed.whole(values[0], sanitizer.grid))
        )

    def keep(self, payload: bytes, *, released: bool = True) -> None:
        """What leaves is on the disk; it leaves in its round or never, so nothing of it waits in the outbox."""
        assert self._reserved is not None
        agent, kept = self._agent, Kept(self._reserved, payload, released=released, waits=False)
        stream = agent._stream if released else None
        memory = None if stream is None else np.append(stream.state, agent._since)
        agent.store.keep(agent.plan, [kept], agent.sanitizer.memory_key, memory)
        self._reserved = None

    def end(self) -> None:
        """Whatever was reserved, and did not leave, was missed."""
        if self._reserved is not None:
            self.keep(b"", released=False)
