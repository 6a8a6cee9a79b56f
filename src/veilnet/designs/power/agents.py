"""Agents alike in their number of readings, from what they observe to what they send.

Shares may have different ranks, and some agents no power or nothing free: those that have as many directions free are
worked on together, a few thousand at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.designs.power.free import FreeStack, directions, free_stack, noise_where_free

_NO_NOISE = 1e-13  # of a reading's own noise: less is none
_ROUNDING = 1e-15  # of an agent's largest noise


@dataclass(frozen=True, eq=False)
class Agents:
    """Agents that have as many readings.

    observe: H_i, (s, n, L).
    roots:   L_i, (s, n, n), R_i = L_i L_i'.
    rows:    (s, k, n): the first ``ranks[i]`` of each are a basis of its share of raw readings.
    ranks:   of the shares, (s,).
    power:   δ_i, (s,): the largest noise power of each.
    """

    observe: Array
    roots: Array
    rows: Array
    ranks: Integers
    power: Array

    def free(self, change: Array) -> list[FreeStack]:
        """Where those with some power and something free may add noise.

        change: T^-1, (L, L), with T'T the raw information of all.
        """
        size, length = self.observe.shape[1:]
        found = []
        for rank, places in self._by_rank():
            able = places[self.power[places] > 0]
            if rank == size or not able.size:
                continue
            made = FreeStack.empty(len(able), size - rank, length)
            for part in parts(len(able), size * length):
                made.put(part, self._stack(able[part], rank, change)[1])
            found.append(made)
        return found

    def sending(self, change: Array, estimate: Array) -> tuple[Array, Array, Array]:
        """What all send whose noise answers an estimate E, (L, r): rows of raw readings, (s, n, n), variances of the
        noise on each, (s, n), 0 or 1, and the power of the noise in raw readings, (s,).

        Of each agent, the share comes first, then what is free, each direction of the noise by itself.
        """
        count, size, length = self.observe.shape
        rows, variances = np.empty((count, size, size)), np.zeros((count, size))
        used = np.zeros(count)
        for rank, places in self._by_rank():
            for part in parts(len(places), size * length):
                chosen = places[part]
                able = chosen[self.power[chosen] > 0] if rank < size and estimate.shape[1] else chosen[:0]
                still = np.setdiff1d(chosen, able, assume_unique=True)
                if still.size:
                    basis = directions(self.rows[still, :rank], self.roots[still])
                    rows[still] = self._raw(still, basis)
                if able.size:
                    basis, free = self._stack(able, rank, change)
                    answer = free.answers(estimate)
                    rows[able], variances[able] = self._with_noise(able, basis, rank, free, answer)
                    used[able] = self.power[able] * np.trace(answer, axis1=1, axis2=2)
        return rows, variances, used

    def _by_rank(self) -> Iterator[tuple[int, Integers]]:
        for rank in np.unique(self.ranks).tolist():
            yield int(rank), np.flatnonzero(self.ranks == rank)

    def _stack(self, places: Integers, rank: int, change: Array) -> tuple[Array, FreeStack]:
        roots = self.roots[places]
        basis = directions(self.rows[places, :rank], roots)
        return basis, free_stack(self.observe[places], roots, basis, rank, change, self.power[places])

    def _with_noise(
        self, places: Integers, basis: Array, rank: int, free: FreeStack, answer: Array
    ) -> tuple[Array, Array]:
        variances, vectors = noise_where_free(free, answer)
        noisy = variances > np.maximum(_NO_NOISE, _ROUNDING * variances[:, -1:])
        turned = np.concatenate([basis[:, :, :rank], basis[:, :, rank:] @ vectors], axis=2)
        rows = self._raw(places, turned)
        rows[:, rank:] /= np.sqrt(np.where(noisy, variances, 1.0))[:, :, None]
        exact = np.zeros((len(rows), rank))
        return rows, np.concatenate([exact, noisy], axis=1)

    def _raw(self, places: Integers, columns: Array) -> Array:
        """Columns of readings of unit noise as rows of raw ones."""
        turned = solve_lower_batch(self.roots[places], np.ascontiguousarray(columns), transposed=True)
        return np.ascontiguousarray(np.swapaxes(turned, 1, 2))
