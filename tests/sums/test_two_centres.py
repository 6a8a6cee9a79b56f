"""Sums with two centres: the plain sum to the bit, and one list an epoch, so that nobody is found by subtraction."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.sum_groups import make_terms, plain_sum, random_messages
from veilnet.sums.masks import X25519PrivateKey
from veilnet.sums.rehearsal import EpochsInMemory, seeded_bytes
from veilnet.sums.terms import SumRefused
from veilnet.sums.two_centres import HalfCentre, SplittingAgent, merged


class Pair:
    """Two centres and their agents."""

    def __init__(self, members: int, bits: int = 20) -> None:
        self.terms = make_terms(members, bits=bits)

        def key(name: str) -> X25519PrivateKey:
            return X25519PrivateKey.from_private_bytes(seeded_bytes(name)(32))

        secrets = {name: key(name) for name in self.terms.members}
        centres = [key("first"), key("second")]
        publics = {name: secret.public_key().public_bytes_raw() for name, secret in secrets.items()}
        theirs = (centres[0].public_key().public_bytes_raw(), centres[1].public_key().public_bytes_raw())
        self.centres = [
            HalfCentre(self.terms, k, secret, publics, EpochsInMemory()) for k, secret in enumerate(centres)
        ]
        self.agents = {
            name: SplittingAgent(
                self.terms, secret, theirs, EpochsInMemory(), draw=seeded_bytes(f"{name} draws")
            )
            for name, secret in secrets.items()
        }
        self.messages = random_messages(self.terms, np.random.default_rng(0))

    def send(self, epoch: int, *lost: tuple[str, int]) -> dict[str, tuple[bytes, bytes]]:
        """All agents send; some halves are lost on the way to a centre."""
        halves = {name: agent.split(epoch, self.messages[name]) for name, agent in self.agents.items()}
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
    again = {name: agent.split(2, pair.messages[name]) for name, agent in pair.agents.items()}
    first, second = pair.centres
    for centre, epoch, name, box in (
        (first, 2, "room0", halves["room0"][0]),  # replayed in another epoch
        (first, 2, "room1", again["room0"][0]),  # as somebody else's
        (second, 2, "room0", again["room0"][0]),  # to the other centre
        (first, 2, "room0", again["room0"][0][:-1] + b"\0"),
    ):
        with pytest.raises(SumRefused, match="no half"):
            centre.take(epoch, name, box)
    with pytest.raises(SumRefused, match="begun before"):
        pair.agents["room0"].split(2, pair.messages["room0"])


def test_two_halves_of_one_epoch_and_two_centres_that_are_one_are_refused() -> None:
    pair = Pair(3)
    pair.send(1)
    twin = Pair(3)  # the same keys, other draws: an agent that forgot
    twin.agents["room0"]._draw = seeded_bytes("other draws")
    half = twin.agents["room0"].split(1, twin.messages["room1"])[0]
    with pytest.raises(SumRefused, match="two different halves"):
        pair.centres[0].take(1, "room0", half)
    secret = X25519PrivateKey.from_private_bytes(bytes(31) + b"\1")
    public = secret.public_key().public_bytes_raw()
    with pytest.raises(SumRefused, match="same key twice"):
        SplittingAgent(pair.terms, secret, (public, public), EpochsInMemory())
