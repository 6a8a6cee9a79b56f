"""What agents send and the centre keeps, without a broker: estimates have the bits of ``Fusion`` in process.

Oracle: ``Fusion.estimate`` and ``Fusion.update`` of the same plan, given the very numbers that were sealed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.many_streams import as_stacks
from helpers.stream_networks import random_stream
from veilnet.centre.fusion import Fusion
from veilnet.designs import design

EPOCHS = 12


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    yield made
    made.close()


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan(stream=True))
    yield made
    made.close()


def estimates(wired: Wired) -> list[tuple[int, int, list[float], list[list[float]], list[str], list[str]]]:
    """(epoch, revision, public, covariance, missing, contradicting), the last revision of each epoch."""
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        rows = database.execute(
            "SELECT epoch, revision, public, covariance, missing, contradicting FROM latest ORDER BY epoch"
        ).fetchall()
    return [(epoch, revision, *map(json.loads, rest)) for epoch, revision, *rest in rows]


def numbers_sent(wired: Wired) -> dict[str, dict[int, np.ndarray]]:
    """agent -> epoch -> the numbers in its outbox."""
    return {
        agent: {
            message.epoch: message.numbers()
            for message in map(wired.seals[agent].open_message, wired.outbox(agent))
        }
        for agent in wired.agents
    }


def test_estimates_over_the_wire_have_the_bits_of_fusion_in_process(wired: Wired) -> None:
    _, readings = house_readings(wired.plan, EPOCHS)
    for agent, own in readings.items():
        wired.agents[agent].take(range(1, EPOCHS + 1), own)
    sent = numbers_sent(wired)
    assert wired.hand_over().new == EPOCHS * len(readings)
    fusion = Fusion(wired.plan, gate=1e-6)
    found = estimates(wired)
    assert [epoch for epoch, *_ in found] == list(range(1, EPOCHS + 1))
    for epoch, revision, public, covariance, missing, contradicting in found:
        expected = fusion.estimate({agent: numbers[epoch] for agent, numbers in sent.items()})
        assert revision == 0
        assert np.array(public).tobytes() == expected.public.tobytes()
        assert np.array(covariance).tobytes() == np.ascontiguousarray(expected.covariance).tobytes()
        assert (missing, contradicting) == (list(expected.missing), list(expected.contradicting))


def test_what_arrives_by_the_deadline_is_estimated_and_late_messages_revise(wired: Wired) -> None:
    _, readings = house_readings(wired.plan, 1)
    for agent, own in readings.items():
        wired.agents[agent].take([1], own)
    sent = numbers_sent(wired)
    early = [agent for agent in wired.agents if agent != "study"]
    assert wired.hand_over(*early).estimates == []
    wired.clock += wired.wait
    made = wired.centre.take([], wired.clock).estimates
    assert [(each.epoch, each.revision, each.estimate.missing) for each in made] == [(1, 0, ("study",))]
    wired.hand_over("study")
    fusion = Fusion(wired.plan, gate=1e-6)
    without = fusion.estimate({agent: sent[agent][1] for agent in early})
    whole = fusion.estimate({agent: numbers[1] for agent, numbers in sent.items()})
    assert made[0].estimate.public.tobytes() == without.public.tobytes()
    [(_, revision, public, _, missing, _)] = estimates(wired)
    assert (revision, missing) == (1, [])
    assert np.array(public).tobytes() == whole.public.tobytes()


def test_a_reading_that_may_not_be_released_is_told_as_missed_and_not_waited_for(wired: Wired) -> None:
    _, readings = house_readings(wired.plan, 1)
    readings["hall"][0, 1] = np.nan
    for agent, own in readings.items():
        released = wired.agents[agent].take([1], own)
        assert (released.sent == 0) == (agent == "hall")
    made = wired.hand_over().estimates
    assert [each.estimate.missing for each in made] == [("hall",)]


def test_inconsistent_agents_are_left_out_and_named(wired: Wired) -> None:
    _, readings = house_readings(wired.plan, 1)
    readings["bedroom"][0, 0] += 40.0
    for agent, own in readings.items():
        wired.agents[agent].take([1], own)
    [made] = wired.hand_over().estimates
    assert made.estimate.contradicting == ("bedroom",)


@pytest.mark.parametrize("order", ["in turn", "late", "restarted", "contradicting"])
def test_streams_have_the_bits_of_updates_in_process(stream: Wired, order: str) -> None:
    _, readings = house_readings(stream.plan, EPOCHS)
    readings["hall"][4] = np.nan
    if order == "contradicting":
        readings["study"][EPOCHS - 1] += 1e3
    sent: dict[str, dict[int, np.ndarray | None]] = {agent: {} for agent in stream.agents}
    held = []
    for epoch in range(1, EPOCHS + 1):
        for agent, own in readings.items():
            if agent == "kitchen" and epoch in (3, 4):
                continue  # it was switched off: its next message tells that nothing was read
            stream.agents[agent].take([epoch], own[epoch - 1 : epoch])
        for agent, numbers in numbers_sent(stream).items():
            sent[agent].update(numbers)
        if order == "late" and epoch == 6:
            held = stream.outbox("study")
            stream.agents["study"].store.settle([(1, 10**6)])
        stream.hand_over()
        if order == "restarted":
            for agent in stream.agents:
                stream.start_agent(agent)
            stream.start_centre()
        stream.clock += stream.wait
        stream.centre.take([], stream.clock)
    if held:
        stream.centre.take([(TOPICS.messages("study"), payload) for payload in held], stream.clock)
    fusion = Fusion(stream.plan, gate=1e-6)
    for epoch in range(1, EPOCHS + 1):
        here = {agent: numbers.get(epoch) for agent, numbers in sent.items()}
        expected = fusion.update(
            {agent: numbers for agent, numbers in here.items() if numbers is not None},
            missed=[agent for agent, numbers in here.items() if numbers is None],
        )
    found = estimates(stream)
    assert [epoch for epoch, *_ in found] == list(range(1, EPOCHS + 1))
    _, _, public, covariance, _, contradicting = found[-1]
    assert contradicting == list(expected.contradicting) == (["study"] if order == "contradicting" else [])
    assert np.array(public).tobytes() == expected.public.tobytes()
    assert np.array(covariance).tobytes() == np.ascontiguousarray(expected.covariance).tobytes()


@pytest.mark.parametrize("many", [False, True])
def test_what_agents_without_a_memory_tell_late_is_neither_missed_nor_counted_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        as_stacks(monkeypatch)
    plan = design(random_stream(7, sizes=(1, 2, 3, 3, 4), public_rows=2, radius=0.9))
    assert [plan.sanitizers[agent].order > 0 for agent in plan.network.agents] == [
        False,
        False,
        True,
        True,
        True,
    ]
    live = Wired(tmp_path, plan)
    try:
        _, readings = house_readings(plan, EPOCHS)
        held: list[bytes] = []
        sent: list[dict[str, np.ndarray]] = []
        for epoch in range(1, EPOCHS + 1):
            for agent, own in readings.items():
                live.agents[agent].take([epoch], own[epoch - 1 : epoch])
            here = numbers_sent(live)
            sent.append({agent: told[epoch] for agent, told in here.items()})
            if epoch == 4:
                held = live.outbox("a0")
                live.agents["a0"].store.settle([(1, 10**6)])
            live.hand_over()
            live.clock += live.wait
            live.centre.take([], live.clock)
        assert live.centre.store.counts == {}
        live.centre.take([(TOPICS.messages("a0"), payload) for payload in held], live.clock)
        # sums are not taken apart again for what comes late
        assert live.centre.store.counts == ({("a0", "late"): 1} if many else {})
        fusion = Fusion(plan, gate=None if many else 1e-6)
        for epoch, numbers in enumerate(sent, 1):
            expected = fusion.update(
                {agent: z for agent, z in numbers.items() if (agent, epoch) != ("a0", 4)}
            )
        if not many:
            expected = fusion.update({"a0": sent[3]["a0"]}, row=4)
        assert np.array(estimates(live)[-1][2]).tobytes() == expected.public.tobytes()
    finally:
        live.close()
