"""Trade-offs by prices that all agents answer, against the search for one matrix per agent and dense formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.stacked_networks import stacked_network
from veilnet._core.progress import Teller
from veilnet._core.types import Array
from veilnet.designs.joint import JointCurve, SearchOptions
from veilnet.designs.many import Effort, FormCrowd, ManyCurve, Question, Rule, curve, mixed_answers, mixture
from veilnet.designs.many.descent import Descent
from veilnet.designs.many.recipes import pulled
from veilnet.model.standard_form import standard_form
from veilnet.plans.lower_bound.rapidity import Rapidities

L = 4
ONE = SearchOptions(starts=1)


def network(seed: int, *, prior: bool = True, agents: int = 90) -> vn.Network:
    """Agents of one, two and three readings, two private parameters."""
    rng = np.random.default_rng(seed)
    observe, noise = [], []
    for size in (1, 2, 3):
        root = 0.5 * rng.standard_normal((agents // 3, size, size))
        observe.append(rng.standard_normal((agents // 3, size, L)))
        noise.append(root @ root.transpose(0, 2, 1) + np.eye(size))
    private = {"g": rng.standard_normal((2, L)), "f": rng.standard_normal(L)}
    known = vn.Prior(np.eye(L)) if prior else None
    return vn.Network(observe, noise, rng.standard_normal(L), private, known)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any network has very many agents, and a few of them stand for all."""
    monkeypatch.setattr(curve, "MANY_ENTRIES", 0)
    monkeypatch.setattr(curve, "SAMPLE_ENTRIES", 120)


def test_a_derivative_by_prices_is_one() -> None:
    """Oracle: central differences, of answers that are soft and of those that turn from telling to hiding."""
    rng = np.random.default_rng(1)
    observe, estimate = rng.standard_normal((40, 3, L)), rng.standard_normal((L, 3))
    worths = rng.standard_normal((2, 3))
    directions = rng.standard_normal((L, 3))
    signs = np.array([-1.0, 1.0, 1.0])

    def told(at: Array) -> Array:
        shrink = mixed_answers([Rule("prices", at, signs, 0.7)], np.ones(1), observe)
        seen = observe @ estimate
        by_row = np.einsum("sir,sij,sjr->r", seen, shrink, seen)
        return np.asarray(worths @ by_row)

    found = pulled(observe, Rule("prices", directions, signs, 0.7), estimate, worths)
    for _ in range(5):
        step = 1e-6 * rng.standard_normal(directions.shape)
        expected = (told(directions + step) - told(directions - step)) / 2
        np.testing.assert_allclose(np.tensordot(found, step, 2), expected, rtol=1e-5, atol=1e-11)


def test_what_a_mixture_reaches_is_what_the_dense_formulas_say() -> None:
    """J̃ = J0 + Σ H_i'X_i H_i with X_i from the mixture itself, and derivatives by central differences."""
    form = standard_form(network(2))
    crowd = FormCrowd(form)
    rng = np.random.default_rng(3)
    recipes = [
        Rule.span(form.public.T),
        Rule.prices(crowd.wanted, np.array([-1.0, 0.3, 0.3, 0.5])),
        Rule.withhold(rng.standard_normal((L, 1))),
    ]
    answers = mixture.Answers(crowd.wanted, crowd.owner, [crowd.ask(recipe) for recipe in recipes])
    weights = np.array([0.5, 0.3, 0.2])
    at = answers.at(weights)
    information = form.information.copy()
    for group, shrink in zip(form.blocks.groups, crowd.shrink(recipes, weights), strict=True):
        assert np.linalg.eigvalsh(shrink).min() > -1e-12
        assert np.linalg.eigvalsh(shrink).max() < 1 + 1e-12
        observe = group.take(form.observe)
        information += np.einsum("kil,kij,kjm->lm", observe, shrink, observe)
    np.testing.assert_allclose(at.information, information, rtol=1e-10, atol=1e-12)
    errors = np.einsum("lr,lr->r", crowd.wanted, np.linalg.solve(information, crowd.wanted))
    grown = np.bincount(crowd.owner, errors) - 1
    np.testing.assert_allclose([at.loss, *at.privacy], grown, rtol=1e-9)
    step = 1e-6 * np.array([1.0, -2.0, 1.0])
    ahead, behind = answers.at(weights + step), answers.at(weights - step)
    np.testing.assert_allclose(at.slopes @ step, (ahead.values - behind.values) / 2, rtol=1e-5)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("seed", "prior"), [(4, True), (5, False)])
def test_prices_find_what_the_search_for_every_agent_finds(seed: int, prior: bool) -> None:
    """Oracle: the search with one matrix per agent, on the same network; 1 % at most may lie between."""
    form = standard_form(network(seed, prior=prior, agents=60))
    weights = np.array([1.0, 0.7])
    by_prices, one_by_one = ManyCurve(form, weights, SearchOptions()), JointCurve(form, weights, ONE)
    level = 2.5 * one_by_one.ceiling
    found, expected = by_prices.at(level), one_by_one.at(level)
    assert found.loss <= 1.01 * expected.loss
    assert np.all(found.privacy >= level * weights)
    assert found.kkt_residual < 1e-2
    # what was found is what the loss buys
    bought = by_prices.within(found.loss)
    assert bought.loss <= found.loss
    assert np.min(bought.privacy / weights) >= level / 1.01


def test_prices_are_known_to_the_search_of_a_crowd() -> None:
    """160 agents of three sizes, twice what is free: all ten starts without prices agree on 1.7 times the loss."""
    rng = np.random.default_rng(1)
    model = stacked_network(
        1, [(60, 1), (60, 2), (40, 3)], private={"g": rng.standard_normal((2, 6))}, prior=vn.Prior(np.eye(6))
    )
    form = standard_form(model)
    alone = JointCurve(form, np.ones(1), SearchOptions())
    level = 2 * alone.ceiling
    plan = vn.design(model, privacy=level)
    assert plan.privacy["g"] >= level
    assert -plan.utility < 0.7 * alone.at(level).loss
    bought = vn.design(model, utility_loss=-plan.utility * 1.001)
    assert bought.privacy["g"] >= level


@pytest.mark.usefixtures("many")
def test_a_plan_of_very_many_agents_is_certified_and_keeps_what_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network(6)
    free = vn.check(model).ceiling
    made: list[object] = []
    freeze = vn.Sanitizer._freeze
    monkeypatch.setattr(vn.Sanitizer, "_freeze", lambda self: (made.append(self), freeze(self))[1])
    plan = vn.design(model, privacy={"g": 2 * free["g"]})
    assert made == []
    assert plan.certificate.ok
    assert plan.privacy["g"] >= 2 * free["g"]
    assert plan.privacy["f"] >= free["f"] * (1 - 1e-6)
    assert -1 < plan.utility < 0
    objects = dict(plan.sanitizers)
    assert vn.privacy(model, objects) == pytest.approx(dict(plan.privacy), rel=1e-8)


@pytest.mark.usefixtures("many")
def test_most_agents_may_have_nothing_to_do_with_what_is_asked() -> None:
    """Oracle: they change nothing, so the search without them finds the same; 1 % at most may lie between."""
    rng = np.random.default_rng(1)
    near, far = rng.standard_normal((6, 3, 3)), rng.standard_normal((14, 3, 2))
    observe = np.zeros((20, 3, 5))
    observe[:6, :, :3], observe[6:, :, 3:] = near, far
    public, private = rng.standard_normal(3), {"g": rng.standard_normal(3), "f": rng.standard_normal(3)}
    whole = vn.Network(
        [observe],
        1.0,
        np.append(public, [0, 0]),
        {name: np.append(rows, [0, 0]) for name, rows in private.items()},
        vn.Prior(np.eye(5)),
    )
    alone = standard_form(vn.Network([near], 1.0, public, private, vn.Prior(np.eye(3))))
    expected = JointCurve(alone, np.ones(2), ONE).within(0.2)
    found = vn.design(whole, utility_loss=0.2, starts=1)
    assert -0.2 <= found.utility < -0.19
    assert min(found.privacy.values()) >= expected.privacy.min() / 1.01


def test_much_privacy_without_a_prior_costs_no_more_than_hiding_a_direction() -> None:
    """Oracle: among directions that the public row does not see, drawn at random, the cheapest to hide."""
    rng = np.random.default_rng(5)
    observe = [rng.standard_normal((20, size, L)) for size in (1, 2, 3)]
    public, (g, f) = rng.standard_normal(L), np.random.default_rng(3).standard_normal((2, L))
    form = standard_form(vn.Network(observe, 1.0, public, {"g": g, "f": f}))
    crowd = FormCrowd(form)
    blind = np.linalg.svd(form.public)[2][1:].T
    drawn = blind @ np.random.default_rng(9).standard_normal((L - 1, 200))
    hidden = [crowd.ask(Rule.withhold(each[:, None])) for each in drawn.T]
    losses = [mixture.Answers(crowd.wanted, crowd.owner, [each]).at(np.ones(1)).loss for each in hidden]
    found = ManyCurve(form, np.array([1.0, 0.0]), ONE).at(1e6)
    assert found.privacy[0] >= 1e6
    assert found.loss <= min(losses)


@pytest.mark.usefixtures("many")
def test_a_search_among_very_many_can_be_stopped() -> None:
    model = network(7)
    told: list[str] = []

    def stop(what: str, _part: float) -> bool:
        told.append(what)
        return len(told) < 3

    plan = vn.design(model, utility_loss=0.05, progress=stop)
    assert plan.interrupted
    assert plan.certificate.ok
    assert -0.05 <= plan.utility <= 0
    assert len(told) < 20


def test_margins_are_kept_in_every_question() -> None:
    form = standard_form(network(8))
    crowd = FormCrowd(form)
    silence, shares = crowd.ask(Rule.span(form.public.T[:, :0])), crowd.ask(Rule.span(form.public.T))
    answers = mixture.Answers(crowd.wanted, crowd.owner, [shares, silence])
    ceiling = answers.at(np.array([1.0, 0.0])).privacy
    question = Question(1.5 * ceiling)
    safe = answers.retreated(question, np.array([1.0, 0.0]), 1)
    assert safe is not None
    assert question.safe(answers.at(safe))
    better = answers.best(question, safe, 1)
    assert question.value(answers.at(better)) <= question.value(answers.at(safe))
    within = Question(np.zeros(2), np.ones(2), 0.1)
    best = answers.best(within, np.array([1.0, 0.0]), 0)
    assert answers.at(best).loss == pytest.approx(0.1, rel=1e-6)
    assert answers.at(best).loss < 0.1


def test_prices_are_searched_for_until_their_answers_reach_what_is_asked() -> None:
    """Oracle: the best mixture of answers, which is found without the search for prices itself."""
    form = standard_form(network(6))
    crowd, teller = FormCrowd(form), Teller(None)
    descent = Descent(crowd, lambda recipe: curve.middle_price(form, recipe), teller)
    question = Question(3.0 * descent.ceiling)
    expected = descent.answer(question, Effort(first=30, steps=0, rounds=0, last=0))
    start = Rule.prices(crowd.wanted, np.where(crowd.owner == 0, -1.0, 0.1))
    softly, _ = descent._searched(question, expected.at, start, Effort(first=0, steps=60, rounds=6, last=0))
    reached = mixture.Answers(crowd.wanted, crowd.owner, [crowd.ask(softly)]).at(np.ones(1))
    assert np.all(reached.privacy >= 0.99 * question.targets)
    assert reached.loss <= 1.1 * expected.at.loss


def test_thousands_of_agents_are_proved_in_closed_form(tmp_path: Path) -> None:
    """The inequality again from its statement for one public and one private row, agent by agent."""
    rng = np.random.default_rng(1)
    observe = rng.uniform(-0.5, 0.5, (2500, 4, 5))
    network = vn.Network(
        observe=observe,
        noise=np.tile(0.3 * np.eye(4), (2500, 1, 1)),
        public=rng.uniform(-0.5, 0.5, 5),
        private={"g": rng.uniform(-0.5, 0.5, 5)},
        prior=vn.Prior(covariance=0.008 * np.eye(5)),
    )
    verdict = vn.check(network)
    ceiling, limit = verdict.ceiling["g"], verdict.limit["g"]
    plan = vn.design(network, privacy=(1 + ceiling) * ((1 + limit) / (1 + ceiling)) ** 0.1 - 1)
    assert plan.proof is not None
    assert plan.gap < 1e-3
    assert isinstance(plan.proof.multipliers, Rapidities)
    half = plan.proof.multipliers.half[0, :, 0, 0]
    rapidity = 2 * half / (1 - half**2)
    each = observe.transpose(0, 2, 1) @ observe / 0.3
    root = np.linalg.cholesky(125 * np.eye(5) + each.sum(axis=0))
    inverse = np.linalg.inv(root)
    each, prior = inverse @ each @ inverse.T, 125 * inverse @ inverse.T
    public, private = (
        row / np.linalg.norm(row) for row in (inverse @ network.U[0], inverse @ network.private["g"][0])
    )
    grown = np.eye(5) + np.einsum("s,slm->lm", rapidity**2, each)
    crossed = np.einsum("s,slm->lm", rapidity * np.sqrt(1 + rapidity**2), each)
    seen = np.linalg.solve(grown, public)
    left = prior - np.outer(private, private) / (1 + plan.proof.privacy["g"])
    left += np.eye(5) - grown + crossed @ np.linalg.solve(grown, crossed)
    left += np.outer(crossed @ seen, crossed @ seen) / (1 + plan.proof.loss - public @ seen)
    assert public @ seen < 1 + plan.proof.loss
    assert np.linalg.eigvalsh(left)[0] > 0
    plan.save(tmp_path / "plan.npz")
    assert vn.Plan.load(tmp_path / "plan.npz").gap == plan.gap
