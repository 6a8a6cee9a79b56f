"""Rows to learn from and rows to be judged on, in contiguous stretches of time; and what attackers remember.

Neighbouring rows are alike. An attacker who has learned from the row before and the row after knows the one between
without any message, so rows are never dealt out at random: each of four stretches is judged by an attacker who
learned from the other three, less the rows next to it. Of a log that is sorted by class, a stretch would be all of
one class, and nobody could have learned it: such a log is cut within each class.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array, Integers

STRETCHES = 4
_WINDOWS = (5, 15, 60)
_OF_WINDOWS = ("mean", "slope", "spread")
_MOST_FEATURES = 120
_MOST_VALUES = 20  # of a column that counts as classes


@dataclass(frozen=True, eq=False)
class Stretch:
    """Places of rows: to learn from, and to be judged on."""

    learned: Integers
    judged: Integers


def blocks_of(
    count: int, parts: int, columns: NDArray[Any] | None = None, groups: Integers | None = None
) -> list[Integers]:
    """Rows in ``parts`` contiguous blocks; where one of them would have all rows of a class, so many of each class.

    columns: (count,) or (count, k); those of a few values tell which class a row is of. None: no classes.
    groups:  (count,) the group of each row, from 0; no group is cut, and there are no more blocks than groups.
    """
    if groups is not None:
        return _of_groups(groups, parts)
    blocks = np.array_split(np.arange(count), parts)
    if columns is None:
        return blocks
    table = columns.reshape(count, -1)
    table = table[:, [len(np.unique(each)) <= min(_MOST_VALUES, count // parts) for each in table.T]]
    if not any(_kept_to_one(each, blocks) for each in table.T):
        return blocks
    found, classes = np.unique(table, axis=0, return_inverse=True)
    if len(found) * parts > count:
        return blocks
    dealt = [np.array_split(np.flatnonzero(classes.ravel() == each), parts) for each in range(len(found))]
    return [np.sort(np.concatenate([each[place] for each in dealt])) for place in range(parts)]


def _of_groups(groups: Integers, parts: int) -> list[Integers]:
    """Whole groups, the largest first, each to the block that has the fewest rows."""
    sizes = np.bincount(groups)
    block_of = np.zeros(len(sizes), np.intp)
    rows = np.zeros(min(parts, len(sizes)), np.intp)
    for group in np.argsort(-sizes, kind="stable"):
        block_of[group] = int(np.argmin(rows))
        rows[block_of[group]] += sizes[group]
    return [np.flatnonzero(block_of[groups] == block) for block in range(len(rows))]


def _kept_to_one(column: NDArray[Any], blocks: list[Integers]) -> bool:
    """Whether a column is sorted, and has a value that occurs in one block alone, or no block with two values."""
    values, spells = len(np.unique(column)), 1 + int(np.count_nonzero(np.diff(column)))
    if spells > 2 * values:  # values come and go: one that does so in a single block is rare, not sorted
        return False
    found = [set(np.unique(column[each]).tolist()) for each in blocks]
    times = Counter(value for each in found for value in each)
    return min(times.values()) < 2 or max(map(len, found)) < 2


def stretches_of(
    count: int, apart: int, classes: Integers | None = None, groups: Integers | None = None
) -> list[Stretch]:
    """Four stretches of ``count`` rows, each at least ``apart`` rows away from those that are learned from for it.

    classes: (count,) which value each row has, where values are to be distinguished; groups: as of
             :func:`blocks_of`.
    """
    apart = max(apart, count // 100)
    found = []
    for judged in blocks_of(count, STRETCHES, classes, groups):
        # +1 where rows next to a judged one begin, -1 where they end
        near = np.zeros(count + 1, dtype=np.intp)
        np.add.at(near, np.maximum(judged - apart, 0), 1)
        np.add.at(near, np.minimum(judged + apart + 1, count), -1)
        found.append(Stretch(np.flatnonzero(np.cumsum(near[:-1]) == 0), judged))
    return found


def windows_for(count: int, numbers: int) -> tuple[int, ...]:
    """How many rows back the windows of an attacker with memory reach: as many as there are rows and readings for."""
    most = max(0, (_MOST_FEATURES // max(1, numbers) - 1) // len(_OF_WINDOWS))
    return tuple(length for length in _WINDOWS if length <= count // 40)[:most]


def windowed(values: Array, segments: Integers, lengths: tuple[int, ...]) -> Array:
    """(T, features): each row, and mean, slope and spread of the rows up to it, in windows of these lengths.

    segments: (T,) the run of neighbouring rows that each belongs to; a window that would begin before it is shorter.
    """
    firsts = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1) != 0)
    places = np.arange(len(values))
    since = places - firsts[np.searchsorted(firsts, places, side="right") - 1]
    moved = values - np.mean(values, axis=0)
    clock: Array = (places - len(values) / 2)[:, None].astype(np.float64)
    sums = [_summed(each) for each in (moved, moved**2, clock * moved, clock, clock**2)]
    features = [values]
    for length in lengths:
        rows = np.minimum(length, since + 1)
        mean, square, product, time, times = (
            (each[places + 1] - each[places + 1 - rows]) / rows[:, None] for each in sums
        )
        spread = np.maximum(times - time**2, 1.0 / 12)  # of the clock, 0 for one row
        slope = (product - time * mean) / spread
        features += [mean, slope, np.sqrt(np.maximum(square - mean**2, 0.0))]
    return np.concatenate(features, axis=1)


def _summed(values: Array) -> Array:
    """Sums of the first 0, 1, .. T rows."""
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
