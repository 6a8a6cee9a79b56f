"""Sanitized measurements in Stone Soup: a measurement model, a sensor and what its Kalman filter starts from.

A :class:`SanitizedSensor` knows a plan. What the agents sent of one row becomes a Stone Soup detection
(:meth:`SanitizedSensor.detection`) that carries its own :class:`SanitizedMeasurement`, H and R of those who sent, so
that a ``KalmanUpdater`` made without a model takes it in. In simulations :meth:`SanitizedSensor.measure` draws
readings of a true state, sanitizes them with secure noise and gives the detection of what was sent. The state
vector is the x of :func:`veilnet.adapters.kalman.kalman_arrays`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.types import Array
from veilnet.adapters.kalman import KalmanArrays, kalman_arrays
from veilnet.auditing.attack.simulation import draw_readings
from veilnet.plans.plan import Plan

try:
    from stonesoup.base import Property
    from stonesoup.models.base import GaussianModel, LinearModel
    from stonesoup.models.measurement.base import MeasurementModel
    from stonesoup.models.transition.linear import LinearGaussianTimeInvariantTransitionModel
    from stonesoup.sensor.sensor import Sensor
    from stonesoup.types.array import CovarianceMatrix, StateVector
    from stonesoup.types.detection import Detection, TrueDetection
    from stonesoup.types.state import GaussianState
except ImportError as error:
    raise missing_extra("veilnet.adapters.stone_soup needs Stone Soup", "stonesoup") from error

__all__ = ["SanitizedMeasurement", "SanitizedSensor", "prior_state", "transition_model"]


class SanitizedMeasurement(MeasurementModel, LinearModel, GaussianModel):  # type: ignore[misc]
    """What some agents send of one row, as Stone Soup takes it: z = H x + v, v ~ N(0, R).

    ndim_state:  how many numbers x has.
    mapping:     the entries of x that are seen; all of them.
    observe:     H.
    noise_covar: R.
    """

    # Types as arguments: on Python 3.14 Stone Soup does not see annotations that are strings.
    observe = Property(np.ndarray, doc="H, a row for each number sent")
    noise_covar = Property(CovarianceMatrix, doc="R, the covariance of their noise")

    @property
    def ndim_meas(self) -> int:
        """How many numbers were sent."""
        return len(self.observe)

    def matrix(self, **_: Any) -> Array:
        """H."""
        return np.asarray(self.observe)

    def covar(self, **_: Any) -> Any:
        """R."""
        return self.noise_covar


class SanitizedSensor(Sensor):  # type: ignore[misc]
    """All agents of a plan together, as one Stone Soup sensor.

    plan: the plan whose messages it carries.
    """

    plan = Property(Plan, doc="The veilnet plan whose messages it carries")

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.arrays: KalmanArrays = kalman_arrays(self.plan)

    @property
    def measurement_model(self) -> SanitizedMeasurement:
        """The model of a row in which every agent sent."""
        return _model(self.arrays.H, self.arrays.R)

    def detection(self, messages: Mapping[str, Any], timestamp: datetime | None = None) -> Detection | None:
        """What arrived of one row; None where nobody sent anything.

        messages:  agent -> message, as for :meth:`veilnet.Fusion.estimate`; agents left out are missing.
        timestamp: when the readings were taken.
        """
        found = self.arrays.measurement(messages)
        if not found.z.size:
            return None
        return Detection(
            StateVector(found.z), timestamp=timestamp, measurement_model=_model(found.H, found.R)
        )

    def measure(
        self,
        ground_truths: set[Any],
        noise: np.ndarray[Any, Any] | bool = True,
        *,
        rng: np.random.Generator | int | None = None,
        **_: Any,
    ) -> set[TrueDetection]:
        """For simulations: what the agents would send of true states, one detection each.

        ground_truths: states of x, each with a timestamp.
        noise:         True: readings are drawn and sanitized, with the agents' own noise. False: what is sent on
                       average. An array: that, plus these numbers.
        rng:           a generator or seed for the readings' noise; the agents' noise never comes from it.
        """
        return {
            TrueDetection(
                StateVector(self._sent(truth, noise, rng)),
                timestamp=truth.timestamp,
                measurement_model=self.measurement_model,
                groundtruth_path=truth,
            )
            for truth in ground_truths
        }

    def _sent(self, truth: Any, noise: Any, rng: np.random.Generator | int | None) -> Array:
        x = np.asarray(truth.state_vector, dtype=np.float64).reshape(-1)
        if x.shape != (self.arrays.H.shape[1],):
            raise InvalidRequest(
                f"ground_truths: expected states of {self.arrays.H.shape[1]} numbers, found {x.size}; the state is "
                "the network's x, all of it"
            )
        if noise is not True:
            return np.asarray(self.arrays.H @ x + (0.0 if noise is False else np.reshape(noise, -1)))
        if self.arrays.F is not None:
            raise InvalidRequest(
                "measure: agents of a stream remember, so that a state alone does not say what they send; give what "
                "they sent to detection(), or noise=False for what is sent on average"
            )
        network = self.plan.network
        readings = draw_readings(network, x[None, :], np.random.default_rng(rng))[0]
        return self.arrays.measurement(
            {
                agent: np.asarray(sanitizer.sanitize(readings[network.blocks.rows(network.position[agent])]))
                for agent, sanitizer in self.plan.sanitizers.items()
            }
        ).z


def prior_state(plan: Plan, timestamp: datetime | None = None) -> GaussianState:
    """What is known of x before the first row, as Stone Soup takes it.

    plan:      whose prior it is; of a stream, the state of row 1.
    timestamp: of the first row.
    """
    arrays = kalman_arrays(plan)
    if arrays.x0 is None:
        raise InvalidRequest(
            "plan: its network has no prior that says something of every direction of x; give prior= to the "
            "network, or start from a GaussianState of your own"
        )
    return GaussianState(StateVector(arrays.x0), CovarianceMatrix(arrays.P0), timestamp=timestamp)


def transition_model(plan: Plan) -> LinearGaussianTimeInvariantTransitionModel:
    """How the state of a stream moves from row to row, as Stone Soup takes it.

    plan: that of a stream.
    """
    arrays = kalman_arrays(plan)
    if arrays.F is None or arrays.Q is None:
        raise InvalidRequest(
            "plan: its rows are independent; give the network dynamics= and design again, or "
            "choose a transition model of your own"
        )
    if np.any(arrays.b):
        raise InvalidRequest(
            "plan: its agents subtract other offsets than their readings have, which moves their memories by a "
            "constant in every row; Stone Soup's model has no place for it: use veilnet.Fusion"
        )
    return LinearGaussianTimeInvariantTransitionModel(
        transition_matrix=arrays.F, covariance_matrix=CovarianceMatrix(arrays.Q)
    )


def _model(observe: Array, covariance: Array) -> SanitizedMeasurement:
    return SanitizedMeasurement(
        ndim_state=observe.shape[1],
        mapping=tuple(range(observe.shape[1])),
        observe=observe,
        noise_covar=CovarianceMatrix(covariance),
    )
