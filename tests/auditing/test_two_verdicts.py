"""Secrets of two values on data: the promise in the model and what the log shows are two verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.auditing import Audit, Row
from veilnet.bounds.detectability import SEEN

pytestmark = pytest.mark.slow
pytest.importorskip("sklearn")

Array = np.ndarray[Any, np.dtype[np.float64]]
NOISE = 0.2


def network(*, told: float) -> vn.Network:
    """u may be known, presence may not; u tells of presence as much as they are correlated."""
    prior = vn.Prior(covariance=[[1.0, 0.5 * told], [0.5 * told, 0.25]], mean=[0.0, 0.5])
    secret = vn.Secret([0, 1], change=1.0)
    return vn.Network({"a": np.eye(2)}, NOISE, {"u": [1, 0]}, {"presence": secret}, prior, resolution=0)


def log(rows: int, *, told: float, leak: float = 0.0, seed: int = 3) -> dict[str, Array]:
    """Rows by themselves; ``leak`` of the noise of u is larger while somebody is there."""
    rng = np.random.default_rng(seed)
    present = (rng.random(rows) < 0.5) * 1.0
    u = 2 * told * (present - 0.5) + np.sqrt(max(0.0, 1 - told**2)) * rng.normal(size=rows)
    noise = np.sqrt(NOISE) * rng.normal(size=(rows, 2))
    noise[:, 0] *= 1 + leak * present
    x = np.column_stack([u, present])
    return {"a": x + noise, "x": x}


def audit(plan: vn.Plan, data: Any, *attackers: str) -> Audit:
    trials = vn.Trials(attackers=attackers or ("ridge", "boosting"))
    return vn.audit(plan, data, only=["attackers"], trials=trials)


def verdicts(report: Audit) -> tuple[Row, Row]:
    rows = {row.what: row for row in report.rows}
    return rows["presence: the promise in the model"], rows["presence: what the log shows"]


def test_a_promise_that_holds_in_the_model_is_broken_by_the_log() -> None:
    """The variance of what is sent tells of presence, which no linear model knows."""
    plan = vn.design(network(told=0.0))
    report = audit(plan, log(4000, told=0.0, leak=12.0))
    model, shown = verdicts(report)
    assert model.verdict == "ok"
    assert shown.verdict == "fail"
    assert shown.figures["attacker"] == "boosting"
    assert shown.figures["AUC, sent"] > 0.75
    assert not report.ok
    # who bets on pairs one by one knows it after some dozens of them
    assert 5 < shown.figures["pairs until known"] < 200
    low, high = shown.figures["power at 0.01, interval"]
    assert low <= shown.figures["power at 0.01"] <= high
    assert shown.figures["power at 0.01"] > 0.2
    assert "BROKEN" in report.conclusion()


@pytest.mark.long
def test_where_the_log_follows_the_model_both_hold() -> None:
    """With power beside the AUC: of the model by its formula, of the log within its interval."""
    plan = vn.design(network(told=0.5))
    report = audit(plan, log(8000, told=0.5))
    model, shown = verdicts(report)
    seen = plan.detectability["presence"]
    assert (model.verdict, shown.verdict) == ("ok", "ok")
    assert model.found == seen.auc
    assert shown.found == pytest.approx(seen.auc, abs=0.03)
    assert "pairs until known" not in shown.figures
    low, high = shown.figures["power at 0.01, interval"]
    assert low < seen.sent.power_at(0.01) < high
    assert report.ok


def test_a_promise_of_nearly_one_is_never_summed_up_as_holding() -> None:
    """What is public tells presence: the plan keeps its promise, and hides nothing."""
    plan = vn.design(network(told=0.97))
    assert plan.detectability["presence"].auc > SEEN
    for report in (
        audit(plan, log(3000, told=0.97), "ridge"),
        vn.audit(plan, only=["promise"], trials=vn.Trials(quick=True)),
    ):
        assert report.ok
        assert "promise holds" not in report.headline()
        assert "does not hide" in report.headline()
        assert "presence: in the model not hidden" in report.conclusion()
        about = [row for row in report.rows if row.what.startswith(("presence: ", "logistic", "boosting on"))]
        assert "ok" not in {row.verdict for row in about if "AUC" in str(row.shown)}


def test_a_log_sorted_by_class_decides_nothing() -> None:
    """All rows without, then all rows with: what tells them apart may be the time."""
    data = log(2000, told=0.0, leak=12.0)
    order = np.argsort(data["x"][:, 1], kind="stable")
    report = audit(vn.design(network(told=0.0)), {name: each[order] for name, each in data.items()})
    _, shown = verdicts(report)
    assert shown.verdict == "cannot tell"
    assert shown.figures["independent rows"] <= 2
