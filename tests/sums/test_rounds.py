"""Sums under double masks: exactly the plain sum, whoever drops out when, and nothing else for the centre.

Oracles: Python's own whole numbers for the sum; for what a centre can know, the linear system of all masks, solved
with everything it saw (``veilnet.sums.rehearsal.combinations_known``).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from helpers.said import says
from helpers.sum_groups import make_terms, plain_sum, random_messages
from veilnet._core.errors import InvalidPlan
from veilnet.live.messages import MOST_BYTES
from veilnet.sums.opening import SumEpoch, TooFew
from veilnet.sums.rehearsal import Rehearsal, combinations_known
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import (
    MOST_MEMBERS,
    Masked,
    Roster,
    Sharing,
    SumRefused,
    read_message,
    written_message,
)

VECTORS = Path(__file__).parent / "vectors.json"


def knows_the_sum_alone(
    members: Rehearsal, survivors: tuple[str, ...], colluding: tuple[int, ...] = ()
) -> bool:
    """Whether the one combination of honest values that the centre can compute is the sum of the survivors'."""
    known = combinations_known(members.terms, members.seen, colluding)
    honest = {members.terms.number(name) for name in survivors} - set(colluding)
    expected = np.array([number in honest for number in range(len(members.terms.members))], dtype=float)
    return len(known) == 1 and np.allclose(np.abs(known[0]), expected / np.sqrt(len(honest)), atol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 5, 12])
@pytest.mark.parametrize("bits", [1, 18, 64])
def test_the_sum_is_the_plain_sum_to_the_bit(size: int, bits: int) -> None:
    terms = make_terms(size, bits=bits)
    members, rng = Rehearsal(terms), np.random.default_rng(size)
    for epoch in (1, 2, 7):
        messages = random_messages(terms, rng)
        opened = members.run(epoch, messages)
        assert opened.survivors == terms.members
        assert opened.residues.tolist() == plain_sum(terms, messages, terms.members)
        assert knows_the_sum_alone(members, opened.survivors)
        assert knows_the_sum_alone(members, opened.survivors, tuple(range(terms.colluders)))


def test_dropouts_at_every_point_leave_the_sum_of_the_survivors_or_none() -> None:
    """60 epochs in which each of 10 members falls silent before each round with a chance of 10 %."""
    terms = make_terms(10)
    members, rng = Rehearsal(terms), np.random.default_rng(3)
    opened, refused = 0, 0
    for epoch in range(1, 61):
        messages = random_messages(terms, rng)
        gone = {stage: [name for name in terms.members if rng.random() < 0.1] for stage in (1, 2, 3, 4)}
        try:
            found = members.run(epoch, messages, gone)
        except TooFew:
            refused += 1
            known = combinations_known(terms, members.seen)
            assert np.all(np.count_nonzero(np.abs(known) > 1e-9, axis=1) != 1)
            continue
        opened += 1
        stayed = set(terms.members) - {*gone[1], *gone[2]}
        assert set(found.survivors) == stayed
        assert found.residues.tolist() == plain_sum(terms, messages, found.survivors)
        assert knows_the_sum_alone(members, found.survivors)
    assert opened > 10
    assert refused > 10
    assert not members.said


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_as_many_as_the_threshold_allows_may_drop_out_at_one_point_and_no_more(stage: int) -> None:
    terms = make_terms(7)
    members, messages = Rehearsal(terms), random_messages(terms, np.random.default_rng(0))
    spare = len(terms.members) - terms.threshold
    found = members.run(1, messages, {stage: terms.members[:spare]})
    assert found.residues.tolist() == plain_sum(terms, messages, found.survivors)
    assert len(found.survivors) == (terms.threshold if stage < 3 else len(terms.members))
    with pytest.raises(TooFew, match=f"epoch 2: only {terms.threshold - 1} of 7"):
        members.run(2, messages, {stage: terms.members[: spare + 1]})
    assert not np.any(np.count_nonzero(np.abs(combinations_known(terms, members.seen)) > 1e-9, axis=1) == 1)


def test_more_members_than_one_message_to_a_broker_holds_are_refused() -> None:
    terms = make_terms(MOST_MEMBERS).in_rounds()
    members = Rehearsal(terms)
    shares = members.agents["room0"].begin(1)
    sharing = Sharing(1, terms.as_bits(range(MOST_MEMBERS)), [bytes(12) + shares.sealed[1]] * MOST_MEMBERS)
    for message in (shares, sharing):
        assert len(written_message(message)) < MOST_BYTES - 64
    with pytest.raises(InvalidPlan) as refusal:
        make_terms(MOST_MEMBERS + 1).in_rounds()
    says(refusal, "'all'", MOST_MEMBERS, MOST_MEMBERS + 1, "smaller groups")


def test_a_member_whose_key_comes_late_waits_for_the_next_epoch() -> None:
    terms = make_terms(6)
    members, messages = Rehearsal(terms), random_messages(terms, np.random.default_rng(0))
    early = Roster(members.roster.hellos[:5])
    for name in terms.members:
        members.start(name, meet=False)
        members.agents[name].meet(early if name != "room5" else members.roster)
    assert members.run(1, messages).survivors == terms.members[:5]
    new = [agent.meet(members.roster).keys() for agent in members.agents.values()]
    assert new == [{"room5"}] * 5 + [set()]
    assert members.run(2, messages).survivors == terms.members


def test_an_agent_that_knows_too_few_keys_begins_nothing() -> None:
    members = Rehearsal(make_terms(5))
    agent = members.start("room0", meet=False)
    with pytest.raises(SumRefused, match="too few"):
        agent.begin(1)
    agent.meet(Roster(members.roster.hellos[:4]))
    assert agent.begin(1).epoch == 1


def test_keys_that_were_met_before_are_enough_after_a_restart() -> None:
    members = Rehearsal(make_terms(4))
    before = members.agents["room1"]
    again = SumAgent(
        members.terms, "room1", members.secrets["room1"], members.publics, lambda _: None, known=before.known
    )
    assert again.ready
    assert again.known == before.known
    members.agents["room1"] = again
    messages = random_messages(members.terms, np.random.default_rng(0))
    assert members.run(1, messages).survivors == members.terms.members


def test_messages_survive_the_wire_and_nothing_else_does() -> None:
    members = Rehearsal(make_terms(3))
    centre = members.begin(1)
    for message in (members.roster, centre.shares[0], *centre.close_sharing().values()):
        assert read_message(written_message(message)) == message
    for payload in (b"", b"\xc1", written_message(members.roster)[:-1], b"\x93\xa6hello\x00\x00"):
        with pytest.raises(SumRefused):
            read_message(payload)


def test_a_run_is_the_same_to_the_byte_as_it_was() -> None:
    """Messages of another version of the protocol do not open here: this hash changes with any change of it."""
    known = json.loads(VECTORS.read_text(encoding="utf-8"))
    members = Rehearsal(make_terms(4, bits=20))
    centre = members.begin(3)
    messages = random_messages(members.terms, np.random.default_rng(0))
    members.tell(centre, centre.close_sharing(), messages)
    said = [written_message(centre.shares[k]) + centre.masked[k].residues for k in range(4)]
    assert hashlib.sha256(b"".join(said)).hexdigest() == known["own"]["epoch 3 of 4 members"]


def test_a_centre_takes_each_message_once_and_of_this_epoch_alone() -> None:
    members = Rehearsal(make_terms(3))
    centre = members.begin(1)
    centre.take(centre.shares[0])
    with pytest.raises(SumRefused, match="two different"):
        centre.take(replace(centre.shares[0], commitment=bytes(64)))
    with pytest.raises(SumRefused, match="malformed"):
        centre.take(replace(centre.shares[0], wrapped=b""))
    with pytest.raises(SumRefused, match="malformed"):  # would make what room1 gets too large for a broker
        centre.take(replace(centre.shares[0], sealed=[b"", bytes(60_000), b""]))
    with pytest.raises(SumRefused, match="epoch 1 in epoch 2"):
        SumEpoch(members.terms, 2).take(centre.shares[0])
    messages = random_messages(members.terms, np.random.default_rng(0))
    members.tell(centre, centre.close_sharing(), messages)
    with pytest.raises(SumRefused, match="two different"):
        centre.take(replace(centre.masked[0], residues=bytes(24)))
    with pytest.raises(SumRefused, match="malformed"):
        centre.take(replace(centre.masked[0], residues=bytes(16)))


def test_who_is_no_longer_there_is_not_counted_in_a_round() -> None:
    """A member that is not present masks nothing, confirms nothing and reveals nothing."""
    members = Rehearsal(make_terms(6))
    centre = members.begin(1, silent=["room0"])
    messages = random_messages(members.terms, np.random.default_rng(0))
    told = centre.close_sharing()
    with pytest.raises(SumRefused, match="no longer there"):
        centre.take(Masked(1, "room0", messages["room0"].tobytes()))
    members.tell(centre, told, messages)
    members.tell(centre, centre.close_masking(), messages)
    with pytest.raises(SumRefused, match="no longer there"):
        centre.take(replace(centre.confirmed[2], agent="room0"))
    members.tell(centre, centre.close_confirming(), messages)
    with pytest.raises(SumRefused, match="no longer there"):
        centre.take(replace(centre.revealed[2], agent="room0"))
    assert centre.open().residues.tolist() == plain_sum(members.terms, messages, members.terms.members[1:])
