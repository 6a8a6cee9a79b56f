"""An agent's store: a sequence number is taken before noise is drawn, and a reading is drawn for once.

Oracle: a log that the noise source writes by itself, before each draw; and the store read through another connection.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.killing import killed_at, lines_of
from helpers.live_networks import Wired, house_plan, house_readings
from helpers.memories import with_memory
from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet.agent.randomness import SeededNoise, SystemNoise
from veilnet.agent.stream import Stream
from veilnet.io import agent_store
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.live.agent import Exhausted, LiveAgent
from veilnet.live.messages import Seal

AGENT = "kitchen"
PLAN = "cafe" * 16
SEAL = Seal(bytes(range(32)))
WATCHED = ("live/agent.py", "io/agent_store.py", "io/_sqlite.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    begin_agent_store(tmp_path / "kitchen.sqlite", AGENT)
    return tmp_path / "kitchen.sqlite"


def log_draws(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Before noise is drawn for a reading, a line with it goes to a file, which survives the process."""
    original = LiveAgent._drawn

    def logged(self: LiveAgent, epochs: Sequence[int], rows: np.ndarray) -> object:
        with log.open("a") as file:
            file.writelines(f"{row[0]!r}\n" for row in rows if np.isfinite(row).all())
        return original(self, epochs, rows)

    monkeypatch.setattr(LiveAgent, "_drawn", logged)


def agent(path: Path, *, stream: bool = False, noise: SystemNoise | None = None) -> LiveAgent:
    return LiveAgent(AgentStore(path, AGENT), SEAL, house_plan(stream=stream).sanitizers[AGENT], PLAN, noise)


def readings(rows: int, *, stream: bool = False) -> np.ndarray:
    return house_readings(house_plan(stream=stream), rows)[1][AGENT]


def test_the_number_is_on_the_disk_before_noise_is_drawn(path: Path) -> None:
    seen = []

    class Watching(SystemNoise):
        def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
            with closing(sqlite3.connect(path)) as other:
                seen.extend(other.execute("SELECT sequence, epoch, state FROM releases").fetchall())
            return super().uniform(shape)

    running = agent(path, noise=Watching())
    running.take([7], readings(1))
    running.store.close()
    assert (1, 7, "reserved") in seen


@pytest.mark.slow
@pytest.mark.system_entropy
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
@pytest.mark.parametrize("stream", [False, True])
def test_killed_at_any_line_a_reading_is_drawn_for_once(
    tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = readings(200, stream=stream) + 1e-6 * np.arange(200)[:, None]  # each is another
    log_draws(monkeypatch, tmp_path / "draws.log")
    begin_agent_store(tmp_path / "rehearsal.sqlite", AGENT)
    begin_agent_store(tmp_path / "store.sqlite", AGENT)

    def work(name: str, epoch: int) -> None:
        running = agent(tmp_path / name, stream=stream)
        running.recover()
        running.take([epoch], own[epoch - 1 : epoch])
        running.store.close()

    lines = lines_of(lambda: work("rehearsal.sqlite", len(own)), *WATCHED)
    assert len(lines) > 80
    chosen = lines[1::8] if stream else lines[::4]
    killed = 0
    for epoch, line in enumerate(chosen, start=1):
        killed += killed_at(lambda: work("store.sqlite", epoch), line)  # noqa: B023
        running = agent(tmp_path / "store.sqlite", stream=stream)
        running.recover()
        if running.store.last_epoch < epoch:  # killed before it was reserved: it may be read again
            running.take([epoch], own[epoch - 1 : epoch])
        running.store.close()
    running = agent(tmp_path / "store.sqlite", stream=stream)
    kept = [SEAL.open_message(payload) for _, payload in running.store.waiting(0, 10**6)]
    running.store.close()
    everything = list(range(1, len(chosen) + 1))
    assert [message.epoch for message in kept] == [message.sequence for message in kept] == everything
    drawn = Counter((tmp_path / "draws.log").read_text().split())
    assert set(drawn.values()) == {1}
    released = {f"{own[message.epoch - 1, 0]!r}" for message in kept if message.values is not None}
    assert released <= set(drawn)
    assert len(released) < len(kept), "no kill fell between the reservation and the message"
    assert killed > 0.9 * len(chosen)


def test_a_stream_goes_on_with_the_memory_it_had(tmp_path: Path) -> None:
    own = readings(8, stream=True)
    told = {}
    for name, restarts in (("whole", False), ("restarted", True)):
        begin_agent_store(tmp_path / f"{name}.sqlite", AGENT)
        running = agent(tmp_path / f"{name}.sqlite", stream=True)
        for epoch in range(1, 9):
            if epoch != 5:  # nothing was read: the memory goes on without it
                running.take([epoch], own[epoch - 1 : epoch])
            if restarts:
                running.store.close()
                running = agent(tmp_path / f"{name}.sqlite", stream=True)
        assert running.store.memory(running.sanitizer.memory_key, running.sanitizer.order)[0] == 8
        told[name] = [SEAL.open_message(payload) for _, payload in running.store.waiting(0, 100)]
        running.store.close()
    assert [message.after for message in told["restarted"]] == [0, 1, 2, 3, 4, 6, 7]
    for one, other in zip(told["whole"], told["restarted"], strict=True):
        scale = np.sqrt(np.diag(house_plan(stream=True).sanitizers[AGENT].noise)) + 1.0
        assert np.all(np.abs(one.numbers() - other.numbers()) < 60 * scale)  # other noise, the same memory


def test_epochs_that_were_passed_over_are_missed_rows_of_the_stream(tmp_path: Path) -> None:
    """To the last bit what a stream sends that skips them, in one block and one by one."""
    sanitizer = with_memory(np.random.default_rng(0), readings=2, order=3, sent=2).replace(agent=AGENT)
    own = np.random.default_rng(1).normal(size=(4, 2))
    for name, blocks in (("one", [[1, 2, 5, 6]]), ("many", [[1], [2], [5], [6]])):
        begin_agent_store(tmp_path / name, AGENT)
        stream = Stream(sanitizer.recipe, SeededNoise(np.random.default_rng(2)))
        with AgentStore(tmp_path / name, AGENT) as store:
            running = LiveAgent(store, SEAL, sanitizer, PLAN, SeededNoise(np.random.default_rng(2)))
            expected, row = [], 0
            for epochs in blocks:
                running.take(epochs, own[row : row + len(epochs)])
                for part in [epochs[:2], epochs[2:]] if name == "one" else [epochs]:
                    stream.skip(2 if part[0] == 5 else 0)
                    expected.append(stream.advance(own[row : row + len(part)])[0])
                    row += len(part)
            sent = [SEAL.open_message(payload).numbers() for _, payload in store.waiting(0, 9)]
        np.testing.assert_array_equal(np.array(sent), np.concatenate(expected))


def test_raw_readings_never_touch_the_disk(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan())
    _, own = house_readings(wired.plan, 20)
    rng = np.random.default_rng(5)
    own = {
        name: rows + rng.uniform(-1e-3, 1e-3, rows.shape) for name, rows in own.items()
    }  # no two are equal
    values = [value for rows in own.values() for value in rows.reshape(-1).tolist()]
    assert len(set(values)) == len(values)
    for name, rows in own.items():
        wired.agents[name].take(range(1, 21), rows)
    for settled in (False, True):
        if settled:
            wired.hand_over()
        files = [path for path in tmp_path.rglob("*") if path.is_file() and "plan" not in path.parts]
        content = b"\0".join(path.read_bytes() for path in files)
        assert any(path.name.endswith("-wal") and path.stat().st_size for path in files)
        assert b"84" in content
        found = [v for v in values if struct.pack("<d", v) in content or repr(v)[:12].encode() in content]
        assert found == []
    wired.close()


def test_an_epoch_is_told_once_and_in_order(path: Path) -> None:
    running = agent(path)
    running.take([3], readings(1))
    for epoch in (3, 2):
        with pytest.raises(VeilnetError, match="sent before"):
            running.take([epoch], readings(1))
    running.take([9], readings(1))
    assert running.store.last_epoch == 9
    running.store.close()


@pytest.mark.parametrize("now", [1.0, "back"])
def test_a_broken_clock_sends_nothing(path: Path, now: float | str) -> None:
    store = AgentStore(path, AGENT)
    with pytest.raises(VeilnetError, match="clock"):
        store.reserve(PLAN, [1], now=time.time() - 3600 if now == "back" else float(now))
    assert store.reserve(PLAN, [1])[0].sequence == 1
    store.close()


def test_a_budget_stops_the_agent_when_used_up(tmp_path: Path) -> None:
    begin_agent_store(tmp_path / "kitchen.sqlite", AGENT, budget=2)
    running = agent(tmp_path / "kitchen.sqlite")
    own = readings(4)
    own[0] = np.nan  # releases nothing, and uses nothing up
    running.take([1], own[:1])
    running.take([2, 3], own[1:3])
    assert running.store.left == 0
    with pytest.raises(Exhausted):
        running.take([4], own[3:])
    running.store.close()
    running = agent(tmp_path / "kitchen.sqlite")
    with pytest.raises(Exhausted):
        running.take([4], own[3:])
    ledger = running.store.ledger()
    assert (ledger.releases, ledger.missed, ledger.left, ledger.epoch) == (2, 1, 0, 3)
    running.store.close()


def test_what_a_killed_run_reserved_is_given_back_with_its_budget(tmp_path: Path) -> None:
    begin_agent_store(tmp_path / "kitchen.sqlite", AGENT, budget=3)
    with closing(AgentStore(tmp_path / "kitchen.sqlite", AGENT)) as store:
        store.reserve(PLAN, [1, 2])
    with closing(AgentStore(tmp_path / "kitchen.sqlite", AGENT)) as store:
        assert (store.left, store.last_epoch) == (1, 2)
        store.give_back()
        assert (store.left, store.last_epoch) == (3, 0)
        assert [each.sequence for each in store.reserve(PLAN, [1, 2, 3])] == [1, 2, 3]


def test_a_store_that_is_missing_foreign_damaged_or_in_use_sends_nothing(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--begin"):
        AgentStore(tmp_path / "elsewhere.sqlite", AGENT)
    with pytest.raises(InvalidRequest, match="twice"):
        begin_agent_store(path, AGENT)
    with pytest.raises(InvalidPlan, match="expected the store of 'hall'"):
        AgentStore(path, "hall")
    running = AgentStore(path, AGENT)
    with pytest.raises(VeilnetError, match="another run"):
        AgentStore(path, AGENT)
    running.close()
    content = bytearray(path.read_bytes())
    for place in range(4096, len(content), 64):
        content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidPlan):
        AgentStore(path, AGENT)
    path.write_bytes(b"not a database")
    with pytest.raises(InvalidPlan):
        AgentStore(path, AGENT)


def test_two_that_begin_at_once_do_not_replace_each_others_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes while the first has found that there is no file, and has not put its own there."""
    path, second = tmp_path / "kitchen.sqlite", []
    original = agent_store.create_database

    def interrupted(*given: Any, **options: Any) -> None:
        if not second:
            second.append(True)
            with pytest.raises(VeilnetError, match="another run"):
                begin_agent_store(path, AGENT)
        original(*given, **options)

    monkeypatch.setattr(agent_store, "create_database", interrupted)
    begin_agent_store(path, AGENT)
    assert second
    AgentStore(path, AGENT).close()


def test_a_beginning_that_is_killed_can_be_made_again(tmp_path: Path) -> None:
    """At every line of it: either there is a store that can be used, or --begin makes one."""
    lines = lines_of(lambda: begin_agent_store(tmp_path / "rehearsal.sqlite", AGENT), *WATCHED)
    for place, line in enumerate(lines):
        path = tmp_path / f"{place}.sqlite"
        assert killed_at(lambda: begin_agent_store(path, AGENT), line)  # noqa: B023
        if not path.exists():
            begin_agent_store(path, AGENT)
        AgentStore(path, AGENT).close()


def test_an_epoch_lost_under_an_earlier_plan_takes_back_nothing_that_was_told(tmp_path: Path) -> None:
    """Its message says which epoch entered that plan's memory last, so that the centre takes no other for missed."""
    begin_agent_store(tmp_path / "kitchen.sqlite", AGENT)
    first = agent(tmp_path / "kitchen.sqlite", stream=True)
    first.take([1, 2], readings(2, stream=True))
    first.store.reserve(PLAN[:16], [4], first.sanitizer.memory_key)
    first.store.close()
    store = AgentStore(tmp_path / "kitchen.sqlite", AGENT)
    second = LiveAgent(store, SEAL, house_plan(stream=True).sanitizers[AGENT], "beef" * 16)
    assert second.recover() == [4]
    told = [SEAL.open_message(payload) for _, payload in store.waiting(0, 9)][-1]
    store.close()
    assert (told.plan, told.epoch, told.after, told.values) == (PLAN[:16], 4, 2, None)


def test_a_store_is_its_owners_alone(path: Path) -> None:
    running = agent(path)
    running.take([1], readings(1))
    modes = Counter(each.stat().st_mode & 0o777 for each in path.parent.glob("kitchen.sqlite*"))
    running.store.close()
    assert set(modes) == {0o600}


def test_a_full_disk_sends_nothing_and_loses_no_sequence_number(path: Path) -> None:
    running = agent(path)
    running.take([1], readings(1))
    (pages,) = running.store._db.execute("PRAGMA page_count").fetchone()
    running.store._db.execute(f"PRAGMA max_page_count = {pages}")
    tried = []

    def fill() -> None:
        for epoch in range(2, 2000):
            tried.append(epoch)
            running.take([epoch], readings(1))

    with pytest.raises(VeilnetError, match=r"could not be written .*full"):
        fill()
    epoch = tried[-1]
    kept = [SEAL.open_message(payload) for _, payload in running.store.waiting(0, 10**6)]
    assert [each.epoch for each in kept] == list(range(1, epoch))
    running.store.close()
    running = agent(path)  # there is room again
    reserved = running.recover()
    running.take([epoch + 1], readings(1))
    kept = [SEAL.open_message(payload) for _, payload in running.store.waiting(0, 10**6)]
    running.store.close()
    assert reserved in ([], [epoch])
    assert [each.sequence for each in kept] == list(range(1, len(kept) + 1))
    assert kept[-1].values is not None
    assert all(each.values is None for each in kept if each.epoch in reserved)
