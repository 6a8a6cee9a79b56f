"""Every section of an audit names its own quantities, in units, and compares like with like."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import direct_error, direct_information
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.auditing.promise import promised_in_words
from veilnet.auditing.report import AuditReport, Row, shown_tables
from veilnet.auditing.sections import introduction
from veilnet.auditing.what_if.collusion import with_colluders
from veilnet.auditing.what_if.wrong_models import WrongModel, random_mistake
from veilnet.io.template import house
from veilnet.plans.plan import make_plan

pytestmark = [pytest.mark.slow, pytest.mark.small_search]

MINE = [
    "deployed",
    "promise",
    "collusion",
    "repetition",
    "models",
    "dropout",
    "baselines",
    "differential privacy",
]
# Columns under which something is shown that the plan really promises.
PROMISES = {
    "promised",
    "standard error grows: promised",
    "nobody helps (promised)",
    "sent once (promised)",
    "standard error grows: with hindsight (promised)",
}
QUICK = vn.Trials(quick=True, seed=1)


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    """A plan of the house that pays, so that its noise and its dither both count."""
    return vn.design(house(), privacy=10.0, starts=1)


@pytest.fixture(scope="module")
def report(plan: vn.Plan) -> AuditReport:
    return vn.audit(plan, trials=QUICK, only=MINE)


@pytest.fixture(scope="module")
def streams() -> AuditReport:
    some = [section for section in MINE if section != "baselines"]  # those of streams take long to design
    return vn.audit(noisy_stream_plan(stream_network(8), noise=0.3), trials=QUICK, only=some)


@pytest.mark.parametrize("which", ["report", "streams"])
def test_every_column_says_what_it_shows(which: str, request: pytest.FixtureRequest) -> None:
    """No column is called found, and promised only what a plan promises: in its own section, or beside a what-if."""
    found: AuditReport = request.getfixturevalue(which)
    tables = shown_tables(found.rows)
    assert {section for section, _, _ in tables if section} == set(found.sections)
    for _, headings, cells in tables:
        assert cells
        for heading in headings[1:-1]:
            assert heading not in ("", "found", "between")
            assert "promised" not in heading or heading in PROMISES, heading
    for section in found.sections:
        assert introduction(section), section
        assert all(sentence.endswith((".", "?")) for sentence in introduction(section))


def test_only_what_is_promised_stands_under_promised(plan: vn.Plan, report: AuditReport) -> None:
    """Errors under "promised" are those of the plan: privacy p_j means an error sqrt(1 + p_j) times that of raw."""
    information = direct_information(plan.network, {})
    for row in report.rows:
        name = row.what.removeprefix("attack on ").split(",")[0]
        promised = [heading for heading in row.shown if heading in PROMISES and "±" in row.shown[heading]]
        if not promised or name not in plan.network.private:
            continue
        rows = plan.network.private[name]
        truth = np.sqrt((1 + plan.privacy[name]) * direct_error(information, rows) / len(rows))
        assert row.figures["errors"][promised[0]] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("which", ["report", "streams"])
def test_no_privacy_is_negative_and_none_is_called_by_a_letter(
    which: str, request: pytest.FixtureRequest
) -> None:
    found: AuditReport = request.getfixturevalue(which)
    for _, _, cells in shown_tables(found.rows):
        for cell in cells:
            for text in cell:
                assert not re.search(r"(^|[\s±])-\d|-∞|\bnan\b", text), cell
                assert not re.search(r"\([HR]\)|\bR\b|\bu or p\b", text), cell


def test_errors_have_units(report: AuditReport) -> None:
    """The house gives every parameter a unit: each ± is followed by one, or by the end of its range."""
    units = set(house().units.values())
    seen = 0
    for row in report.rows:
        for text in row.shown.values():
            for part in re.findall(r"±[^±]*", text):
                seen += 1
                assert part.endswith(" to ") or part.split(" ", 1)[1] in units, row.what
    assert seen > 60


def of(report: AuditReport, section: str, start: str) -> list[Row]:
    return [row for row in report.of(section) if row.what.startswith(start)]


def test_colluders_are_compared_with_the_same_colluders_and_raw_readings(
    plan: vn.Plan, report: AuditReport
) -> None:
    """Colluders hand over undithered readings beside raw ones, too: sanitizing never tells more."""
    network = plan.network
    for row in report.of("collusion"):
        name, who = row.what.split(",")[0], tuple(row.figures["who"])
        draws = np.array(network.draws)
        for agent in who:
            draws[network.blocks.rows(network.position[agent])] = 0.0
        bare = network.replace(dither=draws)
        betrays = "readings" if row.what.endswith("readings") else "noise"
        rows, errors = network.private[name], row.figures["errors"]
        seen = with_colluders(network, plan.sanitizers, who, betrays)
        for heading, sanitizers in (("raw readings", {}), ("they help", seen)):
            truth = direct_error(direct_information(bare, sanitizers), rows)
            assert errors[heading] ** 2 * len(rows) == pytest.approx(truth, rel=1e-6)
        assert errors["raw readings"] <= errors["they help"] <= errors["nobody helps (promised)"] * (1 + 1e-9)
        assert errors["nobody helps (promised)"] <= errors["guessing"]


def test_many_releases_are_compared_with_as_many_raw_ones(plan: vn.Plan, report: AuditReport) -> None:
    network = plan.network
    prior = network.prior.information
    for row in report.of("repeated releases"):
        if "errors" not in row.figures:
            continue
        name, count = row.what.split(",")[0], int(row.what.split()[-2])
        rows = network.private[name]
        for heading, sanitizers in (("raw, as often", {}), ("sent so often", plan.sanitizers)):
            once = direct_information(network, sanitizers) - prior
            truth = direct_error(prior + count * once, rows)
            assert row.figures["errors"][heading] ** 2 * len(rows) == pytest.approx(truth, rel=1e-6)


def test_a_wrong_model_is_compared_with_raw_readings_under_the_same_wrong_model(plan: vn.Plan) -> None:
    """The oracle fuses simulated raw readings of the true network by the plan's model."""
    network = plan.network
    rng = np.random.default_rng(5)
    mistake = random_mistake(network, rng, 0.05)
    truth = mistake.applied(network)
    outcome = WrongModel(network, plan.sanitizers).outcome(mistake)
    count = 40_000
    x = rng.multivariate_normal(truth.prior.mean, truth.prior.covariance, count)
    y = x @ truth.H.T + rng.multivariate_normal(np.zeros(network.N), truth.R.matrix(), count)
    weights = np.linalg.inv(network.R.matrix())
    gain = np.linalg.solve(
        network.prior.information + network.H.T @ weights @ network.H, network.H.T @ weights
    )
    estimate = network.prior.mean + (y - network.prior.mean @ network.H.T) @ gain.T
    errors = (estimate - x) @ network.U.T
    best = direct_error(direct_information(truth, {}), network.U)
    assert 1 + outcome.raw_loss == pytest.approx(np.mean(np.sum(errors**2, axis=1)) / best, rel=0.05)
    # on the house a wrong model costs raw readings as much as sanitized ones: it is not the plan that costs it
    assert outcome.raw_loss > 0.1
    assert 0.9 < (1 + outcome.public_loss) / (1 + outcome.raw_loss) < 1.2


def test_other_protections_stand_beside_the_plan_in_one_row_each(plan: vn.Plan, report: AuditReport) -> None:
    equal = [row for row in report.of("baselines") if row.what.endswith("at equal public error")]
    assert equal[0].what.startswith("this plan")
    for name, rows in plan.network.private.items():
        raw = np.sqrt(direct_error(direct_information(plan.network, {}), rows) / len(rows))
        none = next(row for row in equal if row.what.startswith("no protection"))
        shown = float(re.findall(r"±([\d.]+)", none.shown[f"error on {name}"])[0])
        assert shown == pytest.approx(raw, rel=0.05)
    assert all(row.promised is None for row in equal[1:])


def test_a_promise_without_bound_is_said_in_words() -> None:
    """Nothing is known of g beforehand, and nothing is sent of it."""
    network = vn.Network({"a": np.eye(2)}, 0.1, {"u": [1, 0]}, {"g": [0, 1]}, units={"g": "%"})
    plan = vn.design(network)
    assert promised_in_words(plan) == (
        "Promised standard errors, raw / sent / prior only: u ±0.32 / ±0.32 / ∞; g ±0.32 / ∞ / ∞ %."
    )
    silent = make_plan(network, {"a": vn.Sanitizer.silent(2)}, "test")
    assert "u ±0.32 / ∞ / ∞; g ±0.32 / ∞ / ∞ %" in promised_in_words(silent)


def test_what_was_confirmed_is_what_is_said_to_be_promised() -> None:
    """A confirmed privacy stands above what doubles make of it."""
    network = vn.Network({"a": np.eye(2)}, 0.1, {"u": [1, 0]}, {"g": [0, 1]}, vn.Prior(covariance=np.eye(2)))
    plan = replace(vn.design(network), privacy={"g": 3.0})
    assert f"/ ±{np.sqrt(1 / (1 + 10)) * 2:.2f} /" in promised_in_words(plan)


def test_what_broken_rows_may_come_from_is_said_once_for_all_of_them() -> None:
    """The cause used to stand at the first broken row alone, as if the others were not subject to drift."""
    drift = "These data do not follow the model."
    rows = [
        Row("on data", name, 1.0, 0.5, "fail", drift, shown={"sent": "±1"}) for name in ("ridge", "boosting")
    ]
    remarks = AuditReport(tuple(rows), 1e-6).remarks()
    assert [drift in each for each in remarks] == [False, False, True]
    assert all(name in remarks[2] for name in ("ridge", "boosting"))
    assert drift in AuditReport(tuple(rows[:1]), 1e-6).remarks()[0]


def test_recomputed_promises_stand_in_one_table(report: AuditReport) -> None:
    """What is counted, agents without dither, once cut the table in two."""
    recomputed = [headings for _, headings, _ in shown_tables(report.rows) if "computed again" in headings]
    assert len(recomputed) == 1
    assert "agents without dither" in [row.what for row in report.of("the promise")]


def test_lattice_rows_say_whose_errors_they_are(plan: vn.Plan) -> None:
    rows = vn.audit(plan, trials=QUICK, only=["lattice"]).rows
    assert rows
    assert all(list(row.shown)[:3] == ["promised", "linear attacker", "lattice attacker"] for row in rows)
