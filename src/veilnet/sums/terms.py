"""The terms of a sum, which all members know from their plan, and the messages of its rounds.

    agent -> centre     Hello         once a plan: an X25519 key, signed by the agent's identity (Ed25519)
    centre -> agents    Roster        everybody's
    agent -> centre     SealedShares  of an epoch: two secrets of its own, shared among all members, each sealed
    centre -> agents    Sharing       who sent shares, and those for this agent
    agent -> centre     Masked        its message under its masks, or
    agent -> centre     Objected      whose shares do not open: it takes no part in this epoch
    centre -> agents    Survivors     whose masked messages arrived
    agent -> centre     Confirmed     which survivors it saw, a tag for each other member
    centre -> agents    Agreed        what the others saw
    agent -> centre     Revealed      one share of each present: of its own mask, or of its pairwise ones
    centre -> agents    Ended         that the epoch is over, and why where there is no sum

and with two centres (:mod:`veilnet.sums.two_centres`), where the first brings the second what is sealed for it:

    agent -> first      Halved        its message in two halves, each sealed for one of them
    first -> second     Passed, Wanted the halves for it; then of whom it asks the sum
    second -> first     Added         the sum of these, or Objected: of whom it has no half

The second centre has a name for each group, by which it says Hello to its members.

Each is MessagePack (by msgspec), a list that begins with its name. Members are numbered by their place in the terms;
a set of members is a bit for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidPlan, VeilnetError
from veilnet.agent.membership import Membership

NO_READING = -1
WORD = 8  # bytes of a number

MOST_MEMBERS = 500
"""All mask with all: the shares of more members do not fit into one message to a broker."""


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
        if 2 * threshold <= size or self.numbers < 1:
            raise InvalidPlan(
                f"threshold of {group!r}: expected more than half of its {size} members, found {threshold}: with "
                "fewer a centre could open two sums of one epoch, and subtract them; ask for a plan with a larger "
                "one (two thirds are usual)"
            )

    def in_rounds(self) -> Terms:
        """The same; InvalidPlan where there are too many members for rounds with one centre."""
        if len(self.members) > MOST_MEMBERS:
            raise InvalidPlan(
                f"members of {self.membership.group!r}: expected at most {MOST_MEMBERS} who add up in rounds, found "
                f"{len(self.members)}; ask for a plan of smaller groups, such as summed=[[...], [...]]"
            )
        return self

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
    def colluders(self) -> int:
        """How many members may collude with the centre, and everything that is promised holds."""
        return self.membership.colluders

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

    since:      from which row on the agent's memory has all readings, of a stream (:data:`NO_READING` where it has
                none of this one); 0 of rows. It is in each sealed box too.
    sealed:     for each member, in order, its two shares, sealed for it, without the nonce, which is made of the
                commitment; empty for the agent itself.
    wrapped:    for each member the seed of the mask with it, under the second secret.
    commitment: to both secrets.
    """

    epoch: int
    agent: str
    since: int
    sealed: list[bytes]
    wrapped: bytes
    commitment: bytes


class Sharing(_Message, frozen=True, tag="sharing"):
    """Round 2: who sent shares, and those for this agent with their nonces, by member, empty where there is none."""

    epoch: int
    present: bytes
    sealed: list[bytes]


class Masked(_Message, frozen=True, tag="masked"):
    """An agent's numbers under its masks, 64-bit words in little-endian order."""

    epoch: int
    agent: str
    residues: bytes

    @property
    def words(self) -> NDArray[np.uint64]:
        """The same as numbers, (m,)."""
        return np.frombuffer(self.residues, "<u8")


class Objected(_Message, frozen=True, tag="objected"):
    """Round 2 of an agent that masks nothing, or the second centre: the members whose boxes do not open there."""

    epoch: int
    agent: str
    members: bytes


class Survivors(_Message, frozen=True, tag="survivors"):
    """Round 3: the members whose masked messages arrived."""

    epoch: int
    survivors: bytes


class Confirmed(_Message, frozen=True, tag="confirmed"):
    """What an agent saw in rounds 2 and 3: a tag for each member, empty for itself."""

    epoch: int
    agent: str
    tags: list[bytes]


class Agreed(_Message, frozen=True, tag="agreed"):
    """Round 4: the tags for this agent, by member, empty where there is none."""

    epoch: int
    tags: list[bytes]


class Revealed(_Message, frozen=True, tag="revealed"):
    """A share of each member who was present, in order: which kind follows from who survived."""

    epoch: int
    agent: str
    shares: list[bytes]


class Halved(_Message, frozen=True, tag="halved"):
    """A message in two halves: ``first`` sealed for the first centre, ``second`` for the second."""

    epoch: int
    agent: str
    first: bytes
    second: bytes


class Passed(_Message, frozen=True, tag="passed"):
    """Halves for the second centre, of some members by number."""

    epoch: int
    group: str
    members: list[int]
    boxes: list[bytes]


class Wanted(_Message, frozen=True, tag="wanted"):
    """Whose halves the second centre is to add up."""

    epoch: int
    group: str
    members: bytes


class Added(_Message, frozen=True, tag="added"):
    """The sum of these, 64-bit words in little-endian order; ``agent`` is the second centre of the group."""

    epoch: int
    agent: str
    residues: bytes


class Ended(_Message, frozen=True, tag="ended"):
    """An epoch is over; ``why`` there is no sum, empty where there is one."""

    epoch: int
    why: str


FromAgent: TypeAlias = Hello | SealedShares | Masked | Objected | Confirmed | Revealed | Halved | Added
FromCentre: TypeAlias = Roster | Sharing | Survivors | Agreed | Passed | Wanted | Ended
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
