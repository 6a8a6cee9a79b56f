"""What people read and write: errors with units, percentages and folds, whole sentences, and no riddles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet._core.errors import InvalidRequest
from veilnet._core.words import times
from veilnet.bounds.typical_errors import typical_errors
from veilnet.cli import run
from veilnet.cli._options import in_options
from veilnet.cli._shared import targets
from veilnet.designs.frontiers import _default_levels
from veilnet.designs.questions import read_loss
from veilnet.io.template import house
from veilnet.plans.plan import make_plan

RIDDLES = ("In the way", "Rank decisions", "Plan (", "u or p", "ε^max", "Theorem", "smallest part")


@pytest.fixture
def house_file(tmp_path: Path) -> str:
    path = tmp_path / "house.toml"
    house().save(path)
    return str(path)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Everything printed, on one line."""
    return " ".join(capsys.readouterr().out.split())


def test_no_riddles_and_no_rounding_in_what_is_shown(
    house_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan")
    for command in (
        ["check", house_file],
        ["design", house_file, "--out", plan],
        ["verify", plan, house_file],
        ["frontier", house_file, "--private-error", "1.2x", "--private-error", "1.4x"],
    ):
        assert run(command) == 0
        text = said(capsys)
        assert not [riddle for riddle in RIDDLES if riddle in text], command
        assert not re.search(r"\de-[123]\d", text), command  # -1.11e-15 and its like
        assert "no more than was allowed" not in text, "promised: not at all, found: not at all"
        if command[0] != "frontier":
            assert "gait (private) ±3.9 steps/min ±12.4 steps/min ±15.0 steps/min 3.19x" in text


def test_the_theorem_and_the_decisions_are_there_for_those_who_ask(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", house_file, "-v"]) == 0
    text = said(capsys)
    assert "Theorem 2" in text
    assert "1e-09" in text
    assert run(["design", house_file, "-v"]) == 0
    assert "closed form" in said(capsys)


def test_the_agent_that_leaks_most_is_named(house_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = vn.check(house())
    first, grown = next(iter(verdict.blocking["cooking"].items()))
    assert run(["check", house_file]) == 0
    assert f"{first} ({np.sqrt(1 + grown):.3g}x without it)" in said(capsys)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["3x"], vn.Times(3)),
        (["50%"], vn.Times(1.5)),
        (["1x"], vn.Times(1)),
        (
            ["gait=12steps/min", "cooking=0.4"],
            {"gait": vn.AtLeast(12, "steps/min"), "cooking": vn.AtLeast(0.4)},
        ),
        (["gait=1.2e1 steps/min"], {"gait": vn.AtLeast(12, "steps/min")}),
        (["gait=2x", "presence=auc:0.6"], {"gait": vn.Times(2), "presence": vn.Auc(0.6)}),
        (["worst:2x"], vn.Worst(3.0)),
    ],
)
def test_errors_are_written_as_people_write_them(given: list[str], expected: object) -> None:
    assert targets(given, "--private-error") == expected


@pytest.mark.parametrize(
    "given", ["0.5x", "-10%", "-3kW", "0", "much", "x", "worst:5kW", "gait=3x,cooking=2x"]
)
def test_errors_that_mean_nothing_are_refused(given: str) -> None:
    with pytest.raises(InvalidRequest):
        targets([given], "--private-error")


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        (["--privacy", "3x"], "--private-error"),
        (["--privacy", "gait=50%"], "--private-error"),
        (["--utility-loss", "5%"], "--public-error"),
        (["--public-error", "5"], "5%"),
        (["--public-error", "much"], "5%"),
        (["--public-error", "5%", "--utility-loss", "0.1"], "--utility-loss"),
        (["--private-error", "2x", "--privacy", "3"], "--privacy"),
        (["--private-error", "gait=13kW"], "steps/min"),
        (["--utility-loss", "5"], "--public-error 5%"),
    ],
)
def test_a_scale_that_was_mistaken_is_answered_with_what_to_write(
    given: list[str], instead: str, house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["design", house_file, *given]) == 2
    complaint = capsys.readouterr().err
    assert given[0] in complaint or "privacy" in complaint
    assert instead in complaint


@pytest.mark.small_search
def test_standard_errors_and_the_papers_scale_ask_the_same(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two oracles of what 13 steps/min ask: the ratio to the raw error, and what the plan's bound then is."""
    raw = typical_errors(house())["gait"].raw
    answers = []
    for asked in (["--private-error", "gait=13steps/min"], ["--privacy", f"gait={(13 / raw) ** 2 - 1!r}"]):
        assert run(["design", house_file, *asked, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["privacy"] == answers[1]["privacy"]
    plan = vn.design(house(), privacy={"gait": vn.AtLeast(13)})
    rows = plan.network.private["gait"]
    assert np.sqrt(np.trace(rows @ vn.crlb(plan.network, plan) @ rows.T) / len(rows)) >= 13 * (1 - 1e-9)
    assert vn.design(house(), privacy=vn.AtLeast(0.01)).method == "perfect"  # met by raw readings already
    assert run(["design", house_file, "--public-error", "0%", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "perfect"
    assert read_loss(vn.Times(1.05)) == pytest.approx(0.1025, rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "named"), [("presence=0.1", "presence"), ("gait=2", "gait"), ("gait=2x", "")]
)
def test_an_error_that_raw_readings_have_asks_for_nothing_and_that_is_said(
    asked: str, named: str, house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who forgets the x of 2x asks for two of its unit: 2 steps/min, where raw readings are off by 4."""
    assert run(["design", house_file, "--private-error", asked]) == 0
    shown = said(capsys)
    assert ("asks for nothing" in shown) == bool(named)
    assert f"asked for {named}" in shown or not named


def test_every_limit_that_is_exceeded_is_named(house_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", house_file, "--private-error", "10x"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("veilnet: error: --private-error: ")  # as it was typed
    for name, limit in vn.check(house()).limit.items():
        assert f"{name}: 10x was asked, and even silence gives only {(1 + limit) ** 0.5:.3g}x" in complaint
    assert run(["design", house_file, "--privacy", "8", "--method", "perfect"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("veilnet: error: --privacy: ")
    assert "presence: 3x (p = 8) was asked" in complaint
    assert "cooking: 3x (p = 8) was asked" in complaint
    assert "gait" not in complaint
    assert run(["design", house_file, "--private-error", "worst:10x"]) == 1
    assert capsys.readouterr().err.count("every direction of") == 3


def test_verify_has_no_empty_column_and_names_what_is_wrong(
    house_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    assert run(["design", house_file, "--out", str(plan)]) == 0
    capsys.readouterr()
    assert run(["verify", str(plan), house_file, "-v"]) == 0
    shown = capsys.readouterr().out
    heading = next(line for line in shown.splitlines() if "promised" in line)
    assert heading.split() == ["what", "promised", "found", "confirmed"]
    (plan / "hall.json").unlink()
    assert run(["verify", str(plan), house_file]) == 1
    assert "- hall.json: " in capsys.readouterr().out


def test_what_is_free_is_drawn_as_a_region_and_not_as_points() -> None:
    pytest.importorskip("matplotlib")
    network = house()
    ceiling = min(vn.check(network).ceiling.values())
    curve = vn.frontier(network, [*np.linspace(0.1, ceiling * 0.99, 12)])
    assert len(curve.free) == 12
    axes = curve.plot().axes[0]
    assert sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() == "o") == 0
    assert f"free: up to {np.sqrt(1 + ceiling):.3g}x nothing is lost" in axes.get_legend_handles_labels()[1]
    assert str(curve).count("\n") == 0


def test_the_paid_part_of_a_frontier_begins_where_the_free_part_ends() -> None:
    pytest.importorskip("matplotlib")
    network = vn.Network(
        observe={"a": [[1.0, 0.6], [0.2, 1.0]], "b": [[1.0, -0.3]]},
        noise=1.0,
        public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.eye(2) * 4),
        resolution=0.0,
    )
    verdict = vn.check(network)
    ceiling, limit = verdict.ceiling["g"], verdict.limit["g"]
    curve = vn.frontier(network, [0.3 * ceiling, 0.6 * ceiling, ceiling + 0.5 * (limit - ceiling)])
    [line] = [each for each in curve.plot().axes[0].lines if each.get_marker() == "o"]
    assert np.asarray(line.get_xdata()) == pytest.approx(np.sqrt([1 + ceiling, 1 + curve.rows[-1].asked]))
    assert np.asarray(line.get_ydata()) == pytest.approx(
        [0.0, 100 * (np.sqrt(1 - curve.rows[-1].utility) - 1)]
    )
    assert line.get_markevery() == [1]  # the edge of what is free is no point that was asked for


def test_nothing_lost_is_zero_and_not_what_rounding_leaves_of_it(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["design", house_file, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["utility"] == 0
    assert answer["errors"]["gait"]["sent"] == pytest.approx(12.4, abs=0.05)
    assert vn.design(house()).utility == 0.0
    assert "e-" not in vn.frontier(house(), [0.5, 1.0]).table()


def test_errors_speak_of_options_where_options_were_typed(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["design", house_file, "--utility-loss", "0.05", "--method", "noise"]) == 2
    assert "--method: --utility-loss" in capsys.readouterr().err
    assert (
        in_options("use method='auto', or prove=True (--prove)", "design") == "use --method auto, or --prove"
    )
    assert (
        in_options("plan.privacy=2 of design(privacy=...)", "design")
        == "plan.privacy=2 of design(privacy=...)"
    )
    assert in_options("method: unknown", "no such verb") == "method: unknown"
    both = in_options("privacy and utility_loss: expected one target", "design")
    assert both == "--privacy and --utility-loss: expected one target"


def test_public_parameters_of_other_units_are_not_added_up_unsaid() -> None:
    network = vn.Network(
        {"a": np.eye(3)},
        0.2,
        {"u": [1, 0, 0], "v": [0, 1, 0]},
        {"g": [0, 0, 1]},
        vn.Prior(covariance=np.eye(3)),
        units={"u": "°C", "v": "kW"},
    )
    noisy = {"a": vn.Sanitizer([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], noise=[0.1, 0.0])}
    words = str(make_plan(network, noisy, "joint"))
    assert words.startswith("1 agent sends 2 numbers for 3 readings; the standard error of u")
    grown = 1 - make_plan(network, noisy, "joint").utility
    assert times(1 + 2 * (grown - 1)) in words  # all of it is lost on u, half of the sum
    alike = str(make_plan(network.replace(units={}), noisy, "joint"))
    assert times(grown) in alike


def test_a_frontier_begins_with_what_is_free_and_has_as_many_points_as_asked(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ceiling = min(vn.check(house()).ceiling.values())
    assert run(["frontier", house_file, "--private-error", "1.2x"]) == 0
    assert f"up to {np.sqrt(1 + ceiling):.4g}x" in said(capsys)
    assert run(["frontier", house_file, "--points", "3", "--private-error", "1.2x"]) == 2
    assert "--points:" in capsys.readouterr().err
    for limit in (2.1, 30.0, np.inf):
        levels = _default_levels(5, 2.0, limit)
        assert len(set(levels)) == 5
        assert levels == sorted(levels)
        assert levels[0] == 2.0
        assert levels[-1] < limit


def test_several_targets_in_one_are_told_apart() -> None:
    with pytest.raises(InvalidRequest, match="--privacy gait=11 --privacy cooking=3"):
        targets(["gait=11,cooking=3"], "--privacy")
    assert targets(["light, upstairs=2"], "--privacy") == {"light, upstairs": 2.0}


def test_what_is_asked_for_cannot_be_given_up(house_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", house_file, "--private-error", "gait=3.3x", "--give-up", "gait"]) == 2
    assert "gait is asked for in numbers" in " ".join(capsys.readouterr().err.split())


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("check", "design", "frontier"):
        assert run([verb, str(tmp_path / "nofile")]) == 2
        assert "nofile: no such file" in capsys.readouterr().err
    (tmp_path / "house.txt").write_text("")
    assert run(["check", str(tmp_path / "house.txt")]) == 2
    assert ".toml" in capsys.readouterr().err
