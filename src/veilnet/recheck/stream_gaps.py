"""The least error around a memory that begins anew, once more: the joint law of a window of rows, and linear solves.

The window has W rows before and W after the moment at which some memories begin anew. It leaves out the rows beyond,
so it finds a little too large an error, less so as W is doubled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from veilnet._core.types import Array
from veilnet.recheck.stream_window import LARGEST_WINDOW, Window, root_of

__all__ = ["least_error_with_gaps"]

_FIRST = 8
_LOOKED_AT = 6  # rows on each side in which the least error is looked for
_SETTLED = 1e-7
_NEAR = 1.05  # patterns whose error is further above the least than this are not looked at again
_UNKNOWN = 1e6  # variance of what nothing is known of, in units of what the state reaches in some rows


def least_error_with_gaps(window: Window, rows: Array, claimed: float) -> float:
    """The least tr(A P A') with hindsight around a memory that begins anew: that of each agent, and all of them.

    window:  the messages.
    rows:    A, of x.
    claimed: the error that was promised; a window that finds it is long enough.
    """
    patterns = [[place] for place in window.memories] + [list(window.memories)]
    half, found = _FIRST, np.inf
    while True:
        errors = [_error(window, rows, pattern, half) for pattern in patterns]
        previous, found = found, min(errors)
        done = abs(found - claimed) <= _SETTLED * found or abs(previous - found) <= _SETTLED * found
        if done or 4 * half * window.sent > LARGEST_WINDOW:
            return found
        patterns = [
            pattern for pattern, error in zip(patterns, errors, strict=True) if error <= _NEAR * found
        ]
        half *= 2


def _error(window: Window, rows: Array, pattern: Sequence[int], half: int) -> float:
    """The least tr(A P A') in the rows next to the middle of a window of 2 ``half`` rows."""
    wide = np.zeros((len(rows), window.size))
    wide[:, : window.L] = rows * window.units[: window.L]
    seen = np.concatenate([window.observe, wide])
    covariance = _covariance(window, seen, pattern, 2 * half)
    m, each = window.sent, len(seen)
    sent = (np.arange(2 * half)[:, None] * each + np.arange(m)).ravel()
    own = np.tile(window.noise, (2 * half, 2 * half)) * np.kron(np.eye(2 * half), np.ones((m, m)))
    root = root_of(covariance[np.ix_(sent, sent)] + own)
    least = np.inf
    for row in range(max(0, half - _LOOKED_AT), min(2 * half, half + _LOOKED_AT)):
        target = row * each + m + np.arange(len(rows))
        explained = solve_triangular(root, covariance[np.ix_(sent, target)], lower=True)
        error = float(np.trace(covariance[np.ix_(target, target)]) - np.sum(explained**2))
        least = min(least, error)
    return least


def _covariance(window: Window, seen: Array, pattern: Sequence[int], count: int) -> Array:
    """Of ``seen`` in all rows; memories begin anew between the two halves."""
    size, each = window.size, len(seen)
    kept, drawn = np.eye(size), np.zeros((size, size))
    for place in pattern:
        mine, start = window.memories[place]
        kept[mine] = 0.0
        drawn[mine, mine] = start / np.outer(window.units[mine], window.units[mine])
    moves = [window.moves @ kept if row == count // 2 else window.moves for row in range(count)]
    state = window.first + _UNKNOWN * window.unknown @ window.unknown.T
    covariance = np.zeros((count * each, count * each))
    for row in range(count):
        if row:
            new = window.news + (window.moves @ drawn @ window.moves.T if row == count // 2 else 0.0)
            state = moves[row] @ state @ moves[row].T + new
        here, carried = slice(row * each, (row + 1) * each), state @ seen.T
        for later in range(row, count):
            if later > row:
                carried = moves[later] @ carried
            there = slice(later * each, (later + 1) * each)
            covariance[there, here] = seen @ carried
            covariance[here, there] = covariance[there, here].T
    return covariance
