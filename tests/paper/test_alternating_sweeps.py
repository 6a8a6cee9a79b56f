"""The paper's Algorithm 3: exact subproblems, the printed formulas (mended), monotone sweeps."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import linprog

from helpers.alternating_oracle import (
    change_of_variable,
    dense_model,
    dense_shrink,
    loss_and_privacy,
    printed_subproblem,
    printed_thresholds,
    solve_with_cvxpy,
    sweep_with_cvxpy,
)
from helpers.paper_networks import paper_arrays, standard_paper_network, standardize
from veilnet._core.blocks import Blocks
from veilnet._core.errors import Infeasible
from veilnet._core.types import Array
from veilnet.model.standard_form import StandardForm
from veilnet.paper.alternating.subproblem import search_price, solve_subproblem
from veilnet.paper.alternating.sweeps import _start, _Turn, alternate

pytestmark = pytest.mark.slow


def small_form(
    seed: int, sizes: tuple[int, ...], public: int, prior: str, private: int = 1, independent: bool = False
) -> StandardForm:
    """A network of the paper's kind, small, with agents of any sizes and a full, singular or no prior."""
    arrays = paper_arrays(
        seed,
        len(sizes),
        public,
        prior != "none",
        private,
        readings=sum(sizes),
        parameters=5,
        independent=False,
    )
    noise = arrays.noise * Blocks(sizes).same_agent() if independent else arrays.noise
    form = standardize(arrays._replace(noise=noise, sizes=sizes))
    if prior != "singular":
        return form
    # Forget what the prior says about two directions, then make the raw information the identity again.
    values, vectors = np.linalg.eigh(form.information)
    partial = (vectors[:, 2:] * values[2:]) @ vectors[:, 2:].T
    root = np.linalg.inv(np.linalg.cholesky(np.eye(5) - form.information + partial)).T
    public_rows, private_rows = form.public @ root, [g @ root for g in form.private]
    return StandardForm(
        information=root.T @ partial @ root,
        observe=form.observe @ root,
        coupling=form.coupling,
        blocks=form.blocks,
        public=public_rows / np.linalg.norm(public_rows),
        private=tuple(g / np.linalg.norm(g) for g in private_rows),
    )


def random_gram(rng: np.random.Generator, size: int, rank: int) -> Array:
    factor = rng.normal(size=(size, rank))
    return factor @ factor.T / np.sum(factor**2)


def check_feasible(shrink: Array, gains: list[Array], thresholds: Array) -> None:
    values = np.linalg.eigvalsh(shrink)
    assert values[0] >= -1e-12
    assert values[-1] <= 1 + 1e-12
    for gain, threshold in zip(gains, thresholds, strict=True):
        assert np.sum(gain * shrink) >= threshold - 1e-14 * np.trace(gain)


# --- the subproblem -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_one_private_parameter_agrees_with_clarabel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    cost, gain = 7.0 * random_gram(rng, size, 3), 0.2 * random_gram(rng, size, int(rng.integers(1, 4)))
    threshold = np.array([0.2 * rng.uniform(0.02, 0.99)])
    shrink = solve_subproblem(cost, [gain], threshold)
    check_feasible(shrink, [gain], threshold)
    _, optimum = solve_with_cvxpy(cost, [gain], threshold)
    assert np.sum(cost * shrink) == pytest.approx(optimum, abs=1e-7 * 7)
    values = np.linalg.eigvalsh(shrink)
    assert np.count_nonzero((values > 1e-6) & (values < 1 - 1e-6)) <= 1


def dual_value(
    utility_cost: Array, privacy_gains: Sequence[Array], thresholds: Array, prices: Array
) -> float:
    """μ'ε' - tr((Σ μ_j B_j - A)_+): at most the optimum of the subproblem, for any prices μ >= 0."""
    surplus = -utility_cost
    for price, gain in zip(prices, privacy_gains, strict=True):
        surplus = surplus + price * gain
    values = np.linalg.eigvalsh(surplus)
    return float(prices @ thresholds - values[values > 0].sum())


@pytest.mark.parametrize("seed", range(40))
def test_one_private_parameter_closes_the_gap(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    size = int(rng.integers(2, 8))
    cost, gain = random_gram(rng, size, size), random_gram(rng, size, 3)
    share = float(rng.uniform(0.01, 0.999))
    found = search_price(cost, gain, share)
    bound = dual_value(cost, [gain], np.array([share]), np.array([found.price]))
    reached = float(np.sum(cost * found.matrix()))
    assert reached - bound == pytest.approx(0.0, abs=1e-12)
    assert np.sum(gain * found.matrix()) == pytest.approx(share, rel=1e-12)


def test_commuting_matrices_are_a_fractional_knapsack() -> None:
    cost, gain = np.array([4.0, 1.0, 2.0, 9.0]), np.array([2.0, 2.0, 1.0, 3.0])
    # Cheapest per unit of privacy first: 1/2, then 2, 2 (a tie), then 3.
    for threshold, optimum in (
        (1.0, 0.5),
        (2.0, 1.0),
        (3.5, 1 + 3.0),
        (5.0, 7.0),
        (6.5, 7 + 4.5),
        (8.0, 16.0),
    ):
        shrink = solve_subproblem(np.diag(cost), [np.diag(gain)], np.array([threshold]))
        assert np.sum(np.diag(cost) * shrink) == pytest.approx(optimum, rel=1e-11)


def test_degenerate_eigenvalues() -> None:
    eye = np.eye(4)
    shrink = solve_subproblem(eye, [eye], np.array([2.5]))
    check_feasible(shrink, [eye], np.array([2.5]))
    assert np.trace(shrink) == pytest.approx(2.5, rel=1e-12)


def test_where_silence_is_free_it_is_complete() -> None:
    rng = np.random.default_rng(3)
    cost, gain = random_gram(rng, 5, 2), random_gram(rng, 5, 5)
    _, vectors = np.linalg.eigh(cost)
    free = vectors[:, :3] @ vectors[:, :3].T
    little = np.array([0.5 * float(np.sum(gain * free))])
    np.testing.assert_allclose(solve_subproblem(cost, [gain], little), free, atol=1e-9)
    np.testing.assert_allclose(solve_subproblem(cost, [gain], np.array([-1.0])), free, atol=1e-9)
    np.testing.assert_allclose(solve_subproblem(cost, [], np.zeros(0)), free, atol=1e-9)
    # With two constraints that bind on one side only, what is free elsewhere is still hidden.
    block = np.zeros((5, 5))
    block[:3, :3] = random_gram(rng, 3, 3)
    halves = [np.diag([3.0, 1, 1, 0, 0]), np.diag([1.0, 1, 3, 0, 0])]
    both = solve_subproblem(block, halves, np.array([3.0, 3.0]))
    np.testing.assert_allclose(both[3:], np.eye(5)[3:], atol=1e-7)
    np.testing.assert_allclose(solve_subproblem(0 * cost, [gain], little), np.eye(5))


def test_a_threshold_only_silence_meets_and_one_nothing_meets() -> None:
    rng = np.random.default_rng(4)
    cost, gain, other = random_gram(rng, 5, 5), random_gram(rng, 5, 2), random_gram(rng, 5, 5)
    shrink = solve_subproblem(cost, [gain, other], np.array([1.0, 0.9]))
    check_feasible(shrink, [gain, other], np.array([1.0, 0.9]))
    values, vectors = np.linalg.eigh(gain)
    hidden = vectors[:, values > 1e-9]
    np.testing.assert_allclose(shrink @ hidden, hidden, atol=1e-9)
    assert np.trace(shrink) < 5 - 1e-3
    with pytest.raises(Infeasible, match="thresholds"):
        solve_subproblem(cost, [gain], np.array([1.01]))


@pytest.mark.parametrize("seed", range(12))
def test_several_private_parameters_agree_with_clarabel(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    size, count = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    cost = random_gram(rng, size, 3)
    gains = [random_gram(rng, size, 3) for _ in range(count)]
    shares = rng.uniform(0.2, 0.97, count)
    shrink = solve_subproblem(cost, gains, shares)
    check_feasible(shrink, gains, shares)
    _, optimum = solve_with_cvxpy(cost, gains, shares)
    assert np.sum(cost * shrink) == pytest.approx(optimum, abs=2e-7)


def test_several_commuting_constraints_are_a_linear_program() -> None:
    rng = np.random.default_rng(5)
    cost, gains = rng.uniform(0.1, 1, 6), rng.uniform(0, 1, (3, 6))
    shares = 0.6 * gains.sum(axis=1)
    answer = linprog(cost, A_ub=-gains, b_ub=-shares, bounds=(0, 1))
    shrink = solve_subproblem(np.diag(cost), [np.diag(g) for g in gains], shares)
    assert np.sum(np.diag(cost) * shrink) == pytest.approx(answer.fun, rel=1e-7)


# --- the printed formulas -------------------------------------------------------------------------


def test_a_turn_is_the_printed_subproblem() -> None:
    form = small_form(1, (3, 2, 4, 3), 2, "full", private=2)
    targets = np.array([0.8, 0.5])
    by_agent = dense_shrink(form, alternate(form, targets, sweeps=2).shrink)
    state, floor = _start(form, targets)
    for group, shrink in zip(form.blocks.groups, state.shrink, strict=True):
        for k, agent in enumerate(group.agents):
            shrink[k] = by_agent[agent]
    state.refresh()
    for agent in range(form.blocks.count):
        printed = printed_subproblem(form, by_agent, agent)
        _, cost, gains = change_of_variable(printed)
        turn = _Turn(state, agent, by_agent[agent], floor)
        parts = np.split(turn.factors, state.edges[1:-1], axis=1)
        # The two differ by the choice of root of Ω, a rotation: invariants agree, the mixed ones included.
        for ours, theirs in zip(parts, [cost, *gains], strict=True):
            np.testing.assert_allclose(
                np.linalg.eigvalsh(ours @ ours.T), np.linalg.eigvalsh(theirs), atol=1e-9 * np.trace(theirs)
            )
        mixed = np.sum((parts[0].T @ parts[1]) ** 2)
        assert mixed == pytest.approx(np.sum(cost * gains[0]), rel=1e-8)
        thresholds = targets - (turn.raw_errors[1:] - state.raw_errors[1:])
        np.testing.assert_allclose(
            thresholds, printed_thresholds(form, printed, targets), rtol=1e-8, atol=1e-10 * targets.min()
        )


@pytest.mark.parametrize("independent", [False, True])
def test_printed_utility_and_privacy_are_those_of_the_definition(independent: bool) -> None:
    form = small_form(2, (3, 3, 3), 2, "full", independent=independent)
    rng = np.random.default_rng(0)
    noise = [(lambda a: a @ a.T)(rng.normal(size=(3, 3))) for _ in range(3)]
    by_agent = [np.linalg.inv(np.eye(3) + theta) for theta in noise]
    white = form.observe.T @ np.linalg.solve(dense_model(form).noise + block_diag(*noise), form.observe)
    covariance = np.linalg.inv(form.information + white)
    loss = np.trace(form.public @ covariance @ form.public.T) - 1
    privacy = np.trace(form.private[0] @ covariance @ form.private[0].T) - 1
    for agent in range(3):
        printed = printed_subproblem(form, by_agent, agent)
        z = np.linalg.inv(np.linalg.inv(noise[agent]) + printed.omega)
        assert np.trace(printed.gamma_public @ z) + printed.delta_public == pytest.approx(loss, rel=1e-8)
        assert np.trace(printed.gamma_private[0] @ z) + printed.delta_private[0] == pytest.approx(
            privacy, rel=1e-8
        )


def test_erratum_7_appendix_e_lacks_a_factor() -> None:
    form = small_form(3, (3, 3, 3), 2, "full")
    phi = dense_model(form).residual
    precision = 0.7 * np.eye(9)
    inverse = np.linalg.inv(precision + phi)
    t = np.linalg.inv(precision[3:, 3:] + phi[3:, 3:])
    a11 = np.linalg.inv(precision[:3, :3] + phi[:3, :3] - phi[:3, 3:] @ t @ phi[3:, :3])
    mended = t + t @ phi[3:, :3] @ a11 @ phi[:3, 3:] @ t
    printed = t + phi[3:, :3] @ a11 @ phi[:3, 3:] @ t
    np.testing.assert_allclose(inverse[3:, 3:], mended, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(inverse[3:, 3:] - printed) > 1e-3 * np.linalg.norm(mended)


def test_erratum_8_the_printed_start_does_not_exist_without_a_prior() -> None:
    form = small_form(4, (3, 3, 3, 3), 2, "none")
    phi = dense_model(form).residual
    values = np.linalg.eigvalsh(phi[3:, 3:])
    assert values[0] < 1e-9 * values[-1]
    targets = np.array([20.0])
    start = alternate(form, targets, sweeps=0)
    assert len(start.sweeps) == 1
    assert np.isfinite(start.sweeps[0].loss)
    # The start has just the privacy asked for, and one strength of white noise for all agents.
    assert start.sweeps[0].privacy[0] == pytest.approx(20.0, rel=1e-4)
    assert start.sweeps[0].privacy[0] >= 20.0
    np.testing.assert_allclose(
        start.shrink[0], start.shrink[0][0, 0, 0] * np.broadcast_to(np.eye(3), (4, 3, 3))
    )


def test_with_a_prior_the_start_is_silence() -> None:
    form = small_form(4, (3, 3, 3, 3), 2, "full")
    start = alternate(form, np.array([0.5]), sweeps=0)
    assert not np.any(start.shrink[0])
    prior = np.linalg.inv(form.information)
    assert start.sweeps[0].loss == pytest.approx(np.trace(form.public @ prior @ form.public.T) - 1, rel=1e-8)


# --- sweeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "independent"), [("full", False), ("full", True), ("none", False)])
def test_a_sweep_agrees_with_cvxpy(prior: str, independent: bool) -> None:
    # Two readings and three public rows: every direction costs utility, so each turn has one solution.
    form = small_form(7, (2,) * 5, 3, prior, independent=independent)
    limit = float(np.trace(form.private[0] @ np.linalg.pinv(form.information) @ form.private[0].T)) - 1
    targets = np.array([0.2 * limit if prior == "full" else 5.0])
    start = alternate(form, targets, sweeps=0)
    by_agent = sweep_with_cvxpy(form, dense_shrink(form, start.shrink), targets)
    expected_loss, expected_privacy = loss_and_privacy(form, by_agent)
    ours = alternate(form, targets, sweeps=1)
    assert ours.sweeps[1].loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(ours.sweeps[1].privacy, expected_privacy, rtol=1e-5)
    for mine, theirs in zip(dense_shrink(form, ours.shrink), by_agent, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", ["full", "singular", "none"])
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("private", [1, 3])
def test_sweeps_never_lose_utility_nor_privacy(
    seed: int, prior: str, independent: bool, private: int
) -> None:
    form = small_form(20 + seed, (3, 1, 4, 2, 3), 2, prior, private, independent)
    limits = [np.trace(g @ np.linalg.pinv(form.information, rcond=1e-10) @ g.T) - 1 for g in form.private]
    targets = np.array([0.3 * limit if prior == "full" else 4.0 for limit in limits])
    heard: list[float] = []
    result = alternate(form, targets, sweeps=12, progress=lambda _, share: heard.append(share))
    losses = np.array([sweep.loss for sweep in result.sweeps])
    assert losses.size == 13
    assert np.all(np.diff(losses) <= 0)
    assert losses[-1] < 0.7 * losses[0]
    assert all(np.all(sweep.privacy >= targets) for sweep in result.sweeps)
    assert np.all(np.diff(heard) > 0)
    for blocks in result.shrink:
        values = np.linalg.eigvalsh(blocks)
        assert values.min() >= -1e-12
        assert values.max() <= 1 + 1e-12
    loss, privacy = loss_and_privacy(form, dense_shrink(form, result.shrink))
    assert loss == pytest.approx(losses[-1], rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(privacy, result.sweeps[-1].privacy, rtol=1e-6)


def test_a_single_agent_needs_one_turn() -> None:
    form = small_form(30, (7,), 2, "full")
    targets = np.array(
        [0.4 * (np.trace(form.private[0] @ np.linalg.inv(form.information) @ form.private[0].T) - 1)]
    )
    result = alternate(form, targets, sweeps=3)
    printed = printed_subproblem(form, [np.zeros((7, 7))], 0)
    _, cost, gains = change_of_variable(printed)
    _, optimum = solve_with_cvxpy(cost, gains, printed_thresholds(form, printed, targets))
    assert result.sweeps[1].loss == pytest.approx(optimum, rel=1e-5, abs=1e-8 * np.trace(cost))
    assert result.sweeps[3].loss == pytest.approx(result.sweeps[1].loss, rel=1e-8, abs=1e-12)


def test_independent_noise_is_correlated_noise_without_correlation() -> None:
    form = small_form(31, (3, 3, 2, 4), 2, "none", independent=True)
    total = form.blocks.total
    dense = StandardForm(
        form.information, form.observe, np.zeros((total, total)), form.blocks, form.public, form.private
    )
    apart, together = (alternate(f, np.array([6.0]), sweeps=6) for f in (form, dense))
    for one, other in zip(apart.sweeps, together.sweeps, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-6)


def test_independent_noise_forms_no_square_matrix_of_all_readings() -> None:
    rng = np.random.default_rng(32)
    agents, size, length = 1500, 2, 4
    observe = rng.normal(size=(agents * size, length))
    observe /= np.sqrt(np.mean(np.sum(observe**2, axis=0)))
    observe = observe @ np.linalg.inv(np.linalg.cholesky(observe.T @ observe)).T
    public, private = rng.normal(size=(1, length)), rng.normal(size=(1, length))
    form = StandardForm(
        information=np.zeros((length, length)),
        observe=observe,
        coupling=None,
        blocks=Blocks([size] * agents),
        public=public / np.linalg.norm(public),
        private=(private / np.linalg.norm(private),),
    )
    tracemalloc.start()
    try:
        result = alternate(form, np.array([3.0]), sweeps=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (agents * size) ** 2 * 8 / 10
    assert result.sweeps[1].loss < result.sweeps[0].loss
    assert result.sweeps[1].privacy[0] >= 3.0


def test_what_only_one_agent_knows_and_nobody_needs_is_all_but_silenced() -> None:
    # Without a prior: agent 0 alone sees the private coordinate, agent 1 alone the public one.
    eye = np.eye(2)
    form = StandardForm(np.zeros((2, 2)), eye, None, Blocks([1, 1]), public=eye[1:], private=(eye[:1],))
    result = alternate(form, np.array([5.0]), sweeps=2)
    assert result.sweeps[-1].loss == pytest.approx(0.0, abs=1e-12)
    assert result.sweeps[-1].privacy[0] > 1e5
    assert np.isfinite(result.sweeps[-1].privacy[0])
    assert 0 < result.shrink[0][0, 0, 0] < 1e-5
    assert result.shrink[0][1, 0, 0] == pytest.approx(1.0, rel=1e-12)


def test_more_than_the_limit_is_refused_by_its_number() -> None:
    form = small_form(33, (3, 3), 1, "full")
    limit = float(np.trace(form.private[0] @ np.linalg.inv(form.information) @ form.private[0].T)) - 1
    with pytest.raises(Infeasible, match="at most"):
        alternate(form, np.array([1.01 * limit]))


def test_the_papers_setting_improves_as_the_paper_says() -> None:
    # Section VII: S = 12, ε = 10, prior. Most of the gain comes in the first sweeps.
    form = standard_paper_network(0, 12, 3, True)
    result = alternate(form, np.array([10.0]), sweeps=20)
    losses = [sweep.loss for sweep in result.sweeps]
    assert losses[0] > 100
    assert losses[20] < 0.3 * losses[1]
    loss, privacy = loss_and_privacy(form, dense_shrink(form, result.shrink))
    assert loss == pytest.approx(losses[20], rel=1e-6)
    assert privacy[0] >= 10 * (1 - 1e-8)
