"""The tests of :mod:`veilnet.centre.contradictions` for one of very many sets of agents, without an M x M matrix.

In its notation, with Q an orthonormal basis of the range of F: q has the length of r = b - Q Q'b, and a_i that of
S^-1 V' r_i, where I - Q_i Q_i' = V S² V' belongs to agent i. So a set of agents costs M L² to begin and M L to keep
(M numbers sent, L parameters), where :func:`~veilnet.centre.contradictions.redundancy` takes M³ and M².

Where noise is correlated, X whitens all messages, and one that is silent is a free parameter of its own: its column
of X is projected out of everything. That updates X by the rank of what is silent instead of factoring anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.contradictions import LEAST_STRENGTH, SEEN
from veilnet.centre.messages import CentreModel

__all__ = ["Residuals", "residuals"]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Tests of the messages of one set of agents; ``distances`` and ``agent_distances`` as of a Redundancy.

    numbers: degrees of freedom of the joint test; ``freedom`` those of each agent's.
    prior:   (r, rank) and ``basis`` (M, rank), Q in the prior's rows and in the messages'.
    silent:  (M, numbers that are silent), what is projected out; None where noise is independent.
    units:   per group of agents of one size, (count, k, k), S^-1 V'.
    """

    model: CentreModel
    numbers: int
    freedom: Integers
    prior: Array
    basis: Array
    silent: Array | None
    units: tuple[Array, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        arrays = (self.prior, self.basis, self.freedom, *self.units)
        return sum(each.nbytes for each in arrays) + (0 if self.silent is None else self.silent.nbytes)

    def distances(self, deviations: Array) -> Array:
        """|q|² of each row, for z - expected (rows, M); 0 stands for what is not sent."""
        above, rest = self._rest(deviations)
        return np.asarray(np.einsum("ij,ij->j", above, above) + np.einsum("ij,ij->j", rest, rest))

    def agent_distances(self, deviations: Array) -> Array:
        """|a_i|² of each row and agent, likewise."""
        _, rest = self._rest(deviations)
        if self.silent is not None:
            rest = self.model.unmixing.T @ rest
        found = np.zeros((len(self.freedom), len(deviations)))
        for group, unit in zip(self.model.blocks.groups, self.units, strict=True):
            single = unit @ group.take(rest)
            found[group.agents] = np.einsum("ijk,ijk->ik", single, single)
        return found.T

    def _rest(self, deviations: Array) -> tuple[Array, Array]:
        """r, in the prior's rows and in the messages': what x does not explain."""
        white = self.model.whiten.of(deviations.T)
        if self.silent is not None:
            white = self.model.unmixing @ white
            white -= self.silent @ (self.silent.T @ white)
        explained = self.basis.T @ white
        return -self.prior @ explained, white - self.basis @ explained


def residuals(model: CentreModel, silent: Booleans) -> Residuals:
    """The tests of the agents that are not silent."""
    absent = np.repeat(silent, model.blocks.sizes)
    free: Array | None = None
    mixed = np.zeros((0, 0))
    if model.correlation is None:
        factor = np.where(absent[:, None], 0.0, model.observe)
    else:
        free = np.asarray(np.linalg.qr(model.unmixing[:, absent])[0])
        mixed = model.unmixing - free @ (free.T @ model.unmixing)
        factor = mixed @ model.observe
        factor -= free @ (free.T @ factor)
    left, sharpness, _ = np.linalg.svd(np.concatenate([model.prior, factor]), full_matrices=False)
    rank = _rank(sharpness)
    prior, basis = left[: len(model.prior), :rank], left[len(model.prior) :, :rank]
    freedom, units = np.zeros(len(model.agents), dtype=np.intp), []
    if free is not None:
        shares = basis.T @ mixed
        above, mixed = prior @ shares, mixed - basis @ shares
    for group in model.blocks.groups:
        if free is None:
            mine = group.take(basis)
            gram = np.eye(group.size) - mine @ mine.swapaxes(1, 2)
        else:
            left_over = np.concatenate([mixed, above])[:, group.rows].transpose(1, 2, 0)
            gram = left_over @ left_over.swapaxes(1, 2)
        squares, directions = np.linalg.eigh(gram)
        tested = (squares > LEAST_STRENGTH**2) & ~silent[group.agents][:, None]
        freedom[group.agents] = tested.sum(axis=1)
        scale = np.where(tested, 1.0 / np.sqrt(np.where(tested, squares, 1.0)), 0.0)
        units.append(scale[:, :, None] * directions.swapaxes(1, 2))
    of_prior = _rank(np.asarray(np.linalg.svd(model.prior, compute_uv=False))) if len(model.prior) else 0
    numbers = of_prior + int(np.sum(~absent)) - rank
    return Residuals(model, numbers, freedom, prior, np.ascontiguousarray(basis), free, tuple(units))


def _rank(sharpness: Array) -> int:
    return int(np.sum(sharpness > SEEN * max(1.0, float(np.max(sharpness, initial=0.0)))))
