"""The error of u now by a witness: a filter that a centre can run, and the error that this very filter has.

Where the filter forgets slowly, no window of messages is long enough. But whatever the gain K of a filter, its error

    e_t = (I - K C)(A e_{t-1} + w_t) - K ξ_t

has a covariance that solves a linear equation (Lyapunov's), and no centre has to err more than that. So the gain need
not be believed: it comes from running the plain recursion for some rows, and only the error of the frozen filter
counts. It is too large rather than too small, by the square of what the gain is off.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.recheck.stream_window import SETTLED, Window

__all__ = ["error_of_witness"]

_FEWEST_ROWS, _MOST_ROWS = 128, 2048
_REPEATS = 1e-13  # combinations of messages with less than this part of the largest variance repeat others
_MOST_DOUBLINGS = 60


def error_of_witness(window: Window, rows: Array) -> float:
    """tr(A P A') now of a filter with constant gain; inf where none was found that settles.

    window: the system whose messages are filtered.
    rows:   A.
    """
    wide = np.zeros((len(rows), window.size))
    wide[:, : window.L] = rows * window.units[: window.L]
    before = np.asarray(window.first, np.float64)
    done, found = 0, np.inf
    run = _FEWEST_ROWS
    while run <= _MOST_ROWS:
        for _ in range(run - done):
            gain = _gain(window, before)
            after = _corrected(window, gain, before)
            grown = window.moves @ after @ window.moves.T + window.news
            before = np.asarray((grown + grown.T) / 2)
        done, previous = run, found
        found = _error_of(window, gain, wide)
        if abs(previous - found) <= SETTLED * found:
            break
        run *= 2
    return found


def _gain(window: Window, before: Array) -> Array:
    seen = window.observe @ before
    innovation = seen @ window.observe.T + window.noise
    sizes = np.sqrt(np.maximum(np.diag(innovation), np.finfo(float).tiny))
    inverse = np.linalg.pinv(innovation / np.outer(sizes, sizes), rcond=_REPEATS, hermitian=True)
    return np.asarray((seen.T / sizes) @ inverse / sizes)


def _corrected(window: Window, gain: Array, before: Array) -> Array:
    kept = np.eye(window.size) - gain @ window.observe
    return np.asarray(kept @ before @ kept.T + gain @ window.noise @ gain.T)


def _error_of(window: Window, gain: Array, wide: Array) -> float:
    """The stationary error of the filter with this gain, by doubling; inf where it does not settle."""
    step = (np.eye(window.size) - gain @ window.observe) @ window.moves
    total = _corrected(window, gain, window.news)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_DOUBLINGS):
            more = step @ total @ step.T
            total = total + more
            step = step @ step
            if not np.all(np.isfinite(total)):
                return np.inf
            if np.max(np.abs(more)) <= np.finfo(float).eps * np.max(np.abs(total)):
                return float(np.trace(wide @ total @ wide.T))
    return np.inf
