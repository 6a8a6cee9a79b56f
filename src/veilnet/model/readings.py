"""What is known of an agent's readings besides the model: names, what is credible, and how finely they are read.

A sensor has a resolution: its readings are whole multiples of a step. A reading with a step q > 0 is dithered, moved
by m uniform draws of one step's width, before anything is done with it; that adds m q²/12 to its variance
(:func:`dither_variance`). Why, how many draws, and what that guarantees: mathematics, "Readings on a lattice".

A reading y = H x + n + offset has the mean and deviation that the prior of x, of a stream its stationary law, and the
noise give it. An agent's file holds them, so that its owner can tell what limits mean.

A reading beyond its limits counts as the limit, which tells nothing by its absence. But the promise is one of
readings as they are: with probability 1 - p no reading of a row is beyond its limits, and messages are then those of
the model to the last bit; of the other rows nothing is promised. An attacker whose errors are Gaussian gains at most
the part p + 2 t φ(t) of its error variance from those, t = Φ^-1(1 - p/2): 1.3 % at p = 1 in 1,000, the most that a
plan may have (:data:`MOST_BEYOND`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.frozen import make_read_only
from veilnet._core.types import Array
from veilnet._core.validation import as_names, as_vector, one_or_each
from veilnet.model.prior import Prior

# Columns and keys of veilnet's own streams: a reading with such a name could be taken for one of them, and
# what stands in them is sent or believed as it is.
_RESERVED = frozenset({"row", "time", "plan", "agent", "private", "readings", "values", "missing"})
_NUMBERED = re.compile(r"z\d+|deviation of .*")


def read_reading_names(names: Sequence[str], readings: int) -> tuple[str, ...]:
    """One name per reading, or none at all; names that streams use themselves are refused."""
    found = as_names(list(names), "names")
    for name in found:
        folded = name.strip().casefold()
        if folded in _RESERVED or _NUMBERED.fullmatch(folded):
            raise InvalidNetwork(
                f"names: a reading may not be called {name!r}, which streams use themselves (row, time, plan, "
                "agent, private, readings, values, missing, z1, z2, ...); rename it"
            )
    if found and len(found) != readings:
        raise InvalidNetwork(f"names: expected {readings}, one per reading, found {len(found)}")
    return found


def read_limits(limits: Any, readings: int) -> tuple[Array, Array]:
    """(lowest, highest) credible value of each reading."""
    try:
        low, high = limits
    except (TypeError, ValueError) as error:
        raise InvalidNetwork(f"limits: expected (lowest, highest), found {limits!r}") from error
    edges = []
    for value, name in ((low, "lowest limit"), (high, "highest limit")):
        array = one_or_each(value, readings)
        if array is None or np.any(np.isnan(array)):
            raise InvalidNetwork(f"{name}: expected one number or {readings}, found {value!r}")
        edges.append(array)
    if np.any(edges[0] >= edges[1]):
        raise InvalidNetwork("limits: expected lowest below highest for every reading")
    make_read_only(edges)
    return edges[0], edges[1]


def read_resolution(steps: Any, readings: int) -> Array:
    """The step of each reading, 0 where a reading is continuous."""
    found = None if isinstance(steps, bool) else one_or_each(steps, readings)
    if found is None or not np.all(np.isfinite(found)):
        raise InvalidNetwork(
            f"expected one step or {readings}, one per reading, each a finite number, found {steps!r}; "
            "0.1 says that a reading is a multiple of 0.1, 0 that it is continuous"
        )
    if np.any(found < 0):
        raise InvalidNetwork(
            f"expected steps of at least 0, found {steps!r}; 0 says that a reading is continuous"
        )
    found += 0.0  # no sign of a zero
    make_read_only(found)
    return found


MOST_DRAWS = 2.0
"""Draws of dither that serve whatever is sent: wherever between lattice points their sum fell, its mean is zero."""


def read_dither(draws: Any, readings: int) -> Array | None:
    """How many uniform draws of a step move each reading: one number or one per reading, each 0, 1 or 2."""
    if draws is None:
        return None
    found = one_or_each(draws, readings)
    if found is None or not np.all(np.isin(found, (0.0, 1.0, MOST_DRAWS))):
        raise InvalidNetwork(
            f"dither: expected one number or {readings}, one per reading, each 0, 1 or 2 draws, found {draws!r}"
        )
    make_read_only(found)
    return found


def dither_variance(steps: Array, draws: Array | float = 1.0) -> Array:
    """m q²/12: that of m uniform draws between -q/2 and q/2; of one, also of the rounding error of a sensor."""
    return np.asarray(draws * steps**2 / 12.0)


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
    """``1 row in 4,200``, or fewer."""
    if chance < 1e-12:
        return "fewer than 1 row in 10¹²"
    rows = 1.0 / min(1.0, chance)
    return f"1 row in {rows:.3g}" if rows < 100 or rows >= 1e6 else f"1 row in {rows:,.0f}"
