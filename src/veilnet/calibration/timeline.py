"""When the rows were measured: their order, the step between them, where rows are missing or repeated.

A log that was shuffled, or that two exports were pasted into, looks like independent rows: everything that tells
neighbours from strangers (effective rows, held-out blocks, dynamics) needs the rows in order of time and needs to
know which of them really follow one another. Neighbours are rows one step apart; a *segment* is a run of neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from veilnet._core.durations import RowStep, nearest_round, origin_of
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Integers

_GAP = 1.5  # steps from one row to the next above which rows are missing between
_NEAR = 0.1  # of a step, by which a row may come sooner or later than after whole steps
_FEW_STEPS = 10  # more are a break, after which rows need not go on in step
_IN_STEP = 0.9  # part of the rows that come after few whole steps where a log has a step at all
_FIRST_DATE = 1e8  # seconds of 1970 above which numbers are shown as dates (March 1973)


@dataclass(frozen=True)
class TimeReport:
    """What a column of times says of the rows.

    column:       its name in the table.
    first, last:  seconds of the first and the last row in order of time.
    step:         seconds from one row to the next: the median.
    out_of_order: rows that stand after one that is later than they are.
    gaps:         how often the next row comes after more than one and a half steps.
    longest_gap:  seconds of the longest of them, 0 where there is none.
    missing_rows: how many rows would fill the gaps.
    duplicates:   rows left out, since an earlier line has the same time.
    differing:    how many of these differ from the row they repeat.
    in_step:      the part of the rows that come a few whole steps after the one before, give or take a tenth.
    stated:       the step as a plan states it, with when rows are read where that is known; None where there is none.
    """

    column: str
    first: float
    last: float
    step: float
    out_of_order: int
    gaps: int
    longest_gap: float
    missing_rows: int
    duplicates: int
    differing: int
    in_step: float = 1.0
    stated: RowStep | None = None

    @property
    def is_regular(self) -> bool:
        """Whether nine rows of ten keep to the step, so that it says more than a median of anything."""
        return self.in_step >= _IN_STEP

    def __str__(self) -> str:
        parts = [
            f"By {self.column!r}: {date_or_seconds(self.first)} to {date_or_seconds(self.last)}, "
            f"a row every {duration(self.step)}"
        ]
        if not self.is_regular:
            parts[0] += f" (the median: only {self.in_step:.0%} of the rows keep to it, so they have no step)"
        if self.out_of_order:
            parts.append(f"{self.out_of_order} rows were out of order and have been sorted")
        if self.gaps:
            gaps = "1 gap" if self.gaps == 1 else f"{self.gaps} gaps, the longest"
            parts.append(f"{gaps} of {duration(self.longest_gap)} ({self.missing_rows} rows missing)")
        else:
            parts.append("no gaps")
        if self.duplicates:
            differing = (
                f", {self.differing} of which differ from the row they repeat" if self.differing else ""
            )
            parts.append(f"{self.duplicates} repeated times left out{differing}")
        return "; ".join(parts) + "."


@dataclass(frozen=True, eq=False)
class Timeline:
    """The rows in order of time.

    order:    which rows to take, in order of time, repeated times left out.
    segments: the segment each of these rows belongs to, from 0, never falling.
    report:   what was found.
    """

    order: Integers
    segments: Integers
    report: TimeReport


def timeline(seconds: Array, numbers: Array, column: str, groups: Integers | None = None) -> Timeline:
    """The order and the segments of rows by their times.

    seconds: when each row was measured, no value missing; numbers: (T, columns), to tell copies from conflicts;
    column: where the times came from; groups: (T,) which rows belong together, those of one before those of the next,
    and no segment goes from one to the next.
    """
    groups = np.zeros(len(seconds), np.intp) if groups is None else groups
    order = np.lexsort((seconds, groups))
    sorted_times = seconds[order]
    repeats = np.concatenate([[False], (np.diff(sorted_times) == 0) & (np.diff(groups[order]) == 0)])
    kept = order[~repeats]
    first_of = np.cumsum(~repeats) - 1
    differing = np.any(numbers[order] != numbers[kept[first_of]], axis=1) & repeats
    times = seconds[kept]
    if times.size < 2:
        raise InvalidNetwork(
            f"time: every row of the column {column!r} has the same time; give the column that tells when rows "
            "were measured, or leave time= out"
        )
    others = np.diff(groups[kept]) != 0
    every, steps = np.diff(times), np.diff(times)[~others]
    if not steps.size:
        raise InvalidNetwork(f"time: no group has two times in the column {column!r}; leave time= out")
    step = float(np.median(steps))
    cut = others | (every > _GAP * step)
    apart = steps > _GAP * step
    count = np.round(steps / step)
    near = (np.abs(steps / step - count) <= _NEAR) & (count >= 1) & (count <= _FEW_STEPS)
    in_turn = [seconds[groups == each] for each in np.unique(groups)]
    in_step = float(np.mean(near))
    length = nearest_round(step) if in_step >= _IN_STEP else None
    return Timeline(
        np.asarray(kept, np.intp),
        np.concatenate([[0], np.cumsum(cut)]).astype(np.intp),
        TimeReport(
            column=column,
            first=float(np.min(times)),
            last=float(np.max(times)),
            step=step,
            out_of_order=sum(int(np.sum(each < np.maximum.accumulate(each))) for each in in_turn),
            gaps=int(np.sum(apart)),
            longest_gap=float(np.max(steps[apart], initial=0.0)),
            missing_rows=int(np.sum(np.round(steps[apart] / step) - 1)),
            duplicates=int(np.sum(repeats)),
            differing=int(np.sum(differing)),
            in_step=in_step,
            stated=None if length is None else RowStep(length, origin_of(times.tolist(), length)),
        ),
    )


def date_or_seconds(seconds: float) -> str:
    """A date where seconds count from 1970, else a plain number."""
    if not _FIRST_DATE < seconds < 1e11:
        return f"{seconds:g} s"
    shown = datetime.fromtimestamp(seconds, UTC)
    return shown.strftime("%Y-%m-%d %H:%M:%S" if shown.second else "%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days, whichever reads best."""
    for size, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            count = f"{seconds / size:.3g}"
            return f"{count} {name}" if count == "1" else f"{count} {name}s"
    return f"{seconds:.3g} s"
