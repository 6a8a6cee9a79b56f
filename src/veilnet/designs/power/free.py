"""Where agents may add noise for free: what readings outside their shares say about x, and what noise costs there.

With R_i = L_i L_i', agent i's readings of unit noise are L_i^-1 y_i. Orthonormal columns Q_i, orthogonal to its
share, are the directions in which noise costs no utility: A_i = Q_i'L_i^-1 H_i is what they reveal of x. Noise of
covariance K_i X_i K_i' in them has, in raw readings, the power δ_i tr X_i when K_i = √δ_i T_i^-1, with T_i the
triangle of L_i Q_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.types import Array
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

    @classmethod
    def empty(cls, count: int, size: int, length: int) -> FreeStack:
        """Room for so many agents, of so many free directions."""
        square = (count, size, size)
        return cls(np.empty((count, size, length)), np.empty(square), np.empty(square))

    def put(self, places: slice, some: FreeStack) -> None:
        """Fill in some of the agents."""
        self.shown[places], self.stretch[places] = some.shown, some.stretch
        self.unstretch[places] = some.unstretch

    def part(self, places: slice) -> FreeStack:
        """Some of the agents."""
        return FreeStack(self.shown[places], self.stretch[places], self.unstretch[places])

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
