"""Streams from logs: planted dynamics and memories are found, likelihoods agree with brute force, gaps split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import veilnet as vn
from veilnet._core.lyapunov import stationary_covariance
from veilnet.calibration.fitting import fit_report
from veilnet.calibration.likelihood import noise_likelihood, transition_likelihood
from veilnet.calibration.noise_memory import fit_memory
from veilnet.calibration.stream_model import fit_transition
from veilnet.calibration.stream_report import row_promises

ROLES = {"agents": {"room": ["T", "RH"], "hall": ["T2"]}, "public": ["T_out"], "private": ["people"]}
A = np.array([[0.95, 0.02], [0.0, 0.8]])
Q = np.array([[0.1, 0.01], [0.01, 0.4]])
H = np.array([[0.5, 1.0], [1.0, -1.0], [0.2, 0.5]])
MEAN = np.array([8.0, 2.0])
OFFSET = np.array([20.0, 50.0, 19.0])
MEMORY = np.array([0.9, 0.6, 0.0])
INNOVATION = 0.2 * (0.3 * np.ones((3, 3)) + 0.7 * np.eye(3))
FLOOR = np.diag([0.3, 0.0, 0.5])


def simulated(rng: np.random.Generator, transition: np.ndarray, noise: np.ndarray, rows: int) -> np.ndarray:
    """A stationary x_{t+1} = A x_t + w_t."""
    start = np.linalg.cholesky(stationary_covariance(transition, noise))
    root = np.linalg.cholesky(noise)
    found = np.empty((rows, len(noise)))
    found[0] = start @ rng.standard_normal(len(noise))
    for t in range(1, rows):
        found[t] = transition @ found[t - 1] + root @ rng.standard_normal(len(noise))
    return found


def log(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = MEAN + simulated(rng, A, Q, rows)
    white = rng.standard_normal((rows, 3)) * np.sqrt(np.diag(FLOOR))
    y = x @ H.T + OFFSET + simulated(rng, np.diag(MEMORY), INNOVATION, rows) + white
    columns = np.column_stack([60.0 * np.arange(rows), x, y]).T
    return dict(zip(["t", "T_out", "people", "T", "RH", "T2"], columns, strict=True))


def true_network() -> vn.Network:
    return vn.Network(
        {"room": H[:2], "hall": H[2:]},
        vn.ColouredNoise(MEMORY, INNOVATION, FLOOR),
        {"T_out": [[1.0, 0.0]]},
        {"people": [[0.0, 1.0]]},
        dynamics=vn.Dynamics(A, Q, MEAN),
        resolution=0.0,
    )


# --- the model


@pytest.mark.slow
def test_planted_dynamics_and_memories_are_found() -> None:
    made = fit_report(log(8000), **ROLES, time="t")
    network, found = made.network, made.report.stream
    assert network.is_stream
    assert found is not None
    assert found.warranted
    # the standard errors of A and of the memories are below 0.01 at this length; four of them
    np.testing.assert_allclose(network.dynamics.transition, A, atol=0.04)
    np.testing.assert_allclose(network.dynamics.noise, Q, atol=0.03)
    np.testing.assert_allclose([one.memory for one in found.readings.values()], MEMORY, atol=0.05)
    assert found.readings["T2"].memory == 0.0
    carried = np.diag(stationary_covariance(np.diag(MEMORY), INNOVATION))
    parts = np.diag(FLOOR) / (carried + np.diag(FLOOR))
    np.testing.assert_allclose([one.floor for one in found.readings.values()][:2], parts[:2], atol=0.06)
    truth = row_promises(true_network())["people"]
    told = found.promises["people"]
    for name in ("promised", "now", "hindsight"):
        assert getattr(told, name) == pytest.approx(getattr(truth, name), rel=0.05)
    assert told.overstated > 1.1
    assert f"{told.overstated:.3g} times too much" in str(made.report)


def test_a_stream_describes_single_rows_as_the_row_model_does() -> None:
    data = log(1500)
    moving = fit_report(data, **ROLES, time="t").network
    still = fit_report(data, **ROLES, time="t", stream=False).network
    assert moving.is_stream
    assert not still.is_stream
    row = moving.one_row
    np.testing.assert_allclose(row.H, still.H, rtol=1e-12)
    np.testing.assert_allclose(row.prior.covariance, still.prior.covariance, rtol=1e-6)
    np.testing.assert_allclose(np.diag(row.R.matrix()), np.diag(still.R.matrix()), rtol=1e-9)
    assert vn.check(row).ceiling["people"] == pytest.approx(vn.check(still).ceiling["people"], rel=0.05)


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 10, 200]))
def test_dynamics_are_stable_and_keep_the_covariance_whatever_the_data(seed, run) -> None:
    """Random walks, cut into runs: least squares alone would be unstable in half of them."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal((200, 3)), axis=0)
    centred = walk - walk.mean(axis=0)
    covariance = centred.T @ centred / 199
    transition, renewed = fit_transition(centred, np.arange(200) // run, covariance, 0.0)
    assert np.max(np.abs(np.linalg.eigvals(transition))) < 1
    assert np.linalg.eigvalsh(renewed)[0] > 0
    again = transition @ covariance @ transition.T + renewed
    np.testing.assert_allclose(again, covariance, atol=1e-9 * np.max(covariance))


def test_transitions_are_those_of_least_squares_where_these_are_stable() -> None:
    x = simulated(np.random.default_rng(0), A, Q, 20_000)
    x -= x.mean(axis=0)
    found, _ = fit_transition(x, np.zeros(len(x), int), x.T @ x / len(x), 0.0)
    plain = np.linalg.lstsq(x[:-1], x[1:], rcond=None)[0].T
    np.testing.assert_allclose(found, plain, atol=1e-3)


def test_steps_across_gaps_are_not_transitions() -> None:
    """Runs of five rows, each run a new start: only steps within runs tell of A."""
    rng = np.random.default_rng(1)
    x = np.concatenate([simulated(rng, A, Q, 5) for _ in range(4000)])
    segments = np.repeat(np.arange(4000), 5)
    covariance = stationary_covariance(A, Q)
    np.testing.assert_allclose(fit_transition(x, segments, covariance, 0.0)[0], A, atol=0.04)
    blind = fit_transition(x, np.zeros(len(x), int), covariance, 0.0)[0]
    assert blind[0, 0] < 0.85


def test_white_noise_stays_white_at_the_stated_rate() -> None:
    """A memory is taken for real by chance with probability exp(-log T) = 1 / 300, about, in each column."""
    residuals = np.random.default_rng(0).standard_normal((300, 100))
    found = fit_memory(residuals, np.zeros(300, int), np.eye(100), np.eye(100, dtype=bool))
    assert np.sum(found.memory > 0) <= stats.binom.isf(1e-6, 100, 1 / 300)


def test_one_row_keeps_its_correlations_where_memories_differ() -> None:
    rng = np.random.default_rng(0)
    strong = np.array([[1.0, -0.96, 0.45], [-0.96, 1.0, -0.4], [0.45, -0.4, 1.0]])
    memory = np.diag([0.99, 0.9, 0.3])
    residuals = simulated(rng, memory, 0.1 * strong, 4000)
    noise = residuals.T @ residuals / 4000
    found = fit_memory(residuals, np.zeros(4000, int), noise, np.ones((3, 3), bool))
    marginal = stationary_covariance(np.diag(found.memory), found.innovation) + found.floor
    np.testing.assert_allclose(np.diag(marginal), np.diag(noise), rtol=1e-9)
    deviations = np.sqrt(np.diag(noise))
    np.testing.assert_allclose(
        marginal / np.outer(deviations, deviations), noise / np.outer(deviations, deviations), atol=0.1
    )


# --- likelihoods


def brute_force(rows: np.ndarray, segments: np.ndarray, covariance_at) -> float:
    """log density of all rows at once, segments independent, from one big covariance matrix."""
    total = 0.0
    for one in np.unique(segments):
        part = rows[segments == one]
        count = len(part)
        joint = np.block([[covariance_at(s - t) for t in range(count)] for s in range(count)])
        total += stats.multivariate_normal(cov=joint).logpdf(part.ravel())
    return total


def test_likelihoods_agree_with_one_big_gaussian() -> None:
    rng = np.random.default_rng(0)
    segments = np.repeat([0, 1, 2], [9, 1, 6])
    carried = stationary_covariance(np.diag(MEMORY), INNOVATION)

    def noise_at(lag: int) -> np.ndarray:
        if lag < 0:
            return noise_at(-lag).T
        return np.diag(MEMORY**lag) @ carried + (FLOOR if lag == 0 else 0.0)

    residuals = rng.standard_normal((16, 3))
    found = noise_likelihood(residuals, segments, MEMORY, INNOVATION, FLOOR)
    assert np.sum(found) == pytest.approx(brute_force(residuals, segments, noise_at), rel=1e-9)

    long_run = stationary_covariance(A, Q)

    def x_at(lag: int) -> np.ndarray:
        return x_at(-lag).T if lag < 0 else np.linalg.matrix_power(A, lag) @ long_run

    x = rng.standard_normal((16, 2))
    found = transition_likelihood(x, segments, A, Q, long_run)
    assert np.sum(found) == pytest.approx(brute_force(x, segments, x_at), rel=1e-9)


# --- is it warranted?


@pytest.mark.long
@pytest.mark.slow
def test_independent_rows_are_no_stream_and_streams_are() -> None:
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(15):
        x = rng.standard_normal((250, 2))
        y = x @ H.T + rng.standard_normal((250, 3))
        columns = np.column_stack([np.arange(250.0), x, y]).T
        made = fit_report(dict(zip(log(2), columns, strict=True)), **ROLES, time="t")
        assert made.report.stream is not None
        taken += made.report.stream.warranted
        assert made.network.is_stream == made.report.stream.warranted
    # above two deviations of eight blocks by chance: Student's t with seven degrees, 4.3 %, and the mean is below 0
    assert taken <= stats.binom.isf(1e-4, 15, 0.043)
    for seed in range(5):
        assert fit_report(log(250, seed), **ROLES, time="t").network.is_stream


def test_what_goes_with_what() -> None:
    data = log(300)
    with pytest.raises(vn.InvalidRequest, match="stream: a stream needs time="):
        vn.fit(data, **ROLES, stream=True)
    with pytest.raises(vn.InvalidRequest, match="a prior"):
        vn.fit(data, **ROLES, time="t", stream=True, prior=False)
    with pytest.raises(vn.InvalidRequest, match="stream: expected True"):
        vn.fit(data, **ROLES, time="t", stream="yes")
    made = fit_report(data, **ROLES, time="t", noise="independent")
    assert made.network.is_stream
    assert not np.any(made.network.one_row.R.matrix()[:2, 2])
    single = fit_report(data, **ROLES, time="t", stream=False)
    assert "The network is for single rows." in str(single.report)
    assert any("are for one row" in sentence for sentence in single.warnings)
    assert not any("are for one row" in sentence for sentence in made.warnings)
    # what the stream counts is no doubt any more
    assert "noise-memory" in {doubt.name for doubt in single.network.doubts}
    assert not {"noise-memory", "slow"} & {doubt.name for doubt in made.network.doubts}
