"""What an attacker who remembers is shown of the rows around one: near ones one by one, far ones as means of several.

Rows of a log are alike, so that what a far row tells beside its neighbours is little: a ridge on these means reaches
what one on all rows from 72 before to 12 after reaches, from a third of the numbers (a test compares them).
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array, Integers

Span = tuple[int, int]
"""The rows from the first to the second of these, counted from the row itself: (-3, -1) are the three before it."""

_FINE = (1, 2, 3, 4, 5, 6, 9, 12, 18, 24, 36, 48, 72)  # where spans end, on either side
_COARSE = (1, 3, 7, 15, 31, 72)  # the same, where a row has many numbers
FARTHEST = _FINE[-1]
"""So many rows away an attacker looks at most."""
_MOST_FEATURES = 500
ROWS_A_LAG = 40
"""So many rows of a log to learn from allow an attacker to look one row further."""


def spans_for(reach: int, numbers: int) -> tuple[Span, ...]:
    """The spans an attacker is shown beside the row itself, within so many rows on either side.

    numbers: of each row; where there are many, spans are wider, then fewer.
    """
    most = _MOST_FEATURES // max(1, numbers) - 1
    for ends in (_FINE, _COARSE):
        reached = [end for end in ends if end <= reach]
        spans = _spans(reached)
        if len(spans) <= most:
            break
    return spans[: max(2, most // 2 * 2)]  # as far before the row as after it


def reach_of(spans: tuple[Span, ...]) -> int:
    """How many rows away the farthest row of these spans is."""
    return max((max(-first, last) for first, last in spans), default=0)


def _spans(ends: list[int]) -> tuple[Span, ...]:
    """Spans that end so far away, before and after the row, the nearest first."""
    begins = [1, *(end + 1 for end in ends)]
    pairs = zip(begins, ends, strict=False)
    return tuple(span for begin, end in pairs for span in ((-end, -begin), (begin, end)))


def around(values: Array, places: Integers, spans: tuple[Span, ...]) -> Array:
    """(..., T, features): the numbers of each row, and their means over every span around it.

    values: (..., T, numbers); places: (T,) the number of each row in its log, ascending. Of rows that are not there
    nothing is counted; a span without any is shown as the row itself.
    """
    count = int(places[-1] - places[0]) + 1
    at = places - places[0]
    level = np.mean(values, axis=-2, keepdims=True)
    sums = np.zeros((*values.shape[:-2], count + 1, values.shape[-1]))
    sums[..., at + 1, :] = values - level
    np.cumsum(sums, axis=-2, out=sums)
    there = np.zeros(count + 1)
    there[at + 1] = 1.0
    there = np.cumsum(there)
    shown = [values]
    for first, last in spans:
        low, high = (np.clip(at + each, 0, count) for each in (first, last + 1))
        rows = (there[high] - there[low])[:, None]
        means = (sums[..., high, :] - sums[..., low, :]) / np.maximum(rows, 1.0) + level
        shown.append(np.where(rows > 0, means, values))
    return np.concatenate(shown, axis=-1)
