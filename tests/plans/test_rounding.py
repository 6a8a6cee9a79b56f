"""``design(..., bits=)``: entropy by formula and by counting, the public error by bounds and by simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from helpers.said import says
from veilnet.agent.mechanisms import as_rounded
from veilnet.io.template import house
from veilnet.plans.rounding import entropy

ALLOWED = 0.02


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    return vn.design(house(), bits=ALLOWED)


@pytest.mark.parametrize("deviation", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("dithered", [True, False])
def test_entropy_by_counting(deviation: float, dithered: bool) -> None:
    rng, rows = np.random.default_rng(1), 400_000
    drawn = deviation * rng.standard_normal(rows) + (rng.uniform(-0.5, 0.5, rows) if dithered else 0.0)
    _, counts = np.unique(np.rint(drawn), return_counts=True)
    found = -np.sum(counts / rows * np.log2(counts / rows))
    # Counting cells is too low by (cells - 1)/(2 rows ln 2) on average (Miller), with a deviation near 1/sqrt(rows).
    found += (len(counts) - 1) / (2 * rows * np.log(2))
    assert entropy(deviation, dithered=dithered) == pytest.approx(found, abs=6 / np.sqrt(rows))


def test_the_two_formulas_meet() -> None:
    fine = 0.5 * np.log2(2 * np.pi * np.e * (15.9**2 + 1 / 6))
    assert entropy(15.9, dithered=True) == pytest.approx(fine, abs=1e-7)


def test_public_error_by_the_bounds(plan: vn.Plan) -> None:
    network, rounding = plan.network, plan.rounding
    assert rounding is not None
    u = network.U
    sent, rounded = (
        np.trace(u @ vn.crlb(network, each) @ u.T)
        for each in (plan.sanitizers, as_rounded(network, plan.sanitizers))
    )
    assert rounding.cost == pytest.approx(rounded / sent - 1, rel=1e-6)
    assert 0.5 * ALLOWED < rounding.cost <= ALLOWED
    assert all(rounding.privacy[name] >= each for name, each in plan.privacy.items())


def test_public_error_and_bits_by_simulation(plan: vn.Plan) -> None:
    network, rows, rng = plan.network, 20_000, np.random.default_rng(3)
    prior = network.prior
    assert prior is not None
    x = rng.multivariate_normal(prior.mean, prior.covariance, rows)
    readings = x @ network.H.T + network.offset
    readings += rng.multivariate_normal(np.zeros(network.N), network.undithered_noise.matrix(), rows)
    messages, bits = {}, 0.0
    for place, (agent, sanitizer) in enumerate(plan.sanitizers.items()):
        messages[agent] = sanitizer.sanitize(readings[:, network.blocks.rows(place)], rng=rng)
        assert sanitizer.grid is not None
        for column in (messages[agent] / sanitizer.grid).T:
            assert np.array_equal(column, np.rint(column))
            _, counts = np.unique(column, return_counts=True)
            bits -= np.sum(counts / rows * np.log2(counts / rows))
    estimate = vn.Fusion(plan).estimate(messages)
    off = np.sum((estimate.public - x @ network.U.T) ** 2, axis=1)
    stated = float(np.trace(vn.crlb(network, as_rounded(network, plan.sanitizers)) @ network.U.T @ network.U))
    assert np.mean(off) == pytest.approx(stated, abs=5 * np.std(off) / np.sqrt(rows))
    assert plan.rounding is not None
    assert plan.rounding.bits_a_row == pytest.approx(bits, abs=0.2)


def test_fewer_bits_cost_more(plan: vn.Plan) -> None:
    finer = vn.design(house(), bits=ALLOWED / 100)
    assert finer.rounding is not None
    assert plan.rounding is not None
    # A hundredth of the cost is a tenth of a step: log2(10) bits more for each of ten numbers.
    more = finer.rounding.bits_a_row - plan.rounding.bits_a_row
    assert more == pytest.approx(10 * np.log2(10), abs=4)
    assert finer.privacy == plan.privacy
    assert vn.design(house()).rounding is None


def test_saved_rechecked_and_said(plan: vn.Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    again = vn.Plan.load(tmp_path / "plan")
    assert again.rounding == plan.rounding
    assert all(each.ok for each in vn.verify(tmp_path / "plan", house()))
    says(str(plan), "bits", "entropy")
    coarser = {agent: each.with_grid(16 * each.grid) for agent, each in plan.sanitizers.items()}
    replace(plan, sanitizers=coarser).save(tmp_path / "coarser")
    assert not all(each.ok for each in vn.verify(tmp_path / "coarser", house()))
    with pytest.raises(vn.InvalidPlan):
        vn.Plan.load(tmp_path / "coarser")


@pytest.mark.parametrize("noise", ["per agent", pytest.param("joint", marks=pytest.mark.long)])
def test_trade_offs_of_random_networks(noise: str) -> None:
    network = random_network(3, noise=noise, prior="covariance")
    plan = vn.design(network, utility_loss=0.1, starts=1, bits=0.01)
    assert plan.rounding is not None
    assert 0 < plan.rounding.cost <= 0.01
    assert all(plan.privacy[name] <= each for name, each in plan.rounding.privacy.items())


def test_refused() -> None:
    with pytest.raises(vn.InvalidRequest) as error:
        vn.design(house(), bits=2)
    says(error, "bits", 2, "between 0 and 1")
    with pytest.raises(vn.InvalidRequest) as error:
        vn.design(random_network(3, prior="none"), bits=0.01)
    says(error, "bits", "prior")
    with pytest.raises(vn.InvalidRequest) as error:
        vn.design(house(stream=True), bits=0.01)
    says(error, "bits", "streams")
