"""What a filter on the messages of a stream is left with once it has run for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from veilnet._core.lyapunov import complement
from veilnet._core.types import Array, Booleans

# Parts of a deviation below this, relative to the state's own scale, count as none.
SMALLEST_PART = 1e-8
# Variances below this part of the scale are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class MessageSystem:
    """X_t = transition X_{t-1} + N(0, noise), z_t = observe X_t + N(0, floor)."""

    transition: Array
    noise: Array
    observe: Array
    floor: Array


class ErrorsApart(NamedTuple):
    """The errors with hindsight of rows A over many rows of a stream: e_t = b_t + loads v_t.

    apart: (count, r + k, r + k), Cov(f_t, f_{t+lag}), lag = 0, 1, ..., of f = (b, w): what is bounded of the errors,
           and the steps w_t = v_t - moves v_{t-1} of the k directions without bound.
    loads: (r, k), how those enter the rows, and ``moves``, (k, k), how they go on by themselves.
    """

    apart: Array
    loads: Array
    moves: Array


class RowUpdate(NamedTuple):
    """What a row of messages does to an error P.

    gain:  K.
    news:  C P C' + R, the covariance of what is new in the messages.
    left:  I - K C.
    error: what is left of P, by a sum of what is positive (Joseph's form).
    """

    gain: Array
    news: Array
    left: Array
    error: Array


def updated(before: Array, observe: Array, floor: Array) -> RowUpdate:
    """The update of an error (..., n, n) by messages C, (m, n), with noise R of their own, (m, m)."""
    half = before @ observe.T
    news = observe @ half + floor
    news = (news + np.swapaxes(news, -1, -2)) / 2
    turned = np.swapaxes(half, -1, -2)
    gain: Array = np.swapaxes(np.asarray(np.linalg.solve(news, turned)), -1, -2) if len(observe) else half
    left = np.eye(before.shape[-1]) - gain @ observe
    error = left @ before @ np.swapaxes(left, -1, -2) + gain @ floor @ np.swapaxes(gain, -1, -2)
    return RowUpdate(gain, news, left, (error + np.swapaxes(error, -1, -2)) / 2)


@dataclass(frozen=True, eq=False)
class Steady:
    """The errors of a filter that has run for ever, in coordinates of the state that are not known exactly.

    basis:     (n, e): X = known + basis q.
    before:    (e, e), covariance of q before the row's own messages.
    now:       (e, e), with them.
    hindsight: (e, e), with all later messages too.
    unbounded: (n, k), directions of the state that no message ever bounds.
    gain:      (e, m), the stationary gain: q moves by gain (z - expected) when a row arrives.
    closed:    (e, e), Φ = A (I - K C): how an error carries over from row to row.
    news:      (m, m), covariance of what a row's messages bring beyond what was expected of them.
    system:    of the messages, in coordinates of the state.
    """

    basis: Array
    before: Array
    now: Array
    hindsight: Array
    unbounded: Array
    gain: Array
    closed: Array
    news: Array
    system: MessageSystem

    def bounded(self, rows: Array) -> Booleans:
        """Which rows of the state have a finite error."""
        return bounded_rows(rows, self.unbounded)

    def error(self, rows: Array, *, hindsight: bool) -> Array:
        """Error covariance of rows of the state that are bounded, now or with hindsight."""
        half = rows @ self.basis
        found = half @ (self.hindsight if hindsight else self.now) @ half.T
        return np.asarray((found + found.T) / 2)

    def errors_apart(self, rows: Array, count: int) -> ErrorsApart:
        """The errors with hindsight of rows A of the state, and how they go together ``count`` rows apart.

        With V the directions without bound and N those beside them, X = V v + N y, and messages are of y alone. So
        of the steps of v they tell what those of y do: their noise is L times that of y plus what is independent of
        everything sent, and w_t = (V'A N - L N'A N) y_{t-1} + L y_t + N(0, V'Q V - L N'Q V), L = V'Q N (N'Q N)^+.
        """
        if np.all(self.bounded(rows)):
            return ErrorsApart(self._apart(rows, count), np.zeros((len(rows), 0)), np.zeros((0, 0)))
        beside = complement(self.unbounded.T, len(self.unbounded))
        moved, noise = self.unbounded.T @ self.system.transition, self.unbounded.T @ self.system.noise
        of_rest = beside.T @ self.system.noise @ beside
        shared = noise @ beside @ np.linalg.pinv(of_rest, rcond=ROUNDING, hermitian=True)
        before = (moved - shared @ beside.T @ self.system.transition) @ beside @ beside.T
        bounded, shared = rows @ beside @ beside.T, shared @ beside.T
        r, k = len(rows), len(shared)
        lags = self._apart(np.concatenate([bounded, before, shared]), count + 1)
        back = np.concatenate([np.swapaxes(lags[1:2], 1, 2), lags[:-2]])  # one row less apart
        g, old, new = slice(r), slice(r, r + k), slice(r + k, None)
        found = np.empty((count, r + k, r + k))
        found[:, :r, :r] = lags[:-1, g, g]
        found[:, :r, r:] = back[:, g, old] + lags[:-1, g, new]
        found[:, r:, :r] = lags[1:, old, g] + lags[:-1, new, g]
        found[:, r:, r:] = lags[:-1, old, old] + lags[1:, old, new] + back[:, new, old] + lags[:-1, new, new]
        found[0, r:, r:] += noise @ (self.unbounded - shared.T)
        return ErrorsApart(found, rows @ self.unbounded, moved @ self.unbounded)

    def _apart(self, rows: Array, count: int) -> Array:
        """Cov(A e_t, A e_{t+k}) of bounded rows A, P Φ'^k (I - Λ P), (count, r, r)."""
        half = rows @ self.basis
        later = np.linalg.solve(self.before, self.hindsight @ half.T)  # (I - Λ P) half'
        found, moved = np.empty((count, len(rows), len(rows))), half @ self.before
        for lag in range(count):
            found[lag] = moved @ later
            moved = moved @ self.closed.T
        return found


def bounded_rows(rows: Array, unbounded: Array) -> Booleans:
    """Which rows have no part in any of the directions (columns) that are never bounded."""
    if unbounded.shape[1] == 0:
        return np.ones(len(rows), bool)
    outside = np.linalg.norm(rows @ unbounded, axis=1)
    return np.asarray(outside <= SMALLEST_PART * np.linalg.norm(rows, axis=1))
