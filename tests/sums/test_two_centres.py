"""Sums with two centres: the plain sum to the bit, and one list an epoch, so that nobody is found by subtraction."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.sum_groups import make_terms, plain_sum, random_messages
from veilnet.sums.masks import Ed25519PrivateKey, Words, X25519PrivateKey
from veilnet.sums.party import Party, hello_of
from veilnet.sums.rehearsal import EpochsInMemory, seeded_bytes
from veilnet.sums.terms import Halved, Hello, Roster, SumRefused
from veilnet.sums.two_centres import HalfCentre, SplittingAgent, merged, second_of


class Pair:
    """Two centres and their agents."""

    def __init__(self, members: int, bits: int = 20) -> None:
        self.terms = make_terms(members, bits=bits)
        names, self.second = self.terms.members, second_of("all")
        parties = (*names, self.second)
        self.secrets = {name: X25519PrivateKey.from_private_bytes(seeded_bytes(name)(32)) for name in parties}
        self.identities = {
            name: Ed25519PrivateKey.from_private_bytes(seeded_bytes(f"{name} is")(32)) for name in parties
        }
        self.roster = Roster([self.hello(name) for name in parties])
        self.agents = {name: self.agent(name) for name in names}
        publics = {name: self.identities[name].public_key() for name in names}
        self.party = Party(self.terms, self.second, self.secrets[self.second], publics)
        self.party.meet(self.roster)
        shared = {name: agent._first for name, agent in self.agents.items()}
        self.centres = [
            HalfCentre(self.terms, k, keys, EpochsInMemory())
            for k, keys in enumerate((shared, self.party.agreed))
        ]
        self.messages = random_messages(self.terms, np.random.default_rng(0))

    def hello(self, name: str) -> Hello:
        return hello_of(self.terms, name, self.identities[name], self.secrets[name])

    def agent(self, name: str) -> SplittingAgent:
        """A member that met the second centre."""
        agent = SplittingAgent(
            self.terms, name, self.secrets[name], self.identities[self.second].public_key(),
            seeded_bytes(f"{name} and the first")(32), EpochsInMemory(), draw=seeded_bytes(f"{name} draws"),
        )  # fmt: skip
        agent.meet(self.roster)
        return agent

    def split(self, name: str, epoch: int, residues: Words | None = None) -> Halved:
        """What a member sends of an epoch."""
        self.agents[name].begin(epoch)
        return self.agents[name].split(epoch, self.messages[name] if residues is None else residues)

    def send(self, epoch: int, *lost: tuple[str, int]) -> dict[str, tuple[bytes, bytes]]:
        """All agents send; some halves are lost on the way to a centre."""
        split = {name: self.split(name, epoch) for name in self.agents}
        halves = {name: (each.first, each.second) for name, each in split.items()}
        for name, both in halves.items():
            for which, half in enumerate(both):
                if (name, which) not in lost:
                    self.centres[which].take(epoch, name, half)
        return halves


@pytest.mark.parametrize("bits", [1, 20, 64])
def test_the_sum_of_those_whom_both_heard_is_the_plain_sum(bits: int) -> None:
    pair = Pair(9, bits)
    pair.send(4, ("room0", 0), ("room3", 1))
    both = pair.centres[0].there(4) & pair.centres[1].there(4)
    assert both == frozenset(range(9)) - {0, 3}
    found = merged(pair.terms, *(centre.answer(4, both) for centre in pair.centres))
    names = [pair.terms.members[k] for k in both]
    assert found.tolist() == plain_sum(pair.terms, pair.messages, names)


def test_a_centre_answers_one_long_enough_list_an_epoch() -> None:
    pair = Pair(6)
    pair.send(1)
    first = pair.centres[0]
    with pytest.raises(SumRefused, match="5 are needed"):
        first.answer(1, range(4))
    with pytest.raises(SumRefused, match="not here"):
        first.answer(2, range(6))
    first.answer(1, range(6))
    with pytest.raises(SumRefused, match="added up before"):
        first.answer(1, range(5))
    halves = pair.send(2)
    first.answer(2, range(6))
    first.take(2, "room0", halves["room0"][0])  # the same once more, after it was answered
    for k in range(1, 6):
        first.take(2, f"room{k}", halves[f"room{k}"][0])
    with pytest.raises(SumRefused, match="begun before"):
        first.answer(2, range(5))


def test_halves_of_others_of_other_epochs_and_changed_ones_are_refused() -> None:
    pair = Pair(3)
    halves = pair.send(1)
    again = {name: pair.split(name, 2) for name in pair.agents}
    first, second = pair.centres
    for centre, epoch, name, box in (
        (first, 2, "room0", halves["room0"][0]),  # replayed in another epoch
        (first, 2, "room1", again["room0"].first),  # as somebody else's
        (second, 2, "room1", again["room0"].second),
        (second, 2, "room0", again["room0"].first),  # to the other centre
        (first, 2, "room0", again["room0"].first[:-1] + b"\0"),
    ):
        with pytest.raises(SumRefused, match="no half"):
            centre.take(epoch, name, box)
    with pytest.raises(SumRefused, match="begun before"):
        pair.agents["room0"].begin(2)
    with pytest.raises(SumRefused, match="not going on"):
        pair.agents["room0"].split(2, pair.messages["room0"])


@pytest.mark.parametrize("epoch", [-1, 0, 2**62, 2**64])
def test_an_epoch_that_is_none_is_refused(epoch: int) -> None:
    pair = Pair(3)
    half = pair.split("room0", 1)
    for centre, box in zip(pair.centres, (half.first, half.second), strict=True):
        with pytest.raises(SumRefused, match="epoch: expected a positive whole number"):
            centre.take(epoch, "room0", box)


def test_a_half_comes_once_as_its_agents_own() -> None:
    """Who shows the public key of another cannot have that one's halves counted a second time as its own."""
    pair = Pair(4)
    stolen = pair.roster.hellos[0].public
    content = b"veilnet sum key\n" + pair.terms.digest + stolen + b"room3"
    lie = Hello("room3", stolen, pair.identities["room3"].sign(content))
    publics = {name: pair.identities[name].public_key() for name in pair.terms.members}
    party = Party(pair.terms, pair.second, pair.secrets[pair.second], publics)
    party.meet(Roster([*pair.roster.hellos[:3], lie]))
    assert party.known["room3"] == party.known["room0"]
    second = HalfCentre(pair.terms, 1, party.agreed, EpochsInMemory())
    half = pair.split("room0", 1).second
    second.take(1, "room0", half)
    with pytest.raises(SumRefused, match="no half"):
        second.take(1, "room3", half)


def test_two_halves_of_one_epoch_are_refused_and_keys_that_are_not_the_second_centres() -> None:
    pair = Pair(3)
    pair.send(1)
    twin = Pair(3)  # the same keys, other draws: an agent that forgot
    twin.agents["room0"]._draw = seeded_bytes("other draws")
    half = twin.split("room0", 1, twin.messages["room1"]).first
    with pytest.raises(SumRefused, match="two different halves"):
        pair.centres[0].take(1, "room0", half)
    agent = pair.agent("room1")
    mine = hello_of(pair.terms, pair.second, pair.identities["room2"], pair.secrets["room2"])
    fresh = SplittingAgent(
        pair.terms, "room1", pair.secrets["room1"], pair.identities[pair.second].public_key(), bytes(32),
        EpochsInMemory(),
    )  # fmt: skip
    assert not fresh.meet(Roster([mine, pair.hello("room2")]))
    assert set(fresh.refused) == {pair.second, "room2"}
    with pytest.raises(SumRefused, match="not known"):
        fresh.begin(1)
    assert agent.meet(Roster([mine])) == {}
    assert "another key" in agent.refused[pair.second]
