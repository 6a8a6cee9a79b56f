"""How x moves from row to row: x_{t+1} - mean = A (x_t - mean) + w_t, w ~ N(0, Q) (docs/explanation/streams.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, NotObservable
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import EPS
from veilnet._core.lyapunov import (
    NOT_DYING,
    lasting_directions,
    spectral_radius,
    stationary_covariance,
    undetectable_directions,
    unseen_directions,
)
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_square, as_vector, semidefinite
from veilnet._core.words import direction_in_words


class Dynamics(Frozen):
    """Rows of a stream: x_{t+1} - mean = A (x_t - mean) + w_t, w_t ~ N(0, Q), independent from row to row.

    transition: A, L x L; A = 0 makes rows independent, A = 1 a random walk.
    noise:      Q, L x L covariance of what is new in a row; it may be singular.
    mean:       what x returns to; zero when left out.
    """

    def __init__(self, transition: Any, noise: Any, mean: Any = None) -> None:
        matrix = as_array(transition, "dynamics transition")
        if matrix.ndim == 0:
            matrix = matrix.reshape(1, 1)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise InvalidNetwork(
                f"dynamics transition: expected an L x L matrix, found shape {matrix.shape}; "
                "use np.diag where each parameter moves by itself"
            )
        self.size = len(matrix)
        self.transition: Array = matrix
        given = as_array(noise, "dynamics noise")
        if given.ndim == 1 and self.size > 1:
            raise InvalidNetwork(
                f"dynamics noise: expected an L x L matrix, found shape {given.shape}; use np.diag for variances"
            )
        self.noise: Array = semidefinite(as_square(noise, "dynamics noise", self.size), "dynamics noise")
        self.mean: Array = (
            np.zeros(self.size) if mean is None else as_vector(mean, "dynamics mean", self.size)
        )
        self._freeze()

    @derived
    def stable(self) -> bool:
        """Whether x returns to its mean: every eigenvalue of A lies inside the unit circle."""
        return spectral_radius(self.transition) < NOT_DYING

    @derived
    def stationary(self) -> Array | None:
        """The covariance of x in the long run, P = A P A' + Q; None where A is not stable."""
        return stationary_covariance(self.transition, self.noise) if self.stable else None

    def __repr__(self) -> str:
        kind = "stable" if self.stable else "not stable"
        return (
            f"Dynamics({self.size} parameters, {kind}, largest root {spectral_radius(self.transition):.4g})"
        )


def read_dynamics(dynamics: Any, parameters: tuple[str, ...]) -> Dynamics | None:
    """The ``dynamics`` argument of a network of these parameters; refused where some x never leaves its mean."""
    if dynamics is None:
        return None
    if not isinstance(dynamics, Dynamics):
        raise InvalidNetwork(
            f"dynamics: expected None or a Dynamics, found {type(dynamics).__name__}; "
            "write Dynamics(transition=A, noise=Q)"
        )
    if dynamics.size != len(parameters):
        raise InvalidNetwork(
            f"dynamics: expected {len(parameters)} parameters (columns of H), found {dynamics.size}"
        )
    covariance = dynamics.stationary
    if covariance is not None:
        deviations = np.sqrt(np.diag(covariance))
        scale = np.where(deviations > 0, deviations, 1.0)
        values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale[None, :])
        if values[0] <= 4 * EPS * dynamics.size:
            raise InvalidNetwork(
                "dynamics: in the long run nothing moves "
                f"{direction_in_words(vectors[:, 0] / scale, parameters)}: A lets it decay and Q does not drive "
                f"it; give it noise, or remove it from x"
            )
    return dynamics


def refuse_undetectable(dynamics: Dynamics, observe: Array, parameters: tuple[str, ...]) -> None:
    """NotObservable where something wanders off for ever and no reading ever sees it."""
    hidden = undetectable_directions(dynamics.transition, observe)
    if hidden.shape[1]:
        raise NotObservable(
            "dynamics: the readings never see "
            f"{direction_in_words(_plainest(hidden), parameters)}, which does not return to its mean (A is not "
            f"stable there), so no filter can follow it; add an agent that sees it, or remove it from x"
        )


def refuse_without_steady_state(dynamics: Dynamics, parameters: tuple[str, ...]) -> None:
    """NotObservable, naming the direction, where the error of a filter never settles above zero.

    A direction on the unit circle that nothing renews (a constant: A = 1, Q = 0) is known a little better after every
    row.
    """
    if dynamics.stable:
        return
    # What Q never reaches: unseen by Q of the transposed recursion, among what does not die away.
    lasting = lasting_directions(dynamics.transition.T)
    still = lasting @ unseen_directions(lasting.T @ dynamics.transition.T @ lasting, dynamics.noise @ lasting)
    if still.shape[1] == 0:
        return
    # What grows by itself keeps an error above zero; what is left on the unit circle does not.
    backwards: Array = np.asarray(np.linalg.inv(still.T @ dynamics.transition.T @ still), np.float64)
    still = still @ lasting_directions(backwards)
    if still.shape[1] == 0:
        return
    raise NotObservable(
        f"dynamics: nothing renews {direction_in_words(_plainest(still), parameters)} (A keeps it, Q adds nothing), "
        "so every row reveals more of it and its error tends to zero; give it noise in Q, or ask "
        "about a number of rows (the Ledger, for an x that stays)"
    )


def _plainest(columns: Array) -> Array:
    """The direction of a space that is most of one parameter alone."""
    place = int(np.argmax(np.linalg.norm(columns, axis=1)))
    return np.asarray(columns @ columns[place])
