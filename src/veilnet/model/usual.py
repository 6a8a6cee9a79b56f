"""What readings usually are, by the model, and how often one is beyond its limits.

A reading y = H x + n + offset has the mean and deviation that the prior of x, of a stream its stationary law, and the
noise give it. An agent's file holds them, so that its owner can tell what limits mean.

A reading beyond its limits counts as the limit, which tells nothing by its absence. But the promise is one of
readings as they are: with probability 1 - p no reading of a row is beyond its limits, and messages are then those of
the model to the last bit; of the other rows nothing is promised. An attacker whose errors are Gaussian gains at most
the part p + 2 t φ(t) of its error variance from those, t = Φ^-1(1 - p/2): 1.3 % at p = 1 in 1,000, the most that a
plan may have (:data:`MOST_BEYOND`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_vector
from veilnet.model.prior import Prior

__all__ = ["DEVIATIONS_REACHED", "MOST_BEYOND", "chance_in_words", "chances_beyond", "read_usual", "usual_of"]

MOST_BEYOND = 1e-3
"""The largest probability that a row of an agent has a reading beyond its limits."""

DEVIATIONS_REACHED = 8.0
"""How far from its mean, in deviations, every reading can be sent as it is, whatever the grid."""


def usual_of(
    prior: Prior | None, observe: Array, variances: Array, offset: Array
) -> tuple[Array, Array] | None:
    """(mean, deviation) of readings H x + n + offset, (N, L) and (N,); None where no prior says what x usually is."""
    if prior is None or prior.covariance is None:
        return None
    spread = np.einsum("nl,nl->n", observe @ prior.covariance, observe) + variances
    return offset + observe @ prior.mean, np.sqrt(spread)


def read_usual(usual: Any, readings: int) -> tuple[Array, Array]:
    """(mean, deviation) of each reading."""
    try:
        mean, deviation = usual
    except (TypeError, ValueError):
        raise InvalidNetwork(f"usual: expected (means, deviations), found {usual!r}") from None
    found = as_vector(mean, "usual mean", readings), as_vector(deviation, "usual deviation", readings)
    if np.any(found[1] < 0):
        raise InvalidNetwork("usual deviation: expected numbers of at least 0")
    return found


def chances_beyond(usual: tuple[Array, Array], limits: tuple[Array, Array]) -> Array:
    """The probability that each reading is beyond its limits."""
    from scipy.special import ndtr  # takes longer to load than an agent takes to start

    mean, deviation = usual
    scale = np.where(deviation > 0, deviation, np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return np.asarray(ndtr((limits[0] - mean) / scale) + ndtr((mean - limits[1]) / scale))


def chance_in_words(chance: float) -> str:
    """``1 row of 4,200``, or fewer."""
    if chance < 1e-12:
        return "fewer than 1 row of 10¹²"
    rows = 1.0 / min(1.0, chance)
    return f"1 row of {rows:.3g}" if rows < 100 or rows >= 1e6 else f"1 row of {rows:,.0f}"
