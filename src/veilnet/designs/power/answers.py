"""How one agent answers an estimate: the noise within its power that disturbs it most; a stack of agents at once.

The centre's estimate is E'x, E (L, r). Of agent i, whose readings outside its share are A_i x + unit noise, it takes
V_i = A_i E. Noise of covariance K_i X_i K_i' there, X_i ⪰ 0, tr X_i <= 1 (the power is a part of K_i), leaves

    tr(V_i'(I + K_i X_i K_i')^-1 V_i)  =  |V_i|² - tr(c'(X_i^-1 + N)^-1 c),      c = K_i'V_i,  N = K_i'K_i,

of it. Two kinds of answers have a formula. One direction: <cc', xx'>/(1 + x'N x) is most for the first eigenvector of
(I + N)^-½ cc'(I + N)^-½. All directions: W W' = ν I, W = (I + N X)^-1 c, gives X = ν^-½ (Y Y')^½ - N^-1 with
Y = N^-1 c. The first is the best where its gradient W W' is nowhere larger than on X, the second where it is a
covariance at all. The agents left have no formula: the best X gives max_Y 2<c, Y> - <Y, N Y> - |Y|_*², a problem for
:mod:`veilnet.designs.power.answers`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans

_OPTIMAL = 1e-12  # by which part a gradient may be larger elsewhere than on X
_CLOSE = 1e-10  # of what is reached: how far from the best X may be
_MOST_STEPS = 1000


def best_answers(seen: Array, stretch: Array, unstretch: Array) -> Array:
    """X_i of a stack, (s, b, b).

    seen:      V_i, (s, b, r), none of them zero; X_i does not depend on their size.
    stretch:   K_i, (s, b, b).
    unstretch: K_i^-1.
    """
    seen = seen / np.linalg.norm(seen, axis=(1, 2))[:, None, None]
    force = np.swapaxes(stretch, 1, 2) @ seen
    metric = np.swapaxes(stretch, 1, 2) @ stretch
    answer, left = _one_direction(force, metric)
    if left.any():
        answer[left], still = _all_directions(seen[left], unstretch[left])
        left[left] = still
    if left.any():
        answer[left] = _by_steps(metric[left], force[left])
    return np.asarray(answer / np.maximum(1.0, np.trace(answer, axis1=1, axis2=2))[:, None, None])


def _one_direction(force: Array, metric: Array) -> tuple[Array, Booleans]:
    """The best X_i of rank one, and for whom another is better."""
    count, size, columns = force.shape
    values, vectors = np.linalg.eigh(metric)
    root = vectors / np.sqrt(1 + np.maximum(values, 0.0))[:, None, :]  # root root' = (I + N)^-1
    half = np.swapaxes(root, 1, 2) @ force
    direction = root @ _first_direction(half)
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    if size == 1:
        return np.ones((count, 1, 1)), np.zeros(count, dtype=bool)
    answer = direction @ np.swapaxes(direction, 1, 2)
    if columns == 1:
        return answer, np.zeros(count, dtype=bool)
    # W = (I + N x x')^-1 c = c - N x (x'c)/(1 + x'N x)
    bent = metric @ direction
    along = np.swapaxes(direction, 1, 2) @ force
    residual = force - bent @ (along / (1 + np.swapaxes(direction, 1, 2) @ bent))
    here = np.sum((np.swapaxes(direction, 1, 2) @ residual) ** 2, axis=(1, 2))
    return answer, largest_squares(residual) > here * (1 + _OPTIMAL)


def _all_directions(seen: Array, unstretch: Array) -> tuple[Array, Booleans]:
    """X_i with a gradient that is alike in all directions, and for whom it is no covariance."""
    aim = unstretch @ seen
    left, singular, _ = np.linalg.svd(aim, full_matrices=False)
    inverse = unstretch @ np.swapaxes(unstretch, 1, 2)
    total = np.sum(singular, axis=1)
    level = (1 + np.trace(inverse, axis1=1, axis2=2)) / np.where(total > 0, total, 1.0)
    answer = (left * (level[:, None] * singular)[:, None, :]) @ np.swapaxes(left, 1, 2) - inverse
    answer = (answer + np.swapaxes(answer, 1, 2)) / 2
    return answer, np.linalg.eigvalsh(answer)[:, 0] < 0


def _by_steps(metric: Array, force: Array) -> Array:
    """X_i that are the best to within a small part, by as many steps as each takes."""
    count, size, columns = force.shape
    if columns > size:  # c c' is all that matters
        left, singular, _ = np.linalg.svd(force, full_matrices=False)
        force = left * singular[:, None, :]
    answer = np.zeros((count, size, size))
    for part in parts(count, size * size):
        answer[part] = _split(metric[part], force[part])
    return answer


def _split(metric: Array, force: Array) -> Array:
    values, vectors = np.linalg.eigh(metric)
    splitting = Splitting(np.maximum(values, 0.0), vectors, force)
    answer, moving = np.zeros(metric.shape), np.arange(len(metric))
    while moving.size and splitting.iterations < _MOST_STEPS:
        splitting.step()
        if splitting.iterations % CHECK_EVERY:
            continue
        root = noise_root(splitting.low_rank)
        found = root @ np.swapaxes(root, 1, 2)
        slope: Array = np.asarray(
            np.linalg.solve(np.eye(metric.shape[1]) + metric[moving] @ found, force[moving]), np.float64
        )
        spent = found @ slope
        reached = np.sum(force[moving] * spent, axis=(1, 2))
        answer[moving] = found
        far = largest_squares(slope) - np.sum(slope * spent, axis=(1, 2)) > _CLOSE * reached
        moving = moving[far]
        splitting.keep(far)
    return answer


def _first_direction(half: Array) -> Array:
    """The first left singular vector of each, (s, b, 1), of any length."""
    if half.shape[2] == 1:
        return half
    gram = half @ np.swapaxes(half, 1, 2)
    return np.asarray(np.linalg.eigh(gram)[1][:, :, -1:])


def largest_squares(stack: Array) -> Array:
    """The square of the largest singular value of each."""
    small = stack if stack.shape[2] <= stack.shape[1] else np.swapaxes(stack, 1, 2)
    return np.asarray(np.linalg.eigvalsh(np.swapaxes(small, 1, 2) @ small)[:, -1])


CHECK_EVERY = 10
BALANCE_EVERY = 20
_RELAXATION = 1.7


def shrunk(stacked: Array, penalty: Array) -> Array:
    """argmin_Z ½ |Z|_*² + ½ penalty |Z - stacked|² for each of a stack: soft thresholding at |Z|_*/penalty.

    stacked: (count, b, r).
    penalty: (count,).
    """
    left, singular, right = np.linalg.svd(stacked, full_matrices=False)
    penalty = penalty[:, None]
    # If the first n singular values stay positive, their sum after thresholding is total[n-1].
    total = np.cumsum(singular, axis=1) / (1 + np.arange(1, singular.shape[1] + 1) / penalty)
    kept = np.maximum(np.sum(singular > total / penalty, axis=1), 1)
    threshold = np.take_along_axis(total, kept[:, None] - 1, axis=1) / penalty
    return np.asarray((left * np.maximum(singular - threshold, 0)[:, None, :]) @ right)


def noise_root(factor: Array) -> Array:
    """V_i with V_i V_i' = X_i = (Y_i Y_i')^½ / |Y_i|_*, (count, b, min(b, r)), of a stack of Y_i; zero for zero."""
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    total = np.sum(singular, axis=1)[:, None]
    return np.asarray(left * np.sqrt(singular / np.where(total > 0, total, 1.0))[:, None, :])


class Splitting:
    """State of the iteration: ``low_rank`` satisfies the thresholding, ``smooth`` the linear equations.

    values, vectors: eigenvalues (count, b) and eigenvectors (count, b, b) of F.
    gain:            A, (count, b, r).
    shrink:          the proximal map of the nuclear norms, given (count, b, r) and the penalties (count,).
    """

    def __init__(
        self, values: Array, vectors: Array, gain: Array, shrink: Callable[[Array, Array], Array] = shrunk
    ) -> None:
        self.values, self.vectors, self._shrink = values, vectors, shrink
        self.gain = np.swapaxes(vectors, 1, 2) @ gain
        self.penalty: Array = np.maximum(1e-3, np.sqrt(np.median(values, axis=1)))
        self.low_rank: Array = np.zeros(gain.shape)
        self.smooth: Array = self.low_rank
        self.multiplier: Array = self.low_rank
        self.coefficients: Array = self.low_rank
        self.iterations = 0
        self._moved: Array = self.low_rank

    def step(self) -> None:
        """One over-relaxed round."""
        penalty = self.penalty[:, None, None]
        target = self.gain + penalty * (np.swapaxes(self.vectors, 1, 2) @ (self.low_rank - self.multiplier))
        self.coefficients = target / (self.values[:, :, None] + penalty)
        self.smooth = self.vectors @ self.coefficients
        relaxed = _RELAXATION * self.smooth + (1 - _RELAXATION) * self.low_rank
        before = self.low_rank
        self.low_rank = self._shrink(relaxed + self.multiplier, self.penalty)
        self.multiplier = self.multiplier + relaxed - self.low_rank
        self._moved = self.low_rank - before
        self.iterations += 1
        if self.iterations % BALANCE_EVERY == 0:
            self._balance()

    def _balance(self) -> None:
        """Move the penalties towards equal residuals; stiff problems, of strong noise, need that to the end."""
        size = np.maximum(_norms(self.smooth), _norms(self.low_rank))
        primal = _norms(self.smooth - self.low_rank) * _norms(self.multiplier)
        dual = _norms(self._moved) * size
        some = (primal > 0) & (dual > 0)
        factor = np.sqrt(np.where(some, primal, 1.0) / np.where(some, dual, 1.0))
        factor = np.where((factor < 2 / 3) | (factor > 3 / 2), np.clip(factor, 0.1, 10.0), 1.0)
        self.penalty = self.penalty * factor
        self.multiplier = self.multiplier / factor[:, None, None]

    def keep(self, chosen: Booleans) -> None:
        """Go on with some of the problems."""
        for name in ("values", "vectors", "gain", "penalty", "low_rank", "smooth", "multiplier"):
            setattr(self, name, getattr(self, name)[chosen])


def _norms(stack: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(stack**2, axis=(1, 2))))
