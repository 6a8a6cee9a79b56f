"""Two readings in one number: one in its high digits and another, still legible, in its low ones.

The receiver adds and subtracts what it gets, so every combination of the numbers sent counts, not only those that
are written in the file. Infinitely many cannot be tried. Tried are the numbers themselves, a reduced basis of what is
sent (Gauss-Jordan elimination with complete pivoting: as many zeros as a basis can have), and, per reading, the
combination nearest to that reading alone; each for the numbers without noise and for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer

# A coefficient so many times smaller than another of the same number, and still above its noise and grid, can be read
# off its low digits.
PACKED = 1e3
# Less than this part of the largest is below the digits of a number.
LEGIBLE = 1e-13
# Where the file states no limits, units alone may explain as much as this (pascals beside degrees).
_UNITS = 1e5
# What elimination leaves in place of a zero is at most so much of what it added up.
_ROUNDING = 64 * np.finfo(float).eps


_SIMPLE = np.unique(np.arange(1, 9)[:, None] / np.arange(1, 9))  # proportions of small whole numbers


def packed(
    sanitizer: Sanitizer, names: list[str], ranges: Array, *, fades: bool = False
) -> tuple[list[str], list[str]]:
    """What is alarming, and what is only worth a note, as units may explain it.

    ranges: of the readings, from their limits; nan where there are none.
    fades:  whether the readings are those of many rows, of which a filter forgets the older. They become as small as
            one likes, and fill all digits on their way: what counts is a gap below which there is something again.
    """
    known = np.isfinite(ranges)
    scale = np.where(known, ranges, 1.0)
    alarms: list[str] = []
    notes: list[str] = []
    named: set[tuple[str, str]] = set()
    for what, row, slack, noise in _combinations(sanitizer, scale):
        sizes = np.abs(row) * scale
        top = float(np.max(sizes, initial=0.0))
        floor = max(noise, float(np.abs(row) @ (sanitizer.dither_width / 2.0)))
        legible = sizes > np.maximum(np.maximum(4 * floor, LEGIBLE * top), slack * scale)
        small = np.flatnonzero(legible & (sizes * PACKED <= top))
        if not small.size:
            continue
        above = sizes[legible & (sizes > np.max(sizes[small]))]
        if fades and np.min(above) < PACKED * np.max(sizes[small]):
            continue  # something stands in the digits above the small ones
        place = int(np.argmax(sizes))
        high, low = names[place], join_names([names[int(k)] for k in small])
        if (high, low) in named:
            continue
        named.add((high, low))
        measured = bool(known[place] and np.all(known[small]))
        apart = top / float(np.min(sizes[small]))
        doubt = "" if measured else " (unless units explain it: the file states no limits)"
        sure = measured or apart >= _UNITS
        blurred = _unrelated(row, np.flatnonzero(sizes * PACKED > top), scale, sanitizer.steps, 0.25 / apart)
        if apart < PACKED**blurred:
            sure = False
            doubt += f" (unless the {blurred} others of its high digits, in no simple proportion, blur them)"
        (alarms if sure else notes).append(
            f"{what} may carry two readings at once, {high} in its high digits and {low} in its "
            f"low ones{doubt}: where readings have a resolution, both can be read off it"
        )
    return alarms, notes


def _unrelated(row: Array, high: Integers, scale: Array, steps: Array, tolerance: float) -> int:
    """How many of the readings in the high digits are in no simple proportion to one another.

    Sums of readings with a resolution lie on one grid where their coefficients are as small whole numbers, in their
    own units, in parts of their ranges or in steps: what stands below the grid is as legible as below one reading.
    Readings in other proportions fill the gaps, by another factor of PACKED each: among many coefficients one is
    small by chance.
    """
    sizes = [np.abs(row), np.abs(row) * scale, np.abs(row) * np.where(steps > 0, steps, 1.0)]
    kinds: list[int] = []
    for place in high.tolist():
        ratios = np.array([size[place] / size[kinds] for size in sizes]) if kinds else np.zeros((0, 0))
        if not np.any(np.abs(ratios[..., None] / _SIMPLE - 1.0) <= tolerance):
            kinds.append(place)
    return len(kinds)


def _combinations(sanitizer: Sanitizer, scale: Array) -> Iterator[tuple[str, Array, Array, float]]:
    """(what, coefficients, their rounding, the larger of noise deviation and grid) of each combination tried."""
    grid = np.zeros(sanitizer.sent) if sanitizer.grid is None else sanitizer.grid
    deviations = np.sqrt(np.maximum(np.diag(sanitizer.noise), 0.0))
    nothing = np.zeros(sanitizer.readings)
    for place, row in enumerate(sanitizer.compression):
        yield f"number {place + 1}", row, nothing, float(max(deviations[place], grid[place]))
    rows, noisy = sanitizer.normal
    if len(rows) < 2:
        return
    # How each row in normal form is made of the numbers sent, for what their grids become.
    made = np.linalg.lstsq((sanitizer.compression * scale).T, (rows * scale).T, rcond=None)[0].T
    for some in [~noisy, np.ones(len(rows), bool)] if np.any(noisy) else [~noisy]:
        chosen = rows[some] * scale
        if len(chosen) < 2:
            continue
        for weights in (*_reduced(chosen), *_nearest(chosen)):
            row = weights @ chosen / scale
            slack = _ROUNDING * (np.abs(weights) @ np.abs(chosen)) / scale
            noise = float(np.linalg.norm(weights[noisy[some]]))
            step = float(np.abs(weights @ made[some]) @ grid)
            yield "a combination of the numbers sent", row, slack, max(noise, step)


def _reduced(rows: Array) -> list[Array]:
    """Weights of the reduced basis of some rows: each has a reading that no other has."""
    weights = np.diag(1.0 / np.max(np.abs(rows), axis=1))
    left = list(range(len(rows)))
    columns: list[int] = []
    while left:
        current = weights @ rows
        current[:, columns] = 0.0
        current[np.abs(current) <= _ROUNDING * (np.abs(weights) @ np.abs(rows))] = 0.0
        at, column = np.unravel_index(int(np.argmax(np.abs(current[left]))), current[left].shape)
        pivot = left.pop(int(at))
        if current[pivot, column] == 0:
            break
        columns.append(int(column))
        weights[pivot] /= current[pivot, column]
        others = np.arange(len(rows)) != pivot
        weights[others] -= np.outer(current[others, column], weights[pivot])
    return list(weights)


def _nearest(rows: Array) -> list[Array]:
    """Weights of the combinations in which one reading outweighs all others, as near to it alone as possible."""
    found = []
    units = rows / np.max(np.abs(rows), axis=1)[:, None]
    for place, target in enumerate(np.eye(rows.shape[1])):
        weights = np.linalg.lstsq(units.T, target, rcond=None)[0]
        rest = np.abs(weights @ units)
        if np.max(np.delete(rest, place), initial=0.0) * PACKED <= rest[place]:
            found.append(weights / np.max(np.abs(rows), axis=1))
    return found
