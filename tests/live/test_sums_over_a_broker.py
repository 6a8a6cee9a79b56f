"""``veilnet agent`` and ``center`` with a summed plan on a real broker, in processes; one room is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.brokers import require_mosquitto
from helpers.summed_house import ROOMS, room_readings, summed_plan
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker
from veilnet.io.agent_store import AgentStore
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import KeyFolder
from veilnet.live.topics import SECOND

pytestmark = pytest.mark.slow
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
WAIT, PATIENCE = "24s", "120"  # a round takes a quarter of it, where a room is gone


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    summed_plan().save(tmp_path / "plan")
    assert run(["live", "keys", str(tmp_path / "plan"), "--out", str(tmp_path / "keys")]) == 0
    return KeyFolder(tmp_path / "keys")


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    with suppress(ValueError):  # it was asked for its words before
        process.communicate()


def started(stack: ExitStack, *words: object, piped: bool = False) -> subprocess.Popen[str]:
    """A veilnet command, ended with the test."""
    made = subprocess.Popen(
        [sys.executable, "-m", "veilnet", *map(str, words)], env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, stdin=subprocess.PIPE if piped else None,
    )  # fmt: skip
    stack.callback(ended, made)
    return made


def rooms_started(
    stack: ExitStack, folder: Path, keys: KeyFolder, address: str
) -> dict[str, subprocess.Popen[str]]:
    """An agent for each room that is connected: none is late in a round since its process was slow to start."""

    def start(room: str, *begin: str) -> subprocess.Popen[str]:
        return started(
            stack, "agent", folder / f"plan/{room}.json", "--broker", address, "--cert", keys.agent(room).folder,
            "--wait", PATIENCE, *begin, piped=True,
        )  # fmt: skip

    for begun in [start(room, "--begin") for room in ROOMS]:
        begun.communicate(timeout=150)  # nothing to read: it begins the store, and ends
        assert begun.returncode == 0
    rooms = {room: start(room) for room in ROOMS}
    for process in rooms.values():
        assert process.stderr is not None
        assert any("connected" in line for line in process.stderr)
    return rooms


def test_five_rooms_and_a_centre_estimate_from_sums_and_go_on_when_a_room_is_killed(
    tmp_path: Path, keys: KeyFolder
) -> None:
    require_mosquitto()
    readings, epochs = room_readings(2), 2
    lost = ROOMS[-1]
    with Broker(keys.broker, BrokerPlan(ROOMS)) as broker, ExitStack() as stack:
        address = f"mqtts://{broker.host}:{broker.port}"
        out = tmp_path / "estimates.sqlite"
        centre = started(
            stack, "center", tmp_path / "plan/center.json", "--broker", address, "--cert", keys.centre.folder,
            "--out", out, "--wait", WAIT, "--json",
        )  # fmt: skip
        rooms = rooms_started(stack, tmp_path, keys, address)
        header = {room: f"row,{','.join(summed_plan().members[room].names)}\n" for room in ROOMS}
        found = []
        for epoch in range(1, epochs + 1):
            if epoch == 2:
                rooms.pop(lost).kill()
            for room, process in rooms.items():
                assert process.stdin is not None
                numbers = ",".join(f"{value:.6f}" for value in readings[room][epoch - 1])
                process.stdin.write(f"{header.pop(room, '')}{epoch},{numbers}\n")
                process.stdin.flush()
            assert centre.stdout is not None
            found.append(json.loads(centre.stdout.readline()))
        for process in rooms.values():
            process.communicate(timeout=150)
            assert process.returncode == 0
    assert [each["epoch"] for each in found] == [1, 2]
    assert [each["missing"] for each in found] == [[], [lost]]
    for room in rooms:
        with AgentStore(tmp_path / f"plan/{room}.sqlite", room) as store:
            assert (store.ledger().releases, store.count_waiting()) == (2, 0)
    whole, lacking = [np.trace(each["covariance"]) for each in found]
    assert lacking > whole


def test_two_centres_estimate_from_halves_over_a_broker(tmp_path: Path) -> None:
    """Keys, the second centre, the first one and five rooms as a new user runs them; a second centre begun anew."""
    require_mosquitto()
    readings = room_readings(2)
    summed_plan().save(tmp_path / "plan")
    made = ["live", "keys", str(tmp_path / "plan"), "--out", str(tmp_path / "keys"), "--second"]
    assert run(made) == 0
    keys = KeyFolder(tmp_path / "keys")
    with Broker(keys.broker, BrokerPlan((*ROOMS, SECOND))) as broker, ExitStack() as stack:
        address = f"mqtts://{broker.host}:{broker.port}"
        second = [
            "live", "second", tmp_path / "plan/center.json", "--broker", address, "--cert", keys.folder / "second",
            "--store", tmp_path / "second.sqlite",
        ]  # fmt: skip
        helper = started(stack, *second, "--begin")
        centre = started(
            stack, "center", tmp_path / "plan/center.json", "--broker", address, "--cert", keys.centre.folder,
            "--out", tmp_path / "estimates.sqlite", "--wait", WAIT, "--json",
        )  # fmt: skip
        rooms = rooms_started(stack, tmp_path, keys, address)
        header = {room: f"row,{','.join(summed_plan().members[room].names)}\n" for room in ROOMS}
        found = []
        for epoch in (1, 2):
            if epoch == 2:
                helper.terminate()
                assert helper.wait(60) == 0
                helper = started(stack, *second)
            for room, process in rooms.items():
                assert process.stdin is not None
                numbers = ",".join(f"{value:.6f}" for value in readings[room][epoch - 1])
                process.stdin.write(f"{header.pop(room, '')}{epoch},{numbers}\n")
                process.stdin.flush()
            assert centre.stdout is not None
            found.append(json.loads(centre.stdout.readline()))
        for process in rooms.values():
            process.communicate(timeout=150)
            assert process.returncode == 0
    assert [each["epoch"] for each in found] == [1, 2]
    assert [each["missing"] for each in found] == [[], []]
