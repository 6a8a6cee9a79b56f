"""The centre's door: what comes in from the broker is a message of a known agent under a known plan, or is refused.

Refusals have a word each, are counted per agent, and never quote what was refused:

    stranger    the topic is no agent's
    oversized   more bytes than a message may have
    seal        not sealed with this agent's secret: forged, changed, or of another agent
    malformed   sealed, and still no message
    newer       made by a newer veilnet: upgrade the centre; the agent keeps it, and sends it again
    impostor    an agent's message on another agent's topic
    plan        of a plan that the centre does not know (yet): the agent keeps it, and sends it again
    gone        of an agent that the plan of the centre has no more, or lets send nothing, by an earlier plan: never
                taken
    numbers     not as many numbers as the plan says, or some that are not finite (or beyond 1e100)
    conflict    another message for an epoch that this agent has reported
    old         of an epoch that was forgotten: it has been there, or comes too late
    round       no part in a round of a sum that is going on, of a member of it
    far         kept, but for an epoch so far ahead of the clock here that it must be a mistake, or, of a stream, for
                a row so far from those of most agents
    few         kept, but fewer agents than the quorum had reported its epoch when the wait was over
    late        of a stream: kept, but for a row too far back to be changed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.live.messages import Malformed, Message, Seal
from veilnet.live.topics import Topics

REASONS = (
    "stranger", "oversized", "seal", "malformed", "newer", "impostor", "gone", "plan", "numbers", "conflict", "old",
    "round", "far", "few", "late",
)  # fmt: skip
NOT_USED = ("far", "few", "late")  # kept all the same
DRIFT = "drift "  # and the short id of the plan of symbols whose promise is void: no refusal
STRANGER = ""
_LARGEST = 1e100  # of a number: its square and sums of such can still be computed with


def is_refusal(reason: str) -> bool:
    """Whether what is counted by this name was refused or not used."""
    return reason != "duplicate" and not reason.startswith(DRIFT)


@dataclass(frozen=True, eq=False)
class TakenMessage:
    """A message that may be kept; ``values`` are its numbers, None where the reading was missed."""

    message: Message
    values: Array | None


@dataclass(frozen=True)
class RefusedMessage:
    """What was not taken.

    agent:   whose topic it came by; empty where it was nobody's.
    reason:  one of :data:`REASONS`.
    message: what it said, where it was sealed by the agent and will never be taken: the agent hears so.
    """

    agent: str
    reason: str
    message: Message | None = None


class Intake:
    """Looks at what arrives, and changes nothing.

    seals:  agent -> its seal.
    plans:  short id of a plan -> agent -> how many numbers it sends; plans may be added while it runs.
    topics: where agents send.
    symbols: short id of a plan of symbols -> agent -> how many it has.

    ``heard`` are the agents that send by the plan that counts: no other is listened to, by whatever plan before.
    """

    heard: Collection[str] = ()

    def __init__(
        self,
        seals: Mapping[str, Seal],
        plans: Mapping[str, Mapping[str, int]],
        topics: Topics,
        symbols: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self._plans, self._topics, self._symbols = plans, topics, {} if symbols is None else symbols
        self._agents: dict[str, tuple[str, Seal]] = {}
        self.admit(seals)

    def admit(self, seals: Mapping[str, Seal]) -> None:
        """Listen to further agents.

        seals: agent -> its seal.
        """
        self._agents |= {self._topics.messages(agent): (agent, seal) for agent, seal in seals.items()}

    def look(self, topic: str, payload: bytes) -> TakenMessage | RefusedMessage:
        """Whether bytes that came by a topic may be kept."""
        known = self._agents.get(topic)
        if known is None:
            return RefusedMessage(STRANGER, "stranger")
        agent, seal = known
        try:
            message = seal.open_message(payload)
        except Malformed as error:
            return RefusedMessage(agent, str(error))
        if message.agent != agent:
            return RefusedMessage(agent, "impostor")
        sent = self._plans.get(message.plan)
        if sent is None or agent not in sent:
            return RefusedMessage(agent, "plan")
        if agent not in self.heard:
            return RefusedMessage(agent, "gone", message)
        if message.values is None:
            return TakenMessage(message, None)
        if len(message.values) != 8 * sent[agent]:
            return RefusedMessage(agent, "numbers", message)
        values = message.numbers()
        if values is None or not (np.abs(values) < _LARGEST).all():  # nor is what is not a number
            return RefusedMessage(agent, "numbers", message)
        if message.plan in self._symbols and values[0] not in range(self._symbols[message.plan][agent]):
            return RefusedMessage(agent, "numbers", message)
        return TakenMessage(message, values)
