"""The least errors around a memory that begins anew, once more: the joint law of a window of rows, and linear solves.

The window has W rows before and W after the moment at which some memories begin anew. It leaves out the rows beyond,
so it finds a little too large an error, less so as W is doubled. W does not depend on what was promised: a promise
that a short window happens to find is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from veilnet._core.types import Array
from veilnet.recheck.stream_window import LARGEST_WINDOW, Window, root_of

__all__ = ["least_errors_with_gaps"]

_FIRST = 8
_LONGEST = 512
_NEAR = 6
_SETTLED = 1e-6  # a window whose errors are those of half of it to within this part is long enough
_ALL_PATTERNS = 16  # from here on only those that left least are looked at: others take as long
_UNKNOWN = 1e6  # variance of what nothing is known of, in units of what the state reaches in some rows


def least_errors_with_gaps(window: Window, groups: Sequence[Array]) -> Array:
    """The least tr(A P A') with hindsight of each group of rows A of x, around a memory that begins anew: that of
    each agent, and all of them.

    window: the messages.
    groups: rows of x.
    """
    patterns = [[place] for place in window.memories]
    patterns += [list(window.memories)] if len(patterns) > 1 else []
    half, found = _FIRST, np.full(len(groups), np.inf)
    while True:
        errors = [_errors(window, groups, pattern, half) for pattern in patterns]
        previous, found = found, np.asarray(np.min(errors, axis=0), np.float64)
        longest = half >= _LONGEST or 4 * half * window.sent > LARGEST_WINDOW
        if longest or np.all(np.abs(previous - found) <= _SETTLED * found):
            return found
        if half >= _ALL_PATTERNS:
            patterns = [patterns[place] for place in np.unique(np.argmin(errors, axis=0))]
        half *= 2


def _errors(window: Window, groups: Sequence[Array], pattern: Sequence[int], half: int) -> Array:
    """The least tr(A P A') of each group next to the middle of a window of 2 ``half`` rows."""
    rows = np.concatenate(list(groups))
    wide = np.zeros((len(rows), window.size))
    wide[:, : window.L] = rows * window.units[: window.L]
    seen = np.concatenate([window.observe, wide])
    covariance = _covariance(window, seen, pattern, 2 * half)
    m, each = window.sent, len(seen)
    sent = (np.arange(2 * half)[:, None] * each + np.arange(m)).ravel()
    root = root_of(covariance[np.ix_(sent, sent)])
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    near = half // 2 if window.settled else _NEAR  # too much is known of other windows' first rows
    middle = np.arange(half - near, half + near)
    target = (middle[:, None] * each + m + np.arange(len(rows))).ravel()
    explained = solve_triangular(root, covariance[np.ix_(sent, target)], lower=True)
    errors = covariance[target, target] - np.sum(explained**2, axis=0)
    return np.asarray(np.min(np.add.reduceat(errors.reshape(2 * near, -1), starts, axis=1), axis=0))


def _covariance(window: Window, seen: Array, pattern: Sequence[int], count: int) -> Array:
    """Of ``seen``, noise of the messages included, in all rows; memories begin anew between the two halves."""
    size, each, m = window.size, len(seen), window.sent
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
        own = slice(row * each, row * each + m)
        covariance[own, own] += window.noise
    return covariance
