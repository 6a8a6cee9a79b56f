"""From a question to a plan: what is asked, which curve answers, and which answer becomes the plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet._core.types import Array
from veilnet.designs.floors import FlooredCurve, floors_of, keeping_what_is_free
from veilnet.designs.joint import search
from veilnet.designs.joint.hidden import hiding, settle
from veilnet.designs.joint.levels import Levels, Tried
from veilnet.designs.joint.objective import Evaluation, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult, Race
from veilnet.designs.joint.search import turned_about
from veilnet.designs.joint.settings import ROWS
from veilnet.designs.perfect import perfect_plan
from veilnet.designs.questions import read_asked
from veilnet.designs.tradeoff import confirmed_plan
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked


def network() -> vn.Network:
    """The shares of a and b tell of g, and only of g."""
    return vn.Network(
        {"a": [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], "b": [[1.0, 0.5, 0.0], [0.0, 0.0, 1.0]]},
        noise=1.0,
        public={"u": [1.0, 0.0, 0.0]},
        private={"g": [0.0, 1.0, 0.0], "h": [0.0, 0.0, 1.0]},
        prior=vn.Prior(covariance=4.0 * np.eye(3)),
        resolution=0.0,
    )


@pytest.mark.parametrize(
    ("asked", "loss", "privacy", "met"),
    [
        (Asked({"g": 2.0}), 9.0, {"g": 2.0, "h": 0.0}, True),
        (Asked({"g": 2.0}), 0.0, {"g": 2.0 * (1 - 1e-15), "h": 9.0}, False),
        (Asked({"g": 2.0}, floors={"h": 1.0}), 0.0, {"g": 3.0, "h": 0.9}, False),
        (Asked(most_loss=0.1, floors={"h": 1.0}), 0.1, {"g": 0.0, "h": 1.0}, True),
        (Asked(most_loss=0.1), 0.1 * (1 + 1e-8), {"g": 9.0, "h": 9.0}, False),
    ],
)
def test_what_is_asked_is_met_to_the_last_bit(
    asked: Asked, loss: float, privacy: dict[str, float], met: bool
) -> None:
    assert asked.met_by(loss, privacy) is met


def test_numbers_and_what_is_given_up_are_spared_and_the_rest_is_kept() -> None:
    for privacy, give_up, spared, given_up in (
        ({"g": 2.0}, (), {"g"}, set()),
        ({"g": vn.Worst(2.0)}, "h", {"g", "h"}, {"h"}),
        ({"g": 2.0, "h": 0.0}, (), {"g", "h"}, {"h"}),
        (2.0, (), {"g", "h"}, set()),
    ):
        asked = read_asked(network(), privacy, give_up=give_up)
        assert (asked.spared, asked.given_up) == (spared, given_up)
    verdict = vn.check(network())
    kept = keeping_what_is_free(verdict, read_asked(network(), {"g": 2.0}))
    assert kept.floors == {"h": pytest.approx(verdict.ceiling["h"], rel=1e-6)}
    assert kept.floors["h"] < verdict.ceiling["h"]
    assert keeping_what_is_free(verdict, read_asked(network(), 2.0)).floors == {}
    assert floors_of({"g": 1e-12, "h": np.inf}, frozenset()) == {"h": np.inf}


def test_a_level_asks_by_weights_and_keeps_floors() -> None:
    levels = Levels(np.array([2.0, 4.0, 0.0]), np.array([0.0, 0.0, 3.0]))
    assert levels.targets(8.0).tolist() == [4.0, 8.0, 3.0]
    assert levels.reached(np.array([4.0, 4.0, 0.1])) == 4.0
    assert levels.reached(np.array([1.0, 4.0, 9.0])) == 2.0


def test_privacy_is_counted_in_units_of_the_room_there_is() -> None:
    """What is missing, in logarithms, over the way to the ceiling or to the limit, whichever is shorter."""
    ceiling, limit = np.array([1.0, 1.0]), np.array([100.0, 4.0])
    problem = LeastLoss.between(np.array([1.5, 3.6]), ceiling, limit)
    at = Evaluation([], 1.0, np.array([1.2, 3.6]), [])
    assert problem.infeasibility(at) == pytest.approx(np.log(1.5 / 1.2) / np.log(1.5))
    at = Evaluation([], 1.0, np.array([1.5, 3.5]), [])
    assert problem.infeasibility(at) == pytest.approx(np.log(3.6 / 3.5) / np.log(4.0 / 3.6))


class Given:
    """A curve whose answers are given."""

    ceiling, limit = 1.0, 10.0

    def __init__(self, privacy: Array) -> None:
        self.privacy = privacy

    def at(self, level: float) -> JointResult:
        return JointResult([], level, self.privacy, 1, 1, 1, 0.0, False, [])

    def within(self, budget: float) -> JointResult:
        return JointResult([], -budget, self.privacy, 1, 1, 1, 0.0, False, [])


@pytest.mark.parametrize(
    ("reached", "kept"), [([3.0, 1.0], False), ([3.0, 0.9], True), ([0.0, np.inf], False)]
)
def test_the_curve_with_floors_is_asked_only_where_one_is_broken(reached: list[float], kept: bool) -> None:
    plain, floored = Given(np.array(reached)), Given(np.array([2.0, 1.0]))
    curve = FlooredCurve(lambda: plain, lambda: floored, np.array([0.0, 1.0]))
    for question, answer in (({"level": 5.0}, 5.0), ({"loss": 0.1}, -0.1)):
        on, found = curve.ask(**question)
        assert on is (floored if kept else plain)
        assert (found.loss, found.privacy is on.privacy) == (answer, True)


def test_the_first_answer_that_holds_is_the_plan() -> None:
    verdict = vn.check(network())
    shares = verdict.shares.sanitizers
    raw = {agent: vn.Sanitizer(np.eye(2)) for agent in network().agents}
    asked = Asked({"g": verdict.ceiling["g"] / 2})
    answers: list[Any] = [(raw, {"answer": 1}), (shares, {"answer": 2}), (shares, {"answer": 3})]
    plan = confirmed_plan(verdict.network, answers, asked)
    assert (plan.details["answer"], plan.targets) == (2, asked.targets)
    with pytest.raises(vn.InvalidPlan, match=r"target of g.*aiming higher did not help"):
        confirmed_plan(verdict.network, answers[:1], asked)
    free = perfect_plan(verdict, replace(asked, most_loss=0.5))
    assert (free.most_loss, free.gap) == (0.0, 0.0)


def test_every_agent_is_turned_to_silence_and_to_telling_all() -> None:
    half, none = 0.5 * np.eye(2), np.zeros((2, 2))
    points = turned_about([np.array([half, none])])
    turned = [[float(x[place][0, 0]) for place in (0, 1)] for (x,) in points]
    assert [row.index(min(row, key=lambda v: min(v, 1 - v))) for row in turned] == [0, 0, 1]
    assert [turned[0][0], turned[1][0], turned[2][1]] == [0.0, 1.0, 1.0]


def test_agents_are_turned_from_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[Array]] = []
    monkeypatch.setattr(search, "turned_about", lambda shrink: begun.append(shrink) or [])
    poor, good, best = (
        Evaluation([np.full((1, 1, 1), loss)], loss, np.ones(1), []) for loss in (0.9, 0.1, 0.01)
    )
    nothing: Any = None
    found: Any = object()
    race = search.RowRace.__new__(search.RowRace)
    race.finished = [(best, nothing), (good, found), (poor, found)]
    race.turn()
    assert begun == [good.shrink]


@pytest.mark.parametrize("steep", [1.0, 2.0, 5.0])
def test_the_level_that_a_loss_buys_is_the_root_of_what_levels_cost(steep: float) -> None:
    """Losses that grow as a power of the height above what is free, and without bound at the limit."""
    levels, looked = Levels(np.ones(1), None), []

    def cost(level: float) -> float:
        height = np.log1p(level) - np.log1p(2.0)
        return float(0.1 * height**steep / (1 - height / (np.log1p(50.0) - np.log1p(2.0))))

    def look(level: float) -> JointResult:
        looked.append(level)
        return JointResult([], cost(level), np.array([level]), 1, 1, 1, 0.0, interrupted=False, history=[])

    inside, outside = levels.affordable(look, 0.05, Tried(2.0), Tried(50.0), free=2.0)
    assert inside.found is not None
    assert 0.05 * (1 - 2e-5) <= inside.found.loss <= 0.05
    assert cost(inside.level) <= 0.05 < cost(outside.level)
    assert len(looked) <= 12


def test_a_race_drops_the_worse_half_and_keeps_its_favourite() -> None:
    nothing: Any = None
    for favourite, left in ((True, [0, 4]), (False, [4, 3])):
        pace = replace(ROWS, rounds=(((1,), 0.0),) * 3, finishers=2, favourite=favourite)
        race = Race(nothing, nothing, nothing, pace)
        race.runs = [SimpleNamespace(estimate=-float(place), converged=lambda *_: True) for place in range(5)]
        looks: list[str] = []
        race.tell = lambda what, _part, looks=looks: looks.append(what)
        assert [race.runs.index(run) for run in race.leaders()] == left
        assert len(looks) == 5 + 3 + 2


@pytest.mark.parametrize("sizes", [(8,) * 9, (1, 6, 5, 7)])
@pytest.mark.parametrize(("columns", "fixed"), [(1, False), (2, False), (2, True)])
def test_directions_settle_where_no_other_nearby_is_cheaper_to_hide(
    columns: int, fixed: bool, sizes: tuple[int, ...]
) -> None:
    """Before: beside an agent with one reading two directions could not be hidden, and targets in every direction of
    a parameter of two rows were refused as beyond floating point.
    """
    form = standard_form(random_network(3, sizes=sizes, parameters=6, prior="none"))
    objective, rng = JointObjective(form), np.random.default_rng(5)
    span = np.linalg.svd(form.public)[2][len(form.public) :].T
    base = rng.standard_normal((len(span), columns)) if fixed else np.zeros((len(span), columns))
    start = rng.standard_normal((span.shape[1], columns))

    def loss(coefficients: Array) -> float:
        return objective(hiding(objective, base + span @ coefficients)).loss

    settled = settle(objective, span, start, fixed=base if fixed else None)
    assert loss(settled) < 0.9 * loss(start)
    turns = 1e-3 * np.linalg.norm(settled) * rng.standard_normal((20, *settled.shape))
    assert all(loss(settled + turn) > loss(settled) for turn in turns)
