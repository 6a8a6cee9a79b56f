"""Differential privacy, baselines, statistics and the promise, against independent computations."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import veilnet as vn
from helpers.networks import direct_growth, direct_information, prior_information, random_network
from veilnet.auditing.baselines import EVERY_READING, baseline_rows, baselines, secure_sum
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.differential_privacy import (
    differential_privacy_rows,
    gaussian_delta,
    gaussian_epsilon,
    sensitivity,
    widths_of_readings,
)
from veilnet.auditing.promise import certificate_rows, exposure_rows, simulation_rows
from veilnet.auditing.statistics import SquareSum, chi_square_p
from veilnet.auditing.worlds import world_of
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow

# --- differential privacy


@pytest.mark.parametrize("moved", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_delta_is_the_hockey_stick_divergence(moved: float, epsilon: float) -> None:
    def excess(t: float) -> float:
        return max(0.0, norm.pdf(t, moved) - np.exp(epsilon) * norm.pdf(t, 0.0))

    edge = epsilon / moved + moved / 2  # where the two densities trade places
    truth, _ = quad(excess, edge, edge + 40, epsabs=0.0, epsrel=1e-10, limit=200)
    assert gaussian_delta(epsilon, moved) == pytest.approx(truth, rel=1e-7)


def test_epsilon_inverts_delta() -> None:
    for moved in (0.01, 0.3, 1.0, 5.0, 40.0):
        for delta in (1e-9, 1e-6, 1e-2):
            epsilon = gaussian_epsilon(delta, moved)
            assert gaussian_delta(epsilon, moved) <= delta
            if epsilon > 0:
                assert gaussian_delta(epsilon * (1 - 1e-6), moved) > delta
    assert gaussian_epsilon(1e-6, 0.0) == 0.0


def test_sensitivity_is_the_largest_move() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    sanitizer = vn.Sanitizer(rng.standard_normal((3, 5)), root @ root.T)
    widths = rng.uniform(0.5, 2.0, 5)
    half = np.linalg.solve(np.linalg.cholesky(sanitizer.noise), sanitizer.compression)
    corners = [np.linalg.norm(half @ (widths * signs)) for signs in product((-1.0, 1.0), repeat=5)]
    assert sensitivity(sanitizer, widths) == pytest.approx(max(corners), rel=1e-9)
    many = vn.Sanitizer(rng.standard_normal((2, 20)), np.eye(2))
    inside = np.sign(many.compression[0])
    assert sensitivity(many, np.ones(20)) >= np.linalg.norm(many.compression @ inside)
    assert sensitivity(vn.Sanitizer([[1.0, 0.0]]), np.ones(2)) == np.inf
    assert sensitivity(vn.Sanitizer.silent(2), np.ones(2)) == 0.0


def test_differential_privacy_of_a_plan() -> None:
    network = random_network(0, noise="per agent", sizes=(2, 2, 2))
    sanitizers = {
        "a0": vn.Sanitizer(noise=[4.0, 4.0], limits=(0.0, 1.0)),
        "a1": vn.Sanitizer([[1.0, 1.0]], limits=(0.0, 1.0)),
        "a2": vn.Sanitizer(noise=[1.0, 1.0]),
    }

    def found(of: dict[str, vn.Sanitizer], bounds: Any = None) -> dict[str, Any]:
        widths = widths_of_readings(network, of, bounds)
        return {r.what.split(",")[0]: r.found for r in differential_privacy_rows(network, of, widths, 1e-5)}

    rows = found(sanitizers)
    assert set(rows) == {"a0", "a1"}  # the readings of a2 have no bounds
    assert rows["a1"] == "none"
    assert rows["a0"] == gaussian_epsilon(1e-5, np.sqrt(2) / 2)
    assert found(sanitizers, {"a2": (0.0, [1.0, 3.0])})["a2"] == gaussian_epsilon(1e-5, np.sqrt(10))
    assert list(found(dict.fromkeys(network.agents, sanitizers["a2"])).values()) == ["no bounds"]
    with pytest.raises(vn.InvalidRequest, match="unknown"):
        found(sanitizers, {"nobody": (0, 1)})


# --- baselines


@pytest.fixture(scope="module")
def house() -> vn.Network:
    return vn.Network.load(
        Path(importlib.util.find_spec("veilnet").submodule_search_locations[0]) / "data/house.toml"
    )  # type: ignore[union-attr,index]


@pytest.mark.parametrize(
    ("noise", "prior"), [("joint", "covariance"), ("per agent", "none"), ("scalar", "singular")]
)
def test_the_secure_sum(noise: str, prior: str) -> None:
    network = random_network(2, noise=noise, prior=prior)
    raw = direct_information(network, {})
    joint = network.U @ np.linalg.solve(raw, network.H.T @ np.linalg.inv(network.R.matrix()))
    observed = joint @ network.H
    information = (
        prior_information(network)
        + observed.T @ np.linalg.pinv(joint @ network.R.matrix() @ joint.T, rcond=1e-10) @ observed
    )
    known = world_of(network).known(*secure_sum(network))
    for rows in (network.U, *network.private.values()):
        truth = direct_growth(network, information, rows)
        assert known(rows, "hindsight") == pytest.approx(truth, rel=1e-6, abs=1e-8)
    assert known(network.U, "now") == pytest.approx(0.0, abs=1e-9)


def test_baselines_of_the_house(house: vn.Network) -> None:
    perfect = vn.design(house)
    blurred = {agent: s.replace(noise=0.3, grid=None) for agent, s in perfect.sanitizers.items()}
    for plan in (perfect, make_plan(house, blurred, "test")):
        found = {b.name: b for b in baselines(plan)}
        loss = max(-plan.utility, 1e-9)
        for baseline in found.values():
            useful, private = baseline.at_equal_utility, baseline.at_equal_privacy
            assert useful is None or useful.loss <= loss * (1 + 1e-6)
            assert private is None or all(
                private.privacy[name] >= value * (1 - 1e-6) for name, value in plan.privacy.items()
            )
        noise = found[EVERY_READING]
        assert noise.at_equal_privacy is not None
        assert noise.at_equal_utility is not None
        assert noise.at_equal_privacy.loss > 3 * loss
        # Tuned, not merely within: a little less noise would not do.
        assert noise.at_equal_privacy.strength > noise.at_equal_utility.strength
        deviations = {
            agent: np.sqrt(np.diag(rows @ house.prior.covariance @ rows.T + house.R.block(k)))  # type: ignore[union-attr,operator]
            for k, (agent, rows) in enumerate(house.observe.items())
        }
        weaker = {
            a: vn.Sanitizer(noise=0.999 * noise.at_equal_privacy.strength**2 * d**2)
            for a, d in deviations.items()
        }
        reached = vn.privacy(house, weaker)
        assert any(reached[name] < value for name, value in plan.privacy.items())
        assert found["no protection"].at_equal_privacy is None
        rows = baseline_rows(house, list(found.values()))
        assert len(rows) == len(found) * 2 + 1


# --- statistics


def test_limits_of_a_mean_square_hold_and_are_not_idle() -> None:
    rng = np.random.default_rng(0)
    eigenvalues = np.array([3.0, 1.0, 0.01])
    law = SquareSum(eigenvalues, 200)
    sums = np.sum(rng.chisquare(200, (200_000, 3)) * eigenvalues, axis=1) / 200
    assert law.mean == pytest.approx(4.01)
    for chance in (1e-1, 1e-2, 1e-3):
        assert np.mean(sums < law.lowest(chance)) <= chance
        assert np.mean(sums > law.highest(chance)) <= chance
    assert np.quantile(sums, 1e-3) < law.lowest(1e-1)
    covered = [low <= 4.01 <= high for low, high in (law.interval(float(s)) for s in sums[:2000])]
    assert np.mean(covered) >= 0.99


def test_chi_square_p_values_are_uniform() -> None:
    rng = np.random.default_rng(1)
    ps = chi_square_p(rng.chisquare(50, 100_000), 50, np.zeros(100_000))
    assert np.quantile(ps, [0.01, 0.1, 0.5]) == pytest.approx([0.01, 0.1, 0.5], rel=0.1)


# --- the promise


def plan_of(seed: int, noise: str, prior: str) -> Plan:
    network = random_network(seed, noise=noise, prior=prior)
    rng = np.random.default_rng(seed)
    sanitizers = {
        agent: vn.Sanitizer(
            rng.standard_normal((len(rows) - 1, len(rows))), rng.uniform(0.5, 2.0, len(rows) - 1)
        )
        for agent, rows in network.observe.items()
    }
    return make_plan(network, sanitizers, "test")


@pytest.mark.parametrize("noise", ["joint", "per agent"])
@pytest.mark.parametrize("prior", ["none", "covariance", "singular"])
def test_the_best_linear_attacker_meets_the_bound(noise: str, prior: str) -> None:
    plan = plan_of(4, noise, prior)
    rngs = {agent: np.random.default_rng([7, k]) for k, agent in enumerate(plan.sanitizers)}
    seeded = {
        agent: lambda y, s=s, rng=rngs[agent]: np.asarray(s.sanitize(y, rng=rng))
        for agent, s in plan.sanitizers.items()
    }
    rows = simulation_rows(world_of(plan.network), deployment(plan, seeded), 1e-7, 0, 20_000, lambda _: None)
    assert len(rows) == 3
    for row in rows:
        assert row.verdict == "ok"
        low, high = row.interval or (0.0, 0.0)
        assert low <= float(row.promised or 0.0) <= high
    assert [r.verdict for r in certificate_rows(plan)] == ["ok"] * 3


def test_the_attacker_sees_weaker_noise() -> None:
    plan = plan_of(4, "per agent", "covariance")
    weak = {agent: s.replace(noise=s.noise / 10) for agent, s in plan.sanitizers.items()}
    rows = simulation_rows(world_of(plan.network), deployment(plan, weak), 1e-7, 0, 20_000, lambda _: None)
    assert any(r.verdict == "fail" and "protection is not there" in r.why for r in rows)


def test_a_plan_that_claims_too_much() -> None:
    plan = plan_of(4, "per agent", "covariance")
    boast = Plan(
        plan.network, plan.sanitizers, "boast", plan.utility,
        {name: 2 * value for name, value in plan.privacy.items()}, plan.certificate,
    )  # fmt: skip
    assert [r.verdict for r in certificate_rows(boast)] == ["ok", "fail", "fail"]


def test_what_is_free_is_checked_again() -> None:
    """A plan that hides one parameter less than is free, and says that it kept it."""
    plan = plan_of(4, "per agent", "covariance")
    name, hidden = next(iter(plan.privacy.items()))
    for floor, verdict in ((0.9 * hidden, "ok"), (1.1 * hidden, "fail")):
        rows = {r.what: r for r in certificate_rows(replace(plan, floors={name: floor}))}
        row = rows[f"no less than is free, of {name}"]
        assert row.verdict == verdict
        assert row.promised == floor


def test_worst_direction_and_bits(house: vn.Network) -> None:
    plan = vn.design(house)
    rows = {r.what: r for r in exposure_rows(plan)}
    worst = vn.privacy(house, plan.sanitizers, worst=True)
    bits = vn.bits_revealed(house, plan.sanitizers)
    for name in house.private:
        assert rows[f"{name}, most exposed direction"].found == pytest.approx(worst[name], rel=1e-9)
        assert rows[f"{name}, bits revealed"].found == pytest.approx(bits[name], rel=1e-9)
    without = vn.design(random_network(0, prior="none"))
    assert not any("bits" in r.what for r in exposure_rows(without))
