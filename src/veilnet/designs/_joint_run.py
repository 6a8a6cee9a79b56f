"""One start of the joint solver: advance it a few steps, judge it, advance it again."""

from __future__ import annotations

import numpy as np

from veilnet._types import Array
from veilnet.designs._joint_chart import SineChart
from veilnet.designs._joint_lbfgs import Curvature, minimize
from veilnet.designs._joint_objective import Evaluation, JointObjective
from veilnet.designs._joint_problem import Problem

_ESCAPE = 0.02


class Run:
    """Augmented Lagrangian iterations from one start.

    ``margin`` draws the start's eigenvalues away from 0 and 1. ``gap`` is the Frank-Wolfe gap of the
    Lagrangian over [0, I]: the relative improvement a first-order model still promises, zero exactly at
    a KKT point.
    """

    def __init__(
        self, objective: JointObjective, problem: Problem, start: list[Array], margin: float
    ) -> None:
        self.objective = objective
        self.problem = problem
        self.chart = SineChart(objective.groups)
        self.point = self.chart.flat(start, margin)
        self.curvature = Curvature(self.point.size)
        self.iterations = 0
        self.history: list[tuple[float, Array]] = []
        self.gap = np.inf
        self.shrink, _ = self.chart.shrink(self.point)
        self.at = objective(self.shrink)
        feasible = objective(problem.retreat(objective, self.shrink))
        problem.restart(self.at, feasible)

    def advance(self, iterations: int, tolerance: float, jump: float = 0.0) -> None:
        """One minimisation of at most ``iterations`` steps, new multipliers, then a jump.

        The jump mixes X with the projectors that minimise the linear model of the Lagrangian. Large ones
        carry a start from basin to basin; a small one, made whenever the minimisation has stopped short of
        a KKT point, frees eigenvalues that rest at 0 or 1 where the chart hides their derivative.
        """

        def merit(flat: Array) -> tuple[float, Array]:
            shrink, frames = self.chart.shrink(flat)
            at = self.objective(shrink)
            value, by_loss, by_privacy = self.problem.merit(at)
            return value, self.chart.pull_back(frames, self.objective.gradient(at, by_loss, by_privacy))

        self.point, done, stopped = minimize(merit, self.point, self.curvature, iterations, tolerance)
        self.iterations += done
        self.shrink, _ = self.chart.shrink(self.point)
        self.at = self.objective(self.shrink)
        self.problem.update(self.at, stopped)
        self.history.append((self.at.loss, self.at.privacy))
        self.gap, vertex = toward_vertex(self.objective, self.problem, self.at, self.shrink)
        if stopped and self.gap > 10 * tolerance:
            jump = max(jump, _ESCAPE)
        if jump:
            mixed = [(1 - jump) * x + jump * v for x, v in zip(self.shrink, vertex, strict=True)]
            self.point = self.chart.flat(mixed, 0.0)
            self.curvature.forget()

    @property
    def estimate(self) -> float:
        return self.problem.estimate(self.at)

    def converged(self, gap: float, infeasibility: float) -> bool:
        return self.gap < gap and self.problem.infeasibility(self.at) < infeasibility


def toward_vertex(
    objective: JointObjective, problem: Problem, at: Evaluation, shrink: list[Array]
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
