"""The second of two centres that do not collude: it has a half of each message, and adds up those it is asked for.

It speaks to the first centre alone, over the same broker. It sees no estimate, and no sum: all that it has is as good
as random. Which epochs it answered is in its store before it answers, so that it answers one list in each. Asked once
more for what it answered last, it says the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from veilnet._core.errors import VeilnetError
from veilnet.io.agent_store import AgentStore
from veilnet.live.connecting import Address
from veilnet.live.keys import Credentials
from veilnet.live.messages import Malformed, Seal
from veilnet.live.seals import agent_identity, member_identities
from veilnet.live.sending import Sender
from veilnet.live.sum_rounds import own_key
from veilnet.live.topics import SECOND, Topics
from veilnet.sums.masks import Ed25519PrivateKey, Ed25519PublicKey
from veilnet.sums.party import Party, hello_of
from veilnet.sums.terms import (
    Added,
    FromAgent,
    FromCentre,
    Hello,
    Objected,
    Passed,
    Roster,
    SumRefused,
    Terms,
    Wanted,
    read_message,
    written_message,
)
from veilnet.sums.two_centres import HalfCentre, second_of


@dataclass
class _Group:
    """A group; ``last`` is what was asked of it last, and answered."""

    party: Party
    halves: HalfCentre
    hello: Hello
    last: tuple[Wanted, Added] | None = None


class SecondCentre:
    """All groups of a plan at the second centre.

    terms:      of each group; ``identity`` is its own, ``identities`` those of their members.
    store:      knows whose keys were met, and which epochs were answered.
    """

    def __init__(
        self,
        terms: Iterable[Terms],
        identity: Ed25519PrivateKey,
        identities: dict[str, Ed25519PublicKey],
        store: AgentStore,
    ) -> None:
        self._store = store
        self._groups: dict[str, _Group] = {}
        self._of: dict[str, _Group] = {}
        for each in terms:
            secret, name, key = (
                own_key(identity, each, store),
                second_of(each.membership.group),
                each.digest.hex(),
            )
            members = {member: identities[member] for member in each.members if member in identities}
            party = Party(each, name, secret, members, store.met(key))
            halves = HalfCentre(each, 1, party.agreed, partial(store.answer, key))
            group = _Group(party, halves, hello_of(each, name, identity, secret))
            self._groups[each.membership.group] = group
            self._of |= dict.fromkeys(each.members, group)

    def hellos(self) -> list[FromAgent]:
        """What it says when it is there, and when the first centre does not know it."""
        return [group.hello for group in self._groups.values()]

    def hear(self, message: FromCentre) -> list[FromAgent]:
        """What it answers; SumRefused where it answers nothing."""
        if isinstance(message, Roster):
            for hello in message.hellos:
                if hello.agent in self._of:
                    party = self._of[hello.agent].party
                    self._store.meet(party.terms.digest.hex(), party.meet(Roster([hello])))
            return [] if message.hellos else self.hellos()
        if not isinstance(message, Passed | Wanted) or message.group not in self._groups:
            raise SumRefused("what the first centre says is not for the second one")
        group = self._groups[message.group]
        if isinstance(message, Passed):
            self._keep(group, message)
            return []
        if group.last is not None and message == group.last[0]:
            return [group.last[1]]
        terms, epoch = group.party.terms, message.epoch
        asked = terms.as_set(message.members)
        absent = asked - group.halves.there(epoch)
        if absent:
            return [Objected(epoch, group.party.agent, terms.as_bits(absent))]
        residues = group.halves.answer(epoch, asked).astype("<u8").tobytes()
        added = Added(epoch, group.party.agent, residues)
        group.last = message, added
        return [added]

    def _keep(self, group: _Group, message: Passed) -> None:
        """Keep the halves that open; members whose do not are named when the sum is asked for."""
        group.halves.keep_to(message.epoch)
        names = group.party.terms.members
        for number, box in zip(message.members, message.boxes, strict=False):
            if 0 <= number < len(names):
                try:
                    group.halves.take(message.epoch, names[number], box)
                except SumRefused:
                    continue


class SecondLink(Sender):
    """Brings the second centre to the broker and back.

    The arguments are those of a sender, with the terms of all groups; ``refused`` counts what was not answered.
    """

    def __init__(
        self,
        store: AgentStore,
        seal: Seal,
        terms: Iterable[Terms],
        topics: Topics,
        credentials: Credentials,
        address: Address,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(store, seal, topics, credentials, address, say)
        self._messages, self._acks = topics.sums(SECOND), topics.rounds(SECOND)
        groups = list(terms)
        members = [member for each in groups for member in each.members]
        identities = member_identities(credentials, members)
        self._centre = SecondCentre(groups, agent_identity(credentials), identities, store)

    def _send_due(self) -> None:
        """Nothing: it answers, or says nothing."""

    def _publish(self, messages: Iterable[FromAgent]) -> None:
        for message in messages:
            payload = self._seal.round(written_message(message), by_agent=True)
            self._client.publish(self._messages, payload, qos=1)

    def _on_subscribe(self, *given: Any) -> None:
        super()._on_subscribe(*given)
        if self.is_connected:
            self._publish(self._centre.hellos())

    def _on_message(self, _client: Any, _data: Any, arrived: Any) -> None:
        try:
            found = read_message(self._seal.open_round(arrived.payload, by_agent=False))
            if not isinstance(found, FromCentre):
                raise SumRefused("a message of an agent came from the first centre")
            self._publish(self._centre.hear(found))
        except (Malformed, VeilnetError) as refusal:
            self._tell(f"nothing is answered: {refusal}")
        except BaseException as error:
            self.failure = error
