"""What agents may still say of a stream when some private parameters are to stay as hidden as silence leaves them.

A message tells nothing of g_t, ever, exactly if it is uncorrelated with g at every earlier, present and later row; so
is then everything the agents send together, the stream being Gaussian. Agent i may send all such combinations of what
it knows without noise, and no others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.lyapunov import stationary_covariance
from veilnet._core.types import Array
from veilnet.designs.streams.knowledge import JointState

_NOTHING = 1e-9


def telling_nothing_of(knowledge: JointState, private: Array) -> list[Array]:
    """Per agent, orthonormal combinations of its knowledge that tell nothing of rows of the state, (any, d_i)."""
    stationary = stationary_covariance(knowledge.transition, knowledge.noise)
    related = stationary @ private.T
    # Later rows: Cov(w_t, g_{t+k}) = V Σ (G A^k)'. Earlier ones: Cov(w_t, g_{t-k}) = V A^k Σ G'.
    later = _orbit(knowledge.transition.T, private.T)
    earlier = _orbit(knowledge.transition, related)
    correlated = knowledge.view @ np.hstack([stationary @ later, earlier])
    kept = []
    for agent in range(knowledge.blocks.count):
        own = correlated[knowledge.blocks.rows(agent)]
        left, sizes, _ = np.linalg.svd(own)
        scale = float(np.linalg.norm(correlated, 2))
        rank = int(np.count_nonzero(sizes > _NOTHING * scale))
        kept.append(np.asarray(left[:, rank:].T))
    return kept


def restricted(knowledge: JointState, rows: list[Array], *, sharing: bool = False) -> JointState:
    """The same stream where agent i may use only these combinations of its knowledge.

    The search begins with all of them; ``sharing`` where share filters are among them, with those.
    """
    cut = np.zeros((sum(len(each) for each in rows), knowledge.blocks.total))
    blocks = Blocks([len(each) for each in rows])
    for agent, each in enumerate(rows):
        cut[blocks.rows(agent), knowledge.blocks.rows(agent)] = each
    return replace(
        knowledge,
        view=cut @ knowledge.view,
        fresh=cut @ knowledge.fresh @ cut.T,
        cross=knowledge.cross @ cut.T,
        blocks=blocks,
        frames=tuple(each @ frame for each, frame in zip(rows, knowledge.frames, strict=True)),
        readings=(0,) * blocks.count,
        shares=tuple(
            share @ each.T if sharing else np.eye(len(each))
            for share, each in zip(knowledge.shares, rows, strict=True)
        ),
    )


def _orbit(step: Array, start: Array) -> Array:
    """Orthonormal columns that span start, step start, step² start, ..."""
    spanned = np.zeros((len(step), 0))
    fresh = start
    while fresh.shape[1] and spanned.shape[1] < len(step):
        scale = np.maximum(np.linalg.norm(fresh, axis=0), np.finfo(float).tiny)
        rest = fresh / scale
        for _ in range(2):
            rest = rest - spanned @ (spanned.T @ rest)
        left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
        added = left[:, sizes > _NOTHING]
        spanned = np.hstack([spanned, added])
        fresh = step @ added
    return spanned
