"""Covariances from few samples: correlations shrunk towards zero, variances kept.

With z the samples in units of their own deviation and r_ij the sample correlations, the estimate is

    Σ = D ((1 - λ) r + λ I) D,    λ = Σ_{i≠j} Var(r_ij) / Σ_{i≠j} r_ij²   (clipped to [0, 1]),

the λ with the least expected square error: Ledoit and Wolf's argument with the diagonal as target, so that
units do not matter (Schäfer and Strimmer, 2005). λ vanishes like 1 / samples. Two things are added here:

- Rows of a time series are not independent. If columns i and j have lag-1 correlations ρ_i and ρ_j, their
  product has about ρ_i ρ_j, so Var(r_ij) is multiplied by (1 + ρ_i ρ_j) / (1 - ρ_i ρ_j).
- With no more samples than columns, r is singular whatever is true; λ is then at least 1 / (samples + 1),
  the weight of one more sample. The result is always positive definite.

- O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", 2004.
- J. Schäfer, K. Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", 2005.
"""

from __future__ import annotations

import numpy as np

from veilnet._types import Array

_MOST_PERSISTENT = 0.999  # lag-1 correlations are not told from 1 with fewer than a thousand rows


def shrunk_covariance(
    centred: Array, freedom: int, *, least: float = 0.0, smallest: Array | float = 0.0
) -> tuple[Array, float]:
    """(Σ, λ) from centred samples (T, N) that have ``freedom`` degrees of freedom left.

    ``least`` is the smallest λ to use, ``smallest`` the smallest deviations; one of a column without any
    variation must be above zero.
    """
    size = centred.shape[1]
    deviation = np.maximum(np.sqrt(np.sum(centred**2, axis=0) / freedom), smallest)
    correlation, variance = correlations(centred)
    away = ~np.eye(size, dtype=bool)
    strength = float(np.sum(correlation[away] ** 2))
    weight = float(np.sum(variance[away])) / strength if strength > 0 else float(size > 1)
    if freedom <= size and size > 1:
        weight = max(weight, 1.0 / (freedom + 1))
    weight = min(max(weight, least), 1.0) if size > 1 else 0.0
    shrunk = (1.0 - weight) * correlation
    np.fill_diagonal(shrunk, 1.0)
    return np.asarray(shrunk * np.outer(deviation, deviation)), weight


def correlations(centred: Array) -> tuple[Array, Array]:
    """Sample correlations (N, N) of centred columns, and the estimated variance of each of them."""
    rows = centred.shape[0]
    power = np.mean(centred**2, axis=0)
    unit = centred / np.sqrt(np.where(power > 0, power, 1.0))
    mean = unit.T @ unit / rows
    spread = np.maximum((unit**2).T @ (unit**2) / rows - mean**2, 0.0)
    persistence = np.clip(lag_one(unit), 0.0, _MOST_PERSISTENT)
    product = np.outer(persistence, persistence)
    variance = spread / max(rows - 1, 1) * (1.0 + product) / (1.0 - product)
    correlation = np.clip((mean + mean.T) / 2, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation, np.asarray(variance)


def lag_one(centred: Array) -> Array:
    """Lag-1 correlation of each column, rows being in time order."""
    power = np.sum(centred**2, axis=0)
    together = np.sum(centred[1:] * centred[:-1], axis=0)
    return np.asarray(together / np.where(power > 0, power, 1.0))


def effective_rows(rows: int, persistence: Array) -> Array:
    """How many independent rows a time series with this lag-1 correlation is worth, for its mean."""
    rho = np.clip(persistence, 0.0, _MOST_PERSISTENT)
    return np.asarray(np.maximum(rows * (1.0 - rho) / (1.0 + rho), 1.0))
