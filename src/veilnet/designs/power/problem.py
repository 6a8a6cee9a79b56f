"""Most privacy from limited noise, as one convex problem over a factor Y, and the bounds any Y certifies.

For X block diagonal, X_i ⪰ 0, tr X_i <= 1 (powers are scaled into F and A), and F = C C',

    f(X) = tr(A' X (I + F X)^-1 A) = max_Y  2<A, Y> - Σ_i tr(Y_i' X_i^-1 Y_i) - |C'Y|²
                                   = min_T  Σ_i <X_i, (A - CT)_i (A - CT)_i'> + |T|².

Maximising over X gives a pair of dual problems without X: with |.|_* the nuclear norm and σ the largest
singular value,

    max_Y  2<A, Y> - Σ_i |Y_i|_*² - |C'Y|²   =   min_T  Σ_i σ((A - CT)_i)² + |T|².

Hence *any* Y bounds the optimum from below, attained by X_i = (Y_i Y_i')^½ / |Y_i|_*, and *any* T from
above; at the optimum T = C'Y. No bound trusts the solver that produced the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array
from veilnet.designs.power.splitting import shrunk


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """The problem with every power limit equal to one.

    root:   C, (b, k), F = C C'.
    gain:   A, (b, r).
    blocks: how the b rows fall to agents; every agent here has rows.
    """

    root: Array
    gain: Array
    blocks: Blocks

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of F, from the singular values of C: small ones keep their digits."""
        vectors, singular, _ = np.linalg.svd(self.root, full_matrices=True)
        values = np.zeros(vectors.shape[0])
        values[: singular.size] = singular**2
        return values, vectors

    def shrunk(self, stacked: Array, penalty: Array) -> Array:
        """The proximal map of Σ_i |Y_i|_*² at (1, b, r), as :func:`veilnet.designs.power.splitting.shrunk`."""
        found = np.empty_like(stacked)
        for group in self.blocks.groups:
            group.put(found[0], shrunk(group.take(stacked[0]), np.repeat(penalty, group.count)))
        return found

    def singular_values(self, stacked: Array) -> list[Array]:
        """Singular values of each agent's rows, one (count, min(size, r)) array per group."""
        values: list[Array] = []
        for group in self.blocks.groups:
            singular: Array = np.linalg.svd(group.take(stacked), compute_uv=False).astype(
                np.float64, copy=False
            )
            values.append(singular)
        return values


class Certificate:
    """The best bounds found so far and the factor Y that reaches the lower one."""

    def __init__(self, problem: ScaledProblem) -> None:
        self.problem = problem
        self.factor: Array = np.zeros_like(problem.gain)
        self.lower = 0.0
        self.upper = float("inf")
        self.offer_dual(problem.gain, 0.0)

    @property
    def gap(self) -> float:
        """Relative distance between the bounds."""
        if self.upper <= self.lower:
            return 0.0
        return (self.upper - self.lower) / self.lower if self.lower > 0 else float("inf")

    def offer_primal(self, factor: Array, energy: float) -> float:
        """A point Y with energy |C'Y|², at its best multiple; returns the lower bound it gives."""
        aligned = float(np.sum(self.problem.gain * factor))
        spent = sum(float(np.sum(s.sum(axis=1) ** 2)) for s in self.problem.singular_values(factor))
        lower = aligned**2 / (spent + energy) if aligned > 0 else 0.0
        if lower > self.lower:
            self.lower, self.factor = lower, factor
        return lower

    def offer_dual(self, residual: Array, energy: float) -> float:
        """A residual A - CT with energy |T|²; returns the upper bound it gives."""
        upper = energy + sum(float(np.sum(s[:, 0] ** 2)) for s in self.problem.singular_values(residual))
        self.upper = min(self.upper, upper)
        return upper

    def offer(self, factor: Array) -> float:
        """Both bounds of one Y, with T = C'Y; returns their relative distance."""
        image = self.problem.root.T @ factor
        energy = float(np.sum(image**2))
        lower = self.offer_primal(factor, energy)
        upper = self.offer_dual(self.problem.gain - self.problem.root @ image, energy)
        return (upper - lower) / lower if lower > 0 else float("inf")


def free_noise_problem(
    observe: Array, noise_root: Array, prior_root: Array, private: Sequence[Array], bases: Sequence[Array]
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
