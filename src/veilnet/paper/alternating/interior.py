"""A small interior-point method for the one-agent subproblem with several private parameters.

    min tr(A X)   s.t.   tr(B_j X) >= e_j,   0 ⪯ X ⪯ I,      tr A = tr B_j = 1, 0 < e_j < 1.

Given prices μ the point of the central path is known in closed form: X has the eigenvectors of
M = Σ μ_j B_j - A, and each eigenvalue x solves λ/t = 1/(1 - x) - 1/x. So only the prices are iterated on, J numbers,
with one eigendecomposition of the agent's own size a step. At the end of the path eigenvalues far from zero are
rounded to 0 or 1, and the few between are adjusted to meet the constraints exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv, dsyevd

from veilnet._core.types import Array

# Where the path starts, where rounding its end is first tried, and where it ends; the gap that is good enough.
_FIRST, _NEAR, _LAST = 0.1, 1e-6, 1e-11
_GAP = 1e-12
_SHORTEN = 0.05
_MOST_STEPS = 150
# An eigenvalue of X this far from both 0 and 1 is a fraction to be adjusted, not a rounded end.
_FRACTION = 1e-3
# Fractions whose effect on every tr(B_j X) is below this are nobody's: left as they are.
_UNSEEN = 1e-9


class CentralPath(NamedTuple):
    """A feasible X, the prices that bound how far from optimal it is, and that distance."""

    shrink: Array
    prices: Array
    gap: float


def follow_central_path(cost: Array, gains: Array, required: Array) -> CentralPath:
    """An optimal X at the end of the central path; ``gains`` stacks the B_j, ``required`` the tr(B_j X) asked for."""
    count = required.size
    prices = np.full(count, 1.0 / count)
    flat = gains.reshape(count, -1)
    level, previous = _FIRST, np.inf
    best: CentralPath | None = None
    for _ in range(_MOST_STEPS):
        surplus = (prices @ flat).reshape(cost.shape) - cost
        values, vectors, _ = dsyevd(surplus)
        hidden, sent = _central_eigenvalues(values / level)
        rotated = vectors.T @ gains @ vectors
        reached = rotated.diagonal(axis1=1, axis2=2) @ hidden
        product = hidden * sent
        both = np.multiply.outer(hidden, hidden) + np.multiply.outer(sent, sent)
        weighted = rotated * (np.multiply.outer(product, product) / (level * both))
        curvature = weighted.reshape(count, -1) @ rotated.reshape(count, -1).T
        curvature[np.diag_indices(count)] += level / prices**2
        slope = required + level / prices - reached
        _, change, failed = dposv(curvature, slope)
        decrement = float(np.sqrt(max(slope @ change, 0.0) / level)) if not failed else 0.0
        if decrement < 0.3 and level > _NEAR:
            level *= _SHORTEN
            continue
        if failed or (decrement < 0.3 and decrement > 0.1 * previous):
            # Newton's step has shrunk to rounding: this point of the path is as good as it gets.
            finished = _finish(cost, gains, required, prices, vectors, hidden, level)
            if best is None or finished.gap < best.gap:
                best = finished
            if best.gap <= _GAP or level <= _LAST or failed:
                break
            level *= _SHORTEN
            previous = np.inf
            continue
        previous = decrement
        falling = change < 0
        reach = float(np.min(prices[falling] / -change[falling])) if np.any(falling) else np.inf
        prices = prices + min(1.0 if decrement < 1 else 2 / (1 + decrement), 0.9 * reach) * change
    if best is None:
        best = _finish(cost, gains, required, prices, vectors, hidden, level)
    return best


def _central_eigenvalues(z: Array) -> tuple[Array, Array]:
    """x and 1 - x with z = 1/(1 - x) - 1/x, each to full relative accuracy."""
    size = np.abs(z)
    root = np.sqrt(4 + size**2)
    small = (1 + 2 / (root + size)) / (2 + root)
    large = 1 - small
    return np.where(z > 0, large, small), np.where(z > 0, small, large)


def _finish(
    cost: Array, gains: Array, required: Array, prices: Array, vectors: Array, hidden: Array, level: float
) -> CentralPath:
    """Round eigenvalues near 0 and 1, adjust the others to meet the constraints, measure the gap."""
    between = (hidden > _FRACTION) & (hidden < 1 - _FRACTION)
    shrink = (vectors * np.where(between, hidden, np.round(hidden))) @ vectors.T
    # On the path price times excess is the level: the larger of the two tells whether a constraint binds.
    binding = prices**2 > level
    if np.any(between) and np.any(binding):
        inner = vectors[:, between]
        seen = (inner.T @ gains[binding] @ inner).reshape(int(binding.sum()), -1)
        missing = required[binding] - np.tensordot(gains[binding], shrink, 2)
        change = np.linalg.pinv(seen, rcond=_UNSEEN / max(_UNSEEN, float(np.linalg.norm(seen)))) @ missing
        change = change.reshape(inner.shape[1], -1)
        block, basis = np.linalg.eigh(np.diag(hidden[between]) + 0.5 * (change + change.T))
        outer = vectors[:, hidden >= 1 - _FRACTION]
        turned = inner @ basis
        shrink = outer @ outer.T + (turned * np.clip(block, 0.0, 1.0)) @ turned.T
    # Whatever is still missing is made up by moving towards silence.
    reached = np.tensordot(gains, shrink, 2)
    towards = float(np.max((required - reached) / np.maximum(1 - reached, 1e-300), initial=0.0))
    shrink = shrink + min(towards, 1.0) * (np.eye(cost.shape[0]) - shrink)
    surplus = np.linalg.eigvalsh(np.tensordot(prices, gains, 1) - cost)
    bound = float(prices @ required - surplus[surplus > 0].sum())
    return CentralPath(shrink, prices, float(np.vdot(cost, shrink)) - bound)
