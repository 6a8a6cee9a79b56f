"""The proof of a gap: sound whatever the multipliers, confirmed in 40 digits, tight where the optimum is known."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import veilnet as vn
from helpers.exact_theorem import exact_surplus
from helpers.forged_plans import forged_id
from helpers.networks import random_network
from helpers.paper_networks import as_network, paper_arrays
from veilnet._core.errors import InvalidPlan
from veilnet._core.types import Array
from veilnet.designs.lower_bound import proving
from veilnet.designs.lower_bound.lifted_program import lifted_program
from veilnet.designs.lower_bound.proving import hidden_directions, prove_least_loss, prove_most_privacy
from veilnet.designs.lower_bound.rapidities import RapidityAscent
from veilnet.designs.lower_bound.semidefinite import solve_semidefinite
from veilnet.designs.proved import proved_plan
from veilnet.designs.worst import worst_ceilings, worst_limits
from veilnet.io._sealed import digest, seal
from veilnet.io.proof_files import PROOF
from veilnet.io.template import house
from veilnet.model.standard_form import standard_form
from veilnet.plans.lower_bound import proof as proof_module
from veilnet.plans.lower_bound.inequality import Inequality
from veilnet.plans.lower_bound.lifted_form import lifted_form, lifted_sum
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.rapidity import (
    CheckedPiece,
    Rapidities,
    RapidityTheorem,
    half_of,
    public_columns,
    rotations,
)
from veilnet.plans.lower_bound.theorem import Multipliers, Theorem, turn_of, turned
from veilnet.plans.verification import verify

pytestmark = [pytest.mark.slow, pytest.mark.small_search]

KINDS: list[dict[str, object]] = [
    {"noise": "per agent", "prior": "none", "public_rows": 1, "private_rows": (1,)},
    {"noise": "per agent", "prior": "covariance", "public_rows": 2, "private_rows": (1,)},
    {"noise": "variances", "prior": "singular", "public_rows": 1, "private_rows": (2,)},
    {"noise": "per agent", "prior": "information", "public_rows": 1, "private_rows": (1, 1)},
    {"noise": "joint", "prior": "covariance", "public_rows": 1, "private_rows": (1,)},
]


def kind_of(place: int) -> vn.Network:
    sizes = (2, 1, 1) if KINDS[place]["noise"] == "joint" else (2, 1, 2)
    return random_network(11 + place, sizes=sizes, parameters=3, **KINDS[place])  # type: ignore[arg-type]


def costly(network: vn.Network) -> float:
    """A privacy above the ceiling of every parameter and below every limit."""
    verdict = vn.check(network)
    ceiling, limit = max(verdict.ceiling.values()), min(verdict.limit.values())
    return ceiling + (0.4 * (limit - ceiling) if np.isfinite(limit) else 1 + ceiling)


@pytest.fixture(scope="module")
def proved() -> list[vn.Plan]:
    """One plan of each kind, with its proof."""
    networks = [kind_of(place) for place in range(len(KINDS))]
    return [vn.design(network, privacy=costly(network), prove=0.02) for network in networks]


@pytest.fixture(scope="module")
def turned_proofs(proved: list[vn.Plan]) -> list[vn.Plan]:
    """The same plans with proofs by the program with turns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proving, "_by_rapidities", lambda *_given, **_options: None)
        return [proved_plan(replace(plan, proof=None), 0.02) for plan in proved]


@pytest.mark.parametrize("place", range(len(KINDS)))
@pytest.mark.parametrize("way", ["proved", "turned_proofs"])
def test_what_numpy_accepts_is_confirmed_in_40_digits(
    request: pytest.FixtureRequest, way: str, place: int
) -> None:
    """The oracle builds the standard form and A_j in mpmath from the network's numbers alone."""
    plan = request.getfixturevalue(way)[place]
    assert plan.proof is not None
    assert plan.proof.holds(plan.network)
    exact = float(exact_surplus(plan.network, plan.proof))
    assert exact > 0
    # The deduction for rounding is one: the check's own number never exceeds the exact one.
    assert plan.proof.surplus(plan.network) <= exact


def test_the_gap_is_small_where_it_should_be(proved: list[vn.Plan]) -> None:
    """Four of five kinds within 2 %; the bound is below the loss of the plan in every one."""
    for plan in proved:
        assert plan.proof is not None
        assert 0 < plan.proof.loss <= -plan.utility
        assert plan.gap == pytest.approx(-plan.utility / plan.proof.loss - 1)
    assert sum(plan.gap <= 0.02 for plan in proved) >= 4


@pytest.mark.parametrize("place", range(len(KINDS)))
@pytest.mark.parametrize("way", ["proved", "turned_proofs"])
def test_no_multipliers_prove_what_a_design_refutes(
    request: pytest.FixtureRequest, way: str, place: int
) -> None:
    """Soundness: disturbed at every scale, in every part, multipliers never bound beyond a loss that exists."""
    plan = request.getfixturevalue(way)[place]
    assert plan.proof is not None
    rng = np.random.default_rng([5, place])
    form = lifted_form(plan.network, plan.proof.common)
    names = list(plan.network.private)
    asked = tuple(names.index(name) for name in plan.proof.privacy)
    privacy = dict(zip(asked, plan.proof.privacy.values(), strict=True))
    given = plan.proof.multipliers
    assert isinstance(given, Rapidities) == (way == "proved")
    proves_something = 0
    for trial in range(60):
        scale = 10.0 ** rng.uniform(-6, 1)
        theorem: Inequality
        if isinstance(given, Rapidities):
            half = given.half + scale * np.max(np.abs(given.half)) * rng.standard_normal(given.half.shape)
            half /= np.maximum(1.0, 1.001 * np.linalg.norm(half, 2, axis=(2, 3)))[..., None, None]
            proportions = given.proportions * np.exp(scale * rng.standard_normal(given.proportions.shape))
            weights = given.weights.copy()
            weights[:, 3] *= np.exp(scale * rng.standard_normal(len(weights)))
            cuts = given.cuts + scale * rng.standard_normal(given.cuts.shape)
            changed = replace(given, half=half, proportions=proportions, cuts=cuts, weights=weights)
            theorem = RapidityTheorem(form, asked, changed)
        else:
            theorem = Theorem(form, asked, tuple(_disturbed(rng, each, scale) for each in given))
        bound = theorem.largest_loss(privacy, 100.0)
        assert bound <= -plan.utility, trial
        proves_something += bound > 0
    assert proves_something >= 5


def _disturbed(rng: np.random.Generator, given: Multipliers, scale: float) -> Multipliers:
    def shaken(array: Array) -> Array:
        size = float(np.max(np.abs(array), initial=0.0)) or 1.0
        return np.asarray(array + scale * size * rng.standard_normal(array.shape))

    parts = rng.permutation(["root", "public", "turn", "turns", "heard", "links", "weight"])[
        : rng.integers(1, 8)
    ]
    changes: dict[str, object] = {}
    for name in parts:
        value = getattr(given, str(name))
        if name == "weight":
            changes["weight"] = float(abs(value + scale * rng.standard_normal()))
        else:
            changes[str(name)] = tuple(map(shaken, value)) if isinstance(value, tuple) else shaken(value)
    return replace(given, **changes)  # type: ignore[arg-type]


def test_turns_vanish_on_what_is_its_own_partial_transpose() -> None:
    rng = np.random.default_rng(3)
    x, v = rng.standard_normal((3, 3)), rng.standard_normal(4)
    turn = turned(rng.standard_normal((3, 6)), 3, 4)
    assert abs(np.sum(turn * np.kron(x + x.T, np.outer(v, v)))) < 1e-12
    np.testing.assert_allclose(turned(turn_of(turn, 3, 4), 3, 4), turn)


def one_agent(seed: int) -> vn.Network:
    rng = np.random.default_rng(seed)
    return vn.Network(
        observe={"only": rng.standard_normal((3, 3))},
        noise=1.0,
        public=rng.standard_normal((1, 3)),
        private={"g": rng.standard_normal((1, 3))},
        prior=vn.Prior(covariance=np.diag(rng.uniform(1, 5, 3))),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_agent_whose_optimum_is_known(seed: int) -> None:
    """One agent that sees all of x reaches every error covariance between P and P0: a linear program in it.

    With P̃ = I + D^½ Y D^½, D = P0 - I in standard form, 0 ⪯ Y ⪯ I: the dual max_μ μ ε - tr((μ B - A)_+) is exact.
    """
    network = one_agent(seed)
    target = costly(network)
    form = standard_form(network)
    excess = np.linalg.inv(form.information) - np.eye(3)
    values, vectors = np.linalg.eigh(excess)
    half = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    lost, hidden = (
        half @ form.public.T @ form.public @ half,
        half @ form.private[0].T @ form.private[0] @ half,
    )

    def minus_dual(mu: float) -> float:
        eigenvalues = np.linalg.eigvalsh(mu * hidden - lost)
        return float(np.sum(np.maximum(eigenvalues, 0)) - mu * target)

    optimum = -float(
        minimize_scalar(minus_dual, bounds=(0, 1e3), method="bounded", options={"xatol": 1e-10}).fun
    )
    plan = vn.design(network, privacy=target)
    assert plan.gap == 0.0  # by the linear program of one holder of all readings
    assert -plan.utility == pytest.approx(optimum, rel=1e-5)
    proof = prove_least_loss(network, {"g": target}, -plan.utility, 0.01, design=plan.sanitizers)
    assert proof is not None
    assert optimum * 0.98 <= proof.loss <= optimum * (1 + 1e-6)


def two_rows(seed: int, agents: int) -> vn.Network:
    """A private parameter of two rows, the second a part of the first: its mean leaves one direction exposed."""
    rng = np.random.default_rng([seed, 41])
    rows = rng.standard_normal((2, 4))
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((5 if agents == 1 else 3, 4)) for k in range(agents)},
        noise=0.5,
        public=rng.standard_normal((1, 4)),
        private={"g": vn.Secret(rows, change=1.0)},
        prior=vn.Prior(covariance=4 * np.eye(4)),
    )


def halfway(network: vn.Network) -> float:
    """Growth of every direction halfway from what is free to what silence gives."""
    verdict = vn.check(network)
    return (min(worst_ceilings(verdict).values()) + min(worst_limits(network).values())) / 2


def least_of_one_holder(network: vn.Network, growth: float) -> float:
    """Of one agent the optimum is a semidefinite program in P̃ alone, P ⪯ P̃ ⪯ P0 and G P̃ G' ⪰ (1 + ε) G P G'."""
    cp = pytest.importorskip("cvxpy")
    raw, rows = vn.crlb(network), network.private["g"]
    after = cp.Variable((4, 4), symmetric=True)
    kept = [after - raw >> 0, 4 * np.eye(4) - after >> 0]
    hidden = rows @ after @ rows.T - (1 + growth) * rows @ raw @ rows.T >> 0
    problem = cp.Problem(cp.Minimize(cp.trace(network.U @ after @ network.U.T)), [*kept, hidden])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value / np.trace(network.U @ raw @ network.U.T) - 1)


def test_what_is_asked_of_every_direction_has_a_gap_too(tmp_path: Path) -> None:
    """The bound is never above the optimum by CVXPY, and at it where two directions and their mean agree."""
    parts = []
    for seed in range(4):
        network = two_rows(seed, 1)
        plan = vn.design(network, privacy=vn.Worst(halfway(network)))
        assert plan.proof is not None
        assert np.isfinite(plan.gap)
        assert float(exact_surplus(network, plan.proof)) > 0
        parts.append(plan.proof.loss / least_of_one_holder(network, halfway(network)))
    assert max(parts) < 1 + 1e-6
    assert sum(part > 0.99 for part in parts) >= 2
    plan.save(tmp_path / "plan")
    assert vn.Plan.load(tmp_path / "plan").gap == plan.gap


@pytest.mark.small_search(False)
def test_secrets_of_several_rows_have_a_gap_and_no_claim_beyond_what_was_asked() -> None:
    """Any change of length 1, AUC 0.7. A proof about more than was asked says nothing of the plan."""
    network = two_rows(1, 4)
    plan = vn.design(network, privacy={"g": vn.Auc(0.7)})
    # By one seed, on some processors, the search used to end at 92 times this loss: its start decided.
    assert -plan.utility == pytest.approx(0.001361, rel=1e-3)
    assert plan.proof is not None
    assert np.isfinite(plan.gap)
    assert float(exact_surplus(network, plan.proof)) > 0
    more = {"g": plan.proof.privacy["g"] * 1.01}
    assert replace(plan, proof=replace(plan.proof, privacy=more)).gap == np.inf
    other = {"g": plan.proof.mixed["g"] @ np.diag([1.0, 50.0])}
    assert not replace(plan.proof, mixed=other).holds(network)
    assert not replace(plan.proof, mixed={"g": np.zeros((1, 2))}).holds(network)
    assert not replace(plan.proof, mixed={"g": np.eye(3)}).holds(network)


def three_scalars() -> vn.Network:
    return vn.Network(
        observe={"a": [[1.0, 0.4]], "b": [[0.3, 1.0]], "c": [[1.0, -0.8]]},
        noise=[1.0, 0.5, 0.8],
        public=[[1.0, 0.2]],
        private={"g": [[0.1, 1.0]]},
        prior=vn.Prior(covariance=np.diag([2.0, 6.0])),
    )


def exhaustive(network: vn.Network, *, target: float | None = None, allowed: float = 0.0) -> float:
    """The least loss for ``target``, or the most privacy within ``allowed``: X_i of three scalar agents on a grid of
    [0, 1]³, then on finer ones around the best.
    """
    form = standard_form(network)
    low, high = np.zeros(3), np.ones(3)
    best = np.inf if target is not None else 0.0
    for _ in range(6):
        grid = np.array(list(product(*np.linspace(low, high, 31).T)))
        information = form.information + np.einsum("ti,ia,ib->tab", grid, form.observe, form.observe)
        error = np.linalg.inv(information)
        loss = np.einsum("ka,tab,kb->t", form.public, error, form.public) - 1
        privacy = np.einsum("ka,tab,kb->t", form.private[0], error, form.private[0]) - 1
        if target is not None:
            judged = np.where(privacy >= target, loss, np.inf)
            place = int(np.argmin(judged))
            best = min(best, float(judged[place]))
        else:
            judged = np.where(loss <= allowed, privacy, 0.0)
            place = int(np.argmax(judged))
            best = max(best, float(judged[place]))
        reach = (high - low) / 8
        low, high = np.maximum(grid[place] - reach, 0), np.minimum(grid[place] + reach, 1)
    return best


def test_both_questions_against_exhaustive_search() -> None:
    """Three scalar agents: every mechanism is a point of a cube. Neither bound is ever beaten, and both are tight."""
    network = three_scalars()
    target = costly(network)
    plan = vn.design(network, privacy=target, prove=0.01)
    assert plan.proof is not None
    best = exhaustive(network, target=target)
    assert 0.98 * best <= plan.proof.loss <= best
    allowed = -plan.utility
    other = vn.design(network, utility_loss=allowed, prove=0.01)
    assert other.proof is not None
    most = exhaustive(network, allowed=allowed)
    assert most <= other.proof.privacy["g"] <= 1.02 * most
    assert other.gap == pytest.approx(other.proof.privacy["g"] / other.privacy["g"] - 1)


def sharp(place: int, sharper: float) -> vn.Network:
    """A network of which one agent errs so many times less than the others."""
    plain = kind_of(place)
    noise = {agent: plain.R.block(i) / (sharper**2 if i == 1 else 1) for i, agent in enumerate(plain.agents)}
    prior = vn.Prior(covariance=np.eye(3))
    return vn.Network(dict(plain.observe), noise, dict(plain.public), dict(plain.private), prior)


@pytest.mark.parametrize("sharper", [1e3, 1e4])
def test_where_doubles_cannot_tell_32_digits_do(sharper: float, tmp_path: Path) -> None:
    """One agent a million times as sharp: rounding of doubles exceeds what the inequality holds by."""
    network = sharp(0, sharper)
    verdict = vn.check(network)
    free, limit = verdict.ceiling["g0"], verdict.limit["g0"]
    plan = vn.design(network, privacy=free + 0.3 * (limit - free))
    assert plan.gap < 0.02
    assert plan.proof is not None
    plan.save(tmp_path / "plan")
    assert vn.Plan.load(tmp_path / "plan").gap == plan.gap
    assert 0 < plan.proof.surplus(network) <= float(exact_surplus(network, plan.proof))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof_module, "precise_surplus", lambda *_given: -np.inf)
        assert not plan.proof.holds(network)


@pytest.mark.parametrize("place", range(4))
def test_32_digits_and_40_agree_on_what_holds(
    proved: list[vn.Plan], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Doubles are made to be unsure of everything; claims lie on both sides of what the rapidities prove."""
    plan = proved[place]
    assert plan.proof is not None
    monkeypatch.setattr(CheckedPiece, "surplus", lambda *_given: -np.inf)
    held = []
    for factor in (0.5, 0.99, 1.0, 1 + 1e-5, 1.05, 2.0):
        claim = replace(plan.proof, loss=plan.proof.loss * factor)
        held.append(claim.holds(plan.network))
        assert held[-1] == (float(exact_surplus(plan.network, claim)) > 0), factor
    assert held[2]
    assert not held[-1]


@pytest.mark.small_search(False)
def test_the_bundled_house_has_a_gap_by_default() -> None:
    """Two public rows and four private ones: fewer policies fit into a quick proof, and are enough."""
    plan = vn.design(house(), privacy=8.0)
    assert plan.gap < 0.05
    assert plan.proof is not None
    assert plan.proof.holds(plan.network)


def test_a_statement_beyond_the_optimum_is_refused(proved: list[vn.Plan]) -> None:
    plan = proved[0]
    assert plan.proof is not None
    boast = Proof(-plan.utility * 1.01, plan.proof.privacy, plan.proof.multipliers)
    assert not boast.holds(plan.network)
    with pytest.raises(InvalidPlan, match="proof"):
        plan.with_proof(boast)
    other = proved[1]
    assert other.proof is not None
    false = replace(plan.proof, loss=-1.01 * other.utility, privacy=other.proof.privacy)
    assert not false.holds(other.network)


def test_closed_forms_have_no_gap_and_the_rest_says_what_is_proved(proved: list[vn.Plan]) -> None:
    network = kind_of(1)
    assert vn.design(network).gap == 0.0
    assert "Optimal" in str(vn.design(network))
    power = vn.design(network, power=2.0)
    assert power.gap == power.details["relative_gap"]
    bare = replace(proved[1], proof=None)
    assert bare.gap == np.inf
    assert "not proved" in str(bare)
    assert "with any linear design the public standard error grows by" in str(proved[1])


def test_correlated_noise_of_many_readings_is_not_split() -> None:
    arrays = paper_arrays(0, 12, 3, True, readings=120)
    network = as_network(arrays)
    design = vn.check(network).shares.sanitizers
    assert prove_least_loss(network, {"g1": 10.0}, 0.1, 0.01, design=design) is None


@pytest.mark.parametrize("private", [1, pytest.param(2, marks=pytest.mark.long)])
def test_trade_offs_at_the_paper_s_size_carry_a_gap(private: int) -> None:
    """By default, within some hundredths of a second, where the prior is full; 40 digits agree."""
    arrays = paper_arrays(102, 6, 1, True, private, independent=True)
    network = as_network(arrays._replace(private=tuple(rows[:1] for rows in arrays.private)))
    asked = {"privacy": 1.1 * vn.check(network).ceiling["g1"]} if private == 1 else {"utility_loss": 0.05}
    plan = vn.design(network, **asked)
    assert plan.proof is not None
    assert len(plan.proof.privacy) == private
    assert plan.gap < (0.001 if private == 1 else 1.0)
    exact = float(exact_surplus(network, plan.proof))
    assert 0 < plan.proof.surplus(network) <= exact


def test_the_ascent_has_the_derivative_it_says() -> None:
    """Of every entry of A, in t, against differences; two parameters, one of two rows, and two public rows."""
    network = random_network(
        3,
        noise="per agent",
        prior="covariance",
        sizes=(2, 1, 2),
        parameters=3,
        public_rows=2,
        private_rows=(2, 1),
    )
    form, rng = lifted_form(network), np.random.default_rng(4)
    ascent = RapidityAscent(form, (0, 1), np.array([1.0, 0.7]), 2)
    t, moved = 0.4 * rng.standard_normal((2, *ascent.shape()))
    weight = rng.standard_normal((ascent.size, ascent.size))
    weight, kept = weight + weight.T, np.array([3.0, 5.0])

    def paired(t: Array) -> float:
        return float(np.sum(weight * ascent.at(ascent.parts(t), 0.2, kept)[0]))

    parts = ascent.parts(t)
    derivative = np.sum(ascent.pulled(weight, t, parts, ascent.at(parts, 0.2, kept)[1]) * moved)
    assert (paired(t + 1e-5 * moved) - paired(t - 1e-5 * moved)) / 2e-5 == pytest.approx(derivative, rel=1e-7)
    theorem = RapidityTheorem(form, (0, 1), Rapidities(half_of(t)[None], ascent.proportions))
    np.testing.assert_allclose(
        theorem.at(0.2, {0: 2.0, 1: 4.0}), ascent.at(parts, 0.2, kept)[0], rtol=0, atol=1e-10
    )


def test_rapidities_are_the_other_theorem_without_turns() -> None:
    """One parameter, one public row: the multipliers Z = F F', Y_i = P_i P_i', K = 0 prove the same bound."""
    network = random_network(
        7,
        noise="per agent",
        prior="covariance",
        sizes=(2, 2, 2),
        parameters=3,
        public_rows=1,
        private_rows=(1,),
    )
    target = costly(network)
    plan = vn.design(network, privacy=target)
    assert plan.proof is not None
    given = plan.proof.multipliers
    assert isinstance(given, Rapidities)
    form = lifted_form(network)
    assert len(given.half) == 1
    grown, moved = rotations(given.half[0])
    policies = given.half.shape[2]
    main = np.kron(form.information, np.eye(policies)) + lifted_sum(form.informations, grown @ grown)
    cross, columns = lifted_sum(form.informations, grown @ moved), public_columns(form.public, policies)
    solved = np.linalg.solve(main, np.hstack([cross, columns]))
    loss = plan.proof.loss / 2  # where the inequality holds by much more than rounding
    spare = (1 + loss) * np.eye(policies) - columns.T @ solved[:, 3:]
    answer = np.linalg.solve(spare, columns.T @ solved[:, :3])
    lower = (solved[:, :3] + solved[:, 3:] @ answer).reshape(3, policies, 3)  # x, policy, v
    root = np.concatenate([-answer[None], lower]).transpose(0, 2, 1)
    heard = []
    for observe, a, t in zip(form.observe, grown, moved, strict=True):
        shown = np.einsum("pl,lkn,kq->pnq", observe, lower, a) - np.einsum("pn,q->pnq", observe, t[:, 0])
        flat = shown.reshape(len(observe) * 3, -1)
        heard.append(flat @ flat.T)
    none = [np.zeros((len(each) * (len(each) - 1) // 2, 3)) for each in form.observe]
    links = tuple(np.zeros((len(each), len(each))) for each in form.observe)
    same = Multipliers(1.0, root, answer.T @ answer, np.zeros((0, 3)), tuple(none), tuple(heard), links)
    other = Theorem(form, (0,), (same,)).surplus(loss, {0: target})
    assert other == pytest.approx(replace(plan.proof, loss=loss).surplus(network), rel=1e-6)


@pytest.fixture(scope="module")
def in_pieces() -> vn.Plan:
    """A plan with a proof in pieces of half the gap that one of them proves."""
    network = random_network(
        12, noise="per agent", prior="covariance", sizes=(2, 1, 2), parameters=4, public_rows=1,
        private_rows=(1,),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proving, "_by_program", lambda *_given: None)
        plan = vn.design(network, privacy=costly(network))
        return proved_plan(replace(plan, proof=None), plan.gap / 2)


def test_pieces_prove_more_than_one_and_cover_every_v(in_pieces: vn.Plan) -> None:
    """Their bound is confirmed in 40 digits; a part of v without a piece, or with two, is refused."""
    proof = in_pieces.proof
    assert proof is not None
    given = proof.multipliers
    assert isinstance(given, Rapidities)
    assert len(given.half) > 2
    assert 0 < proof.surplus(in_pieces.network) <= float(exact_surplus(in_pieces.network, proof))
    ends = np.argwhere(given.children < 0)
    for column, value in (
        (0, given.children[tuple(ends[1])]),
        (1, -1.0 - len(given.half)),
        (0, 0.0),
        (1, 0.5),
    ):
        children = given.children.copy()
        children[ends[0][0], column] = value
        if not np.array_equal(children, given.children):
            assert not replace(proof, multipliers=replace(given, children=children)).holds(in_pieces.network)
    for change in (
        {"weights": given.weights * [1, 1, 1, -1]},
        {"cuts": -given.cuts},
        {"weights": np.vstack([given.weights, [0, len(given.cuts) + 1, 0, 0.0]])},
    ):
        assert not replace(proof, multipliers=replace(given, **change)).holds(in_pieces.network)


def test_two_solvers_agree() -> None:
    """The splitting and Clarabel on one network: multipliers differ, what they prove does not."""
    pytest.importorskip("clarabel")
    network = kind_of(0)
    plan = vn.design(network, privacy=costly(network), prove=0.005)
    form = lifted_form(network)
    target = costly(network)
    solved = solve_semidefinite(form, [lifted_program(form, form.private[0], target, -0.9975 * plan.utility)])
    assert solved is not None
    assert plan.proof is not None
    theirs = Theorem(form, (0,), solved).largest_loss({0: target}, -plan.utility)
    assert theirs == pytest.approx(plan.proof.loss, rel=0.01)


def test_a_poor_design_is_replaced_by_what_the_proof_says_is_hidden() -> None:
    network = random_network(
        7, noise="per agent", prior="covariance", sizes=(2, 2, 2), parameters=3, private_rows=(1,)
    )
    target = costly(network)
    poor = vn.design(network, privacy=target, method="alternating", sweeps=1)
    best = vn.design(network, privacy=target)
    assert -poor.utility > -1.2 * best.utility
    mended = proved_plan(poor, 0.02)
    assert -mended.utility <= -1.001 * best.utility
    assert mended.gap < 0.05
    assert mended.proof is not None
    for direction in hidden_directions(mended.proof, network):
        assert direction.shape == (3,)
        assert np.linalg.norm(direction) == pytest.approx(1.0)


def test_most_privacy_without_a_design_to_improve() -> None:
    """Nothing reached, nothing to compare with: no proof rather than a wrong one."""
    network = three_scalars()
    design = vn.check(network).shares.sanitizers
    assert prove_most_privacy(network, 0.0, {"g": 1.0}, 1.0, 0.01, design=design) is None


# --- saved proofs


def test_a_saved_proof_comes_back_and_is_verified(proved: list[vn.Plan], tmp_path: Path) -> None:
    for place, name in ((1, "folder"), (4, "other"), (1, "plan.npz")):
        plan = proved[place]
        folder = tmp_path / name
        plan.save(folder)
        again = vn.Plan.load(folder)
        assert again.gap == plan.gap
        checks = verify(folder, plan.network)
        assert all(check.ok for check in checks)
        assert any(check.promised == plan.proof.loss for check in checks if plan.proof is not None)


def test_a_plan_saved_over_one_with_a_proof_leaves_no_proof(proved: list[vn.Plan], tmp_path: Path) -> None:
    proved[1].save(tmp_path / "plan")
    vn.design(proved[1].network).save(tmp_path / "plan")
    assert not (tmp_path / "plan" / "proof.json").exists()
    assert vn.Plan.load(tmp_path / "plan").gap == 0.0


def _rewrite(path: Path, change: dict[str, object]) -> dict[str, object]:
    document = json.loads(path.read_text(encoding="utf-8"))
    document.pop("checksum")
    document.update(change)
    path.write_bytes(seal(document))
    return dict(document)


@pytest.mark.parametrize("lie", ["edited", "missing", "boast", "multipliers", "impossible privacy"])
@pytest.mark.parametrize("way", ["proved", "turned_proofs"])
def test_a_tampered_proof_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, way: str, lie: str
) -> None:
    """From a naive edit to a forger who rewrites every checksum, digest and id."""
    plan = request.getfixturevalue(way)[1]
    assert plan.proof is not None
    folder = tmp_path / "plan"
    plan.save(folder)
    path = folder / "proof.json"
    if lie == "edited":
        path.write_text(path.read_text(encoding="utf-8").replace('"loss": 0', '"loss": 1'), encoding="utf-8")
    elif lie == "missing":
        path.unlink()
    else:
        document = json.loads(path.read_text(encoding="utf-8"))
        packed = (
            document["multipliers"][0]["root"]
            if "multipliers" in document
            else document["rapidities"]["half"]
        )
        loss = plan.proof.loss
        if lie == "boast":
            loss = -1.5 * plan.utility
        elif lie == "impossible privacy":
            # 1 + ε below zero would make the theorem's inequality hold for any loss
            loss = -1.5 * plan.utility
            document["privacy"] = dict.fromkeys(document["privacy"], -2.0)
        else:
            first = packed["data"]
            packed["data"] = first[64:128] + first[64:] if way == "turned_proofs" else first[:-44] + 44 * "A"
        whole = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        whole.pop("checksum")
        content = {name: document[name] for name in PROOF.kinds if name in document and name != "plan"} | {
            "loss": loss
        }
        whole["proof"] = {"loss": loss, "privacy": document["privacy"], "digest": digest(content)}
        whole["plan"] = forged_id(whole)
        (folder / "plan.json").write_bytes(seal(whole))
        for other in folder.glob("*.json"):
            if other.name != "plan.json":
                extra: dict[str, object] = content if other.name == "proof.json" else {}
                _rewrite(other, {"plan": whole["plan"], **extra})
    with pytest.raises(InvalidPlan, match="proof"):
        vn.Plan.load(folder)
    failed = [check for check in verify(folder, plan.network) if not check.ok]
    assert len(failed) == 1
    assert failed[0].what in ("proof.json", "loss that no linear design undercuts")


def test_claims_that_the_theorem_does_not_cover_prove_nothing(proved: list[vn.Plan]) -> None:
    plan = proved[1]
    assert plan.proof is not None
    for privacy, loss in ((-2.0, plan.proof.loss), (plan.proof.privacy, -0.5), (np.nan, plan.proof.loss)):
        asked = privacy if not isinstance(privacy, float) else dict.fromkeys(plan.proof.privacy, privacy)
        false = dataclasses.replace(plan.proof, loss=loss, privacy=asked)
        assert not false.holds(plan.network)
        with pytest.raises(vn.InvalidPlan):
            plan.with_proof(false)
