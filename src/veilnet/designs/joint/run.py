"""One start of the joint solver: advance it a few steps, judge it, advance it again."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.chart import SineChart
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import Evaluation, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import ROWS, SETTINGS


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
        self.shrink, frames = self.chart.shrink(self.point)
        self.at = objective(self.shrink)
        while not np.isfinite(self.at.loss):  # no steady state: there is one where all is sent with noise
            start = [(x + np.eye(x.shape[1]) / 2) / 2 for x in self.shrink]
            self.point = self.chart.flat(start, margin)
            self.shrink, frames = self.chart.shrink(self.point)
            self.at = objective(self.shrink)
        problem.restart(self.at, objective(problem.retreat(objective, self.shrink)))
        if primed:
            problem.prime(self.at)
            problem.fit(self.at, *self._logarithmic_gradients(frames))

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
        self.shrink, frames = self.chart.shrink(self.point)
        self.at = self.objective(self.shrink)
        self.problem.update(self.at, stopped)
        self.problem.fit(self.at, *self._logarithmic_gradients(frames))
        self.history.append((self.at.loss, self.at.privacy))
        self.gap, vertex = toward_vertex(self.objective, self.problem, self.at, self.shrink)
        if stopped and self.gap > SETTINGS.gap:
            self.settled = self._freed_at - self.estimate < SETTINGS.worthwhile
            self._freed_at = self.estimate
            jump = max(jump, SETTINGS.escape)
        if jump and not self.settled:
            mixed = [(1 - jump) * x + jump * v for x, v in zip(self.shrink, vertex, strict=True)]
            jumped = self.chart.flat(mixed, 0.0)
            if np.isfinite(self.objective(self.chart.shrink(jumped)[0]).loss):
                self.point = jumped
                self.curvature.forget()

    def _logarithmic_gradients(self, frames: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Gradients by Y of log loss, (n,), and of each log p_j, (J, n)."""
        targets = self.objective.targets
        tiny = np.finfo(float).tiny

        def by_chart(of_loss: float, of_privacy: Array) -> Array:
            return self.chart.pull_back(frames, self.objective.gradient(self.at, of_loss, of_privacy))

        units = np.diag(1 / np.maximum(self.at.privacy, tiny))
        loss = by_chart(1 / max(self.at.loss, tiny), np.zeros(targets))
        return loss, np.array([by_chart(0.0, unit) for unit in units])

    @property
    def estimate(self) -> float:
        return self.problem.estimate(self.at)

    def converged(self, gap: float, infeasibility: float) -> bool:
        closed = self.gap < gap or self.settled
        return closed and self.problem.infeasibility(self.at) < infeasibility


def toward_vertex(
    objective: Objective, problem: LeastLoss, at: Evaluation, shrink: list[Array]
) -> tuple[float, list[Array]]:
    """Frank-Wolfe gap of the Lagrangian at X, and the projectors that minimise its linear model."""
    gap, vertices = 0.0, []
    for x, slope in zip(shrink, objective.gradient(at, *problem.lagrangian(at)), strict=True):
        values, vectors = np.linalg.eigh(slope)
        scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
        gap += float((slope * x).sum() - np.minimum(values, 0).sum())
        kept = vectors * (values < -1e-12 * scale)[:, None, :]
        vertices.append(kept @ kept.transpose(0, 2, 1))
    return gap, vertices
