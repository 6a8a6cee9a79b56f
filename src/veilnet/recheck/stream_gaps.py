"""The least errors around a memory that begins anew, once more, and never too large.

One who knew the whole state s (x, the noise that carries over, memories, readings) T rows before the moment and T
rows after it could leave out all rows beyond. So the error of somebody who knows both is a bound from below, whatever
T is; it grows with T up to the error itself. Rows that are T/4 to T/2 away have to be as if nothing had begun anew:
those still farther away are then too. One pass over T rows from a known s_0 has all of it. With P_k the error of s_k
given s_0 and rows up to k, S_k the covariance of what row k tells anew, and step_k what an error becomes in row k:

    Φ_k = step_k ... step_1                        how an error of s_0 comes through
    Y'Y = Σ (O M Φ_{k-1})' S_k^-1 (O M Φ_{k-1}) + Φ_T' P_T^+ Φ_T     the information of T rows and s_T about s_0
    q_k = step_T ... step_{k+1} P_k a'             what s_T has of the error of a s_k
    e_k = a P_k a' - what rows after k add to it   the error of a s_k, given s_0 and the T rows

and b_k, how a s_k, estimated from them and s_T, moves with s_0. Where memories begin anew, s becomes K s + d, K
without them, d ~ N(0, D), with the error P' = K P_T K' + D. Rows k before that moment have the error
e_k - q_k' K' Y' (I + Y P' Y')^-1 Y K q_k, those after it e_k - q_k' P_T^+ q_k + b_k (P'^-1 + Y'Y)^-1 b_k'. The
singular values of Y times a root of P' give both: exact numbers make Y large beyond what its square could hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.types import Array
from veilnet.recheck.stream_system import RowSystem
from veilnet.recheck.stream_witness import corrected, gain_of, whitening_rows

_FIRST, _LONGEST = 16, 16384  # rows; what keeps 0.999 of itself a row is forgotten after some 10,000
_SETTLED = 1e-8  # of an error: what twice as many rows may add to it
# of an error: what a moment T/4 rows away may take from it; what is shown is lowered by as much
_RETURNED = 1e-6


def least_errors_with_gaps(system: RowSystem, groups: Sequence[Array], claimed: Array) -> Array:
    """At most the least tr(A P A') with hindsight of each group of rows A of x, around a memory that begins anew:
    that of each agent, and all of them.

    system:  the messages.
    groups:  rows of x.
    claimed: errors of which to show that they are left: fewer rows may be enough.
    """
    patterns = [[place] for place in system.memories]
    patterns += [list(system.memories)] if len(patterns) > 1 else []
    known = _BetweenKnown(system, np.concatenate(list(groups)))
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    found, rows = np.zeros(len(groups)), _FIRST
    while True:
        known.go_on(rows)
        near = np.arange(rows - rows // 2, rows + rows // 2)
        far = np.abs(near - rows + 0.5) > rows / 4
        try:
            usual, *errors = (
                np.add.reduceat(known.errors(pattern)[near], starts, axis=1) for pattern in ([], *patterns)
            )
        except np.linalg.LinAlgError:  # errors that have grown beyond what doubles tell apart
            return found
        previous, found = found, np.min(errors, axis=(0, 1))
        returned = np.all(np.array(errors)[:, far] >= (1 - _RETURNED) * usual[far])
        enough = np.all((found >= claimed) | (found - previous <= _SETTLED * found))
        if (returned and enough) or rows >= _LONGEST:
            least = np.minimum(found, (1 - _RETURNED) * np.min(usual, axis=0))
            return np.asarray(least if returned else np.zeros(len(groups)))
        rows *= 2


class _BetweenKnown:
    """Errors of rows of x between two states that are known; see the top of this file for the letters."""

    def __init__(self, system: RowSystem, rows: Array) -> None:
        self._system, size = system, system.size
        self._goal = system.wide(rows)
        self._error, self._through = np.zeros((size, size)), np.eye(size)
        self._factor = np.zeros((size, size))
        self._ahead, self._moved = np.zeros((size, 0)), np.zeros((0, size))
        self._left = np.zeros(0)
        self._done = 0

    def go_on(self, rows: int) -> None:
        """To so many rows from s_0."""
        system, factors = self._system, [self._factor]
        for _ in range(rows - self._done):
            before = system.moves @ self._error @ system.moves.T + system.news
            gain, white = gain_of(system, before)
            seen = system.observe @ system.moves
            explained, through = white @ seen @ self._ahead, white @ seen @ self._through
            self._left = self._left - np.sum(explained**2, axis=0)
            self._moved = self._moved - explained.T @ through
            factors.append(through)
            step = system.moves - gain @ seen
            error = corrected(system, gain, before)
            self._error = (error + error.T) / 2
            self._through = step @ self._through
            new = self._error @ self._goal.T
            self._ahead = np.concatenate([step @ self._ahead, new], axis=1)
            self._left = np.concatenate([self._left, np.sum(new.T * self._goal, axis=1)])
            self._moved = np.concatenate([self._moved, self._goal @ self._through])
        self._done = rows
        self._factor = _triangle(factors)
        at_end = whitening_rows(self._error)
        through, ahead = at_end @ self._through, at_end @ self._ahead
        self._whole_factor = _triangle([self._factor, through])
        self._moved_at_all = self._moved - ahead.T @ through
        self._left_at_all = self._left - np.sum(ahead**2, axis=0)

    def errors(self, pattern: Sequence[int]) -> Array:
        """The errors of all rows of x, (2 T, count), if these memories begin anew in the middle."""
        system = self._system
        kept, drawn = np.ones(system.size), np.zeros((system.size, system.size))
        for place in pattern:
            mine, start = system.memories[place]
            kept[mine] = 0.0
            drawn[mine, mine] = start / np.outer(system.units[mine], system.units[mine])
        values, vectors = np.linalg.eigh(np.outer(kept, kept) * self._error + drawn)
        anew = vectors * np.sqrt(np.maximum(values, 0.0))
        left, sizes, right = np.linalg.svd(self._whole_factor @ anew)
        part = (1.0 / (1.0 + sizes**2))[:, None]
        explained = left.T @ (self._whole_factor @ (kept[:, None] * self._ahead))
        before = self._left - np.sum(part * explained**2, axis=0)
        unsure = right @ anew.T @ self._moved_at_all.T
        after = self._left_at_all + np.sum(part * unsure**2, axis=0)
        return np.concatenate([before, after]).reshape(2 * self._done, len(self._goal))


def _triangle(rows: Sequence[Array]) -> Array:
    """T with T'T that of all rows."""
    return np.asarray(np.linalg.qr(np.concatenate(rows))[1])
