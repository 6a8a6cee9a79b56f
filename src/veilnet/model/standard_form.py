"""The standard form of a network: units removed, what is left is geometry.

Coordinates of x are chosen so that the raw information J = J0 + H'R^-1 H is the identity, and each
agent's readings so that its own noise R_ii is the identity. Public and private rows are divided by
the root of their raw error, so that tr(U U') = 1 and tr(G_j G_j') = 1. Then, for a sanitized
information matrix J̃ with 0 ⪯ J̃ ⪯ I,

    utility loss = tr(U J̃^-1 U') - 1,        p_j = tr(G_j J̃^-1 G_j') - 1,

and no quantity depends on the units of readings or parameters. Solvers work here and nowhere else. Common
disturbances are parameters here (:mod:`veilnet.model.common`), so that L counts them too and agents stay uncoupled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import fits_at_once, parts
from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.model.stream_size import refuse_stream


@dataclass(frozen=True, eq=False)
class StandardForm:
    """A network in standard form.

    information: J0, (L, L), the prior's share of the raw information (zero without a prior).
    observe:     H, (N, L), stacked; each agent's own noise is white.
    coupling:    E, (N, N), correlation between agents' noises, zero on the diagonal blocks, so that
                 J0 + H'(I + E)^-1 H = I. None when agents' noises are independent.
    blocks:      how the N rows fall to agents.
    public:      U, (rows, L), tr(U U') = 1.
    private:     G_j, each (rows_j, L), tr(G_j G_j') = 1.
    withheld:    raw information that agents restricted to some of their readings can never send, (L, L): then
                 J0 + H'(I + E)^-1 H = I - withheld. None, the usual case, is zero.
    """

    information: Array
    observe: Array
    coupling: Array | None
    blocks: Blocks
    public: Array
    private: tuple[Array, ...]
    withheld: Array | None = None


def standard_form(network: Network) -> StandardForm:
    """The standard form of a network."""
    refuse_stream(network)
    network = network.common_apart
    prior = network.in_raw_coordinates(network.prior_root)
    return StandardForm(
        information=prior.T @ prior,
        observe=_white_in_raw_coordinates(network),
        coupling=None if network.R.independent else _coupling(network),
        blocks=network.blocks,
        public=_unit(network.in_raw_coordinates(network.measured)),
        private=tuple(_unit(network.in_raw_coordinates(rows)) for rows in network.private.values()),
    )


def _white_in_raw_coordinates(network: Network) -> Array:
    """R_ii^-½ H_i T^-1 of every agent, stacked, a few thousand agents at a time: nothing else is as large."""
    if fits_at_once(network.N * network.L):
        return network.in_raw_coordinates(_whiten_by_own_noise(network, network.H))
    found = np.empty(network.H.shape)
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        for part in parts(group.count, group.size * network.L):
            white = solve_lower_batch(roots[part], network.blocks.take(network.H, group.agents[part]))
            flat = network.in_raw_coordinates(white.reshape(-1, network.L))
            found[group.rows[part].reshape(-1)] = flat
    return found


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows))


def _whiten_by_own_noise(network: Network, stacked: Array) -> Array:
    """R_ii^-½ applied to each agent's rows."""
    white = np.empty(stacked.shape)
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        group.put(white, solve_lower_batch(roots, group.take(stacked)))
    return white


def _coupling(network: Network) -> Array:
    half = _whiten_by_own_noise(network, network.R.matrix())
    full = _whiten_by_own_noise(network, np.ascontiguousarray(half.T))
    full[network.blocks.owner[:, None] == network.blocks.owner[None, :]] = 0.0
    return np.asarray((full + full.T) / 2)
