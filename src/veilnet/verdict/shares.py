"""Each agent's share of the public estimate, and what perfect utility lets it keep to itself.

The efficient estimate of u is Σ_i U Ψ_i y_i. Agent i's share of it is A_i = U Ψ_i. Perfect utility holds iff
U Ψ_i Θ_i = 0 for every agent; any mechanism at all that keeps it lets the centre compute every A_i y_i, and
sending a basis of the share and nothing else is best for every measure of privacy (mathematics, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import EPS, orthonormal_rows, solve_lower_batch
from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import share_of_estimate
from veilnet.model.network import Network

# A combination of readings belongs to the share when one deviation of its noise moves the public estimate
# by more than this fraction of the estimate's own deviation; leaving out less costs its square in utility.
_SMALLEST_PART = 1e-9


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of all agents.

    ranks:     rank(U Ψ_i) for each agent: how many numbers it has to send.
    kept:      the smallest part that counts, over all agents (inf when none does), and
    dropped:   the largest one that does not (0 when all do): how close the rank decisions were, both as a
               fraction of the deviation of the public estimate; the line between them is ``tolerance``.
    """

    network: Network
    ranks: Integers
    kept: float
    dropped: float
    tolerance: float
    _bases: tuple[Array, ...]

    def needed(self) -> Iterator[tuple[int, Array]]:
        """(agent, rows of its raw readings it has to send): a basis of its share, each row of unit noise."""
        for group, roots, bases in zip(
            self.network.blocks.groups, self.network.noise.own_roots(), self._bases, strict=True
        ):
            # A row q of white readings L^-1 y is the row q L^-1 of raw ones.
            columns = solve_lower_batch(
                roots, np.ascontiguousarray(np.swapaxes(bases, 1, 2)), transposed=True
            )
            for place, agent in enumerate(group.agents):
                yield int(agent), np.ascontiguousarray(columns[place, :, : self.ranks[agent]].T)

    def free(self) -> Iterator[tuple[int, Array]]:
        """(agent, orthonormal columns b of its raw readings with U Ψ_i b = 0): where noise costs nothing."""
        for group, roots, bases in zip(
            self.network.blocks.groups, self.network.noise.own_roots(), self._bases, strict=True
        ):
            for place, agent in enumerate(group.agents):
                columns = roots[place] @ bases[place, self.ranks[agent] :].T
                yield int(agent), np.linalg.qr(columns)[0]


def shares(network: Network, *, finer: float = 1.0) -> Shares:
    """The shares of all agents, by one small SVD each (batched over agents of one size).

    ``finer`` moves the line of the rank decisions down by this factor, where rounding had put it too high.
    """
    estimate = share_of_estimate(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    tolerance = max(_SMALLEST_PART, finer * 64 * EPS * network.conditioning * float(np.sqrt(network.N)))
    ranks = np.zeros(network.S, dtype=np.intp)
    kept, dropped = np.inf, 0.0
    bases = []
    for group, roots in zip(network.blocks.groups, network.noise.own_roots(), strict=True):
        parts = np.swapaxes(group.take(np.ascontiguousarray(estimate.T)), 1, 2) @ roots
        _, sizes, basis = np.linalg.svd(parts, full_matrices=True)
        counts = sizes > tolerance
        ranks[group.agents] = np.sum(counts, axis=1)
        kept = min(kept, float(np.min(sizes[counts], initial=np.inf)))
        dropped = max(dropped, float(np.max(sizes[~counts], initial=0.0)))
        bases.append(basis)
    return Shares(network, ranks, kept, dropped, tolerance, tuple(bases))


def share_sanitizers(mine: Shares) -> dict[str, Sanitizer]:
    """Agent -> "send only your share": the mechanism that reaches the ceiling."""
    network = mine.network
    rows_of = dict(mine.needed())
    return {
        agent: Sanitizer.exact(rows_of[place], offset=network.offset[network.blocks.rows(place)], agent=agent)
        for place, agent in enumerate(network.agents)
    }
