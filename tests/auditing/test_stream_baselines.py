"""Other protections of a stream beside the plan: at equal utility now, by privacy with hindsight."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.auditing.baselines import (
    EVERY_READING,
    Baseline,
    Spread,
    baseline_rows,
    baselines,
    secure_sum,
)
from veilnet.auditing.differential_privacy import gaussian_delta
from veilnet.auditing.worlds import world_of
from veilnet.plans.plan import Plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan() -> Plan:
    return noisy_stream_plan(stream_network(8), noise=0.3)


@pytest.fixture(scope="module")
def found(plan: Plan) -> dict[str, Baseline]:
    return {baseline.name: baseline for baseline in baselines(plan)}


def test_every_figure_is_that_of_the_public_functions(plan: Plan, found: dict[str, Baseline]) -> None:
    """Noise on every reading, at equal utility: sanitizers made by hand give the same loss and privacy."""
    point = found[EVERY_READING].at_equal_utility
    assert point is not None
    spread = Spread(plan.network.one_row)
    by_hand = {
        agent: vn.Sanitizer(np.eye(2), point.strength**2 * np.diag(spread.deviations(agent) ** 2))
        for agent in plan.network.agents
    }
    assert -vn.utility(plan.network, by_hand) == pytest.approx(point.loss, rel=1e-9)
    assert point.loss == pytest.approx(-plan.utility, rel=1e-6)
    assert vn.privacy(plan.network, by_hand)["g"] == pytest.approx(point.privacy["g"], rel=1e-9)
    own = found["this plan"].at_equal_utility
    assert own is not None
    assert own.privacy["g"] == pytest.approx(plan.privacy["g"], rel=1e-6)
    readings = plan.network.one_row
    variance = readings.H @ readings.prior.covariance @ readings.H.T + readings.R.matrix()
    assert spread.deviations("a0") == pytest.approx(np.sqrt(np.diag(variance))[:2])


def test_who_has_to_be_trusted_is_said(plan: Plan, found: dict[str, Baseline]) -> None:
    rows = baseline_rows(plan.network, list(found.values()))
    assert all(("needs" in row.figures) == row.what.startswith("secure summation") for row in rows)
    private = rows[-1]
    assert private.what.startswith(EVERY_READING)
    point = found[EVERY_READING].at_equal_utility
    assert point is not None
    assert gaussian_delta(float(private.found), 1 / point.strength) == pytest.approx(1e-6, rel=1e-6)


def test_the_sum_of_all_shares_tells_what_the_centre_may_know() -> None:
    """No utility is lost, and no decentralised plan hides more than the sum alone."""
    for kind in ("white", "coloured"):
        network = stream_network(10, kind)
        world, summed = world_of(network), secure_sum(network)
        assert world.loss(*summed) == pytest.approx(0, abs=1e-9)
        perfect = vn.design(network)
        assert world.privacies(*summed)["g"] >= perfect.privacy["g"] * (1 - 1e-9)
        assert world.privacies(perfect.sanitizers)["g"] == pytest.approx(perfect.privacy["g"])


def test_a_perfect_plan_hides_what_noise_cannot() -> None:
    """At no loss noise hides nothing, and at the plan's privacy it costs utility."""
    perfect = vn.design(stream_network(12))
    [noise] = [each for each in baselines(perfect) if each.name == EVERY_READING]
    free, private = noise.at_equal_utility, noise.at_equal_privacy
    assert free is None or free.privacy["g"] < 1e-6 * perfect.privacy["g"]
    assert private is not None
    assert private.loss > 1e-3


def test_an_x_that_wanders_off() -> None:
    """A random walk has no spread of its own; noise is measured by that of a row of readings all the same."""
    walk = noisy_stream_plan(stream_network(4, "walk"), noise=0.3)
    found = {baseline.name: baseline for baseline in baselines(walk)}
    point = found[EVERY_READING].at_equal_privacy
    assert point is not None
    assert point.privacy["g"] == pytest.approx(walk.privacy["g"], rel=1e-6)
    assert found["no protection"].at_equal_utility is not None
