"""``veilnet doctor``: what it finds is what is there, and planted troubles are found."""

from __future__ import annotations

import json
import os
import shutil
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.said import says
from veilnet._core.extras import EXTRAS
from veilnet.cli import _health, run


@pytest.fixture
def few_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing every optional package takes seconds: two extras are enough."""
    kept = {name: EXTRAS[name] for name in ("plot", "sign")}
    monkeypatch.setattr(_health, "EXTRAS", kept)


def found(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, str]]:
    assert run(["doctor", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is (code == 0)
    return {each["what"]: each for each in answer["findings"]}


@pytest.mark.usefixtures("few_extras")
def test_what_it_finds_is_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    seen = found(capsys)
    assert seen["numpy"]["found"] == f"numpy {np.__version__}"
    assert seen["a plan"]["state"] == "ok"
    assert "blas" in seen["BLAS"]["found"].lower() or "mkl" in seen["BLAS"]["found"].lower()
    assert str(len(os.sched_getaffinity(0))) in seen["BLAS"]["found"]
    assert seen["entropy"]["state"] == "ok"
    assert {"clock", "this folder", "temporary files", "browser", "broker"} <= set(seen)
    assert all(each["advice"] for each in seen.values() if each["state"] != "ok")


@pytest.mark.usefixtures("few_extras")
def test_in_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["doctor"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("veilnet works here.\n")
    assert 'pip install "veilnet[plot]" (in the folder of its source: pip install ".[plot]")' in text


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_a_note_with_its_line(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, EXTRAS[extra].modules[0], None)
    finding = _health._extra(extra)
    assert finding.state == "note"
    assert f'pip install "veilnet[{extra}]"' in finding.advice


def _raising(error: Exception) -> Any:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


def test_an_extra_that_does_not_start_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_health, "import_module", _raising(OSError("a broken library")))
    says(_health._extra("plot").found, "does not start", "OSError")


def test_broken_packages_entropy_clock_and_disks_are_problems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_health, "EXTRAS", {})
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.setattr(_health.os, "getrandom", _raising(BlockingIOError()), raising=False)
    monkeypatch.setattr(_health.time, "time", lambda: 1e9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5 * 2**20))
    seen = {each.what: each for each in _health.findings() if each.state == "problem"}
    assert set(seen) >= {"msgspec", "entropy", "clock", "this folder", "temporary files"}
    assert all(each.advice for each in seen.values())
    assert run(["doctor"]) == 1
    assert "Not in order: " in capsys.readouterr().out


def test_repeating_entropy_and_a_plan_that_fails_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_health.os, "urandom", lambda size: bytes(size))
    assert _health._entropy().state == "problem"
    monkeypatch.setattr("veilnet.designs.choice.design", _raising(RuntimeError()))
    monkeypatch.setattr("veilnet.design", _raising(RuntimeError()), raising=False)
    assert _health._at_work().state == "problem"
