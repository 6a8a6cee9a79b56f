"""An audit on data says what stands in its way: rows of the fit, doubts about the model, a model that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.report import FITTED_ROWS
from veilnet.model.fitted import fitted_again, marks_of, within_the_fit

Table = dict[str, np.ndarray[Any, Any]]


def table(rows: int, seed: int) -> Table:
    """Two readings, what may be known and what may not, to two digits as logs have them."""
    rng = np.random.default_rng(seed)
    u, g = rng.standard_normal((2, rows))
    noise = 0.4 * rng.standard_normal((2, rows))
    columns = {"a1": u + 0.5 * g + noise[0], "a2": g - 0.3 * u + noise[1], "u": u, "g": g}
    return {name: np.round(column, 2) for name, column in columns.items()}


def fitted(seen: Table) -> vn.Network:
    return vn.fit_report(seen, {"a": ["a1", "a2"]}, "u", "g").network


def told(network: vn.Network, data: Table) -> vn.AuditReport:
    trials = vn.Trials(attackers=[], quick=True)
    return vn.audit(vn.design(network), data, only=["attackers"], trials=trials)


def cut(seen: Table, rows: slice) -> Table:
    return {name: column[rows] for name, column in seen.items()}


def test_rows_are_known_again_also_as_a_part_of_others() -> None:
    rows = np.round(np.random.default_rng(0).standard_normal((3000, 3)), 1)
    marks = marks_of(rows)
    assert len(marks) == 16
    assert fitted_again(marks, rows) == 1.0
    assert fitted_again(marks, rows[700:2000]) == pytest.approx(1300 / 3000, abs=0.1)
    assert fitted_again(marks, np.vstack([rows[::-1], rows])) >= 0.9
    assert fitted_again(marks, np.round(np.random.default_rng(1).standard_normal((3000, 3)), 1)) == 0.0
    assert fitted_again((), rows) == 0.0
    assert len(marks_of(rows[:16])) == 1
    for few in (0, 1, 7, 15):  # so few could be guessed
        assert marks_of(rows[:few]) == ()
        assert not within_the_fit(marks, rows[:few])


@pytest.mark.parametrize("ending", ["toml", "json", "npz"])
def test_files_keep_what_is_known_of_the_rows(ending: str, tmp_path: Path) -> None:
    network = fitted(table(300, 0))
    assert network.fitted_rows
    network.save(tmp_path / f"network.{ending}")
    assert vn.Network.load(tmp_path / f"network.{ending}").fitted_rows == network.fitted_rows
    with pytest.raises(vn.InvalidNetwork, match=r"fitted_rows: .*16"):
        network.replace(fitted_rows=["not a hash"])


def test_the_rows_of_the_fit_are_no_honest_test(tmp_path: Path) -> None:
    log = table(2000, 0)
    first, later = cut(log, slice(0, 1000)), cut(log, slice(1000, 2000))
    network = fitted(first)
    vn.design(network).save(tmp_path / "plan")
    kept = vn.Plan.load(tmp_path / "plan").network
    again = told(kept, first)
    assert [row.verdict for row in again.rows if row.what == FITTED_ROWS] == ["warn"]
    assert "These rows were used for the fit" in str(again)
    assert "audit on rows that the model was not fitted on" in again.conclusion()
    assert "Some of these rows were used for the fit" in str(told(kept, log))
    assert "fitted on" not in str(told(kept, later))


def test_open_doubts_stay_in_the_report_until_they_are_accepted() -> None:
    log = table(1500, 3)
    network = fitted(cut(log, slice(0, 700))).replace(doubts=[vn.Doubt("noise-law", "The noise is skewed.")])
    report = told(network, cut(log, slice(700, 1500)))
    assert [doubt.name for doubt in report.doubts] == ["noise-law"]
    assert report.to_dict()["doubts"] == [
        {"name": "noise-law", "words": "The noise is skewed.", "accepted": False}
    ]
    assert "Doubtful (noise-law): The noise is skewed." in str(report)
    says(report.conclusion(), "doubt", "(noise-law)")
    calm = told(network.accepting("noise-law"), cut(log, slice(700, 1500)))
    assert "still open" not in calm.conclusion()


def test_an_attacker_by_the_model_blames_the_model() -> None:
    """Where what the model estimates is worse than guessing, nobody learned anything wrong: the model is wrong."""
    figures: dict[str, float] = {"promised": 0.1, "raw_allowed": 0.8, "reach": 0.1, "beaten": 0.5}
    worse = Evidence(sent=-0.9, raw=0.7, raw_beats=0.0, raw_knows=0.0, **figures)
    blind = Evidence(sent=0.0, raw=-0.2, raw_beats=0.9, raw_knows=0.9, **figures)
    for evidence in (worse, blind):
        verdict, why = verdict_on(evidence, 0.01, found_at="", learned=False)
        assert verdict == "cannot tell"
        says(why, "model", "these data")
        assert "learned in one stretch" not in why
    assert "learned in one stretch" in verdict_on(worse, 0.01, found_at="")[1]


def test_public_parameters_are_judged_one_by_one_in_their_units() -> None:
    """An error of 2 kW beside tenths of a degree is that of the power, and breaks the promise about it alone."""
    rng = np.random.default_rng(5)
    prior = vn.Prior(covariance=np.diag([1.0, 100.0, 1.0]), mean=np.zeros(3))
    public, units = {"warmth": [1, 0, 0], "power": [0, 1, 0]}, {"warmth": "°C", "power": "kW"}
    network = vn.Network({"a": np.eye(3)}, 0.01, public, {"g": [0, 0, 1]}, prior, units=units)
    x = rng.standard_normal((800, 3)) * [1.0, 10.0, 1.0]
    seen = x + 0.1 * rng.standard_normal((800, 3))
    seen[:, 1] += rng.choice([-2.0, 2.0], 800)
    trials = vn.Trials(attackers=[], quick=True)
    report = vn.audit(vn.design(network), {"a": seen, "x": x}, only=["attackers"], trials=trials)
    rows = {row.what: row for row in report.rows}
    assert rows["public estimate of warmth"].verdict == "ok"
    assert rows["public estimate of power"].verdict == "fail"
    assert rows["public estimate of power"].shown["sent"].startswith("±2.0 kW")
    assert rows["public estimate of warmth"].shown["promised"].startswith("±0.1")
    assert any("estimate of power from raw readings errs 20 times" in each for each in report.remarks())
