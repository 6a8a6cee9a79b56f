"""Alternating directions on the factor Y: quick to a few digits at every size, and it finds the ranks.

min_Y ½|C'Y|² - <A, Y> + ½ Σ_i |Y_i|_*² is split into its quadratic part, solved exactly in the eigenbasis
of F (so that the penalty may change freely), and the squared nuclear norms, whose proximal map thresholds
each agent's singular values and so identifies the rank of every X_i after finitely many steps.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.power.problem import Certificate, ScaledProblem

_RELAXATION = 1.7


def shrink_singular_values(problem: ScaledProblem, stacked: Array, penalty: float) -> Array:
    """argmin_Z ½ Σ_i |Z_i|_*² + ½ penalty |Z - stacked|²: soft thresholding at |Z_i|_*/penalty."""
    shrunk = np.empty_like(stacked)
    for group in problem.blocks.groups:
        left, singular, right = np.linalg.svd(group.take(stacked), full_matrices=False)
        # If the first n singular values stay positive, their sum after thresholding is total[n-1].
        total = np.cumsum(singular, axis=1) / (1 + np.arange(1, singular.shape[1] + 1) / penalty)
        kept = np.maximum(np.sum(singular > total / penalty, axis=1), 1)
        threshold = np.take_along_axis(total, kept[:, None] - 1, axis=1) / penalty
        group.put(shrunk, (left * np.maximum(singular - threshold, 0)[:, None, :]) @ right)
    return shrunk


class Splitting:
    """State of the iteration: ``low_rank`` satisfies the thresholding, ``smooth`` the linear equations."""

    def __init__(self, problem: ScaledProblem) -> None:
        self.problem = problem
        self.values, self.vectors = problem.spectrum
        self.gain = self.vectors.T @ problem.gain
        self.penalty = max(1e-3, float(np.sqrt(np.median(self.values))))
        self.low_rank: Array = np.zeros_like(problem.gain)
        self.smooth: Array = self.low_rank
        self.multiplier: Array = np.zeros_like(problem.gain)
        self.coefficients: Array = np.zeros_like(problem.gain)
        self.iterations = 0
        self.primal_residual = self.dual_residual = 1.0

    def step(self) -> None:
        """One over-relaxed round."""
        target = self.gain + self.penalty * (self.vectors.T @ (self.low_rank - self.multiplier))
        self.coefficients = target / (self.values + self.penalty)[:, None]
        self.smooth = self.vectors @ self.coefficients
        relaxed = _RELAXATION * self.smooth + (1 - _RELAXATION) * self.low_rank
        before = self.low_rank
        self.low_rank = shrink_singular_values(self.problem, relaxed + self.multiplier, self.penalty)
        self.multiplier = self.multiplier + relaxed - self.low_rank
        self.iterations += 1
        size = max(float(np.linalg.norm(self.smooth)), float(np.linalg.norm(self.low_rank)))
        self.primal_residual = _ratio(float(np.linalg.norm(self.smooth - self.low_rank)), size)
        moved = float(np.linalg.norm(self.low_rank - before))
        self.dual_residual = _ratio(moved, float(np.linalg.norm(self.multiplier)))

    def balance(self) -> None:
        """Move the penalty towards equal residuals; stiff problems, of strong noise, need that to the end."""
        if not (self.primal_residual > 0 < self.dual_residual):
            return
        factor = float(np.sqrt(self.primal_residual / self.dual_residual))
        if not 2 / 3 <= factor <= 3 / 2:
            factor = min(max(factor, 0.1), 10.0)
            self.penalty *= factor
            self.multiplier = self.multiplier / factor

    def offer(self, certificate: Certificate) -> None:
        """Certify the current point; T is taken in the eigenbasis, where it loses no digits."""
        image = self.values[:, None] * self.coefficients
        energy = float(np.sum(image * self.coefficients))
        certificate.offer_primal(self.smooth, energy)
        certificate.offer_dual(self.problem.gain - self.vectors @ image, energy)
        certificate.offer(self.low_rank)


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0
