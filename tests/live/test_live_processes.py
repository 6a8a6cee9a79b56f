"""``veilnet agent``, ``center`` and ``live`` as their users run them, and killed as nobody should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import veilnet as vn
from helpers.brokers import require_mosquitto
from helpers.live_networks import house_plan
from veilnet.cli import run

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.slow]
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


@pytest.mark.no_cover
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
def test_a_dozen_kills_lose_double_and_redraw_nothing() -> None:
    require_mosquitto()
    command = [sys.executable, str(BENCHMARKS / "live_kills.py"), "--kills", "12", "--seed", "1", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stderr
    scores = json.loads(ran.stdout)
    assert [score["hit"] for score in scores] == [3, 3, 3, 3], ran.stderr
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
    assert ledger.remaining(plan) == budget
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


def test_status_of_something_else_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run(["live", "status", str(tmp_path / "notes.txt")]) == 2
    assert "expected a centre's store" in capsys.readouterr().err
    assert run(["live", "status", str(tmp_path / "nothing.sqlite")]) == 2
    assert "no such file" in capsys.readouterr().err
