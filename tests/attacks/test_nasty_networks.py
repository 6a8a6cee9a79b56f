"""Networks that are hard on floating point: a plan with true promises, or one of our own errors, nothing else.

The long form, a thousand networks, is ``benchmarks/nasty_networks.py``; the truth there has 120 digits.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import veilnet as vn

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    try:
        return import_module("nasty_networks")
    finally:
        sys.path.pop(0)


def test_readings_that_nearly_repeat_each_other_end_in_a_plan() -> None:
    network = vn.Network({"a": [[1, 1]], "b": [[1, 1 + 1e-8]]}, 1.0, [[1, 0]], {"g": [0, 1]})
    plan = vn.design(network)
    assert plan.privacy["g"] == pytest.approx(0.0, abs=1e-6)
    assert plan.utility == pytest.approx(0.0, abs=1e-6)


# Seeds with conditioning from 1 to 3e9; among them those whose figures doubles alone get wrong.
@pytest.mark.parametrize(
    "seed", [*range(12), 34, 40, 46, 47, 53, 67, 80, 104, 108, 109, 146, 163, 237, 331, 368]
)
def test_promises_are_right_to_a_millionth(study: ModuleType, seed: int) -> None:
    for outcome in study.outcomes(seed, ("perfect", "power")):
        assert outcome.ended != "CRASH", outcome.words
        assert not outcome.wrong
        if outcome.ended == "InvalidNetwork":  # no grid could let such readings through
            assert outcome.words.startswith("prior: by the model, readings of"), outcome.words
            continue
        if outcome.conditioning < 1e6:
            assert outcome.ended == "plan", outcome.words
        assert outcome.ended in ("plan", "InvalidPlan")


@pytest.mark.small_search
@pytest.mark.parametrize("seed", [8])
def test_every_kind_of_request(study: ModuleType, seed: int) -> None:
    outcomes = list(study.outcomes(seed))
    assert [outcome.request for outcome in outcomes] == list(study.REQUESTS)
    assert all(outcome.ended == "plan" and not outcome.wrong for outcome in outcomes)


@pytest.mark.long
def test_where_no_use_of_the_loss_is_confirmed_the_shares_are_the_answer(study: ModuleType) -> None:
    network = study.nasty_network(71)
    plan = vn.design(network, utility_loss=0.05)
    assert not study.wrong_promises(plan)
    assert "no plan that uses the loss allowed was confirmed" in str(plan)
    assert plan.gap == np.inf
    assert plan.privacy == vn.design(network).privacy


def test_privacy_beyond_what_doubles_resolve_is_a_plan_or_refused(study: ModuleType) -> None:
    """A ceiling of 1e16 by rounding alone: a plan without loss serves, and nothing of its price can be saved."""
    (outcome,) = study.outcomes(81, ("privacy",))
    assert outcome.ended in ("plan", "InvalidPlan"), outcome.words
    assert not outcome.wrong


@pytest.mark.parametrize("seed", [80, 160, 286, 331])
def test_a_ceiling_that_doubles_call_infinite_is_told_or_called_at_least(
    study: ModuleType, seed: int
) -> None:
    """In seed 160 doubles say "without bound" where the truth is 84.9 and 302.5."""
    network = study.nasty_network(seed)
    verdict = vn.check(network)
    assert verdict.at_least
    assert not verdict.achievable
    assert "at least" in str(verdict)
    assert "cannot be decided" in str(verdict)
    with study.mp.workdps(study.DIGITS):
        truth = study.Truth(network, verdict.shares.sanitizers)
        for name in verdict.at_least:
            reached = truth.growth(network.private[name], 1e-60)
            assert verdict.ceiling[name] <= reached * (1 + 1e-6)
            if reached < 1e10:
                assert verdict.ceiling[name] == pytest.approx(reached, rel=1e-6)
    plan = vn.design(network)
    assert all(np.isfinite(plan.privacy[name]) for name in verdict.at_least)


def test_the_truth_knows_a_wrong_promise(study: ModuleType) -> None:
    from dataclasses import replace

    plan = next(
        plan
        for plan in (vn.design(study.nasty_network(seed)) for seed in range(10))
        if all(np.isfinite(value) for value in plan.privacy.values())
    )
    assert not study.wrong_promises(plan)
    name = next(iter(plan.privacy))
    boast = dict(plan.privacy) | {name: plan.privacy[name] + 1e-5 * (1 + plan.privacy[name])}
    assert study.wrong_promises(replace(plan, privacy=boast))
    assert study.wrong_promises(replace(plan, privacy=dict(plan.privacy) | {name: np.inf}))
