"""From readings to what leaves the agent: check, compress, add noise, round to the public grid.

A reading is released whole or not at all. One that has the wrong length, is not a number, is infinite, lies
outside the sanitizer's limits or is so large that the grid could not hide the rounding errors of its sums is
refused; the refusal names the row and the reason, never the value. An agent in doubt sends nothing.

Noise comes from the operating system's entropy (:mod:`veilnet.agent.randomness`), and every number is rounded to
its grid last (:mod:`veilnet.agent.grid`; its cost in utility is below 1e-6). Subtracting the offset rounds once
more than the bound of :func:`veilnet.agent.grid.releasable` counts, a factor (n + 2)/(n + 1) at its limit of 2⁻¹².
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidReading
from veilnet._core.types import AnyArray, Array, Booleans
from veilnet.agent import grid
from veilnet.agent.randomness import NoiseSource, noise_source
from veilnet.agent.sanitizer import Sanitizer

__all__ = ["NotPrivate", "Released", "release", "release_valid"]

_ROWS_AT_ONCE = 2048  # temporaries stay in cache; the draws of a chunk too
_SHORT_ROW = 32
_MOST_DEVIATIONS = 12.0  # no draw of either source is larger
_MOST_STEPS = 2.0**50  # half of what the grid can represent exactly


class NotPrivate(np.ndarray[Any, Any]):
    """Numbers sanitized with repeatable noise, for simulation: whoever knows the seed can subtract it.

    What is computed from such an array is one again.
    """

    __array_priority__ = 1.0

    def __repr__(self) -> str:
        return f"NotPrivate({np.asarray(self)!r}, seeded noise: a simulation, not private)"


@dataclass(frozen=True, eq=False)
class Released:
    """What may leave of a block of rows.

    valid:   which rows were released.
    values:  the numbers of those rows, in order.
    reasons: row -> why it was refused; never a value.
    """

    valid: Booleans
    values: Array
    reasons: dict[int, str]


def release(sanitizer: Sanitizer, readings: Any, rng: np.random.Generator | int | None = None) -> AnyArray:
    """Sanitize one reading (N_i,) or a block (T, N_i); see :meth:`veilnet.Sanitizer.sanitize`."""
    recipe = _recipe_of(sanitizer)
    source = noise_source(rng)
    numbers = _as_numbers(readings, sanitizer)
    if recipe.step is None:
        warnings.warn(
            f"{_whose(sanitizer)}no grid is set, so the low bits of what is sent are not protected: they can "
            "betray what is withheld; take the sanitizer from a plan of design(), which sets one, "
            "or give grid=",
            RuntimeWarning,
            stacklevel=3,
        )
    rows = numbers.reshape(-1, sanitizer.readings)
    released = np.empty((len(rows), sanitizer.sent))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        chunk = rows[start : start + _ROWS_AT_ONCE]
        centred, valid = recipe.examine(chunk)
        if not valid.all():
            place = int(np.argmin(valid))
            where = f"row {start + place}: " if numbers.ndim == 2 else ""
            raise InvalidReading(
                f"{_whose(sanitizer)}{where}{recipe.reason(chunk[place])}; nothing was sent: "
                "drop the row, or mend the sensor"
            )
        released[start : start + len(chunk)] = recipe.sanitize(centred, source)
    values = released.reshape(*numbers.shape[:-1], sanitizer.sent)
    return values if source.private else values.view(NotPrivate)


def release_valid(sanitizer: Sanitizer, rows: Array, source: NoiseSource) -> Released:
    """Sanitize the rows (T, N_i) that may be released, and say of each other one why not.

    Unlike :func:`release` it needs a grid: a stream has nobody to read a warning.
    """
    recipe = _recipe_of(sanitizer)
    if recipe.step is None:
        raise InvalidNetwork(
            f"{_whose(sanitizer)}no grid is set, so the low bits of what is sent would not be protected; "
            "take the sanitizer from a plan, or give it one with replace(grid=...)"
        )
    centred, valid = recipe.examine(rows)
    if valid.all():
        return Released(valid, recipe.sanitize(centred, source), {})
    refused = np.flatnonzero(~valid)
    reasons = {int(place): recipe.reason(rows[place]) for place in refused}
    return Released(valid, recipe.sanitize(centred[valid], source), reasons)


class _EachRow:
    """A vector to be combined with every row of a chunk, repeated beforehand.

    NumPy's inner loop over a short row costs more than its arithmetic; between equal shapes it runs through.
    """

    def __init__(self, vector: Array) -> None:
        self.vector = vector
        self._repeated = np.tile(vector, (_ROWS_AT_ONCE, 1)) if vector.size <= _SHORT_ROW else None

    def of(self, rows: int) -> Array:
        """Something that broadcasts against so many rows."""
        if self._repeated is None or not 1 < rows <= _ROWS_AT_ONCE:
            return self.vector
        return np.asarray(self._repeated[:rows])


@dataclass(frozen=True, eq=False)
class _Recipe:
    """What a sanitizer comes down to, worked out once.

    ``rows`` is C' and ``deviation`` that of the noise, both in units of the grid's steps: powers of two, so
    that the numbers are the same to the last bit.
    """

    compression: Array
    offset: _EachRow | None
    limits: tuple[_EachRow, _EachRow] | None
    names: tuple[str, ...]
    step: Array | None
    rows: Array
    unit: _EachRow
    deviation: Array
    draw: Callable[[NoiseSource, int], Array] | None

    def examine(self, rows: Array) -> tuple[Array, Booleans]:
        """The rows without their offset, and which of them may be released."""
        if self.offset is None:
            centred = rows
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                centred = rows - self.offset.of(len(rows))
        if self.step is None:
            valid = np.asarray(np.isfinite(centred).all(axis=1))
        else:
            # a reading that is not finite has no bound either, so this one test covers it
            valid = grid.releasable(centred, self.compression, self.step)
        if self.limits is not None:
            low, high = (edge.of(len(rows)) for edge in self.limits)
            valid = valid & np.asarray(((rows >= low) & (rows <= high)).all(axis=1))
        return centred, valid

    def sanitize(self, centred: Array, source: NoiseSource) -> Array:
        """The numbers to send for rows that may be released."""
        values = centred @ self.rows
        if self.draw is not None:
            values += self.draw(source, len(values))
        if self.step is None:
            return values
        values = grid.release(values, 1.0, self.deviation, source)
        values *= self.unit.of(len(values))
        return values

    def reason(self, row: Array) -> str:
        """Why a row is refused, without its values."""
        for trouble, what in ((np.isnan(row), "is not a number"), (np.isinf(row), "is infinite")):
            if trouble.any():
                return f"{self._reading(trouble)} {what}"
        if self.limits is not None:
            outside = (row < self.limits[0].vector) | (row > self.limits[1].vector)
            if outside.any():
                return f"{self._reading(outside)} is outside its limits"
        return "the readings are too large for the grid to hide rounding errors (a fault, or an offset is missing)"

    def _reading(self, trouble: Booleans) -> str:
        place = int(np.argmax(trouble))
        return f"reading {self.names[place]!r}" if self.names else f"reading {place + 1}"


# Keyed by identity and dropped with the sanitizer: preparing a recipe costs more than releasing one row.
_recipes: WeakKeyDictionary[Sanitizer, _Recipe] = WeakKeyDictionary()


def _recipe_of(sanitizer: Sanitizer) -> _Recipe:
    recipe = _recipes.get(sanitizer)
    if recipe is None:
        recipe = _recipes[sanitizer] = _prepare(sanitizer)
    return recipe


def _prepare(sanitizer: Sanitizer) -> _Recipe:
    deviation = np.sqrt(np.maximum(np.diag(sanitizer.noise), 0.0))
    if sanitizer.grid is not None:
        grid.round_to_grid(np.zeros(sanitizer.sent), sanitizer.grid)  # refuses steps beyond its range
        if np.any(deviation * _MOST_DEVIATIONS >= sanitizer.grid * _MOST_STEPS):
            raise InvalidNetwork(
                f"{_whose(sanitizer)}the grid is too fine for noise so large; "
                "take it from grid_steps(covariance of what is sent)"
            )
    step = np.ones(sanitizer.sent) if sanitizer.grid is None else sanitizer.grid
    with np.errstate(over="ignore", under="ignore"):
        rows = sanitizer.compression / step[:, None]
        if not np.array_equal(rows * step[:, None], sanitizer.compression):
            raise InvalidNetwork(
                f"{_whose(sanitizer)}the grid is out of proportion to the compression; "
                "take it from grid_steps(covariance of what is sent)"
            )
    return _Recipe(
        compression=sanitizer.compression,
        offset=_EachRow(sanitizer.offset) if np.any(sanitizer.offset) else None,
        limits=None if sanitizer.limits is None else tuple(map(_EachRow, sanitizer.limits)),  # type: ignore[arg-type]
        names=sanitizer.names,
        step=sanitizer.grid,
        rows=np.ascontiguousarray(rows.T),
        unit=_EachRow(step),
        deviation=deviation / step,
        draw=_drawing(sanitizer, deviation / step, step),
    )


def _drawing(
    sanitizer: Sanitizer, deviation: Array, step: Array
) -> Callable[[NoiseSource, int], Array] | None:
    """How to draw rows of noise with covariance Θ, in units of steps; None where nothing is added."""
    noisy = deviation > 0
    if not noisy.any():
        return None
    if np.any(sanitizer.noise - np.diag(np.diag(sanitizer.noise))):
        root = sanitizer.noise_root / step
        return lambda source, count: np.asarray(source.normal((count, len(root))) @ root)
    columns = np.flatnonzero(noisy)
    scale = _EachRow(deviation[columns])

    def draw(source: NoiseSource, count: int) -> Array:
        noise = source.normal((count, len(columns)))
        noise *= scale.of(count)
        if len(columns) == len(deviation):
            return noise
        spread = np.zeros((count, len(deviation)))
        spread[:, columns] = noise
        return spread

    return draw


def _as_numbers(readings: Any, sanitizer: Sanitizer) -> Array:
    """Readings as float64; refusals never quote what was given, and never chain an error that would."""
    masked = isinstance(readings, np.ma.MaskedArray)
    try:
        raw = readings.filled(np.nan) if masked and readings.dtype.kind == "f" else np.asarray(readings)
    except (TypeError, ValueError):
        raw = None
    if raw is None or (masked and readings.dtype.kind != "f" and np.ma.is_masked(readings)):
        raise InvalidReading(
            f"{_whose(sanitizer)}readings: expected rows of equal length without masked values; "
            "nothing was sent: drop such rows"
        )
    numbers = _converted(raw)
    if numbers is None:
        raise InvalidReading(
            f"{_whose(sanitizer)}readings: expected real numbers, found the type {raw.dtype}; "
            "nothing was sent: convert the readings to float first"
        )
    if numbers.ndim not in (1, 2) or numbers.shape[-1] != sanitizer.readings:
        raise InvalidReading(
            f"{_whose(sanitizer)}readings: expected shape ({sanitizer.readings},) or "
            f"(T, {sanitizer.readings}), found {numbers.shape}; nothing was sent"
        )
    return numbers


def _converted(raw: AnyArray) -> Array | None:
    if raw.dtype.kind in "fiub":
        return raw.astype(np.float64, copy=False)
    if raw.dtype.kind != "O" or any(isinstance(item, str | bytes | complex) for item in raw.flat):
        return None  # digits in text are not a measurement
    try:
        return raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def _whose(sanitizer: Sanitizer) -> str:
    return f"{sanitizer.agent}: " if sanitizer.agent else ""
