"""How x moves from row to row, from rows that are known to follow one another.

x_{t+1} - m = A (x_t - m) + w_t, w ~ N(0, Q). With P0 = W W' the covariance of one row (the row model's prior) and
P1 = E (x_{t+1} - m)(x_t - m)' from neighbouring rows,

    M = W^-1 P1 W^-T,    A = W M W^-1,    Q = W (I - M M') W'.

A and P0 go together (P0 = A P0 A' + Q) when M is a contraction. Sample moments of one unbroken series see to that
themselves (Yule and Walker); with gaps, or with a series that wanders, singular values of M may reach 1 and are cut
to 1 - 1 / (pairs of neighbours + 1): more persistence than that cannot be told from so few. So A is always stable,
and rows taken one by one are described by the same prior as without dynamics.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array, Integers

__all__ = ["fit_transition", "neighbours"]


def neighbours(segments: Integers) -> Integers:
    """The rows that are followed by their neighbour."""
    return np.flatnonzero(np.diff(segments) == 0)


def fit_transition(
    centred: Array, segments: Integers, covariance: Array, shrinkage: float
) -> tuple[Array, Array]:
    """(A, Q) of a stream whose rows have this covariance.

    centred: (T, L) in order of time, means removed; segments: (T,) the runs of neighbours; shrinkage: λ that the
    correlations in ``covariance`` were shrunk by, used for those between neighbours, too.
    """
    before = neighbours(segments)
    length = centred.shape[1]
    if before.size == 0:
        return np.zeros((length, length)), covariance
    unit = centred / np.sqrt(np.mean(centred**2, axis=0))
    lagged = unit[before + 1].T @ unit[before] / before.size
    lagged = (1.0 - shrinkage) * lagged + shrinkage * np.diag(np.diag(lagged))
    deviation = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(covariance)
    half = np.linalg.solve(root, np.outer(deviation, deviation) * lagged)
    left, singular, right = np.linalg.svd(np.linalg.solve(root, half.T).T)
    contraction = left * np.minimum(singular, 1.0 - 1.0 / (before.size + 1)) @ right
    transition = np.linalg.solve(root.T, (root @ contraction).T).T
    renewed = root @ (np.eye(length) - contraction @ contraction.T) @ root.T
    return np.asarray(transition), np.asarray((renewed + renewed.T) / 2)
