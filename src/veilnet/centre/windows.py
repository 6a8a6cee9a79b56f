"""Sums over windows of rows, each twice as long as the one before, and what windows of one length were like.

The mean of a window may be off although the model is true, as rows may depend on one another. Of W rows of the model,
f numbers each, the mean has variance 1 / W in every direction where rows are independent, and up to 1 where they
hardly change within the window. Three things tell how much it is.

1. *Independence.* Over n windows of every length, Σ |sum|² / W is chi-square with n f degrees of freedom. While that
   holds at all lengths seen, after 128 of the shortest windows and more, and rows move within these as much as the
   model says, the variance is 1 / W.
2. *What moves within windows does not move their means.* One number has variance 1 in the model, however slow it is.
   So a window's mean has the variance 1 - E (1 / W) Σ (r - mean)², at most f times that of f numbers on average. What
   moves within windows is seen often, also where the means hardly move at all.
3. *The windows before.* n of them tell the variance of their means as n_e independent ones would, with ρ the
   correlation of neighbours and I the scatter of sums over longest windows against that over these ones,

       n_e >= n / (1 + ρ (I - 1)),    since 2 Σ ρ_k² <= ρ · 2 Σ ρ_k for correlations that are positive and fall.

   The square of a mean in units of a variance known by n_e windows is Student's, whose quantile is about
   n_e (exp(q / n_e) - 1) where that of the chi-square is q.

Where the first does not hold, the smaller of the second and third is taken. Nothing else about the dependence is
assumed; a change that is smaller than what such rows do by themselves is not noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans, Integers

_MOST_CARRIED = 0.95  # from window to window

Keys = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass
class Windows:
    """Sums of residuals and, per group, of their squares, with the keys of each window's ends."""

    sums: Array
    squares: Array
    since: Keys
    until: Keys


class Moments:
    """Mean and variance of what one number of each group was in window after window."""

    def __init__(self, groups: int) -> None:
        self.count = 0
        self._sum, self._squares, self._products = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self._last = np.zeros((0, groups))

    @property
    def mean(self) -> Array:
        """Of each group."""
        return self._sum / max(1, self.count)

    @property
    def variance(self) -> Array:
        """Of each group, from window to window."""
        return np.maximum(self._squares / max(1, self.count) - self.mean**2, 0.0)

    @property
    def error(self) -> Array:
        """Deviation of each group's mean, windows that follow one another being alike."""
        few = max(2, self.count)
        alike = (self._products / (few - 1) - self.mean**2) / np.maximum(self.variance, 1e-300)
        carried = np.clip(alike + 1 / np.sqrt(few), 0.0, _MOST_CARRIED)
        return np.asarray(np.sqrt(self.variance / few * (1 + carried) / (1 - carried)))

    def add(self, values: Array) -> None:
        """Count some windows in, (windows, groups)."""
        both = np.concatenate([self._last, values])
        self._products += np.sum(both[1:] * both[:-1], axis=0)
        self._last = both[-1:]
        self.count += len(values)
        self._sum += values.sum(axis=0)
        self._squares += (values**2).sum(axis=0)


class Level:
    """Windows of one length: what waits for its partner, and what all of them so far were like.

    scatter: mean squares of residuals about each window's mean; 1 in the model where rows are independent, and less
             where they are slow.
    sums_squared: Σ sum sum' over windows; power: its trace over each group; follows: the same of neighbours.
    """

    def __init__(self, group: Integers, groups: int) -> None:
        columns = len(group)
        self._member = np.eye(groups)[group]
        self.power, self.follows = np.zeros(groups), np.zeros(groups)
        self._last = np.zeros((0, columns))
        self.count = 0
        self.begun: int | None = None
        self.sums_squared = np.zeros((columns, columns))
        self.scatter = Moments(groups)
        none: Keys = np.zeros(0, dtype=np.int64)
        self._waiting = Windows(np.zeros((0, columns)), np.zeros((0, groups)), none, none)

    def add(self, sums: Array, scatter: Array, since: int) -> None:
        """Remember some windows."""
        self.begun = since if self.begun is None else self.begun
        self.count += len(sums)
        self.sums_squared += sums.T @ sums
        both = np.concatenate([self._last, sums])
        self.follows += np.sum(both[1:] * both[:-1], axis=0) @ self._member
        self.power += np.sum(sums**2, axis=0) @ self._member
        self._last = both[-1:]
        self.scatter.add(scatter)

    def paired(self, new: Windows) -> Windows:
        """Windows of twice the length."""
        every = [
            np.concatenate(both)
            for both in zip(vars(self._waiting).values(), vars(new).values(), strict=True)
        ]
        even = len(every[0]) // 2 * 2
        self._waiting = Windows(*(each[even:] for each in every))
        sums, squares, since, until = (each[:even] for each in every)
        return Windows(sums[::2] + sums[1::2], squares[::2] + squares[1::2], since[::2], until[1::2])


HISTORY = 32  # windows, before what they say is believed
_FEW = 2  # windows of a length, before its sums are held against independence
_MANY = 128  # of the shortest windows, before rows are taken to be independent
_SURE = 1.64  # deviations, 5 %: what independent rows exceed so seldom
_UNCERTAIN = 3.0  # deviations by which a variance is raised for how well it is known
_MOST = 600.0  # of an exponent


def independent(levels: Sequence[Level], lengths: Sequence[int], freedom: Integers) -> Booleans:
    """Per group, whether rows may be taken to be independent: sums over windows of any length scatter no more than
    theirs, and rows move within the shortest windows as much as the model says.
    """
    if levels[0].count < _MANY:
        return np.zeros(len(freedom), bool)
    within = levels[0].scatter
    found = within.mean > 1.0 - 1.0 / lengths[0] - _UNCERTAIN * within.error
    for level, length in zip(levels, lengths, strict=True):
        if level.count >= _FEW:
            count = level.count * np.maximum(freedom, 1)
            # Wilson and Hilferty's quantile of the chi-square
            most = count * (1 - 2 / (9 * count) + _SURE * np.sqrt(2 / (9 * count))) ** 3
            found &= level.power / length <= most
    return found


def swelling(
    levels: Sequence[Level],
    lengths: Sequence[int],
    place: int,
    freedom: Integers,
    widest: Array,
    limits: Array,
) -> Array:
    """Per group, by what the limits of independent rows are to be multiplied.

    place: which of the levels; widest: per group, the variance of a sum over a window in its widest direction, over
    that of independent rows, as the windows before show it; limits: of |sum|² / W, per group.
    """
    level, length = levels[place], lengths[place]
    slow = np.ones(len(freedom))
    if level.count >= HISTORY:
        slow = 1.0 - (length - 1) / length * level.scatter.mean + _UNCERTAIN * level.scatter.error
    bound = length * np.minimum(1.0, np.maximum(freedom, 1) * np.maximum(slow, 1.0 / length))
    scatter = level.power / (level.count * length)
    longest = np.max(
        [one.power / (one.count * its) for one, its in zip(levels, lengths, strict=True) if one.count], axis=0
    )
    follows = np.clip(level.follows / np.maximum(level.power, 1e-300) + 2 / np.sqrt(level.count), 0.0, 1.0)
    effective = level.count / (1 + follows * np.maximum(longest / np.maximum(scatter, 1e-300) - 1, 0.0))
    student = effective * np.expm1(np.minimum(limits / effective, _MOST)) / limits
    return np.asarray(np.maximum(1.0, np.minimum(bound, widest * student)))
