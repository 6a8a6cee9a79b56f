"""Fusion: errors are as promised, whoever is missing; nothing is estimated that is not determined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag

import veilnet as vn
from helpers.networks import direct_crlb, direct_information, random_network, random_sanitizers
from helpers.statistics_tests import law_is_off
from veilnet.centre.gate import by_who_sent
from veilnet.io.template import house
from veilnet.plans.plan import make_plan

ROWS = 20_000


def with_offsets(network: vn.Network, seed: int) -> vn.Network:
    """The same network, its readings shifted."""
    offset = np.random.default_rng([seed, 3]).uniform(-30, 30, network.N)
    return vn.Network(
        observe=dict(network.observe),
        noise=network.R.matrix(),
        public=network.U,
        private=dict(network.private),
        prior=network.prior,
        offset=offset,
    )


def simulate(
    network: vn.Network, sanitizers, rows: int, seed: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Public parameters and messages; x is drawn from the prior, or far and wide without one."""
    rng = np.random.default_rng([seed, 8])
    if network.prior is None:
        x = rng.uniform(-20, 20, (rows, network.L))
    else:
        x = rng.multivariate_normal(network.prior.mean, network.prior.covariance, size=rows)
    noise = rng.standard_normal((rows, network.N)) @ np.linalg.cholesky(network.R.matrix()).T
    readings = x @ network.H.T + network.offset + noise
    messages = {
        agent: sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng)
        for place, agent in enumerate(network.agents)
    }
    return x @ network.U.T, messages


def noisy_plan(network: vn.Network, seed: int) -> vn.Plan:
    """A plan with compression, singular and full noise, and an offset that is not the network's."""
    sanitizers = random_sanitizers(network, seed, "mixed")
    last = network.agents[-1]
    size = len(network.observe[last])
    sanitizers[last] = vn.Sanitizer(noise=np.full(size, 0.5), offset=np.full(size, 2.0))
    return make_plan(network, sanitizers, "by hand")


def without(plan: vn.Plan, missing) -> dict[str, vn.Sanitizer]:
    """The plan's sanitizers, those of missing agents silent."""
    return {
        agent: vn.Sanitizer.silent(s.readings) if agent in missing else s
        for agent, s in plan.sanitizers.items()
    }


@pytest.mark.parametrize("missing", [(), ("a1",), ("a0", "a3")], ids=["all", "one gone", "two gone"])
@pytest.mark.parametrize("prior", ["none", "covariance"])
@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_errors_have_the_promised_covariance(noise, prior, missing) -> None:
    network = with_offsets(random_network(2, noise=noise, prior=prior, sizes=(4, 3, 4, 3)), 2)
    plan = noisy_plan(network, 2)
    truth, messages = simulate(network, plan.sanitizers, ROWS, 1)
    estimate = vn.Fusion(plan).estimate({a: z for a, z in messages.items() if a not in missing})
    promised = network.U @ direct_crlb(network, without(plan, missing)) @ network.U.T
    assert np.allclose(estimate.covariance[0], promised, rtol=1e-7, atol=1e-9 * np.trace(promised))
    assert estimate.covariance.shape == (ROWS, 2, 2)
    assert estimate.missing == (missing,) * ROWS
    assert estimate.estimable.all()
    errors = estimate.public - truth
    assert not law_is_off(errors, promised)
    # the test would see an error of a few percent, and a small bias
    assert law_is_off(errors * 1.04, promised)
    assert law_is_off(errors + 0.06 * np.sqrt(np.diag(promised)), promised)


@pytest.mark.parametrize("power", [None, 20.0])
def test_designed_plans_keep_their_promise(power) -> None:
    network = house()
    plan = vn.design(network, power=power)
    network = plan.network
    truth, messages = simulate(network, plan.sanitizers, ROWS, 4)
    estimate = vn.Fusion(plan).estimate(messages)
    promised = network.U @ vn.crlb(network, plan.sanitizers) @ network.U.T
    assert not law_is_off(estimate.public - truth, promised)
    loss = np.trace(estimate.covariance[0]) / np.trace(network.U @ vn.crlb(network) @ network.U.T) - 1
    assert loss == pytest.approx(-plan.utility, abs=1e-9)
    assert estimate.labels == ("mean temperature", "heat loss")
    assert estimate.units == ("°C", "kW")


@given(st.integers(0, 10**6))
def test_rows_with_gaps_equal_one_row_at_a_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise, prior = (
        rng.choice(["joint", "per agent"]),
        rng.choice(["none", "covariance", "information", "singular"]),
    )
    network = random_network(seed % 50, noise=str(noise), prior=str(prior))
    plan = noisy_plan(network, seed % 7)
    fusion = vn.Fusion(plan)
    messages = {agent: rng.standard_normal((80, sent)) for agent, sent in fusion.sent.items()}
    for agent, values in messages.items():
        gone = rng.random(80) < 0.3
        values[gone, rng.integers(fusion.sent[agent])] = rng.choice([np.nan, np.inf, -np.inf])
    whole = fusion.estimate(messages)
    stacked = fusion.estimate(np.concatenate(list(messages.values()), axis=1))
    assert np.allclose(whole.public, stacked.public, rtol=1e-12, atol=1e-12, equal_nan=True)
    for row in range(0, 80, 7):
        arrived = {agent: z[row] for agent, z in messages.items() if np.isfinite(z[row]).all()}
        one = fusion.estimate(arrived)
        assert one.missing == whole.missing[row] == tuple(a for a in fusion.agents if a not in arrived)
        assert np.allclose(one.public, whole.public[row], rtol=1e-9, atol=1e-9, equal_nan=True)
        assert np.allclose(one.covariance, whole.covariance[row], equal_nan=True)
        assert np.array_equal(one.estimable, whole.estimable[row])
        assert np.array_equal(np.isnan(one.public), ~one.estimable)
        _compare_with_definition(network, plan, one, arrived)


def _compare_with_definition(network: vn.Network, plan: vn.Plan, one, arrived) -> None:
    """Against J̃^+ by eigenvalues and, where x is determined, the normal equations with dense matrices."""
    sanitizers = without(plan, set(network.agents) - set(arrived))
    information = direct_information(network, sanitizers)
    values, vectors = np.linalg.eigh(information)
    known = values > 1e-9 * max(values[-1], 1e-300)
    outside = np.linalg.norm(network.U @ vectors[:, ~known], axis=1)
    assert np.array_equal(one.estimable, outside <= 1e-6 * np.linalg.norm(network.U, axis=1))
    if not known.all():
        return
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    prior = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
    rows, covariance, shifted = _dense_messages(network, plan, arrived)
    weights = rows.T @ np.linalg.pinv(covariance, hermitian=True, rcond=1e-12)
    x = np.linalg.solve(information, prior @ mean + weights @ shifted)
    assert np.allclose(one.public, network.U @ x, rtol=1e-6, atol=1e-6)


def _dense_messages(network: vn.Network, plan: vn.Plan, arrived):
    present = [agent for agent in network.agents if agent in arrived]
    if not present:
        return np.zeros((0, network.L)), np.zeros((0, 0)), np.zeros(0)
    picked = np.concatenate([np.arange(network.N)[network.blocks.rows(network.position[a])] for a in present])
    compression = block_diag(*[plan.sanitizers[a].compression for a in present])
    added = block_diag(*[plan.sanitizers[a].noise for a in present])
    offset = network.offset[picked] - np.concatenate([plan.sanitizers[a].offset for a in present])
    covariance = compression @ network.R.matrix()[np.ix_(picked, picked)] @ compression.T + added
    messages = np.concatenate([arrived[a] for a in present])
    return compression @ network.H[picked], covariance, messages - compression @ offset


def planted() -> vn.Plan:
    """Two agents, each the only one to see one of two public parameters; no prior."""
    network = vn.Network(
        observe={"left": [[1.0, 0.0, 1.0]], "right": [[0.0, 2.0, 0.0]], "both": [[1.0, 0.0, 0.0]]},
        noise=1.0,
        public={"u": [[1.0, 0.0, 1.0]], "v": [[0.0, 1.0, 0.0]]},
        private={"g": [[1.0, 0.0, 0.0]]},
    )
    return make_plan(network, {a: vn.Sanitizer(np.eye(1)) for a in network.agents}, "by hand")


def test_what_is_not_determined_is_not_estimated() -> None:
    fusion = vn.Fusion(planted())
    estimate = fusion.estimate({"left": [[5.0], [5.0], [np.nan]], "right": [[4.0], [np.nan], [4.0]]})
    assert np.array_equal(estimate.estimable, [[True, True], [True, False], [False, True]])
    assert np.allclose(estimate.public, [[5.0, 2.0], [5.0, np.nan], [np.nan, 2.0]], equal_nan=True)
    assert estimate.covariance[1, 1, 1] == np.inf
    assert np.isnan(estimate.covariance[1, 0, 1])
    assert estimate.covariance[1, 0, 0] == pytest.approx(1.0)
    assert estimate.deviation[2].tolist() == [np.inf, pytest.approx(0.5)]
    assert estimate.missing == (("both",), ("right", "both"), ("left", "both"))
    nothing = fusion.estimate({})
    assert np.isnan(nothing.public).all()
    assert not nothing.estimable.any()
    assert nothing.missing == ("left", "right", "both")


def test_with_a_prior_nothing_arriving_leaves_the_prior() -> None:
    network = random_network(6, prior="covariance")
    estimate = vn.Fusion(vn.design(network)).estimate({})
    assert np.allclose(estimate.public, network.U @ network.prior.mean)
    assert np.allclose(estimate.covariance, network.U @ network.prior.covariance @ network.U.T)


def test_a_plan_without_messages_estimates_nothing_without_a_prior() -> None:
    network = random_network(6)
    silent = {a: vn.Sanitizer.silent(len(rows)) for a, rows in network.observe.items()}
    fusion = vn.Fusion(make_plan(network, silent, "silence"))
    for messages in ({}, {"a0": np.zeros((3, 0))}, np.zeros((100, 0))):
        estimate = fusion.estimate(messages)
        assert np.isnan(estimate.public).all()
        assert not np.any(estimate.missing), "who has nothing to send is not missing"


def test_agents_without_a_sanitizer_send_raw_readings() -> None:
    network = with_offsets(random_network(8, noise="joint", prior="covariance"), 1)
    plan = make_plan(network, random_sanitizers(network, 3, "rectangular"), "by hand")
    assert np.array_equal(plan.sanitizers["a3"].compression, np.eye(plan.sanitizers["a3"].readings))
    fusion = vn.Fusion(plan)
    x = network.prior.mean + 1.0
    readings = network.H @ x + network.offset
    messages = {
        agent: readings[network.blocks.rows(place)]
        if agent == "a3"
        else plan.sanitizers[agent].compression
        @ (readings[network.blocks.rows(place)] - plan.sanitizers[agent].offset)
        for place, agent in enumerate(network.agents)
    }
    estimate = fusion.estimate(messages)
    raw = direct_information(network, plan.sanitizers)
    expected = network.U @ (
        network.prior.mean
        + np.linalg.solve(raw, (raw - network.prior.information) @ (x - network.prior.mean))
    )
    assert np.allclose(estimate.public, expected)


def test_noise_many_orders_above_the_readings_costs_no_digits() -> None:
    network = random_network(5, noise="per agent", prior="none", sizes=(3, 3, 4, 4))
    shares = vn.design(network)
    loud = {
        agent: s.as_noise(1e9).replace(offset=s.offset) if s.sent < s.readings else s.replace(grid=None)
        for agent, s in shares.sanitizers.items()
    }
    plan = make_plan(network, loud, "loud")
    quiet = vn.Fusion(shares).estimate({}).set_covariance
    assert quiet.shape == (1, 2, 2)
    loud_view, quiet_view = vn.Fusion(plan).model.complete, vn.Fusion(shares).model.complete
    assert np.allclose(loud_view.covariance, quiet_view.covariance, rtol=1e-7)


def test_many_rows_take_little_memory() -> None:
    fusion = vn.Fusion(planted())
    estimate = fusion.estimate({a: np.ones((100_000, 1)) for a in fusion.agents})
    assert estimate.covariance.shape == (100_000, 2, 2)
    assert estimate.covariance.base is not None
    assert estimate.covariance.strides[0] == 0
    assert estimate.estimable.shape == (100_000, 2)
    assert not np.any(estimate.missing)


def test_a_gap_is_missed_where_it_is_however_many_rows_there_are() -> None:
    fusion = vn.Fusion(planted())
    messages = {agent: np.full((20_000, 1), 2.0) for agent in fusion.agents}
    messages["right"][[5, 17_000]] = np.nan
    estimate = fusion.estimate(messages)
    assert [row for row, names in enumerate(estimate.missing) if names] == [5, 17_000]
    assert np.flatnonzero(np.isnan(estimate.public[:, 1])).tolist() == [5, 17_000]


def test_many_sets_of_agents_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    network = vn.Network(
        observe=rng.standard_normal((70, 2, 3)), noise=1.0, public=np.eye(3), private={"g": np.ones(3)}
    )
    fusion = vn.Fusion(make_plan(network, {a: vn.Sanitizer(np.eye(2)) for a in network.agents}, "raw"))
    values = rng.standard_normal((400, 140))
    gone = rng.random((400, 70)) < 0.5
    values[np.repeat(gone, 2, axis=1)] = np.nan
    estimate = fusion.estimate(values)
    for row in (0, 17, 399):
        kept = ~np.repeat(gone[row], 2)
        x, *_ = np.linalg.lstsq(network.H[kept], values[row, kept])
        assert np.allclose(estimate.public[row], x)
        assert estimate.missing[row] == tuple(np.array(network.agents)[gone[row]])


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ({"lft": [1.0]}, r"unknown 'lft'.*left.*; known are 'left', 'right', 'both'"),
        ({"left": [1.0, 2.0]}, r"expected shape \(1,\) or \(T, 1\), found \(2,\); write z\[:, None\]"),
        ({"left": [[1.0]], "right": [[1.0], [2.0]]}, "same number of rows"),
        ({"left": [[1.0]], "right": [1.0]}, "'left' 1 rows, 'right' one row as a vector"),
        ({"left": ["x"]}, "expected numbers"),
        ({"left": [10**400]}, "expected numbers"),
        ({"left": [[1.0], [1.0, 2.0]]}, "expected numbers"),
        ([1.0, 2.0], r"messages: expected shape \(3,\)"),
        (None, "messages: expected"),
    ],
)
def test_wrong_messages_are_refused(messages, message) -> None:
    with pytest.raises(vn.InvalidReading, match=message):
        vn.Fusion(planted()).estimate(messages)


def test_masked_numbers_are_missing() -> None:
    masked = np.ma.masked_array([[5.0], [7.0]], mask=[[False], [True]])
    estimate = vn.Fusion(planted()).estimate({"left": masked})
    assert estimate.missing == (("right", "both"), ("left", "right", "both"))
    assert np.isnan(estimate.public[1]).all()


def test_a_bad_number_that_weighs_nothing_is_still_missing() -> None:
    """Estimates tell of bad numbers, but not of those that no estimate uses."""
    network = vn.Network(
        observe={"left": [[1.0, 0.0]], "right": [[0.0, 1.0]]},
        noise=1.0,
        public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.eye(2)),
    )
    plan = make_plan(network, {a: vn.Sanitizer(np.eye(1)) for a in network.agents}, "by hand")
    fusion = vn.Fusion(plan)
    assert fusion.model.complete.gain[0, 1] == 0.0
    right = np.array([[1.0], [np.nan], [2.0], [np.inf]])
    estimate = fusion.estimate({"left": np.ones((4, 1)), "right": right})
    assert estimate.missing == ((), ("right",), (), ("right",))
    assert np.allclose(estimate.public, 0.5)


@pytest.mark.parametrize("agents", [1, 5, 16, 17, 40])
def test_rows_are_grouped_by_who_sent(agents: int) -> None:
    rng = np.random.default_rng(agents)
    patterns = rng.random((6, agents)) < 0.4
    silent = patterns[rng.integers(6, size=200)].T
    order, groups = by_who_sent(silent)
    assert sorted(order) == list(range(200))
    assert len(groups) == len({column.tobytes() for column in silent.T})
    for pattern, members in groups:
        assert (silent[:, order[members]] == pattern[:, None]).all()
    assert sum(members.stop - members.start for _, members in groups) == 200


def test_numbers_too_large_to_square_are_no_gaps() -> None:
    fusion = vn.Fusion(vn.design(house()))
    messages = np.full((3, fusion.model.blocks.total), 1e200)
    assert fusion.estimate(messages).missing == ((), (), ())
    assert np.isfinite(fusion.estimate(messages).public).all()
