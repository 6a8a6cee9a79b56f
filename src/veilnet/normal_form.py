"""The normal form of compression plus noise (the paper's Proposition 1(ii), by SVD per agent)."""

from __future__ import annotations

import numpy as np

from veilnet._linalg import EPS
from veilnet._types import Array, Booleans


def normal_form(compression: Array, noise: Array) -> tuple[Array, Booleans]:
    """(C', noisy) with the same information as (C, Θ): noise of variance 0 or 1, no redundant row.

    Rows without noise come first. Rank decisions are made on rows and columns scaled to one, so that
    readings in different units are treated alike; a noise eigenvalue is zero when it is rounding
    relative to the variances it came from (counted as no noise: privacy is never overstated).
    """
    rows, noisy = _split_noise(compression, noise)
    columns = np.sqrt(np.sum(_unit_rows(rows) ** 2, axis=0))
    columns = np.where(columns > 0, columns, 1.0)
    exact = _row_basis(_unit_rows(rows[~noisy] / columns))
    # What is sent exactly may be subtracted from the noisy rows by whoever receives both.
    blurred = rows[noisy] / columns
    sizes = np.linalg.norm(blurred, axis=1)
    blurred = blurred - (blurred @ exact.T) @ exact
    blurred = _rotate(blurred[np.linalg.norm(blurred, axis=1) > _tolerance(rows.shape) * sizes])
    flags = np.concatenate([np.zeros(exact.shape[0], bool), np.ones(blurred.shape[0], bool)])
    return np.concatenate([exact, blurred]) * columns, flags


def _split_noise(compression: Array, noise: Array) -> tuple[Array, Booleans]:
    """Rotate and scale rows until each carries noise of variance 0 or 1."""
    deviation = np.sqrt(np.maximum(np.diag(noise), 0.0))
    some = deviation > 0
    exact_rows = compression[~some]
    if not np.any(some):
        return exact_rows, np.zeros(exact_rows.shape[0], bool)
    scaled = compression[some] / deviation[some, None]
    correlation = noise[np.ix_(some, some)] / deviation[some, None] / deviation[None, some]
    if np.count_nonzero(correlation - np.diag(np.diag(correlation))) == 0:
        blurred, more_exact = scaled, np.zeros((0, compression.shape[1]))
    else:
        values, vectors = np.linalg.eigh(correlation)
        rotated = vectors.T @ scaled
        zero = values <= 64 * EPS * values.size
        blurred, more_exact = rotated[~zero] / np.sqrt(values[~zero])[:, None], rotated[zero]
    rows = np.concatenate([exact_rows, more_exact, blurred])
    flags = np.zeros(rows.shape[0], bool)
    flags[exact_rows.shape[0] + more_exact.shape[0] :] = True
    present = np.any(rows != 0, axis=1)
    return rows[present], flags[present]


def _row_basis(rows: Array) -> Array:
    """Orthonormal rows spanning the same space."""
    if rows.shape[0] == 0:
        return rows
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[singular > _tolerance(rows.shape) * max(float(singular[0]), EPS)])


def _rotate(rows: Array) -> Array:
    """Rows with unit noise, rotated until orthogonal; rotations leave unit noise as it is."""
    if rows.shape[0] == 0:
        return rows
    # Rotating rows of very different sizes would lose the small ones to rounding: keep them apart.
    sizes = np.linalg.norm(rows, axis=1)
    if rows.shape[0] <= rows.shape[1] and np.max(sizes) > 1e6 * np.min(sizes):
        unit = rows / sizes[:, None]
        if np.linalg.svd(unit, compute_uv=False)[-1] > 1e-8:
            return rows
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    keep = singular > _tolerance(rows.shape) * float(singular[0])
    return np.asarray(singular[keep, None] * basis[keep])


def _unit_rows(rows: Array) -> Array:
    sizes = np.linalg.norm(rows, axis=1)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0)[:, None])


def _tolerance(shape: tuple[int, ...]) -> float:
    return 16 * EPS * max(1, *shape)
