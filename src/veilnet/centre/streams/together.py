"""Some rows of a filter at once, whichever of their messages arrived: one Gaussian of all their numbers.

From a state X_0 with error P, the numbers z_k of the next B rows, their public rows u_k and the last state X_B are

    z = S X_0 + noise,    y = (u_1, .., u_B, X_B) = E X_0 + noise,

with matrices and covariances of the noise that do not depend on who sends, and are worked out once. Let a be the
numbers that arrived, row after row, and RR' = S_a P S_a' + Cov(noise_a), R lower. Then w = R^-1 (z_a - expected) is
what the filter finds new in row after row, whitened. With V = R^-1 Cov(z_a, y), the filter's estimate of u_k is what
was expected of it plus V'w over the numbers up to row k alone, its error what it was less V'V over these. So a row
costs its part of a few products of matrices, in whatever way it lacks messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import cholesky, root_condition, solve_lower
from veilnet._core.types import Array, Booleans
from veilnet.centre.streams.model import FilterRow

_WORST = 1e4  # condition of R, units removed: beyond it, rows one by one lose fewer digits


@dataclass(frozen=True, eq=False)
class Ahead:
    """What the next rows show of a state, and what is new in them whatever it was.

    sees, ends:   S (B m, n) and E (B p + n, n).
    about, about_ends: what is expected of z and of y from X_0 = 0.
    noise:        covariance of z where X_0 is known, (B m, B m), ``shared`` of y with z, (B p + n, B m); ``public``
                  that of each u_k, (B, p, p), and ``last`` that of X_B.
    """

    sees: Array
    ends: Array
    about: Array
    about_ends: Array
    noise: Array
    shared: Array
    public: Array
    last: Array


@dataclass(frozen=True, eq=False)
class Together:
    """What some rows gave.

    public, errors: of each row the estimate of the public rows and its covariance, (B, p) and (B, p, p).
    distances:      (B,), squared, of what is new in each row.
    state, error:   after the last.
    """

    public: Array
    errors: Array
    distances: Array
    state: Array
    error: Array


def rows_ahead(row: FilterRow, public: Array, count: int) -> Ahead:
    """That of ``count`` rows in which nobody misses a reading; row: one in which everybody sends."""
    size, many, shown = len(row.transition), len(row.observe), len(public)
    both = np.concatenate([row.observe, public])
    wide = len(both)
    seen, about = np.empty((count, wide, size)), np.empty((count, wide))
    covariance = np.zeros((count, wide, count, wide))
    power, mean, known = np.eye(size), np.zeros(size), np.zeros((size, size))
    carried = np.zeros((size, 0))  # Cov(X_k, (z_j, u_j)) for j up to k, what is new alone
    for k in range(count):
        power, mean = row.transition @ power, row.transition @ mean + row.drive
        known = row.transition @ known @ row.transition.T + row.noise
        carried = np.concatenate([row.transition @ carried, known @ both.T], axis=1)
        seen[k], about[k] = both @ power, both @ mean
        covariance[k, :, : k + 1] = (both @ carried).reshape(wide, k + 1, wide)
        covariance[: k + 1, :, k] = covariance[k, :, : k + 1].transpose(1, 2, 0)
        covariance[k, :many, k, :many] += row.floor
    about[:, :many] += row.expected
    numbers, total = count * many, count * shown
    each = np.arange(count)
    return Ahead(
        seen[:, :many].reshape(numbers, size),
        np.concatenate([seen[:, many:].reshape(total, size), power]),
        about[:, :many].ravel(),
        np.concatenate([about[:, many:].ravel(), mean]),
        covariance[:, :many, :, :many].reshape(numbers, numbers),
        np.concatenate(
            [
                covariance[:, many:, :, :many].reshape(total, numbers),
                carried.reshape(size, count, wide)[:, :, :many].reshape(size, numbers),
            ]
        ),
        covariance[each, many:, each, many:],
        known,
    )


def together(ahead: Ahead, state: Array, error: Array, numbers: Array, arrived: Booleans) -> Together | None:
    """The rows after one with this state and error; None where too many digits would be lost.

    numbers: (B, m) that came, ``arrived`` which of them did.
    """
    count, shown = ahead.public.shape[:2]
    total = count * shown
    came = np.flatnonzero(arrived)
    noise, sees, about, shared = ahead.noise, ahead.sees, ahead.about, ahead.shared
    if len(came) < numbers.size:
        noise, sees, about = noise[came].take(came, axis=1), sees[came], about[came]
        shared = shared.take(came, axis=1)
    half = sees @ error
    try:
        root = cholesky(half @ sees.T + noise)
    except np.linalg.LinAlgError:
        return None
    if root_condition(root) > _WORST:
        return None
    # transposed, as LAPACK reads it
    turned = np.empty((len(ahead.ends) + 1, len(came)))
    np.matmul(ahead.ends, half.T, out=turned[:-1])
    turned[:-1] += shared
    turned[-1] = numbers.ravel()[came] - about - sees @ state
    right = solve_lower(root, turned.T)
    new, drawn = right[:, -1].copy(), right[:, total:-1]
    owner = came // numbers.shape[1]
    tells = (right[:, :total] * (owner[:, None] <= np.arange(count).repeat(shown))).reshape(-1, count, shown)
    tells = tells.transpose(1, 2, 0)
    expected = ahead.ends @ state + ahead.about_ends
    ends = ahead.ends[:total]
    before = (ends @ error).reshape(count, shown, -1) @ ends.reshape(count, shown, -1).transpose(0, 2, 1)
    moved = ahead.ends[total:]
    after = moved @ error @ moved.T + ahead.last - drawn.T @ drawn
    return Together(
        expected[:total].reshape(count, shown) + tells @ new,
        before + ahead.public - tells @ tells.transpose(0, 2, 1),
        np.bincount(owner, new**2, minlength=count).astype(np.float64),
        expected[total:] + drawn.T @ new,
        (after + after.T) / 2,
    )
