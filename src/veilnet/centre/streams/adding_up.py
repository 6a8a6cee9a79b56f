"""The centre of very many agents: it adds up their shares, and filters the sum.

In a row in which everybody sent, the sum is an observation rows x̂ + rounding of the 2L numbers (x, x̂) of
:mod:`veilnet.centre.streams.sum_model`, and a Kalman filter on them has the best estimate that sums tell: once the
start is forgotten, the sum itself. Readings that were missed change how x̂ goes on, by sums over those agents alone,
and are exactly accounted for.

A row in which numbers are missing, lost or because the reading was missed, does not show x̂ whole, and all memories in
one state would be too many. So the filter only goes on, and what is told of that row is the better of two: the
filter's prediction, and the best estimate from the sum a of those that arrived *in that row*, whose covariance with x
follows from the same recursion for those agents alone, over as many rows as memories reach back. Both errors are what
is stated of them. A reading that was sent and did not arrive counts as missed, since the centre keeps that share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.estimates import Estimate
from veilnet.centre.streams.gains import STILL_VAGUE
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.streams.tracking import patterns

__all__ = ["Adder", "SumFusion"]

_SETTLED = 1e-12
_FADED = 1e-10  # what is left of a memory that counts as nothing
_LONGEST_MEMORY = 2048
_FAR = 1e10  # x whose variance exceeds that of the public error so much is not estimated from one row
_ROUNDING = 1e-13
_NOBODY = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Told:
    """The public estimate of one row in units of ``rows``, with its covariance (public units) and who was silent."""

    public: Array
    covariance: Array
    estimable: Booleans
    silent: Integers


@dataclass(frozen=True, eq=False)
class _Gain:
    """What a complete row does once errors have settled."""

    gain: Array
    after: Array
    public: Array


class Adder:
    """Goes through a stream from row 1 on, in constant memory; :class:`veilnet.centre.streams.fusing.Follower` for
    few agents.
    """

    def __init__(self, model: SumModel) -> None:
        self._model = model
        size = len(model.transition)
        self._size, self._everyone = size, model.without(_NOBODY)
        self.rows = 0
        self._state, self._error = np.zeros(2 * size), np.zeros((2 * size, 2 * size))
        self._kept = np.zeros(size)  # shares of agents that send readings
        self._x = (model.start_mean, model.start)  # moments of x in the newest row, nothing being told
        self._reach = _reach(model.follow)
        self._past: deque[tuple[Integers, tuple[Array, Array]]] = deque(maxlen=self._reach)
        self._settled: _Gain | None = None
        self._alone: dict[bytes, tuple[Array, Array]] = {}
        self._usual: tuple[Array, Array] | None = None

    def add(self, stacked: Array) -> Estimate:
        """Take in rows (T, M); the estimates of all of them."""
        silent, missed = patterns(self._model, stacked)
        finite = np.where(np.isfinite(stacked), stacked, 0.0)
        summed, kept = self._model.adding
        gaps = np.asarray(silent.any(axis=1))
        numbers, entered = np.asarray(finite @ summed), np.asarray(finite @ kept)
        told = []
        for row in range(len(stacked)):
            lacking = np.flatnonzero(silent[row]) if gaps[row] else _NOBODY
            unread = (
                np.flatnonzero(missed[row] | (silent[row] & self._model.telling)) if gaps[row] else _NOBODY
            )
            told.append(self._take(numbers[row], entered[row], lacking, unread))
        return _estimate(self._model, told)

    def end(self) -> Estimate:
        """Nothing waits for later rows."""
        return _estimate(self._model, [])

    def _take(self, numbers: Array, entered: Array, lacking: Integers, unread: Integers) -> _Told:
        model = self._model
        quick = self._settled if not lacking.size and not unread.size else None
        before = self._error
        self._go_on(unread, quick is None)
        self._kept = model.follow @ self._kept + entered
        sums = numbers + model.rows @ self._kept
        hidden = lacking[~model.telling[lacking]]
        if hidden.size:
            self._settled = None
            return self._with_gaps(sums, hidden, lacking)
        size = self._size
        expected = model.rows @ self._state[size:]
        if quick is None:
            seen = self._error[:, size:] @ model.rows.T
            news = model.rows @ seen[size:] + model.floor
            news = news + _ROUNDING * np.diag(np.diag(news))
            gain: Array = np.asarray(np.linalg.solve(news, seen.T).T, np.float64)
            left = np.eye(2 * size)
            left[:, size:] -= gain @ model.rows
            after = left @ self._error @ left.T + gain @ (news - model.rows @ seen[size:]) @ gain.T
            after = (after + after.T) / 2
            scale = np.sqrt(np.diag(self._error))
            quick = _Gain(gain, after, self._public(after[:size, :size]))
            same = np.all(np.abs(after - before) <= _SETTLED * np.outer(scale, scale))
            self._settled = quick if self.rows > 1 and same and not unread.size else None
        self._state = self._state + quick.gain @ (sums - expected)
        self._error = quick.after
        return self._told(self._state[:size], quick.public, lacking)

    def _go_on(self, unread: Integers, moving: bool) -> None:
        """One row further: x, x̂ and their error; nothing has arrived yet."""
        model, size = self._model, self._size
        observe, entering = model.without(unread) if unread.size else self._everyone
        self.rows += 1
        if self.rows == 1:
            mean, spread = self._x
            self._state = np.concatenate([mean, observe @ mean])
            whole = np.concatenate([np.eye(size), observe])
            self._error = whole @ spread @ whole.T
            self._error[size:, size:] += entering
        else:
            mean, spread = self._x
            self._x = (
                model.transition @ mean,
                model.transition @ spread @ model.transition.T + model.noise,
            )
            x = model.transition @ self._state[:size]
            self._state = np.concatenate([x, model.follow @ self._state[size:] + observe @ x])
            if moving:
                step = np.zeros((2 * size, 2 * size))
                step[:size, :size] = model.transition
                step[size:, :size] = observe @ model.transition
                step[size:, size:] = model.follow
                whole = np.concatenate([np.eye(size), observe])
                error = step @ self._error @ step.T + whole @ model.noise @ whole.T
                error[size:, size:] += entering
                self._error = (error + error.T) / 2
        self._past.append((unread, self._x))

    def _with_gaps(self, sums: Array, hidden: Integers, lacking: Integers) -> _Told:
        """The better of the prediction and the estimate from those that arrived in this row."""
        size = self._size
        predicted = self._public(self._error[:size, :size])
        mean, spread = self._x
        best = self._told(self._state[:size], predicted, lacking)
        if np.max(np.diag(spread)) > _FAR * np.max(np.diag(self._model.root @ self._model.root.T)):
            return best
        moments = self._alone_moments(hidden)
        (together, own), about = moments, self._mean_of(hidden)
        seen = together @ self._model.rows.T
        news = self._model.rows @ own @ self._model.rows.T + self._model.floor
        gain = np.linalg.solve(news, seen.T).T
        error = spread - gain @ seen.T
        public = self._public((error + error.T) / 2)
        if not np.trace(public) < np.trace(predicted):
            return best
        return self._told(mean + gain @ (sums - self._model.rows @ about), public, lacking)

    def _alone_moments(self, hidden: Integers) -> tuple[Array, Array]:
        """(Cov(x, a), Var(a)) of the sum a of all agents but the hidden ones, in this row."""
        model, size = self._model, self._size
        undisturbed = all(not unread.size for unread, _ in self._past)
        key = hidden.tobytes()
        settled = (
            undisturbed
            and len(self._past) == self._reach
            and np.allclose(self._past[0][1][1], self._x[1], rtol=1e-12, atol=0)
        )
        if settled and key in self._alone:
            return self._alone[key]
        together, own = np.zeros((size, size)), np.zeros((size, size))
        usual = model.without(hidden)
        for unread, (_, spread) in self._past:
            observe, entering = model.without(np.union1d(hidden, unread)) if unread.size else usual
            carried = model.transition @ together @ model.follow.T
            crossed = observe @ carried
            own = (
                model.follow @ own @ model.follow.T
                + crossed
                + crossed.T
                + observe @ spread @ observe.T
                + entering
            )
            together = carried + spread @ observe.T
        if settled:
            if len(self._alone) >= 64:
                self._alone.clear()
            self._alone[key] = together, own
        return together, own

    def _mean_of(self, hidden: Integers) -> Array:
        """The mean of that sum, which is zero but for a first x whose mean is known."""
        about = np.zeros(self._size)
        if not any(np.any(mean) for _, (mean, _) in self._past):
            return about
        usual = self._model.without(hidden)[0]
        for unread, (mean, _) in self._past:
            observe = self._model.without(np.union1d(hidden, unread))[0] if unread.size else usual
            about = self._model.follow @ about + observe @ mean
        return about

    def _public(self, error: Array) -> Array:
        half = self._model.root @ self._model.rows
        return np.asarray(half @ error @ half.T)

    def _told(self, x: Array, covariance: Array, lacking: Integers) -> _Told:
        model = self._model
        public = model.root @ (model.rows @ x) + model.public_expected
        estimable = np.ones(len(public), bool)
        if model.vague:
            scale = np.sum((model.root @ model.rows) ** 2, axis=1) * np.max(np.diag(model.start))
            estimable = np.diag(covariance) < STILL_VAGUE * scale
            covariance = covariance.copy()
            covariance[~estimable], covariance[:, ~estimable] = np.nan, np.nan
            covariance[~estimable, ~estimable] = np.inf
            public = np.where(estimable, public, np.nan)
        return _Told(public, covariance, estimable, lacking)


class SumFusion:
    """Estimates of the public parameters of a stream of very many agents."""

    def __init__(self, model: SumModel) -> None:
        self.model = model
        self._live = Adder(model)

    @property
    def rows(self) -> int:
        """How many rows :meth:`update` has taken in."""
        return self._live.rows

    def estimate(self, stacked: Array, count: int | None, *, lag: int | None) -> Estimate:
        """All rows (T, M) of a stream from row 1 on; one if count is None."""
        found = self.follow(lag).add(stacked)
        return found.one_row() if count is None else found

    def follow(self, lag: int | None) -> Adder:
        """Something that takes in blocks of rows one after another."""
        if lag != 0:
            raise InvalidRequest(
                f"lag: looking back at a stream of {len(self.model.agents)} agents would take all their memories in "
                "one state; leave it out"
            )
        return Adder(self.model)

    def update(self, numbers: Array, row: int | None = None) -> Estimate:
        """Take in what arrived of a row (M,), the next one when left out; the estimate of that row."""
        newest = self._live.rows
        row = newest + 1 if row is None else row
        if row <= newest:
            raise InvalidReading(
                f"row: {row} was taken in before, and the sum of {len(self.model.agents)} agents is not taken apart "
                "again for late messages; wait for the row's messages before giving it"
            )
        nothing = np.full((1, len(numbers)), np.nan)
        for _ in range(newest + 1, row):
            self._live.add(nothing)
        return self._live.add(numbers[None, :]).one_row()


def _reach(follow: Array) -> int:
    """After how many rows a memory has forgotten, but for nothing that counts."""
    count, power = 1, follow
    while np.linalg.norm(power, 2) > _FADED and count < _LONGEST_MEMORY:
        count, power = 2 * count, power @ power
    return count


def _estimate(model: SumModel, told: list[_Told]) -> Estimate:
    """Rows with the same covariance and the same agents silent belong to one set."""
    return Estimate.of_rows(
        model,
        np.array([each.public for each in told]).reshape(len(told), len(model.labels)),
        [(id(each.covariance), each.silent.tobytes()) for each in told],
        lambda row: (told[row].covariance, told[row].estimable, told[row].silent),
    )
