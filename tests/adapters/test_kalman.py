"""Plans as plain arrays. Oracles: the fusion centre, FilterPy's own filter, and readings drawn from the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter

import veilnet as vn
from helpers.networks import NOISES, random_network
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.adapters import kalman
from veilnet.adapters.kalman import KalmanArrays, kalman_arrays
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.io.template import house
from veilnet.plans.plan import make_plan


def filter_of(arrays: KalmanArrays) -> Any:
    """FilterPy's filter with the arrays of a plan."""
    made = KalmanFilter(dim_x=arrays.H.shape[1], dim_z=len(arrays.H))
    made.x, made.P = arrays.x0[:, None], arrays.P0
    if arrays.F is not None:
        made.F, made.Q = arrays.F, arrays.Q
    return made


def updated(arrays: KalmanArrays, messages: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Public estimates and their covariance after one row, by FilterPy."""
    made, row = filter_of(arrays), arrays.measurement(messages)
    made.update(row.z[:, None], R=row.R, H=row.H)
    return arrays.public(made.x, made.P)


def sent_of(plan: vn.Plan, readings: np.ndarray) -> dict[str, np.ndarray]:
    network = plan.network
    return {
        agent: np.asarray(sanitizer.sanitize(readings[network.blocks.rows(network.position[agent])]))
        for agent, sanitizer in plan.sanitizers.items()
    }


def one_row(plan: vn.Plan, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = draw_x(plan.network, rng, 1)
    return sent_of(plan, draw_readings(plan.network, x, rng)[0])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("absent", [(), ("a1",), ("a0", "a3")])
def test_a_row_fused_by_filterpy_is_that_of_the_centre(noise: str, absent: tuple[str, ...]) -> None:
    plan = vn.design(random_network(3, noise=noise, prior="covariance"))
    messages = one_row(plan, 5)
    for agent in absent:
        del messages[agent]
    arrays = kalman_arrays(plan)
    estimate, covariance = updated(arrays, messages)
    expected = vn.Fusion(plan).estimate(messages)
    scale = np.sqrt(np.diag(expected.covariance))
    assert np.allclose(estimate / scale, expected.public / scale, rtol=0, atol=1e-8)
    assert np.allclose(covariance, expected.covariance, rtol=1e-8, atol=1e-8 * scale.max() ** 2)


def test_offsets_limits_and_dither_are_those_of_the_house() -> None:
    plan = vn.design(house())
    messages = one_row(plan, 1)
    estimate, covariance = updated(kalman_arrays(plan), messages)
    expected = vn.Fusion(plan).estimate(messages)
    assert np.allclose(estimate, expected.public, rtol=0, atol=1e-7 * np.sqrt(np.diag(covariance)).max())
    assert np.allclose(np.diag(covariance), np.diag(expected.covariance), rtol=1e-7)


def test_h_and_r_are_the_mean_and_spread_of_what_is_sent() -> None:
    """Straight from the definition: many rows of one x, sanitized with fresh noise."""
    rng, rows = np.random.default_rng(8), 20_000
    network = random_network(7, prior="covariance")
    mixing = {
        agent: vn.Sanitizer(rng.standard_normal((2, int(size))), rng.uniform(0.1, 1.0, 2))
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    }
    plan = make_plan(network, mixing, "test")
    arrays = kalman_arrays(plan)
    x = rng.standard_normal(network.L)
    readings = draw_readings(network, np.tile(x, (rows, 1)), rng)
    sent = np.concatenate(
        [
            s.sanitize(readings[:, network.blocks.rows(network.position[a])])
            for a, s in plan.sanitizers.items()
        ],
        axis=1,
    )
    deviation = np.sqrt(np.diag(arrays.R))
    off = (sent.mean(axis=0) - arrays.z0 - arrays.H @ x) / deviation * np.sqrt(rows)
    assert np.max(np.abs(off)) < 5.0
    found = np.cov(sent.T) / np.outer(deviation, deviation)
    assert np.allclose(found, arrays.R / np.outer(deviation, deviation), rtol=0, atol=5 * np.sqrt(2 / rows))


@pytest.mark.parametrize("kind", ["white", "joint", "coloured", "dithered"])
def test_a_stream_filtered_by_filterpy_is_that_of_the_centre(kind: Any) -> None:
    plan = noisy_stream_plan(stream_network(4, kind))
    arrays, made, fusion = kalman_arrays(plan), filter_of(kalman_arrays(plan)), vn.Fusion(plan)
    rng = np.random.default_rng(2)
    streams = {agent: s.stream(rng=1) for agent, s in plan.sanitizers.items()}
    for t in range(20):
        if t:
            made.predict()
        sent = {agent: np.asarray(stream.sanitize(rng.normal(size=2))) for agent, stream in streams.items()}
        if t % 5 == 3:
            del sent["a1"]  # a message that was lost
        row = arrays.measurement(sent)
        made.update(row.z[:, None], R=row.R, H=row.H)
        estimate, covariance = arrays.public(made.x, made.P)
        expected = fusion.update(sent)
        deviation = np.sqrt(np.diag(expected.covariance))
        assert np.allclose(estimate, expected.public, rtol=0, atol=1e-6 * deviation.max()), t
        assert np.allclose(covariance, expected.covariance, rtol=1e-6), t


def test_nothing_arrived_is_no_row_at_all() -> None:
    arrays = kalman_arrays(vn.design(random_network(3, prior="covariance")))
    row = arrays.measurement({})
    assert row.z.shape == (0,)
    assert row.H.shape == (0, 4)
    assert row.R.shape == (0, 0)
    gap = arrays.measurement({"a0": np.full(arrays.fusion.sent["a0"], np.nan)})
    assert gap.z.size == 0


def test_without_a_full_prior_there_is_none_to_start_from() -> None:
    for prior in ("none", "singular"):
        arrays = kalman_arrays(vn.design(random_network(2, prior=prior)))
        assert arrays.x0 is None
        assert arrays.P0 is None
    walk = kalman_arrays(noisy_stream_plan(stream_network(2, "walk")))
    assert walk.x0 is None


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = vn.design(random_network(3, prior="covariance"))
    arrays = kalman_arrays(plan)
    with pytest.raises(vn.InvalidReading, match="expected one row, found 2"):
        arrays.measurement({a: np.tile(z, (2, 1)) for a, z in one_row(plan, 5).items()})
    with pytest.raises(vn.InvalidReading, match="'nobody'"):
        arrays.measurement({"nobody": [1.0]})
    with pytest.raises(vn.InvalidRequest, match=r"expected shapes \(4,\)"):
        arrays.public(np.zeros(3), np.eye(3))
    with pytest.raises(vn.InvalidPlan, match=r"expected a veilnet\.Plan, found Network"):
        kalman_arrays(plan.network)  # type: ignore[arg-type]
    stream = kalman_arrays(noisy_stream_plan(stream_network(4)))
    missed = {"a0": np.full(stream.fusion.sent["a0"], np.inf)}
    with pytest.raises(vn.InvalidReading, match=r"missed a reading.*use veilnet\.Fusion"):
        stream.measurement(missed)
    monkeypatch.setattr(kalman, "_MOST_NUMBERS", 3)
    with pytest.raises(vn.InvalidRequest, match="at most 3 are put into plain arrays"):
        kalman_arrays(plan)
