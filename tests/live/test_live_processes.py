"""``veilnet agent``, ``center`` and ``live`` as their users run them, and killed as nobody should."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import veilnet as vn
from helpers.brokers import eventually, require_mosquitto
from helpers.live_networks import house_plan
from helpers.said import says
from helpers.small_network import small_network
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals
from veilnet.live.status import read_status

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


@pytest.mark.no_cover
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
@pytest.mark.parametrize(
    ("script", "each"),
    [
        ("live_kills.py", 1),
        pytest.param("live_kills.py", 4, marks=pytest.mark.long),
        pytest.param("sum_kills.py", 2, marks=pytest.mark.long),
    ],
)
def test_kills_of_everybody_lose_double_and_redraw_nothing(script: str, each: int) -> None:
    """In the rounds of sums, too: and nothing but the plain sums follows from all that was said."""
    require_mosquitto()
    kills = BENCHMARKS / script
    command = [sys.executable, str(kills), "--kills", str(4 * each), "--seed", "1", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stderr
    scores = json.loads(ran.stdout)
    assert [score["hit"] for score in scores] == [each] * 4, ran.stderr
    for score in scores:
        assert score["found"] == {}, ran.stderr
        assert score["recovered"] == score["hit"]


def test_the_demo_estimates_every_epoch_and_leaves_nothing_raw() -> None:
    require_mosquitto()
    command = [sys.executable, "-m", "veilnet", "live", "demo", "--epochs", "6", "--pace", "0.05", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["estimated"] == found["epochs"] == 6
    assert found["raw_readings_on_disk"] == 0
    assert 0.2 < found["errors_in_deviations"] < 3.0
    agents = found["status"]["agents"]
    assert all(each["messages"] + each["missed"] == 6 and each["refused"] == 0 for each in agents.values())


def test_a_budget_is_the_last_number_of_releases_that_leaves_enough(tmp_path: Path, capsys) -> None:
    plan = house_plan()
    plan.save(tmp_path / "plan")
    promised = plan.privacy["gait"]
    least = f"gait={promised / 2}"
    assert run(["live", "budget", str(tmp_path / "plan"), "--least-privacy", least, "--json"]) == 0
    budget = json.loads(capsys.readouterr().out)["budget"]
    ledger = vn.Ledger.create(tmp_path / "ledger.jsonl", plan.network, {"gait": promised / 2})
    # A ledger goes on across plans, so it counts from readings without any plan's dither: that is a little more.
    assert budget <= ledger.remaining(plan) <= budget + 1
    assert run(["live", "budget", str(tmp_path / "plan"), "--least-privacy", f"gait={2 * promised}"]) == 1
    assert "Not even one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        ("mqtt://broker:1883", "expected mqtts://host:8883"),
        ("broker", "expected mqtts://"),
        ("mqtts://a:0", "mqtts"),
    ],
)
def test_a_broker_without_encryption_is_refused(broker: str, words: str, capsys) -> None:
    assert run(["agent", "kitchen.json", "--broker", broker, "--cert", "keys"]) == 2
    assert words in capsys.readouterr().err


def test_an_agent_refuses_the_keys_of_another_before_noise_is_drawn(tmp_path: Path, capsys) -> None:
    network = small_network()
    agent, other = network.agents[:2]
    vn.design(network).save(tmp_path / "plan")
    made = make_keys(tmp_path / "keys", network.agents)
    make_seals(made.keys, network.agents)
    file = tmp_path / "plan" / f"{agent}.json"
    for folder, words in (
        (made.keys.agent(other).folder, f"expected the folder of {agent!r}"),
        (tmp_path / "elsewhere", f"no such folder; 'veilnet live keys' makes that of {agent!r}"),
    ):
        assert (
            run(["agent", str(file), "--broker", "mqtts://localhost:1", "--cert", str(folder), "--begin"])
            == 2
        )
        assert words in capsys.readouterr().err
        assert not file.with_suffix(".sqlite").exists()


def test_status_of_something_else_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run(["live", "status", str(tmp_path / "notes.txt")]) == 2
    says(capsys.readouterr().err, "expected a centre's store", "notes.txt")
    assert run(["live", "status", str(tmp_path / "nothing.sqlite")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_new_version_is_taken_up_by_agent_and_centre_while_they_run(tmp_path: Path) -> None:
    """Rows 1 and 2 by one plan, 3 and 4 by the next; the centre hears of it after the agent has sent by it."""
    require_mosquitto()
    network = small_network()
    agent = network.agents[0]
    plans = {"plan": vn.design(network), "new": vn.design(network.replace(resolution=0.25))}
    for name, plan in plans.items():
        plan.save(tmp_path / name)
    made = make_keys(tmp_path / "keys", network.agents)
    make_seals(made.keys, network.agents)
    readings = [f"{row}," + ",".join(["1.5"] * int(network.blocks.sizes[0])) + "\n" for row in range(1, 5)]
    out = tmp_path / "estimates.sqlite"
    log = tmp_path / "log.txt"

    def start(*arguments: object, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        with log.open("ab") as words:
            return subprocess.Popen(
                [sys.executable, "-m", "veilnet", *map(str, arguments)],
                stdin=stdin, stdout=words, stderr=words, env=ENVIRONMENT,
            )  # fmt: skip

    def messages() -> int:
        return sum(each.messages for each in read_status(out).agents) if out.exists() else 0

    with Broker(made.keys.broker, BrokerPlan(network.agents)) as broker:
        common = ("--broker", broker.address)
        centre = start(
            "center", tmp_path / "plan/center.json", *common, "--cert", made.keys.centre.folder, "--out", out,
            "--wait", "100ms", "--quorum", "1",
        )  # fmt: skip
        running = start(
            "agent",
            tmp_path / f"plan/{agent}.json",
            *common,
            "--cert",
            made.keys.agent(agent).folder,
            "--begin",
            stdin=subprocess.PIPE,
        )
        try:
            feed = running.stdin
            assert feed is not None
            header = "row," + ",".join(f"r{k}" for k in range(int(network.blocks.sizes[0]))) + "\n"
            feed.write((header + "".join(readings[:2])).encode())
            feed.flush()
            assert eventually(lambda: messages() == 2), log.read_text()
            (tmp_path / f"new/{agent}.json").replace(tmp_path / f"plan/{agent}.json")
            feed.write("".join(readings[2:]).encode())
            feed.flush()
            assert eventually(lambda: read_status(out).counts.get((agent, "plan"), 0) > 0), log.read_text()
            (tmp_path / "new/center.json").replace(tmp_path / "plan/center.json")
            feed.close()
            assert running.wait(120) == 0, log.read_text()
            assert eventually(lambda: read_status(out).epochs == 4), log.read_text()
        finally:
            for process in (running, centre):
                if process.poll() is None:
                    process.terminate()
                process.wait(120)
    status = read_status(out)
    assert (len(status.plans), status.agents[0].messages, status.agents[0].missed) == (2, 4, 0)
    with closing(sqlite3.connect(out)) as database:
        assert database.execute("SELECT epoch, plan FROM messages").fetchall() == [
            (1, 1),
            (2, 1),
            (3, 2),
            (4, 2),
        ]
        assert database.execute("SELECT epoch, plan FROM latest").fetchall() == [
            (1, 1),
            (2, 1),
            (3, 2),
            (4, 2),
        ]
