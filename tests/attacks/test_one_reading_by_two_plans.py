"""Two plans of the same reading share its noise: what they tell together is what their numbers tell stacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.special import ndtr

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
    """Oracle: dense matrices, with a copy of every reading's noise for each release of it."""
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
    assert network.prior is not None
    total = network.prior.information
    raw = total + H.T @ np.linalg.solve(R, H)
    for released in ([0], [0], [0], [0, 0, 1], [1]):
        C, theta = _stacked(network, [plans[k] for k in released])
        total = total + (C @ H).T @ np.linalg.pinv(C @ R @ C.T + theta, rcond=1e-13, hermitian=True) @ C @ H
    for name, rows in network.private.items():
        before, after = (np.trace(rows @ np.linalg.inv(each) @ rows.T) for each in (raw, total))
        assert left[name] == pytest.approx(after / before - 1, rel=1e-6)


def _stacked(network: vn.Network, plans: list[Plan]) -> tuple[np.ndarray, np.ndarray]:
    """(C, Θ) of one epoch; steps are wide here, so that whoever has dither and releases twice has told all."""
    rows, noises = [], []
    for place, agent in enumerate(network.agents):
        sent = [plan.sanitizers[agent] for plan in plans if plan.sanitizers[agent].sent]
        size = len(network.observe[agent])
        told = [(each.compression, each.noise) for each in sent]
        if len(sent) == 1:
            spread = sent[0].compression * np.sqrt(sent[0].dither_variance)
            told = [(sent[0].compression, sent[0].noise + spread @ spread.T)]
        elif any(each.dithers for each in sent):
            told = [(np.eye(size), np.zeros((size, size)))]
        for C, theta in told:
            wide = np.zeros((len(C), network.N))
            wide[:, network.blocks.rows(place)] = C
            rows.append(wide)
            noises.append(theta)
    return np.concatenate(rows), block_diag(*noises)


ROW, GOAL, PRIOR = np.array([1.0, 0.46]), np.array([0.5, -1.0]), 4.0


def lattice_error(releases: int, noise: float, rows: int = 600) -> tuple[float, float]:
    """(the best attacker's error of g, the deviation of that mean) from releases of one and the same reading.

    By Bayes' rule over all points y of the lattice, with the density of c(y + d) + ξ given y: x ~ N(0, 4 I), whole
    numbers y = x + n, n of variance one, d uniform. The error of g = a'x is what readings leave
    and that of its mean given y, 4/5 a'y.
    """
    rng = np.random.default_rng([releases, int(10 * noise)])
    line = np.arange(-10.0, 11.0)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    chance = np.exp(-np.sum(points**2, axis=1) / (2 * (PRIOR + 1)))
    truth = points[rng.choice(len(points), rows, p=chance / chance.sum())]
    dithered = truth[:, None] + rng.uniform(-0.5, 0.5, (rows, releases, 2))
    messages = dithered @ ROW + np.sqrt(noise) * rng.standard_normal((rows, releases))
    errors = np.empty(rows)
    for row in range(rows):
        densities = _density(messages[row][:, None] - points @ ROW, noise)
        weights = np.prod(densities / densities.max(axis=1, keepdims=True), axis=0) * chance
        errors[row] = (GOAL @ (truth[row] - weights @ points / weights.sum())) ** 2
    part = PRIOR / (PRIOR + 1)
    found = part * GOAL @ GOAL + part**2 * errors
    return float(found.mean()), float(found.std() / np.sqrt(rows))


def _density(off: np.ndarray, noise: float) -> np.ndarray:
    """Of c'd + ξ: second differences of the integrated distribution of ξ."""
    s = np.sqrt(noise)

    def integrated(t: np.ndarray) -> np.ndarray:
        return (
            np.maximum(t, 0.0)
            if noise == 0
            else t * ndtr(t / s) + s * np.exp(-((t / s) ** 2) / 2) / np.sqrt(2 * np.pi)
        )

    a, b = ROW / 2
    found = (
        integrated(off + a + b) - integrated(off + a - b) - integrated(off - a + b) + integrated(off - a - b)
    )
    return np.maximum(found, 0.0)


@pytest.mark.parametrize(("noise", "releases"), [(0.0, 2), (0.0, 40), (0.01, 40), (9.0, 4)])
def test_what_is_stated_of_many_dithers_of_one_reading_is_never_too_good(
    noise: float, releases: int, tmp_path: Path
) -> None:
    """Before: each release's dither counted, also where their mean had next to none left and readings were named."""
    network = vn.Network(
        {"a": np.eye(2)}, 1.0, [ROW], {"g": [GOAL]}, vn.Prior(covariance=PRIOR * np.eye(2)), resolution=1.0
    )
    plan = make_plan(network, {"a": vn.Sanitizer([ROW], noise)}, "test")
    assert np.all(plan.sanitizers["a"].dither == 1)
    ledger = vn.Ledger.create(tmp_path / "l", plan.network, -0.999)
    raw = GOAL @ GOAL / (1 / PRIOR + 1)
    for _ in range(releases):
        stated = raw * (1 + ledger.record(plan, epoch=3)["g"])
    found, deviation = lattice_error(releases, noise)
    assert stated < found + 5 * deviation
    spread = (ROW @ ROW / 12 + noise) / releases  # of the mean, as if dithers were Gaussian
    along = PRIOR * GOAL @ ROW
    counted = PRIOR * GOAL @ GOAL - along**2 / ((PRIOR + 1) * ROW @ ROW + spread)
    if noise == 0.01 or (noise == 0 and releases > 2):
        assert counted > found + 5 * deviation
    if noise == 9.0:
        assert (
            stated > found - 5 * deviation > 2 * raw
        )  # noise that hides the lattice by itself goes on counting
