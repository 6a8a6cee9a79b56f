"""Alternating directions on a factor Y, for a stack of problems at once: they find the ranks, and then the digits.

min_Y ½<Y, F Y> - <A, Y> + ½ Σ_i |Y_i|_*² is split into its quadratic part, solved exactly in the eigenbasis of F (so
that the penalty may change freely), and the squared nuclear norms, whose proximal map thresholds singular values and
so identifies the rank of every X_i = (Y_i Y_i')^½ / |Y_i|_* after finitely many steps. Each problem of a stack goes
its own way, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.types import Array, Booleans

CHECK_EVERY = 10
BALANCE_EVERY = 20
_RELAXATION = 1.7


def shrunk(stacked: Array, penalty: Array) -> Array:
    """argmin_Z ½ |Z|_*² + ½ penalty |Z - stacked|² for each of a stack: soft thresholding at |Z|_*/penalty.

    stacked: (count, b, r).
    penalty: (count,).
    """
    left, singular, right = np.linalg.svd(stacked, full_matrices=False)
    penalty = penalty[:, None]
    # If the first n singular values stay positive, their sum after thresholding is total[n-1].
    total = np.cumsum(singular, axis=1) / (1 + np.arange(1, singular.shape[1] + 1) / penalty)
    kept = np.maximum(np.sum(singular > total / penalty, axis=1), 1)
    threshold = np.take_along_axis(total, kept[:, None] - 1, axis=1) / penalty
    return np.asarray((left * np.maximum(singular - threshold, 0)[:, None, :]) @ right)


def noise_root(factor: Array) -> Array:
    """V_i with V_i V_i' = X_i = (Y_i Y_i')^½ / |Y_i|_*, (count, b, min(b, r)), of a stack of Y_i; zero for zero."""
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    total = np.sum(singular, axis=1)[:, None]
    return np.asarray(left * np.sqrt(singular / np.where(total > 0, total, 1.0))[:, None, :])


class Splitting:
    """State of the iteration: ``low_rank`` satisfies the thresholding, ``smooth`` the linear equations.

    values, vectors: eigenvalues (count, b) and eigenvectors (count, b, b) of F.
    gain:            A, (count, b, r).
    shrink:          the proximal map of the nuclear norms, given (count, b, r) and the penalties (count,).
    """

    def __init__(
        self, values: Array, vectors: Array, gain: Array, shrink: Callable[[Array, Array], Array] = shrunk
    ) -> None:
        self.values, self.vectors, self._shrink = values, vectors, shrink
        self.gain = np.swapaxes(vectors, 1, 2) @ gain
        self.penalty: Array = np.maximum(1e-3, np.sqrt(np.median(values, axis=1)))
        self.low_rank: Array = np.zeros(gain.shape)
        self.smooth: Array = self.low_rank
        self.multiplier: Array = self.low_rank
        self.coefficients: Array = self.low_rank
        self.iterations = 0
        self._moved: Array = self.low_rank

    def step(self) -> None:
        """One over-relaxed round."""
        penalty = self.penalty[:, None, None]
        target = self.gain + penalty * (np.swapaxes(self.vectors, 1, 2) @ (self.low_rank - self.multiplier))
        self.coefficients = target / (self.values[:, :, None] + penalty)
        self.smooth = self.vectors @ self.coefficients
        relaxed = _RELAXATION * self.smooth + (1 - _RELAXATION) * self.low_rank
        before = self.low_rank
        self.low_rank = self._shrink(relaxed + self.multiplier, self.penalty)
        self.multiplier = self.multiplier + relaxed - self.low_rank
        self._moved = self.low_rank - before
        self.iterations += 1
        if self.iterations % BALANCE_EVERY == 0:
            self._balance()

    def _balance(self) -> None:
        """Move the penalties towards equal residuals; stiff problems, of strong noise, need that to the end."""
        size = np.maximum(_norms(self.smooth), _norms(self.low_rank))
        primal = _norms(self.smooth - self.low_rank) * _norms(self.multiplier)
        dual = _norms(self._moved) * size
        some = (primal > 0) & (dual > 0)
        factor = np.sqrt(np.where(some, primal, 1.0) / np.where(some, dual, 1.0))
        factor = np.where((factor < 2 / 3) | (factor > 3 / 2), np.clip(factor, 0.1, 10.0), 1.0)
        self.penalty = self.penalty * factor
        self.multiplier = self.multiplier / factor[:, None, None]

    def keep(self, chosen: Booleans) -> None:
        """Go on with some of the problems."""
        for name in ("values", "vectors", "gain", "penalty", "low_rank", "smooth", "multiplier"):
            setattr(self, name, getattr(self, name)[chosen])


def _norms(stack: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(stack**2, axis=(1, 2))))
