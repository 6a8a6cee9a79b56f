"""Rooms, a first and a second centre: estimates with the bits of the plain sum; and a first centre that lies.

Oracle: what each room would have sent bare, by its sanitizer with the same seed, added up and fused in process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from helpers.live_networks import TOPICS
from helpers.summed_house import ROOMS, SummedHouse, room_readings, summed_plan
from veilnet._core.errors import InvalidPlan, VeilnetError
from veilnet.agent.randomness import noise_source
from veilnet.centre.fusion import Fusion
from veilnet.live import halves_desk, second_centre
from veilnet.live.centre import Centre
from veilnet.live.centre_store import CentreStore
from veilnet.live.fusions import sums_of
from veilnet.live.halves_desk import HalvesDesk
from veilnet.live.keys import Credentials, make_keys
from veilnet.live.messages import Seal
from veilnet.live.second_centre import SecondLink
from veilnet.live.topics import SECOND
from veilnet.sums.masks import sealed_box
from veilnet.sums.terms import (
    Added,
    FromAgent,
    FromCentre,
    Halved,
    Hello,
    Objected,
    Passed,
    Roster,
    SumMessage,
    SumRefused,
    Wanted,
    read_message,
    written_message,
)
from veilnet.sums.two_centres import _key, second_of


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SummedHouse]:
    made = SummedHouse(tmp_path, second=True)
    yield made
    made.close()


def test_the_estimate_has_the_bits_of_the_plain_sum(live: SummedHouse) -> None:
    readings = room_readings(1)
    outcomes = live.epoch(1, readings)
    assert {room: each.sent for room, each in outcomes.items()} == dict.fromkeys(ROOMS, 1)
    (made,) = live.estimates
    bare = sum(
        live.sanitizers[room].release(readings[room], noise_source(k)).values[0]
        for k, room in enumerate(ROOMS)
    )
    expected = Fusion(live.plan).estimate({live.plan.network.agents[0]: bare})
    np.testing.assert_array_equal(made.estimate.public, expected.public)
    assert made.estimate.missing == ()
    assert all(agent.store.ledger().releases == 1 for agent in live.agents.values())


def test_halves_of_many_go_in_several_messages(live: SummedHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[FromCentre] = []
    monkeypatch.setattr(halves_desk, "_BYTES_AT_ONCE", 150)  # two
    live.spoils = lambda _, message: (isinstance(message, Passed) and passed.append(message)) or message
    outcomes = live.epoch(1, room_readings(1))
    assert all(each.sent for each in outcomes.values())
    assert [each.members for each in passed if isinstance(each, Passed)] == [[0, 1], [2, 3], [4]]


def test_groups_each_have_their_sum_and_a_room_that_is_away_is_missing(tmp_path: Path) -> None:
    live = SummedHouse(tmp_path, wait=3.0, groups=(ROOMS[:3], ROOMS[3:]), second=True)
    try:
        live.epoch(1, room_readings(1))
        live.epoch(2, room_readings(1, seed=1))
        live.until_estimated(2)
        assert [each.estimate.missing for each in live.estimates] == [(), ()]
        live.epoch(3, room_readings(1), without=[ROOMS[4]])  # both of two are needed
        live.until_estimated(3)
        assert set(live.estimates[-1].estimate.missing) == {ROOMS[3], ROOMS[4], "+".join(ROOMS[3:])}
    finally:
        live.close()


def test_a_half_that_does_not_open_at_the_second_centre_leaves_its_room_out(live: SummedHouse) -> None:
    def spoiled(room: str, message: FromAgent) -> list[FromAgent]:
        lies = room == ROOMS[1] and isinstance(message, Halved)
        return [replace(message, second=message.second[:-1] + b"\0")] if lies else [message]

    live.lies = spoiled
    outcomes = live.epoch(1, room_readings(1))
    assert "does not open" in outcomes[ROOMS[1]].missed[1]
    (made,) = live.estimates
    assert made.estimate.missing == (ROOMS[1],)
    assert any(ROOMS[1] in words and "left out" in words for words in live.said)


def test_without_a_second_centre_nothing_is_begun_and_with_too_few_rooms_there_is_no_sum(
    live: SummedHouse,
) -> None:
    live.epoch(1, room_readings(1))
    outcomes = live.epoch(2, room_readings(1), without=ROOMS[:2])
    assert all("only 3 of 5" in each.missed[2] for each in outcomes.values())
    live.spoils = lambda room, message: None if room == SECOND else message
    outcomes = live.epoch(3, room_readings(1))
    assert all("did not answer in time" in each.missed[3] for each in outcomes.values())
    assert len(live.estimates) == 1


def test_the_second_centre_answers_one_list_an_epoch_also_after_a_restart(live: SummedHouse) -> None:
    """A first centre that asks again, for a list without one room, would know that one's message by subtraction."""
    passed: list[FromCentre] = []
    live.spoils = lambda room, message: passed.append(message) or message if room == SECOND else message
    live.epoch(1, room_readings(1))
    second = live.second
    assert second is not None
    (halves,) = (each for each in passed if isinstance(each, Passed))
    (asked,) = (each for each in passed if isinstance(each, Wanted))
    terms = live.rounds[ROOMS[0]].terms
    fewer = replace(asked, members=terms.as_bits(range(1, 5)))
    (objected,) = second.hear(fewer)  # what it added up is forgotten
    assert isinstance(objected, Objected)
    for restart in (False, True):
        if restart:
            live.start_second()
            assert live.second is not None
            second = live.second
        assert second.hear(halves) == []
        with pytest.raises(VeilnetError, match="answered before"):
            second.hear(fewer)
    short = replace(asked, epoch=2, members=terms.as_bits(range(3)))
    live.spoils = lambda _, message: None if isinstance(message, Wanted) else message
    live.epoch(2, room_readings(1))
    with pytest.raises(VeilnetError, match="4 are needed"):
        second.hear(short)
    live.spoils = lambda _, message: message
    live.epoch(3, room_readings(1))
    live.until_estimated(3)


@pytest.mark.parametrize("answered", [False, True])
def test_a_second_centre_that_is_killed_anywhere_leaves_one_sum_or_none(
    tmp_path: Path, answered: bool
) -> None:
    """In each epoch it is killed at another message, before it hears it or before its answer is out."""
    live = SummedHouse(tmp_path, wait=3.0, second=True)
    heard, kill_at = [0], [0]

    def killed(room: str, message: FromCentre) -> FromCentre | None:
        if room != SECOND:
            return message
        heard[0] += 1
        if heard[0] != kill_at[0]:
            return message
        if answered and live.second is not None:
            live.second.hear(message)
        live.start_second()
        return None

    try:
        live.epoch(1, room_readings(1))
        live.spoils = killed
        outcomes = {}
        for epoch in range(2, 7):
            heard[0], kill_at[0] = 0, epoch - 1
            outcomes[epoch] = live.epoch(epoch, room_readings(1, seed=epoch))
        for epoch, outcome in outcomes.items():
            made = [each for each in live.estimates if each.epoch == epoch]
            assert len(made) == all(each.sent for each in outcome.values())
        assert len(live.estimates) > 2
        store = sqlite3.connect(tmp_path / "estimates.sqlite")
        with closing(store):
            (sums,) = store.execute("SELECT count(*) FROM messages").fetchone()
        assert sums == len(live.estimates)
    finally:
        live.close()


def test_halves_of_a_rooms_own_make_are_no_others(live: SummedHouse) -> None:
    """A first centre that has the halves of three rooms made by itself would see the fourth one's message."""
    made = sealed_box(bytes(32), bytes(16), bytes(12))
    answers: list[FromAgent] = []

    def forged(_: str, message: FromCentre) -> FromCentre:
        if isinstance(message, Passed):
            return replace(message, boxes=[message.boxes[0], *[made] * 4])
        return message

    live.spoils = forged
    live.lies = lambda room, message: answers.append(message) or [message] if room == SECOND else [message]
    outcomes = live.epoch(1, room_readings(1))
    assert not any(isinstance(each, Added) for each in answers)
    assert all(not each.sent for each in outcomes.values())


def test_a_stream_has_no_sums_by_halves(tmp_path: Path) -> None:
    summed_plan(stream=True).save(tmp_path)
    document = tmp_path / "center.json"
    seals = {party: Seal(party.encode().ljust(32, b".")) for party in (*ROOMS, SECOND)}
    with CentreStore(tmp_path / "estimates.sqlite") as store:
        centre = Centre(store, seals, TOPICS)
        with pytest.raises(InvalidPlan, match="rounds"):
            centre.take_up(document.read_bytes(), document)


def test_a_second_centre_that_was_away_is_asked_again(live: SummedHouse) -> None:
    """What it was asked while it was away is lost; it says hello when it is back."""
    lost: list[FromCentre] = []

    def away(room: str, message: FromCentre) -> FromCentre | None:
        if room != SECOND or not isinstance(message, Passed | Wanted) or len(lost) == 2:
            return message
        lost.append(message)
        if len(lost) == 2:
            live.start_second()
        return None

    live.spoils = away
    outcomes = live.epoch(1, room_readings(1))
    assert len(lost) == 2
    assert all(each.sent for each in outcomes.values())
    assert live.estimates[0].estimate.missing == ()


def test_the_process_of_a_second_centre_goes_on_where_it_is_asked_again(
    live: SummedHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first centre that hears its hello asks again. Its answer has the same bytes; after a restart: none."""
    asked: list[FromCentre] = []

    def held_back(room: str, message: FromCentre) -> FromCentre | None:
        if room != SECOND or not isinstance(message, Passed | Wanted):
            return message
        asked.append(message)
        return None

    live.spoils = held_back
    live.epoch(1, room_readings(1))
    keys = make_keys(tmp_path / "keys", [SECOND]).keys
    seal, said, sent = live.seals[SECOND], list[str](), list[SumMessage]()
    identities = {room: key.public_key() for room, key in live._identities.items()}
    monkeypatch.setattr(second_centre, "agent_identity", lambda _: live._identities[SECOND])
    monkeypatch.setattr(second_centre, "member_identities", lambda *_: identities)
    terms = [live.rounds[ROOMS[0]].terms]

    def process() -> SecondLink:
        assert live.second is not None
        credentials, store = Credentials(keys.agent(SECOND).folder), live.second._store
        link = SecondLink(store, seal, terms, TOPICS, credentials, ("localhost", 1), said.append)

        def publish(_: str, payload: bytes, qos: int) -> None:
            assert qos
            sent.append(read_message(seal.open_round(payload, by_agent=True)))

        monkeypatch.setattr(link._client, "publish", publish)
        return link

    def hear(link: SecondLink) -> None:
        for each in asked:
            payload = seal.round(written_message(each), by_agent=False)
            link._on_message(None, None, SimpleNamespace(payload=payload))
        assert link.failure is None

    link = process()
    hear(link)
    hear(link)
    assert [type(each) for each in sent] == [Added, Added]
    assert sent[0] == sent[1]
    hear(process())
    assert len(sent) == 2
    assert "answered before" in said[-1]


@pytest.fixture
def desk() -> HalvesDesk:
    return HalvesDesk("0" * 16, sums_of(Fusion(summed_plan())), 4.0, lambda *_: bytes(32))


def test_a_member_whose_half_for_the_second_centre_is_too_long_is_refused(desk: HalvesDesk) -> None:
    """The halves of all others go to that centre in messages of as many as fit, by the longest."""
    first = sealed_box(_key(bytes(32), 0, 1), bytes(32), bytes(12))
    numbers = next(iter(desk._seconds.values())).terms.numbers
    for more in (-1, 1, 60_000):
        with pytest.raises(SumRefused, match="no half"):
            desk.take(ROOMS[0], Halved(1, ROOMS[0], first, bytes(12 + 8 * numbers + 16 + more)), 0.0)
    desk.take(ROOMS[0], Halved(1, ROOMS[0], first, bytes(12 + 8 * numbers + 16)), 0.0)


def test_a_second_centre_that_is_not_known_is_asked_for_its_key_now_and_then(desk: HalvesDesk) -> None:
    """It answers for all groups each time, and gets the keys of all members then."""
    for room in ROOMS:
        desk.take(room, Hello(room, bytes(32), bytes(64)), 1.0)
    assert [each for each in desk.outgoing() if each[0] == SECOND] == [(SECOND, Roster([]))]
    desk.take(ROOMS[0], Hello(ROOMS[0], bytes(32), bytes(64)), 60.0)
    assert [each for each in desk.outgoing() if each[0] == SECOND] == [(SECOND, Roster([]))]


def test_a_second_centre_that_names_one_room_after_another_does_not_put_off_the_end(desk: HalvesDesk) -> None:
    first = sealed_box(_key(bytes(32), 0, 1), bytes(32), bytes(12))
    group = next(iter(desk._seconds.values()))
    for room in ROOMS:
        desk.take(room, Halved(1, room, first, bytes(12 + 8 * group.terms.numbers + 16)), 0.0)
    desk.advance(0.0)
    until = group.going[1].deadline
    desk.take(
        SECOND, Objected(1, second_of(group.terms.membership.group), group.terms.as_bits({0})), until - 0.1
    )
    assert group.going[1].asked == frozenset(range(1, len(ROOMS)))
    assert group.going[1].deadline == until
