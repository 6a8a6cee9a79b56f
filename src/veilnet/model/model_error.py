"""A model that is known only to within a few percent: what that does to the readings.

Let every entry of H be off by its own factor 1 + e, the e independent, of mean zero and deviation ε. A reading is

    y = H x + n + (E ∘ H) x,   E[((E ∘ H) x)_a²] = ε² Σ_b H_ab² E[x_b²],   E[x_b²] = (P0)_bb + m_b²,

uncorrelated between readings, with x and with n. A linear estimator that does not know E thus errs on average over
all such models exactly as if each reading had this variance more of noise: the best linear estimate, the best design
for it and its stated error are those of the network with

    R + ε² diag(H∘H (diag P0 + m∘m)).

It needs a full prior: without one x may be of any size, and so may what a wrong H does to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_number
from veilnet.model.dynamics import Dynamics
from veilnet.model.prior import Prior


def read_model_error(error: Any, dynamics: Dynamics | None) -> float:
    """ε as a fraction, 0.05 for 5 %; none for a stream, along which one error of the model repeats in every row."""
    fraction = as_number(error, "model_error")
    if fraction and dynamics is not None:
        raise InvalidNetwork(
            "model_error: an error of the model repeats in every row of a stream and does not average out, so that "
            "it cannot count as noise there; leave model_error or dynamics out"
        )
    if not 0 <= fraction < 1:
        raise InvalidNetwork(
            f"model_error: expected a fraction from 0 to below 1, found {fraction:g}; 5 % is 0.05"
        )
    return fraction


def model_error_variance(observe: Array, prior: Prior | None, error: float) -> Array:
    """(N,): the variance that a model off by ``error`` adds to each reading; ``observe`` is H."""
    if error == 0:
        return np.zeros(len(observe))
    if prior is None or prior.covariance is None:
        raise InvalidNetwork(
            "model_error: how much a wrong model matters depends on how large x is, so that it needs a full prior; "
            "give Prior(covariance=...), or leave model_error out"
        )
    second_moment = np.diag(prior.covariance) + prior.mean**2
    return np.asarray(error**2 * (observe**2 @ second_moment))
