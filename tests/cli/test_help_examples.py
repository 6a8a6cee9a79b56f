"""The example in the help of each verb runs as it stands, in a folder with a house, its plan and some rows.

The house is a small one with the names of the bundled house, so that searches are short.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers import calibration_table
from veilnet import cluster
from veilnet.cli import VERBS, _health, run
from veilnet.cli._examples import EXAMPLES

pytestmark = pytest.mark.small_search

_LINE = re.compile(r"^ *(veilnet .*)$", re.MULTILINE)


def examples_in_help(verb: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command lines below the heading at the end of a verb's help, as a reader sees them."""
    assert run([*([verb] if verb else []), "--help"]) == 0
    _, found, below = capsys.readouterr().out.partition("Example")
    assert found, f"the help of {verb or 'veilnet'} ends without an example"
    return [line.strip() for line in _LINE.findall(below)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(3)
    house = vn.Network(
        {agent: rng.standard_normal((2, 3)).round(2) for agent in ("kitchen", "hall", "study")},
        0.25,
        {"temperature": [1, 0, 0]},
        {"gait": [0, 1, 0], "presence": [0, 0, 1]},
        vn.Prior(np.diag([4.0, 1.0, 1.0])),
        reading_names={"kitchen": ["temperature", "CO2"], "hall": ["temperature", "vibration"]},
    )
    house.save(folder / "house.toml")
    plan = vn.design(house)
    plan.save(folder / "plan")
    (folder / "readings.csv").write_text("row,temperature,CO2\n1,0.5,0.25\n2,1.5,-0.5\n")
    (folder / "hall.in").write_text("row,temperature,vibration\n1,0.5,0.25\n2,1.5,-0.5\n")
    sent = ["sanitize", str(folder / "plan" / "hall.json"), "--in", str(folder / "hall.in")]
    assert run([*sent, "--out", str(folder / "hall.csv")]) == 0
    sent = ["sanitize", str(folder / "plan" / "kitchen.json"), "--in", str(folder / "readings.csv")]
    assert run([*sent, "--out", str(folder / "kitchen-before.csv")]) == 0
    for name, seed in (("winter", 0), ("spring", 1)):
        calibration_table.write_csv(folder / f"{name}.csv", calibration_table.table(400, seed))
    fitted = vn.fit(folder / "winter.csv", {"kitchen": ["T1", "RH1"], "hall": ["T2"]}, ["T_out"], ["people"])
    vn.design(fitted).save(folder / "plan-winter")
    stack = rng.standard_normal((4, 2, 3)), np.tile(np.eye(2), (4, 1, 1))
    cluster.save_parts(
        folder / "city", [stack], [[1.0, 0, 0]], {"presence": [0, 1.0, 0]}, vn.Prior(np.eye(3))
    )
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the prepared folder for each example."""
    target = tmp_path / "folder"
    shutil.copytree(prepared, target)
    (target / "kitchen-before.csv").rename(target / "kitchen.csv")
    monkeypatch.chdir(target)
    monkeypatch.setenv("COLUMNS", "100")
    return target


def without_serving(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The studio would serve until Ctrl-C: what it was asked is kept."""
    asked: list[Path | None] = []

    def serve(given: Path | None, **_: Any) -> None:
        asked.append(given)

    monkeypatch.setattr("veilnet.studio.loopback.serve", serve)
    return asked


def without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker answers at broker.example: who would send to it or hear from it ends at once."""
    offline = SimpleNamespace(
        start=lambda: None,
        wake=lambda: None,
        drain=lambda _: True,
        stop=lambda: None,
        run=lambda _: None,
        failure=None,
    )
    importlib.import_module("veilnet.live.sum_rounds")  # its class is one of the real Sender's
    monkeypatch.setattr("veilnet.live.sending.Sender", lambda *_: offline)
    monkeypatch.setattr("veilnet.live.receiving.Receiver", lambda *_, **__: offline)
    alone = SimpleNamespace(  # nobody else leads
        run=lambda _: (True, None), followed=False, unsaid=[], published=None
    )
    monkeypatch.setattr("veilnet.live.standby.Standby", lambda *_, **__: alone)
    monkeypatch.setattr("signal.signal", lambda *_: None)


SLOW = {"demo", "reproduce", "audit", "report"}


@pytest.mark.parametrize(
    "verb",
    [
        # the demo is played in test_cli_verbs, and by one command more in the long tests
        pytest.param(
            verb, marks=pytest.mark.long if verb == "demo" else pytest.mark.slow if verb in SLOW else ()
        )
        for verb in ("", *VERBS)
    ],
)
def test_the_example_runs(
    verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = examples_in_help(verb, capsys)
    assert lines == list(EXAMPLES[verb]), "the help shows each example in one line"
    made = {"": ["house.toml"], "sanitize": ["kitchen.csv", "plan/kitchen.released"]}
    for each in (made | {"agent": ["plan/kitchen.released"]}).get(verb, []):  # what it makes is not there yet
        (folder / each).unlink()
    if verb == "":
        shutil.rmtree(folder / "plan")
    asked = without_serving(monkeypatch) if verb == "studio" else []
    if verb in ("agent", "center"):
        without_a_broker(monkeypatch)
    if verb == "doctor":  # importing every optional package takes long, and is tested elsewhere
        monkeypatch.setattr(_health, "EXTRAS", {})
    before = {path for path in folder.rglob("*") if path.is_file()}
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "veilnet"
        shorter = ["--seconds", "1"] if verb == "report" else []  # its curve is that of tests/report
        assert run([*words[1:], *shorter]) == 0, capsys.readouterr().err
    if verb == "studio":
        assert [path is not None and path.exists() for path in asked] == [True]
    new = {path for path in folder.rglob("*") if path.is_file()} - before
    assert new or "--out" not in lines[-1] or verb == "design"
    capsys.readouterr()


def test_every_verb_has_one_and_none_is_left_over() -> None:
    assert set(EXAMPLES) == {"", *VERBS}


@pytest.mark.parametrize("verb", [*VERBS, "live keys", "parts design"])
def test_help_says_what_to_write_and_not_what_python_makes_of_it(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb.split(), "--help"]) == 0
    options = re.findall(r"^ +(--\S+ <.*?>)", capsys.readouterr().out, re.MULTILINE)
    assert options == []
