"""Sums of a stream, live: members' memories hold the same rows, or begin anew together.

Oracle: every room's own stream in this process, with the same seeded noise and told by hand which rows it missed;
what they send is added up and goes through the same filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import veilnet as vn
from helpers.summed_house import ROOMS, SummedHouse, summed_plan
from veilnet._core.types import Array
from veilnet.agent.membership import Membership
from veilnet.agent.memory import Memory
from veilnet.agent.randomness import noise_source
from veilnet.agent.stream import Stream
from veilnet.auditing.worlds import world_of
from veilnet.live.agent import check_runnable
from veilnet.live.centre import USUAL_GATE
from veilnet.sums.rehearsal import Rehearsal
from veilnet.sums.terms import FromAgent, SealedShares, Sharing, SumRefused, Terms

ROWS = 8
(GROUP,) = summed_plan(stream=True).network.agents


def stream_readings() -> dict[str, Array]:
    """room -> readings of some rows, as the house's model has them."""
    network = summed_plan(stream=True).network
    trial = world_of(network).learnable.trial(summed_plan(stream=True).sanitizers)
    rows = trial.draw(1, np.random.default_rng(2)).readings[0][:ROWS]
    mine = network.members[GROUP].blocks
    return {room: rows[:, mine.rows(k)] for k, room in enumerate(ROOMS)}


class Expected:
    """What the rooms send, row after row, and what the centre makes of it."""

    def __init__(self, plan: vn.Plan) -> None:
        self.plan = plan
        self.fusion = vn.Fusion(plan, gate=USUAL_GATE)
        self.streams = {room: self.stream(room) for room in ROOMS}

    def stream(self, room: str, state: Array | None = None) -> Stream:
        """A room's stream, from the beginning of its noise."""
        return Stream(self.plan.members[room].recipe, noise_source(ROOMS.index(room)), state)

    def row(self, row: int, readings: dict[str, Array]) -> Array:
        """All rooms read."""
        sent = [self.streams[room].advance(readings[room][row - 1 : row])[0][0] for room in ROOMS]
        return self.fusion.update({GROUP: sum(sent)}, row=row).public

    def missed(self, row: int) -> None:
        """Nobody does."""
        for room in ROOMS:
            self.streams[room].skip(1)
        self.fusion.update({}, missed=[GROUP], row=row)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SummedHouse]:
    made = SummedHouse(tmp_path, wait=4.0, stream=True)
    yield made
    made.close()


def test_estimates_have_the_bits_of_the_plain_sums_through_misses_and_restarts(live: SummedHouse) -> None:
    readings, expected = stream_readings(), Expected(live.plan)
    hidden = {room: rows.copy() for room, rows in readings.items()}
    hidden[ROOMS[1]][2] = np.nan

    def run(epoch: int, *without: str) -> int:
        outcomes = live.epoch(epoch, {room: hidden[room][epoch - 1 : epoch] for room in ROOMS}, without)
        return sum(each.sent for each in outcomes.values())

    for epoch in (1, 2):
        assert run(epoch) == len(ROOMS)
        np.testing.assert_array_equal(live.estimates[-1].estimate.public, expected.row(epoch, readings))
    assert run(3) == 0  # one room has no reading: nobody's enters
    assert any("had no reading of it" in words for words in live.said)
    assert run(4) == len(ROOMS)
    expected.missed(3)
    np.testing.assert_array_equal(live.estimates[-1].estimate.public, expected.row(4, readings))
    live.start(ROOMS[2])  # a restart between two rows loses nothing
    expected.streams[ROOMS[2]] = expected.stream(ROOMS[2], expected.streams[ROOMS[2]].state)
    assert run(5) == len(ROOMS)
    np.testing.assert_array_equal(live.estimates[-1].estimate.public, expected.row(5, readings))
    # one room does not hear who is there: the others took the row in, and all begin anew after the next
    live.spoils = lambda room, said: None if room == ROOMS[0] and isinstance(said, Sharing) else said
    assert run(6) == 0
    live.spoils = lambda _, said: said
    assert run(7) == 0
    assert any("missed one that others have" in words for words in live.said)
    assert run(8) == len(ROOMS)
    for room in ROOMS[1:]:
        expected.streams[room].advance(readings[room][5:6])
        expected.streams[room].skip(1)
    expected.streams[ROOMS[0]].skip(2)
    expected.fusion.update({}, missed=[GROUP], row=7)
    np.testing.assert_array_equal(live.estimates[-1].estimate.public, expected.row(8, readings))
    assert [each.epoch for each in live.estimates if GROUP not in each.estimate.missing] == [1, 2, 4, 5, 8]


def test_a_room_that_is_away_leaves_no_sum_of_the_others(live: SummedHouse) -> None:
    """It would show other rows than the model has, and tell more: all must be there."""
    readings = stream_readings()
    assert live.plan.network.members[GROUP].threshold == len(ROOMS)
    live.epoch(1, {room: rows[:1] for room, rows in readings.items()})
    live.epoch(2, {room: rows[1:2] for room, rows in readings.items()}, without=[ROOMS[3]])
    assert [each.epoch for each in live.estimates] == [1]
    assert [agent.remembers for agent in live.agents.values()] == [1] * len(ROOMS)  # nobody took row 2 in
    assert any("only 4 of 5 sent shares" in words for words in live.said)


def _terms(plan: vn.Plan) -> Terms:
    member = plan.members[ROOMS[0]]
    assert member.summed is not None
    return Terms("0" * 16, member.summed, member.sent)


@pytest.mark.parametrize("lie", ["others' rows", "nobody missed", "a smaller group"])
def test_a_centre_cannot_make_members_add_up_other_rows(lie: str) -> None:
    """What the boxes say counts, not what the centre lets pass; then nobody masks anything."""
    members = Rehearsal(_terms(summed_plan(stream=True)))
    centre = members.begin(5)
    behind = members.agents[ROOMS[1]].begin(6, 6)
    late = {name: members.agents[name].begin(6, 2) for name in ROOMS if name != ROOMS[1]}
    centre = type(centre)(members.terms, 6)
    for message in (*late.values(), replace(behind, since=2) if lie == "others' rows" else behind):
        centre.take(message)
    if lie != "others' rows":
        with pytest.raises(vn.VeilnetError, match="missed one that others have"):
            centre.close_sharing()
        for number, message in centre.shares.items():
            centre.shares[number] = replace(message, since=2)
    told = centre.close_sharing()
    if lie == "a smaller group":
        fewer = members.terms.as_bits([k for k in range(len(ROOMS)) if k != 1])
        told = {name: replace(said, present=fewer) for name, said in told.items()}
    messages = dict.fromkeys(ROOMS, np.zeros(members.terms.numbers, np.uint64))
    assert members.tell(centre, told, messages) == []
    assert len(members.said) == len(ROOMS)
    assert not centre.masked


def test_a_member_of_rows_that_speaks_of_a_memory_keeps_nobody_from_a_sum(tmp_path: Path) -> None:
    """In the clear it is malformed; in the boxes alone the shares count as not opening, and it is left out."""
    terms = _terms(summed_plan())
    members = Rehearsal(terms)
    centre = members.begin(1)
    with pytest.raises(SumRefused, match="malformed"):
        type(centre)(terms, 1).take(replace(centre.shares[0], since=3))
    live = SummedHouse(tmp_path, wait=3.0)
    liar = ROOMS[0]

    def spoken(room: str, message: FromAgent) -> list[FromAgent]:
        if room == liar and isinstance(message, SealedShares):
            agent = live.rounds[room].agent
            begin, agent._begin = agent._begin, lambda _: None  # it was begun by the message that is replaced
            said = agent.begin(message.epoch, 9)
            agent._begin = begin
            return [replace(said, since=0)]
        return [message]

    try:
        live.lies = spoken
        rows = {room: rows[:1] for room, rows in stream_readings().items()}
        for epoch in (1, 2):
            live.epoch(epoch, rows)
        assert [list(each.estimate.missing) for each in live.estimates if each.epoch == 2] == [[liar]]
    finally:
        live.close()


def test_members_whose_memories_cannot_begin_anew_together_are_refused() -> None:
    member = summed_plan(stream=True).members[ROOMS[0]]
    check_runnable(member, "a plan")
    assert member.memory is not None
    assert member.summed is not None
    undrawn = member.replace(memory=Memory(member.memory.transition, member.memory.gain))
    group = member.summed
    fewer = member.replace(summed=Membership(group.group, group.members, len(ROOMS) - 1, group.bits))
    for each in (undrawn, fewer):
        with pytest.raises(vn.InvalidPlan, match="all members have to be there"):
            check_runnable(each, "a plan")
