"""Aggregate-then-perturb for streams: the published figure, and designs that no other of the same privacy beats."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.special import ndtr

import veilnet as vn
from helpers.code_blocks import ROOT
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet._core.types import Array
from veilnet.auditing.baselines import EVERY_READING, baselines
from veilnet.auditing.differential_privacy import gaussian_delta

sys.path.insert(0, str(ROOT / "benchmarks"))

from aggregate_design import (
    Aggregates,
    Signals,
    gaussian_constant,
    most_private,
    most_useful,
    sensitivity,
    trusted_aggregate,
)

PUBLISHED = 1.6244783332772452  # the tests of PrivateDynamicData.jl, by Le Ny


def steady_error(signals: Signals, combine: Array) -> float:
    """tr(L P L') after an update, from z = D y + noise of unit covariance, by SciPy's Riccati equation."""
    seen = combine @ signals.observe
    noise = combine @ signals.floor @ combine.T + np.eye(len(combine))
    before = solve_discrete_are(signals.transition.T, seen.T, signals.process, noise)
    gain = np.linalg.solve(seen @ before @ seen.T + noise, seen @ before).T
    after = before - gain @ seen @ before
    return float(np.trace(signals.wanted @ after @ signals.wanted.T))


def ten_users() -> Signals:
    """The published example: ten users, each x' = 0.9 x + w, y = x + v; the sum of all x is wanted."""
    one = np.eye(10)
    return Signals(0.9 * one, 0.2 * one, one, 0.01 * one, np.ones((1, 10)), (1,) * 10, np.ones(10))


def random_signals(seed: int, floor: float = 0.05) -> Signals:
    rng = np.random.default_rng([seed, 77])
    transition = rng.standard_normal((4, 4))
    transition *= 0.9 / np.max(np.abs(np.linalg.eigvals(transition)))
    root = rng.standard_normal((4, 4))
    return Signals(
        transition,
        root @ root.T,
        rng.standard_normal((6, 4)),
        floor * np.eye(6),
        rng.standard_normal((2, 4)),
        (2, 3, 1),
        np.array([1.0, 0.5, 2.0]),
    )


def test_the_constant_is_that_of_the_gaussian_mechanism() -> None:
    """κ solves κ²ε - κK = 1/2, so that the tail beyond it is exactly δ; the exact condition then holds too."""
    for epsilon, delta in ((np.log(3.0), 0.05), (0.3, 1e-6), (5.0, 0.2)):
        noise = gaussian_constant(epsilon, delta)
        assert ndtr(-(noise * epsilon - 1 / (2 * noise))) == pytest.approx(delta, rel=1e-9)
        assert gaussian_delta(epsilon, 1 / noise) <= delta


def test_the_published_cost_by_hand() -> None:
    """The sum of ten alike users is one scalar stream: its Riccati equation is quadratic.

    With s = Σ x_i the messages are s plus noise of variance 10 V + κ². The variance b before an update solves
    b = a² b r / (b + r) + q with r = 10 V + κ² and q = 10 W; the cost is the variance b r / (b + r) after it.
    """
    a, q = 0.9, 10 * 0.2
    r = 10 * 0.01 + gaussian_constant(np.log(3.0), 0.05) ** 2
    half = (r * (1 - a**2) - q) / 2
    before = -half + np.sqrt(half**2 + q * r)
    assert before * r / (before + r) == pytest.approx(PUBLISHED, rel=1e-13)


def test_the_published_design() -> None:
    pytest.importorskip("cvxpy")
    signals = ten_users()
    limit = 1 / gaussian_constant(np.log(3.0), 0.05)
    assert steady_error(signals, limit * np.ones((1, 10))) == pytest.approx(PUBLISHED, rel=1e-13)
    combine = most_useful(signals, limit)
    assert combine.shape == (1, 10)
    assert np.abs(combine) == pytest.approx(limit, rel=1e-5)
    assert steady_error(signals, combine) == pytest.approx(PUBLISHED, rel=1e-8)
    # The same design, asked the other way round: the least sensitivity at this error.
    assert sensitivity(signals, most_private(signals, PUBLISHED)) == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("floor", [0.05, 0.0])
def test_no_other_combination_of_the_same_privacy_errs_less(floor: float) -> None:
    """Random combinations, small changes of the design, and every reading on its own, all at one sensitivity."""
    pytest.importorskip("cvxpy")
    for seed in range(3):
        signals = random_signals(seed, floor)
        best = most_useful(signals, 0.8)
        assert sensitivity(signals, best) == pytest.approx(0.8, rel=1e-12)
        least = steady_error(signals, best)
        rng = np.random.default_rng(seed)
        others = [rng.standard_normal((rng.integers(1, 7), 6)) for _ in range(30)]
        others += [best + 0.02 * rng.standard_normal(best.shape) for _ in range(30)]
        others.append(np.diag(np.repeat(1 / signals.radii, signals.sizes)))
        errors = [steady_error(signals, 0.8 / sensitivity(signals, other) * other) for other in others]
        assert min(errors) >= least * (1 - 1e-6)
        assert min(errors) <= least * 1.2  # the changes were small: the design is what they are compared with


def test_the_least_sensitivity_at_a_given_error() -> None:
    pytest.importorskip("cvxpy")
    signals = random_signals(5)
    wanted = steady_error(signals, most_useful(signals, 0.5))
    found = most_private(signals, wanted)
    assert sensitivity(signals, found) == pytest.approx(0.5, rel=1e-4)
    assert steady_error(signals, found) == pytest.approx(wanted, rel=1e-4)


def test_the_published_cost_by_the_evaluation_of_streams() -> None:
    """The same figure by our own steady state, not SciPy's: ε = ln 3, δ = 0.05, readings that differ by one."""
    observe = {f"user{k}": np.eye(10)[k : k + 1] for k in range(10)}
    dynamics = vn.Dynamics(0.9 * np.eye(10), 0.2 * np.eye(10))
    network = vn.Network(observe, 0.01, np.ones((1, 10)), {"first": np.eye(10)[:1]}, dynamics=dynamics)
    told = Aggregates(network, np.ones(10)).told(np.ones((1, 10)), gaussian_constant(np.log(3.0), 0.05))
    assert told.error(network.U, "now") == pytest.approx(PUBLISHED, rel=1e-12)


@pytest.mark.slow
def test_an_aggregator_does_better_than_noise_on_every_reading() -> None:
    """It may do all that input perturbation does, so at equal utility it never needs less noise."""
    pytest.importorskip("cvxpy")
    plan = noisy_stream_plan(stream_network(8), noise=0.3)
    aggregate = trusted_aggregate(plan).at_equal_utility
    each = next(b for b in baselines(plan) if b.name == EVERY_READING).at_equal_utility
    assert aggregate is not None
    assert each is not None
    assert aggregate.loss <= each.loss * (1 + 1e-6)
    assert aggregate.strength >= each.strength * (1 - 1e-4)
