"""Each agent's share of the public estimate, and what perfect utility lets it keep to itself.

The efficient estimate of u is Σ_i U Ψ_i y_i. Agent i's share of it is A_i = U Ψ_i. Perfect utility holds iff
U Ψ_i Θ_i = 0 for every agent; any mechanism at all that keeps it lets the centre compute every A_i y_i, and
sending a basis of the share and nothing else is best for every measure of privacy (mathematics, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.blocks import Group
from veilnet._core.linalg import orthonormal_rows
from veilnet._core.types import Array, Integers
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack
from veilnet.bounds.knowledge import share_of_estimate
from veilnet.model.network import Network
from veilnet.verdict.share_stacks import (
    ShareStack,
    rows_of_parts,
    share_stack,
    share_tolerance,
    share_weights,
)


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
        weights = share_weights(network.raw_triangle, network.U)
        for group, roots in sizes:
            yield group, share_stack(network.blocks.take(network.H, group.agents), roots, weights, tolerance)
        return
    estimate = share_of_estimate(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    for group, roots in sizes:
        mine = np.swapaxes(group.take(np.ascontiguousarray(estimate.T)), 1, 2) @ roots
        yield group, rows_of_parts(mine, roots, tolerance)
