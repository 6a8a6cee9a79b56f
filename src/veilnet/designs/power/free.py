"""Where agents may add noise for free: what readings outside their shares say about x, and what noise costs there.

With R_i = L_i L_i', agent i's readings of unit noise are L_i^-1 y_i. Orthonormal columns Q_i, orthogonal to its
share, are the directions in which noise costs no utility: A_i = Q_i'L_i^-1 H_i is what they reveal of x. Noise of
covariance K_i X_i K_i' in them has, in raw readings, the power δ_i tr X_i when K_i = √δ_i T_i^-1, with T_i the
triangle of L_i Q_i.

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
from veilnet.designs.power.answers import best_answers, largest_squares

_NOTHING = 1e-14  # of an agent's part in an estimate: less is rounding


@dataclass(frozen=True, eq=False)
class FreeStack:
    """Agents that have as many directions free, each with some power.

    shown:     A_i, (s, b, L), in coordinates of x in which the raw information is the identity.
    stretch:   K_i, (s, b, b).
    unstretch: K_i^-1.
    """

    shown: Array
    stretch: Array
    unstretch: Array

    def answers(self, estimate: Array) -> Array:
        """X_i, (s, b, b): the noise of each that disturbs an estimate E, (L, r), most."""
        count, size, length = self.shown.shape
        seen = (self.shown.reshape(-1, length) @ estimate).reshape(count, size, -1)
        # An agent that adds nothing but rounding is better left alone.
        able = np.linalg.norm(seen, axis=(1, 2)) > _NOTHING * np.linalg.norm(self.shown, axis=(1, 2)) * (
            np.linalg.norm(estimate)
        )
        if able.all():
            return best_answers(seen, self.stretch, self.unstretch)
        found = np.zeros(self.stretch.shape)
        if able.any():
            found[able] = best_answers(seen[able], self.stretch[able], self.unstretch[able])
        return found


def directions(rows: Array, roots: Array) -> Array:
    """Orthonormal bases of readings of unit noise, (s, n, n): the share's directions first, then the free ones Q_i.

    rows:  the share of raw readings, (s, k, n), independent rows.
    roots: L_i, (s, n, n).
    """
    count, _, size = rows.shape
    if rows.shape[1] == 0:
        return np.broadcast_to(np.eye(size), (count, size, size))
    basis = np.linalg.svd(rows @ roots, full_matrices=True)[2]
    return np.swapaxes(basis, 1, 2)


def free_stack(
    observe: Array, roots: Array, basis: Array, rank: int, change: Array, power: Array
) -> FreeStack:
    """The free directions of a stack of agents.

    observe: H_i, (s, n, L).
    roots:   L_i, (s, n, n).
    basis:   :func:`directions` of their shares, the first ``rank`` columns of which are not free.
    change:  T^-1, with T'T the raw information of all.
    power:   δ_i > 0, (s,).
    """
    free = np.ascontiguousarray(basis[:, :, rank:])
    white = solve_lower_batch(roots, observe)
    shown = (np.swapaxes(free, 1, 2) @ white) @ change
    triangle = np.asarray(np.linalg.qr(roots @ free, mode="r"), dtype=np.float64)
    deviation = np.sqrt(power)[:, None, None]
    identity = np.broadcast_to(np.eye(free.shape[2]), triangle.shape)
    stretch = np.swapaxes(
        solve_lower_batch(np.ascontiguousarray(np.swapaxes(triangle, 1, 2)), identity), 1, 2
    )
    return FreeStack(shown, stretch * deviation, triangle / deviation)


def noise_where_free(free: FreeStack, answer: Array) -> tuple[Array, Array]:
    """Variances, (s, b), ascending, and directions, (s, b, b), of the noise K_i X_i K_i'."""
    noise = free.stretch @ answer @ np.swapaxes(free.stretch, 1, 2)
    values, vectors = np.linalg.eigh((noise + np.swapaxes(noise, 1, 2)) / 2)
    return np.maximum(values, 0.0), vectors


def withheld(free: FreeStack, estimate: Array) -> Array:
    """Σ A_i'(I - (I + K_i X_i K_i')^-1) A_i, (L, L): what their answers to an estimate take from the information."""
    variances, vectors = noise_where_free(free, free.answers(estimate))
    half = np.swapaxes(vectors, 1, 2) @ free.shown
    half *= np.sqrt(variances / (1 + variances))[:, :, None]
    flat = half.reshape(-1, half.shape[2])
    return np.asarray(flat.T @ flat)


def left_open(free: FreeStack, asked: Array, estimate: Array) -> Array:
    """(Σ λ_max(∇_i), Σ <∇_i, X_i>): what the best and what the present noise adds to the error to first order.

    asked:    the estimate that the noise X_i answers.
    estimate: the best one when it is there, (L, r): ∇_i = W_i W_i', W_i = K_i'(I + K_i X_i K_i')^-1 A_i E.
    """
    answer = free.answers(asked)
    variances, vectors = noise_where_free(free, answer)
    seen = np.swapaxes(vectors, 1, 2) @ (free.shown @ estimate) / (1 + variances)[:, :, None]
    slope = np.swapaxes(free.stretch, 1, 2) @ (vectors @ seen)
    most = largest_squares(slope)
    present = np.sum(slope * (answer @ slope), axis=(1, 2))
    return np.array([most.sum(), np.minimum(present, most).sum()])


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
        """Where those with some power and something free may add noise, few enough of them at once.

        change: T^-1, (L, L), with T'T the raw information of all.
        """
        size, length = self.observe.shape[1:]
        return [
            self._stack(able[part], rank, change)[1]
            for rank, places in self._by_rank()
            for able in [places[self.power[places] > 0]]
            if rank < size
            for part in parts(len(able), size * length)
        ]

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
