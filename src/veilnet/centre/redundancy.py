"""What the messages of one row can be held against: the prior, and one another.

Messages and prior together say, in the coordinates of :mod:`veilnet.centre.messages`, F x = b + unit noise, with
F the prior's rows above the observed ones and b zeros above the whitened messages. What x cannot explain, the part
of b outside the range of F, is noise alone: with N an orthonormal basis of that complement, q = N'b is standard
normal, of as many degrees of freedom as there is redundancy. With a prior for all of x that is every number
sent, and |q|² is the squared Mahalanobis distance of the row; without a prior it is what agents see in common.

Leaving agent i out lowers |q|² by |a_i|², a_i standard normal too: how far its messages are from what the prior
and all others say they should be. An agent whose messages nothing else says anything about has no a_i and
cannot be tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array, Booleans
from veilnet.centre.messages import CentreModel

__all__ = ["Redundancy", "redundancy"]

_SEEN = 1e-12  # of the sharpest direction: less than this of x is not seen at all
_LEAST_STRENGTH = 1e-6  # of an agent's noise in what others tell of it; without any, rounding leaves 1e-16


@dataclass(frozen=True, eq=False)
class Redundancy:
    """Tests of the messages z of one set of agents.

    joint:   (f, M), q = joint (z - expected).
    agents:  (sum of f_i, M), all a_i one after another; ``owner`` says whose each row is.
    freedom: f_i of every agent, 0 for those that are silent or cannot be tested.
    """

    joint: Array
    agents: Array
    owner: np.ndarray[tuple[int], np.dtype[np.intp]]
    freedom: np.ndarray[tuple[int], np.dtype[np.intp]]

    def distances(self, deviations: Array) -> Array:
        """|q|² of each row, for z - expected (rows, M); 0 stands for what is not sent."""
        joint = deviations @ self.joint.T
        return np.asarray(np.einsum("ij,ij->i", joint, joint))

    def agent_distances(self, deviations: Array) -> Array:
        """|a_i|² of each row and agent, likewise."""
        single = self.agents @ deviations.T
        single *= single
        sums = np.zeros((len(self.freedom), len(deviations)))
        for place, squares in zip(self.owner, single, strict=True):
            sums[place] += squares
        return sums.T


def redundancy(model: CentreModel, silent: Booleans) -> Redundancy:
    """The tests of the agents that are not silent."""
    present = np.flatnonzero(np.repeat(~silent, model.blocks.sizes))
    factor = model.observe[present]
    root = None if model.correlation is None else cholesky(model.correlation[np.ix_(present, present)])
    if root is not None:
        factor = solve_lower(root, factor)
    prior = _full_rank(model.prior)
    stacked = np.concatenate([prior, factor])
    left, sharpness, _ = np.linalg.svd(stacked, full_matrices=True)
    rank = int(np.sum(sharpness > _SEEN * max(1.0, float(np.max(sharpness, initial=0.0)))))
    unexplained = left[len(prior) :, rank:].T
    if root is not None:
        unexplained = solve_lower(root, np.ascontiguousarray(unexplained.T), transposed=True).T
    # From here on in whitened messages, whose own noise is one.
    joint = np.zeros((len(unexplained), model.blocks.total))
    joint[:, present] = unexplained
    agents, owner = [np.zeros((0, model.blocks.total))], []
    freedom = np.zeros(len(model.agents), dtype=np.intp)
    for place in map(int, np.flatnonzero(~silent & (model.blocks.sizes > 0))):
        mine = joint[:, model.blocks.rows(place)]
        directions, strength, _ = np.linalg.svd(mine, full_matrices=False)
        kept = directions[:, strength > _LEAST_STRENGTH].T
        freedom[place] = len(kept)
        agents.append(kept @ joint)
        owner += [place] * len(kept)
    tests = model.whiten.applied(np.concatenate([joint, *agents]))
    return Redundancy(
        joint=tests[: len(joint)],
        agents=tests[len(joint) :],
        owner=np.array(owner, dtype=np.intp),
        freedom=freedom,
    )


def _full_rank(prior: Array) -> Array:
    """Rows with the same Gram matrix, none of them dependent."""
    if len(prior) == 0:
        return prior
    _, sizes, directions = np.linalg.svd(prior, full_matrices=False)
    kept = sizes > _SEEN * max(1.0, float(sizes[0]))
    return np.asarray(sizes[kept, None] * directions[kept])
