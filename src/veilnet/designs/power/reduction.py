"""From a network's arrays to the power-limited problem, keeping the digits that large powers ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from veilnet._core.types import Array


def free_noise_problem(
    observe: Array,
    noise_root: Array,
    prior_root: Array,
    private: Sequence[Array],
    bases: Sequence[Array],
) -> tuple[Array, Array]:
    """(C, A) with C C' = B'ΦB and A = B'Ψ'[G_j'/√tr(G_j P G_j')]_j (mathematics, section 4).

    observe: H, (N, L);  noise_root: lower triangular K, R = K K';  prior_root: T, (any, L), J0 = T'T;
    private: the G_j;  bases: B_i, (N_i, b_i), the directions in which agent i may add noise for free.

    An orthogonal factorisation Q of the stacked [K^-1 H; T] gives Φ = K^-T Q_2 Q_2' K^-1 with Q_2 the first
    N rows of the complement: a root without the subtraction R^-1 - R^-1 H P H' R^-1, whose null space
    (no prior) is exact to rounding however large the noise that is later put there.
    """
    readings, length = observe.shape
    stacked = np.vstack([solve_triangular(noise_root, observe, lower=True), prior_root])
    orthogonal, triangle = np.linalg.qr(stacked, mode="complete")
    triangle = triangle[:length]
    basis = solve_triangular(noise_root, block_diag(*bases), lower=True)
    columns = []
    for rows in private:
        half = solve_triangular(triangle, rows.T, trans="T")
        size = np.linalg.norm(half)
        if size > 0:
            columns.append(half / size)
    directions = np.hstack(columns) if columns else np.zeros((length, 0))
    root: Array = basis.T @ orthogonal[:readings, length:]
    gain: Array = basis.T @ (orthogonal[:readings, :length] @ directions)
    return root, gain
