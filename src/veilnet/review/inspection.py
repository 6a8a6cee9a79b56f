"""What a sanitizer would reveal of each reading: for its owner, who is asked to run it, before it runs.

An agent cannot see whether a plan keeps its promise to the network, but it can see what it is asked to send. What
counts is the span of the rows, not the rows themselves: the receiver adds and subtracts them as it likes. Of numbers
that depend on earlier rows too (a sanitizer with memory) what counts is what remains after all rows have arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from veilnet._core.durations import duration_in_words
from veilnet._core.types import Array, Booleans
from veilnet._core.words import counted, in_columns, join_names, number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.readings import MOST_BEYOND, chance_in_words
from veilnet.review.filter_response import fading, frequency_responses, recoverable, unrolled
from veilnet.review.packing import LEGIBLE, packed

Kind = Literal["exactly", "with noise", "mixed with others", "withheld"]

# A reading is in the span of some rows when less than this part of it (units removed) is outside.
_OUTSIDE = 1e-9
# The same of a filter, whose response is solved for at each frequency.
_OUTSIDE_OF_MANY = 1e-7
# Noise below this part of the range of a reading protects nothing worth having.
_NEGLIGIBLE = 1e-3
# Where no range is known, noise below this part of a step of the reading leaves the reading as it was.
_PART_OF_STEP = 0.1
# Where no step is known either, noise this small in the reading's own unit is taken for none.
_TINY = 1e-5
# Readings times rows before that are looked at, of a memory that goes back further.
_MOST_COLUMNS = 2000


@dataclass(frozen=True)
class Exposure:
    """What can be recovered of one reading.

    kind:  "exactly", "with noise" (``error`` is the deviation that remains), "mixed with others" (only
           combinations can be recovered), "withheld" (nothing that is sent depends on it).
    """

    reading: str
    kind: Kind
    error: float | None = None

    @property
    def recoverable(self) -> str:
        """What can be recovered of it, for a cell of a table."""
        if self.kind == "with noise":
            return f"to ±{number(self.error or 0.0)} (1σ)"
        return {"exactly": "EXACTLY", "withheld": "nothing"}.get(self.kind, "combinations only")


@dataclass(frozen=True)
class Reach:
    """What one reading counts as at least and at most.

    beyond: the probability, by the model, that it is beyond; ``usual`` its mean and deviation there. None where the
            model does not say.
    """

    reading: str
    lowest: float
    highest: float
    beyond: float | None
    usual: tuple[float, float] | None

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its limits, what it usually is, and how often it is beyond them."""
        limits = f"{number(self.lowest)} to {number(self.highest)}"
        if self.beyond is None or self.usual is None:
            return limits, "not known", "not known"
        mean, deviation = map(number, self.usual)
        return limits, f"{mean} ± {deviation}", chance_in_words(self.beyond)


@dataclass(frozen=True)
class Inspection:
    """What an agent would send: per reading, per number, and what should make one hesitate.

    alarms: raw readings can be recovered. notes: what holds only under conditions.
    summed: into whose sum the numbers go, under masks; empty where they are sent as they are.
    """

    agent: str
    exposures: tuple[Exposure, ...]
    reaches: tuple[Reach, ...]
    numbers: tuple[str, ...]
    alarms: tuple[str, ...]
    notes: tuple[str, ...]
    summed: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is alarming."""
        return not self.alarms

    def __str__(self) -> str:
        lines = [
            f"{self.agent or 'This agent'} {'adds' if self.summed else 'sends'} "
            f"{counted(len(self.numbers), 'number')} for {counted(len(self.exposures), 'reading')}:"
        ]
        lines += [f"  {text}" for text in self.numbers]
        lines += [self.summed] if self.summed else []
        heading = "could be, sent bare" if self.summed else "can be recovered"
        headings, rows = ("reading", heading), [(e.reading, e.recoverable) for e in self.exposures]
        if self.reaches:
            beside = ("clipped outside", "typical (model)", "outside in")
            table = [(*row, *reach.cells) for row, reach in zip(rows, self.reaches, strict=True)]
            lines += in_columns([(*headings, *beside), *table])
        else:
            lines += in_columns([headings, *rows])
        lines += [f"ALARM: {text}" for text in self.alarms]
        lines += [f"Note: {text}" for text in self.notes]
        return "\n".join(lines)


def inspect(sanitizer: Sanitizer) -> Inspection:
    """Say in words what a sanitizer would reveal, and raise an alarm where raw readings can be recovered."""
    names = sanitizer.labels
    noisy = sanitizer.normal[1]
    exposures = _exposures(names, sanitizer)
    deviations = np.sqrt(np.maximum(np.diag(sanitizer.noise), 0.0))
    of_row = sanitizer if sanitizer.memory is None else unrolled(sanitizer)
    beside = "" if sanitizer.memory is None else " + memory of earlier rows"
    numbers = tuple(
        f"number {place + 1} = {_combination(row, names)}{beside}, "
        + (f"with noise of deviation {number(deviation)}" if deviation > 0 else "exactly")
        for place, (row, deviation) in enumerate(zip(of_row.compression, deviations.tolist(), strict=True))
    )
    in_digits, perhaps = _packed(sanitizer, names)
    nearly, unsure = _nearly_raw(exposures, sanitizer)
    reaches = _reaches(sanitizer, names)
    bare = (*_raw(exposures, noisy), *nearly, *in_digits)
    summed = _sum_in_words(sanitizer)
    alarms = (*([] if summed else bare), *_too_often(reaches))
    notes = (
        *([f"masks alone hide it that {each}" for each in bare] if summed else []),
        *_on_step(sanitizer),
        *_on_memory(sanitizer, of_row, exposures),
        *perhaps,
        *unsure,
        *_on_resolution(sanitizer, noisy, exposures),
    )
    return Inspection(sanitizer.agent, exposures, reaches, numbers, alarms, notes, summed)


def _sum_in_words(sanitizer: Sanitizer) -> str:
    """With whose messages its own are added up, and how many of those may help the centre before one is bare."""
    group = sanitizer.summed
    if group is None:
        return ""
    others = [member for member in group.members if member != sanitizer.agent]
    most = group.colluders
    helpers = (
        f"at most {most} of the others {'help' if most > 1 else 'helps'} it" if most else "nobody helps it"
    )
    return (
        f"They are added up, under masks, with those of {join_names(others)}. The centre sees the sum alone, of at "
        f"least {group.threshold} of {len(group.members)}, while {helpers}."
    )


def _reaches(sanitizer: Sanitizer, names: list[str]) -> tuple[Reach, ...]:
    if not sanitizer.sent:
        return ()
    beyond, usual = sanitizer.beyond, sanitizer.usual
    return tuple(
        Reach(
            name,
            float(low),
            float(high),
            1.0 if low >= high else None if beyond is None else float(beyond[k]),
            None if usual is None else (float(usual[0][k]), float(usual[1][k])),
        )
        for k, (name, low, high) in enumerate(zip(names, *sanitizer.reach, strict=True))
    )


def _too_often(reaches: tuple[Reach, ...]) -> list[str]:
    """Limits within what readings do: the message then tells on which side of them a reading is."""
    if sum(each.beyond or 0.0 for each in reaches) <= MOST_BEYOND:
        return []
    most = [each.reading for each in reaches if (each.beyond or 0.0) > MOST_BEYOND / len(reaches)]
    return [
        f"under the model, {join_names(most)} would be clipped in more than 1 row in {1 / MOST_BEYOND:,.0f}, or "
        "always; messages may then show at which limit, and no promise covers such rows"
    ]


def _packed(sanitizer: Sanitizer, names: list[str]) -> tuple[list[str], list[str]]:
    """Readings in the low digits of others, of its row or of rows before it."""
    ranges = _ranges(sanitizer)
    if sanitizer.memory is None:
        return packed(sanitizer, names, ranges)
    rows = min(1 + fading(sanitizer, LEGIBLE), max(1, _MOST_COLUMNS // sanitizer.readings))
    ages = ["", *(f" of {counted(age, 'row')} before" for age in range(1, rows))]
    all_names = [f"{name}{age}" for age in ages for name in names]
    return packed(unrolled(sanitizer, rows), all_names, np.tile(ranges, rows), fades=True)


def _on_step(sanitizer: Sanitizer) -> list[str]:
    """How often something is sent at most, where the plan says so."""
    if sanitizer.step is None or not sanitizer.sent:
        return []
    # an origin of 0 is where steps begin anyway
    every = duration_in_words(
        sanitizer.step if getattr(sanitizer.step, "origin", None) else float(sanitizer.step)
    )
    if sanitizer.memory is not None:
        return [f"its rows are {every} apart: 'veilnet agent' sends a reading every {every} at most"]
    return [f"a reading every {every} at most is sent by 'veilnet agent', where readings carry times"]


def _on_memory(sanitizer: Sanitizer, of_row: Sanitizer, exposures: tuple[Exposure, ...]) -> list[str]:
    """What stays with the agent, for how long what is sent depends on a reading, and what an empty memory shows."""
    if sanitizer.memory is None:
        return []
    left = fading(sanitizer)
    bare = [
        each.reading
        for each, in_first in zip(
            exposures, _exposures([each.reading for each in exposures], of_row), strict=True
        )
        if each.kind != "exactly" and in_first.kind == "exactly"
    ]
    first = "in the very first row, before the memory holds anything,"
    return [
        *([f"{first} {join_names(bare)} can be recovered exactly"] if bare else []),
        f"it keeps a memory of {counted(sanitizer.order, 'number')}, in a file as private as the readings; a reading "
        + (
            f"noticeably affects what is sent for {left} more rows"
            if left
            else "affects what is sent in its row alone"
        ),
    ]


def _exposures(names: list[str], sanitizer: Sanitizer) -> tuple[Exposure, ...]:
    """What can be recovered of each reading: from its row or, where there is a memory, from all rows."""
    rows, noisy = sanitizer.normal
    whole = frequency_responses(sanitizer, rows)
    exact, outside = whole[:, ~noisy], _OUTSIDE if sanitizer.memory is None else _OUTSIDE_OF_MANY
    found = []
    for place, name in enumerate(names):
        if not np.any(np.abs(whole[:, :, place]) > 0):
            found.append(Exposure(name, "withheld"))
        elif (
            exact.shape[1] and recoverable(exact, np.zeros(exact.shape[1], bool), place, outside) is not None
        ):
            found.append(Exposure(name, "exactly"))
        else:
            error = recoverable(whole, noisy, place, outside)
            found.append(
                Exposure(name, "mixed with others") if error is None else Exposure(name, "with noise", error)
            )
    return tuple(found)


def _raw(exposures: tuple[Exposure, ...], noisy: Booleans) -> list[str]:
    exact = [exposure.reading for exposure in exposures if exposure.kind == "exactly"]
    if not exact:
        return []
    if len(exact) == len(exposures):
        count = int(np.sum(~noisy))
        return [
            f"EVERY raw reading can be recovered exactly: {count} independent numbers are sent without noise for "
            f"{len(exposures)} readings"
        ]
    return [f"raw readings can be recovered exactly: {join_names(exact)}"]


def _nearly_raw(exposures: tuple[Exposure, ...], sanitizer: Sanitizer) -> tuple[list[str], list[str]]:
    """Readings whose noise hides next to nothing, and a note on those where nothing tells whether it does.

    Each is judged by its own range, or else by its resolution, or else in its own unit.
    """
    ranges = _ranges(sanitizer)
    found: list[str] = []
    unsure: list[str] = []
    for exposure, reach, step in zip(exposures, ranges.tolist(), sanitizer.steps.tolist(), strict=True):
        if exposure.error is None:
            continue
        shown = f"{exposure.reading} (±{number(exposure.error)}"
        if np.isfinite(reach):
            if exposure.error < _NEGLIGIBLE * reach:
                found.append(f"{shown} of a range of {number(reach)})")
        elif step > 0 and exposure.error < _PART_OF_STEP * step:
            found.append(f"{shown} of a resolution of {number(step)})")
        elif exposure.error < _TINY:
            found.append(f"{shown} in its own unit; the file states no limits)")
        else:
            unsure.append(f"{shown})")
    alarms = [f"the noise hides next to nothing of {join_names(found)}"] if found else []
    if not unsure:
        return alarms, []
    note = (
        f"whether the noise hides enough of {join_names(unsure)} is for you to judge, in units of the reading: the "
        "file states no limits"
    )
    return alarms, [note]


def _on_resolution(sanitizer: Sanitizer, noisy: Booleans, exposures: tuple[Exposure, ...]) -> list[str]:
    """Exact numbers protect continuous readings only, unless readings are dithered first."""
    said = []
    if sanitizer.dithers:
        widths = [
            f"{name} (±{number(width / 2)})"
            for name, width in zip(sanitizer.labels, sanitizer.dither_width.tolist(), strict=True)
            if width > 0
        ]
        said = [f"readings are dithered before they are combined: {join_names(widths)}"]
    # A reading that is recovered exactly anyway has nothing left that dither could protect.
    whole = np.array([exposure.kind == "exactly" for exposure in exposures])
    covered = (sanitizer.dither > 0) | whole
    if np.all(noisy) or (sanitizer.resolution is not None and np.all(covered)):
        return said
    stated = (
        "states no resolution" if sanitizer.resolution is None else "says that some readings are continuous"
    )
    return [
        *said,
        "numbers sent exactly protect only readings that are continuous: a sensor that rounds (to 0.1 °C, say) gives "
        f"combinations that can name its raw readings, unless they are dithered; this file {stated}",
    ]


def _ranges(sanitizer: Sanitizer) -> Array:
    """Of each reading, from its limits; nan where it has none."""
    low, high = sanitizer.edges
    ranges = high - low
    return np.asarray(np.where(np.isfinite(ranges) & (ranges > 0), ranges, np.nan))


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
