"""Two plans of the same reading share its noise: what they tell together is what their numbers tell stacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network, random_sanitizers
from veilnet.plans.plan import Plan, make_plan


def plan_of(network: vn.Network, rows: dict[str, list[list[float]]]) -> Plan:
    return make_plan(network, {agent: vn.Sanitizer(each) for agent, each in rows.items()}, "test")


@pytest.fixture(scope="module")
def network() -> vn.Network:
    """One agent with two readings, whose difference tells what is private."""
    return vn.Network(
        {"a": np.eye(2), "b": [[1.0, 1.0]]}, {"a": 1.0, "b": 4.0}, [[1.0, 1.0]], {"g": [[1.0, -1.0]]},
        vn.Prior(covariance=4.0 * np.eye(2)), resolution={"a": 0.5, "b": 0.0},
    )  # fmt: skip


def test_two_numbers_of_one_reading_give_both_readings_away(network: vn.Network, tmp_path: Path) -> None:
    """Before: the ledger added the informations and said that most of the privacy was left, where none is."""
    exact = network.replace(resolution=0.0)
    one = plan_of(exact, {"a": [[1.0, 1.0]], "b": [[1.0]]})
    other = plan_of(exact, {"a": [[1.0, 0.5]], "b": [[1.0]]})
    ledger = vn.Ledger.create(tmp_path / "l", exact, -0.99)
    assert ledger.record(one, epoch=7) == pytest.approx(vn.privacy(exact, one.sanitizers), rel=1e-9)
    left = ledger.record(other, epoch=7)
    assert left["g"] == pytest.approx(0.0, abs=1e-9)  # as raw readings
    # of other readings they would tell less, or more: their noise is new
    fresh = vn.Ledger.create(tmp_path / "m", exact, -0.99)
    fresh.record(one)
    assert fresh.record(other)["g"] > 1.0


def test_the_release_that_would_give_them_away_is_refused(network: vn.Network, tmp_path: Path) -> None:
    one = plan_of(network, {"a": [[1.0, 1.0]], "b": [[1.0]]})
    other = plan_of(network, {"a": [[1.0, 0.5]], "b": [[1.0]]})
    ledger = vn.Ledger.create(tmp_path / "l", network, 1.0)
    ledger.record(one, 5, epoch=0)
    with pytest.raises(vn.Infeasible, match="g"):
        ledger.record(other, epoch=4)
    assert ledger.count == 5
    ledger.record(other, epoch=5)  # a redesign goes on with the ledger, of new readings
    assert vn.Ledger(tmp_path / "l", network).privacy() == ledger.privacy()


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_releases_of_one_epoch_are_stacked_and_epochs_are_added(noise: str, tmp_path: Path) -> None:
    """Oracle: dense matrices, with a copy of every reading's dither and noise for each release of it."""
    base = random_network(2, noise=noise, prior="covariance")
    network = base.replace(resolution=0.4)
    silent = {agent: vn.Sanitizer.silent(len(rows)) for agent, rows in network.observe.items()}
    sanitizers = [silent | dict(random_sanitizers(network, seed, "mixed")) for seed in (1, 2)]
    plans = [make_plan(network, each, "test") for each in sanitizers]
    ledger = vn.Ledger.create(tmp_path / "l", network, -0.999)
    ledger.record(plans[0], 4, epoch=0)
    ledger.record(plans[1], 2, epoch=3)
    left = ledger.record(plans[0], epoch=3)
    R, H = network.undithered_noise.matrix(), network.H
    added = []
    for plan in plans:
        C = np.zeros((sum(s.sent for s in plan.sanitizers.values()), network.N))
        theta = np.zeros((len(C), len(C)))
        end = 0
        for place, agent in enumerate(network.agents):
            each = plan.sanitizers[agent]
            rows, end = slice(end, end + each.sent), end + each.sent
            C[rows, network.blocks.rows(place)] = each.compression
            spread = each.compression * np.sqrt(each.dither_variance)
            theta[rows, rows] = each.noise + spread @ spread.T
        added.append((C, theta))
    assert network.prior is not None
    total = network.prior.information
    raw = total + H.T @ np.linalg.solve(R, H)
    for released in ([0], [0], [0], [0, 0, 1], [1]):
        C = np.concatenate([added[k][0] for k in released])
        sizes = np.cumsum([0, *(len(added[k][1]) for k in released)])
        covariance = C @ R @ C.T
        for start, end, k in zip(sizes[:-1], sizes[1:], released, strict=True):
            covariance[start:end, start:end] += added[k][1]
        total = total + (C @ H).T @ np.linalg.pinv(covariance, rcond=1e-13, hermitian=True) @ C @ H
    for name, rows in network.private.items():
        before, after = (np.trace(rows @ np.linalg.inv(each) @ rows.T) for each in (raw, total))
        assert left[name] == pytest.approx(after / before - 1, rel=1e-6)
