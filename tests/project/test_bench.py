"""The benchmarks measure what they say, on an instance small enough for the paper's way to be quick."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.code_blocks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import bench

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def paper_way(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("paper_way")


@pytest.mark.small_search
def test_both_ways_agree_on_a_small_instance(paper_way: ModuleType) -> None:
    instance = paper_way.Instance(readings=8, parameters=3, agents=2, private=1)
    found = {
        name: {each.way: each for each in measure(instance, 10.0)}
        for name, measure in paper_way.PROBLEMS.items()
    }
    exact = found["perfect"]["veilnet (closed form)"].objective
    for way, each in found["perfect"].items():
        assert np.isnan(each.objective) or each.objective <= exact * (1 + 1e-6), way
    limited = found["power"]["veilnet"].objective
    assert limited < exact
    assert found["power"]["paper (Clarabel)"].objective == pytest.approx(limited, rel=1e-3)
    tradeoff = found["tradeoff"]
    assert tradeoff["veilnet (joint)"].objective <= tradeoff["veilnet"].objective * (1 + 1e-6)
    assert all(each.seconds > 0 for each in tradeoff.values())


def test_every_benchmark_can_be_named() -> None:
    scripts = {path.name for path in BENCHMARKS.glob("*.py")}
    scripts -= {
        "aggregate_design.py",
        "curves.py",
        "frozen.py",
        "live_children.py",
        "paper_way.py",
        "timing.py",
    }
    scripts -= {path.name for path in BENCHMARKS.glob("attacks_*.py")}  # attacks.py runs them all
    assert {each.script for each in bench.BENCHMARKS.values()} == scripts | {"../examples/office.py"}
    assert all((BENCHMARKS / each.script).is_file() for each in bench.BENCHMARKS.values())


def test_what_was_asked_for_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def remember(arguments: list[str], **_: Any) -> SimpleNamespace:
        ran.append(arguments)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", remember)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 4.0, 4.0))
    assert bench.main(["start"]) == 0
    assert bench.main(["gaps", "--quick"]) == 0
    assert bench.main(["all", "--update-docs"]) == 0
    assert ran[0] == [sys.executable, str(BENCHMARKS / "start.py")]
    assert ran[1][1:] == [str(BENCHMARKS / "gaps.py"), *bench.BENCHMARKS["gaps"].quick]
    assert [each[3] for each in ran[2:-1]] == [name for name in bench.BENCHMARKS if name not in bench.ON_DATA]
    assert ran[-1][-1] == "render"


def test_figures_are_published_from_a_quiet_machine_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("measured under load"))
    monkeypatch.setattr("os.getloadavg", lambda: (2.3, 0.5, 0.5))
    with pytest.raises(SystemExit) as ended:
        bench.main(["start", "--update-docs"])
    assert ended.value.code == 2
    complaint = capsys.readouterr().err
    assert "--update-docs" in complaint
    assert "2.3" in complaint


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["speed"], "speed"),
        (["bounds", "--quick"], "--quick"),
        (["streams", "--out", "table.md"], "--out"),
        (["power", "--limit", "60"], "--limit"),
        (["power", "--data", "log"], "--data"),
        (["office"], "--data"),
        (["logs"], "--data"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(arguments)
    assert ended.value.code == 2
    assert option in capsys.readouterr().err.splitlines()[-1]
