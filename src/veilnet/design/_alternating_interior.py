"""A small interior-point method for the one-agent subproblem with several private parameters.

    min tr(A X)   s.t.   tr(B_j X) >= e_j,   0 ⪯ X ⪯ I,      tr A = tr B_j = 1, 0 < e_j < 1.

A strictly feasible primal and dual point is known in closed form, so the path stays feasible from the first
step to the last and the complementarity it reports *is* the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh as generalized_eigh

from veilnet._types import Array

_GAP = 1e-12
_MOST_STEPS = 60
_TO_THE_BOUNDARY = 0.98


def follow_central_path(cost: Array, gains: Array, shares: Array) -> Array:
    """An optimal X, strictly feasible, at the end of the central path; ``gains`` stacks the B_j."""
    point = _Point.start(cost, gains, shares)
    best = point
    for _ in range(_MOST_STEPS):
        if point.gap <= _GAP:
            break
        try:
            following = point.advance()
        except np.linalg.LinAlgError:  # the scaling has drowned in rounding: this is the end of the path
            break
        if not (following.gap < point.gap and following.excess.min() > 0):
            break
        best = point = following
    return best.hide


@dataclass(frozen=True, eq=False)
class _Point:
    """A strictly feasible X with prices μ > 0 and dual Z_y ≻ 0 of Y = I - X; Z_x = A - Σ μ_j B_j + Z_y ≻ 0."""

    cost: Array
    gains: Array
    shares: Array
    hide: Array
    prices: Array
    dual_send: Array

    @classmethod
    def start(cls, cost: Array, gains: Array, shares: Array) -> _Point:
        eye = np.eye(cost.shape[0])
        prices = np.full(shares.size, 1.0 / shares.size)
        norm = np.linalg.norm(np.tensordot(prices, gains, 1) - cost, 2)
        return cls(cost, gains, shares, 0.5 * (1 + float(shares.max())) * eye, prices, (1 + norm) * eye)

    @cached_property
    def send(self) -> Array:
        return np.eye(self.cost.shape[0]) - self.hide

    @cached_property
    def surplus(self) -> Array:
        difference: Array = np.tensordot(self.prices, self.gains, 1) - self.cost
        return difference

    @cached_property
    def dual_hide(self) -> Array:
        return self.dual_send - self.surplus

    @cached_property
    def excess(self) -> Array:
        over: Array = np.einsum("jkl,kl->j", self.gains, self.hide) - self.shares
        return over

    @cached_property
    def gap(self) -> float:
        matrices = np.vdot(self.hide, self.dual_hide) + np.vdot(self.send, self.dual_send)
        return float(matrices + self.excess @ self.prices)

    def advance(self) -> _Point:
        """One predictor-corrector step with Nesterov-Todd scaling.

        With W_x Z_x W_x = X, W_y Z_y W_y = Y, the step solves W_x^-1 dX W_x^-1 + W_y^-1 dX W_y^-1 =
        ν (X^-1 - Y^-1) + Σ (μ_j + dμ_j) B_j - A, diagonal in the basis that diagonalises both W; what remains is
        one symmetric system of the size of μ.
        """
        inverses = [_inverse_root(matrix) for matrix in (self.hide, self.send, self.dual_hide, self.dual_send)]
        scale_send = _inverse_scaling(inverses[1], self.dual_send)
        ratio, basis = generalized_eigh(scale_send, _inverse_scaling(inverses[0], self.dual_hide))
        weights = 1 / (1 + np.multiply.outer(ratio, ratio))
        rotated = basis.T @ self.gains @ basis
        normal = np.einsum("ikl,jkl->ij", rotated * weights, rotated) + np.diag(self.excess / self.prices)
        inverse_send = inverses[1] @ inverses[1].T
        barrier = inverses[0] @ inverses[0].T - inverse_send

        def direction(centre: float) -> tuple[Array, Array, Array, float, float]:
            drift = weights * (basis.T @ (centre * barrier + self.surplus) @ basis)
            wanted = centre / self.prices - self.excess - np.einsum("jkl,kl->j", rotated, drift)
            prices = np.linalg.solve(normal, wanted)
            hide = basis @ (drift + weights * np.tensordot(prices, rotated, 1)) @ basis.T
            hide = 0.5 * (hide + hide.T)
            dual_send = centre * inverse_send - self.dual_send + scale_send @ hide @ scale_send
            dual_send = 0.5 * (dual_send + dual_send.T)
            dual_hide = dual_send - np.tensordot(prices, self.gains, 1)
            over = np.einsum("jkl,kl->j", self.gains, hide)
            primal = min(
                _reach(inverses[0], hide), _reach(inverses[1], -hide), _reach_numbers(self.excess, over)
            )
            dual = min(
                _reach(inverses[2], dual_hide),
                _reach(inverses[3], dual_send),
                _reach_numbers(self.prices, prices),
            )
            return hide, prices, dual_send, min(1.0, primal), min(1.0, dual)

        _, _, _, primal, dual = direction(0.0)
        mean = self.gap / (2 * self.hide.shape[0] + self.prices.size)
        centring = min(max((1 - min(primal, dual)) ** 2, 1e-4), 0.5)
        hide, prices, dual_send, primal, dual = direction(mean * centring)
        return _Point(
            self.cost,
            self.gains,
            self.shares,
            self.hide + primal * hide,
            self.prices + dual * prices,
            self.dual_send + dual * dual_send,
        )


def _inverse_root(matrix: Array) -> Array:
    """A with A A' the inverse; fails when rounding has made the matrix indefinite."""
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > 0:
        raise np.linalg.LinAlgError("not positive definite")
    root: Array = vectors / np.sqrt(values)
    return root


def _inverse_scaling(inverse_root: Array, dual: Array) -> Array:
    """W^-1 for W Z W = X: with X = L L' it is L^-T (L' Z L)^½ L^-1."""
    root = np.linalg.inv(inverse_root).T
    values, vectors = np.linalg.eigh(root.T @ dual @ root)
    half = inverse_root @ (vectors * np.sqrt(np.sqrt(np.maximum(values, 0.0))))
    scaling: Array = half @ half.T
    return scaling


def _reach(inverse_root: Array, change: Array) -> float:
    """How far along ``change`` a matrix stays positive definite, short of the boundary."""
    steepest = float(np.linalg.eigvalsh(inverse_root.T @ change @ inverse_root)[0])
    return _TO_THE_BOUNDARY / -steepest if steepest < 0 else np.inf


def _reach_numbers(values: Array, change: Array) -> float:
    falling = change < 0
    return _TO_THE_BOUNDARY * float(np.min(values[falling] / -change[falling])) if np.any(falling) else np.inf
