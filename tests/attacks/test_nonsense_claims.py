"""Claims that no network supports: however large, they must not be confirmed, and infinity needs proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet.plans.certificate import Promise, certify
from veilnet.plans.plan import make_plan
from veilnet.plans.verification import verify


def hidden_by(strength: float) -> tuple[vn.Network, dict[str, vn.Sanitizer]]:
    """g is read with unit noise, and sent with noise of this variance more: its privacy is the strength."""
    network = vn.Network({"a": np.eye(2)}, 1.0, [[1, 0]], {"g": [0, 1]})
    return network, {"a": vn.Sanitizer(noise=[0.0, strength])}


@pytest.mark.parametrize("strength", [6e8, 1e11, 3e14])
@pytest.mark.parametrize("boast", [1.00001, 2.0, 1e6, 1e291])
def test_no_finite_claim_above_the_truth_is_confirmed(strength: float, boast: float) -> None:
    network, sanitizers = hidden_by(strength)
    claim = Promise(utility=0.0, privacy={"g": strength * boast})
    assert not certify(network, sanitizers, claim).ok
    assert not certify(network, sanitizers, replace(claim, privacy={"g": np.inf})).ok
    true = certify(network, sanitizers, replace(claim, privacy={"g": strength}))
    assert true.ok
    assert true.findings[1].found == pytest.approx(strength, rel=1e-7)


def test_verify_refuses_a_saved_plan_that_claims_1e300(tmp_path: Path) -> None:
    network, sanitizers = hidden_by(6e8)
    plan = make_plan(network, sanitizers, "test")
    boast = replace(plan, privacy={"g": 1e300})
    boast.save(tmp_path / "plan")
    checks = {check.what: check for check in verify(tmp_path / "plan", network)}
    assert not checks["privacy of g"].ok
    assert checks["privacy of g"].found == pytest.approx(plan.privacy["g"], rel=1e-6)
    with pytest.raises(vn.InvalidPlan, match="privacy of g: promised 1e\\+300"):
        vn.Plan.load(tmp_path / "plan")


@pytest.mark.parametrize("seen", [1e-4, 6e-5, 1e-5])
def test_check_says_infinite_only_where_it_is(seen: float) -> None:
    """The share of one agent sees g a little: the ceiling is finite, and its figure is known by hand.

    A second parameter, read with readings that nearly repeat each other, makes the network amplify rounding 1e9-fold.
    """
    observe = np.array([[1, seen, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1 + 1e-9]])
    network = vn.Network(
        {"a": observe[:1], "b": observe[1:2], "c": observe[2:]}, 1.0, [[1, 0, 0, 0]], {"g": [0, 1, 0, 0]}
    )
    assert network.conditioning > 1e8
    verdict = vn.check(network)
    assert np.isfinite(verdict.ceiling["g"])
    # a must send its reading; b its own, since the public estimate is y_a - seen * y_b.
    assert verdict.ceiling["g"] == pytest.approx(0.0, abs=1e-6)
    assert not verdict.achievable


def test_a_public_loss_beyond_all_figures_is_confirmed_and_a_smaller_claim_is_not() -> None:
    network = vn.Network({"a": np.eye(2)}, 1.0, [[1, 0]], {"g": [0, 1]})
    sanitizers = {"a": vn.Sanitizer(noise=[2e17, 0.0])}
    claim = Promise(utility=-2e17, privacy={"g": 0.0})
    assert certify(network, sanitizers, claim).ok
    assert certify(network, sanitizers, replace(claim, utility=-np.inf)).ok
    assert not certify(network, sanitizers, replace(claim, utility=-1e12)).ok
