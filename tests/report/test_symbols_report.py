"""The report of a plan of symbols: its figures are those of the plan, promises rounded to the safe side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.pages import Node, read_page
from helpers.said import says
from helpers.symbol_table import symbol_table, write_symbol_table
from veilnet._core.errors import InvalidRequest
from veilnet._core.words import at_most
from veilnet.cli import run
from veilnet.report.building import report_of
from veilnet.report.words import at_least

AGENTS = {"hall": ["a"], "at<tic": ["c", "d"]}


@pytest.fixture(scope="module")
def plan() -> vn.SymbolPlan:
    return vn.learn_symbols(symbol_table(600), AGENTS, "activity", ["person"], guessed=0.75)


@pytest.fixture(scope="module")
def of_numbers() -> vn.SymbolPlan:
    asked = {"person": 0.75, "weight": 3.0}
    return vn.learn_symbols(symbol_table(600), AGENTS, "heat", ["person", "weight"], guessed=asked)


@pytest.fixture(scope="module")
def page(plan: vn.SymbolPlan) -> Node:
    return read_page(plan.report().html)


@pytest.mark.parametrize("share", [0.1501, 0.15, 0.9999, 1.0, 0.0])
def test_a_promise_is_rounded_to_the_side_on_which_it_holds(share: float) -> None:
    assert share - 1e-9 <= float(at_most(share)) <= share + 1e-3
    assert (1 - 0.01) * share <= float(at_least(share)) <= share + 1e-9
    assert float(at_least(4321.9)) == 4320


def test_the_headline_has_score_promise_and_guessing(plan: vn.SymbolPlan, page: Node) -> None:
    promise = plan.certificate["person"]
    figures = [float(each) for each in re.findall(r"\d+\.\d+", page.one("h1").text)]
    assert promise.guessed <= figures[2] <= promise.guessed + 1e-3
    assert figures == pytest.approx([plan.score, plan.raw_score, promise.guessed, promise.chance], abs=2e-3)


def test_each_agents_symbols_stand_with_their_meaning_and_how_often(plan: vn.SymbolPlan, page: Node) -> None:
    """Oracle for how often: what the plan sends of the very rows that certified has the counts of the centre."""
    cards = page.by_id("agents").all("div", "card")
    assert [card.one("h4").text for card in cards] == list(AGENTS)
    for card, (name, agent) in zip(cards, plan.agents.items(), strict=True):
        rows = card.one("table").cells()
        assert [row[1] for row in rows[:-1]] == list(agent.meanings)
        seen = plan.centre.seen[name]
        often = [float(row[2].removesuffix(" %")) / 100 for row in rows]
        np.testing.assert_allclose(often, seen / seen.sum(), atol=0.006)


def test_squares_are_as_likely_as_the_value_given_the_symbol(plan: vn.SymbolPlan, page: Node) -> None:
    """The area of a square is the share of its class among rows with the symbol, counted anew from the table."""
    card = page.by_id("agents").all("div", "card")[0]
    sides = [float(each.attributes["width"]) for each in card.one("svg").all("rect", "plus")]
    counts = np.array(
        [
            plan.centre.table[plan.centre.cells[:, 0] == k].sum(axis=0)
            for k in range(plan.agents["hall"].symbols)
        ]
    )
    given = (counts / counts.sum(axis=1, keepdims=True)).ravel()
    np.testing.assert_allclose(sides, np.maximum(2, 20 * np.sqrt(given[given > 0.005])), atol=0.01)


def test_evidence_over_rows_is_the_certificates_and_says_its_assumption(
    plan: vn.SymbolPlan, page: Node
) -> None:
    section = page.by_id("rows")
    shown = {int(row[0]): float(row[1]) for row in section.one("table").cells()}
    assert shown == pytest.approx(plan.certificate["person"].over_rows(tuple(shown)), rel=5e-3)
    assert "independently given the value" in section.text


def test_numbers_have_least_errors_and_intervals(of_numbers: vn.SymbolPlan) -> None:
    page = read_page(report_of(of_numbers).html)
    (promise,) = [row for row in page.by_id("certificate").one("table").cells() if row[0] == "weight"]
    error = of_numbers.certificate["weight"].error
    assert 0.99 * error <= float(promise[1]) <= error
    assert promise[2] == "error at least"
    hall = page.by_id("agents").all("div", "card")[0].one("svg")
    assert len(hall.all("polygon")) == of_numbers.agents["hall"].symbols > 1


def test_the_curve_has_every_choice_and_marks_the_plan(
    plan: vn.SymbolPlan, page: Node, of_numbers: vn.SymbolPlan
) -> None:
    drawn = page.by_id("choice")
    assert len(drawn.all("circle")) == len(plan.curve)
    assert len(drawn.all("polygon")) == 1
    rows = np.array([row[1:] for row in drawn.one("table").cells()], float)
    here = [plan.certificate["person"].guessed, plan.score]
    assert rows == pytest.approx(np.append(plan.curve[:, ::-1], [here], axis=0), abs=1e-3)
    numbers = read_page(of_numbers.report().html).by_id("choice")
    assert len(numbers.all("circle")) == len(of_numbers.curve)


def test_the_command_writes_it_with_the_audit(plan: vn.SymbolPlan, tmp_path: Path, capsys) -> None:
    plan.save(tmp_path / "plan")
    write_symbol_table(tmp_path / "later.csv", symbol_table(600, seed=5))
    capsys.readouterr()
    assert run(["audit", str(tmp_path / "plan"), "--data", str(tmp_path / "later.csv"), "--json"]) == 0
    audit = capsys.readouterr().out
    (tmp_path / "plan" / "audit.json").write_text(audit)
    assert run(["report", str(tmp_path / "plan"), "--out", str(tmp_path / "report.html")]) == 0
    page = read_page((tmp_path / "report.html").read_text())
    assert len(page.by_id("audit").one("table").cells()) == len(json.loads(audit)["attacks"])
    assert "No attacker above the promise" in page.one("header").text
    (tmp_path / "other.json").write_text('{"format": "veilnet-audit/1", "attacks": [{"private": 3}]}')
    asked = ["report", str(tmp_path / "plan"), "--out", str(tmp_path / "report.html"), "--audit"]
    assert run([*asked, str(tmp_path / "other.json")]) == 2
    with pytest.raises(InvalidRequest, match="audit"):
        report_of(plan, audit={"rows": []})


def test_attackers_of_numbers_and_another_law_stand_in_the_report(
    of_numbers: vn.SymbolPlan, tmp_path: Path, capsys
) -> None:
    of_numbers.save(tmp_path / "plan")
    later = symbol_table(600, seed=5)
    write_symbol_table(tmp_path / "later.csv", later | {"c": 0.2 * later["c"]})
    capsys.readouterr()
    asked = ["audit", str(tmp_path / "plan"), "--data", str(tmp_path / "later.csv"), "--json"]
    assert run(asked) == 1
    audit = json.loads(capsys.readouterr().out)
    assert audit["drift"]["changed"] == ["at<tic"]
    page = read_page(report_of(of_numbers, audit=audit).html)
    errors = [row[3] for row in page.by_id("audit").one("table").cells() if row[0] == "weight"]
    assert len(errors) == 6
    assert all(float(each[1:]) > 0 for each in errors)
    says(page.by_id("service").text, "VOID", "at<tic")


def test_check_says_how_much_of_the_promise_is_doubt(plan: vn.SymbolPlan, tmp_path: Path, capsys) -> None:
    """Rows that are independent: the bound of silence is Clopper and Pearson's, from SciPy's own interval."""
    from scipy.stats import binomtest

    plan.save(tmp_path / "plan")
    capsys.readouterr()
    assert run(["check", str(tmp_path / "plan"), "--json"]) == 0
    said, promise = json.loads(capsys.readouterr().out)["person"], plan.certificate["person"]
    interval = binomtest(round(promise.chance * promise.rows), promise.rows, alternative="less")
    silence = interval.proportion_ci(promise.confidence).high
    assert said["silence"] == pytest.approx(silence, rel=1e-9)
    assert said["promised"] == promise.guessed > said["with_four_times_the_rows"] > said["counted"]
    assert run(["check", str(tmp_path / "plan")]) == 0
    assert f"{said['counted']:.3f}" in capsys.readouterr().out
