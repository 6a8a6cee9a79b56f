"""Power-limited privacy: closed forms, certificates, scales, and the paper's own program as second opinion."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

from helpers import sdp_oracle
from helpers.paper_networks import PaperArrays, paper_arrays
from veilnet._core.linalg import positive_root
from veilnet._core.types import Array
from veilnet.designs.power.dense import DenseNoise, free_noise_problem, maximize_privacy

pytestmark = pytest.mark.slow


def reduce(arrays: PaperArrays) -> tuple[Array, Array, list[Array]]:
    """Root, gain and bases of a raw network."""
    bases = sdp_oracle.geometry(arrays).bases
    root, gain = free_noise_problem(
        arrays.observe, np.linalg.cholesky(arrays.noise), sdp_oracle.prior_root(arrays), arrays.private, bases
    )
    return root, gain, bases


def rooted(curvature: Array) -> Array:
    """C with C C' = F."""
    return positive_root(curvature).T


def solve(arrays: PaperArrays, power: float, **options: float) -> tuple[DenseNoise, list[Array]]:
    """The result and the noise covariances Θ_i it stands for."""
    root, gain, bases = reduce(arrays)
    sizes = [basis.shape[1] for basis in bases]
    result = maximize_privacy(root, gain, sizes, np.full(len(sizes), power), **options)
    return result, [b @ x @ b.T for b, x in zip(bases, result.blocks, strict=True)]


def objective(curvature: Array, gain: Array, blocks: list[Array]) -> float:
    """f(X) as it is written."""
    x = block_diag(*blocks)
    return float(np.trace(gain.T @ x @ np.linalg.solve(np.eye(len(x)) + curvature @ x, gain)))


def random_problem(
    seed: int, sizes: list[int], columns: int, rank: int | None = None
) -> tuple[Array, Array, Array]:
    """F of given rank, A, δ."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    root = rng.normal(size=(total, total if rank is None else rank))
    return root @ root.T / total, rng.normal(size=(total, columns)), rng.uniform(0.5, 2, len(sizes))


def assert_feasible(result: DenseNoise, power: Array) -> None:
    for block, limit in zip(result.blocks, power, strict=True):
        assert np.trace(block) <= limit * (1 + 1e-12)
        assert np.all(np.linalg.eigvalsh(block) >= -1e-12 * limit) if block.size else True


SMALL = [
    (0, 3, 1, False, 2, 1.0),
    (1, 4, 2, True, 3, 1e2),
    (2, 6, 1, False, 1, 1e2),
    (3, 2, 2, True, 5, 1.0),
    (4, 1, 1, False, 3, 1e3),
]


@pytest.mark.parametrize(("seed", "agents", "public", "prior", "private", "power"), SMALL)
def test_agrees_with_the_reduced_semidefinite_program(
    seed: int, agents: int, public: int, prior: bool, private: int, power: float
) -> None:
    arrays = paper_arrays(seed, agents, public, prior, private, readings=24, parameters=6)
    result, noise = solve(arrays, power, wanted_gap=1e-9)
    oracle = sdp_oracle.solve_reduced_form(arrays, np.array(power))
    assert oracle.status == "optimal"
    assert result.value == pytest.approx(oracle.objective, rel=1e-6)
    assert result.value <= result.upper_bound <= result.value * (1 + 1e-9)
    assert sdp_oracle.privacy_sum(arrays, noise) == pytest.approx(result.value, rel=1e-9)
    leak = arrays.public @ sdp_oracle.geometry(arrays).psi
    assert np.linalg.norm(leak @ block_diag(*noise)) <= 1e-10 * np.linalg.norm(leak) * power
    assert_feasible(result, np.full(agents, power))


@pytest.mark.parametrize("prior", [False, True])
def test_agrees_with_the_program_in_the_papers_form(prior: bool) -> None:
    arrays = paper_arrays(5, 3, 1, prior, 2, readings=18, parameters=5)
    result, _ = solve(arrays, 50.0)
    oracle = sdp_oracle.solve_paper_form(arrays, np.array(50.0))
    assert oracle.status.startswith("optimal")
    assert result.value == pytest.approx(oracle.objective, rel=1e-4)


def test_a_second_solver_agrees_too() -> None:
    arrays = paper_arrays(0, 3, 1, False, 2, readings=18, parameters=5)
    result, _ = solve(arrays, 10.0)
    oracle = sdp_oracle.solve_reduced_form(arrays, np.array(10.0), "SCS")
    assert result.value == pytest.approx(oracle.objective, rel=1e-3)


@pytest.mark.parametrize("prior", [False, True])
def test_printed_objective_without_weights_gives_less_privacy(prior: bool) -> None:
    """Erratum 6: units of a private parameter must not matter, but in the printed objective they do."""
    arrays = paper_arrays(8, 3, 1, prior, 2, readings=18, parameters=5)
    arrays = arrays._replace(private=tuple(rows[:1] for rows in arrays.private))
    loud = arrays._replace(private=(arrays.private[0], 100 * arrays.private[1]))
    ours, noise = solve(loud, 20.0)
    assert ours.value == pytest.approx(solve(arrays, 20.0)[0].value, rel=1e-6)
    assert sdp_oracle.privacy_sum(loud, noise) == pytest.approx(ours.value, rel=1e-9)
    mended = sdp_oracle.solve_paper_form(loud, np.array(20.0))
    printed = sdp_oracle.solve_paper_form(loud, np.array(20.0), printed_weights=True)
    assert sdp_oracle.privacy_sum(loud, mended.noise) >= ours.value * (1 - 1e-3)
    assert sdp_oracle.privacy_sum(loud, printed.noise) < ours.value * (1 - 1e-2)


@pytest.mark.parametrize("agents", [1, 3, 9, 24])
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("private", [1, 5])
def test_certifies_its_gap_at_the_papers_size(agents: int, prior: bool, private: int) -> None:
    arrays = paper_arrays(1, agents, 1, prior, private)
    result, noise = solve(arrays, 1e2, wanted_gap=1e-8)
    assert result.value <= result.upper_bound <= result.value * (1 + 1e-8)
    assert sdp_oracle.privacy_sum(arrays, noise) == pytest.approx(result.value, rel=1e-6)
    assert_feasible(result, np.full(agents, 1e2))


@pytest.mark.parametrize("power", [1e-6, 1e-2, 1e2, 1e5, 1e8, 1e12])
@pytest.mark.parametrize(("agents", "prior"), [(2, False), (9, False), (3, True)])
def test_any_scale_of_power(power: float, agents: int, prior: bool) -> None:
    result, _ = solve(paper_arrays(2, agents, 1, prior, 1), power)
    assert 0 < result.value <= result.upper_bound <= result.value * (1 + 1e-7)


def test_unbounded_privacy_grows_linearly_and_bounded_privacy_reaches_its_ceiling() -> None:
    free = paper_arrays(3, 2, 1, False, 1)
    assert solve(free, 1e12)[0].value / solve(free, 1e9)[0].value == pytest.approx(1e3, rel=1e-5)
    bound = paper_arrays(3, 2, 1, True, 1)
    root, gain, _ = reduce(bound)
    ceiling = np.sum(np.linalg.lstsq(root, gain, rcond=None)[0] ** 2)
    assert solve(bound, 1e12)[0].value == pytest.approx(ceiling, rel=1e-6)


@pytest.mark.parametrize("rank", [None, 5, 0])
def test_one_column_has_a_closed_form(rank: int | None) -> None:
    """With r = 1 the dual is a least-squares problem: w solves (I + F D) w = a."""
    curvature, gain, power = random_problem(0, [3, 1, 4, 2], 1, rank)
    spread = np.repeat(power, [3, 1, 4, 2])
    w = np.linalg.solve(np.eye(10) + curvature * spread, gain)
    result = maximize_privacy(rooted(curvature), gain, [3, 1, 4, 2], power, wanted_gap=1e-10)
    assert result.value == pytest.approx(float((gain.T @ (spread[:, None] * w)).item()), rel=1e-9)


def test_without_curvature_each_agent_spends_on_its_best_direction() -> None:
    _, gain, power = random_problem(1, [3, 4], 3)
    result = maximize_privacy(np.zeros((7, 0)), gain, [3, 4], power)
    best = [np.linalg.norm(part, 2) ** 2 for part in np.split(gain, [3])]
    assert result.value == pytest.approx(float(power @ best), rel=1e-7)


def test_water_filling() -> None:
    """One agent, F = φI, orthogonal columns of length a_j: power x_j = (a_j/√ν - 1)/φ where positive."""
    lengths, phi, power = np.array([3.0, 2.0, 0.4]), 0.7, 2.0
    level = (lengths[:2].sum() / (power * phi + 2)) ** 2
    assert lengths[2] < np.sqrt(level) < lengths[1]
    x = (lengths[:2] / np.sqrt(level) - 1) / phi
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))
    gain = turn[:, :3] * lengths
    result = maximize_privacy(np.sqrt(phi) * np.eye(5), gain, [5], np.array([power]), wanted_gap=1e-10)
    assert result.value == pytest.approx(float(np.sum(lengths[:2] ** 2 * x / (1 + phi * x))), rel=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(result.blocks[0])[-2:], np.sort(x), rtol=1e-4)


@pytest.mark.parametrize("rank", [None, 4])
def test_nothing_feasible_exceeds_the_upper_bound_even_far_from_the_optimum(rank: int | None) -> None:
    sizes = [3, 4, 2]
    curvature, gain, power = random_problem(4, sizes, 2, rank)
    early = maximize_privacy(rooted(curvature), gain, sizes, power, max_iterations=10, wanted_gap=0.0)
    full = maximize_privacy(rooted(curvature), gain, sizes, power)
    assert early.value <= full.value * (1 + 1e-7) <= early.upper_bound * (1 + 2e-7)
    rng = np.random.default_rng(5)
    for _ in range(200):
        blocks = []
        for size, limit in zip(sizes, power, strict=True):
            factor = rng.normal(size=(size, rng.integers(1, size + 1)))
            blocks.append(limit * factor @ factor.T / np.sum(factor**2))
        assert objective(curvature, gain, blocks) <= full.upper_bound


def test_value_is_the_objective_of_the_returned_blocks() -> None:
    curvature, gain, power = random_problem(6, [3, 4, 2], 3)
    result = maximize_privacy(rooted(curvature), gain, [3, 4, 2], power, max_iterations=10)
    assert result.value == pytest.approx(objective(curvature, gain, result.blocks), rel=1e-12)


def test_agents_without_power_or_directions_add_nothing() -> None:
    curvature, gain, power = random_problem(7, [3, 2, 4], 3)
    gain[5:] = 0  # the third agent touches nothing private, yet its noise protects the others
    power[1] = 0
    keep = np.r_[0:3, 5:9]
    small = maximize_privacy(rooted(curvature[np.ix_(keep, keep)]), gain[keep], [3, 4], power[[0, 2]])
    padded = maximize_privacy(
        rooted(curvature), gain, [0, 3, 2, 0, 4], np.array([1, power[0], 0, 1, power[2]])
    )
    assert padded.value == pytest.approx(small.value, rel=2e-7)
    assert [block.shape[0] for block in padded.blocks] == [0, 3, 2, 0, 4]
    assert not np.any(padded.blocks[2])
    alone = maximize_privacy(rooted(curvature[:3, :3]), gain[:3], [3], power[:1])
    assert padded.value > alone.value * (1 + 1e-6)


@pytest.mark.parametrize("sizes", [[], [0, 0], [2, 3]])
def test_nothing_to_gain(sizes: list[int]) -> None:
    total = sum(sizes)
    result = maximize_privacy(np.eye(total), np.zeros((total, 2)), sizes, np.ones(len(sizes)))
    assert result.value == result.upper_bound == result.relative_gap == 0.0


def test_invariances() -> None:
    sizes = [3, 4, 2]
    curvature, gain, power = random_problem(8, sizes, 3)
    value = maximize_privacy(rooted(curvature), gain, sizes, power).value
    for factor in (1e-9, 1e9):  # units of the readings
        scaled = maximize_privacy(
            rooted(curvature) / np.sqrt(factor), gain / np.sqrt(factor), sizes, power * factor
        )
        assert scaled.value == pytest.approx(value, rel=2e-7)
    order = np.r_[7:9, 0:3, 3:7]
    swapped = maximize_privacy(
        rooted(curvature[np.ix_(order, order)]), gain[order], [2, 3, 4], power[[2, 0, 1]]
    )
    assert swapped.value == pytest.approx(value, rel=2e-7)
    doubled = maximize_privacy(rooted(curvature), np.hstack([gain, gain]), sizes, power)
    assert doubled.value == pytest.approx(2 * value, rel=2e-7)
    assert maximize_privacy(rooted(curvature), gain, sizes, 1.5 * power).value > value


@pytest.mark.parametrize("prior", [False, True])
def test_reduction_matches_its_definition(prior: bool) -> None:
    arrays = paper_arrays(9, 3, 2, prior, 2, readings=18, parameters=5)
    arrays = arrays._replace(noise=arrays.noise + np.eye(18))
    root, gain, bases = reduce(arrays)
    weight = np.linalg.inv(arrays.noise)
    information = arrays.observe.T @ weight @ arrays.observe
    if arrays.prior_covariance is not None:
        information = information + np.linalg.inv(arrays.prior_covariance)
    bound = np.linalg.inv(information)
    psi = bound @ arrays.observe.T @ weight
    phi = weight - weight @ arrays.observe @ psi
    basis = block_diag(*bases)
    targets = np.hstack([g.T / np.sqrt(np.trace(g @ bound @ g.T)) for g in arrays.private])
    np.testing.assert_allclose(root @ root.T, basis.T @ phi @ basis, rtol=0, atol=1e-12 * np.linalg.norm(phi))
    expected = basis.T @ psi.T @ targets
    np.testing.assert_allclose(gain, expected, rtol=0, atol=1e-11 * np.linalg.norm(expected))


def test_progress_rises_to_one() -> None:
    curvature, gain, power = random_problem(10, [3, 4], 3)
    seen: list[float] = []
    maximize_privacy(
        rooted(curvature),
        gain,
        [3, 4],
        power,
        wanted_gap=1e-9,
        progress=lambda _, now: seen.append(now),
    )
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] == 1.0
