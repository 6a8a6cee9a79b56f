"""The error of u now by a witness: a filter that a centre can run, and the error that it has.

Whatever the gain K of a filter, its error

    e_t = (I - K C)(A e_{t-1} + w_t) - K ξ_t

has a covariance that solves a linear equation (Lyapunov's), and no centre has to err more than that. So the gain need
not be believed: it comes from running the plain recursion for some rows, and only the error of the frozen filter
counts. It is too large rather than too small, by the square of what the gain is off.

Exact numbers that repeat one another from row to row would leave the recursion without an end: a filter that believes
them to the last digit runs backwards what cannot be run backwards. So the gain is one of messages with a little noise
of their own, and it begins with what the state reaches in some rows; the error is counted without that noise.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.recheck.stream_system import SETTLED, RowSystem, reached, white_noise

_FEWEST_ROWS, _MOST_ROWS = 32, 2048
_REPEATS = 1e-13  # combinations of messages with less than this part of the largest variance repeat others
_MOST_DOUBLINGS = 60  # 2^60 rows: what has not settled by then never does
_AGREES = 1e-8  # of what was claimed: a hundredth of what a certificate allows
UNSEEN = 1e-9  # of unit directions: what doubles leave of one that nobody sees, with room
_BLURRED = 1e-12  # of a message, squared: noise that keeps the gain's recursion from running backwards
_CANCELLED = 1e-12  # of a message: what doubles leave where a filter lets nothing pass of what lasts
_WITHOUT_END = 1e12  # an error squared, in units of what the state reaches in some rows


def error_of_witness(system: RowSystem, rows: Array, claimed: float | None = None) -> float:
    """tr(A P A') now of a filter with constant gain; inf where none was found that settles.

    system:  whose messages are filtered.
    rows:    A.
    claimed: an error that ends the search where a filter has it.
    """
    wide, hidden = system.wide(rows), hidden_for_good(system)
    if hidden.shape[1]:  # what nothing bounds is left out, if u has none of it
        if np.linalg.norm(wide @ hidden) > UNSEEN * np.linalg.norm(wide):
            return np.inf
        basis = np.linalg.svd(hidden)[0][:, hidden.shape[1] :]
        wide, system = wide @ basis, system.part(basis)
    blurred = copy(system)
    blurred.noise = system.noise + _BLURRED * np.eye(system.sent)
    before = reached(system.moves, system.news)
    done, found = 0, np.inf
    run = _FEWEST_ROWS
    while run <= _MOST_ROWS:
        for _ in range(run - done):
            gain, _ = gain_of(blurred, before)
            after = corrected(blurred, gain, before)
            grown = system.moves @ after @ system.moves.T + system.news
            before = np.asarray((grown + grown.T) / 2)
            if np.max(np.diag(before)) > _WITHOUT_END:
                return np.inf
        done, previous = run, found
        found = _error_of(system, gain, wide)
        agrees = claimed is not None and abs(found - claimed) <= _AGREES * claimed
        if agrees or abs(previous - found) <= SETTLED * found:
            break
        run *= 2
    return found


def hidden_for_good(system: RowSystem) -> Array:
    """Orthonormal columns: directions of the state that do not die away and that no message ever shows."""
    from scipy.linalg import schur

    lasts = lambda real, imaginary: np.hypot(real, imaginary) >= 1 - UNSEEN  # noqa: E731
    _, basis, count = schur(system.moves, sort=lasts)
    lasting = basis[:, :count]
    moves, rows = lasting.T @ system.moves @ lasting, system.observe @ lasting
    rows[np.linalg.norm(rows, axis=1) <= _CANCELLED] = 0.0  # messages have unit size
    seen = np.zeros((0, count))
    for _ in range(count):
        seen = np.concatenate([seen, rows / max(np.linalg.norm(rows), np.finfo(float).tiny)])
        rows = rows @ moves
    _, sizes, directions = np.linalg.svd(seen)
    return np.asarray(lasting @ directions[np.sum(sizes > UNSEEN) :].T)


def gain_of(system: RowSystem, before: Array) -> tuple[Array, Array]:
    """(K, W) of a row, from the error of the state before it: W'W = S^+, the covariance of what it tells anew."""
    seen = system.observe @ before
    white = whitening_rows(seen @ system.observe.T + system.noise)
    return np.asarray(seen.T @ white.T @ white), white


def whitening_rows(covariance: Array) -> Array:
    """W, W'W the inverse of a covariance, without combinations that repeat others."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > _REPEATS * np.max(values, initial=0.0)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


def corrected(system: RowSystem, gain: Array, before: Array) -> Array:
    """The error of the state after a row, with this gain."""
    kept = np.eye(system.size) - gain @ system.observe
    return np.asarray(kept @ before @ kept.T + gain @ system.noise @ gain.T)


def _error_of(system: RowSystem, gain: Array, wide: Array) -> float:
    """The stationary error of the filter with this gain, by doubling; inf where it does not settle."""
    step = (np.eye(system.size) - gain @ system.observe) @ system.moves
    total = corrected(system, gain, system.news)
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


def error_of_raw_filter(network: Network, rows: Array) -> float:
    """tr(A P A') now, from raw readings: by a generalised Schur form where every reading has white noise."""
    from scipy.linalg import solve_discrete_are

    dynamics = network.dynamics
    assert dynamics is not None
    raw = RowSystem(network, None)
    base = network.L + (0 if network.colour is None else network.N)
    white = white_noise(network)
    scale = np.sqrt(np.diag(network.R.matrix()))
    white = white / np.outer(scale, scale)
    if np.linalg.eigvalsh(white)[0] < 1e-9:
        return error_of_witness(raw, rows)
    read = np.concatenate([network.H, np.eye(network.N)[:, : base - network.L]], axis=1)
    read = read * raw.units[:base] / scale[:, None]
    rows = rows * raw.units[: network.L]
    before = solve_discrete_are(raw.moves[:base, :base].T, read.T, raw.news[:base, :base], white)
    half = read @ before[:, : network.L] @ rows.T
    best = rows @ before[: network.L, : network.L] @ rows.T
    return float(np.trace(best - half.T @ np.linalg.solve(read @ before @ read.T + white, half)))
