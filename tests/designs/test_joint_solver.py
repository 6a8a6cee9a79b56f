"""The joint trade-off solver on bare standard forms, against brute force, CVXPY and the definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import veilnet as vn
from helpers.paper_networks import PaperArrays, paper_arrays, standard_paper_network, standardize
from veilnet._core.types import Array
from veilnet.designs.joint.curve import JointCurve, least_loss
from veilnet.designs.joint.hidden import telling_nothing
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.run import Run
from veilnet.designs.joint.search import random_shrink
from veilnet.designs.joint.settings import SearchOptions
from veilnet.model.standard_form import StandardForm, standard_form

pytestmark = pytest.mark.slow


def small_network(
    seed: int,
    sizes: tuple[int, ...],
    parameters: int,
    *,
    public: int = 1,
    private: tuple[int, ...] = (1,),
    prior: str = "full",
    independent: bool = False,
) -> StandardForm:
    """A random network with agents of any sizes; prior is "full", "singular" or "none"."""
    rng = np.random.default_rng([seed, *sizes, parameters])
    total = sum(sizes)
    root = rng.standard_normal((total, total)) + np.eye(total)
    noise = root @ root.T
    if independent:
        owner = np.repeat(np.arange(len(sizes)), sizes)
        noise *= owner[:, None] == owner[None, :]
    spread = rng.standard_normal((parameters, parameters)) * 3
    arrays = PaperArrays(
        rng.standard_normal((total, parameters)),
        noise,
        spread @ spread.T if prior == "full" else None,
        rng.standard_normal((public, parameters)),
        tuple(rng.standard_normal((rows, parameters)) for rows in private),
        sizes,
    )
    if prior != "singular":
        return standardize(arrays)
    # A prior on some combinations only: the information of a few pseudo-readings, taken into the standard form
    # by treating them as an extra agent and then handing that agent's information to the prior.
    extra = rng.standard_normal((parameters - 2, parameters))
    joint = np.zeros((total + parameters - 2,) * 2)
    joint[:total, :total] = arrays.noise
    joint[total:, total:] = np.eye(parameters - 2)
    whole = standardize(
        arrays._replace(
            observe=np.vstack([arrays.observe, extra]), noise=joint, sizes=(*sizes, parameters - 2)
        )
    )
    kept = whole.observe[:total]
    known = whole.observe[total:]
    coupling = None if whole.coupling is None else whole.coupling[:total, :total]
    own = type(whole.blocks)(sizes)
    return StandardForm(known.T @ known, kept, coupling, own, whole.public, whole.private)


def by_definition(form: StandardForm, shrink: list[Array]) -> tuple[float, Array]:
    """Loss and privacies straight from J̃ = J0 + H'X(I + EX)^-1 H with dense matrices."""
    total = form.observe.shape[0]
    dense = np.zeros((total, total))
    for group, x in zip(form.blocks.groups, shrink, strict=True):
        for rows, block in zip(group.rows, x, strict=True):
            dense[np.ix_(rows, rows)] = block
    coupling = np.zeros((total, total)) if form.coupling is None else form.coupling
    seen = dense @ np.linalg.solve(np.eye(total) + coupling @ dense, form.observe)
    spread = np.linalg.inv(form.information + form.observe.T @ seen)

    def error(rows: Array) -> float:
        return float(np.trace(rows @ spread @ rows.T)) - 1

    return error(form.public), np.array([error(rows) for rows in form.private])


def ceiling_and_limit(form: StandardForm) -> tuple[Array, Array]:
    objective = JointObjective(form)
    start = objective.shares()
    return objective(start).privacy, objective([0 * x for x in start]).privacy


def between(form: StandardForm, fraction: float) -> Array:
    """Targets the given part of the way (in logarithms) from the ceiling to the limit, at most 1000."""
    ceiling, limit = ceiling_and_limit(form)
    low = np.maximum(ceiling, 1e-2)
    return low * (np.minimum(limit, 1e3) / low) ** fraction


def check_promise(form: StandardForm, result: JointResult, targets: Array) -> None:
    loss, privacy = by_definition(form, result.shrink)
    assert np.all(result.privacy >= targets)
    assert np.all(privacy >= targets)
    assert loss == pytest.approx(result.loss, rel=1e-6)
    for x in result.shrink:
        values = np.linalg.eigvalsh(x)
        assert np.allclose(x, x.transpose(0, 2, 1), rtol=0, atol=1e-14)
        assert values.min() > -1e-12
        assert values.max() < 1 + 1e-12


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("private", [(1,), (3, 2), (1, 1, 4)])
def test_evaluation_and_gradient(independent: bool, private: tuple[int, ...]) -> None:
    form = small_network(3, (2, 3, 2, 1), 4, public=2, private=private, independent=independent)
    objective = JointObjective(form)
    rng = np.random.default_rng(0)
    point = random_shrink(objective, rng)
    at = objective(point)
    loss, privacy = by_definition(form, point)
    assert at.loss == pytest.approx(loss, rel=1e-9)
    assert at.privacy == pytest.approx(privacy, rel=1e-9)
    weights = rng.standard_normal(1 + len(private))
    gradient = objective.gradient(at, weights[0], weights[1:])
    direction = [(d := rng.standard_normal(x.shape)) + d.transpose(0, 2, 1) for x in point]

    def along(step: float) -> float:
        moved_loss, moved_privacy = by_definition(
            form, [x + step * d for x, d in zip(point, direction, strict=True)]
        )
        return float(weights[0] * moved_loss + weights[1:] @ moved_privacy)

    exact = sum(float((g * d).sum()) for g, d in zip(gradient, direction, strict=True))
    assert (along(1e-6) - along(-1e-6)) / 2e-6 == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("independent", [False, True])
def test_sending_less_never_lowers_privacy_or_loss(independent: bool) -> None:
    form = small_network(5, (2, 3, 3), 3, public=1, private=(2, 1), independent=independent)
    objective = JointObjective(form)
    rng = np.random.default_rng(1)
    for _ in range(20):
        more = random_shrink(objective, rng)
        less = []
        for x in more:
            values, vectors = np.linalg.eigh(x)
            root = vectors * np.sqrt(values)[:, None, :]
            inner = rng.uniform(0, 1, values.shape)[:, None, :]
            less.append((root * inner) @ root.transpose(0, 2, 1))
        high, low = objective(more), objective(less)
        assert low.loss >= high.loss * (1 - 1e-12)
        assert np.all(low.privacy >= high.privacy * (1 - 1e-12))


def test_tiny_losses_keep_their_digits() -> None:
    """Next to perfect utility the loss is proportional to the shrinkage, far below rounding of the trace 1."""
    form = small_network(2, (3, 3, 3), 3, public=1)
    objective = JointObjective(form)
    perfect = objective.shares()
    losses = [objective([(1 - s) * p for p in perfect]).loss for s in (1e-6, 1e-12, 1e-13)]
    assert losses[1] == pytest.approx(losses[0] * 1e-6, rel=1e-3)
    assert losses[2] == pytest.approx(losses[0] * 1e-7, rel=1e-2)


def grid_of_scalar_agents(form: StandardForm, target: float, points: int) -> float:
    """Least loss over a grid of the shrinkages of agents with one reading, the last one solved for exactly."""
    objective = JointObjective(form)
    levels = np.linspace(0, 1, points)
    count = form.blocks.count
    best = np.inf
    for chosen in product(levels, repeat=count - 1):
        for free in range(count):
            values = np.insert(np.array(chosen), free, 0.0)

            def at(level: float, values: Array = values, free: int = free) -> tuple[float, float]:
                values[free] = level
                evaluation = objective([values.reshape(-1, 1, 1)])
                return evaluation.loss, float(evaluation.privacy[0])

            if at(0.0)[1] < target:
                continue
            low, high = 0.0, 1.0
            if at(1.0)[1] < target:
                for _ in range(30):
                    middle = (low + high) / 2
                    low, high = (middle, high) if at(middle)[1] >= target else (low, middle)
            else:
                low = 1.0
            best = min(best, at(low)[0])
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("agents", [2, 3])
def test_scalar_agents_against_a_grid(seed: int, agents: int) -> None:
    """Global optimum with one reading per agent; the grid contains every vertex, where optima lie."""
    form = small_network(seed, (1,) * agents, 2, prior="full", independent=seed % 2 == 1)
    target = float(between(form, 0.5)[0])
    best = grid_of_scalar_agents(form, target, 41 if agents == 2 else 9)
    result = least_loss(form, np.array([target]), starts=8)
    check_promise(form, result, np.array([target]))
    assert result.loss <= best * (1 + 1e-6)


def grid_of_planar_agents(form: StandardForm, target: float) -> float:
    """Least loss of two agents with two readings: every pair of angles, every pattern of eigenvalues 0 and 1
    with one of them solved for by bisection; then finer angles around the best. All at once, from the definition.
    """
    coupling = np.eye(4) * 0 if form.coupling is None else form.coupling

    def errors(angles: Array, values: Array) -> tuple[Array, Array]:
        cos, sin = np.cos(angles), np.sin(angles)
        frames = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)
        blocks = np.einsum("bkai,bka,bkaj->bkij", frames, values.reshape(-1, 2, 2), frames)
        dense = np.zeros((len(angles), 4, 4))
        dense[:, :2, :2], dense[:, 2:, 2:] = blocks[:, 0], blocks[:, 1]
        seen = dense @ np.linalg.solve(np.eye(4) + coupling @ dense, form.observe)
        spread = np.linalg.inv(form.information + form.observe.T @ seen)
        return tuple(
            np.einsum("ri,bij,rj->b", rows, spread, rows) - 1 for rows in (form.public, form.private[0])
        )

    def search(first: Array, second: Array) -> tuple[float, Array]:
        pairs = np.array(list(product(first, second)))
        best, where = np.inf, pairs[0]
        for free, rest in product(range(4), product((0.0, 1.0), repeat=3)):
            values = np.tile(np.insert(rest, free, 0.0), (len(pairs), 1))
            low, high = np.zeros(len(pairs)), np.ones(len(pairs))
            for _ in range(20):
                values[:, free] = (low + high) / 2
                enough = errors(pairs, values)[1] >= target
                low, high = np.where(enough, values[:, free], low), np.where(enough, high, values[:, free])
            values[:, free] = low
            loss, privacy = errors(pairs, values)
            loss = np.where(privacy >= target, loss, np.inf)
            if loss.min() < best:
                best, where = float(loss.min()), pairs[loss.argmin()]
        return best, where

    turn = np.linspace(0, np.pi, 17)[:-1]
    best, where = search(turn, turn)
    for reach in (0.18, 0.05, 0.012, 0.003):
        finer, where = search(*(angle + np.linspace(-reach, reach, 7) for angle in where))
        best = min(best, finer)
    return best


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2)), 3])
def test_two_agents_with_two_readings_against_a_grid(seed: int) -> None:
    form = small_network(seed, (2, 2), 2, prior="full", independent=seed == 3)
    targets = between(form, 0.5)
    best = grid_of_planar_agents(form, float(targets[0]))
    result = least_loss(form, targets, starts=8)
    check_promise(form, result, targets)
    assert result.loss <= best * (1 + 1e-4)
    assert result.loss >= best * 0.98


@pytest.mark.parametrize(("seed", "private"), [(0, (2,)), (1, (1, 2))])
def test_one_agent_is_the_centralised_program(seed: int, private: tuple[int, ...]) -> None:
    """With one agent P̃ = I + S'ZS is linear in Z: a convex program, solved independently."""
    cvxpy = pytest.importorskip("cvxpy")
    form = small_network(seed, (5,), 3, public=2, private=private, prior="full")
    targets = between(form, 0.5)
    # P̃ = I + H' Z H for one agent, 0 ⪯ Z ⪯ Ω^-1 with Ω = I - H H': Z = (Θ^-1 + Ω)^-1.
    limit = np.linalg.inv(np.eye(5) - form.observe @ form.observe.T)
    z = cvxpy.Variable((5, 5), PSD=True)

    def gain(rows: Array) -> object:
        seen = form.observe @ rows.T
        return cvxpy.trace(seen.T @ z @ seen)

    constraints = [cvxpy.Constant((limit + limit.T) / 2) - z >> 0]
    constraints += [gain(rows) >= target for rows, target in zip(form.private, targets, strict=True)]
    program = cvxpy.Problem(cvxpy.Minimize(gain(form.public)), constraints)
    program.solve(solver="CLARABEL")
    result = least_loss(form, targets, starts=6)
    check_promise(form, result, targets)
    assert result.loss == pytest.approx(program.value, rel=1e-4)


NETWORKS: dict[str, Callable[[], StandardForm]] = {
    "correlated": lambda: small_network(1, (3, 3, 3, 3), 4, private=(2,)),
    "independent": lambda: small_network(1, (3, 3, 3, 3), 4, private=(2,), independent=True),
    "no prior": lambda: small_network(2, (2,) * 6, 4, private=(2,), prior="none"),
    "no prior, independent": lambda: small_network(
        2, (2,) * 6, 4, private=(2,), prior="none", independent=True
    ),
    "singular prior": lambda: small_network(4, (2, 2, 3, 2), 5, private=(2,), prior="singular"),
    "sizes": lambda: small_network(6, (1, 4, 2, 2, 3), 4, public=2, private=(2, 1)),
    "ten private": lambda: small_network(7, (3, 2, 3, 3, 3), 5, private=(1,) * 10),
    "scalar agents, no prior": lambda: small_network(8, (1,) * 7, 3, private=(1,), prior="none"),
}


LONG = {"no prior, independent", "ten private"}  # like "no prior", and like "sizes"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in NETWORKS]
)
@pytest.mark.small_search
def test_every_kind_of_network(name: str) -> None:
    form = NETWORKS[name]()
    targets = between(form, 0.4)
    result = least_loss(form, targets, starts=3)
    check_promise(form, result, targets)
    assert result.privacy.min() > 0
    assert np.min(result.privacy / targets) < 1 + 1e-6
    assert result.kkt_residual < 1e-3
    assert not result.interrupted
    assert result.history[-1][0] == pytest.approx(result.loss, rel=1e-2)
    assert 1 <= result.agreed <= result.starts


@pytest.mark.small_search
def test_targets_of_zero_ask_nothing() -> None:
    form = small_network(1, (3, 3, 3), 4, private=(2, 2))
    targets = between(form, 0.4)
    alone = least_loss(form, np.array([targets[0], 0.0]), starts=2)
    both = least_loss(form, targets, starts=2)
    assert alone.privacy[0] == pytest.approx(targets[0], rel=1e-6)
    assert alone.loss <= both.loss * (1 + 1e-6)


@pytest.mark.long
def test_most_privacy_is_the_inverse_of_least_loss() -> None:
    form = standard_paper_network(3, 12, 2, True, 2)
    weights = np.array([1.0, 2.0])
    targets = weights * float(np.max(ceiling_and_limit(form)[0] / weights)) * 3
    cheapest = least_loss(form, targets, starts=2)
    best = JointCurve(form, weights, SearchOptions(2)).within(cheapest.loss)
    assert best.loss <= cheapest.loss
    assert by_definition(form, best.shrink)[0] <= cheapest.loss
    assert np.min(best.privacy / targets) == pytest.approx(1, rel=2e-3)


def test_just_above_the_ceiling_the_loss_is_quadratic() -> None:
    """The ceiling is where privacy stops being free, smoothly: ten times nearer costs a hundred times less."""
    form = small_network(1, (3, 3, 3), 4, private=(2,))
    ceiling = ceiling_and_limit(form)[0]
    far, near = (least_loss(form, ceiling * (1 + step), starts=1) for step in (1e-2, 1e-3))
    assert far.loss / near.loss == pytest.approx(100, rel=0.1)
    assert np.all(near.privacy >= ceiling * (1 + 1e-3))


@pytest.mark.long
def test_without_a_prior_very_much_privacy_means_hiding_a_direction() -> None:
    """A billionfold costs no more than infinite privacy does, and hardly more than ten thousandfold."""
    form = small_network(2, (3,) * 6, 4, public=2, private=(2,), prior="none")
    much = least_loss(form, np.array([1e4]), starts=3)
    more = least_loss(form, np.array([1e9]), starts=3)
    assert np.all(more.privacy >= 1e9)
    assert much.loss <= more.loss <= much.loss * 1.1
    within = JointCurve(form, np.ones(1), SearchOptions(3)).within(more.loss * 1.05)
    assert within.loss <= more.loss * 1.05
    assert np.all(within.privacy >= 1e9)


def test_simple_mechanisms_are_handed_out_simple() -> None:
    """At the paper's size eigenvalues are exactly 0 or 1 but for a few."""
    form = standard_paper_network(1, 12, 2, False)
    result = least_loss(form, np.array([50.0]), starts=3)
    values = np.concatenate([np.linalg.eigvalsh(x).ravel() for x in result.shrink])
    fractional = (values > 1e-12) & (values < 1 - 1e-12)
    assert fractional.sum() <= 3
    assert result.kkt_residual < 1e-3


@pytest.mark.long
def test_a_warm_start_costs_far_less() -> None:
    form = standard_paper_network(1, 9, 2, False)
    cold = least_loss(form, np.array([80.0]), starts=3)
    warm = least_loss(form, np.array([88.0]), warm=[cold.shrink])
    again = least_loss(form, np.array([88.0]), starts=4, seed=1)
    assert warm.iterations * 4 < again.iterations
    assert warm.loss <= again.loss * 1.01
    assert warm.starts == 1


@pytest.mark.long
def test_same_seed_same_answer() -> None:
    form = small_network(9, (2, 3, 3, 2), 4)
    targets = between(form, 0.5)
    one, two = least_loss(form, targets, starts=2), least_loss(form, targets, starts=2)
    assert one.loss == two.loss
    assert all(np.array_equal(a, b) for a, b in zip(one.shrink, two.shrink, strict=True))


@pytest.mark.long
def test_beats_or_matches_plain_random_starts() -> None:
    """An independent search: random shrinkages only, no race, no jumps, no search for hidden directions."""
    form = standard_paper_network(4, 18, 2, True)
    targets = np.maximum(ceiling_and_limit(form)[0] * 5, 10.0)
    objective = JointObjective(form)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4):
        run = Run(objective, LeastLoss(targets), random_shrink(objective, rng), 0.02)
        for _ in range(6):
            run.advance(60, 1e-7)
        found.append(np.exp(run.estimate))
    assert least_loss(form, targets, starts=6).loss <= min(found) * 1.01


@pytest.mark.parametrize("after", [1, 3, 6])
@pytest.mark.small_search
def test_stopping_returns_a_feasible_plan(after: int) -> None:
    form = standard_paper_network(1, 9, 2, False)
    targets = np.array([80.0])
    calls = 0

    def stop(_stage: str, _part: float) -> bool:
        nonlocal calls
        calls += 1
        return calls < after

    result = least_loss(form, targets, starts=2, progress=stop)
    assert result.interrupted
    check_promise(form, result, targets)


@pytest.mark.small_search
def test_progress_is_told() -> None:
    form = small_network(9, (2, 3, 3, 2), 4)
    told: list[tuple[str, float]] = []
    least_loss(form, between(form, 0.5), starts=3, progress=lambda stage, part: told.append((stage, part)))
    assert told
    assert all(0 < part <= 1 for _, part in told)
    assert told[-1] == ("convergence", 1.0)


def test_many_independent_agents_never_make_a_dense_matrix() -> None:
    arrays = paper_arrays(0, 300, 2, True, readings=600, parameters=8, independent=True)
    form = standardize(arrays)
    assert form.coupling is None
    targets = between(form, 0.3)
    result = least_loss(form, targets, starts=1)
    check_promise(form, result, targets)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_basin_that_hides_another_direction_is_found(seed: int) -> None:
    """Starts and random disturbances ended at 0.270 and 0.297; the best known plan hides another direction of x."""
    form = standard_paper_network(8, 18, 3, prior=False)
    found = least_loss(form, np.array([10.0]), seed=seed)
    assert found.loss == pytest.approx(0.22896, rel=1e-3)


def test_what_hides_altogether_comes_cheapest_first() -> None:
    """A singular prior leaves a choice of what to withhold: each X of it tells nothing, the first loses least."""
    rng = np.random.default_rng(3)
    network = vn.Network(
        {f"a{k}": rng.standard_normal((2, 4)) for k in range(4)},
        0.5,
        public=rng.standard_normal((1, 4)),
        private={"g": np.eye(4)[:1]},
        prior=vn.Prior(information=np.diag([1.0, 1.0, 0.0, 0.0])),
    )
    form = standard_form(network)
    objective = JointObjective(form)
    about = np.array([True])
    found = telling_nothing(form, about)
    losses = [objective(shrink).loss for shrink in found]
    assert losses == sorted(losses)
    assert losses[-1] > 1.01 * losses[0]
    limit = objective.privacy(objective.silent)
    assert all(objective.privacy(shrink) == pytest.approx(limit, rel=1e-6) for shrink in found)
