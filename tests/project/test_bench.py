"""The benchmarks measure what they say, on an instance small enough for the paper's way to be quick."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import veilnet
from veilnet.cli import run
from veilnet.cli._benchmarks import BENCHMARKS as NAMED

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def paper_way(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("paper_way")


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


def test_the_command_needs_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(veilnet, "__file__", str(tmp_path / "site-packages" / "veilnet" / "__init__.py"))
    assert run(["bench"]) == 2
    assert "get its source repository and run './veilnet bench' there" in capsys.readouterr().err


def test_the_command_needs_the_solvers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "scs", None)
    assert run(["bench"]) == 2
    assert 'pip install "veilnet[paper]"' in capsys.readouterr().err


def test_every_benchmark_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = {path.name for path in BENCHMARKS.glob("*.py")} - {
        "curves.py",
        "live_children.py",
        "paper_way.py",
        "timing.py",
    }
    scripts -= {path.name for path in BENCHMARKS.glob("attacks_*.py")}  # attacks.py runs them all
    assert {each.script for each in NAMED.values()} == scripts | {"../examples/office.py"}
    assert all((BENCHMARKS / each.script).is_file() for each in NAMED.values())
    assert run(["bench", "speed"]) == 2
    assert "expected paper, house" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["bounds", "--quick"],
            "--quick: goes with benchmarks that have a quick form and has no effect",
        ),
        (["streams", "--out", "table.md"], "--out: goes with paper"),
        (["power", "--limit", "60"], "--limit: goes with paper"),
        (["power", "--data", "log"], "--data: goes with office"),
        (["office"], "--data: expected the folder of the office's log"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err
