"""What fit doubted is said again by check, design, verify and audit, until somebody has dealt with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet import cli

FIT = ["fit", "log.csv", "--agent", "kitchen=T1,T2", "--agent", "hall=T3", "--public", "outside",
       "--private", "lamp", "--out", "house.toml"]  # fmt: skip
WORDS = "takes only a few values: lamp (2 values)"


pytestmark = pytest.mark.usefixtures("_log")


@pytest.fixture
def _log(tmp_path: Path, monkeypatch) -> None:
    """A house whose private parameter is a lamp, on or off: the one doubt of its fit."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_normal(400), rng.integers(0, 2, 400)])
    y = x @ [[1.0, 0.4, 0.8], [0.3, 1.0, 0.5]] + 0.5 * rng.standard_normal((400, 3))
    np.savetxt("log.csv", np.column_stack([x, y]), delimiter=",", header="outside,lamp,T1,T2,T3", comments="")


def shown(capsys, *command: str) -> str:
    assert cli.run(list(command)) == 0
    return " ".join(capsys.readouterr().out.split())


AUDIT = ("audit", "plan", "--only", "promise", "--quick")


def test_every_verb_repeats_what_fit_doubted(capsys) -> None:
    assert WORDS in shown(capsys, *FIT)
    for command in (
        ("check", "house.toml"),
        ("design", "house.toml", "--out", "plan"),
        ("verify", "plan"),
        ("verify", "plan", "house.toml"),
        AUDIT,
    ):
        said = shown(capsys, *command)
        assert WORDS in said, command
        assert "--accept few-values" in said
        assert WORDS in shown(capsys, *command, "--json"), command
    assert [doubt.name for doubt in vn.Plan.load("plan").network.doubts] == ["few-values"]
    assert WORDS in str(vn.Plan.load("plan"))


def test_what_is_accepted_is_named_and_not_repeated(capsys) -> None:
    shown(capsys, *FIT)
    for command in (
        ("design", "house.toml", "--accept", "few-values", "--out", "plan"),
        ("verify", "plan"),
        ("verify", "plan", "house.toml"),
        AUDIT,
    ):
        said = shown(capsys, *command)
        assert WORDS not in said, command
        says(said, "accepted", "few-values")
        assert json.loads(shown(capsys, *command, "--json"))["doubts"][0]["accepted"] is True
    shown(capsys, "design", "house.toml", "--out", "plan")  # nobody accepted it for this plan
    assert WORDS in shown(capsys, "verify", "plan")
    assert WORDS not in shown(capsys, "verify", "plan", "--accept", "few-values")
    assert WORDS not in shown(capsys, *AUDIT, "--accept", "few-values")
    assert WORDS not in shown(capsys, "check", "house.toml", "--accept", "few-values")


def test_an_audit_is_kept_in_a_file_for_the_report(capsys) -> None:
    """The file has what --json prints, and the report takes it for this plan and for no other."""
    shown(capsys, *FIT)
    shown(capsys, "design", "house.toml", "--out", "plan")
    said = json.loads(shown(capsys, *AUDIT, "--out", "audit.json", "--json"))
    says(said["conclusion"], "open", "few-values")
    assert json.loads(Path("audit.json").read_text()) == said
    page = ("--audit", "audit.json", "--no-frontier")
    shown(capsys, "report", "plan", *page)
    shown(capsys, "design", "house.toml", "--power", "1", "--out", "other")
    assert cli.run(["report", "other", *page]) == 2
    assert "about another plan" in capsys.readouterr().err


@pytest.mark.long
def test_it_may_be_accepted_where_it_is_found(capsys) -> None:
    assert WORDS not in shown(capsys, *FIT, "--accept", "few-values")
    assert WORDS not in shown(capsys, "check", "house.toml")
    shown(capsys, "design", "house.toml", "--out", "plan")
    refit = ("refit", "plan", "log.csv", "--out", "new")
    assert WORDS in shown(capsys, *refit)  # of the new rows nobody has accepted anything
    assert WORDS not in shown(capsys, *refit, "--accept", "few-values")
    assert [doubt.accepted for doubt in vn.Plan.load("new").network.doubts] == [True]


@pytest.mark.parametrize(
    "verb",
    ["check", *(pytest.param(slow, marks=pytest.mark.long) for slow in ("fit", "design", "verify", "audit"))],
)
def test_a_name_that_nothing_has_is_an_error(verb, capsys) -> None:
    shown(capsys, *FIT)
    shown(capsys, "design", "house.toml", "--out", "plan")
    command = {
        "fit": [*FIT, "--force"],
        "check": ["check", "house.toml"],
        "design": ["design", "house.toml"],
        "verify": ["verify", "plan"],
        "audit": AUDIT,
    }
    assert cli.run([*command[verb], "--accept", "few-rows"]) == 2
    assert "doubt 'few-rows'" in capsys.readouterr().err
