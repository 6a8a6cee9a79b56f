"""From readings to what leaves the agent: check, dither, compress, add noise, round to the public grid.

A reading is released whole or not at all. One that has the wrong length, is not a number or is infinite is
refused; the refusal names the row and the reason, never the value. An agent in doubt sends nothing. One beyond its
limits, or so large that the grid could not hide the rounding errors of its sums, counts as the limit: who could
choose which rows are missing could ask for any reading, one bit at a time (:mod:`veilnet.model.readings`).

Readings of a sensor with a resolution are dithered first: each is moved by a uniform draw of one step's width. An
exact combination of numbers on a lattice can name them all; of dithered ones it cannot (mathematics, "Readings on a
lattice").

Noise and dither come from the operating system's entropy (:mod:`veilnet.agent.randomness`), and every number is
rounded to its grid last (:mod:`veilnet.agent.grid`; its cost in utility is below 1e-6). Subtracting the offset and
adding the dither round once more each than :func:`veilnet.agent.grid.crossing_weights` count, a factor
(n + 3)/(n + 1) at its limit of 2⁻¹².
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidReading
from veilnet._core.labelled import labels_of, picked
from veilnet._core.types import AnyArray, Array, Booleans
from veilnet.agent.randomness import NoiseSource, noise_source
from veilnet.agent.recipe import ROWS_AT_ONCE, Recipe


class NotPrivate(np.ndarray[Any, Any]):
    """Numbers sanitized with repeatable noise, for simulation: somebody who knows the seed can subtract it.

    What is computed from such an array is one again.
    """

    __array_priority__ = 1.0

    def __repr__(self) -> str:
        return f"NotPrivate({np.asarray(self)!r}, seeded noise: a simulation, not private)"


@dataclass(frozen=True, eq=False)
class Released:
    """What may leave of a block of rows.

    valid:   which rows were released, (T,); of agents alike which of them sent, (T, S).
    values:  the numbers of those rows, in order.
    reasons: row -> why it was refused; never a value.
    """

    valid: Booleans
    values: AnyArray
    reasons: dict[int, str]


def release(recipe: Recipe, readings: Any, rng: np.random.Generator | int | None = None) -> AnyArray:
    """Sanitize one reading (N_i,) or a block (T, N_i); see :meth:`veilnet.Sanitizer.sanitize`."""
    source = noise_source(rng)
    numbers = readings_as_numbers(readings, recipe)
    if recipe.step is None:
        warnings.warn(
            f"{recipe.speaker}no grid is set, so the low-order bits of messages are unprotected and can reveal "
            f"what is withheld; take the sanitizer from a plan of design(), which sets one, "
            "or give grid=",
            RuntimeWarning,
            stacklevel=3,
        )
    rows = numbers.reshape(-1, recipe.readings)
    released = np.empty((len(rows), recipe.sent))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chunk = rows[start : start + ROWS_AT_ONCE]
        centred, valid = recipe.examine(chunk)
        if not valid.all():
            place = int(np.argmin(valid))
            where = f"row {start + place}: " if numbers.ndim == 2 else ""
            raise InvalidReading(
                f"{recipe.speaker}{where}{recipe.reason(chunk[place])}; nothing was sent: drop the row, or "
                f"repair the sensor"
            )
        released[start : start + len(chunk)] = recipe.sanitize(centred, source)
    values = released.reshape(*numbers.shape[:-1], recipe.sent)
    return values if source.private else values.view(NotPrivate)


def release_valid(recipe: Recipe, rows: Array, source: NoiseSource) -> Released:
    """Sanitize the rows (T, N_i) that may be released, and say of each other one why not.

    Of S agents alike, readings (T, S n) side by side, every row is released: not a number stands for an agent that
    sends nothing in it. Unlike :func:`release` it needs a grid: a stream has nobody to read a warning.
    """
    if recipe.step is None:
        raise InvalidNetwork(
            f"{recipe.speaker}no grid is set, so the low bits of what is sent would not be protected; "
            "take the sanitizer from a plan, or give it one with replace(grid=...)"
        )
    centred, valid = recipe.examine(rows)
    if valid.all():
        return Released(valid, recipe.sanitize(centred, source), {})
    if valid.ndim == 2:
        apart = np.where(valid[:, :, None], centred.reshape(*valid.shape, -1), 0.0)
        values = recipe.sanitize(apart.reshape(rows.shape), source).reshape(*valid.shape, -1)
        values[~valid] = np.nan
        return Released(valid, values.reshape(len(rows), -1), {})
    refused = np.flatnonzero(~valid)
    reasons = {int(place): recipe.reason(rows[place]) for place in refused}
    return Released(valid, recipe.sanitize(centred[valid], source), reasons)


class Reads(Protocol):
    """A reader of rows: how many numbers each has, their names where known, and who speaks in errors."""

    @property
    def readings(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def speaker(self) -> str: ...


def readings_as_numbers(readings: Any, recipe: Reads) -> Array:
    """Readings as float64; refusals never quote what was given, and never chain an error that would.

    Columns with names are taken by name where the sanitizer knows those of its readings; others are left alone.
    """
    numbers = plain_numbers(_by_name(readings, recipe), recipe.speaker)
    if numbers.ndim not in (1, 2) or numbers.shape[-1] != recipe.readings:
        raise InvalidReading(
            f"{recipe.speaker}readings: expected shape ({recipe.readings},) or "
            f"(T, {recipe.readings}), found {numbers.shape}; nothing was sent"
        )
    return numbers


def plain_numbers(readings: Any, speaker: str) -> Array:
    """Readings of any shape as float64, as :func:`as_numbers` converts them."""
    masked = isinstance(readings, np.ma.MaskedArray)
    try:
        raw = readings.filled(np.nan) if masked and readings.dtype.kind == "f" else np.asarray(readings)
    except (TypeError, ValueError):
        raw = None
    if raw is None or (masked and readings.dtype.kind != "f" and np.ma.is_masked(readings)):
        raise InvalidReading(
            f"{speaker}readings: expected rows of equal length without masked values; "
            "nothing was sent: drop such rows"
        )
    numbers = _converted(raw)
    if numbers is None:
        raise InvalidReading(
            f"{speaker}readings: expected real numbers, found the type {raw.dtype}; "
            "nothing was sent: convert the readings to float first"
        )
    return numbers


def _by_name(readings: Any, recipe: Reads) -> Any:
    """Readings with names in the order of the sanitizer; anything else as it is."""
    if labels_of(readings) is None:
        return readings
    name = f"{recipe.speaker}readings (nothing was sent)"
    if recipe.names:
        return picked(readings, recipe.names, name, InvalidReading)
    if isinstance(readings, Mapping):
        raise InvalidReading(
            f"{name}: the sanitizer knows no names of its readings, so that these cannot be put in order; give them "
            "as an array, or names= to the sanitizer"
        )
    return readings


def _converted(raw: AnyArray) -> Array | None:
    if raw.dtype.kind in "fiub":
        return raw.astype(np.float64, copy=False)
    if raw.dtype.kind != "O" or any(isinstance(item, str | bytes | complex) for item in raw.flat):
        return None  # digits in text are not a measurement
    try:
        return raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
