"""Trading utility for privacy: what the plans promise, on every kind of network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.made_once import designed
from helpers.networks import direct_error, direct_information, random_network
from helpers.paper_networks import paper_network
from veilnet.designs.joint.curve import JointCurve
from veilnet.designs.joint.race import JointResult

pytestmark = [pytest.mark.slow, pytest.mark.small_search]

FEW = 4  # starts, where the solver's quality is not the point

KINDS = [
    ("joint", "covariance", (3, 2, 4, 3)),
    ("joint", "none", (2, 2, 3)),
    ("per agent", "covariance", (1, 4, 2)),
    ("per agent", "none", (3, 3)),
    ("joint", "singular", (3, 2, 4)),
    ("per agent", "singular", (2, 2, 2, 2)),
]


def costly_targets(network: vn.Network, part: float = 0.5) -> dict[str, float]:
    """Targets between the ceiling and the limit (or four times the ceiling) of every private parameter."""
    verdict = vn.check(network)
    return {
        name: low + part * (min(verdict.limit[name], 4 * low + 4) - low) if np.isfinite(low) else 1.0
        for name, low in verdict.ceiling.items()
    }


def direct(plan: vn.Plan) -> tuple[float, dict[str, float]]:
    network = plan.network
    left, raw = direct_information(network, plan.sanitizers), direct_information(network, {})
    loss = direct_error(left, network.U) / direct_error(raw, network.U) - 1
    return loss, {
        name: direct_error(left, rows) / direct_error(raw, rows) - 1 for name, rows in network.private.items()
    }


@pytest.mark.parametrize(("noise", "prior", "sizes"), KINDS)
def test_privacy_asked_is_privacy_had(noise: str, prior: str, sizes: tuple[int, ...]) -> None:
    network = random_network(11, noise=noise, prior=prior, sizes=sizes)
    targets = costly_targets(network)
    plan = designed(network, privacy=targets, starts=FEW)
    assert plan.method == "joint"
    for name, target in targets.items():
        assert plan.privacy[name] >= target  # not by rounding either
    loss, privacy = direct(plan)
    assert loss == pytest.approx(-plan.utility, rel=1e-6, abs=1e-9)
    for name in targets:
        assert privacy[name] == pytest.approx(plan.privacy[name], rel=1e-6)
    # not wasteful: at least one target is met with hardly anything to spare
    assert min(plan.privacy[name] / target for name, target in targets.items()) < 1 + 1e-5


@pytest.mark.parametrize(("noise", "prior", "sizes"), KINDS)
def test_plans_are_in_normal_form(noise: str, prior: str, sizes: tuple[int, ...]) -> None:
    network = random_network(11, noise=noise, prior=prior, sizes=sizes)
    plan = designed(network, privacy=costly_targets(network), starts=FEW)
    for sanitizer in plan.sanitizers.values():
        assert sanitizer.is_normal
        assert sanitizer.sent <= sanitizer.readings
        assert sanitizer.grid is not None


@pytest.mark.parametrize("count", [1, 4, 10])
def test_many_private_parameters(count: int) -> None:
    network = random_network(
        13, noise="per agent", prior="covariance", sizes=(3, 3, 3), parameters=6, private_rows=(1,) * count
    )
    targets = costly_targets(network, 0.3)
    plan = vn.design(network, privacy=targets, starts=FEW)
    assert all(plan.privacy[name] >= target for name, target in targets.items())


def test_the_plan_tells_how_it_was_found() -> None:
    network = random_network(14, prior="covariance")
    targets = costly_targets(network)
    plan, again = (vn.design(network, privacy=targets, starts=FEW) for _ in range(2))
    details = plan.details
    assert details["starts"] >= 2
    assert 1 <= details["starts_agreed"] <= details["starts"]
    assert details["iterations"] > 0
    assert details["kkt_residual"] < 1e-3
    assert details["interrupted"] is False
    assert again.utility == plan.utility  # deterministic, to the last bit
    assert dict(again.privacy) == dict(plan.privacy)


@pytest.mark.parametrize(
    ("noise", "prior", "sizes"), [KINDS[1], pytest.param(*KINDS[2], marks=pytest.mark.long), KINDS[3]]
)
def test_most_privacy_within_a_loss(noise: str, prior: str, sizes: tuple[int, ...]) -> None:
    network = random_network(15, noise=noise, prior=prior, sizes=sizes)
    verdict = vn.check(network)
    for loss in (0.1,):
        plan = vn.design(network, utility_loss=loss, starts=FEW)
        assert -plan.utility <= loss
        level = min(plan.privacy.values())
        assert level >= min(verdict.ceiling.values()) * (1 - 1e-6)
        if np.isfinite(level) and level < 0.99 * min(verdict.limit.values()):
            # the dual question answers the same: that privacy cannot be had for noticeably less
            cheaper = vn.design(network, privacy=level, starts=FEW)
            assert -cheaper.utility == pytest.approx(loss, rel=0.02)


def test_without_a_prior_privacy_without_bound_has_a_finite_price() -> None:
    network = random_network(15, noise="per agent", prior="none", sizes=(3, 3))
    assert not vn.check(network).achievable
    plan = vn.design(network, utility_loss=0.5)
    assert dict(plan.privacy) == {"g0": np.inf, "g1": np.inf}
    assert plan.certificate.ok
    # no privacy costs more than hiding a direction altogether, and none that is large costs much less
    price = -plan.utility
    strong = vn.design(network, privacy=1e5, starts=FEW)
    assert 0.9 * price <= -strong.utility <= price * (1 + 1e-6)
    # brute force over the directions that the public rows do not see: nothing is cheaper
    blind = np.linalg.svd(network.U)[2][network.U.shape[0] :]
    prices = []
    for angle in np.linspace(0, np.pi, 181):
        change = np.cos(angle) * blind[0] + np.sin(angle) * blind[1]
        hiding = {}
        for place, (agent, observe) in enumerate(network.observe.items()):
            root = np.linalg.cholesky(network.R.block(place))
            shown = np.linalg.solve(root, observe @ change)
            rows = np.linalg.svd(shown[None, :])[2][1:]
            hiding[agent] = vn.Sanitizer(rows @ np.linalg.inv(root))
        prices.append(-vn.utility(network, hiding))
    assert price <= min(prices) * (1 + 1e-6)
    assert price == pytest.approx(min(prices), rel=1e-2)


@pytest.mark.long
def test_weights_divide_privacy() -> None:
    network = random_network(16, prior="covariance", parameters=5, private_rows=(1, 1))
    weights = {"g0": 1.0, "g1": 3.0}
    plain = vn.design(network, utility_loss=0.2, starts=FEW)
    skewed = vn.design(network, utility_loss=0.2, weights=weights, starts=FEW)

    def common(plan: vn.Plan) -> float:
        return min(plan.privacy[name] / weight for name, weight in weights.items())

    assert common(skewed) >= common(plain) * (1 + 1e-3)  # each is best by its own measure
    assert min(plain.privacy.values()) >= min(skewed.privacy.values()) * (1 + 1e-3)
    with pytest.raises(vn.InvalidRequest, match="weights: expected at least one above zero"):
        vn.design(network, utility_loss=0.2, weights={"g0": 0.0})


def test_zero_loss_and_free_targets_are_the_closed_form() -> None:
    network = paper_network(3, 9, 2, prior=True)
    ceiling = vn.check(network).ceiling["g1"]
    for plan in (vn.design(network, utility_loss=0.0), vn.design(network, privacy=ceiling * (1 - 1e-12))):
        assert plan.method == "perfect"
        assert abs(plan.utility) < 1e-12


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_at_the_limit_everything_else_is_still_sent(noise: str) -> None:
    network = random_network(17, noise=noise, prior="covariance")
    limit = vn.privacy_limit(network)
    plan = vn.design(network, privacy={"g0": limit["g0"] * (1 - 1e-9)})
    # nothing of g0 is told: no message is correlated with it beforehand
    covariance = network.prior.covariance
    for agent, sanitizer in plan.sanitizers.items():
        told = sanitizer.compression @ network.observe[agent] @ covariance @ network.private["g0"].T
        assert np.max(np.abs(told), initial=0.0) < 1e-9 * np.max(np.abs(covariance))
        assert sanitizer.sent == sanitizer.readings - 1
    # the solver, asked for a little less, finds nothing noticeably cheaper
    below = vn.design(network, privacy={"g0": limit["g0"] * (1 - 1e-5)}, starts=FEW)
    assert -plan.utility <= -below.utility * 1.01
    with pytest.raises(vn.Infeasible, match=r"g0: .* was asked, .* silence gives only"):
        vn.design(network, privacy={"g0": limit["g0"] * 1.0001})


def test_at_the_limit_an_agent_that_sees_nothing_private_is_heard() -> None:
    network = vn.Network(
        observe={"both": [[1.0, 1.0]], "public only": [[1.0, 0.0]]},
        noise=1.0,
        public={"u": [1, 0]},
        private={"g": [0, 1]},
        prior=vn.Prior(covariance=np.diag([4.0, 1.0])),
    )
    plan = vn.design(network, privacy=vn.privacy_limit(network)["g"] * (1 - 1e-9))
    assert plan.sent == {"both": 0, "public only": 1}
    assert -plan.utility == pytest.approx(0.4, rel=1e-9)


def test_silence_is_left_where_every_parameter_is_at_its_limit() -> None:
    network = random_network(17, prior="covariance", sizes=(3, 2, 3), parameters=3, private_rows=(3,))
    plan = vn.design(network, privacy=vn.privacy_limit(network)["g0"])
    assert sum(plan.sent.values()) == 0


def test_just_below_the_limit_costs_no_more_than_at_it() -> None:
    network = random_network(17, prior="covariance")
    limit = vn.privacy_limit(network)["g0"]
    at_limit = vn.design(network, privacy={"g0": limit})
    below = vn.design(network, privacy={"g0": limit * (1 - 1e-5)}, starts=1)
    assert below.privacy["g0"] >= limit * (1 - 1e-5)
    assert -below.utility <= -at_limit.utility * (1 + 1e-9)


def test_a_solver_that_lies_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(19, prior="covariance")
    targets = costly_targets(network)
    honest = JointCurve.at
    asked = []

    def liar(self: JointCurve, level: float) -> JointResult:
        asked.append(level)
        result = honest(self, level)
        bold = [np.broadcast_to(np.eye(x.shape[1]), x.shape).copy() for x in result.shrink]
        return replace(result, shrink=bold)

    monkeypatch.setattr(JointCurve, "at", liar)
    with pytest.raises(
        vn.InvalidPlan, match=r"is not confirmed and was not returned: target of g0.*ask for a privacy"
    ):
        vn.design(network, privacy=targets)
    assert len(asked) > 1  # it tried to aim higher before it gave up


def test_alternating_is_algorithm_3_sweep_by_sweep() -> None:
    network = paper_network(4, 12, 3, prior=True)
    target = 2 * vn.check(network).ceiling["g1"] + 1
    plan = vn.design(network, privacy=target, method="alternating", sweeps=30)
    utilities = [sweep["utility"] for sweep in plan.details["sweeps"]]
    assert len(utilities) == 31
    assert all(after >= before - 1e-9 * (1 + abs(before)) for before, after in pairwise(utilities))
    assert all(sweep["privacy"]["g1"] >= target for sweep in plan.details["sweeps"][1:])
    assert plan.utility == pytest.approx(utilities[-1], rel=1e-6)
    joint = vn.design(network, privacy=target)
    assert -joint.utility < -plan.utility


def test_frontier_is_monotone_and_marks_what_is_free_and_impossible() -> None:
    network = random_network(20, noise="per agent", prior="covariance", sizes=(3, 3, 3), parameters=5)
    verdict = vn.check(network)
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    levels = [0.3 * ceiling, *np.geomspace(1.05 * ceiling, 0.95 * limit, 4), 1.5 * limit]
    curve = vn.frontier(network, levels)
    assert (curve.ceiling, curve.limit) == (ceiling, limit)
    assert [point.method for point in curve.rows] == ["perfect", *["joint"] * 4, "infeasible"]
    losses = [-point.utility for point in curve.rows[:-1]]
    assert losses == sorted(losses)
    for point in curve.rows[:-1]:
        assert min(point.privacy.values()) >= point.asked
    alone = vn.design(network, privacy=levels[3])
    assert losses[3] <= -alone.utility * 1.01 + 1e-9
    assert len(curve.table().splitlines()) == 7
    # Points carry what a quick proof shows, as designs do: here nearly all of the largest loss, and not of every one.
    assert 0.99 * losses[4] < curve.rows[4].bound <= losses[4]
    assert curve.rows[3].gap == pytest.approx(alone.gap, rel=0.01)


def test_frontier_refuses_nonsense() -> None:
    network = random_network(20)
    for levels in ([], [-1.0], ["much"], 3.0):
        with pytest.raises(vn.InvalidRequest, match="privacy: expected"):
            vn.frontier(network, levels)  # type: ignore[arg-type]


def correlated(prior: vn.Prior | None, private: dict[str, Any], public: list[float]) -> vn.Network:
    return vn.Network({"a": [[1.0, 0.0], [0.0, 0.5]]}, [[1.0, 0.7], [0.7, 1.0]], [public], private, prior)


def test_the_other_parameter_where_one_is_at_its_limit() -> None:
    """In what is left for the other, no agent shows any direction: a search among directions finds no length."""
    network = correlated(
        vn.Prior(information=np.diag([1.0, 0.0])), {"p": [[1.0, 0.0]], "q": [[0.0, 1.0]]}, [1.0, 1.0]
    )
    plan = vn.design(network, privacy=1.0, starts=2)
    assert plan.certificate.ok
    assert plan.privacy["p"] == pytest.approx(1.0)
    assert plan.privacy["q"] >= 1.0


def test_every_direction_beside_one_without_bound() -> None:
    """The recheck keeps its digits where one direction is hidden altogether: of the other it finds what was asked."""
    plan = vn.design(correlated(None, {"p": np.eye(2)}, [1.0, 0.0]), privacy=vn.Worst(2.0), starts=2)
    assert plan.certificate.ok
    assert plan.utility == pytest.approx(-2.0, rel=1e-6)
