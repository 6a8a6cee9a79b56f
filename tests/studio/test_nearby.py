"""Quick answers beside known plans: they keep what they promise, and cost little more than a design."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.paper_networks import paper_network
from helpers.small_network import small_network
from helpers.structured_networks import structured_network
from veilnet.designs.shrink import sanitizers_from_shrink, shrink_from_sanitizers
from veilnet.io.template import house
from veilnet.studio.nearby import Nearby


def levels(verdict: vn.Verdict, parts: tuple[float, ...]) -> list[float]:
    low, high = min(verdict.ceiling.values()), min(verdict.limit.values())
    return [float(np.expm1(np.log1p(low) + part * (np.log1p(high) - np.log1p(low)))) for part in parts]


def test_x_survives_the_way_to_the_agents_and_back() -> None:
    network = paper_network(3, 9, 2, prior=True)
    rng = np.random.default_rng(1)
    shrink = []
    for group in network.blocks.groups:
        size = group.rows.shape[1]
        basis, _ = np.linalg.qr(rng.standard_normal((len(group.agents), size, size)))
        values = np.clip(
            rng.uniform(-0.3, 1.3, (len(group.agents), size)), 0, 1
        )  # exact zeros and ones among them
        shrink.append((basis * values[:, None, :]) @ basis.transpose(0, 2, 1))
    back = shrink_from_sanitizers(network, sanitizers_from_shrink(network, shrink))
    for before, after in zip(shrink, back, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-9)


@pytest.mark.parametrize(
    "network",
    [pytest.param(house(), marks=pytest.mark.long), paper_network(3, 9, 2, prior=True)],
    ids=["house", "paper"],
)
def test_dragging_keeps_every_target_and_costs_little_more_than_a_design(network: vn.Network) -> None:
    verdict = vn.check(network)
    nearby = Nearby(verdict)
    asked = levels(verdict, tuple(np.linspace(0.05, 0.6, 6)))
    for level in asked:
        plan = nearby.plan(dict.fromkeys(network.private, level))
        assert plan.certificate.ok
        assert min(plan.privacy.values()) >= level
    best = vn.design(network, privacy=asked[-1])
    assert -plan.utility <= 1.05 * -best.utility


@pytest.mark.long
def test_what_was_learned_is_where_the_next_answer_begins() -> None:
    network = paper_network(7, 18, 2, prior=True)
    verdict = vn.check(network)
    level = levels(verdict, (0.7,))[0]
    best = vn.design(network, privacy=level)
    cold, warm = Nearby(verdict), Nearby(verdict)
    warm.learn(best.sanitizers)
    near = dict.fromkeys(network.private, 1.02 * level)
    assert -warm.plan(near).utility < 0.9 * -cold.plan(near).utility
    assert -warm.plan(near).utility <= 1.02 * -vn.design(network, privacy=near).utility


@pytest.mark.parametrize("number", [3, 11, 40])
def test_a_loss_is_kept_and_buys_at_least_what_is_free(number: int) -> None:
    network = structured_network(number)
    verdict = vn.check(network)
    nearby = Nearby(verdict)
    for loss in (0.01, 0.1, 0.5):
        plan = nearby.within(loss)
        assert -plan.utility <= loss
        assert min(plan.privacy.values()) >= min(verdict.ceiling.values()) * (1 - 1e-6) - 1e-12


def test_what_is_free_is_answered_by_the_free_plan_and_what_cannot_be_is_refused() -> None:
    verdict = vn.check(house())
    nearby = Nearby(verdict)
    assert nearby.plan(dict(verdict.ceiling)).method == "perfect"
    beyond = {**verdict.ceiling, "gait": 2 * verdict.limit["gait"]}
    with pytest.raises(vn.Infeasible, match=r"'gait'.*even silence gives only"):
        nearby.plan(beyond)
    with pytest.raises(vn.Infeasible, match=r"'presence'.*'gait'"):  # every limit that is exceeded
        nearby.plan({name: 2 * verdict.limit[name] for name in verdict.limit})


def test_one_parameter_of_several_is_followed_far_enough_where_readings_are_few() -> None:
    """Known plans raise all parameters alike; the way from them to a plan that pays for one alone is long."""
    network = small_network()
    verdict = vn.check(network)
    nearby = Nearby(verdict)
    for level in levels(verdict, (0.2, 0.5, 0.8)):
        nearby.plan(dict.fromkeys(network.private, level))
    quick = nearby.plan({"who": 7.5, "when": 0.0})
    assert -quick.utility <= 1.02 * -vn.design(network, privacy={"who": 7.5}).utility
