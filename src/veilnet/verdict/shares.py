"""Each agent's share of the public estimate, and what perfect utility lets it keep to itself.

The efficient estimate of u is Σ_i U Ψ_i y_i. Agent i's share of it is A_i = U Ψ_i. Perfect utility holds iff
U Ψ_i Θ_i = 0 for every agent; any mechanism at all that keeps it lets the centre compute every A_i y_i, and
sending a basis of the share and nothing else is best for every measure of privacy (mathematics, section 3).

What each agent of a stack has to send takes a small SVD each, batched. All that an agent needs of the
others is the weights W = T^-1 A' of L x rank(U) numbers (:func:`public_weights`): its share in readings of unit noise
is (H_i W)'L_i^-T, with T the upper triangular root of the raw information and A an orthonormal basis of U T^-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.blocks import Group
from veilnet._core.linalg import EPS, orthonormal_rows, solve_lower_batch, solve_upper
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.knowledge import share_of_estimate
from veilnet.model.network import Network


@dataclass(frozen=True, eq=False)
class ShareRanks:
    """How many numbers each agent has to send, and how close the decisions were.

    ranks:     of the agents' shares, (S,).
    kept:      the smallest part that counts, over all agents (inf when none does), and
    dropped:   the largest one that does not (0 when all do), both as a fraction of the deviation of the public
               estimate; the line between them is ``tolerance``.
    """

    network: Network
    ranks: Integers
    kept: float
    dropped: float
    tolerance: float


@dataclass(frozen=True, eq=False)
class Shares(ShareRanks):
    """The shares of all agents: ``ranks`` are rank(U Ψ_i).

    rows:      for each size of agents, (count, most, n): the first ``ranks[i]`` rows of agent i are a basis of its
               share of raw readings.
    """

    rows: tuple[Array, ...]

    @cached_property
    def sanitizers(self) -> Mechanisms:
        """Agent -> "send only your share": the mechanism that reaches the ceiling."""
        stacks = []
        for group, rows in zip(self.network.blocks.groups, self.rows, strict=True):
            mine = self.ranks[group.agents]
            for number in np.unique(mine).tolist():
                chosen = slice(None) if np.all(mine == number) else np.flatnonzero(mine == number)
                stacks.append(SanitizerStack(group.agents[chosen], rows[chosen, :number]))
        return Mechanisms(self.network, stacks)

    def needed(self) -> Iterator[tuple[int, Array]]:
        """(agent, rows of its raw readings it has to send): a basis of its share, each row of unit noise."""
        for group, rows in zip(self.network.blocks.groups, self.rows, strict=True):
            for place, agent in enumerate(group.agents):
                yield int(agent), np.ascontiguousarray(rows[place, : self.ranks[agent]])

    def free(self) -> Iterator[tuple[int, Array]]:
        """(agent, orthonormal columns b of its raw readings with U Ψ_i b = 0): where noise costs nothing."""
        for group, roots, rows in zip(
            self.network.blocks.groups, self.network.R.own_roots(), self.rows, strict=True
        ):
            for place, agent in enumerate(group.agents):
                rank = int(self.ranks[agent])
                _, _, basis = np.linalg.svd(rows[place, :rank] @ roots[place], full_matrices=True)
                yield int(agent), np.linalg.qr(roots[place] @ basis[rank:].T)[0]


def shares(network: Network, *, finer: float = 1.0) -> Shares:
    """The shares of all agents, by one small SVD each (batched over agents of one size).

    ``finer`` moves the line of the rank decisions down by this factor, where rounding had put it too high.
    """
    tolerance = share_tolerance(network.conditioning, network.N, finer)
    ranks = np.zeros(network.S, dtype=np.intp)
    kept, dropped = np.inf, 0.0
    rows = []
    for group, found in _by_size(network, tolerance):
        ranks[group.agents] = found.ranks
        kept, dropped = min(kept, found.kept), max(dropped, found.dropped)
        rows.append(found.rows)
    return Shares(network, ranks, kept, dropped, tolerance, tuple(rows))


def _by_size(network: Network, tolerance: float) -> Iterator[tuple[Group, ShareStack]]:
    sizes = zip(network.blocks.groups, network.R.own_roots(), strict=True)
    if network.R.independent:
        weights = public_weights(network.raw_triangle, network.U)
        for group, roots in sizes:
            yield group, share_stack(network.blocks.take(network.H, group.agents), roots, weights, tolerance)
        return
    estimate = share_of_estimate(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    for group, roots in sizes:
        mine = np.swapaxes(group.take(np.ascontiguousarray(estimate.T)), 1, 2) @ roots
        yield group, rows_of_parts(mine, roots, tolerance)


_SMALLEST_PART = 1e-9  # of a deviation: its square, what leaving it out costs, is below rounding


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


def public_weights(upper: Array, public: Array) -> Array:
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
    weights: W of :func:`public_weights`, (L, r).
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
