"""Sanitized measurements in Stone Soup. Oracle: the fusion centre, row by row and along a stream."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from stonesoup.predictor.kalman import KalmanPredictor
from stonesoup.types.groundtruth import GroundTruthState
from stonesoup.types.hypothesis import SingleHypothesis
from stonesoup.types.prediction import GaussianStatePrediction
from stonesoup.updater.kalman import KalmanUpdater

import veilnet as vn
from helpers.networks import random_network
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.adapters.stone_soup import SanitizedSensor, prior_state, transition_model
from veilnet.plans.plan import make_plan

START = datetime(2026, 1, 1)


def predicted(state: Any) -> GaussianStatePrediction:
    return GaussianStatePrediction(state.state_vector, state.covar, timestamp=state.timestamp)


def public(sensor: SanitizedSensor, state: Any) -> tuple[np.ndarray, np.ndarray]:
    return sensor.arrays.public(np.asarray(state.state_vector, float), np.asarray(state.covar, float))


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    return vn.design(random_network(3, prior="covariance"))


def messages_of(plan: vn.Plan) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    return {
        agent: np.asarray(sanitizer.sanitize(rng.normal(size=sanitizer.readings)))
        for agent, sanitizer in plan.sanitizers.items()
    }


@pytest.mark.parametrize("absent", [(), ("a2",)])
def test_the_updater_finds_what_the_centre_finds(plan: vn.Plan, absent: tuple[str, ...]) -> None:
    sensor = SanitizedSensor(plan=plan)
    messages = messages_of(plan)
    for agent in absent:
        del messages[agent]
    detection = sensor.detection(messages, START)
    after = KalmanUpdater(None).update(SingleHypothesis(predicted(prior_state(plan, START)), detection))
    estimate, covariance = public(sensor, after)
    expected = vn.Fusion(plan).estimate(messages)
    assert np.allclose(estimate, expected.public, rtol=0, atol=1e-8)
    assert np.allclose(covariance, expected.covariance, rtol=1e-8, atol=1e-10)


def test_a_stream_in_stone_soup_is_that_of_the_centre() -> None:
    plan = noisy_stream_plan(stream_network(4, "coloured"))
    sensor, fusion = SanitizedSensor(plan=plan), vn.Fusion(plan)
    predictor, updater = KalmanPredictor(transition_model(plan)), KalmanUpdater(None)
    streams = {agent: s.stream(rng=1) for agent, s in plan.sanitizers.items()}
    rng = np.random.default_rng(2)
    state = predicted(prior_state(plan, START))
    for t in range(10):
        now = START + timedelta(minutes=t)
        if t:
            state = predictor.predict(state, timestamp=now)
        sent = {agent: np.asarray(stream.sanitize(rng.normal(size=2))) for agent, stream in streams.items()}
        state = updater.update(SingleHypothesis(state, sensor.detection(sent, now)))
        expected = fusion.update(sent)
        estimate, covariance = public(sensor, state)
        deviation = np.sqrt(np.diag(expected.covariance))
        assert np.allclose(estimate, expected.public, rtol=0, atol=1e-6 * deviation.max()), t
        assert np.allclose(covariance, expected.covariance, rtol=1e-6), t


def test_simulated_detections_have_the_error_that_was_promised(plan: vn.Plan) -> None:
    """Errors of Stone Soup's estimates, in units of the covariance it states, have the law of chi-square."""
    sensor, rng = SanitizedSensor(plan=plan), np.random.default_rng(9)
    prior, updater = prior_state(plan, START), KalmanUpdater(None)
    mean, covariance = np.asarray(prior.state_vector, float)[:, 0], np.asarray(prior.covar, float)
    squares, rows = 0.0, 400
    for _ in range(rows):
        x = rng.multivariate_normal(mean, covariance)
        (detection,) = sensor.measure({GroundTruthState(x[:, None], timestamp=START)}, rng=rng)
        after = updater.update(SingleHypothesis(predicted(prior), detection))
        error = np.asarray(after.state_vector, float)[:, 0] - x
        squares += float(error @ np.linalg.solve(np.asarray(after.covar, float), error))
    freedom = rows * mean.size
    assert abs(squares - freedom) < 5 * np.sqrt(2 * freedom)  # once in two million, and the seeds are fixed


def test_averages_and_given_noise(plan: vn.Plan) -> None:
    sensor = SanitizedSensor(plan=plan)
    truth = GroundTruthState(np.arange(4.0)[:, None], timestamp=START)
    (average,) = sensor.measure({truth}, noise=False)
    assert np.allclose(np.asarray(average.state_vector, float)[:, 0], sensor.arrays.H @ np.arange(4.0))
    (moved,) = sensor.measure({truth}, noise=np.ones(len(sensor.arrays.H)))
    assert np.allclose(np.asarray(moved.state_vector - average.state_vector, float), 1.0)
    assert average.timestamp == START
    assert average.groundtruth_path is truth
    model = sensor.measurement_model
    assert model.ndim_meas == len(sensor.arrays.H)
    assert np.array_equal(model.matrix(), sensor.arrays.H)
    assert np.array_equal(np.asarray(model.covar()), sensor.arrays.R)


def test_nobody_sent_is_no_detection(plan: vn.Plan) -> None:
    assert SanitizedSensor(plan=plan).detection({}, START) is None


def test_what_does_not_fit_is_refused(plan: vn.Plan) -> None:
    with pytest.raises(vn.InvalidRequest, match="expected states of 4 numbers, found 3"):
        SanitizedSensor(plan=plan).measure({GroundTruthState(np.zeros((3, 1)), timestamp=START)})
    with pytest.raises(vn.InvalidRequest, match="rows are independent"):
        transition_model(plan)
    with pytest.raises(vn.InvalidRequest, match="no prior that says something of every direction"):
        prior_state(vn.design(random_network(2, prior="none")))
    stream = noisy_stream_plan(stream_network(4))
    sensor = SanitizedSensor(plan=stream)
    truth = GroundTruthState(np.zeros((sensor.arrays.H.shape[1], 1)), timestamp=START)
    with pytest.raises(vn.InvalidRequest, match="agents of a stream remember"):
        sensor.measure({truth})
    moved = {
        agent: s.replace(offset=np.ones(2)) if agent == "a0" else s for agent, s in stream.sanitizers.items()
    }
    with pytest.raises(vn.InvalidRequest, match="other offsets"):
        transition_model(make_plan(stream.network, moved, "test"))
