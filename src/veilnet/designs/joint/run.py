"""One start of the joint solver: advance it a few steps, judge it, advance it again.

It moves on a smooth chart of the shrinkages: X = sin²(Y), Y any symmetric matrix per agent. Every symmetric Y gives
eigenvalues in [0, 1], and both ends are reached at finite Y, so that a shrinkage with exact zeros and ones is an
ordinary point of an unconstrained problem. Where an eigenvalue rests at an end the chart hides the derivative along
it; `toward_vertex` of the multipliers looks there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.blocks import Group
from veilnet._core.stacks import parts
from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import Evaluation, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import ROWS, SETTINGS

_SMALLEST = float(np.finfo(np.float64).eps)


def divided_differences(angles: Array) -> Array:
    """(sin²a - sin²b) / (a - b) for every two of an agent's angles, its derivative where they are one: (..., n, n).

    Closed form: sin²a - sin²b = sin(a + b) sin(a - b). The second factor is ``np.sinc``, which on a few numbers
    takes several times as long to find out what they are.
    """
    left, right = angles[..., :, None], angles[..., None, :]
    apart = np.pi * ((left - right) / np.pi)
    apart = np.where(apart, apart, _SMALLEST)
    made: Array = np.sin(left + right) * (np.sin(apart) / apart)
    return made


class SineChart:
    """Flat vectors of Y against lists of X, one (count, n, n) array per size group."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._shapes = [(group.count, group.size, group.size) for group in groups]
        self._parts = [list(parts(*shape)) for shape in self._shapes]
        self._edges = np.cumsum([0, *(count * size * size for count, size, _ in self._shapes)]).tolist()

    def shrink(self, flat: Array) -> tuple[list[Array], list[tuple[Array, Array]]]:
        """X at Y, and the eigenvalues and eigenvectors of Y that `pull_back` needs."""
        shrinks, frames = [], []
        for start, end, shape, runs in zip(
            self._edges[:-1], self._edges[1:], self._shapes, self._parts, strict=True
        ):
            given = flat[start:end].reshape(shape)
            angles, vectors, made = np.empty(shape[:2]), np.empty(shape), np.empty(shape)
            for part in runs:
                angles[part], vectors[part] = np.linalg.eigh(given[part])
                half = vectors[part] * np.sin(angles[part])[:, None, :]
                np.matmul(half, half.transpose(0, 2, 1), out=made[part])
            shrinks.append(made)
            frames.append((angles, vectors))
        return shrinks, frames

    def pull_back(self, frames: list[tuple[Array, Array]], gradients: Sequence[Array]) -> Array:
        """Gradient with respect to Y from the gradient with respect to X."""
        pulled = np.empty(int(self._edges[-1]))
        for start, end, (angles, vectors), gradient, runs in zip(
            self._edges[:-1], self._edges[1:], frames, gradients, self._parts, strict=True
        ):
            mine = pulled[start:end].reshape(vectors.shape)
            for part in runs:
                frame = vectors[part]
                inverse = frame.transpose(0, 2, 1)
                inner = divided_differences(angles[part])
                inner *= inverse @ gradient[part] @ frame
                np.matmul(frame @ inner, inverse, out=mine[part])
        return pulled

    def flat(self, shrinks: Sequence[Array], margin: float) -> Array:
        """Y of given X, eigenvalues first drawn into [margin, 1 - margin] so that every derivative shows."""
        made = []
        for shrink in shrinks:
            values, vectors = np.linalg.eigh(shrink)
            angles = np.arcsin(np.sqrt(np.clip(values, margin, 1 - margin)))
            made.append(((vectors * angles[:, None, :]) @ vectors.transpose(0, 2, 1)).reshape(-1))
        return np.concatenate(made)


class Run:
    """Augmented Lagrangian iterations from one start.

    ``margin`` draws the start's eigenvalues away from 0 and 1. A ``primed`` run, whose start is nearly optimal
    already, begins with the multipliers that balance its gradients. ``memory`` is how many steps the minimisation
    remembers; fewer where X has so many entries that they would outweigh the network. ``gap`` is the Frank-Wolfe gap
    of the Lagrangian over [0, I]: the relative improvement a first-order model still promises, zero exactly at
    a KKT point.
    """

    def __init__(
        self,
        objective: Objective,
        problem: LeastLoss,
        start: list[Array],
        margin: float,
        *,
        primed: bool = False,
        memory: int = ROWS.memory,
    ) -> None:
        self.objective = objective
        self.problem = problem
        self.chart = SineChart(objective.groups)
        self.point = self.chart.flat(start, margin)
        few = SETTINGS.memory_of_many if self.point.size > SETTINGS.many_entries else memory
        self.curvature = Curvature(self.point.size, few)
        self.iterations = 0
        self.history: list[tuple[float, Array]] = []
        self.gap = np.inf
        self.settled = False
        self._freed_at = np.inf
        self._evaluate()
        while not np.isfinite(self.at.loss):  # no steady state: there is one where all is sent with noise
            start = [(x + np.eye(x.shape[1]) / 2) / 2 for x in self.at.shrink]
            self.point = self.chart.flat(start, margin)
            self._evaluate()
        problem.restart(self.at, objective(problem.retreat(objective, self.at.shrink)))
        if primed:
            problem.prime(self.at)
            problem.fit(self.at, *self._logarithmic_gradients())

    def _evaluate(self) -> None:
        shrink, self._frames = self.chart.shrink(self.point)
        self.at = self.objective(shrink)

    def advance(self, iterations: int, tolerance: float, jump: float = 0.0) -> None:
        """One minimisation of at most ``iterations`` steps, new multipliers, then a jump.

        The jump mixes X with the projectors that minimise the linear model of the Lagrangian. Large ones
        carry a start from basin to basin; a small one, made whenever the minimisation has stopped short of
        a KKT point, frees eigenvalues that rest at 0 or 1 where the chart hides their derivative. When
        that brought nothing since the last time, the start has settled.
        """

        def merit(flat: Array) -> tuple[float, Array]:
            shrink, frames = self.chart.shrink(flat)
            at = self.objective(shrink)
            if not np.isfinite(at.loss):  # no step that way
                return np.inf, np.zeros(flat.shape)
            value, by_loss, by_privacy = self.problem.merit(at)
            return value, self.chart.pull_back(frames, self.objective.gradient(at, by_loss, by_privacy))

        self.point, done, stopped = minimize(merit, self.point, self.curvature, iterations, tolerance)
        self.iterations += done
        self._evaluate()
        self.problem.update(self.at, stopped)
        self.problem.fit(self.at, *self._logarithmic_gradients())
        self.history.append((self.at.loss, self.at.privacy))
        self.gap, vertex = toward_vertex(self.objective, self.problem, self.at)
        if stopped and self.gap > SETTINGS.gap:
            self.settled = self._freed_at - self.estimate < SETTINGS.worthwhile
            self._freed_at = self.estimate
            jump = max(jump, SETTINGS.escape)
        if jump and not self.settled:
            mixed = [(1 - jump) * x + jump * v for x, v in zip(self.at.shrink, vertex, strict=True)]
            jumped = self.chart.flat(mixed, 0.0)
            if np.isfinite(self.objective(self.chart.shrink(jumped)[0]).loss):
                self.point = jumped
                self.curvature.forget()

    def _logarithmic_gradients(self) -> tuple[Array, Array]:
        """Gradients by Y of log loss, (n,), and of each log p_j, (J, n)."""
        targets = self.objective.targets
        tiny = np.finfo(float).tiny

        def by_chart(of_loss: float, of_privacy: Array) -> Array:
            return self.chart.pull_back(self._frames, self.objective.gradient(self.at, of_loss, of_privacy))

        units = np.diag(1 / np.maximum(self.at.privacy, tiny))
        loss = by_chart(1 / max(self.at.loss, tiny), np.zeros(targets))
        return loss, np.array([by_chart(0.0, unit) for unit in units])

    @property
    def estimate(self) -> float:
        return self.problem.estimate(self.at)

    def converged(self, gap: float, infeasibility: float) -> bool:
        closed = self.gap < gap or self.settled
        return closed and self.problem.infeasibility(self.at) < infeasibility


def toward_vertex(objective: Objective, problem: LeastLoss, at: Evaluation) -> tuple[float, list[Array]]:
    """Frank-Wolfe gap of the Lagrangian at X, and the projectors that minimise its linear model."""
    gap, vertices = 0.0, []
    for x, slope in zip(at.shrink, objective.gradient(at, *problem.lagrangian(at)), strict=True):
        values, vectors = np.linalg.eigh(slope)
        scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
        gap += float((slope * x).sum() - np.minimum(values, 0).sum())
        kept = vectors * (values < -1e-12 * scale)[:, None, :]
        vertices.append(kept @ kept.transpose(0, 2, 1))
    return gap, vertices
