"""The squared nuclear norm |Y|_*² = min {tr(Y'X^-1 Y): X ⪰ 0, tr X = 1}, smoothed by -μ log det X; a stack at once.

On the min(size, columns) dimensions that matter, the minimiser shares its singular vectors with Y = U diag(s) V' and
its eigenvalues x solve s²/x² + μ/x = ν, Σ x = 1, so that half the value has the gradient U diag(s/x) V' and a Hessian
that is explicit, and sparse in the basis of singular vectors.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array


def smoothed_eigenvalues(singular: Array, weight: Array | float) -> tuple[Array, Array]:
    """x and 2νx - μ for singular values s (one of a stack a row): νx = a + √(a² + ν s²), a = μ/2, Σ x = 1.

    Newton's method on the convex equation for ν, from above, hence monotone.

    weight: μ, one for all or one for each of the stack.
    """
    half = np.broadcast_to(np.asarray(weight, dtype=np.float64) / 2, singular.shape[:1])
    total = singular.sum(axis=1)
    level = ((total + np.sqrt(total**2 + 8 * half * singular.shape[1])) / 2) ** 2
    half = half[:, None]
    for _ in range(100):
        root = np.sqrt(half**2 + level[:, None] * singular**2)
        excess = level - (half + root).sum(axis=1)
        change = excess / (1 - (singular**2 / (2 * root)).sum(axis=1))
        level = level - change
        if np.all(np.abs(change) <= 4 * np.finfo(float).eps * level):
            break
    root = np.sqrt(half**2 + level[:, None] * singular**2)
    return (half + root) / level[:, None], 2 * root


def smoothed_value(singular: Array, eigenvalues: Array, weight: Array | float) -> Array:
    """The smoothed squares themselves, one for each of the stack."""
    barrier = np.asarray(weight) * np.sum(np.log(eigenvalues), axis=1)
    return np.asarray(np.sum(singular**2 / eigenvalues, axis=1) - barrier)


def smoothed_curvature(
    singular: Array, eigenvalues: Array, slope: Array, weight: Array | float, shape: tuple[int, int]
) -> Array:
    """The Hessians of half the smoothed squares in bases of singular vectors, (count, size, columns, size, columns).

    slope: 2νx - μ.
    shape: size and columns of Y.
    """
    s, x = singular, eigenvalues
    count, kept = s.shape
    size, columns = shape
    hessian = np.zeros((count, size, columns, size, columns))
    for place in range(kept, size):
        for column in range(columns):
            hessian[:, place, column, place, column] = 1 / x[:, column]
    for column in range(kept, columns):
        for place in range(size):
            hessian[:, place, column, place, column] = 1 / x[:, place]

    w = s / x
    sum_w = w[:, :, None] + w[:, None, :]
    ratio = np.where(
        sum_w > 0, (s[:, :, None] + s[:, None, :]) / np.where(sum_w > 0, sum_w, 1), x[:, :, None]
    )
    # Divided differences (w_a - w_b)/(s_a - s_b) without the difference: w² = ν - μ/x.
    pair = (slope[:, :, None] + slope[:, None, :]) * x[:, :, None] * x[:, None, :]
    symmetric = 2 * np.reshape(weight, (-1, 1, 1)) * ratio / pair
    first, second = np.nonzero(~np.eye(kept, dtype=bool))
    hessian[:, first, second, first, second] = ((symmetric + 1 / ratio) / 2)[:, first, second]
    hessian[:, first, second, second, first] = ((symmetric - 1 / ratio) / 2)[:, first, second]

    pull = s / slope
    coupled = 2 * pull[:, :, None] * pull[:, None, :] / np.sum(x**2 / slope, axis=1)[:, None, None]
    own = np.arange(kept)
    coupled[:, own, own] += np.reshape(weight, (-1, 1)) / (slope * x)
    hessian[:, own[:, None], own[:, None], own, own] = coupled
    return hessian
