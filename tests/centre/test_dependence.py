"""How far slow rows move the mean of a window without any drift.

Oracles: series x[t] = a x[t-1] + ... of variance one, whose sums over windows have a known variance; logs of the
bundled house in which x hardly moves.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import chi2

import veilnet as vn
from veilnet.centre.windows import Level, independent, swelling
from veilnet.io.template import house

LENGTHS = tuple(16 * 2**number for number in range(8))
ONE = np.array([1])


def carried(rng: np.random.Generator, rows: int, columns: int, memory: float) -> np.ndarray:
    steps = rng.standard_normal((rows, columns))
    steps[1:] *= np.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], steps, axis=0))


def levels_of(series: np.ndarray) -> list[Level]:
    """What windows of one number were like."""
    levels = []
    for length in LENGTHS:
        windows = series[: len(series) // length * length].reshape(-1, length)
        levels.append(Level(np.zeros(1, np.intp), 1))
        if len(windows):
            levels[-1].add(windows.sum(axis=1)[:, None], windows.var(axis=1, ddof=1)[:, None], 0)
    return levels


def widest(levels: list[Level], place: int) -> np.ndarray:
    return levels[place].power / max(1, levels[place].count) / LENGTHS[place]


def true_swelling(length: int, memory: float) -> float:
    """Variance of a sum over a window, over that of as many independent rows."""
    lags = np.arange(1, length)
    return float(1 + 2 * np.sum((1 - lags / length) * memory**lags))


def test_independent_rows_pass_and_slow_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    passed = {
        memory: sum(
            bool(independent(levels_of(carried(rng, 6000, 1, memory)[:, 0]), LENGTHS, ONE)[0])
            for _ in range(40)
        )
        for memory in (0.0, 0.3, 0.9, 0.999)
    }
    assert passed[0.0] > 20  # each of eight lengths may fail with a chance of 5 %
    assert passed[0.3] == passed[0.9] == passed[0.999] == 0
    assert not independent(levels_of(rng.standard_normal(1000)), LENGTHS, ONE)[0]  # too few to tell


@pytest.mark.parametrize("memory", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_false_alarms_of_slow_rows_are_as_seldom_as_of_independent_ones(memory, place) -> None:
    """On average over histories; and limits are not much wider than slow rows need after many rows."""
    limit, chances, found = 25.0, [], []
    true = true_swelling(LENGTHS[place], memory)
    for seed in range(20):
        levels = levels_of(carried(np.random.default_rng([seed, 2]), 60_000, 1, memory)[:, 0])
        found.append(swelling(levels, LENGTHS, place, ONE, widest(levels, place), np.array([limit]))[0])
        chances.append(chi2.sf(limit * found[-1] / true, 1))
    assert np.mean(chances) < 3 * chi2.sf(limit, 1)
    assert np.median(found) < 2.5 * true


@pytest.mark.parametrize("memory", [0.999, 0.9999, 0.99999])
def test_what_hardly_moves_raises_no_alarm_when_it_does(memory) -> None:
    """After 4000 rows that show but a few of the places such a series may be at, it goes on to others."""
    alarms = 0
    for seed in range(100):
        series = carried(np.random.default_rng([seed, 3]), 8000, 1, memory)[:, 0]
        levels = levels_of(series[:4000])
        assert not independent(levels, LENGTHS, ONE)[0]
        for place in range(4):
            found = swelling(levels, LENGTHS, place, ONE, widest(levels, place), np.array([25.0]))[0]
            length = LENGTHS[place]
            later = series[4000 : 4000 + 4000 // length * length].reshape(-1, length).sum(axis=1)
            alarms += bool(np.any(later**2 / length > 25.0 * found))
    assert alarms <= 1


def test_a_house_that_hardly_changes_is_no_drift() -> None:
    """Wherever x happens to be when a log begins: four of these nine logs raised an alarm once."""
    plan = vn.design(house())
    network = plan.network
    assert network.prior is not None
    for seed in range(9):
        rng = np.random.default_rng(seed)
        x = carried(rng, 6000, network.L, 0.9999) @ np.linalg.cholesky(network.prior.covariance).T
        noise = rng.standard_normal((6000, network.N)) @ np.linalg.cholesky(network.sensor_noise.matrix()).T
        readings = (network.prior.mean + x) @ network.H.T + network.offset + noise
        messages = {
            agent: np.asarray(
                plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng)
            )
            for place, agent in enumerate(network.agents)
        }
        assert vn.Drift(vn.Fusion(plan)).look(messages) == []
