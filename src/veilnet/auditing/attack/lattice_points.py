"""Lattice points near a Gaussian's mean: the nearest one, and the posterior over all that matter.

Readings of a sensor with resolution q lie on a lattice, y = phase + diag(q) n with whole n. Who knows y up to a
Gaussian N(m, V) that is narrow in some directions looks for the lattice points inside it. The basis is reduced
(Lenstra, Lenstra and Lovász, 1982) in the metric of V^-1; points are then listed by a breadth-first sphere
decoder that keeps the best ``width`` partial points of every row at once.

- A. K. Lenstra, H. W. Lenstra, L. Lovász, "Factoring polynomials with rational coefficients", Math. Ann. 261, 1982.
- E. Agrell, T. Eriksson, A. Vardy, K. Zeger, "Closest point search in lattices", IEEE Trans. IT 48, 2002.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, log, pi

import numpy as np

from veilnet._core.types import Array

_LOVASZ = 0.99
_DEVIATIONS = 5.0  # children further than this from a partial point's centre weigh less than 4e-6
_MOST_CHILDREN = 41
_MOST_SWAPS = 10_000
_ROWS_AT_ONCE = 128  # the lists of so many rows stay below fifty megabytes


@dataclass(frozen=True, eq=False)
class Near:
    """The lattice points near each row's mean.

    nearest:   (T, n) the point of highest posterior probability.
    mean:      (T, n) posterior mean over the points listed.
    certainty: (T,) posterior probability of the nearest point among them.
    evidence:  (T,) how much more probable a row is as one of the lattice than as one of the continuum.
    """

    nearest: Array
    mean: Array
    certainty: Array
    evidence: Array


def expected_points(covariance: Array, steps: Array) -> float:
    """How many lattice points to expect inside the ellipsoid of N(m, V) out to five deviations."""
    size = len(steps)
    ball = pi ** (size / 2) / gamma(size / 2 + 1) * _DEVIATIONS**size
    _, logdet = np.linalg.slogdet(covariance / np.outer(steps, steps))
    return float(ball * np.exp(min(0.5 * logdet, 600.0)))


def points_near(mean: Array, covariance: Array, steps: Array, phase: Array, width: int = 512) -> Near:
    """The lattice points near each row of ``mean`` (T, n) under N(mean, covariance).

    Every point weighs exp(-½ (y - m)' V^-1 (y - m)). The list is cut at ``width`` points a row, the best kept;
    :func:`expected_points` tells beforehand whether that is enough.
    """
    # W with W'W = V^-1 in steps
    basis = np.linalg.inv(np.linalg.cholesky(covariance / np.outer(steps, steps)))
    change = reduced(basis)
    orthogonal, upper = np.linalg.qr(basis @ change)
    metric = basis.T @ orthogonal
    nearest, centre = np.empty(mean.shape), np.empty(mean.shape)
    certainty, evidence = np.empty(len(mean)), np.empty(len(mean))
    density = float(np.linalg.slogdet(basis)[1]) - len(steps) / 2 * log(2 * pi)  # of N(m, V) at m, per step
    for start in range(0, len(mean), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        shifted = (mean[some] - phase) / steps
        whole = np.rint(shifted)
        listed, cost = _listed((shifted - whole) @ metric, upper, width)
        offsets = listed @ change.T
        weights = np.exp(-0.5 * (cost - cost.min(axis=1, keepdims=True)))
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        best = np.argmin(cost, axis=1)
        everyone = np.arange(len(whole))
        nearest[some] = phase + steps * (whole + offsets[everyone, best])
        centre[some] = phase + steps * (whole + np.einsum("tk,tkn->tn", weights, offsets))
        certainty[some] = weights[everyone, best]
        evidence[some] = np.exp(np.minimum(density - 0.5 * cost.min(axis=1) + np.log(total[:, 0]), 600.0))
    return Near(nearest, centre, certainty, evidence)


def reduced(basis: Array) -> Array:
    """The unimodular T for which the columns of ``basis`` T are reduced (LLL); entries are whole numbers."""
    columns = basis.copy()
    size = columns.shape[1]
    change = np.eye(size)
    k, swaps = 1, 0
    upper: Array = np.asarray(np.linalg.qr(columns, mode="r"))
    while k < size and swaps < _MOST_SWAPS:
        for j in range(k - 1, -1, -1):
            factor = np.rint(upper[j, k] / upper[j, j])
            if factor:
                columns[:, k] -= factor * columns[:, j]
                change[:, k] -= factor * change[:, j]
                upper[:, k] -= factor * upper[:, j]
        if upper[k, k] ** 2 + upper[k - 1, k] ** 2 < _LOVASZ * upper[k - 1, k - 1] ** 2:
            columns[:, [k - 1, k]] = columns[:, [k, k - 1]]
            change[:, [k - 1, k]] = change[:, [k, k - 1]]
            upper = np.asarray(np.linalg.qr(columns, mode="r"))
            swaps += 1
            k = max(k - 1, 1)
        else:
            k += 1
    return change


def _listed(target: Array, upper: Array, width: int) -> tuple[Array, Array]:
    """Whole vectors k (T, K, n) with small |upper k - target|², and that square (T, K)."""
    rows, size = target.shape
    chosen = np.zeros((rows, 1, size))
    cost = np.zeros((rows, 1))
    for level in range(size - 1, -1, -1):
        pivot = upper[level, level]
        centre = (target[:, level, None] - chosen[:, :, level + 1 :] @ upper[level, level + 1 :]) / pivot
        reach = int(min(np.ceil(_DEVIATIONS / abs(pivot)), _MOST_CHILDREN // 2))
        children = np.rint(centre)[:, :, None] + np.arange(-max(reach, 1), max(reach, 1) + 1)
        costs = cost[:, :, None] + (pivot * (children - centre[:, :, None])) ** 2
        flat = costs.reshape(rows, -1)
        keep = min(width, flat.shape[1])
        order = (
            np.argpartition(flat, keep - 1, axis=1)[:, :keep]
            if keep < flat.shape[1]
            else np.broadcast_to(np.arange(keep), (rows, keep))
        )
        parents = order // children.shape[2]
        everyone = np.arange(rows)[:, None]
        chosen = chosen[everyone, parents]
        chosen[:, :, level] = children.reshape(rows, -1)[everyone, order]
        cost = flat[everyone, order]
    return chosen, cost
