"""The standard form of a network: units removed, what is left is geometry.

Coordinates of x are chosen so that the raw information J = J0 + H'R^-1 H is the identity, and each
agent's readings so that its own noise R_ii is the identity. Public and private rows are divided by
the root of their raw error, so that tr(U U') = 1 and tr(G_j G_j') = 1. Then, for a sanitized
information matrix J̃ with 0 ⪯ J̃ ⪯ I,

    utility loss = tr(U J̃^-1 U') - 1,        p_j = tr(G_j J̃^-1 G_j') - 1,

and no quantity depends on the units of readings or parameters. Solvers work here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilnet._blocks import Blocks
from veilnet._types import Array


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
    """

    information: Array
    observe: Array
    coupling: Array | None
    blocks: Blocks
    public: Array
    private: tuple[Array, ...]
