"""Credible limits of readings, proposed from calibration data, and values that no limit should be made of.

**The law.** The limits of an interval of width W are its ends moved outwards by 2 W. Let the *bulk* of a column be
the smallest interval that holds the middle 98 % of its values and every value within its own limits: those are the
limits proposed.

*Why.* The middle 98 % is not moved by a few wrong values however wrong they are; the rule then lets in honest tails,
however skewed or heavy, which reach out value by value, and leaves out what stands alone: -9999 among
temperatures. The same number in many rows (a code for "no value") is left out as well when it stands off by three
widths of everything else. Two widths of margin cover days that were not calibrated. With fewer than twenty rows
nothing stands alone.

*How often a good reading counts as its limit.* New rows of the law that T rows of calibration saw do with a
probability of about 5^-a / T for a tail that falls like x^-a, and far less for lighter ones. Measured at T = 1000
(``./veilnet bench calibration``): no more than 1e-7 of normal, exponential and bimodal readings, 2e-5 of Student's t
with three degrees of freedom, of a lognormal with σ = 1 and of rain that falls in 3 % of the rows, 6e-5 of Student's
t with two degrees of freedom; at T = 100 ten to thirty times as many, and 5e-3 of that rain.

*What can be read.* Limits of a humidity (by its column's name, ``RH_kitchen``) stay within 0 to 100, those of light,
CO2 or dust above 0, where the log does; but no nearer to the mean than five deviations. The normal law of the model
knows no such end: of light that is 0 at night it has readings below 0, and a design refuses limits that cut them off
(:func:`veilnet.verdict.notes.refuse_narrow_limits`).

*What is not promised.* A season that moves readings by more than two widths counts as the limit until the limits are
edited, and a fault that stays within them as a reading: outdoor temperatures in Fahrenheit overlap with those in
degrees Celsius.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from veilnet._core.types import Array, Booleans

Places = TypeVar("Places", slice, Array)

_TRIMMED = 0.01  # of the values, at each end
_MARGIN = 2.0  # widths of the bulk from its ends to the limits
_CODE_APART = 3.0  # widths of everything else by which a repeated number stands off if it is a code
_MOST_CODES = 0.2  # part of the rows that may hold one code
_ENOUGH_ROWS = 20  # below which nothing stands alone
_MODEL_REACH = (
    5.0  # deviations: a normal law is beyond in 6e-7 of the rows, which many readings and few rows allow
)
_ENOUGH_VALUES = 10  # different values below which a column has no "everything else"

_WORD = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+(?![a-z]))\d*")
_READABLE = (
    ({"rh", "hum", "humid", "humidity", "moisture"}, 0.0, 100.0),
    (
        {"co2", "eco2", "lux", "light", "lights", "illuminance", "pm", "voc", "tvoc", "dust", "rain"},
        0.0,
        np.inf,
    ),
)


def bulk(values: Array, reach: float = _MARGIN) -> tuple[float, float]:
    """(lowest, highest) of the values that do not stand alone.

    reach: widths of the bulk by which a value may lie beyond it and still belong to it.
    """
    if values.size < _ENOUGH_ROWS:
        return float(np.min(values)), float(np.max(values))
    ordered = np.sort(values[~_codes(values)])
    trimmed = int(np.ceil(_TRIMMED * ordered.size))
    first, last = trimmed, ordered.size - 1 - trimmed
    if last <= first or ordered[last] <= ordered[first]:
        return float(ordered[0]), float(ordered[-1])
    while True:
        beyond = reach * (ordered[last] - ordered[first])
        lower = int(np.searchsorted(ordered, ordered[first] - beyond))
        upper = int(np.searchsorted(ordered, ordered[last] + beyond, side="right")) - 1
        if (lower, upper) == (first, last):
            return float(ordered[first]), float(ordered[last])
        first, last = lower, upper


def _codes(values: Array) -> Booleans:
    """Values that repeat one number far away from everything else, a few wrong ones at the other end aside."""
    code = np.zeros(values.size, bool)
    while True:
        different, counts = np.unique(values[~code], return_counts=True)
        if different.size <= _ENOUGH_VALUES:
            return code
        low, high = np.quantile(different, [_TRIMMED, 1.0 - _TRIMMED])
        for end, inner, other in ((0, 1, high), (-1, -2, low)):
            rest = abs(other - different[inner])
            apart = abs(different[inner] - different[end])
            if apart > _CODE_APART * rest and 1 < counts[end] <= _MOST_CODES * values.size:
                code |= values == different[end]
                break
        else:
            return code


def credible_limits(values: Array) -> tuple[float, float]:
    """(lowest, highest) credible reading, rounded outwards to a tenth of the bulk's order of magnitude."""
    low, high = bulk(values)
    width = high - low
    return _outwards(low - _MARGIN * width, high + _MARGIN * width, 10.0 ** np.floor(np.log10(width)) / 10.0)


def _outwards(lowest: float, highest: float, unit: float) -> tuple[float, float]:
    """The interval, its ends moved outwards to multiples of a unit."""
    lowest, highest = np.floor(lowest / unit) * unit, np.ceil(highest / unit) * unit
    return float(f"{lowest:.12g}"), float(f"{highest:.12g}")


def sensor_range(name: str) -> tuple[float, float]:
    """(lowest, highest) that a sensor can read at all, by the words of its column's name; infinite where unknown."""
    words = {word.lower() for word in _WORD.findall(name)}
    words |= {word.rstrip("0123456789") for word in words}
    return next(((low, high) for known, low, high in _READABLE if words & known), (-np.inf, np.inf))


def proposed_limits(
    readings: Array, names: Sequence[str], owners: Mapping[str, Places]
) -> dict[str, tuple[Array, Array]]:
    """agent -> (lowest, highest) for each of its readings (T, N), columns of these names."""
    edges = np.array([credible_limits(column) for column in readings.T])
    for column, name, edge in zip(readings.T, names, edges, strict=True):
        lowest, highest = sensor_range(name)
        if lowest <= np.min(column) and np.max(column) <= highest:
            mean, reach = np.mean(column), _MODEL_REACH * np.std(column)
            normal = _outwards(mean - reach, mean + reach, 10.0 ** np.floor(np.log10(reach)) / 10.0)
            edge[:] = np.clip(edge, min(lowest, normal[0]), max(highest, normal[1]))
    return {agent: (edges[mine, 0], edges[mine, 1]) for agent, mine in owners.items()}
