"""The centre of very many agents: it adds up their shares, and filters the sum.

In a row in which everybody sent, the sum is an observation rows x̂ + rounding of the 2L numbers (x, x̂) of
:mod:`veilnet.centre.streams.sum_model`, and a Kalman filter on them has the best estimate that sums tell: once the
start is forgotten, the sum itself. Readings that were missed change how x̂ goes on, by sums over those agents alone,
and are exactly accounted for.

A row in which numbers are missing, lost or because the reading was missed, does not show x̂ whole, and all memories in
one state would be too many. So the filter only goes on, and what is known of that row is the better of two: the
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
from veilnet.centre.streams.gains import Gains
from veilnet.centre.streams.model import FilterRow
from veilnet.centre.streams.steps import Step
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.streams.tracking import patterns

_FADED = 1e-10  # what is left of a memory that counts as nothing
_LONGEST_MEMORY = 2048  # rows; of a memory that reaches farther the rest is left out
_FAR = 1e10  # x whose variance exceeds that of the public error so much is not estimated from one row
_NOBODY = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class _SumPattern:
    """Whose readings do not enter x̂ in a row (their places), and whether everybody's numbers arrived."""

    unread: bytes
    whole: bool


class _SumSystem:
    """The 2L numbers (x, x̂), x counted from its mean, and the sum of a row, which shows x̂: what is filtered."""

    def __init__(self, model: SumModel) -> None:
        self._model, self.vague = model, model.vague
        self.everybody = _SumPattern(_NOBODY.tobytes(), whole=True)
        row = self.row(self.everybody)
        self.transition, self.noise, self.observe, self.floor = (
            row.transition, row.noise, row.observe, row.floor,
        )  # fmt: skip
        self.start = self.first(self.everybody)[1]
        half = model.root @ model.rows
        self.public = np.concatenate([half, np.zeros(half.shape)], axis=1)

    def row(self, pattern: _SumPattern) -> FilterRow:
        """How (x, x̂) moves, and whether the sum of the row is whole."""
        model, size = self._model, len(self._model.transition)
        both, new = self._entering(pattern)
        transition = np.zeros((2 * size, 2 * size))
        transition[:, :size] = both @ model.transition
        transition[size:, size:] = model.follow
        noise = both @ model.noise @ both.T + new
        arrived = np.arange(len(model.rows) if pattern.whole else 0)
        observe = np.concatenate([np.zeros(model.rows.shape), model.rows], axis=1)[arrived]
        return FilterRow(
            pattern, transition, (noise + noise.T) / 2, np.zeros(2 * size), arrived, observe,
            model.floor[np.ix_(arrived, arrived)], np.zeros(len(arrived)), None if pattern.unread else (),
        )  # fmt: skip

    def first(self, pattern: _SumPattern) -> tuple[Array, Array]:
        """(mean, covariance) in row 1, before its sum."""
        both, new = self._entering(pattern)
        return both @ self._model.start_mean, both @ self._model.start @ both.T + new

    def _entering(self, pattern: _SumPattern) -> tuple[Array, Array]:
        """((I; G), V): how x enters (x, x̂) in a row, and the covariance of the noise that enters beside it."""
        observe, entering = self._model.without(np.frombuffer(pattern.unread, dtype=np.intp))
        size = len(observe)
        new = np.zeros((2 * size, 2 * size))
        new[size:, size:] = entering
        return np.concatenate([np.eye(size), observe]), new


@dataclass(frozen=True, eq=False)
class _RowEstimate:
    """The public estimate of one row, the covariance of its error, and who was silent."""

    public: Array
    covariance: Array
    estimable: Booleans
    silent: Integers


class Adder:
    """Goes through a stream from row 1 on, in constant memory; :class:`veilnet.centre.streams.fusing.Follower` for
    few agents.
    """

    def __init__(self, model: SumModel, gains: Gains) -> None:
        self._model, self._gains = model, gains
        self._size = len(model.transition)
        self.rows = 0
        self._step: Step | None = None
        self._state = np.zeros(2 * self._size)
        self._kept = np.zeros(self._size)  # shares of agents that send readings
        self._x = (model.start_mean, model.start)  # moments of x in the newest row, without any message
        self._reach = _reach(model.follow)
        self._past: deque[tuple[Integers, tuple[Array, Array]]] = deque(maxlen=self._reach)
        self._alone: dict[bytes, tuple[Array, Array]] = {}

    def add(self, stacked: Array) -> Estimate:
        """Take in rows (T, M); the estimates of all of them."""
        silent, missed = patterns(self._model, stacked)
        finite = np.where(np.isfinite(stacked), stacked, 0.0)
        summed, kept = self._model.adding
        gaps = np.asarray(silent.any(axis=1))
        numbers, entered = np.asarray(finite @ summed), np.asarray(finite @ kept)
        found = []
        for row in range(len(stacked)):
            lacking = unread = _NOBODY
            if gaps[row]:
                lacking = np.flatnonzero(silent[row])
                unread = np.flatnonzero(missed[row] | (silent[row] & self._model.telling))
            found.append(self._take(numbers[row], entered[row], lacking, unread))
        return Estimate.of_rows(
            self._model,
            np.array([each.public for each in found]).reshape(len(found), len(self._model.labels)),
            [(id(each.covariance), each.silent.tobytes()) for each in found],
            lambda row: (found[row].covariance, found[row].estimable, found[row].silent),
        )

    def end(self) -> Estimate:
        """Nothing waits for later rows."""
        return self.add(np.zeros((0, self._model.blocks.total)))

    def _take(self, numbers: Array, entered: Array, lacking: Integers, unread: Integers) -> _RowEstimate:
        model, gains = self._model, self._gains
        hidden = lacking[~model.telling[lacking]]
        pattern = _SumPattern(unread.tobytes(), whole=not hidden.size)
        step = gains.first(pattern) if self._step is None else gains.after(self._step, pattern)
        if self._step is not None:
            mean, spread = self._x
            moved = model.transition @ spread @ model.transition.T + model.noise
            self._x = (model.transition @ mean, moved)
        self._past.append((unread, self._x))
        self._kept = model.follow @ self._kept + entered
        sums = numbers + model.rows @ self._kept
        before = step.row.transition @ self._state + step.row.drive
        self._state = before + step.gain @ (sums[step.row.arrived] - step.row.observe @ before)
        self._step, self.rows = step, self.rows + 1
        found = self._estimate(self._state[: self._size], step.public, step.estimable, lacking)
        return self._better(found, sums, hidden) if hidden.size else found

    def _estimate(self, x: Array, covariance: Array, estimable: Booleans, silent: Integers) -> _RowEstimate:
        public = self._model.root @ (self._model.rows @ x) + self._model.public_expected
        return _RowEstimate(np.where(estimable, public, np.nan), covariance, estimable, silent)

    def _better(self, predicted: _RowEstimate, sums: Array, hidden: Integers) -> _RowEstimate:
        """The better of the prediction and the estimate from those that arrived in this row."""
        model, (mean, spread) = self._model, self._x
        if np.max(np.diag(spread)) > _FAR * np.max(np.diag(model.root @ model.root.T)):
            return predicted
        together, own = self._alone_moments(hidden)
        seen = together @ model.rows.T
        gain = np.linalg.solve(model.rows @ own @ model.rows.T + model.floor, seen.T).T
        left = spread - gain @ seen.T
        half = model.root @ model.rows
        covariance, estimable = self._gains.stated(half @ ((left + left.T) / 2) @ half.T)
        if not np.trace(covariance) < np.trace(predicted.covariance):
            return predicted
        x = mean + gain @ (sums - model.rows @ self._mean_of(hidden))
        return self._estimate(x, covariance, estimable, predicted.silent)

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


class SumFusion:
    """Estimates of the public parameters of a stream of very many agents; nothing of them is tested by a gate."""

    is_stream = True
    gate = None

    def __init__(self, model: SumModel, gate: float | None, *, keep: bool) -> None:
        if gate is not None or keep:
            raise InvalidRequest(
                f"{'keep' if gate is None else 'gate'}: messages of a stream of so many agents are added up, and not "
                "tested against the model; leave it out"
            )
        self.model = model
        self._gains = Gains(_SumSystem(model))
        self._live = self.follow(0)

    def estimate(self, stacked: Array, lag: int | None) -> Estimate:
        """All rows (T, M) of a stream from row 1 on."""
        return self.follow(lag).add(stacked)

    def follow(self, lag: int | None) -> Adder:
        """Something that takes in blocks of rows one after another."""
        if lag != 0:
            raise InvalidRequest(
                f"lag: looking back at a stream of {len(self.model.agents)} agents would take all their memories in "
                "one state; leave it out"
            )
        return Adder(self.model, self._gains)

    def update(self, numbers: Array, row: int | None) -> Estimate:
        """Take in what arrived of a row (M,), the next one when left out; the estimate of that row."""
        ahead = 1 if row is None else row - self._live.rows
        if ahead < 1:
            raise InvalidReading(
                f"row: {row} was taken in before, and the sum of {len(self.model.agents)} agents is not taken apart "
                "again for late messages; wait for the row's messages before giving it"
            )
        nothing = np.full((1, len(numbers)), np.nan)
        for _ in range(ahead - 1):
            self._live.add(nothing)
        return self._live.add(numbers[None, :]).one_row()


def _reach(follow: Array) -> int:
    """After how many rows a memory has forgotten, but for nothing that counts."""
    count, power = 1, follow
    while np.linalg.norm(power, 2) > _FADED and count < _LONGEST_MEMORY:
        count, power = 2 * count, power @ power
    return count
