"""A new version of a plan is taken up while agents and centre run: no epoch is lost, old messages stay true."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.live_networks import Wired, house_plan, house_readings
from helpers.said import says
from veilnet._core.errors import InvalidPlan
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion
from veilnet.centre.messages import centre_model
from veilnet.centre.models import can_mix
from veilnet.io.acceptance import PlanFile
from veilnet.io.centre_files import load_centre
from veilnet.io.plan_files import save_plan
from veilnet.live.messages import SHORT
from veilnet.live.plan_watch import PlanWatch
from veilnet.plans.plan import Plan

EPOCHS = 6
SWITCH = {
    "kitchen": 3,
    "living room": 4,
    "hall": 4,
    "bedroom": 4,
    "study": 5,
}  # the first epoch by the new plan


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    yield made
    made.close()


@pytest.fixture
def newer(tmp_path: Path) -> tuple[Plan, str, Path]:
    """Another plan of the house: (plan, its id, its centre file)."""
    plan = house_plan().network
    changed = Plan.load(_saved(tmp_path / "new", plan.replace(resolution=dict.fromkeys(plan.agents, 0.5))))
    path = tmp_path / "new" / "center.json"
    return changed, load_centre(path).plan, path


def _saved(folder: Path, network: object) -> Path:
    from veilnet.designs import design

    save_plan(design(network), folder)  # type: ignore[arg-type]
    return folder


def test_no_epoch_is_lost_and_old_messages_are_fused_by_the_old_plan(
    wired: Wired, newer: tuple[Plan, str, Path]
) -> None:
    plan, name, path = newer
    _, readings = house_readings(wired.plan, EPOCHS)
    for agent, own in readings.items():
        running = wired.agents[agent]
        for epoch in range(1, EPOCHS + 1):
            if epoch == SWITCH[agent]:
                running.take_up(plan.sanitizers[agent], name)
            running.take([epoch], own[epoch - 1 : epoch])
    sent = {
        agent: [wired.seals[agent].open_message(payload) for payload in wired.outbox(agent)]
        for agent in readings
    }
    # the centre does not know the new plan yet: nothing is lost, agents keep what it does not take
    early = wired.hand_over()
    assert early.refused == sum(EPOCHS + 1 - first for first in SWITCH.values())
    assert {reason for _, reason in wired.centre.store.counts} == {"plan"}
    assert wired.centre.take_up(path.read_bytes(), path)
    assert not wired.centre.take_up(path.read_bytes(), path)
    assert wired.hand_over().refused == 0
    wired.clock += 2 * wired.wait
    wired.centre.take([], wired.clock)
    wired.start_centre()  # and all of it after a restart
    assert wired.centre.plans == (wired.id, name)
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        rows = database.execute(
            "SELECT epoch, p.plan, public, missing FROM latest JOIN plans p ON p.number = latest.plan"
        ).fetchall()
    fusions = {wired.id: Fusion(wired.plan, gate=1e-6), name: Fusion(plan, gate=1e-6)}
    assert {epoch for epoch, *_ in rows} == set(range(1, EPOCHS + 1))
    for epoch, by, public, missing in rows:
        told = {
            agent: message.numbers()
            for agent, messages in sent.items()
            for message in messages
            if message.epoch == epoch and message.plan == by[:SHORT]
        }
        assert set(json.loads(missing)) == set(readings) - set(told)
        assert np.array(json.loads(public)).tobytes() == fusions[by].estimate(told).public.tobytes()
    # in epochs 3 and 4 some went by either plan: the estimate is that of the plan that a quorum went by
    assert sorted((epoch, by == name) for epoch, by, *_ in rows) == [
        (k, k >= 4) for k in range(1, EPOCHS + 1)
    ]


class RollOver:
    """Agents that change from one plan of the house to another of the same network, each at its own epoch."""

    def __init__(self, wired: Wired) -> None:
        self.wired, self.newer = wired, house_plan(privacy=3.0)
        save_plan(self.newer, wired.folder / "newer")
        self.path = wired.folder / "newer" / "center.json"
        self.name = load_centre(self.path).plan
        _, readings = house_readings(wired.plan, EPOCHS)
        for agent, own in readings.items():
            running = wired.agents[agent]
            for epoch in range(1, EPOCHS + 1):
                if epoch == SWITCH[agent]:
                    running.take_up(self.newer.sanitizers[agent], self.name)
                running.take([epoch], own[epoch - 1 : epoch])
        self.sent = {
            agent: {
                message.epoch: message.numbers()
                for message in map(wired.seals[agent].open_message, wired.outbox(agent))
            }
            for agent in readings
        }

    def expected(self, epoch: int, *left_out: str) -> Estimate:
        """By a fusion that was made for what each agent did, from the network."""
        chosen = {
            agent: (self.newer if epoch >= SWITCH[agent] else self.wired.plan).sanitizers[agent]
            for agent in self.sent
        }
        fusion = Fusion(centre_model(self.wired.plan.network, chosen), gate=1e-6)
        return fusion.estimate({a: told[epoch] for a, told in self.sent.items() if a not in left_out})

    def estimates(self) -> list[tuple[int, str, int, list[float], list[list[float]], list[str]]]:
        with closing(sqlite3.connect(self.wired.folder / "estimates.sqlite")) as database:
            rows = database.execute(
                "SELECT epoch, p.plan, revision, public, covariance, missing FROM latest "
                "JOIN plans p ON p.number = latest.plan ORDER BY epoch"
            ).fetchall()
        return [(epoch, plan, revision, *map(json.loads, rest)) for epoch, plan, revision, *rest in rows]


@pytest.mark.parametrize("restarted", [False, True])
def test_plans_of_one_network_give_one_estimate_in_every_epoch(wired: Wired, restarted: bool) -> None:
    change = RollOver(wired)
    wired.centre.take_up(change.path.read_bytes(), change.path)
    if restarted:
        wired.start_centre()
    assert wired.hand_over().refused == 0  # no deadline has passed: all are complete
    found = change.estimates()
    assert [epoch for epoch, *_ in found] == list(range(1, EPOCHS + 1))
    for epoch, plan, revision, public, covariance, missing in found:
        expected = change.expected(epoch)
        np.testing.assert_allclose(public, expected.public, rtol=1e-9)
        np.testing.assert_allclose(covariance, expected.covariance, rtol=1e-8)
        assert (revision, missing) == (0, [])
        assert plan == (wired.id if epoch < min(SWITCH.values()) else change.name)
    if not restarted:  # epochs of one plan keep the bits of its own fusion
        told = {agent: numbers[1] for agent, numbers in change.sent.items()}
        own = Fusion(wired.plan, gate=1e-6).estimate(told)
        assert np.array(found[0][3]).tobytes() == own.public.tobytes()


def test_what_comes_late_revises_the_one_estimate_whichever_plan_made_it(wired: Wired) -> None:
    change = RollOver(wired)
    wired.centre.take_up(change.path.read_bytes(), change.path)
    wired.hand_over("study", "bedroom", "hall", settle=False)  # in epoch 4 by different plans
    wired.clock += 2 * wired.wait
    wired.centre.take([], wired.clock)
    others = [agent for agent in change.sent if agent not in ("study", "bedroom", "hall")]
    before = change.estimates()
    np.testing.assert_allclose(before[3][3], change.expected(4, *others).public, rtol=1e-9)
    assert before[3][5] == others
    wired.start_centre()
    wired.hand_over()
    wired.clock += 2 * wired.wait
    wired.centre.take([], wired.clock)
    after = change.estimates()
    assert len(after) == EPOCHS  # still one of each
    for (_, plan, revision, *_), (epoch, now, newer, public, *_) in zip(before, after, strict=True):
        assert (now, newer > revision) == (plan, True)
        np.testing.assert_allclose(public, change.expected(epoch).public, rtol=1e-9)
    assert wired.centre.store.unestimated([1, 2]) == []


def test_only_plans_of_one_network_with_independent_noise_are_mixed(tmp_path: Path) -> None:
    plan, newer = house_plan(), house_plan(privacy=3.0)
    assert can_mix(plan.messages, newer.messages)
    save_plan(plan, tmp_path / "plan")
    assert can_mix(load_centre(tmp_path / "plan" / "center.json"), newer.messages)
    assert not can_mix(plan.messages, replace(newer.messages, basis=""))  # a file of old does not say
    other = centre_model(plan.network.replace(prior=None), plan.sanitizers)
    assert not can_mix(plan.messages, other)
    joint = centre_model(plan.network.replace(noise=plan.network.R.matrix()), plan.sanitizers)
    assert not can_mix(plan.messages, replace(joint, basis=plan.messages.basis, correlation=np.eye(2)))
    assert not can_mix(house_plan(stream=True).messages, house_plan(stream=True).messages)


def test_a_plan_for_another_agent_or_of_none_is_not_taken_up(wired: Wired) -> None:
    kitchen = wired.agents["kitchen"]
    with pytest.raises(InvalidPlan, match="expected the file of 'kitchen'"):
        kitchen.take_up(wired.plan.sanitizers["hall"], wired.id)
    with pytest.raises(InvalidPlan, match="saved on its own"):
        kitchen.take_up(wired.plan.sanitizers["kitchen"], "")
    assert kitchen.plan == wired.id[:SHORT]


def test_a_replaced_file_is_taken_up_once_and_a_bad_one_never(tmp_path: Path) -> None:
    path, said, taken = tmp_path / "kitchen.json", [], []
    path.write_bytes(b"first")

    def accept(content: bytes) -> None:
        if content == b"forged":
            raise InvalidPlan("it is not signed")
        taken.append(content)

    watch = PlanWatch(PlanFile(path), accept, said.append)
    assert not watch.check()
    path.unlink()
    assert not watch.check()
    for content, new in ((b"second", True), (b"forged", False), (b"thirds", True)):
        other = path.with_suffix(".new")
        other.write_bytes(content)
        other.replace(path)
        assert watch.check() is new
        assert not watch.check()
    assert taken == [b"second", b"thirds"]
    assert len(said) == 1
    says(said[0], "previous plan continues", "not signed")


def test_a_refused_file_is_tried_again_when_its_owner_agreed_and_not_before(tmp_path: Path) -> None:
    path, record, said, tried = tmp_path / "kitchen.json", tmp_path / "kitchen.accepted", [], []
    path.write_bytes(b"first")
    record.write_bytes(b"to the first")

    def accept(content: bytes) -> None:
        tried.append(content)
        if record.read_bytes() == b"to the first":
            raise InvalidPlan("it tells more")
        record.write_bytes(b"what runs now")  # as one that is run is remembered

    watch = PlanWatch(PlanFile(path, None, record), accept, said.append)
    path.with_suffix(".new").write_bytes(b"second")
    path.with_suffix(".new").replace(path)
    assert [watch.check() for _ in range(3)] == [False] * 3
    assert (len(tried), len(said)) == (1, 1)
    record.with_suffix(".new").write_bytes(b"to the second")
    record.with_suffix(".new").replace(record)
    assert [watch.check() for _ in range(3)] == [True, False, False]
    assert tried == [b"second"] * 2
    record.write_bytes(b"whatever")  # nothing is refused, so nobody waits for it
    assert not watch.check()


def test_an_agent_that_a_new_plan_adds_is_admitted(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, 1)
    study = wired.seals.pop("study")
    wired.start_centre()
    wired.agents["study"].take([1], readings["study"])
    assert wired.hand_over("study").refused == 1
    assert wired.centre.store.counts == {("", "stranger"): 1}
    wired.centre.admit({"study": study})
    assert wired.hand_over("study").new == 1
    wired.close()
