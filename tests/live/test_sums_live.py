"""Agents and a centre of a summed plan: estimates with the bits of the plain sum, dropouts, and a centre that lies.

Oracle: what each room would have sent bare, by its sanitizer with the same seed, added up and fused in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import veilnet as vn
from helpers.summed_house import ROOMS, SummedHouse, room_readings, summed_plan
from veilnet._core.types import Array
from veilnet.agent.randomness import noise_source
from veilnet.centre.fusion import Fusion
from veilnet.io.agent_store import begin_agent_store
from veilnet.live.agent import LiveAgent
from veilnet.live.fusions import sums_of
from veilnet.live.sum_desk import SumDesk
from veilnet.sums.rehearsal import Rehearsal
from veilnet.sums.terms import (
    Ended,
    FromAgent,
    FromCentre,
    Hello,
    SealedShares,
    Sharing,
    SumRefused,
    Survivors,
)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SummedHouse]:
    made = SummedHouse(tmp_path)
    yield made
    made.close()


def bare(live: SummedHouse, readings: dict[str, Array]) -> dict[str, Array]:
    """What each room would send bare, of one row."""
    return {
        room: live.sanitizers[room].release(readings[room], noise_source(k)).values[0]
        for k, room in enumerate(ROOMS)
    }


def test_the_estimate_has_the_bits_of_the_plain_sum(live: SummedHouse) -> None:
    readings = room_readings(1)
    outcomes = live.epoch(1, readings)
    assert {room: each.sent for room, each in outcomes.items()} == dict.fromkeys(ROOMS, 1)
    (made,) = live.estimates
    sent = bare(live, readings)
    expected = Fusion(live.plan).estimate({live.plan.network.agents[0]: sum(sent.values())})
    np.testing.assert_array_equal(made.estimate.public, expected.public)
    assert made.estimate.missing == ()
    assert {*live.said} <= {"waiting for the keys of the other members"}
    assert all(agent.store.count_waiting() == 0 for agent in live.agents.values())
    assert all(agent.store.ledger().releases == 1 for agent in live.agents.values())


def test_a_room_that_is_away_is_missing_and_the_error_says_so(live: SummedHouse) -> None:
    live.epoch(1, room_readings(1))
    gone = ROOMS[1]
    readings = room_readings(1, seed=1)
    live.epoch(2, readings, without=[gone])
    whole, lacking = live.estimates
    assert lacking.estimate.missing == (gone,)
    assert np.trace(lacking.estimate.covariance) > np.trace(whole.estimate.covariance)


def test_sums_of_groups_and_a_room_alone_make_one_estimate(tmp_path: Path) -> None:
    """As in process; where one group has too few, the other sum and the room alone make it."""
    groups = (ROOMS[:2], ROOMS[2:4])
    live = SummedHouse(tmp_path, wait=3.0, groups=groups)
    try:
        readings, alone = room_readings(1), ROOMS[4]
        live.epoch(1, readings)
        live.until_estimated(1)
        sent = bare(live, readings)
        names = ["+".join(group) for group in groups]
        sums = {name: sum(sent[room] for room in group) for name, group in zip(names, groups, strict=True)}
        fusion = Fusion(live.plan)
        expected = fusion.estimate(sums | {alone: sent[alone]})
        np.testing.assert_array_equal(live.estimates[-1].estimate.public, expected.public)
        assert live.estimates[-1].estimate.missing == ()
        live.epoch(2, readings, without=ROOMS[2:4])
        live.until_estimated(2)
        lacking = live.estimates[-1].estimate
        assert set(lacking.missing) == {*ROOMS[2:4], names[1]}
        weaker = fusion.estimate({names[0]: sums[names[0]], alone: sent[alone]}, missing=ROOMS[2:4])
        np.testing.assert_array_equal(lacking.covariance, weaker.covariance)
    finally:
        live.close()


def test_what_a_broker_brings_twice_is_answered_once(live: SummedHouse) -> None:
    for rounds in live.rounds.values():
        hear = rounds.hear
        rounds.hear = lambda message, hear=hear: (hear(message), hear(message))  # type: ignore[method-assign]
    outcomes = live.epoch(1, room_readings(1))
    assert {room: each.sent for room, each in outcomes.items()} == dict.fromkeys(ROOMS, 1)
    assert live.estimates[0].estimate.missing == ()


def test_too_few_rooms_give_no_estimate_and_all_say_so(live: SummedHouse) -> None:
    live.epoch(1, room_readings(1))
    del live.estimates[:]
    outcomes = live.epoch(2, room_readings(1), without=ROOMS[:2])
    assert not live.estimates
    assert all(not each.sent for each in outcomes.values())
    assert all("only 3 of 5 sent shares" in each.missed[2] for each in outcomes.values())
    assert any("there is no sum" in words for words in live.said)
    ledgers = [live.agents[room].store.ledger() for room in ROOMS[2:]]
    assert [each.releases for each in ledgers] == [1, 1, 1]
    assert [each.epoch for each in ledgers] == [2, 2, 2]


def test_what_the_centre_says_of_an_epoch_is_no_line_of_the_rooms_own(live: SummedHouse) -> None:
    """A lying centre writes what it likes, and the room's owner reads it: in one line, without escapes."""
    lie = "\r\x1b[2J\nveilnet agent: 900 releases" + 10_000 * "."
    live.spoils = lambda _, message: replace(message, why=lie) if isinstance(message, Ended) else message
    outcomes = live.epoch(1, room_readings(1))
    for each in outcomes.values():
        assert each.missed[1].isprintable()
        assert len(each.missed[1]) <= 500


def test_a_room_without_a_reading_drops_out_before_it_masks(live: SummedHouse) -> None:
    readings = room_readings(1)
    readings[ROOMS[0]] = np.full_like(readings[ROOMS[0]], np.nan)
    outcomes = live.epoch(1, readings)
    assert "missing" in outcomes[ROOMS[0]].missed[1]
    (made,) = live.estimates
    assert made.estimate.missing == (ROOMS[0],)


def test_a_centre_that_calls_a_room_dropped_is_refused_by_it(live: SummedHouse) -> None:
    terms = live.rounds[ROOMS[0]].terms
    lie = terms.as_bits(range(1, 5))

    def spoil(_: str, message: FromCentre) -> FromCentre | None:
        return Survivors(message.epoch, lie) if isinstance(message, Survivors) else message

    live.spoils = spoil
    outcomes = live.epoch(1, room_readings(1))
    assert "the centre says that this agent did not: survived" in outcomes[ROOMS[0]].missed[1]


def test_an_epoch_is_never_begun_twice_though_the_room_is_killed_in_it(live: SummedHouse) -> None:
    """It is told as missed after the restart, and nothing else of it."""
    room = ROOMS[0]
    live.spoils = lambda name, message: None if name == room and isinstance(message, Sharing) else message
    readings = room_readings(1)
    outcomes = live.epoch(1, readings)
    assert "not in the sum" in outcomes[room].missed[1]
    live.spoils = lambda _, message: message
    live.start(room)
    assert live.agents[room].store.sent_before([1]) == {1}
    with pytest.raises(Exception, match="sent before"):
        live.agents[room].take([1], readings[room])
    live.epoch(2, readings)
    assert live.estimates[-1].epoch == 2
    assert live.estimates[-1].estimate.missing == ()


def test_a_room_killed_while_an_epoch_is_begun_says_nothing_of_it_later(live: SummedHouse) -> None:
    room = ROOMS[0]
    live.agents[room].store.reserve(live.plan_id, [1])
    live.start(room)
    assert live.agents[room].recover() == [1]
    assert live.agents[room].store.count_waiting() == 0
    assert live.agents[room].store.ledger().releases == 0
    assert not live.agents[room].store.unfinished()


def test_a_plan_of_sums_runs_in_no_other_way(live: SummedHouse) -> None:
    room = ROOMS[0]
    agent = live.agents[room]
    with pytest.raises(Exception, match="restart the agent"):
        LiveAgent(agent.store, live.seals[room], live.sanitizers[room], live.plan_id)


def test_a_store_that_is_begun_anew_has_another_key(live: SummedHouse) -> None:
    """The masks of an epoch follow from the keys: a store that forgot its epochs must not repeat them."""
    room = ROOMS[0]
    before = live.rounds[room]._hello.public
    live.start(room)
    assert live.rounds[room]._hello.public == before
    live.agents[room].store.close()
    (live.folder / f"{room}.sqlite").unlink()
    begin_agent_store(live.folder / f"{room}.sqlite", room)
    live.start(room)
    assert live.rounds[room]._hello.public != before


def test_a_running_room_takes_up_no_other_plan_of_its_sum(live: SummedHouse) -> None:
    """Terms are of one plan: members of two plans would add up what does not belong together."""
    room = ROOMS[0]
    with pytest.raises(vn.InvalidPlan, match="restart the agent"):
        live.agents[room].take_up(live.sanitizers[room], "f" * 32)


LIAR = ROOMS[0]


def _lying(lie: str) -> Callable[[str, FromAgent], list[FromAgent]]:
    def said(room: str, message: FromAgent) -> list[FromAgent]:
        if room != LIAR:
            return [message]
        if isinstance(message, Hello) and lie == "a badly signed key":
            return [replace(message, signature=bytes(64))]
        if isinstance(message, SealedShares):
            found: dict[str, list[FromAgent]] = {
                "another key in mid-epoch": [message, Hello(LIAR, bytes(31) + b"\1", bytes(64))],
                "shares that do not open": [
                    replace(message, sealed=[bytes(len(box)) for box in message.sealed])
                ],
                "no shares for anybody": [replace(message, sealed=[b""] * len(message.sealed))],
                "another commitment": [replace(message, commitment=bytes(64))],
            }
            return found.get(lie, [message])
        return [message]

    return said


@pytest.mark.parametrize(
    ("lie", "first"),
    [
        ("a badly signed key", [[LIAR]]),
        ("another key in mid-epoch", None),  # whose keys were met before it came is a race
        ("shares that do not open", [None]),
        ("no shares for anybody", [[LIAR]]),
        ("another commitment", [None]),
    ],
)
def test_one_who_lies_is_left_out_and_the_others_go_on(
    tmp_path: Path, lie: str, first: list[list[str] | None] | None
) -> None:
    """One epoch at most is lost; ``first``: who may be missing from its sum, None for no sum; or None for any."""
    live = SummedHouse(tmp_path, wait=3.0)
    try:
        live.lies = _lying(lie)
        for epoch in (1, 2):
            live.epoch(epoch, room_readings(1, seed=epoch))
        found = {each.epoch: list(each.estimate.missing) for each in live.estimates}
        assert first is None or found.get(1) in first
        assert found.get(2) == [LIAR]
        assert any(LIAR in words for words in live.said)
    finally:
        live.close()


def test_one_who_begins_many_epochs_keeps_nobody_from_theirs() -> None:
    """A member is in one epoch at a time: of 40 far ahead the last is open, and the others begin theirs."""
    desk = SumDesk("0" * 16, sums_of(Fusion(summed_plan())), wait=4.0)
    members = Rehearsal(desk._groups[0].terms)
    for hello in members.roster.hellos:
        desk.take(hello.agent, hello, 0.0)
    for epoch in range(1000, 1040):
        desk.take(LIAR, members.agents[LIAR].begin(epoch), 0.0)
    desk.outgoing()
    for room in ROOMS[1:]:
        desk.take(room, members.agents[room].begin(1), 0.5)
    desk.advance(1.6)
    assert [room for room, said in desk.outgoing() if isinstance(said, Sharing)] == list(ROOMS[1:])
    assert [each.epoch for each in desk.ended()] == [1039]


def test_shares_that_are_malformed_begin_no_epoch() -> None:
    desk = SumDesk("0" * 16, sums_of(Fusion(summed_plan())), wait=4.0)
    members = Rehearsal(desk._groups[0].terms)
    for hello in members.roster.hellos:
        desk.take(hello.agent, hello, 0.0)
    good = members.agents[LIAR].begin(1)
    for epoch in range(1, 40):
        with pytest.raises(SumRefused, match="malformed"):
            desk.take(LIAR, replace(good, epoch=epoch, commitment=b""), 0.0)
    assert desk.next_deadline() is None
    desk.advance(1.6)
    assert desk.ended() == []


def test_keys_that_were_met_are_known_after_a_restart(live: SummedHouse) -> None:
    room = ROOMS[1]
    live.epoch(1, room_readings(1))
    before = live.rounds[room].agent.known
    live.start(room)
    assert live.rounds[room].agent.known == before
    assert len(before) == len(ROOMS) - 1
    assert live.rounds[room].agent.complete
    live.rounds[room]._store.repair_clock(0, 2e9)
    live.start(room)
    assert live.rounds[room].agent.known == before
