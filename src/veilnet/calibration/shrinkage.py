"""Covariances from few samples: correlations shrunk towards zero, variances kept.

With D the sample deviations and r the sample correlations the estimate is

    Σ = D ((1 - λ) r + λ I) D,    0 <= λ <= 1:

the diagonal as target, so that units do not matter (Ledoit and Wolf, 2004; Schäfer and Strimmer, 2005). Their
λ has the least expected square error, to which the directions of small variance hardly contribute. Bounds
are made of Σ^-1, where those directions are everything: noise that cancels between readings is what an
attacker uses. Hence λ is chosen here by likelihood: the one under which contiguous blocks of rows left
out of r are most probable, Gaussian. This measures Σ^-1 as it is used, and needs no assumption that rows are
independent: neighbours in time are left out together.

Correlations between parameters are shrunk *reluctantly*. A public and a private parameter that are believed
independent promise privacy that the data may not allow, and a slow log has too few independent rows to tell: there λ
is the smallest that the blocks left out do not clearly speak against.

With no more samples than columns r is singular whatever is true, and a handful of rows lies in a plane of
its own, those left out too: λ is then at least 1 / (samples + 1)². The result is always positive definite.

- O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", 2004.
- J. Schäfer, K. Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", 2005.
- J. Friedman, "Regularized discriminant analysis", 1989 (λ by held-out data).
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from veilnet._core.types import Array, Integers

_FOLDS = 5
_WEIGHTS = np.concatenate([[0.0], np.geomspace(1e-8, 1.0, 65)])
_MOST_PERSISTENT = 0.999  # lag-1 correlations are not distinguished from 1 with fewer than a thousand rows


def shrunk_covariance(
    centred: Array,
    freedom: int,
    *,
    least: float = 0.0,
    smallest: Array | float = 0.0,
    reluctant: bool = False,
    weight: float | None = None,
) -> tuple[Array, float]:
    """(Σ, λ) from centred samples (T, N) that have ``freedom`` degrees of freedom left.

    least:     the smallest λ to use.
    smallest:  the smallest deviations; that of a column without any variation must be above zero.
    reluctant: take the smallest λ that blocks left out do not clearly speak against: one that loses no more
               likelihood to the best than chance may make (Student's t over the blocks, 97.5 %).
    weight:    λ, where it is known already.
    """
    size = centred.shape[1]
    deviation = np.maximum(np.sqrt(np.sum(centred**2, axis=0) / freedom), smallest)
    if size == 1:
        return deviation[:, None] ** 2, 0.0
    lowest = max(least, 1.0 / (freedom + 1) ** 2 if freedom <= size else 0.0)
    if weight is None:
        weight = _chosen(centred, np.unique(np.clip(_WEIGHTS, lowest, 1.0)), reluctant=reluctant)
    shrunk = (1.0 - weight) * correlations(centred)
    np.fill_diagonal(shrunk, 1.0)
    return np.asarray(shrunk * np.outer(deviation, deviation)), weight


def _chosen(centred: Array, candidates: Array, *, reluctant: bool) -> float:
    blocks = likelihood_of_blocks(centred, candidates)
    total = np.sum(blocks, axis=0)
    best = int(np.argmax(total))
    if not reluctant or len(blocks) < 2:
        return float(candidates[best])
    with np.errstate(invalid="ignore"):
        lost = blocks[:, [best]] - blocks
        certain = float(stdtrit(len(blocks) - 1, 0.975))  # exceeded by chance in one case of forty
        doubt = certain * np.std(lost, axis=0, ddof=1) * np.sqrt(len(blocks))
        close = np.sum(lost, axis=0) <= doubt
    return float(candidates[np.flatnonzero(close & np.isfinite(total))[0]])


def likelihood_of_blocks(centred: Array, weights: Array) -> Array:
    """(blocks, weights): the Gaussian log likelihood, up to a constant, of each block left out.

    The correlations come from the other rows, one contiguous block being left out at a time.
    """
    rows = centred.shape[0]
    unit = _in_own_units(centred)
    total = unit.T @ unit
    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for test in np.array_split(unit, min(_FOLDS, rows)):
            others = (total - test.T @ test) / max(rows - len(test), 1)
            values, vectors = np.linalg.eigh(others)
            power = np.sum((test @ vectors) ** 2, axis=0)
            shrunk = np.outer(1.0 - weights, np.maximum(values, 0.0)) + weights[:, None]
            cost = len(test) * np.sum(np.log(shrunk), axis=1) + np.sum(power / shrunk, axis=1)
            found.append(np.where(np.isnan(cost), -np.inf, -cost / 2))
    return np.stack(found)


def correlations(centred: Array) -> Array:
    """Sample correlations (N, N) of centred columns; 0 with one that does not vary."""
    unit = _in_own_units(centred)
    mean = unit.T @ unit / centred.shape[0]
    correlation = np.clip((mean + mean.T) / 2, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _in_own_units(centred: Array) -> Array:
    power = np.mean(centred**2, axis=0)
    return np.asarray(centred / np.sqrt(np.where(power > 0, power, 1.0)))


def lag_one(centred: Array, segments: Integers | None = None) -> Array:
    """Lag-1 correlation of each column, rows being in time order; rows of two segments are no neighbours."""
    power = np.sum(centred**2, axis=0)
    neighbours = np.ones(len(centred) - 1, bool) if segments is None else np.diff(segments) == 0
    pairs = int(np.sum(neighbours))
    together = np.sum((centred[1:] * centred[:-1])[neighbours], axis=0) * (len(centred) - 1) / max(pairs, 1)
    return np.asarray(together / np.where(power > 0, power, 1.0))


def effective_rows(rows: int, persistence: Array) -> Array:
    """How many independent rows a time series with this lag-1 correlation is worth, for its mean."""
    rho = np.clip(persistence, 0.0, _MOST_PERSISTENT)
    return np.asarray(np.maximum(rows * (1.0 - rho) / (1.0 + rho), 1.0))


def worth_of_groups(centred: Array, groups: Integers) -> Array:
    """How many independent rows each column is worth for its mean, where rows of one group resemble each other.

    T / (1 + (n - 1) ρ), with ρ the part of the variance that the rows of a group share, by the analysis of variance,
    and n = Σ n_g² / T rows of a group (Kish, 1965).
    """
    sizes = np.bincount(groups)
    rows, count = len(centred), len(sizes)
    if count < 2 or count == rows:
        return np.full(centred.shape[1], float(count))
    sums = np.stack(
        [np.bincount(groups, column) for column in (centred - np.mean(centred, axis=0)).T], axis=1
    )
    means = sums / sizes[:, None]
    between = np.sum(sizes[:, None] * means**2, axis=0) / (count - 1)
    within = np.sum((centred - np.mean(centred, axis=0) - means[groups]) ** 2, axis=0) / (rows - count)
    size = (rows - np.sum(sizes**2) / rows) / (count - 1)
    shared = np.maximum(between - within, 0.0)
    part = shared / np.maximum(shared + size * within, np.finfo(float).tiny)
    return np.asarray(rows / (1.0 + (np.sum(sizes**2) / rows - 1.0) * part))
