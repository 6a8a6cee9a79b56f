"""Linear recursions over time: stationary covariances, by doubling; what lasts, and what is never seen."""

from __future__ import annotations

import numpy as np

from veilnet._core.linalg import EPS
from veilnet._core.types import Array

# A root at least this close to the unit circle, or outside it, does not die away.
NOT_DYING = 1.0 - 1e-10
_MOST_DOUBLINGS = 64
_ROUNDING = 1e-12  # of a row of coefficients: some thousand roundings of a sum that cancels


def spectral_radius(transition: Array) -> float:
    """The largest modulus of an eigenvalue; below one, what went in dies away."""
    return float(np.max(np.abs(np.linalg.eigvals(transition)), initial=0.0))


def stationary_covariance(transition: Array, noise: Array) -> Array:
    """Σ_k A^k Q A'^k, the solution of P = A P A' + Q for a stable A, by doubling: sums of what is positive only."""
    covariance = (noise + noise.T) / 2
    power = transition
    for _ in range(_MOST_DOUBLINGS):
        more = power @ covariance @ power.T
        covariance = covariance + (more + more.T) / 2
        if np.max(np.abs(more), initial=0.0) <= EPS**2 * np.max(np.abs(covariance), initial=0.0):
            break
        power = power @ power
    return covariance


def stationary_root(transition: Array, factor: Array) -> Array:
    """B with BB' = Σ_k A^k F F' A'^k for a stable A, (n, n): the root itself keeps the digits a covariance loses.

    factor: F, (n, k), or a stack of them for one A or for as many.
    """
    root = _compressed(factor)
    power = transition
    for _ in range(_MOST_DOUBLINGS):
        more = power @ root
        if np.max(np.abs(more), initial=0.0) <= EPS**2 * np.max(np.abs(root), initial=0.0):
            break
        root = _compressed(np.concatenate([root, more], axis=-1))
        power = power @ power
    return root


def lasting_directions(transition: Array) -> Array:
    """Orthonormal columns V with A V = V A_u: the directions that do not die away (|λ| at least one)."""
    if spectral_radius(transition) < NOT_DYING:
        return np.zeros((len(transition), 0))
    from scipy.linalg import schur

    lasts = lambda root: abs(root) >= NOT_DYING  # noqa: E731
    _, basis, count = schur(transition, output="complex", sort=lasts)  # type: ignore[call-overload]
    columns = basis[:, :count]
    # The eigenvalues come in conjugate pairs, so the space is real.
    left, singular, _ = np.linalg.svd(np.concatenate([columns.real, columns.imag], axis=1))
    return np.asarray(left[:, :count] if singular.size else left[:, :0])


def unseen_directions(transition: Array, observe: Array, *, tolerance: float = 1e-9) -> Array:
    """Orthonormal columns that no row of C, C A, C A², ... sees, found step by step by exact cuts."""
    size = len(transition)
    scale = np.linalg.norm(observe, axis=1)
    rows = observe[scale > 0] / scale[scale > 0][:, None]
    seen = np.zeros((0, size))
    for _ in range(size):
        fresh = rows - (rows @ seen.T) @ seen
        fresh = fresh - (fresh @ seen.T) @ seen
        if not len(fresh):
            break
        _, singular, directions = np.linalg.svd(fresh, full_matrices=False)
        kept = directions[singular > tolerance]
        if not len(kept):
            break
        seen = np.concatenate([seen, kept])
        rows = kept @ transition
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1), np.finfo(float).tiny)[:, None]
    return complement(seen, size)


def undetectable_directions(transition: Array, observe: Array) -> Array:
    """Orthonormal columns that last for ever and are never seen: nothing bounds what one is wrong by there."""
    lasting = lasting_directions(transition)
    if lasting.shape[1] == 0:
        return lasting
    # A filter that lets nothing pass of what lasts leaves a rounding of it, which is not seen.
    seen = observe @ lasting
    seen[np.linalg.norm(seen, axis=1) <= _ROUNDING * np.linalg.norm(observe, axis=1)] = 0.0
    within = unseen_directions(lasting.T @ transition @ lasting, seen)
    return np.asarray(lasting @ within)


def complement(rows: Array, size: int) -> Array:
    """Orthonormal columns orthogonal to orthonormal rows."""
    if len(rows) == 0:
        return np.eye(size)
    return np.asarray(np.linalg.svd(rows, full_matrices=True)[2][len(rows) :].T)


def _compressed(wide: Array) -> Array:
    """B with as many columns as rows at most, BB' unchanged."""
    if wide.shape[-1] <= wide.shape[-2]:
        return wide
    upper = np.linalg.qr(np.swapaxes(wide, -1, -2), mode="r")
    return np.ascontiguousarray(np.swapaxes(np.asarray(upper), -1, -2))
