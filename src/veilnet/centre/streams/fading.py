"""Rows that all come in the pattern of a steady state while the error still differs from it: many at a time.

With the error P + L M L' of rank r after a row, the state is what the steady filter makes of it plus L b, b ~ N(0, M)
and independent of the filter's own error (Lainiotis' partition). Let the steady filter go on, F = (I - K C) A its
step and e_k what is new in its row k, of covariance N. Of b it shows G_k = C A F^(k-1) L, so with

    J_k = sum_(j <= k) G_j' N^-1 G_j,    y_k = sum_(j <= k) G_j' N^-1 e_j,    M_k = (I + M J_k)^-1 M

the estimate after row k is the steady filter's plus F^k L M_k y_k, its error P + F^k L M_k (F^k L)', and what is new
in it e_k - G_k M_(k-1) y_(k-1), the inverse of whose covariance is N^-1 - N^-1 G_k M_k G_k' N^-1. C A F^k and U F^k
are worked out once, so that a row costs products of matrices with r columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array

_MOST_ROWS, _FEWEST_ROWS, _NUMBERS = 64, 8, 1 << 19  # rows, and numbers that a table of powers has


@dataclass(frozen=True, eq=False)
class Responses:
    """What rows of a steady filter show of its state before them.

    root:   of N, lower.
    seen:   (rows, m, n), root^-1 C A F^(k-1), k = 1, 2, ...
    shown:  (rows, public rows, n), U F^k.
    powers: F, F^2, F^4, ...
    """

    root: Array
    seen: Array
    shown: Array
    powers: tuple[Array, ...]


def shown_by_rows(
    forward: Array, transition: Array, observe: Array, news: Array, public: Array
) -> Responses | None:
    """That of a steady filter with F = ``forward``, A, C, N and U; None where N is singular."""
    scale = np.sqrt(np.diag(news))
    if not len(observe) or not np.all(scale > 0):
        return None
    try:
        root = scale[:, None] * cholesky(news / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    numbers = len(observe) + len(public)
    count = min(max(_NUMBERS // (numbers * len(forward)), _FEWEST_ROWS), _MOST_ROWS)
    table = np.empty((count, numbers, len(forward)))
    table[0] = np.concatenate([solve_lower(root, observe) @ transition, public @ forward])
    powers, known = [forward], 1
    while known < count:  # all powers known, times the next power of two
        new = min(known, count - known)
        table[known : known + new] = table[:new] @ powers[-1]
        powers.append(powers[-1] @ powers[-1])
        known += new
    return Responses(root, table[:, : len(observe)], table[:, len(observe) :], tuple(powers))


class Fading:
    """Some rows of a steady filter, which began with another error.

    shows:  of the filter.
    factor, middle: L and M before the rows.
    new:    e_k, (rows, m).
    """

    def __init__(self, shows: Responses, factor: Array, middle: Array, new: Array) -> None:
        rows, rank = len(new), factor.shape[1]
        self._shows, self._start, self._middle = shows, factor, middle
        self._seen = (shows.seen[:rows].reshape(-1, len(factor)) @ factor).reshape(rows, -1, rank)
        self._shown = (shows.shown[:rows].reshape(-1, len(factor)) @ factor).reshape(rows, -1, rank)
        turned = self._seen.transpose(0, 2, 1)
        self._inner = np.eye(rank) + middle @ np.cumsum(turned @ self._seen, axis=0)
        white = solve_lower(shows.root, new.T).T
        drawn = np.cumsum((turned @ white[:, :, None])[:, :, 0], axis=0)
        right = np.concatenate([self._shown.transpose(0, 2, 1), turned, drawn[:, :, None]], axis=2)
        found = np.linalg.solve(self._inner, middle @ right)
        count = self._shown.shape[1]
        self._inside = found[:, :, -1]
        self.public = self._shown @ found[:, :, :count]
        """What it adds to the error of the public rows, (rows, public rows, public rows)."""
        self.moved = (self._shown @ self._inside[:, :, None])[:, :, 0]
        """What it adds to the public estimates, (rows, public rows)."""
        before = np.concatenate([np.zeros((1, rank)), self._inside[:-1]])
        left = white - (self._seen @ before[:, :, None])[:, :, 0]
        pulled = (turned @ left[:, :, None])[:, :, 0]
        weighed = (found[:, :, count:-1] @ left[:, :, None])[:, :, 0]
        self.distances = np.sum(left**2, axis=1) - np.sum(pulled * weighed, axis=1)
        """Squared joint distances of what is new."""

    def factor(self, rows: int) -> Array:
        """F^rows L."""
        found, power = self._start, 0
        while rows >> power:
            if rows >> power & 1:
                found = self._shows.powers[power] @ found
            power += 1
        return found

    def middle_after(self, rows: int) -> Array:
        """M after so many rows."""
        found = np.linalg.solve(self._inner[rows - 1], self._middle)
        return np.asarray((found + found.T) / 2)

    def state(self, rows: int) -> Array:
        """What it adds to the state after so many rows."""
        return np.asarray(self.factor(rows) @ self._inside[rows - 1])
