"""An audit that is asked to stop does, and says so; Ctrl-C passes through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from helpers.said import says
from veilnet.auditing import auditor
from veilnet.auditing.report import NOT_COMPUTED
from veilnet.cli import run

pytestmark = pytest.mark.slow

PLAN = vn.design(random_network(3, noise="per agent", prior="covariance"))


def stopping_in(section: str) -> Callable[[str, float], bool]:
    """A progress that asks to stop once a section has begun, and fails the test if anything follows."""
    asked = False

    def progress(what: str, part: float) -> bool:
        nonlocal asked
        assert not asked, f"went on with {what} after it was asked to stop"
        asked = what == section and part > 0
        return not asked

    return progress


def test_progress_answering_false_stops_and_the_report_says_so() -> None:
    whole = vn.audit(PLAN, only=["deployed", "promise", "lattice"], trials=vn.Trials(quick=True))
    stopped = vn.audit(PLAN, progress=stopping_in("collusion"), trials=vn.Trials(quick=True, attackers=None))
    assert stopped.interrupted
    assert not whole.interrupted
    assert [row.what for row in stopped.rows] == [row.what for row in whole.rows]
    assert whole.ok
    assert not stopped.ok, "what was not looked at is not confirmed"
    assert not stopped.failed
    assert "INTERRUPTED" in str(stopped)
    assert stopped.to_dict()["interrupted"] is True


@pytest.mark.parametrize("answer", [None, True])
def test_other_answers_of_progress_go_on(answer: bool | None) -> None:
    assert not vn.audit(PLAN, only=["deployed"], progress=lambda _what, _part: answer).interrupted


def test_ctrl_c_passes_through_an_audit() -> None:
    def interrupt(what: str, _part: float) -> None:
        if what == "dropout":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vn.audit(PLAN, only=["repetition", "dropout"], progress=interrupt)


# --- a section that cannot be computed


def planted(error: Exception) -> Callable[..., Any]:
    def fails(*_: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize(
    "error",
    [
        vn.InvalidRequest("the steady state cannot be found"),
        np.linalg.LinAlgError("the steady state cannot be found"),
        FloatingPointError("the steady state cannot be found"),
    ],
)
def test_a_section_that_cannot_be_computed_is_a_finding(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It used to end the whole audit, whatever else was to be looked at."""
    monkeypatch.setattr(auditor, "collusion_rows", planted(error))
    report = vn.audit(PLAN, only=["collusion", "dropout"])
    (row,) = report.of("collusion")
    assert (row.found, row.verdict) == (NOT_COMPUTED, "cannot tell")
    says(row.why, "steady state")
    assert report.of("dropout"), "the others are run"
    assert not report.ok, "what could not be looked at is not confirmed"
    assert not report.failed
    assert "INCOMPLETE" in str(report)
    PLAN.save(tmp_path / "plan")
    assert run(["audit", str(tmp_path / "plan"), "--only", "collusion", "--only", "dropout"]) == 1
    assert "the steady state cannot be found" in " ".join(capsys.readouterr().out.split())


def test_half_a_section_is_told_where_the_other_half_cannot_be_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditor, "simulation_rows", planted(vn.NotObservable("nothing is seen")))
    report = vn.audit(PLAN, only=["promise"])
    assert [row.verdict for row in report.of("the promise")].count("ok") > len(PLAN.privacy)
    assert report.of("what stays exposed")
    assert len(report.not_computed) == 1


def test_a_defect_of_the_audit_itself_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor, "dropout_rows", planted(KeyError("a defect")))
    with pytest.raises(KeyError):
        vn.audit(PLAN, only=["dropout"])


# --- what is recognised by what it is


def test_own_regressors_learn_from_every_row_whatever_their_class_is_called() -> None:
    seen = []

    class MLPRegressor:
        """Bears the name of a slow one."""

        def fit(self, features: Any, goal: Any) -> None:
            seen.append(len(features))
            self.middle = goal.mean(axis=0)

        def predict(self, features: Any) -> Any:
            return np.tile(self.middle, (len(features), 1))

    vn.audit(PLAN, only=["attackers"], trials=vn.Trials(attackers={"mine": MLPRegressor()}, rows=16_000))
    assert seen == [8000, 8000]
