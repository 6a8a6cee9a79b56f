"""What a row of a filter comes to, and the steady state that it may be near (:mod:`veilnet.centre.streams.gains`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from veilnet._core.bounded import Bounded
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.streams.model import FilterRow

MOST_ROWS = 1024  # patterns that are remembered


@dataclass(eq=False)
class Stated:
    """What a row of the filter says of the public rows.

    row:    what its pattern makes of it.
    public: covariance of the error of the public rows; ``estimable`` which of them are known at all.
    """

    row: FilterRow
    public: Array
    estimable: Booleans

    @property
    def pattern(self) -> Any:
        """Of the row."""
        return self.row.pattern


@dataclass(eq=False)
class CarriedError(Stated):
    """The error after a row, from which the next goes on.

    near:   the steady state that the error is counted from; None where it is carried whole.
    factor, middle: L and M after the row; ``cut`` how many columns L had when it was last cut to what counts.
    whole:  the error where it is carried whole.
    age:    rows since the start, ``alike`` those of its own pattern up to it.
    """

    near: SteadyRow | None = None
    factor: Array = field(default_factory=lambda: np.zeros((0, 0)))
    middle: Array = field(default_factory=lambda: np.zeros((0, 0)))
    cut: int = 0
    whole: Array | None = None
    age: int = 1
    alike: int = 1

    @cached_property
    def error(self) -> Array:
        """Covariance of X after the row."""
        if self.near is None:
            assert self.whole is not None
            return self.whole
        return np.asarray(self.near.after + self.factor @ self.middle @ self.factor.T)

    @property
    def settled(self) -> bool:
        """Whether the error after the row is that of a steady state."""
        return self.near is not None and not self.factor.shape[1]


@dataclass(eq=False, kw_only=True)
class Step(CarriedError):
    """One row of the filter: b = transition X̂ + drive, then X̂ = b + gain (z_arrived - expected - observe b).

    news:   covariance of what is new in the numbers that arrived; ``inverse`` its inverse, where it was formed.
    """

    gain: Array
    news: Array
    inverse: Array | None = None

    @cached_property
    def left(self) -> Array:
        """I - gain observe."""
        return np.asarray(np.eye(len(self.gain)) - self.gain @ self.row.observe)

    @cached_property
    def forward(self) -> Array:
        """How the estimate before the row enters the one after it."""
        return np.asarray(self.left @ self.row.transition)

    @cached_property
    def ahead(self) -> Array:
        """observe transition: what the state before the row makes expect of its numbers."""
        return np.asarray(self.row.observe @ self.row.transition)

    @cached_property
    def constant(self) -> Array:
        """What the estimate moves by whatever arrives."""
        return np.asarray(self.left @ self.row.drive)

    @cached_property
    def pull(self) -> Array:
        """observe' news^-1: how what is new in a row pulls at the state before it."""
        return np.asarray(np.linalg.solve(self.news, self.row.observe).T)


@dataclass(eq=False)
class SteadyRow:
    """The filter where one pattern comes for ever.

    row:    of the pattern, ``gain`` its gain.
    before: error of X before a row; ``after`` after it.
    public: error of the public rows.
    observe: C of all numbers there are, each in units ``spread`` of its deviation here, (m, n).
    cross:  P C' and ``news`` C P C' + R of these.
    units:  deviations of X, as far as rounding lets them be known.
    """

    row: FilterRow
    gain: Array
    before: Array
    after: Array
    public: Array
    spread: Array
    observe: Array
    cross: Array
    news: Array
    units: Array
    step: Step | None = None
    _places: Bounded[tuple[Integers, ...]] = field(default_factory=lambda: Bounded(MOST_ROWS))

    def is_at(self, error: Array, part: float) -> bool:
        """Whether an error after a row is the steady one, up to a part of the deviations of X."""
        return bool(np.all(np.abs(error - self.after) <= part * np.outer(self.units, self.units)))

    def places(self, row: FilterRow) -> tuple[Integers, ...]:
        """Numbers that arrive here or in a row; of these, the ones here, those in the row, only here, only there."""
        return self._places.get(row.pattern, partial(self._compared, row))

    def _compared(self, row: FilterRow) -> tuple[Integers, ...]:
        both = np.union1d(self.row.arrived, row.arrived)
        here, there = np.isin(both, self.row.arrived), np.isin(both, row.arrived)
        return (both, *map(np.flatnonzero, (here, there, here & ~there, there & ~here)))
