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
what counts, and as it dies away the filter is back in the steady state. Where it is of half the size of the state, at
a start say, the whole covariance is carried on, and looked at again some rows later.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.lyapunov import NOT_DYING, spectral_radius, stationary_covariance
from veilnet._core.types import Array, Booleans, Integers
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.steady import MessageSystem, updated
from veilnet.centre.streams.model import FilterRow

# A steady state is believed when one more row changes it by less than this part; a change of it below the next is
# none, so that what is stated is exact to a few times as much.
_SETTLED, _SMALLEST = 1e-11, 1e-10
# Numbers that nothing new enters still count as rounded by this part of their deviation, squared.
_ROUNDING = 1e-14
_LOOK_AGAIN = 16  # rows, after which an error is held against a steady state again, and its change cut
_MORE = 16  # directions that rows may add to a change before it is cut to what counts
_NEWTON_STEPS = 3  # each doubles the digits of a steady state
_MOST_ROWS = 1024  # patterns that are remembered
# Of a first x of which nothing is known: what is not at least so much better known by now is not known.
_STILL_VAGUE = 1e-3


@dataclass(eq=False)
class Step:
    """One row of the filter: b = transition X̂ + drive, then X̂ = b + gain (z_arrived - expected - observe b).

    row:    what its pattern makes of it.
    news:   covariance of what is new in the numbers that arrived.
    public: covariance of the error of the public rows; ``estimable`` which of them are known at all.
    near:   the steady state that the error is counted from; None where it is carried whole.
    factor, middle: L and M after the row; ``cut`` how many columns L had when it was last cut to what counts.
    whole:  the error where it is carried whole.
    age:    rows since the start, ``alike`` those of its own pattern up to it.
    """

    row: FilterRow
    gain: Array
    news: Array
    public: Array
    estimable: Booleans
    near: SteadyRow | None = None
    factor: Array = field(default_factory=lambda: np.zeros((0, 0)))
    middle: Array = field(default_factory=lambda: np.zeros((0, 0)))
    cut: int = 0
    whole: Array | None = None
    age: int = 1
    alike: int = 1

    @property
    def pattern(self) -> Any:
        """Of the row."""
        return self.row.pattern

    @cached_property
    def error(self) -> Array:
        """Covariance of X after the row."""
        if self.near is None:
            assert self.whole is not None
            return self.whole
        return np.asarray(self.near.after + self.factor @ self.middle @ self.factor.T)

    @cached_property
    def left(self) -> Array:
        """I - gain observe."""
        return np.asarray(np.eye(len(self.gain)) - self.gain @ self.row.observe)

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
        return self.near is not None and self.near.step is self


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
    _places: dict[Hashable, tuple[Integers, ...]] = field(default_factory=dict)

    def places(self, row: FilterRow) -> tuple[Integers, ...]:
        """Numbers that arrive here or in a row; of these, the ones here, those in the row, only here, only there."""
        found = self._places.get(row.pattern)
        if found is None:
            both = np.union1d(self.row.arrived, row.arrived)
            here, there = np.isin(both, self.row.arrived), np.isin(both, row.arrived)
            found = (both, *map(np.flatnonzero, (here, there, here & ~there, there & ~here)))
            if len(self._places) >= _MOST_ROWS:
                self._places.clear()
            self._places[row.pattern] = found
        return found


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
        self._rows: dict[Hashable, FilterRow] = {}
        self._steady: dict[Hashable, SteadyRow | None] = {}
        self._sudden: dict[float, Array] = {}
        # memories may be far larger than the x that they are made of
        of_x = np.any(model.public != 0, axis=0)
        self._vague = _STILL_VAGUE * float(np.max(np.diag(model.start)[of_x], initial=0.0))

    def first(self, pattern: Hashable) -> Step:
        """The step of row 1."""
        mean, before = self.model.first(pattern)
        return self._whole(replace(self._row(pattern), transition=np.zeros(before.shape), drive=mean), before)

    def after(self, step: Step, pattern: Hashable, moved: Array | None = None) -> Step:
        """The step of the row after one; ``moved`` is L of a change of X in it by N(0, LL') besides."""
        near = step.near
        if near is not None and not step.factor.shape[1] and pattern == near.row.pattern and moved is None:
            assert near.step is not None
            return near.step
        row = self._row(pattern)
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

    def steady(self, pattern: Hashable) -> SteadyRow | None:
        """The steady state of a pattern; None where there is none, or it cannot be computed."""
        if pattern not in self._steady:
            if len(self._steady) >= 16:
                self._steady.clear()
            self._steady[pattern] = self._steady_row(self._row(pattern))
        return self._steady[pattern]

    def stated(self, public: Array) -> tuple[Array, Booleans]:
        """(covariance, which of them are known at all) of the public rows, from their covariance."""
        estimable = np.ones(len(public), bool)
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

    def _row(self, pattern: Hashable) -> FilterRow:
        if pattern not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            row = self.model.row(pattern)
            self._rows[pattern] = replace(row, floor=row.floor + np.diag(self._rounding[row.arrived]))
        return self._rows[pattern]

    def _whole(self, row: FilterRow, before: Array) -> Step:
        """The step of a row, from the whole error before it."""
        made = updated(before, row.observe, row.floor)
        public = self.model.public @ made.error @ self.model.public.T
        return Step(row, made.gain, made.news, *self.stated(public), whole=made.error)

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
        """The step with its error counted from a steady state, where not more than half of it differs."""
        if near is None:
            return step
        values, vectors = np.linalg.eigh((step.error - near.after) / np.outer(near.units, near.units))
        kept = np.abs(values) > _SMALLEST
        count = int(np.sum(kept))
        if 2 * count > len(kept):
            return step
        factor = near.units[:, None] * vectors[:, kept]
        return replace(step, near=near, factor=factor, middle=np.diag(values[kept]), cut=count, whole=None)

    def _changed(self, step: Step, near: SteadyRow, row: FilterRow, moved: Array | None) -> Step | None:
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
        told: Array = np.asarray(np.linalg.inv(_part(news, both)), dtype=np.float64)
        gains = cross @ told if len(both) == len(news) else cross[:, both] @ told
        usual = told
        if len(near.row.arrived) < len(news):
            usual = _without(told, here, extra) if extra.size else told
            seen, drawn = seen[near.row.arrived], half[:, near.row.arrived]
        factor = factor - near.gain @ seen
        middle = middle - drawn @ usual @ drawn.T
        if missing.size:
            lost = gains[:, missing]
            inverse: Array = np.asarray(np.linalg.inv(_part(told, missing)), dtype=np.float64)
            factor, middle = _side_by_side(factor, middle, lost, inverse)
            gains = gains - lost @ (inverse @ told[missing])
        if extra.size:
            inverse = np.asarray(np.linalg.inv(_part(told, extra)), dtype=np.float64)
            factor, middle = _side_by_side(factor, middle, cross[:, both] @ told[:, extra], -inverse)
        cut = step.cut
        if factor.shape[1] > step.cut + _MORE or step.age % _LOOK_AGAIN == 0:
            factor, middle = _cut(near.units, factor, middle)
            cut = factor.shape[1]
        if 2 * cut > len(factor):
            return None
        shown = self.model.public @ factor
        public = near.public + shown @ middle @ shown.T
        spread = near.spread[row.arrived]
        return Step(
            row, gains[:, there] / spread, _part(news, row.arrived) * np.outer(spread, spread),
            *self.stated(public), near=near, factor=factor, middle=middle, cut=cut,
        )  # fmt: skip


def _part(matrix: Array, rows: Integers) -> Array:
    """The rows and columns of a matrix that are chosen."""
    return matrix if len(rows) == len(matrix) else matrix[rows[:, None], rows]


def _without(told: Array, kept: Integers, others: Integers) -> Array:
    """The inverse of a part of a matrix, from the inverse of all of it."""
    cross = told[kept[:, None], others]
    return np.asarray(_part(told, kept) - cross @ np.linalg.solve(_part(told, others), cross.T))


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
