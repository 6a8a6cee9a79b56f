"""The normal form of compression plus noise (the paper's Proposition 1(ii), by SVD per agent)."""

from __future__ import annotations

import numpy as np

from veilnet._core.linalg import EPS, solve_lower
from veilnet._core.types import Array, Booleans

# However ill-conditioned the noise, a row with more than this left of it is a row: when in doubt it is counted
# as sent, so that privacy is never overstated.
_MOST_ROUNDING = 1e-6


def normal_form(compression: Array, noise: Array) -> tuple[Array, Booleans]:
    """(C', noisy) with the same information as (C, Θ): noise of variance 0 or 1, no redundant row.

    Rows without noise come first. Rank decisions are made on rows and columns scaled to one, so that
    readings in different units are treated alike; a noise eigenvalue is zero when it is rounding
    relative to the variances it came from (counted as no noise: privacy is never overstated).
    """
    sharp, error, blurred = _split_noise(compression, noise)
    columns = np.sqrt(np.sum(_unit_rows(np.concatenate([sharp, blurred])) ** 2, axis=0))
    columns = np.where(columns > 0, columns, 1.0)
    exact = _row_basis(sharp / columns, np.linalg.norm(error / columns, axis=1))
    # What is sent exactly may be subtracted from the noisy rows by the receiver of both.
    blurred = blurred / columns
    sizes = np.linalg.norm(blurred, axis=1)
    blurred = blurred - (blurred @ exact.T) @ exact
    blurred = blurred[np.linalg.norm(blurred, axis=1) > _tolerance(blurred.shape) * sizes]
    blurred = _rotate(blurred, blurred.shape[1] - exact.shape[0])
    flags = np.concatenate([np.zeros(exact.shape[0], bool), np.ones(blurred.shape[0], bool)])
    return np.concatenate([exact, blurred]) * columns, flags


def right_inverse(rows: Array) -> tuple[Array, Array]:
    """(B, N) with rows B = I and N an orthonormal basis of Null(rows), B orthogonal to N.

    Rows and columns are scaled to one first, so that units and very different noises lose no digits.
    """
    sent = rows.shape[0]
    columns = np.sqrt(np.sum(_unit_rows(rows) ** 2, axis=0))
    columns = np.where(columns > 0, columns, 1.0)
    scaled = rows / columns
    lengths = np.linalg.norm(scaled, axis=1)
    left, singular, right = np.linalg.svd(scaled / lengths[:, None], full_matrices=True)
    back = (right[:sent].T / singular) @ left.T / lengths / columns[:, None]
    null, _ = np.linalg.qr(right[sent:].T / columns[:, None])
    return back - null @ (null.T @ back), null


def _split_noise(compression: Array, noise: Array) -> tuple[Array, Array, Array]:
    """(rows without noise, their rounding, rows with unit noise).

    Combine rows until each carries noise of variance 0 or 1, by a pivoted Cholesky factor Θ = L L'.

    Rows 1 (pivots) become L_11^-1 C_1 with unit noise; the others, C_2 - L_21 L_11^-1 C_1, with none. Pivoting on
    the largest variance keeps the multipliers small: rows of very different noise are never mixed the wrong way.
    """
    factor, pivots, rest = _pivoted_cholesky(noise)
    blurred = solve_lower(factor[pivots], compression[pivots])
    exact = compression[rest] - factor[rest] @ blurred
    # What cancels down to rounding was the same row twice; every reading is judged in its own unit.
    size = np.abs(compression[rest]) + np.abs(factor[rest]) @ np.abs(blurred)
    lost = EPS * _amplified(noise, factor, pivots, rest) @ np.abs(blurred)
    error = 16 * (EPS * size + np.minimum(lost, _MOST_ROUNDING * size))
    present = np.any(np.abs(exact) > max(1, *compression.shape) * error, axis=1)
    return exact[present], error[present], blurred[np.any(blurred != 0, axis=1)]


def _amplified(noise: Array, factor: Array, pivots: list[int], rest: list[int]) -> Array:
    """Rounding in the multipliers of the other rows, in units of EPS.

    A pivot left with a small part of its variance has lost as many digits of it.
    """
    deviation = np.sqrt(np.maximum(np.diag(noise), 0.0))
    lost = deviation[pivots] / np.diag(factor[pivots])
    return np.asarray(np.abs(factor[rest]) * lost**2 + np.outer(deviation[rest], lost))


def _pivoted_cholesky(noise: Array) -> tuple[Array, list[int], list[int]]:
    """(L, pivot rows, other rows): variances left below rounding of their own size count as zero."""
    variances = np.maximum(np.diag(noise), 0.0)
    left = variances.copy()
    columns: list[Array] = []
    pivots: list[int] = []
    while np.any(open_rows := left > 64 * EPS * noise.shape[0] * variances):
        pivot = int(np.argmax(np.where(open_rows, left, 0.0)))
        column = noise[:, pivot].copy()
        for earlier in columns:
            column -= earlier * earlier[pivot]
        column /= np.sqrt(left[pivot])
        column[pivots] = 0.0
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        columns.append(column)
        pivots.append(pivot)
    factor = np.stack(columns, axis=1) if columns else np.zeros((noise.shape[0], 0))
    return factor, pivots, [row for row in range(noise.shape[0]) if row not in set(pivots)]


def _row_basis(rows: Array, errors: Array) -> Array:
    """Orthonormal rows spanning the same space; a direction within the rows' errors is none."""
    if rows.shape[0] == 0:
        return rows
    _, singular, basis = np.linalg.svd(rows / errors[:, None], full_matrices=False)
    return np.asarray(basis[singular > max(rows.shape)])


def _rotate(rows: Array, largest_rank: int) -> Array:
    """Rows with unit noise, rotated until orthogonal; rotations leave unit noise as it is.

    ``largest_rank`` is the dimension of the space they live in: any further row is rounding.
    """
    if rows.shape[0] == 0 or largest_rank == 0:
        return rows[:0]
    # Rotating rows of very different sizes would lose the small ones to rounding: keep them apart.
    sizes = np.linalg.norm(rows, axis=1)
    if rows.shape[0] <= largest_rank and np.max(sizes) > 1e6 * np.min(sizes):
        unit = rows / sizes[:, None]
        if np.linalg.svd(unit, compute_uv=False)[-1] > 1e-8:
            return rows
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    keep = (singular > _tolerance(rows.shape) * float(singular[0])) & (
        np.arange(singular.size) < largest_rank
    )
    return np.asarray(singular[keep, None] * basis[keep])


def _unit_rows(rows: Array) -> Array:
    sizes = np.linalg.norm(rows, axis=1)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0)[:, None])


def _tolerance(shape: tuple[int, ...]) -> float:
    return 16 * EPS * max(1, *shape)
