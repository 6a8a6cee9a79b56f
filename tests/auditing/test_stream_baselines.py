"""Other protections of a stream beside the plan: at equal utility now, by privacy with hindsight."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.auditing.baselines import Baseline, Spread, baseline_rows
from veilnet.auditing.streams.aggregate_design import gaussian_constant, most_useful, sensitivity
from veilnet.auditing.streams.baselines import (
    AGGREGATE,
    EVERY_READING,
    Aggregates,
    epsilon_rows,
    secure_sum,
    stream_baselines,
)
from veilnet.auditing.streams.steady import Measured, filtered
from veilnet.plans.plan import Plan

pytestmark = pytest.mark.slow


def ten_users() -> vn.Network:
    """Le Ny's published example as a network: every user an agent, the sum of all x public, the first x private."""
    observe = {f"user{k}": np.eye(10)[k : k + 1] for k in range(10)}
    dynamics = vn.Dynamics(0.9 * np.eye(10), 0.2 * np.eye(10))
    return vn.Network(observe, 0.01, np.ones((1, 10)), {"first": np.eye(10)[:1]}, dynamics=dynamics)


def test_the_published_cost_by_the_evaluation_of_streams() -> None:
    """The same figure by our own steady state, not SciPy's: ε = ln 3, δ = 0.05, readings that differ by one."""
    network = ten_users()
    aggregates = Aggregates(network, np.ones(10))
    told = aggregates.told(np.ones((1, 10)), gaussian_constant(np.log(3.0), 0.05))
    assert told.error(network.U, "now") == pytest.approx(1.6244783332772452, rel=1e-12)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return noisy_stream_plan(stream_network(8), noise=0.3)


@pytest.fixture(scope="module")
def found(plan: Plan) -> dict[str, Baseline]:
    pytest.importorskip("cvxpy")
    baselines, left_out = stream_baselines(plan)
    assert left_out == []
    return {baseline.name: baseline for baseline in baselines}


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


def test_an_aggregator_does_better_than_noise_on_every_reading(found: dict[str, Baseline]) -> None:
    """It may do all that input perturbation does, so at equal utility it never needs less noise."""
    aggregate, each = found[AGGREGATE].at_equal_utility, found[EVERY_READING].at_equal_utility
    assert aggregate is not None
    assert each is not None
    assert aggregate.loss <= each.loss * (1 + 1e-6)
    assert aggregate.strength >= each.strength * (1 - 1e-4)
    epsilons = {row.what.split(":")[0]: row.found for row in epsilon_rows(list(found.values()))}
    assert epsilons[AGGREGATE] <= epsilons[EVERY_READING] * (1 + 1e-3)


def test_who_has_to_be_trusted_is_said(plan: Plan, found: dict[str, Baseline]) -> None:
    rows = baseline_rows(plan.network, list(found.values()))
    central = [row for row in rows if row.what.startswith(AGGREGATE)]
    assert central
    assert all("trusted aggregator who sees every raw reading" in row.sentence for row in central)
    assert all("needs" in row.figures for row in rows if row.what.startswith("secure summation"))
    assert not any(
        "needs" in row.figures for row in rows if row.what.startswith((EVERY_READING, "this plan"))
    )


def test_the_sum_of_all_shares_tells_what_the_centre_may_know() -> None:
    """No utility is lost, and no decentralised plan hides more than the sum alone."""
    for kind in ("white", "coloured"):
        network = stream_network(10, kind)
        measured = Measured(network)
        summed = secure_sum(network)
        assert measured.loss(summed) == pytest.approx(0, abs=1e-9)
        perfect = vn.design(network)
        assert measured.privacies(summed)["g"] >= perfect.privacy["g"] * (1 - 1e-9)
        assert measured.privacies(filtered(network, perfect.sanitizers))["g"] == pytest.approx(
            perfect.privacy["g"]
        )


def test_a_perfect_plan_hides_what_noise_cannot() -> None:
    """At no loss noise hides nothing, and at the plan's privacy it costs utility."""
    pytest.importorskip("cvxpy")
    perfect = vn.design(stream_network(12))
    found = {baseline.name: baseline for baseline in stream_baselines(perfect)[0]}
    for name in (EVERY_READING, AGGREGATE):
        free, private = found[name].at_equal_utility, found[name].at_equal_privacy
        assert free is None or free.privacy["g"] < 1e-6 * perfect.privacy["g"]
        assert private is not None
        assert private.loss > 1e-3
    central, each = found[AGGREGATE].at_equal_privacy, found[EVERY_READING].at_equal_privacy
    assert central is not None
    assert each is not None


def test_coloured_noise_without_a_floor() -> None:
    """The design allows for readings whose noise carries over and has no white part at all."""
    pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    network = vn.Network(
        {"a": rng.standard_normal((1, 2)), "b": rng.standard_normal((2, 2))},
        vn.ColouredNoise(memory=0.6, innovation=0.4),
        rng.standard_normal((1, 2)),
        {"g": rng.standard_normal((1, 2))},
        dynamics=vn.Dynamics(0.8 * np.eye(2), np.eye(2)),
    )
    aggregates = Aggregates(network, np.ones(3))
    best = most_useful(aggregates.signals, 0.5)
    least = aggregates.told(best, 1 / sensitivity(aggregates.signals, best)).error(network.U, "now")
    for _ in range(20):
        other = rng.standard_normal((rng.integers(1, 4), 3))
        assert aggregates.told(other, 2.0).error(network.U, "now") >= least * (1 - 1e-6)
    # Every reading with noise of its own is one such combination.
    each = {agent: vn.Sanitizer(np.eye(n), 4.0 * np.eye(n)) for agent, n in (("a", 1), ("b", 2))}
    assert filtered(network, each).error(network.U, "now") >= least * (1 - 1e-6)


def test_large_networks_leave_the_aggregate_out() -> None:
    network = stream_network(1, agents=13)
    baselines, left_out = stream_baselines(noisy_stream_plan(network))
    assert AGGREGATE not in [baseline.name for baseline in baselines]
    assert "up to 24 readings, found 26" in left_out[0].sentence


def test_an_x_that_wanders_off() -> None:
    """A random walk has no spread of its own; noise is measured by that of a row of readings all the same."""
    walk = noisy_stream_plan(stream_network(4, "walk"), noise=0.3)
    found = {baseline.name: baseline for baseline in stream_baselines(walk)[0]}
    point = found[EVERY_READING].at_equal_privacy
    assert point is not None
    assert point.privacy["g"] == pytest.approx(walk.privacy["g"], rel=1e-6)
    assert found["no protection"].at_equal_utility is not None
