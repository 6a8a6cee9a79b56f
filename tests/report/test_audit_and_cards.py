"""Audits on the page, from an audit and from its file; what notebooks show; the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.pages import read_page
from helpers.said import says
from helpers.shown_plans import KINDS, plan_of
from helpers.summed_house import summed_plan
from veilnet import cli
from veilnet._core.errors import InvalidRequest
from veilnet.auditing.report import AuditReport, Row
from veilnet.io._json import plain
from veilnet.io.audit_files import FORMAT
from veilnet.io.template import house
from veilnet.plans.fingerprint import plan_fingerprint

pytestmark = pytest.mark.small_search

ROWS = (
    Row("promise", "gait", 2.0, 1.9, "ok", "it holds.", (1.8, 2.1)),
    Row("promise", "presence", float("inf"), 3.0, "fail", "presence < gait & so on."),
    Row("models", "temperature", None, 7.5, "warn", "it depends."),
)


def test_findings_are_listed_worst_first_and_marked_in_words() -> None:
    plan = plan_of("perfect")
    page = read_page(plan.report(audit=AuditReport(ROWS, 1e-6)).html)
    section = page.by_id("audit")
    assert "1 finding against the plan" in section.text
    assert "1 finding against the plan" in page.one("ul", "facts").text
    worst, other = (each.text for each in section.all("li"))
    assert worst.startswith("✗ BROKEN presence: ")
    assert worst.endswith("presence < gait & so on.")
    assert other.startswith("! look at it temperature: ")
    summary, promise, models = section.all("table")
    assert summary.cells() == [["promise", "1", "1", "–"], ["models", "–", "–", "1"]]
    assert promise.cells() == [
        ["gait", "2", "1.9", "1.8 .. 2.1", "✓ holds"], ["presence", "∞", "3", "", "✗ BROKEN"],
    ]  # fmt: skip
    assert models.cells() == [["temperature", "7.5", "! look at it"]]
    every, broken, fine = section.all("details")
    assert "open" in every.attributes
    assert "open" in broken.attributes
    assert "open" not in fine.attributes


def test_what_is_broken_comes_first_and_what_cannot_be_told_is_told_by_its_reason() -> None:
    few = "These rows are too few."
    rows = (
        Row("data", "ridge", 1.0, 1.0, "cannot tell", few),
        Row("data", "logistic", 0.5, 0.9, "fail"),
        Row("data", "boosting", 1.0, 1.0, "cannot tell", few),
        Row("data", "forest", 1.0, 2.0, "cannot tell", "It only guesses."),
    )
    page = read_page(plan_of("perfect").report(audit=AuditReport(rows, 1e-6)).html)
    assert [each.text for each in page.by_id("audit").all("li")] == [
        "✗ BROKEN logistic: promised 0.5; found 0.9.",
        "? cannot tell ridge and boosting. These rows are too few.",
        "? cannot tell forest. It only guesses.",
    ]


def test_a_long_audit_is_cut_the_worst_kept_and_the_rest_counted() -> None:
    rows = [
        {
            "section": f"s{k % 5}",
            "what": "w" * 40,
            "promised": 1.0,
            "found": 2.0,
            "verdict": "ok",
            "why": "x" * 900,
        }
        for k in range(5000)
    ]
    rows += [{**rows[0], "what": "the broken one", "verdict": "fail"} for _ in range(100)]
    text = plan_of("perfect").report(audit={"rows": rows}).html
    assert len(text.encode()) < 500_000
    section = read_page(text).by_id("audit")
    first = section.all("details")[1].one("table").cells()
    assert [row[0] for row in first[:100]] == ["the broken one"] * 100
    assert "980 more" in section.text
    assert section.all("li")[-1].text == "40 more."


def test_what_cannot_be_told_is_counted() -> None:
    row = {
        "section": "attackers", "what": "forest on gait", "promised": 7.4, "found": 7.6, "verdict": "cannot tell",
        "why": "Too few rows.",
    }  # fmt: skip
    section = read_page(plan_of("perfect").report(audit={"rows": [row]}).html).by_id("audit")
    says(section.text, "nothing could be tested", "1 undecided")
    row = {**row, "what": "ridge on gait", "verdict": "ok"}
    both = {"rows": [row, {**row, "verdict": "cannot tell"}]}
    text = read_page(plan_of("perfect").report(audit=both).html).by_id("audit").text
    says(text, "could be tested holds", "1 undecided")


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([], "no promise was tested"),
        (["info", "info"], "no promise was tested"),
        (["info", "warn"], "no promise was tested; 1 to look at"),
        (["cannot tell"], "nothing was found broken, and nothing could be tested; 1 undecided"),
        (["ok", "info"], "every promise holds"),
        (["ok", "warn"], "every promise holds; 1 to look at"),
    ],
)
def test_what_was_not_tested_does_not_hold(verdicts: list[Any], words: str) -> None:
    """The page and the audit itself say the same."""
    audit = AuditReport(tuple(replace(ROWS[0], verdict=each) for each in verdicts), 1e-6)
    assert audit.headline() == f"Audit: {words}."
    facts = read_page(plan_of("perfect").report(audit=audit).html).one("ul", "facts")
    said = facts.all("li")[1]
    assert said.text == f"✓ Audit: {words}" if verdicts == ["ok", "info"] else f"Audit: {words}"
    assert (said.attributes.get("class") == "look") == (verdicts != ["ok", "info"])


def test_rows_that_say_what_to_show_are_shown_so_and_the_conclusion_is_told() -> None:
    row = {
        "section": "attackers", "what": "forest on gait", "verdict": "not covered", "why": "It tells too much.",
        "shown": {"guessing": "±7.9", "from <sent>": "±3.1"},
    }  # fmt: skip
    document = {"rows": [row], "conclusion": "What was promised & what was found."}
    section = read_page(plan_of("perfect").report(audit=document).html).by_id("audit")
    findings = section.all("details")[0]
    assert [each.text for each in findings.one("thead").all("th")] == [
        "",
        "guessing",
        "from <sent>",
        "verdict",
    ]
    assert findings.one("table").cells() == [["forest on gait", "±7.9", "±3.1", "✗ NOT COVERED"]]
    assert "What was promised & what was found." in section.text
    assert "1 finding against the plan" in section.text


def test_an_audit_of_another_plan_is_refused_and_one_of_none_says_so() -> None:
    plan, other = plan_of("perfect"), plan_of("power")
    mine = {"rows": [], "plan": plan_fingerprint(plan.network, plan.sanitizers)}
    assert "does not say which plan" not in plan.report(audit=mine).html
    assert "does not say which plan" in plan.report(audit={"rows": []}).html
    with pytest.raises(InvalidRequest, match="about another plan"):
        other.report(audit=mine)


def test_without_an_audit_the_page_says_so() -> None:
    page = read_page(plan_of("perfect").report().html)
    assert "No audit was run" in page.by_id("audit").text
    assert "Not audited" in page.one("ul", "facts").text


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_show_the_pieces(kind: str) -> None:
    plan = plan_of(kind)
    for thing in (plan, plan.network, vn.check(plan.network), plan.report()):
        read_page(thing._repr_html_())
    page = read_page(plan._repr_html_())
    assert len(page.all("svg")) == len(plan.network.public) + len(plan.network.private)
    rows = read_page(plan.network._repr_html_()).one("table").cells()
    assert [row[0] for row in rows] == [*plan.network.public, *plan.network.private]


def test_estimates_and_audits_are_shown() -> None:
    plan = plan_of("perfect")
    messages = {
        agent: plan.sanitizers[agent].sanitize(np.zeros((12, n)))
        for agent, n in (("kitchen", 3), ("hall", 2))
    }
    messages["hall"][1] = np.nan
    estimate = vn.Fusion(plan).estimate(messages)
    page = read_page(estimate._repr_html_())
    cells = page.one("table").cells()
    assert len(cells) == 10
    assert "2 more rows" in page.text
    value, error = cells[0][1].split(" ±")
    assert float(value) == pytest.approx(estimate.public[0, 0], rel=6e-3)
    assert float(error) == pytest.approx(estimate.deviation[0, 0], rel=0.06)
    assert [row[2] for row in cells[:2]] == ["–", "hall"]
    assert "presence" in read_page(AuditReport(ROWS, 1e-6)._repr_html_()).text
    single = vn.Fusion(plan).estimate({agent: block[0] for agent, block in messages.items()})
    assert len(read_page(single._repr_html_()).one("table").cells()) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    plan_of("perfect").save("plan")
    return tmp_path


def run(*arguments: str) -> int:
    return cli.run(["report", *arguments])


def test_the_command_writes_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = vn.Plan.load("plan")
    found = AuditReport(ROWS, 1e-6)
    audit = plain(found.to_dict()) | {"plan": plan_fingerprint(plan.network, plan.sanitizers)}
    (folder / "audit.json").write_text(json.dumps(audit))
    assert run("plan", "--no-frontier", "--audit", "audit.json", "--out", "page.html") == 0
    assert (folder / "page.html").read_text() == plan.report(audit=found).html
    assert "Wrote page.html" in capsys.readouterr().out
    (folder / "audit.json").rename("plan/audit.json")
    assert run("plan", "--no-frontier") == 0
    assert (folder / "report.html").read_text() == (folder / "page.html").read_text()
    assert vn.Plan.load("plan").certificate.ok


def test_an_agent_called_audit_is_no_audit(folder: Path) -> None:
    network = vn.Network({"audit": np.eye(2)}, 1.0, {"u": [1.0, 0.0]}, {"g": [0.0, 1.0]})
    vn.design(network).save("named")
    assert (folder / "named" / "audit.json").is_file()
    assert run("named", "--no-frontier") == 0
    assert "Not audited" in read_page((folder / "report.html").read_text()).one("ul", "facts").text


@pytest.mark.parametrize(
    "wrong",
    [
        '"shown": 5', '"shown": "abc"', '"shown": {"sent": 5}', '"shown": ["sent"]', '"promised": {"a": 1}',
        f'"promised": {10**400}', '"found": true', '"interval": [[1, 2], 3]', f'"interval": [0, {-(10**400)}]',
    ],
)  # fmt: skip
def test_a_row_that_no_audit_writes_is_one_clear_line(
    wrong: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = '"section": "s", "what": "w", "verdict": "ok"'
    (folder / "audit.json").write_text(f'{{"format": "{FORMAT}", "rows": [{{{row}, {wrong}}}]}}')
    assert run("plan", "--audit", "audit.json", "--no-frontier") == 2
    error = capsys.readouterr().err
    says(error, "audit.json: ", "something else", "run the audit again")
    assert error.count("\n") == 1


def test_an_audit_of_a_newer_veilnet_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "audit.json").write_text('{"format": "veilnet-audit/2", "rows": []}')
    assert run("plan", "--audit", "audit.json", "--no-frontier") == 2
    says(capsys.readouterr().err, "audit.json", "newer veilnet", "veilnet-audit/2", FORMAT)


def test_figures_of_a_file_may_be_infinite_and_names_may_be_any(folder: Path) -> None:
    row: dict[str, Any] = {"section": "inf", "what": "nan", "verdict": "ok"}
    row |= {"promised": "inf", "found": 10**30, "interval": [0, "inf"]}
    (folder / "audit.json").write_text(json.dumps({"format": FORMAT, "rows": [row]}))
    assert run("plan", "--audit", "audit.json", "--no-frontier") == 0
    section = read_page((folder / "report.html").read_text()).by_id("audit")
    assert section.all("table")[1].cells() == [["nan", "∞", "1e+30", "0 .. ∞", "✓ holds"]]


def test_the_command_traces_the_frontier(folder: Path) -> None:
    network = vn.Network(
        observe={"a": [[1.0, 1.0]], "b": [[1.0, -0.5]]}, noise=1.0, public=[[1.0, 0.0]], private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.eye(2)),
    )  # fmt: skip
    vn.design(network).save("small")
    assert run("small", "--seconds", "60") == 0
    section = read_page((folder / "report.html").read_text()).by_id("frontier")
    free = np.sqrt(1 + vn.check(network).ceiling["g"])
    rows = section.one("table").cells()
    assert len(rows) >= 4
    assert rows[-1][2] == "free plan"
    assert rows[-1][0].startswith(("unchanged", f"{100 * (free - 1):.2g} %", f"{free:.3g}x"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "no such folder"),
        (["plan", "--audit", "nothing.json"], "nothing.json: no such file"),
        (["plan", "--audit", "plan/plan.json"], "expected what 'veilnet audit plan/ --json' writes"),
        (["plan", "--out", "no/such/folder.html"], "there is no folder"),
        (["plan", "--out", "plan"], "expected a file, found a folder"),
    ],
)
def test_wrong_input_is_one_clear_line(
    arguments: list[str], complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--no-frontier") == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert not (folder / "report.html").exists()


def test_findings_and_curves_of_others_are_refused() -> None:
    plan, traded = plan_of("perfect"), plan_of("trade-off")
    found = vn.audit(plan, only=["dropout"])
    assert (
        found.rows[0].what
        in read_page(plan.report(audit=found, frontier=vn.frontier(plan.network, [0.0])).html).text
    )
    with pytest.raises(vn.InvalidRequest, match=r"audit: .*another plan"):
        traded.report(audit=found)
    other = plan.network.replace(noise=dict.fromkeys(plan.network.agents, 2.0))
    with pytest.raises(vn.InvalidRequest, match=r"frontier: .*another network"):
        plan.report(frontier=vn.frontier(other, [0.0]))


def test_of_a_secret_the_card_says_how_surely_it_is_seen_and_no_growth() -> None:
    network = house()
    others = {name: rows for name, rows in network.private.items() if name != "cooking"}
    network = network.replace(private={**others, "cooking": vn.Secret(network.private["cooking"], 1.0)})
    plan = vn.design(network)
    card = plan._repr_html_()
    seen = vn.detectability(plan.network, plan)["cooking"]
    headline = card[: card.index('class="grid"')]
    assert f"AUC {seen.auc:.3f}" in headline
    assert "error on cooking" not in headline
    about = card[card.index("<h3>cooking") :]
    for detector in (seen.raw, seen.sent):
        assert f"{detector.auc:.3f}" in about
        assert f"{100 * detector.power:.1f} %" in about
    assert "fold" not in about


def test_a_plan_of_sums_is_drawn_beside_shares_and_silence() -> None:
    """Five marks for each private parameter, on one scale, with the table folded beneath."""
    plan = summed_plan()
    page = plan.report().html
    picture = re.search(r"<svg[^>]*><title[^>]*>Growth of standard errors\..*?</svg>", page, re.DOTALL)
    assert picture is not None
    drawn, private = picture.group(), len(plan.network.private)
    for mark in ('class="mark raw"', 'class="mark sent"', 'class="mark guess"', 'class="curve"'):
        assert drawn.count(mark) == private
    helped = ("shares and one agent helps by 7 %", "only sums and one agent helps 1.16x")
    says(drawn, "cooking", "shares 1.58x", "only sums 3.51x", "nothing sent 3.57x", *helped)
