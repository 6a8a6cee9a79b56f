"""What makes the noise of messages white, for one agent or a stack of agents alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array, Integers

_REPEATS = 1e-13  # a number that keeps less than this part of its deviation repeats others


def whitening(compression: Array, roots: Array, added_roots: Array | None = None) -> tuple[Array, Array]:
    """(W_i, whether all numbers of agent i differ) with W_i (C_i R_i C_i' + Θ_i) W_i' = I, lower triangular.

    From square roots: noise many orders above the readings' costs no digits.

    compression: C_i, (S, k, n).
    roots:       L_i with L_i L_i' = R_i, (S, n, n).
    added_roots: B_i with B_i'B_i = Θ_i, (S, rows, k); no noise is added when left out.
    """
    count, sent, _ = compression.shape
    if sent == 0:
        return np.zeros((count, 0, 0)), np.ones(count, bool)
    factor = np.swapaxes(compression @ roots, 1, 2)
    if added_roots is not None:
        factor = np.concatenate([factor, added_roots], axis=1)
    if factor.shape[1] < sent:  # more numbers than readings: some of them repeat others
        return np.zeros((count, sent, sent)), np.zeros(count, bool)
    upper = np.asarray(np.linalg.qr(factor, mode="r"))
    diagonal = np.diagonal(upper, axis1=1, axis2=2)
    upper = np.asarray(upper * np.where(diagonal < 0, -1.0, 1.0)[:, :, None])
    differ = np.all(np.abs(diagonal) > _REPEATS * np.linalg.norm(upper, axis=1), axis=1)
    lower = np.swapaxes(np.where(differ[:, None, None], upper, np.eye(sent)), 1, 2)
    return np.asarray(np.linalg.solve(lower, np.broadcast_to(np.eye(sent), lower.shape))), differ


class WhiteningStacks(Sequence[Array]):
    """What makes each agent's message white, by its place in sending order, kept as stacks of agents alike.

    stacks: (places, W), ascending places and (count, k, k).
    """

    def __init__(self, blocks: Blocks, stacks: Sequence[tuple[Integers, Array]]) -> None:
        self._blocks, self._stacks = blocks, tuple(stacks)

    @classmethod
    def of_agents(cls, blocks: Blocks, matrices: Sequence[Array]) -> WhiteningStacks:
        """The same from the matrix of each agent, in sending order."""
        alike = [np.flatnonzero(blocks.sizes == size) for size in np.unique(blocks.sizes)]
        return cls(blocks, [(places, np.stack([matrices[k] for k in places.tolist()])) for places in alike])

    def __len__(self) -> int:
        return self._blocks.count

    @overload
    def __getitem__(self, place: int) -> Array: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Array, ...]: ...
    def __getitem__(self, place: int | slice) -> Array | tuple[Array, ...]:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(*place.indices(len(self))))
        wanted = range(len(self))[place]
        for places, white in self._stacks:
            within = int(np.searchsorted(places, wanted))
            if within < len(places) and places[within] == wanted:
                return np.asarray(white[within])
        raise IndexError(place)

    def of(self, stacked: Array) -> Array:
        """W times stacked rows (M, ...)."""
        made = np.empty(stacked.shape)
        for places, white in self._stacks:
            if white.shape[1]:
                mine = white @ self._blocks.take(stacked, places)
                rows = self._blocks.starts[places][:, None] + np.arange(white.shape[1], dtype=np.intp)
                made[rows.reshape(-1)] = mine.reshape(rows.size, *stacked.shape[1:])
        return made

    def applied(self, gain: Array, numbers: Integers | None = None) -> Array:
        """gain W, gain (rows, M) with a column for each number sent, or for some ``numbers`` of whole agents."""
        if numbers is not None and len(numbers) < self._blocks.total:
            whole = np.zeros((len(gain), self._blocks.total))
            whole[:, numbers] = gain
            return np.ascontiguousarray(self.applied(whole)[:, numbers])
        made = np.empty(gain.shape)
        for places, white in self._stacks:
            count, sent, _ = white.shape
            columns = (self._blocks.starts[places][:, None] + np.arange(sent, dtype=np.intp)).reshape(-1)
            mine = gain[:, columns].reshape(len(gain), count, 1, sent)
            made[:, columns] = (mine @ white).reshape(len(gain), len(columns))
        return made
