"""Newton's method on X_i = V_i V_i' once the ranks are known: the last ten digits in a few steps.

With W = (I + F X)^-1 A and F̃ = (I + F X)^-1 F, the objective has gradient 2 W_i W_i' V_i and, along dV with
Δ = V dV' + dV V', second derivative 2<W W', dV dV'> - 2 tr(W'Δ F̃ Δ W). Each V_i lives on a sphere.
The certificate decides whether the ranks were right; nothing here has to be trusted.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from veilnet._core.types import Array, Integers
from veilnet.designs.power.problem import Certificate, ScaledProblem

_MOST_STEPS = 10
_HOPELESS_GAP = 0.5
_FINE = 0.1  # of the gap asked for: quadratic convergence makes the extra digit nearly free
_RANK_TOLERANCE = 1e-12


def polish(
    problem: ScaledProblem,
    low_rank: Array,
    certificate: Certificate,
    relative_gap: float,
    most_unknowns: int,
) -> int:
    """Newton steps from a point whose blocks have the right ranks; returns how many were taken.

    Gives up as soon as the bounds stop closing in.
    """
    factor, row, column = _factors(problem, low_rank)
    if not 0 < row.size <= most_unknowns:
        return 0
    gaps: list[float] = []
    for step in range(_MOST_STEPS):
        # (I + F V V')^-1 through the singular values of C'V: the condition number is not squared.
        left, singular, right = np.linalg.svd(problem.root.T @ factor, full_matrices=True)
        scale = np.ones(factor.shape[1])
        scale[: singular.size] += singular**2
        half = (right / np.sqrt(scale)[:, None]) @ factor.T
        point = half.T @ (half @ problem.gain)
        gaps.append(certificate.offer(point))
        stuck = step >= 2 and gaps[-1] > 0.3 * gaps[-2]
        if certificate.gap <= _FINE * relative_gap or gaps[0] > _HOPELESS_GAP or stuck:
            return step
        residual = problem.gain - problem.root @ (problem.root.T @ point)
        damped = problem.root @ left
        damped[:, : singular.size] /= np.sqrt(1 + singular**2)
        factor = _newton_step(problem, factor, row, column, residual, damped @ damped.T)
    return _MOST_STEPS


def _factors(problem: ScaledProblem, low_rank: Array) -> tuple[Array, Integers, Integers]:
    """V, block diagonal (b, Σ rank), and the row and column of each of its unknowns."""
    blocks = problem.blocks
    pieces: list[tuple[slice, Array]] = []
    for agent in range(blocks.count):
        rows = blocks.rows(agent)
        left, singular, _ = np.linalg.svd(low_rank[rows], full_matrices=False)
        rank = int(np.sum(singular > _RANK_TOLERANCE * singular[0]))
        if rank:
            weight = np.sqrt(singular[:rank] / singular[:rank].sum())
            pieces.append((rows, left[:, :rank] * weight))
    factor = np.zeros((blocks.total, sum(piece.shape[1] for _, piece in pieces)))
    occupied = np.zeros(factor.shape, dtype=bool)
    column = 0
    for rows, piece in pieces:
        columns = slice(column, column := column + piece.shape[1])
        factor[rows, columns] = piece
        occupied[rows, columns] = True
    where_row, where_column = np.nonzero(occupied)
    return factor, where_row, where_column


def _newton_step(
    problem: ScaledProblem, factor: Array, row: Integers, column: Integers, residual: Array, stiffness: Array
) -> Array:
    """V after one Newton step on the product of spheres; residual is W, stiffness F̃."""
    owner = problem.blocks.owner[row]
    at_rows, at_columns, mixed = np.ix_(row, row), np.ix_(column, column), np.ix_(row, column)
    outer = residual @ residual.T
    projected = factor.T @ residual
    stiff_factor = stiffness @ factor
    hessian = (factor.T @ stiff_factor)[at_columns] * outer[at_rows]
    hessian += stiffness[at_rows] * (projected @ projected.T)[at_columns]
    cross = stiff_factor[mixed] * (residual @ projected.T)[mixed].T
    hessian += cross
    hessian += cross.T
    hessian -= outer[at_rows] * (column[:, None] == column[None, :])

    gradient, point = (outer @ factor)[row, column], factor[row, column]
    multiplier = np.bincount(owner, gradient * point, problem.blocks.count)[owner]
    hessian[np.diag_indices_from(hessian)] += multiplier
    normals = np.zeros((row.size, problem.blocks.count))
    normals[np.arange(row.size), owner] = point
    hessian -= normals @ (normals.T @ hessian)
    hessian -= (hessian @ normals) @ normals.T
    hessian += (np.trace(hessian) / row.size) * (normals @ normals.T)

    step = _solve_semidefinite(hessian, gradient - multiplier * point)
    moved = factor.copy()
    moved[row, column] += step
    length = np.sqrt(np.bincount(owner, moved[row, column] ** 2, problem.blocks.count))
    moved[row, column] /= length[owner]
    return moved


def _solve_semidefinite(matrix: Array, right_side: Array) -> Array:
    """Solve despite the directions V -> V Q, along which nothing changes, and slight indefiniteness."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(matrix)), np.finfo(float).tiny))
    matrix = matrix * scale
    matrix *= scale[:, None]
    shift = 1e-11
    while True:
        matrix[np.diag_indices_from(matrix)] += shift
        try:
            factorized = cho_factor(matrix, check_finite=False)
        except np.linalg.LinAlgError:
            shift *= 1000
            continue
        solution: Array = scale * cho_solve(factorized, scale * right_side, check_finite=False)
        return solution
