"""The example agent in C joins a live network: a real broker over TLS, the centre's process, and kills."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.brokers import eventually, require_mosquitto
from helpers.c_agents import build, compiler, needs_compiler
from helpers.live_networks import house_plan, house_readings
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals
from veilnet.live.status import read_status

pytestmark = [pytest.mark.slow, needs_compiler]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "device" / "mqtt_agent.c"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
ROWS = 16


def has_libmosquitto() -> bool:
    asked = [str(compiler), "-fsyntax-only", "-xc", "-"]
    return not subprocess.run(
        asked, input=b"#include <mosquitto.h>", capture_output=True, check=False
    ).returncode


@pytest.mark.skipif(
    compiler is None or not has_libmosquitto(),
    reason="no libmosquitto: 'sudo apt-get install libmosquitto-dev' brings it",
)
@pytest.mark.parametrize(
    "stream", [False, pytest.param(True, marks=pytest.mark.long)], ids=["rows", "stream"]
)
def test_an_agent_in_c_is_killed_and_sends_every_row_once(stream: bool, tmp_path: Path) -> None:
    """Three kills: each row arrives once, or is told as missed where the kill took what was drawn."""
    require_mosquitto()
    plan = house_plan(stream=stream)
    plan.save(tmp_path / "plan")
    made = make_keys(tmp_path / "keys", plan.network.agents)
    make_seals(made.keys, plan.network.agents)
    assert run(["export", str(tmp_path / "plan/kitchen.json"), "--c", str(tmp_path / "c")]) == 0
    (tmp_path / "c/program.c").write_bytes(EXAMPLE.read_bytes())
    sources = sorted(path.name for path in (tmp_path / "c").glob("*.c") if path.name != "program.c")
    program = build(tmp_path / "c", *sources, "-lmosquitto")
    _, readings = house_readings(plan, ROWS)
    lines = [",".join([str(row), *map(str, each)]) for row, each in enumerate(readings["kitchen"], start=1)]
    lines[6] = "7,,1,2,3"
    out, log = tmp_path / "estimates.sqlite", tmp_path / "log.txt"
    with Broker(made.keys.broker, BrokerPlan(plan.network.agents)) as broker, log.open("ab") as words:
        centre = subprocess.Popen(
            [
                sys.executable, "-m", "veilnet", "center", str(tmp_path / "plan/center.json"), "--broker",
                broker.address, "--cert", str(made.keys.centre.folder), "--out", str(out), "--quorum", "1",
            ],
            stdout=words, stderr=words, env=ENVIRONMENT,
        )  # fmt: skip
        host, port = broker.address.removeprefix("mqtts://").rsplit(":", 1)
        command = [program, host, port, made.keys.agent("kitchen").folder, tmp_path / "kitchen.journal"]

        def told(many: int) -> bool:
            agents = read_status(out).agents if out.exists() else ()
            return sum(each.messages + each.missed for each in agents) >= many

        try:
            for until in (5, 9, 12, ROWS):
                with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=words) as agent:
                    assert agent.stdin is not None
                    agent.stdin.write("\n".join([*lines[:until], ""]).encode())
                    agent.stdin.flush()
                    if until < ROWS:
                        assert eventually(partial(told, until - 2), 60), log.read_text()
                        agent.kill()
                    else:
                        agent.stdin.close()
                        assert agent.wait(60) == 0, log.read_text()
        finally:
            centre.terminate()
            centre.wait(120)
    with closing(sqlite3.connect(out)) as database:
        found = database.execute('SELECT epoch, "values" FROM messages ORDER BY epoch').fetchall()
    epochs = [epoch for epoch, _ in found]
    missed = {epoch for epoch, values in found if values is None}
    assert len(set(epochs)) == len(epochs)
    assert set(range(1, ROWS + 1)) - set(epochs) <= set(
        range(2, ROWS)
    )  # taken and cut off, at most one a kill
    assert len(epochs) >= ROWS - 3
    assert 7 in missed or 7 not in epochs
    assert len(missed) <= 1 + 3
    numbers = np.array([np.frombuffer(values, "<f8") for _, values in found if values is not None])
    assert np.array_equal(
        numbers, np.round(numbers / plan.sanitizers["kitchen"].grid) * plan.sanitizers["kitchen"].grid
    )
