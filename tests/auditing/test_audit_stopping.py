"""An audit that is asked to stop does, and says so; Ctrl-C passes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network

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
