"""The terms of a sum, which all members know from their plan, and the messages of its rounds.

    agent -> centre     Hello         once a plan: an X25519 key, signed by the agent's identity (Ed25519)
    centre -> agents    Roster        everybody's
    agent -> centre     SealedShares  of an epoch: two secrets of its own, shared among its neighbours, each sealed
    centre -> agents    Sharing       who sent shares, and those for this agent
    agent -> centre     Masked        its message under its masks, or
    agent -> centre     Objected      whose shares do not open: it takes no part in this epoch
    centre -> agents    Survivors     whose masked messages arrived
    agent -> centre     Confirmed     which survivors it saw, sealed for each neighbour
    centre -> agents    Agreed        what the neighbours saw
    agent -> centre     Revealed      one share of each neighbour: of its own mask, or of its pairwise ones
    centre -> agents    Ended         that the epoch is over, and why where there is no sum

Each is MessagePack (by msgspec), a list that begins with its name. Members are numbered by their place in the terms;
a set of members is a bit for each.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec

from veilnet._core.errors import InvalidPlan, VeilnetError
from veilnet.agent.membership import Membership
from veilnet.sums.neighbours import degree_for, local_threshold, neighbourhoods

_MOST_MEMBERS = 100_000


class SumRefused(VeilnetError):
    """What a party of a sum does not go along with: nothing was answered, and nothing will be for this epoch."""


class Unopened(SumRefused):
    """Shares of others do not open, so nothing is masked with theirs; ``members`` are these, by number."""

    def __init__(self, why: str, members: frozenset[int]) -> None:
        super().__init__(why)
        self.members = members


@dataclass(frozen=True)
class Terms:
    """What is agreed on beforehand.

    plan:       the id of the plan.
    membership: what it says of the group: its members, the threshold, modulo what is added up.
    numbers:    how many a message has.
    """

    plan: str
    membership: Membership
    numbers: int

    def __post_init__(self) -> None:
        group, size, threshold = self.membership.group, len(self.members), self.threshold
        if 2 * threshold <= size or self.numbers < 1 or size > _MOST_MEMBERS:
            raise InvalidPlan(
                f"threshold of {group!r}: expected more than half of its {size} members (at most {_MOST_MEMBERS}), "
                f"found {threshold}: with fewer a centre could open two sums of one epoch, and subtract them; ask "
                "for a plan with a larger one (two thirds are usual)"
            )

    @property
    def members(self) -> tuple[str, ...]:
        """Names of all members, in order."""
        return self.membership.members

    @property
    def threshold(self) -> int:
        """How many of them must be there."""
        return self.membership.threshold

    @property
    def bits(self) -> int:
        """Numbers are added modulo two to the power of this."""
        return self.membership.bits

    @cached_property
    def digest(self) -> bytes:
        """A hash of all of it: an agent with other terms agrees on no key."""
        return hashlib.sha256(b"veilnet sum 1\n" + msgspec.json.encode(self)).digest()

    @property
    def degree(self) -> int:
        """How many neighbours each member has."""
        return degree_for(len(self.members), self.threshold)

    @property
    def colluders(self) -> int:
        """How many members may collude with the centre, wherever they are, and everything that is promised holds.

        As :attr:`Membership.colluders`; of a sparse graph in each neighbourhood (:mod:`veilnet.sums.neighbours`).
        """
        closed = self.degree + 1
        needed = local_threshold(len(self.members), self.threshold, closed)
        most = min(2 * needed - closed - 1, needed - 2)
        if closed < len(self.members):
            # A centre that chooses whom to call dropped may cut the ring where a run of them reaches across half a
            # neighbourhood: colluders must be too few to fill up what it may leave out.
            most = min(most, self.degree // 2 - (closed - needed) - 1)
        return max(0, most)

    def number(self, member: str) -> int:
        """The place of a member."""
        if member not in self._numbers:
            raise InvalidPlan(
                f"{member!r} is no member of {self.membership.group!r}: it has {len(self.members)} others"
            )
        return self._numbers[member]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {member: k for k, member in enumerate(self.members)}

    def neighbourhood(self, member: int) -> tuple[int, ...]:
        """A member's neighbours and itself, in order."""
        return self._neighbourhoods[member]

    @cached_property
    def _neighbourhoods(self) -> tuple[tuple[int, ...], ...]:
        return neighbourhoods(self.members, self.degree, self.plan)

    def places(self, member: int) -> list[tuple[int, int]]:
        """(neighbour, this member's place in its neighbourhood) of a member's neighbourhood, in order."""
        near = self.neighbourhood(member)
        return [(other, bisect_left(self.neighbourhood(other), member)) for other in near]

    def needed(self, member: int) -> int:
        """How many of a member's neighbourhood, itself among them, rebuild its secrets."""
        return local_threshold(len(self.members), self.threshold, len(self.neighbourhood(member)))

    def as_set(self, some: bytes) -> frozenset[int]:
        """The members in a set of bits; SumRefused where it has others."""
        bits = int.from_bytes(some, "little")
        if len(some) != self._set_bytes or bits >> len(self.members):
            raise SumRefused("a list of members has others than the plan's")
        return frozenset(k for k in range(len(self.members)) if bits >> k & 1)

    def as_bits(self, some: Collection[int]) -> bytes:
        """A set of members, a bit each."""
        return sum(1 << k for k in some).to_bytes(self._set_bytes, "little")

    @property
    def _set_bytes(self) -> int:
        return (len(self.members) + 7) // 8


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Hello(_Message, frozen=True, tag="hello"):
    """An agent's key for these terms; ``signature`` by its identity, over the terms, who it is, and the key."""

    agent: str
    public: bytes
    signature: bytes


class Roster(_Message, frozen=True, tag="roster"):
    """The keys of all who said hello."""

    hellos: list[Hello]


class SealedShares(_Message, frozen=True, tag="shares"):
    """Round 1.

    sealed:     for each of the neighbourhood, in order, its two shares, sealed for it; empty for the agent itself.
    wrapped:    for each of the neighbourhood the seed of the mask with it, under the second secret.
    commitment: to both secrets.
    """

    epoch: int
    agent: str
    sealed: list[bytes]
    wrapped: bytes
    commitment: bytes


class Sharing(_Message, frozen=True, tag="sharing"):
    """Round 2: who sent shares, and those for this agent, by neighbourhood, empty where there is none."""

    epoch: int
    present: bytes
    sealed: list[bytes]


class Masked(_Message, frozen=True, tag="masked"):
    """An agent's numbers under its masks, 64-bit words in little-endian order."""

    epoch: int
    agent: str
    residues: bytes


class Objected(_Message, frozen=True, tag="objected"):
    """Round 2 of an agent that masks nothing: the members whose shares do not open there."""

    epoch: int
    agent: str
    members: bytes


class Survivors(_Message, frozen=True, tag="survivors"):
    """Round 3: the members whose masked messages arrived."""

    epoch: int
    survivors: bytes


class Confirmed(_Message, frozen=True, tag="confirmed"):
    """What an agent saw in rounds 2 and 3: a tag for each of its neighbourhood, empty for itself."""

    epoch: int
    agent: str
    tags: list[bytes]


class Agreed(_Message, frozen=True, tag="agreed"):
    """Round 4: the tags for this agent, by neighbourhood, empty where there is none."""

    epoch: int
    tags: list[bytes]


class Revealed(_Message, frozen=True, tag="revealed"):
    """A share of each of the neighbourhood who was present, in order: which kind follows from who survived."""

    epoch: int
    agent: str
    shares: list[bytes]


class Ended(_Message, frozen=True, tag="ended"):
    """An epoch is over; ``why`` there is no sum, empty where there is one."""

    epoch: int
    why: str


FromAgent: TypeAlias = Hello | SealedShares | Masked | Objected | Confirmed | Revealed
FromCentre: TypeAlias = Roster | Sharing | Survivors | Agreed | Ended
SumMessage: TypeAlias = FromAgent | FromCentre
_DECODER: msgspec.msgpack.Decoder[SumMessage] = msgspec.msgpack.Decoder(SumMessage)


def written_message(message: SumMessage) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


def read_message(payload: bytes) -> SumMessage:
    """The message in some bytes; SumRefused where they are none."""
    try:
        return _DECODER.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise SumRefused("something that is no message of a sum arrived") from None
