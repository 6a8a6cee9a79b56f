"""What each agent of a stack has to send, given what all agents together know: a small SVD each, batched.

Agent i's share of the public estimate is A_i = U Ψ_i; any mechanism of perfect utility lets the centre compute
A_i y_i, and a basis of it, sent without noise, tells least (mathematics, section 3). All that an agent needs of the
others is the weights W = T^-1 A' of L x rank(U) numbers (:func:`share_weights`): its share in readings of unit noise
is (H_i W)'L_i^-T, with T the upper triangular root of the raw information and A an orthonormal basis of U T^-1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import EPS, orthonormal_rows, solve_lower_batch, solve_upper
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers

_SMALLEST_PART = 1e-9


@dataclass(frozen=True, eq=False)
class ShareStack:
    """The shares of a stack of agents.

    ranks:   rank(U Ψ_i), (S,): how many numbers each has to send.
    rows:    (S, k, n) with k the most any of them could have to send: the first ``ranks[i]`` rows are a basis of
             agent i's share of its raw readings, each of unit noise; the others count for nothing.
    kept:    the smallest part that counts (inf when none does) and
    dropped: the largest that does not (0 when all do), as fractions of the public estimate's deviation.
    """

    ranks: Integers
    rows: Array
    kept: float
    dropped: float


def share_tolerance(conditioning: float, readings: int, finer: float = 1.0) -> float:
    """The part of the public estimate's deviation below which a combination does not belong to the share.

    A combination of readings belongs to the share when one deviation of its noise moves the public estimate by more
    than this; leaving out less costs its square in utility.

    conditioning: how much the network amplifies rounding.
    readings:     N.
    finer:        moves the line down by this factor, where rounding had put it too high.
    """
    return max(_SMALLEST_PART, finer * 64 * EPS * conditioning * float(np.sqrt(readings)))


def share_weights(upper: Array, public: Array) -> Array:
    """W = T^-1 A', (L, rank U), with A an orthonormal basis of U T^-1.

    upper:  T, upper triangular, T'T = J0 + H'R^-1 H over all agents.
    public: U.
    """
    basis = orthonormal_rows(np.ascontiguousarray(solve_upper(upper, public.T, transposed=True).T))
    return solve_upper(upper, np.ascontiguousarray(basis.T))


def share_parts(observe: Array, roots: Array, weights: Array) -> Array:
    """The shares in readings of unit noise, (S, r, n), transposed (H_i W)'L_i^-T.

    observe: H_i, (S, n, L).
    roots:   L_i with L_i L_i' = R_i, (S, n, n).
    weights: W of :func:`share_weights`, (L, r).
    """
    count, size, length = observe.shape
    half = (observe.reshape(-1, length) @ weights).reshape(count, size, -1)
    return np.ascontiguousarray(np.swapaxes(solve_lower_batch(roots, half), 1, 2))


def share_stack(observe: Array, roots: Array, weights: Array, tolerance: float) -> ShareStack:
    """The shares of all agents of a stack; parts that move the estimate by less than ``tolerance`` do not count.

    The other arguments are those of :func:`share_parts`.
    """
    count, size, length = observe.shape
    most = min(size, weights.shape[1])
    ranks = np.empty(count, dtype=np.intp)
    rows = np.empty((count, most, size))
    kept, dropped = np.inf, 0.0
    for part in parts(count, size * length):
        found = rows_of_parts(share_parts(observe[part], roots[part], weights), roots[part], tolerance)
        ranks[part], rows[part] = found.ranks, found.rows
        kept, dropped = min(kept, found.kept), max(dropped, found.dropped)
    return ShareStack(ranks, rows, kept, dropped)


def rows_of_parts(shares: Array, roots: Array, tolerance: float) -> ShareStack:
    """Which rows to send of readings of unit noise whose shares are (S, r, n)."""
    _, sizes, basis = np.linalg.svd(shares, full_matrices=False)
    counts = sizes > tolerance
    # A row q of white readings L^-1 y is the row q L^-1 of raw ones.
    columns = solve_lower_batch(roots, np.ascontiguousarray(np.swapaxes(basis, 1, 2)), transposed=True)
    return ShareStack(
        ranks=np.sum(counts, axis=1),
        rows=np.swapaxes(columns, 1, 2),
        kept=float(np.min(sizes[counts], initial=np.inf)),
        dropped=float(np.max(sizes[~counts], initial=0.0)),
    )
