"""New plan ids for one and the same sanitizer began memories anew, and earlier readings masked later ones no more."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.live_networks import Wired, house_plan, house_readings
from helpers.memories import with_memory
from veilnet import cli
from veilnet.agent.memory import Memory
from veilnet.agent.randomness import SeededNoise
from veilnet.centre.fusion import Fusion
from veilnet.io._sealed import seal
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.centre_files import centre_document, load_centre
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.live.agent import LiveAgent
from veilnet.live.messages import Seal
from veilnet.review.order import what_more

ROWS = 40


def plan_id(number: int) -> str:
    return f"{number:032x}"[::-1]


def test_a_live_agent_sends_the_same_whatever_its_plan_is_called(tmp_path: Path) -> None:
    """A new id for every row: 599 of 599 were taken up, and the memory was empty in each."""
    sanitizer = with_memory(np.random.default_rng(0), readings=2, order=3, sent=2).replace(agent="a")
    readings = np.random.default_rng(1).normal(size=(ROWS, 2))
    sent = {}
    for name in ("one plan", "many"):
        begin_agent_store(tmp_path / name, "a")
        seal = Seal(bytes(32))
        with closing(AgentStore(tmp_path / name, "a")) as store:
            noise = SeededNoise(np.random.default_rng(2))
            agent = LiveAgent(store, seal, sanitizer, plan_id(1), noise)
            for row in range(ROWS):
                if name == "many" and row:
                    assert what_more(sanitizer, agent.sanitizer) == ()
                    agent.take_up(sanitizer, plan_id(row + 1))
                agent.take([row + 1], readings[row : row + 1])
            messages = [seal.open_message(payload) for _, payload in store.waiting(0, ROWS)]
            assert [message.after for message in messages] == list(range(ROWS))
            sent[name] = np.array([message.numbers() for message in messages])
    np.testing.assert_array_equal(sent["many"], sent["one plan"])


def test_a_memory_that_cannot_go_on_tells_more() -> None:
    sanitizer = with_memory(np.random.default_rng(0), readings=2, order=3, sent=2)
    memory = sanitizer.memory
    assert memory is not None
    changed = [
        Memory(memory.transition * (1 - 1e-15), memory.gain, memory.start),
        Memory(memory.transition, memory.gain * (1 + 1e-15), memory.start),
        memory.with_start(np.eye(3)),
    ]
    for other in changed:
        assert other.digest != memory.digest
        assert what_more(sanitizer.replace(memory=other), sanitizer)
    assert what_more(sanitizer.replace(noise=sanitizer.noise + np.eye(2)), sanitizer) == ()
    once = sanitizer.replace(resolution=0.5, dither=1)
    assert what_more(once.replace(dither=2), once)  # what the memory holds was dithered by less


def test_every_argument_of_a_memory_is_in_its_digest() -> None:
    """What is added to a memory later joins by itself: all that differs in any argument differs in the digest."""
    import inspect

    made = {"transition": [[0.5]], "gain": [[1.0]], "start": [[1.0]]}
    assert set(inspect.signature(Memory).parameters) == set(made)
    whole = Memory(**made)
    for name in made:
        assert Memory(**made | {name: [[0.25]]}).digest != whole.digest, name


def test_the_memory_of_a_log_goes_on_under_another_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without noise what is sent is a function of the memory: it is that of one plan from the first row on."""
    exact = with_memory(np.random.default_rng(3), readings=2, order=3, sent=2, noise=0.0)
    sanitizer = exact.replace(agent="kitchen", resolution=None, grid=2.0**-20)
    readings = np.random.default_rng(4).normal(size=(ROWS, 2))
    lines = ["row,a,b", *(f"{k + 1},{y[0]!r},{y[1]!r}" for k, y in enumerate(readings.tolist()))]
    found: list[list[str]] = []
    for part, plan in enumerate(("1" * 32, "2" * 32)):
        save_sanitizer(sanitizer, tmp_path / "kitchen.json", plan)
        (tmp_path / "in.csv").write_text("\n".join(lines[: 1 + ROWS // 2 * (part + 1)]) + "\n")
        command = ["sanitize", str(tmp_path / "kitchen.json"), "--in", str(tmp_path / "in.csv")]
        command += ["--out", str(tmp_path / f"{part}.csv"), "--store", str(tmp_path / "store")]
        assert cli.run(command) == 0, capsys.readouterr().err
        found += list(csv.reader((tmp_path / f"{part}.csv").read_text().splitlines()))[1:]
    assert [row[0] for row in found] == [str(k + 1) for k in range(ROWS)]
    with AgentStore(tmp_path / "store", "kitchen") as store:
        assert store.remembered(sanitizer.memory_key) == ROWS
    whole = sanitizer.stream(state=np.zeros(3), rng=0).sanitize(readings)
    sent = np.array([row[3:] for row in found], dtype=float)
    np.testing.assert_allclose(sent, np.asarray(whole), atol=2.0**-18)


def test_a_stream_that_begins_anew_releases_no_row_again(tmp_path: Path) -> None:
    """Another memory, which was agreed to, with the agent's one store: the last row told before is missed now."""
    sanitizer = with_memory(np.random.default_rng(3), readings=2, order=3, sent=2).replace(agent="kitchen")
    lines = ["row,a,b", *(f"{k + 1},0.5,{k / 7}" for k in range(20))]
    rows: dict[str, list[list[str]]] = {}
    for name, given in (("one", 12), ("two", 20)):
        changed = sanitizer if name == "one" else sanitizer.replace(offset=sanitizer.offset + 1.0)
        save_sanitizer(changed, tmp_path / "kitchen.json", name.ljust(32, "0"))
        (tmp_path / "in.csv").write_text("\n".join(lines[: 1 + given]) + "\n")
        cli.run([
            "sanitize", str(tmp_path / "kitchen.json"), "--in", str(tmp_path / "in.csv"), "--out",
            str(tmp_path / f"{name}.csv"), "--store", str(tmp_path / "store"),
        ])  # fmt: skip
        rows[name] = list(csv.reader((tmp_path / f"{name}.csv").read_text().splitlines()))[1:]
    assert [row[0] for row in rows["two"]] == [str(k + 1) for k in range(11, 20)]
    assert ["missed" in row for row in rows["two"]] == [True] + [False] * 8
    assert not any("missed" in row for row in rows["one"])


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan(stream=True))
    yield made
    made.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_the_centre_goes_on_where_memories_do(wired: Wired, restarted: bool) -> None:
    """One filter over both plans: to the last bit what a fusion makes of all rows."""
    epochs, switch = 12, {agent: 5 + place for place, agent in enumerate(wired.agents)}
    name, path = plan_id(7), wired.folder / "again.json"
    path.write_bytes(
        seal(centre_document(replace(load_centre(wired.folder / "plan/center.json"), plan=name)))
    )
    _, readings = house_readings(wired.plan, epochs)
    sent: dict[str, dict[int, np.ndarray]] = {agent: {} for agent in wired.agents}
    wired.centre.take_up(path.read_bytes(), path)
    for epoch in range(1, epochs + 1):
        for agent, own in readings.items():
            running = wired.agents[agent]
            if epoch == switch[agent]:
                running.take_up(wired.plan.sanitizers[agent], name)
            running.take([epoch], own[epoch - 1 : epoch])
            message = wired.seals[agent].open_message(wired.outbox(agent)[-1])
            assert message.after == epoch - 1
            sent[agent][epoch] = message.numbers()
        wired.hand_over()
        if restarted and epoch == 8:
            wired.start_centre()
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        rows = database.execute("SELECT epoch, public FROM latest ORDER BY epoch").fetchall()
    fusion = Fusion(wired.plan, gate=1e-6)
    assert [epoch for epoch, _ in rows] == list(range(1, epochs + 1))
    for epoch, public in rows:
        expected = fusion.update({agent: told[epoch] for agent, told in sent.items()})
        assert np.array(json.loads(public)).tobytes() == expected.public.tobytes(), epoch


def test_a_centre_that_begins_later_does_not_take_memories_for_empty(wired: Wired) -> None:
    """Agents were at work before the centre's first row: what it says of its error has to hold all the same."""
    before, epochs = 30, 40
    _, readings = house_readings(wired.plan, epochs)
    sent: dict[str, dict[int, np.ndarray]] = {agent: {} for agent in wired.agents}
    for agent, own in readings.items():
        for epoch in range(1, epochs + 1):
            wired.agents[agent].take([epoch], own[epoch - 1 : epoch])
            if epoch == before:
                wired.agents[agent].store.settle([(1, 10**6)])
        for payload in wired.outbox(agent):
            message = wired.seals[agent].open_message(payload)
            sent[agent][message.epoch] = message.numbers()
    wired.hand_over()
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        rows = database.execute("SELECT epoch, public, contradicting FROM latest ORDER BY epoch").fetchall()
    assert [epoch for epoch, *_ in rows] == list(range(before + 1, epochs + 1))
    fusion = Fusion(wired.plan, gate=1e-6)
    for epoch, public, contradicting in rows:
        assert json.loads(contradicting) == []
        row = 1000 + epoch - before if epoch == before + 1 else None
        expected = fusion.update({agent: told[epoch] for agent, told in sent.items()}, row=row)
        assert np.array(json.loads(public)).tobytes() == expected.public.tobytes()
    assert vn.check(wired.plan.network)
