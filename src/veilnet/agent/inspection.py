"""What a sanitizer would tell of each reading: for whoever is asked to run it, before it runs.

An agent cannot see whether a plan keeps its promise to the network, but it can see what it is asked to send. What
counts is the span of the rows, not the rows themselves: the receiver adds and subtracts them as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet._core.words import join_names, number
from veilnet.agent.sanitizer import Sanitizer

__all__ = ["Exposure", "Inspection", "inspect"]

Kind = Literal["exactly", "with noise", "mixed with others", "withheld"]

# A reading is in the span of some rows when less than this part of it (units removed) is outside.
_OUTSIDE = 1e-9
# A coefficient so many times smaller than another of the same number, and still above its noise and grid, can be read
# off its low digits.
_PACKED = 1e3
# Where the file states no limits, units alone may explain as much as this (pascals beside degrees).
_UNITS = 1e5
# Noise below this part of the range of a reading protects nothing worth having.
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Exposure:
    """What can be recovered of one reading.

    kind:  "exactly", "with noise" (``error`` is the deviation that remains), "mixed with others" (only
           combinations can be recovered), "withheld" (nothing that is sent depends on it).
    """

    reading: str
    kind: Kind
    error: float | None = None

    def __str__(self) -> str:
        if self.kind == "exactly":
            return f"{self.reading}: SENT EXACTLY, the receiver gets the raw reading"
        if self.kind == "with noise":
            return f"{self.reading}: sent with noise, can be recovered to ±{number(self.error or 0.0)} (a deviation)"
        if self.kind == "withheld":
            return f"{self.reading}: withheld, nothing that is sent depends on it"
        return f"{self.reading}: sent only in combinations with others, cannot be recovered from them alone"


@dataclass(frozen=True)
class Inspection:
    """What an agent would send: per reading, per number, and what should make one hesitate.

    alarms: raw readings can be recovered. notes: what holds only under conditions.
    """

    agent: str
    exposures: tuple[Exposure, ...]
    numbers: tuple[str, ...]
    alarms: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is alarming."""
        return not self.alarms

    def __str__(self) -> str:
        lines = [
            f"{self.agent or 'This agent'} sends {len(self.numbers)} numbers for {len(self.exposures)} readings:"
        ]
        lines += [f"  {text}" for text in self.numbers]
        lines += ["What they tell of each reading:"]
        lines += [f"  {exposure}" for exposure in self.exposures]
        lines += [f"ALARM: {text}" for text in self.alarms]
        lines += [f"Note: {text}" for text in self.notes]
        return "\n".join(lines)


def inspect(sanitizer: Sanitizer) -> Inspection:
    """Say in words what a sanitizer would tell, and raise an alarm where raw readings can be recovered."""
    names = list(sanitizer.names) or [f"reading {k + 1}" for k in range(sanitizer.readings)]
    rows, noisy = sanitizer.normal
    exposures = tuple(_exposure(name, k, rows, noisy, sanitizer) for k, name in enumerate(names))
    deviations = np.sqrt(np.maximum(np.diag(sanitizer.noise), 0.0))
    numbers = tuple(
        f"number {place + 1} = {_combination(row, names)}, "
        + (f"with noise of deviation {number(deviation)}" if deviation > 0 else "exactly")
        for place, (row, deviation) in enumerate(zip(sanitizer.compression, deviations.tolist(), strict=True))
    )
    packed, perhaps = _packed(sanitizer, names)
    alarms = (*_raw(exposures, rows, noisy), *_nearly_raw(exposures, sanitizer), *packed)
    notes = (*perhaps, *_on_resolution(sanitizer, noisy))
    return Inspection(sanitizer.agent, exposures, numbers, alarms, notes)


def _exposure(name: str, place: int, rows: Array, noisy: Booleans, sanitizer: Sanitizer) -> Exposure:
    if not np.any(sanitizer.compression[:, place]):
        return Exposure(name, "withheld")
    columns = np.sqrt(np.sum(_unit(rows) ** 2, axis=0))
    columns = np.where(columns > 0, columns, 1.0)
    target = np.eye(rows.shape[1])[place]
    for some, kind in ((~noisy, "exactly"), (np.ones(len(rows), bool), "with noise")):
        basis = _unit(rows[some] / columns)
        if not len(basis):
            continue
        weights = np.linalg.lstsq(basis.T, target, rcond=None)[0]
        if np.linalg.norm(basis.T @ weights - target) <= _OUTSIDE:
            if kind == "exactly":
                return Exposure(name, "exactly")
            sizes = np.linalg.norm(rows / columns, axis=1)
            error = float(np.linalg.norm((weights / sizes)[noisy]) / columns[place])
            return Exposure(name, "with noise", error)
    return Exposure(name, "mixed with others")


def _raw(exposures: tuple[Exposure, ...], rows: Array, noisy: Booleans) -> list[str]:
    exact = [exposure.reading for exposure in exposures if exposure.kind == "exactly"]
    if not exact:
        return []
    if len(exact) == len(exposures):
        count = int(np.sum(~noisy))
        return [
            f"EVERY raw reading can be recovered exactly: {count} independent numbers are sent without noise for "
            f"{rows.shape[1]} readings"
        ]
    return [f"raw readings can be recovered exactly: {join_names(exact)}"]


def _nearly_raw(exposures: tuple[Exposure, ...], sanitizer: Sanitizer) -> list[str]:
    ranges = _ranges(sanitizer)
    if ranges is None:
        return []
    found = [
        f"{exposure.reading} (±{number(exposure.error)} of a range of {number(reach)})"
        for exposure, reach in zip(exposures, ranges.tolist(), strict=True)
        if exposure.error is not None and exposure.error < _NEGLIGIBLE * reach
    ]
    return [f"the noise hides next to nothing of {join_names(found)}"] if found else []


def _packed(sanitizer: Sanitizer, names: list[str]) -> tuple[list[str], list[str]]:
    """Numbers in which one reading stands in the high digits and another, still legible, in the low ones.

    Returns what is alarming, and what is only worth a note, as units may explain it.
    """
    ranges = _ranges(sanitizer)
    sizes = np.abs(sanitizer.compression) * (np.ones(sanitizer.readings) if ranges is None else ranges)
    deviations = np.sqrt(np.maximum(np.diag(sanitizer.noise), 0.0))
    step = np.zeros(sanitizer.sent) if sanitizer.grid is None else sanitizer.grid
    alarms: list[str] = []
    notes: list[str] = []
    width = np.zeros(sanitizer.readings) if sanitizer.resolution is None else sanitizer.resolution
    dither = np.abs(sanitizer.compression) @ (width / 2.0)
    for place, (row, floor) in enumerate(zip(sizes, np.max([deviations, step, dither], axis=0), strict=True)):
        legible = row > np.maximum(4 * floor, 1e-13 * np.max(row, initial=0.0))
        small = np.flatnonzero(legible & (row * _PACKED <= np.max(row, initial=0.0)))
        if small.size:
            low = join_names([names[int(k)] for k in small])
            high = names[int(np.argmax(row))]
            unit = "" if ranges is not None else " (unless units explain it: the file states no limits)"
            ratio = float(np.max(row) / np.min(row[small]))
            sure = ranges is not None or ratio >= _UNITS
            (alarms if sure else notes).append(
                f"number {place + 1} may carry two readings at once, {high} in its high digits and {low} in its "
                f"low ones{unit}: where readings have a resolution, both can be read off it"
            )
    return alarms, notes


def _on_resolution(sanitizer: Sanitizer, noisy: Booleans) -> list[str]:
    """Exact numbers protect continuous readings only, unless readings are dithered first."""
    if np.all(noisy) or (sanitizer.resolution is not None and np.all(sanitizer.resolution > 0)):
        return []
    stated = (
        "states no resolution" if sanitizer.resolution is None else "says that some readings are continuous"
    )
    return [
        "numbers sent exactly protect only readings that are continuous: a sensor that rounds (to 0.1 °C, say) gives "
        f"combinations that can name its raw readings, unless they are dithered; this file {stated}"
    ]


def _ranges(sanitizer: Sanitizer) -> Array | None:
    if sanitizer.limits is None:
        return None
    low, high = sanitizer.limits
    ranges = high - low
    return np.asarray(ranges) if np.all(np.isfinite(ranges) & (ranges > 0)) else None


def _unit(rows: Array) -> Array:
    sizes = np.linalg.norm(rows, axis=1)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0)[:, None])


def _combination(row: Array, names: list[str], *, parts_shown: int = 6) -> str:
    """``0.71 T1 - 0.2 RH1``, coefficients as they are."""
    order = [int(k) for k in np.argsort(-np.abs(row)) if row[k] != 0]
    if not order:
        return "nothing"
    text = " ".join(
        (("- " if row[k] < 0 else "+ ") if place else ("-" if row[k] < 0 else ""))
        + f"{abs(row[k]):.3g} {names[k]}"
        for place, k in enumerate(order[:parts_shown])
    )
    return text + (f" and {len(order) - parts_shown} more" if len(order) > parts_shown else "")
