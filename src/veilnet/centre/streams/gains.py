"""What each row tells a filter: gains and errors, which depend on who sent and not on what.

The error covariance after a row follows from that before and from the row's pattern: whose numbers arrived, and who
said that its reading was missed (its memory then began anew). Where one pattern comes for ever the error settles at
the fixed point of the Riccati equation, and a row costs no more than a product.

A gap is a small change of that. With P the error of X before a row in the steady state of a pattern, C its numbers,
N = C P C' + R and K = P C' N^-1, an error P + L M L' of rank r goes through such a row by

    L -> A (I - K C) L,    M -> M - M G' (N + G M G')^-1 G M,    G = C L,

which costs n² r and not n³. A row in which other numbers arrive than in that pattern is one more such change. With Z
the inverse of the covariance of what is new in the numbers of either, and K' the gain of all these, numbers d that
are missing add K'_d (Z_dd)^-1 K'_d', and those that come besides take it away; nothing is inverted that exact
numbers make singular. A memory that begins anew adds twice as many directions as it has numbers. The change is cut to
what counts, and as it dies away the filter is back in the steady state. Where most of the state is concerned, at a
start say, the whole covariance is carried on, and looked at again some rows later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from veilnet._core.bounded import Bounded
from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.lyapunov import NOT_DYING, spectral_radius, stationary_covariance
from veilnet._core.types import Array, Booleans, Integers
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.steady import MessageSystem, updated
from veilnet.centre.streams.model import FilterRow
from veilnet.centre.streams.steps import MOST_ROWS, CarriedError, SteadyRow, Step
from veilnet.centre.streams.together import Ahead, Together, rows_ahead, together

# A steady state is believed when one more row changes it by less than this part; a change of it below the next is
# none, so that what is stated is exact to a few times as much.
_SETTLED, _SMALLEST = 1e-11, 1e-10
# Numbers that nothing new enters still count as rounded by this part of their deviation, squared.
_ROUNDING = 1e-14
_LOOK_AGAIN = 16  # rows, after which an error is held against a steady state again, and its change cut
_MOST_OF_IT = 0.75  # of the state, that a change may have directions in
_MORE = 16  # directions that rows may add to a change before it is cut to what counts
_FAR = 1e4  # of the variances in a steady state: beyond it, rows are taken one by one
_NEWTON_STEPS = 3  # each doubles the digits of a steady state
# Of a first x of which nothing is known: what is not at least so much better known by now is not known.
_STILL_VAGUE = 1e-3


class Filterable(Protocol):
    """What can be filtered: a linear system whose rows come in patterns, of a stream's agents or of their sum."""

    @property
    def observe(self) -> Array: ...
    @property
    def floor(self) -> Array: ...
    @property
    def transition(self) -> Array: ...
    @property
    def noise(self) -> Array: ...
    @property
    def start(self) -> Array: ...
    @property
    def vague(self) -> bool: ...
    @property
    def public(self) -> Array: ...
    @property
    def everybody(self) -> Hashable:
        """The pattern of a row in which everybody sent."""

    def row(self, pattern: Any) -> FilterRow:
        """How the state moves into a row that comes in this pattern, and which numbers of it arrive."""

    def first(self, pattern: Any) -> tuple[Array, Array]:
        """(mean, covariance) of the state in row 1, before its numbers."""


class Gains:
    """The steps of a filter over the messages of a stream."""

    def __init__(self, model: Filterable) -> None:
        self.model = model
        self._rounding = _ROUNDING * _reference(model)
        self._floor = model.floor + np.diag(self._rounding)
        self._rows = Bounded[FilterRow](MOST_ROWS)
        self._steady: dict[Hashable, SteadyRow | None] = {}
        self._sudden: dict[float, Array] = {}
        self._ahead: dict[int, Ahead] = {}
        self._everything = np.ones(len(model.public), bool)
        # memories may be far larger than the x that they are made of
        of_x = np.any(model.public != 0, axis=0)
        self._vague = _STILL_VAGUE * float(np.max(np.diag(model.start)[of_x], initial=0.0))

    def first(self, pattern: Hashable) -> Step:
        """The step of row 1."""
        mean, before = self.model.first(pattern)
        return self._whole(replace(self.row(pattern), transition=np.zeros(before.shape), drive=mean), before)

    def after(self, step: CarriedError, pattern: Hashable, moved: Array | None = None) -> Step:
        """The step of the row after one; ``moved`` is L of a change of X in it by N(0, LL') besides."""
        near = step.near
        if near is not None and step.settled and pattern == near.row.pattern and moved is None:
            assert near.step is not None
            return near.step
        row = self.row(pattern)
        made = self._changed(step, near, row, moved) if near is not None else None
        if made is None:
            before = row.transition @ step.error @ row.transition.T + row.noise
            if moved is not None:
                before = before + moved @ moved.T
            made = self._whole(row, (before + before.T) / 2)
        made.age, made.alike = step.age + 1, step.alike + 1 if pattern == step.pattern else 1
        if made.alike % _LOOK_AGAIN == 0 or (made.near is None and made.age % _LOOK_AGAIN == 0):
            chosen = pattern if made.alike >= _LOOK_AGAIN else self.model.everybody
            if made.near is None or made.near.row.pattern != chosen:
                made = self._count_from(self.steady(chosen), made)
        return made

    def together(self, step: CarriedError, state: Array, numbers: Array) -> Together | None:
        """What the rows after one give at once; None where they are to be taken one by one.

        numbers: (rows, numbers), not a number where a message did not arrive; nobody missed a reading.
        """
        near = self.steady(self.model.everybody)
        if near is None or np.any(np.diag(step.error) > _FAR * near.units**2):
            return None
        count = len(numbers)
        if count not in self._ahead:
            self._ahead[count] = rows_ahead(self.row(self.model.everybody), self.model.public, count)
        return together(self._ahead[count], state, step.error, numbers, np.isfinite(numbers))

    def carried(self, step: CarriedError, rows: Sequence[FilterRow], found: Together) -> CarriedError:
        """The error after some rows that were taken together, which came after one."""
        last = rows[-1]
        alike = next((k for k, row in enumerate(reversed(rows)) if row.pattern != last.pattern), len(rows))
        if alike == len(rows) and step.pattern == last.pattern:
            alike += step.alike
        if alike >= _LOOK_AGAIN or last.pattern == self.model.everybody:
            near = self.steady(last.pattern)
            if near is not None and near.is_at(found.error, _SMALLEST):
                assert near.step is not None
                return near.step
        return CarriedError(
            last, *self.stated(found.errors[-1]), whole=found.error, age=step.age + len(rows), alike=alike
        )

    def steady(self, pattern: Hashable) -> SteadyRow | None:
        """The steady state of a pattern; None where there is none, or it cannot be computed."""
        if pattern not in self._steady:
            if len(self._steady) >= 16:
                self._steady.clear()
            self._steady[pattern] = self._steady_row(self.row(pattern))
        return self._steady[pattern]

    def stated(self, public: Array) -> tuple[Array, Booleans]:
        """(covariance, which of them are known at all) of the public rows, from their covariance."""
        estimable = self._everything
        if self.model.vague:
            estimable = np.diag(public) < self._vague * np.sum(self.model.public**2, axis=1)
            public[~estimable], public[:, ~estimable] = np.nan, np.nan
            public[~estimable, ~estimable] = np.inf
        return public, estimable

    def sudden(self, times: float, remembered: Integers) -> Array:
        """L with LL' the largest change of X in one row that the model leaves room for.

        Of x and the noises b that is so many times what moves them in a row, B, and no more than the long run allows:
        with G their covariance in the long run less their error before a row, the parallel sum B (B + G)^+ G.
        Memories, at the places ``remembered`` of the state, take it up as they do what is new in every row.
        """
        if times not in self._sudden:
            model, steady = self.model, self.steady(self.model.everybody)
            base = np.setdiff1d(np.arange(len(model.noise)), remembered)
            noise = _part(model.noise, base)
            scale = np.sqrt(np.where(np.diag(noise) > 0, np.diag(noise), 1.0))
            noise = noise / np.outer(scale, scale)
            enters = model.noise[:, base] / scale @ np.linalg.pinv(noise, _SMALLEST, hermitian=True)
            moved = times * noise
            transition = _part(model.transition, base)
            if steady is not None and spectral_radius(transition) < NOT_DYING:
                room = stationary_covariance(transition, _part(model.noise, base)) - _part(
                    steady.before, base
                )
                room = room / np.outer(scale, scale)
                moved = moved @ np.linalg.pinv(moved + room, _SMALLEST, hermitian=True) @ room
            values, vectors = np.linalg.eigh((moved + moved.T) / 2)
            kept = values > _SMALLEST * max(float(values[-1]), 1.0)
            self._sudden[times] = enters @ vectors[:, kept] * np.sqrt(values[kept])
        return self._sudden[times]

    def row(self, pattern: Hashable) -> FilterRow:
        """What a pattern makes of a row, numbers counted as rounded."""
        return self._rows.get(pattern, partial(self._rounded_row, pattern))

    def _rounded_row(self, pattern: Hashable) -> FilterRow:
        row = self.model.row(pattern)
        return replace(row, floor=row.floor + np.diag(self._rounding[row.arrived]))

    def _whole(self, row: FilterRow, before: Array) -> Step:
        """The step of a row, from the whole error before it."""
        made = updated(before, row.observe, row.floor)
        public = self.model.public @ made.error @ self.model.public.T
        return Step(row, *self.stated(public), gain=made.gain, news=made.news, whole=made.error)

    def _steady_row(self, row: FilterRow) -> SteadyRow | None:
        try:
            steady = steady_state(MessageSystem(row.transition, row.noise, row.observe, row.floor))
            if steady.unbounded.shape[1]:
                return None
            before = steady.basis @ steady.before @ steady.basis.T
            for _ in range(_NEWTON_STEPS):  # numbers that are hardly rounded count as exact there
                made = updated(before, row.observe, row.floor)
                carried = row.transition @ made.gain
                new = row.noise + carried @ row.floor @ carried.T
                before = stationary_covariance(row.transition @ made.left, new)
        except (InvalidRequest, np.linalg.LinAlgError):
            return None
        made = updated(before, row.observe, row.floor)
        scale = np.sqrt(np.maximum(np.diag(before), 0.0))
        # What is well known beside what is not is a difference of large numbers: their rounding never settles.
        large = np.abs(made.left) @ scale
        units = np.sqrt(scale**2 + 160 * len(scale) * EPS / _SETTLED * large**2)
        units = np.where(units > 0, units, 1.0)
        moved = row.transition @ made.error @ row.transition.T + row.noise - before
        if not np.max(np.abs(moved) / np.outer(units, units), initial=0.0) <= _SETTLED:
            return None
        observe, public = self.model.observe, self.model.public
        spread = np.sqrt(np.sum((observe @ before) * observe, axis=1) + np.diag(self._floor))
        observe = observe / spread[:, None]
        cross = before @ observe.T
        news = observe @ cross + self._floor / np.outer(spread, spread)
        found = SteadyRow(
            row, made.gain * spread[row.arrived], before, made.error, public @ made.error @ public.T,
            spread, observe, cross, news, units,
        )  # fmt: skip
        found.step = replace(self._whole(row, before), near=found, factor=np.zeros((len(before), 0)))
        return found

    def _count_from(self, near: SteadyRow | None, step: Step) -> Step:
        """The step with its error counted from a steady state, where no more of it differs than is worth it."""
        if near is None:
            return step
        values, vectors = np.linalg.eigh((step.error - near.after) / np.outer(near.units, near.units))
        kept = np.abs(values) > _SMALLEST
        count = int(np.sum(kept))
        if count > _MOST_OF_IT * len(kept):
            return step
        factor = near.units[:, None] * vectors[:, kept]
        return replace(step, near=near, factor=factor, middle=np.diag(values[kept]), cut=count, whole=None)

    def _changed(
        self, step: CarriedError, near: SteadyRow, row: FilterRow, moved: Array | None
    ) -> Step | None:
        """The step of a row near a steady state; None where it moves the state otherwise, or too much changes."""
        if row.anew is None or near.row.anew != ():
            return None
        factor, middle = near.row.transition @ step.factor, step.middle
        if moved is not None:
            factor, middle = _side_by_side(factor, middle, moved, np.eye(moved.shape[1]))
        if row.anew:
            factor, middle = _begun_anew(near, row.anew, factor, middle)
        both, here, there, missing, extra = near.places(row)
        seen = near.observe @ factor
        half = middle @ seen.T
        news, cross, drawn = near.news + seen @ half, near.cross + factor @ half, half
        inverse_news = _inverse(_part(news, both))
        gains = cross @ inverse_news if len(both) == len(news) else cross[:, both] @ inverse_news
        usual = inverse_news
        if len(near.row.arrived) < len(news):
            usual = _without(inverse_news, here, extra) if extra.size else inverse_news
            seen, drawn = seen[near.row.arrived], half[:, near.row.arrived]
        factor = factor - near.gain @ seen
        middle = middle - drawn @ usual @ drawn.T
        if missing.size:
            lost = gains[:, missing]
            inverse = _inverse(_part(inverse_news, missing))
            factor, middle = _side_by_side(factor, middle, lost, inverse)
            gains = gains - lost @ (inverse @ inverse_news[missing])
        if extra.size:
            inverse = _inverse(_part(inverse_news, extra))
            factor, middle = _side_by_side(factor, middle, cross[:, both] @ inverse_news[:, extra], -inverse)
        cut = step.cut
        if factor.shape[1] > step.cut + _MORE or step.age % _LOOK_AGAIN == 0:
            factor, middle = _cut(near.units, factor, middle)
            cut = factor.shape[1]
        if cut > _MOST_OF_IT * len(factor):
            return None
        shown = self.model.public @ factor
        public = near.public + shown @ middle @ shown.T
        spread = near.spread[row.arrived]
        return Step(
            row, *self.stated(public), gain=gains[:, there] / spread,
            news=_part(news, row.arrived) * np.outer(spread, spread),
            near=near, factor=factor, middle=middle, cut=cut,
            inverse=None if missing.size else _part(inverse_news, there) / spread[:, None] / spread,
        )  # fmt: skip


def _part(matrix: Array, rows: Integers) -> Array:
    """The rows and columns of a matrix that are chosen."""
    return matrix if len(rows) == len(matrix) else matrix[rows[:, None], rows]


def _inverse(matrix: Array) -> Array:
    """The inverse; of one number without the cost of a call."""
    if len(matrix) == 1 and matrix[0, 0] != 0:
        return 1 / matrix
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _without(inverse_news: Array, kept: Integers, others: Integers) -> Array:
    """The inverse of a part of a matrix, from the inverse of all of it."""
    cross = inverse_news[kept[:, None], others]
    return np.asarray(
        _part(inverse_news, kept) - cross @ np.linalg.solve(_part(inverse_news, others), cross.T)
    )


def _begun_anew(
    near: SteadyRow, anew: tuple[tuple[slice, Array], ...], factor: Array, middle: Array
) -> tuple[Array, Array]:
    """The change of an error before a row in which memories s were drawn anew.

    With E the columns of s and B = P E, (I - EE')P(I - EE') + E start E' is P + (E, B) ((B_s + start, -I), (-I, 0))
    (E, B)'.
    """
    own = np.concatenate([np.arange(mine.start, mine.stop) for mine, _ in anew])
    count = len(own)
    factor = factor.copy()
    factor[own] = 0.0
    added = np.zeros((len(factor), 2 * count))
    added[own, np.arange(count)] = 1.0
    added[:, count:] = near.before[:, own]
    weights = np.zeros((2 * count, 2 * count))
    weights[:count, :count] = _part(near.before, own)
    start = 0
    for mine, drawn in anew:
        size = mine.stop - mine.start
        weights[start : start + size, start : start + size] += drawn
        start += size
    weights[:count, count:] = weights[count:, :count] = -np.eye(count)
    return _side_by_side(factor, middle, added, weights)


def _side_by_side(factor: Array, middle: Array, added: Array, weights: Array) -> tuple[Array, Array]:
    """L = (L, added), and M with the weights of these beside it."""
    count = len(middle)
    both = np.zeros((count + len(weights), count + len(weights)))
    both[:count, :count], both[count:, count:] = middle, weights
    return np.concatenate([factor, added], axis=1), both


def _cut(units: Array, factor: Array, middle: Array) -> tuple[Array, Array]:
    """The same change with fewer columns: those that count, in units of the state's deviations."""
    basis, triangle = np.linalg.qr(factor / units[:, None])
    inner = triangle @ middle @ triangle.T
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = np.abs(values) > _SMALLEST
    return units[:, None] * (basis @ vectors[:, kept]), np.diag(values[kept])


def _reference(model: Filterable) -> Array:
    """The scale of what is new in each number over some rows."""
    power, new = model.transition, model.noise
    for _ in range(5):
        new = new + power @ new @ power.T
        power = power @ power
    return np.asarray(np.sum((model.observe @ new) * model.observe, axis=1) + np.diag(model.floor))
