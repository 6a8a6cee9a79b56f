"""The rounds of a sum at an agent: what it says to the centre, and what it waits for, epoch after epoch.

:class:`SumRounds` is the agent's part without a network; :class:`SumLink` brings it to the broker. An epoch that does
not come to its end in time is over: the agent says so, and goes on with the next.
"""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from veilnet._core.errors import InvalidPlan
from veilnet._core.words import foreign
from veilnet.io.agent_store import AgentStore
from veilnet.live.connecting import Address
from veilnet.live.keys import Credentials
from veilnet.live.messages import Malformed, Seal
from veilnet.live.seals import agent_identity, member_identities
from veilnet.live.sending import Sender
from veilnet.live.topics import SECOND, Topics
from veilnet.sums.masks import (
    KEY_BYTES,
    Ed25519PrivateKey,
    Ed25519PublicKey,
    Words,
    X25519PrivateKey,
    expanded,
)
from veilnet.sums.party import hello_of
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import (
    Agreed,
    Ended,
    FromAgent,
    FromCentre,
    Objected,
    Roster,
    Sharing,
    SumRefused,
    Survivors,
    Terms,
    Unopened,
    read_message,
    written_message,
)
from veilnet.sums.two_centres import SplittingAgent

_GREETING = 2.0  # seconds between two hellos, until enough others have said theirs


class Contribution(Protocol):
    """What an agent adds to the sum of an epoch."""

    def since(self, epoch: int) -> int:
        """From which row on the agent's memory has all readings (:class:`~veilnet.sums.terms.SealedShares`)."""

    def begin(self, epoch: int) -> None:
        """Put on the disk that the epoch is begun, before anything leaves; raise where it was begun before."""

    def residues(self) -> Words | None:
        """The whole numbers modulo 2^k to add, asked for when masks are agreed on; None for a missed reading."""

    def keep(self, payload: bytes) -> None:
        """Put on the disk what leaves, before it does."""


def own_key(identity: Ed25519PrivateKey, terms: Terms, store: AgentStore) -> X25519PrivateKey:
    """A party's key for a sum: the same after a restart, so that nothing has to be kept.

    Another for other terms and for another store: the store knows which epochs were begun.
    """
    use = b"veilnet sum key\n" + terms.digest + store.id
    return X25519PrivateKey.from_private_bytes(expanded(identity.private_bytes_raw(), use, KEY_BYTES))


_Member = TypeVar("_Member", SumAgent, SplittingAgent)


class Rounds(ABC, Generic[_Member]):
    """One agent's part in the sums of one plan.

    terms:      of the sum; ``agent`` says who this is.
    identity:   what it proves that with.
    publish:    says something to the centre.
    patience:   seconds that the centre may take for one epoch.
    say:        called with what the agent's owner should know.
    store:      knows which epochs were begun, and whose keys were met.
    """

    agent: _Member
    _waits_for: str

    def __init__(
        self,
        terms: Terms,
        agent: str,
        identity: Ed25519PrivateKey,
        publish: Callable[[FromAgent], None],
        patience: float,
        say: Callable[[str], None],
        store: AgentStore,
    ) -> None:
        self.terms, self._publish, self._patience, self._say = terms, publish, patience, say
        self._store, self._refused = store, dict[str, str]()
        self._secret = own_key(identity, terms, store)
        self._known = store.met(terms.digest.hex())
        self._hello = hello_of(terms, agent, identity, self._secret)
        self._begin: Callable[[int], object] = lambda _: None
        self._all_by = time.monotonic() + patience
        self._inbox: queue.Queue[FromCentre] = queue.Queue()

    def hear(self, message: FromCentre) -> None:
        """Something that the centre said; from any thread."""
        self._inbox.put(message)

    @abstractmethod
    def run(self, epoch: int, part: Contribution) -> str:
        """Take part in one epoch; why there is no sum, or nothing of this agent in it, empty if all went well."""

    def _wait_for_others(self) -> None:
        """Say hello until the keys of enough others are known, and the first time for a while until all are."""
        now = again = time.monotonic()
        until = now + self._patience
        while not self.agent.ready or (now < self._all_by and not self.agent.complete):
            if now > until:
                raise SumRefused(f"{self._waits_for} did not come in time; nothing was begun")
            if now >= again:
                again = now + min(_GREETING, self._patience / 4)
                self._publish(self._hello)
                self._say(f"waiting for {self._waits_for}")
            try:
                found = self._inbox.get(timeout=again - now)
            except queue.Empty:
                continue
            finally:
                now = time.monotonic()
            if isinstance(found, Roster):
                self._meet(found)
        self._all_by = 0.0

    def _meet(self, roster: Roster) -> None:
        """Take in others' keys; a centre that does not know this one's, as after a restart, gets it again."""
        self._store.meet(self.terms.digest.hex(), self.agent.meet(roster))
        for member, why in self.agent.refused.items():
            if self._refused.get(member) != why:
                self._say(f"{why}; the others go on")
        self._refused = dict(self.agent.refused)
        if self._hello not in roster.hellos:
            self._publish(self._hello)

    def _next(self, epoch: int, deadline: float) -> FromCentre:
        """The next message of this epoch; keys that come in between are taken in."""
        while True:
            try:
                found = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise SumRefused(f"epoch {epoch}: the centre said nothing more of it in time") from None
            if isinstance(found, Roster):
                self._meet(found)
            elif found.epoch == epoch:
                return found


class SumRounds(Rounds[SumAgent]):
    """With one centre, in rounds; ``identities`` are those of the members."""

    _waits_for = "the keys of the other members"

    def __init__(
        self,
        terms: Terms,
        agent: str,
        identity: Ed25519PrivateKey,
        identities: dict[str, Ed25519PublicKey],
        publish: Callable[[FromAgent], None],
        patience: float,
        say: Callable[[str], None],
        store: AgentStore,
    ) -> None:
        super().__init__(terms, agent, identity, publish, patience, say, store)
        self.agent = SumAgent(
            terms, agent, self._secret, identities, lambda epoch: self._begin(epoch), known=self._known
        )

    def run(self, epoch: int, part: Contribution) -> str:
        """Take part in one epoch; why there is no sum, or nothing of this agent in it, empty if all went well."""
        self._begin = part.begin
        try:
            self._wait_for_others()
            self._publish(self.agent.begin(epoch, part.since(epoch)))
            deadline = time.monotonic() + self._patience
            why = "its shares came too late, or reached too few"
            heard: list[FromCentre] = []
            while True:
                found = self._next(epoch, deadline)
                if found in heard:  # a broker may bring a message twice; once is answered
                    continue
                heard.append(found)
                if isinstance(found, Sharing):
                    try:
                        self.agent.accept(found)
                    except Unopened as refusal:
                        whose = self.terms.as_bits(refusal.members)
                        self._publish(Objected(epoch, self._hello.agent, whose))
                        return str(refusal)
                    residues = part.residues()
                    if residues is None:
                        return "the reading was missed"
                    masked = self.agent.mask(epoch, residues)
                    part.keep(written_message(masked))
                    self._publish(masked)
                    why = "its message came too late"
                elif isinstance(found, Survivors):
                    self._publish(self.agent.confirm(found))
                    why = ""
                elif isinstance(found, Agreed):
                    self._publish(self.agent.reveal(found))
                elif isinstance(found, Ended):
                    return foreign(found.why) or (why and f"this agent is not in the sum: {why}")
        except (SumRefused, InvalidPlan) as refusal:  # a list with names that are nobody's, too
            return str(refusal)


class HalvesRounds(Rounds[SplittingAgent]):
    """With two centres, in halves; ``second`` is the identity of one, ``first`` what it has with the other."""

    _waits_for = "the key of the second centre"

    def __init__(
        self,
        terms: Terms,
        agent: str,
        identity: Ed25519PrivateKey,
        second: Ed25519PublicKey,
        first: bytes,
        publish: Callable[[FromAgent], None],
        patience: float,
        say: Callable[[str], None],
        store: AgentStore,
    ) -> None:
        super().__init__(terms, agent, identity, publish, patience, say, store)
        self.agent = SplittingAgent(
            terms, agent, self._secret, second, first, lambda epoch: self._begin(epoch), known=self._known
        )

    def run(self, epoch: int, part: Contribution) -> str:
        """Take part in one epoch; why there is no sum, or nothing of this agent in it, empty if all went well."""
        self._begin = part.begin
        try:
            self._wait_for_others()
            self.agent.begin(epoch)
            residues = part.residues()
            if residues is None:
                return "the reading was missed"
            halved = self.agent.split(epoch, residues)
            part.keep(written_message(halved))
            self._publish(halved)
            deadline = time.monotonic() + self._patience
            while not isinstance(found := self._next(epoch, deadline), Ended):
                pass
            return foreign(found.why)
        except (SumRefused, InvalidPlan) as refusal:
            return str(refusal)


AnyRounds: TypeAlias = SumRounds | HalvesRounds


class SumLink(Sender):
    """Brings an agent's rounds to the broker and back; its outbox is never sent.

    store, seal: of the agent; ``terms`` of its sum.
    topics:      of the network; ``credentials`` and ``address`` lead to its broker.
    patience:    seconds that the centre may take for one epoch.
    say:         called with what the agent's owner should know.
    """

    def __init__(
        self,
        store: AgentStore,
        seal: Seal,
        terms: Terms,
        topics: Topics,
        credentials: Credentials,
        address: Address,
        patience: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(store, seal, topics, credentials, address, say)
        self._messages, self._acks = topics.sums(store.agent), topics.rounds(store.agent)
        identity, second = agent_identity(credentials), member_identities(credentials, [SECOND])
        common = self._publish, patience, self._tell, store
        self.rounds: AnyRounds
        if second:
            first = seal.half_key(terms.digest)
            self.rounds = HalvesRounds(terms, store.agent, identity, second[SECOND], first, *common)
        else:
            identities = member_identities(credentials, terms.members)
            self.rounds = SumRounds(terms, store.agent, identity, identities, *common)

    def _send_due(self) -> None:
        """Nothing: a message of a sum leaves in its round, or not at all."""

    def _publish(self, message: FromAgent) -> None:
        self._client.publish(self._messages, self._seal.round(written_message(message), by_agent=True), qos=1)

    def _on_message(self, _client: Any, _data: Any, arrived: Any) -> None:
        try:
            found = read_message(self._seal.open_round(arrived.payload, by_agent=False))
        except (Malformed, SumRefused):
            self._tell("something that is no round of the centre's arrived, and is left out")
            return
        if isinstance(found, FromCentre):
            self.rounds.hear(found)
