"""A group that adds up its messages, in memory: members who run the rounds, a centre that may lie, and a checker.

The audit plays lies of a centre with it (:mod:`veilnet.auditing.attack.lying_centre`). :func:`combinations_known`
holds all that the centre saw, solves the linear system of masks, and says which combinations of messages follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from veilnet._core.types import Array
from veilnet.sums.masks import Ed25519PrivateKey, Words, X25519PrivateKey
from veilnet.sums.opening import OpenedSum, SumEpoch
from veilnet.sums.party import hello_of
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import (
    Agreed,
    Confirmed,
    Revealed,
    Roster,
    Sharing,
    SumMessage,
    SumRefused,
    Survivors,
    Terms,
)

KINDS = ("own", "lock")
Gone = Mapping[int, Collection[str]]


def seeded_bytes(seed: str) -> Callable[[int], bytes]:
    """Bytes that look random and are the same each time."""
    calls = count()

    def draw(size: int) -> bytes:
        return hashlib.shake_256(f"{seed} {next(calls)}".encode()).digest(size)

    return draw


class EpochsInMemory:
    """A record of epochs in memory: each is begun once, and after those before."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self, epoch: int) -> None:
        if epoch <= self.last:
            raise SumRefused(f"epoch {epoch} was begun before")
        self.last = epoch


@dataclass
class Seen:
    """Everything that a centre saw of an epoch: masked messages, and which kinds of whose shares.

    epoch:  its number, from which roots of masks are made.
    masked: member -> the seeds of the masks on its message, by with whom; its own among them.
    shares: (member, kind) -> those who revealed a share of it.
    twice:  members who masked a second message.
    """

    epoch: int = 0
    masked: dict[int, dict[int, bytes]] = field(default_factory=dict)
    shares: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    twice: set[int] = field(default_factory=set)

    def reveal(self, by: int, kinds: Mapping[int, str]) -> None:
        """One more member revealed a share of others: which kind of whom."""
        for other, kind in kinds.items():
            self.shares.setdefault((other, kind), set()).add(by)

    def knows(self, terms: Terms, member: int, kind: str, colluding: Collection[int] = ()) -> bool:
        """Whether the centre can rebuild a secret, with colluders, who hold shares of both kinds."""
        known = self.shares.get((member, kind), set()) | set(colluding)
        return member in colluding or len(known) >= terms.threshold


def combinations_known(terms: Terms, seen: Seen | Sequence[Seen], colluding: Collection[int] = ()) -> Array:
    """What the centre can compute of honest values, of one epoch or several: a basis (r, epochs S) of combinations.

    It solves the linear system of all masks. Its unknowns are the values, and every mask that cannot be rebuilt; its
    equations say what each masked message is the sum of. A combination of messages in which every unknown mask
    cancels is what it knows; no other is. Masks are known by their seeds, so that one that comes twice shows. A lock
    that was opened gives a member's roots of its epoch, and marks are public: so its pairwise masks of all runs.
    """
    epochs = [seen] if isinstance(seen, Seen) else list(seen)
    honest = [
        (k, who) for k, each in enumerate(epochs) for who in sorted(each.masked) if who not in colluding
    ]
    roots = {
        (each.epoch, who)
        for each in epochs
        for who in range(len(terms.members))
        if each.knows(terms, who, "lock", colluding)
    }
    known = {
        seed
        for each in epochs
        for who, seeds in each.masked.items()
        for other, seed in seeds.items()
        if (
            each.knows(terms, who, "own", colluding)
            if who == other
            else not roots.isdisjoint({(each.epoch, who), (each.epoch, other)})
        )
    }
    masks: dict[bytes, int] = {}
    entries = []
    for row, (k, who) in enumerate(honest):
        for other, seed in epochs[k].masked[who].items():
            if seed not in known:
                entries.append((row, masks.setdefault(seed, len(masks)), 1.0 if other >= who else -1.0))
    system = np.zeros((len(honest), max(1, len(masks))))
    for row, column, sign in entries:
        system[row, column] = sign
    # whole numbers: the least eigenvalue but 0 is above 1/n²
    values, vectors = np.linalg.eigh(system @ system.T)
    found = np.zeros((int(np.sum(values < 0.5 / max(1, len(honest)) ** 2)), len(epochs) * len(terms.members)))
    found[:, [k * len(terms.members) + who for k, who in honest]] = vectors[:, : len(found)].T
    return found


class Rehearsal:
    """All members of a sum; ``kind`` is what each runs."""

    def __init__(self, terms: Terms, seed: str = "members", kind: type[SumAgent] = SumAgent) -> None:
        def keys(use: str) -> dict[str, bytes]:
            return {name: seeded_bytes(f"{seed} {use} {name}")(32) for name in terms.members}

        self.terms, self._seed, self._kind, self._starts = terms, seed, kind, count()
        self.identities = {
            name: Ed25519PrivateKey.from_private_bytes(key) for name, key in keys("identity").items()
        }
        self.secrets = {name: X25519PrivateKey.from_private_bytes(key) for name, key in keys("key").items()}
        self.publics = {name: key.public_key() for name, key in self.identities.items()}
        self.roster = Roster(
            [hello_of(terms, name, self.identities[name], self.secrets[name]) for name in terms.members]
        )
        self.epochs: dict[str, Callable[[int], object]] = {name: EpochsInMemory() for name in terms.members}
        self.agents: dict[str, SumAgent] = {}
        for name in terms.members:
            self.start(name)
        self.said: dict[str, str] = {}
        self.confirmed: dict[int, Confirmed] = {}  # what each confirmed last
        self.seen = Seen()

    def start(self, name: str, meet: bool = True) -> SumAgent:
        """An agent's process, started anew: it has its keys and its record of epochs, and nothing else."""
        draw = seeded_bytes(f"{self._seed} draws {name} {next(self._starts)}")
        known = {hello.agent: hello.public for hello in self.roster.hellos if meet and hello.agent != name}
        agent = self._kind(
            self.terms, name, self.secrets[name], self.publics, self.epochs[name], draw=draw, known=known
        )
        self.agents[name] = agent
        return agent

    def begin(self, epoch: int, silent: Collection[str] = ()) -> SumEpoch:
        """Round 1, of those who are not silent."""
        self.seen = Seen(epoch)
        centre = SumEpoch(self.terms, epoch)
        for name, agent in self.agents.items():
            if name not in silent:
                centre.take(agent.begin(epoch))
        return centre

    def tell(
        self,
        centre: SumEpoch,
        answers: Mapping[str, SumMessage],
        messages: Mapping[str, Words],
        silent: Collection[str] = (),
    ) -> list[str]:
        """Bring what a centre says to those who are not silent, and their answers back; who answered.

        Refusals are kept in ``said``, what the centre saw in ``seen``.
        """
        answered = []
        for name, message in answers.items():
            if name in silent:
                continue
            try:
                self._answer(centre, self.agents[name], message, messages)
            except SumRefused as refusal:
                self.said[name] = str(refusal)
                continue
            answered.append(name)
        return answered

    def _answer(
        self, centre: SumEpoch, agent: SumAgent, message: SumMessage, messages: Mapping[str, Words]
    ) -> None:
        name = agent.agent
        if isinstance(message, Sharing):
            agent.accept(message)
            now = agent._now
            assert now is not None
            seeds = now.seeds | {agent.number: now.own_seed}
            masked = agent.mask(message.epoch, messages[name])
            if agent.number in self.seen.masked:
                self.seen.twice.add(agent.number)
            self.seen.masked[agent.number] = seeds
            centre.take(masked)
            return
        answer: Confirmed | Revealed
        if isinstance(message, Survivors):
            answer = self.confirmed[agent.number] = agent.confirm(message)
        else:
            assert isinstance(message, Agreed)
            held = {} if agent._now is None else dict(sorted(agent._now.held.items()))
            answer = agent.reveal(message)
            opened = zip(held.items(), answer.shares, strict=True)  # which kind, by the very bytes
            self.seen.reveal(
                agent.number, {other: KINDS[both.index(share)] for (other, both), share in opened}
            )
        centre.take(answer)

    def agreed(self, name: str, epoch: int, colluding: Collection[int] = ()) -> Agreed:
        """What members confirmed last to one of them, while colluders confirm whatever lists it saw."""
        agent = self.agents[name]
        now, tags = agent._now, []
        for number in range(len(self.terms.members)):
            if now is not None and number in colluding and number != agent.number:
                tags.append(agent._tag(now.pairs[number], now.view, number))
            else:
                tags.append(self.confirmed[number].tags[agent.number] if number in self.confirmed else b"")
        return Agreed(epoch, tags)

    def run(self, epoch: int, messages: Mapping[str, Words], gone: Gone | None = None) -> OpenedSum:
        """A whole epoch; who is ``gone`` from which round on: 1 shares, 2 masks, 3 confirms, 4 reveals."""
        silent: list[str] = []

        def from_now_on(stage: int) -> list[str]:
            silent.extend((gone or {}).get(stage, ()))
            return silent

        centre = self.begin(epoch, from_now_on(1))
        self.tell(centre, centre.close_sharing(), messages, from_now_on(2))
        self.tell(centre, centre.close_masking(), messages, from_now_on(3))
        self.tell(centre, centre.close_confirming(), messages, from_now_on(4))
        return centre.open()
