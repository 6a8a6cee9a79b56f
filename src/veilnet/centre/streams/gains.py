"""What each row tells a filter: gains and errors, which depend on who sent and not on what.

The error covariance after a row follows from that before and from the row's pattern: whose numbers arrived, and who
said that its reading was missed (its memory then began anew). Patterns repeat, so each step is worked out
once and remembered as a path of :class:`Step` objects: where the errors have settled, under one pattern for long
enough, the path closes in a circle and a row costs no more than a product.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from veilnet._core.linalg import EPS
from veilnet._core.types import Array, Booleans
from veilnet.bounds.streams.riccati import updated
from veilnet.centre.streams.model import FilterRow

# An error that changes by less than this part of itself from one row to the next has settled.
_SETTLED = 1e-12
# Numbers that nothing new enters still count as rounded by this part of their deviation, squared.
_ROUNDING = 1e-14
_MOST_STEPS = 1024
_MOST_BYTES = 2**27  # that steps take, which are fewer where the state is large
_BYTES_PER_STEP = 6 * 8  # for each pair of numbers of the state
# Of a first x of which nothing is known: what is not at least so much better known by now is not known.
_STILL_VAGUE = 1e-3


@dataclass(eq=False)
class Step:
    """One row of the filter: b = transition X̂ + drive, then X̂ = b + gain (z_arrived - expected - observe b).

    row:    what its pattern makes of it.
    news:   covariance of what is new in the numbers that arrived.
    left:   I - gain observe.
    error:  covariance of X after the row.
    public: covariance of the error of the public rows; ``estimable`` which of them are known at all.
    follow: the steps after it, by pattern.
    """

    row: FilterRow
    gain: Array
    news: Array
    left: Array
    error: Array
    public: Array
    estimable: Booleans
    follow: dict[Hashable, Step] = field(default_factory=dict)

    @property
    def pattern(self) -> Any:
        """Of the row."""
        return self.row.pattern

    @cached_property
    def forward(self) -> Array:
        """How the estimate before the row enters the one after it."""
        return np.asarray(self.left @ self.row.transition)

    @cached_property
    def constant(self) -> Array:
        """What the estimate moves by whatever arrives."""
        return np.asarray(self.left @ self.row.drive)

    @cached_property
    def pull(self) -> Array:
        """observe' news^-1: how what is new in a row pulls at the state before it."""
        return np.asarray(np.linalg.solve(self.news, self.row.observe).T)

    @property
    def settled(self) -> bool:
        """Whether another row of the same pattern is this step again."""
        return self.follow.get(self.pattern) is self


class Filterable(Protocol):
    """What can be filtered: a linear system whose rows come in patterns, of a stream's agents or of their sum."""

    @property
    def transition(self) -> Array: ...
    @property
    def noise(self) -> Array: ...
    @property
    def observe(self) -> Array: ...
    @property
    def floor(self) -> Array: ...
    @property
    def start(self) -> Array: ...
    @property
    def vague(self) -> bool: ...
    @property
    def public(self) -> Array: ...
    def row(self, pattern: Any) -> FilterRow:
        """How the state moves into a row that comes in this pattern, and which numbers of it arrive."""

    def first(self, pattern: Any) -> tuple[Array, Array]:
        """(mean, covariance) of the state in row 1, before its numbers."""


class Gains:
    """The steps of a filter over the messages of a stream, each worked out once."""

    def __init__(self, model: Filterable) -> None:
        self.model = model
        size = len(model.transition)
        self._rounding = _ROUNDING * _reference(model)
        self._first: dict[Hashable, Step] = {}
        self._rows: dict[Hashable, FilterRow] = {}
        self._most = min(_MOST_STEPS, max(16, _MOST_BYTES // (_BYTES_PER_STEP * size**2)))
        self._made = 0
        self._settled: dict[Hashable, Step] = {}
        # memories may be far larger than the x that they are made of
        of_x = np.any(model.public != 0, axis=0)
        self._vague = _STILL_VAGUE * float(np.max(np.diag(model.start)[of_x], initial=0.0))

    def first(self, pattern: Hashable) -> Step:
        """The step of row 1."""
        if pattern not in self._first:
            mean, before = self.model.first(pattern)
            row = replace(self._row(pattern), transition=np.zeros(before.shape), drive=mean)
            self._first[pattern] = self._step(row, before)
        return self._first[pattern]

    def after(self, step: Step, pattern: Hashable) -> Step:
        """The step of the row after one."""
        found = step.follow.get(pattern)
        if found is None:
            found = self._following(step, pattern)
            self._forget()
            step.follow[pattern] = found
            self._made += 1
        return found

    def _following(self, step: Step, pattern: Hashable) -> Step:
        row = self._row(pattern)
        before = row.transition @ step.error @ row.transition.T + row.noise
        made = self._step(row, (before + before.T) / 2)
        scale = np.sqrt(np.maximum(np.diag(before), 0.0))
        # What is well known beside what is not is a difference of large numbers: their rounding never settles.
        large = np.abs(made.left) @ scale
        bound = _SETTLED * np.outer(scale, scale) + 16 * len(scale) * EPS * np.outer(large, large)
        if step.row is row and np.all(np.abs(step.error - made.error) <= bound):
            step.follow[pattern] = step
            self._settled[pattern] = step
            return step
        known = self._settled.get(pattern)
        if known is not None and np.all(np.abs(known.error - made.error) <= bound):
            return known
        return made

    def _row(self, pattern: Hashable) -> FilterRow:
        if pattern not in self._rows:
            if len(self._rows) >= self._most:
                self._rows.clear()
            row = self.model.row(pattern)
            self._rows[pattern] = replace(row, floor=row.floor + np.diag(self._rounding[row.arrived]))
        return self._rows[pattern]

    def _step(self, row: FilterRow, before: Array) -> Step:
        made = updated(before, row.observe, row.floor)
        return Step(row, *made, *self.stated(made.error))

    def stated(self, error: Array) -> tuple[Array, Booleans]:
        """(covariance, which of them are known at all) of the public rows, from that of the state."""
        public = self.model.public @ error @ self.model.public.T
        estimable = np.ones(len(public), bool)
        if self.model.vague:
            estimable = np.diag(public) < self._vague * np.sum(self.model.public**2, axis=1)
            public[~estimable], public[:, ~estimable] = np.nan, np.nan
            public[~estimable, ~estimable] = np.inf
        return public, estimable

    def _forget(self) -> None:
        """Keep memory bounded: paths that were gone once are worked out again when they are gone again."""
        if self._made < self._most:
            return
        self._made = 0
        self._first.clear()
        for step in self._settled.values():
            step.follow.clear()
            step.follow[step.pattern] = step


def _reference(model: Filterable) -> Array:
    """The scale of what is new in each number over some rows."""
    power, new = model.transition, model.noise
    for _ in range(5):
        new = new + power @ new @ power.T
        power = power @ power
    return np.asarray(np.sum((model.observe @ new) * model.observe, axis=1) + np.diag(model.floor))
