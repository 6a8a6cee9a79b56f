"""A stolen agent, with its certificate and seal, must not speak for the network, nor be heard for ever.

It can seal what it likes in its own name. Where nobody else tells an epoch, or goes by a plan, there is nothing to
test its messages against: so nothing is estimated of what less than a quorum told.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.small_network import small_network
from veilnet._core.errors import InvalidRequest
from veilnet.designs import design
from veilnet.io.centre_files import load_centre
from veilnet.io.plan_files import save_plan
from veilnet.io.template import house
from veilnet.live.centre import Centre, Taken
from veilnet.live.estimating import StreamEstimator
from veilnet.live.messages import Message
from veilnet.live.status import read_status

THIEF = "bedroom"
FAR = 1_000_000
QUARTER = 900.0


@contextmanager
def running(folder: Path, plan: vn.Plan, **options: object) -> Iterator[Wired]:
    made = Wired(folder, plan, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def steal(
    wired: Wired,
    epoch: int,
    values: np.ndarray,
    *,
    agent: str = THIEF,
    plan: str = "",
    after: int | None = None,
) -> Taken:
    """A message of the thief's, and whatever the centre makes of it when the wait is over."""
    before = epoch - 1 if after is None else after
    wired.thefts = getattr(wired, "thefts", 0) + 1  # type: ignore[attr-defined]
    told = Message(
        (plan or wired.id)[:16], agent, b"stolen..", wired.thefts, epoch, before, True, values.tobytes()
    )
    taken = wired.centre.take([(TOPICS.messages(agent), wired.seals[agent].message(told))], wired.clock)
    wired.clock += 2 * wired.wait
    taken.estimates += wired.centre.take([], wired.clock).estimates
    return taken


def honest(wired: Wired, epoch: int, *, without: tuple[str, ...] = (THIEF,), seed: int = 0) -> Taken:
    """An epoch told by the others."""
    _, readings = house_readings(wired.plan, 1, seed)
    for agent, own in readings.items():
        if agent not in without:
            wired.agents[agent].take([epoch], own)
    taken = wired.hand_over()
    wired.clock += 2 * wired.wait
    taken.estimates += wired.centre.take([], wired.clock).estimates
    return taken


def believable(wired: Wired, agent: str = THIEF) -> np.ndarray:
    """Numbers that the prior does not contradict, of a house that is warmer than the true one."""
    _, readings = house_readings(wired.plan, 1, seed=3)
    return np.atleast_2d(wired.plan.sanitizers[agent].stream().sanitize(readings[agent]))[0]


def estimated(wired: Wired) -> list[int]:
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        return [row[0] for row in database.execute("SELECT DISTINCT epoch FROM estimates ORDER BY epoch")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_an_epoch_of_its_own_is_never_estimated(tmp_path: Path, stream: bool, first: bool) -> None:
    with running(tmp_path, house_plan(stream=stream)) as wired:
        if not first:
            honest(wired, 1)
        assert steal(wired, FAR, believable(wired)).estimates == []
        assert steal(wired, 50, believable(wired)).estimates == []
        assert [each.epoch for each in honest(wired, 2, seed=1).estimates] == [2]
        wired.start_centre()
        assert [each.epoch for each in honest(wired, 3, seed=2).estimates] == [3]
        assert set(estimated(wired)) == ({2, 3} if first else {1, 2, 3})


def test_it_cannot_draw_a_stream_ahead_so_that_the_others_come_too_late(tmp_path: Path) -> None:
    with running(tmp_path, house_plan(stream=True)) as wired:
        honest(wired, 1)
        steal(wired, 5000, believable(wired))
        for epoch in range(2, 6):
            assert [each.epoch for each in honest(wired, epoch, seed=epoch).estimates] == [epoch]
        assert not [agent for agent, reason in wired.centre.store.counts if reason == "late"]


def test_it_cannot_end_the_wait_for_the_others_of_a_stream(tmp_path: Path) -> None:
    """Its rows ahead have deadlines that have passed; those of other rows have not."""
    with running(tmp_path, house_plan(stream=True)) as wired:
        honest(wired, 1)
        steal(wired, 5000, believable(wired))
        _, readings = house_readings(wired.plan, 1, 2)
        for agent, own in readings.items():
            if agent not in (THIEF, "study"):
                wired.agents[agent].take([2], own)
        assert wired.hand_over().estimates == []  # the study may still come
        assert wired.centre.next_deadline() == wired.clock + wired.wait


def test_a_plan_that_nobody_else_goes_by_gives_it_no_estimate_of_its_own(tmp_path: Path) -> None:
    with running(tmp_path, house_plan()) as wired:
        network = wired.plan.network
        newer = design(network.replace(resolution=dict.fromkeys(network.agents, 0.5)))
        save_plan(newer, tmp_path / "new")
        path = tmp_path / "new" / "center.json"
        wired.centre.take_up(path.read_bytes(), path)
        for agent in wired.agents:
            wired.agents[agent].take_up(newer.sanitizers[agent], load_centre(path).plan)
        assert [each.plan for each in honest(wired, 7).estimates] == [load_centre(path).plan]
        assert steal(wired, 7, believable(wired), plan=wired.id).estimates == []


@pytest.mark.parametrize("stream", [False, True])
def test_one_agent_alone_is_no_quorum_where_nothing_can_judge_it(tmp_path: Path, stream: bool) -> None:
    with running(tmp_path, house_plan(stream=stream), quorum=1, gate=None) as wired:
        assert steal(wired, 1, believable(wired)).estimates == []
    (tmp_path / "judged").mkdir()
    with running(tmp_path / "judged", house_plan(stream=stream), quorum=1) as wired:
        assert (
            len(steal(wired, 1, believable(wired)).estimates) == 1
        )  # the prior, or the rows before, judge it


def test_without_a_prior_the_gate_judges_nobody_alone(tmp_path: Path) -> None:
    plan = design(small_network().replace(prior=None))
    agent = next(a for a in plan.network.agents if plan.sanitizers[a].sent > 0)
    with running(tmp_path, plan, quorum=1) as wired:
        assert steal(wired, 1, np.zeros(plan.sanitizers[agent].sent), agent=agent).estimates == []


def test_what_is_retained_is_the_newest_epoch_that_most_have_come_near(tmp_path: Path) -> None:
    """Even where its owner asks for no quorum, and whether the thief came first or not."""
    late = "study"
    for first in (False, True):
        folder = tmp_path / str(first)
        folder.mkdir()
        with running(folder, house_plan(), quorum=1) as wired:
            if not first:
                honest(wired, 4, without=(THIEF, late))
            [far] = steal(wired, FAR, believable(wired)).estimates
            assert far.current == first  # where nobody else was heard there is nothing to be far from
            honest(wired, 5, without=(THIEF, late), seed=1)
            wired.start_centre()
            [newest] = honest(wired, 6, without=(THIEF, late), seed=2).estimates
            [old] = honest(
                wired, 5, without=tuple(agent for agent in wired.agents if agent != late)
            ).estimates
            assert (newest.epoch, newest.current, newest.newest) == (6, True, True)
            assert (old.epoch, old.revision, old.current, old.newest) == (5, 1, True, False)


def in_steps(seconds: float) -> int:
    return int(seconds // QUARTER) + 1


def test_an_epoch_ahead_of_the_clock_is_not_used_even_when_its_time_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    ahead = in_steps(now + 30 * 86400)
    with running(tmp_path, house_plan(), step="15min") as wired:
        _, readings = house_readings(wired.plan, 1)
        for agent, own in readings.items():  # all clocks went wrong
            wired.agents[agent].take([ahead], own)
        taken = wired.hand_over()
        assert (taken.new, taken.estimates) == (5, [])
        assert {reason for _, reason in wired.centre.store.counts} == {"far"}
        wired.clock += 2 * wired.wait
        assert wired.centre.take([], wired.clock).estimates == []
        monkeypatch.setattr(time, "time", lambda: now + 30 * 86400)
        wired.start_centre()
        wired.clock += 2 * wired.wait
        assert wired.centre.take([], wired.clock).estimates == []


def test_the_books_take_last_year_and_readers_are_told_of_this_week(tmp_path: Path) -> None:
    now = time.time()
    with running(tmp_path, house_plan(), step="15min") as wired:
        old, new = in_steps(now - 365 * 86400), in_steps(now)
        told = honest(wired, old).estimates + honest(wired, new, seed=1).estimates
        assert [(each.epoch, each.current, each.newest) for each in told] == [
            (old, False, False),
            (new, True, True),
        ]


def test_a_quorum_is_among_those_who_send(tmp_path: Path) -> None:
    path = tmp_path / "plan" / "center.json"
    with running(tmp_path, house_plan()) as wired:
        centre = Centre(wired.centre.store, wired.seals, TOPICS, quorum=6)
        with pytest.raises(InvalidRequest, match="--quorum: expected 1 to 5"):
            centre.take_up(path.read_bytes(), path)


def take_up_without(wired: Wired, *gone: str) -> tuple[Path, vn.Plan]:
    """Let the centre go by a plan that has some agents no more; its file, and the plan."""
    network = wired.plan.network
    smaller = vn.Network(
        observe={agent: rows for agent, rows in network.observe.items() if agent not in gone},
        noise=0.25,
        public=network.public,
        private=network.private,
        prior=network.prior,
    )
    newer = design(smaller)
    save_plan(newer, wired.folder / "new")
    path = wired.folder / "new" / "center.json"
    wired.centre.take_up(path.read_bytes(), path)
    return path, newer


def test_an_agent_that_left_the_plan_is_heard_no_more(tmp_path: Path) -> None:
    with running(tmp_path, house_plan()) as wired:
        honest(wired, 1)
        path, _ = take_up_without(wired, THIEF)
        for restarted in (False, True):
            if restarted:
                wired.document = path.read_bytes()
                wired.start_centre()
            before = json.dumps(estimated(wired))
            taken = steal(wired, 1, believable(wired))
            assert (taken.new, taken.refused, taken.estimates) == (0, 1, [])
            assert [receipt.refused for _, receipt in taken.receipts] == [[(wired.thefts, "gone")]]
            assert json.dumps(estimated(wired)) == before
        # who is still in it may send what it has by the plan before
        assert wired.centre.take([(TOPICS.messages("study"), b"")], wired.clock).refused == 1
        assert honest(wired, 2, seed=1).new == 4


def test_an_agent_that_comes_back_by_a_plan_that_the_centre_has_yet_to_read_loses_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path, house_plan()) as wired:
        take_up_without(wired, THIEF)
        taken = steal(wired, 1, believable(wired), plan="f" * 64)
        assert (taken.refused, taken.receipts) == (1, [])  # so that it keeps the message, and sends it again
        assert wired.centre.store.counts[THIEF, "plan"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_by_a_plan_before_of_fewer_agents_no_fewer_speak_for_the_network(
    tmp_path: Path, stream: bool
) -> None:
    """Two of two were a quorum; two of five are none, whichever plan they name, and a restart changes nothing."""
    whole = house(stream=stream)
    pair = ("kitchen", THIEF)
    small = design(vn.Network(
        observe={agent: whole.observe[agent] for agent in pair}, noise=0.25, public=whole.public,
        private=whole.private, prior=whole.prior, dynamics=whole.dynamics,
    ))  # fmt: skip
    with running(tmp_path, small) as wired:
        assert len(honest(wired, 1, without=()).estimates) == 1
        save_plan(house_plan(stream=stream), tmp_path / "grown")
        path = tmp_path / "grown" / "center.json"
        wired.centre.take_up(path.read_bytes(), path)
        for epoch in (2, 3):
            assert honest(wired, epoch, without=(), seed=epoch).estimates == []
            wired.document = path.read_bytes()
            wired.start_centre()
        assert estimated(wired) == [1]


def test_agents_that_left_the_plan_do_not_hold_estimates_of_rows_back(tmp_path: Path) -> None:
    with running(tmp_path, house_plan()) as wired:
        honest(wired, 1, without=())
        left = ("bedroom", "kitchen", "study")
        path, newer = take_up_without(wired, *left)
        for agent in newer.network.agents:
            wired.agents[agent].take_up(newer.sanitizers[agent], load_centre(path).plan)
        [made] = honest(wired, FAR, without=left).estimates
        assert (made.current, made.newest) == (True, True)
        assert read_status(tmp_path / "estimates.sqlite").newest == FAR


def test_a_stream_is_not_begun_anew_for_every_message_that_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time all that the store holds would go through the filter again."""
    with running(tmp_path, house_plan(stream=True)) as wired:
        honest(wired, 10, without=())
        begun = []
        begin = StreamEstimator._begin
        monkeypatch.setattr(
            StreamEstimator, "_begin", lambda self, now: begun.append(now) or begin(self, now)
        )
        for epoch in range(11, 15):
            assert steal(wired, epoch, believable(wired), after=1).new == 1
        assert begun == []
