"""Which rows a network was fitted to, kept as a few hashes that only who guesses sixteen rows at once can open.

An audit on the rows of the fit flatters the model, so it has to notice them, also where they are only a part of the
table it is given. The rows are cut into runs where their own numbers say so, and the same runs come out of every
table that contains them in the same order. A hash is of a run of at least 16 rows, never of a single row, whose
readings could be found by trying values; a table of fewer rows leaves none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Booleans

_SHORTEST = 16  # rows of a run
_RUN = 32  # one row in so many may end a run
_KEPT = 16  # hashes, spread evenly over the table
_MARK = re.compile(r"[0-9a-f]{16}")
_ODD = 0x9E3779B97F4A7C15  # a multiplier that mixes bits


def marks_of(readings: Array) -> tuple[str, ...]:
    """A few hashes of runs of the rows (T, N), in the order of the table."""
    marks = all_marks(readings)
    places = np.unique(np.linspace(0, len(marks) - 1, min(_KEPT, len(marks))).round().astype(int))
    return tuple(marks[place] for place in places)


def fitted_again(marks: Sequence[str], readings: Array) -> float:
    """Which part of the marks is found again in these rows; 0 where there are none."""
    return len(set(marks) & set(all_marks(readings))) / len(set(marks)) if marks else 0.0


def within_the_fit(marks: Sequence[str], readings: Array) -> bool:
    """Whether these rows begin and end as those of the fit do, so that all of them are among those."""
    mine = all_marks(readings)
    return bool(mine) and {mine[0], mine[-1]} <= set(marks)


def read_marks(marks: Any) -> tuple[str, ...]:
    """The marks of a network, as :func:`marks_of` makes them."""
    if isinstance(marks, str) or not isinstance(marks, Sequence):
        raise InvalidNetwork(f"fitted_rows: expected a list of hashes, found {marks!r}")
    for mark in marks:
        if not isinstance(mark, str) or not _MARK.fullmatch(mark):
            raise InvalidNetwork(f"fitted_rows: expected hashes of 16 hexadecimal digits, found {mark!r}")
    return tuple(marks)


def all_marks(readings: Array) -> list[str]:
    """A hash of every run of the rows (T, N)."""
    found, rest = runs_of(readings)
    return found + marks_of_run(rest)


def runs_of(readings: Array, *, distinct: int = 1) -> tuple[list[str], Array]:
    """(a hash of every run of the rows (T, N) in which at least so many rows differ, the rows after the last one)."""
    found: list[str] = []
    start = 0
    ends = _ends(np.ascontiguousarray(readings + 0.0, dtype="<f8"))
    for stop in (np.flatnonzero(ends) + 1).tolist():
        if stop - start >= _SHORTEST:
            found += marks_of_run(readings[start:stop], distinct=distinct)
            start = stop
    return found, readings[start:]


def marks_of_run(run: Array, *, distinct: int = 1) -> list[str]:
    """The hash of a run of rows; none of a short one, nor where fewer rows differ."""
    rows = np.ascontiguousarray(run + 0.0, dtype="<f8")
    if len(rows) < _SHORTEST or (distinct > 1 and len(np.unique(rows, axis=0)) < distinct):
        return []
    return [hashlib.sha256(rows.tobytes()).hexdigest()[:16]]


def _ends(rows: Array) -> Booleans:
    """The rows that may end a run, by their own numbers."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.view("<u8").T:
        mixed = (mixed ^ column) * np.uint64(_ODD)
        mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed % np.uint64(_RUN) == 0)
