"""Factorisations used throughout: batched where agents are many, triangular rather than inverse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from veilnet._core.types import Array

EPS = float(np.finfo(np.float64).eps)

# Beyond this condition of its root, a covariance is factored with more digits than Cholesky keeps.
ILL_CONDITIONED = 1e4

# Rows per block of a tall QR factorisation: a block and its workspace stay in cache.
_TALL_ROWS = 512
# Blocks at least this large are solved one by one by LAPACK, smaller ones all at once by substitution.
_LARGE_BLOCK = 12


def cholesky(symmetric: Array) -> Array:
    """Lower triangular roots of one positive definite matrix or a stack of them."""
    return np.asarray(np.linalg.cholesky(symmetric), dtype=np.float64)


def root_condition(roots: Array) -> float:
    """Cheap estimate of the condition of Cholesky roots, units removed."""
    diagonal = np.abs(np.diagonal(roots, axis1=-2, axis2=-1))
    # Row norms of the root are the standard deviations: dividing by them removes units.
    relative = diagonal / np.linalg.norm(roots, axis=-1)
    return float(1.0 / max(np.min(relative, initial=1.0), np.finfo(float).tiny))


def refined_root(root: Array, symmetric: Array) -> Array:
    """Cholesky roots after one step of refinement, for one matrix or a stack.

    Cholesky loses as many digits as its matrix has condition, half of them for good: the residual S - LL',
    computed as if in twice the precision, brings the others back. L is split so that products of its high
    parts are exact.
    """
    bits = (53 - int(np.ceil(np.log2(root.shape[-1] + 1)))) // 2 - 1
    _, exponents = np.frexp(np.max(np.abs(root), axis=-1, keepdims=True))
    quantum = np.ldexp(1.0, exponents - bits)
    high = np.round(root / quantum) * quantum
    low = root - high
    cross = high @ np.swapaxes(low, -1, -2)
    residual = symmetric - high @ np.swapaxes(high, -1, -2)
    residual = residual - cross - np.swapaxes(cross, -1, -2) - low @ np.swapaxes(low, -1, -2)
    half = np.linalg.solve(root, residual)
    change = np.tril(np.linalg.solve(root, np.swapaxes(half, -1, -2)))
    diagonal = np.arange(root.shape[-1])
    change[..., diagonal, diagonal] /= 2
    return np.asarray(np.tril(root + root @ change))


def gram_root(gram: Array, factor: Callable[[], Array]) -> Array:
    """Lower triangular roots of BB', given BB' and, for when that has lost too many digits, B itself."""
    try:
        root = cholesky(gram)
        if root_condition(root) < ILL_CONDITIONED:
            return root
    except np.linalg.LinAlgError:
        pass
    upper = np.linalg.qr(np.swapaxes(factor(), -1, -2), mode="r")
    return np.ascontiguousarray(np.swapaxes(upper, -1, -2))


@cache
def _lapack() -> Any:
    """scipy.linalg.lapack, loaded when first needed: that takes longer than an agent takes for its other work."""
    from scipy.linalg import lapack

    return lapack


def solve_lower(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """L^-1 B, or L^-T B, for one lower triangular L."""
    if lower.shape[0] == 0 or right.shape[-1] == 0:
        return right.copy()
    # A row-major L is LAPACK's column-major L': asking for the upper triangle of L.T avoids a copy.
    solution, info = _lapack().dtrtrs(lower.T, right, lower=0, trans=0 if transposed else 1)
    if info != 0:
        raise np.linalg.LinAlgError("triangular matrix is singular")
    return np.ascontiguousarray(solution)


def solve_upper(upper: Array, right: Array, *, transposed: bool = False) -> Array:
    """T^-1 B, or T^-T B, for one upper triangular T."""
    return solve_lower(upper.T, right, transposed=not transposed)


def solve_lower_batch(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """L_k^-1 B_k (or L_k^-T B_k) for a stack: lower (count, n, n), right (count, n, m)."""
    count, size = lower.shape[:2]
    if size >= _LARGE_BLOCK or count <= 2:
        return np.stack(
            [solve_lower(one, b, transposed=transposed) for one, b in zip(lower, right, strict=True)]
        )
    solution = np.empty(right.shape)
    steps = range(size - 1, -1, -1) if transposed else range(size)
    for k in steps:
        rest = right[:, k]
        known = slice(k + 1, size) if transposed else slice(0, k)
        if known.stop > known.start:
            weights = lower[:, known, k] if transposed else lower[:, k, known]
            rest = rest - np.matmul(weights[:, None, :], solution[:, known])[:, 0]
        solution[:, k] = rest / lower[:, k, k][:, None]
    return solution


def triangle(factor: Array) -> Array:
    """Upper triangular T with T'T = F'F, by orthogonal reduction (never through F'F itself).

    Tall factors are reduced block by block, so that 10^5 agents cost one pass over their rows.
    """
    rows, columns = factor.shape
    step = max(_TALL_ROWS, 4 * columns)
    while rows > 2 * step:
        whole = rows // step
        reduced = _upper(factor[: whole * step].reshape(whole, step, columns))
        factor = np.concatenate([reduced.reshape(-1, columns), factor[whole * step :]])
        rows = factor.shape[0]
    if rows < columns:
        factor = np.concatenate([factor, np.zeros((columns - rows, columns))])
    upper = _upper(factor)
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    return np.asarray(upper * signs[:, None])


def _upper(factor: Array) -> Array:
    return np.asarray(np.linalg.qr(factor, mode="r"), dtype=np.float64)


def condition_of_triangle(upper: Array) -> float:
    """Condition number of T after scaling its columns to one: free of the units of x."""
    norms = np.linalg.norm(upper, axis=0)
    if not np.all(norms > 0):
        return np.inf
    singular = np.linalg.svd(upper / norms, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf


def positive_root(symmetric: Array) -> Array:
    """F with F'F = S for a positive semidefinite S, one row per non-zero direction, free of units."""
    diagonal = np.diag(symmetric)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(symmetric / scale[:, None] / scale[None, :])
    keep = values > 64 * EPS * max(1, symmetric.shape[0]) * float(np.max(values, initial=1.0))
    return np.asarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T * scale[None, :])


def whitener(covariance: Array, *, least: float) -> Array:
    """W with W covariance W' = I, rows of zeros for directions that, units removed, have less than ``least`` of the
    largest variance: they are rounding.
    """
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > least * max(float(values[-1]), 0.0)
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(roots[:, None] * vectors.T / scale)


def orthonormal_rows(rows: Array) -> Array:
    """Orthonormal rows that span the same space; each row counts by its direction, not its size."""
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    _, singular, basis = np.linalg.svd(unit, full_matrices=False)
    return np.asarray(basis[singular > 1e3 * EPS * max(rows.shape) * singular[0]])
