"""Sums over windows of rows, each twice as long as the one before, and what windows of one length were like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Integers

__all__ = ["Keys", "Level", "Windows"]

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
        old = self._waiting
        every = Windows(
            np.concatenate([old.sums, new.sums]),
            np.concatenate([old.squares, new.squares]),
            np.concatenate([old.since, new.since]),
            np.concatenate([old.until, new.until]),
        )
        even = len(every.since) // 2 * 2
        self._waiting = Windows(
            every.sums[even:], every.squares[even:], every.since[even:], every.until[even:]
        )
        return Windows(
            every.sums[0:even:2] + every.sums[1:even:2],
            every.squares[0:even:2] + every.squares[1:even:2],
            every.since[0:even:2],
            every.until[1:even:2],
        )
