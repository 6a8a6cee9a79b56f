"""Sanitized measurements in Stone Soup's Kalman filter.

    pip install "veilnet[stonesoup]"     (in the folder of its source: pip install ".[stonesoup]")
    python examples/stone_soup_tracker.py

The house as a stream: rooms remember, and send what the plan lets them. A SanitizedSensor turns their messages into
Stone Soup's detections; its predictor and updater do the rest, and agree with veilnet's own centre.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
from stonesoup.predictor.kalman import KalmanPredictor
from stonesoup.types.hypothesis import SingleHypothesis
from stonesoup.types.prediction import GaussianStatePrediction
from stonesoup.updater.kalman import KalmanUpdater

import veilnet as vn
from veilnet.adapters.stone_soup import SanitizedSensor, prior_state, transition_model

START = datetime(2026, 1, 1)

network = vn.Network(
    observe={
        "kitchen": [[1.0, 0.3], [0.0, 1.0]],
        "hall": [[0.9, 0.8], [0.2, 0.1]],
    },
    noise=0.25,
    public={"temperature": [1, 0]},
    private={"gait": [0, 1]},
    dynamics=vn.Dynamics(transition=np.diag([0.95, 0.6]), noise=np.diag([0.1, 0.5]), mean=[20.0, 0.0]),
)
plan = vn.design(network)
sensor, centre = SanitizedSensor(plan=plan), vn.Fusion(plan)
predictor, updater = KalmanPredictor(transition_model(plan)), KalmanUpdater(None)
rooms = {agent: sanitizer.stream() for agent, sanitizer in plan.sanitizers.items()}

first = prior_state(plan, START)
state = GaussianStatePrediction(first.state_vector, first.covar, timestamp=START)
rng = np.random.default_rng(2)
for row in range(6):
    now = START + timedelta(minutes=15 * row)
    if row:
        state = predictor.predict(state, timestamp=now)
    sent = {agent: room.sanitize(rng.normal([20.0, 0.0], 0.5)) for agent, room in rooms.items()}
    state = updater.update(SingleHypothesis(state, sensor.detection(sent, now)))
    estimate, covariance = sensor.arrays.public(state.state_vector, state.covar)
    apart = abs(estimate[0] - centre.update(sent).public[0]) / covariance[0, 0] ** 0.5
    print(
        f"{now:%H:%M}  temperature {estimate[0]:.2f} ± {covariance[0, 0] ** 0.5:.2f}, "
        f"apart from veilnet's centre: {'less than 1e-6' if apart < 1e-6 else apart} deviations"
    )
