"""The best prices: minimising over the price matrix itself, where mixing answers goes on too slowly.

D of Γ = D diag(signs) D' has a column for each public and private row: a handful of numbers however many agents there
are, and the search of :mod:`veilnet.designs.joint` for X is made for D instead. Much privacy is reached along a
curved valley, on which mixtures creep and a quasi-Newton method does not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.progress import Teller
from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import Evaluation
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.many.crowd import Crowd
from veilnet.designs.many.mixture import Answers, Figures
from veilnet.designs.many.recipes import Rule

SOFTNESS = 0.05
"""μ, relative to the largest price that agents see in the middle."""
_TOLERANCE = 1e-7
_ENOUGH = 1e-4  # progress of a round, in log loss or log level, below which no other is made
_TINY = np.finfo(float).tiny


class PriceSearch:
    """Prices that minimise a problem's Lagrangian over all agents of a crowd.

    scale: the largest price that an agent in the middle sees of given prices: the unit of softness.
    """

    def __init__(self, crowd: Crowd, scale: Callable[[Rule], float], tell: Teller) -> None:
        self._crowd, self._scale, self._tell = crowd, scale, tell
        self.passes = 0

    def best(self, problem: LeastLoss, start: Rule, steps: int, rounds: int) -> tuple[list[Rule], Array]:
        """Prices reached from ``start``, softly answered and at the Lagrangian's gradient; and what a logarithm of
        each privacy is then worth in logarithms of the loss.
        """
        shape = start.directions.shape
        point = (start.directions / np.sqrt(self._scale(start) or 1.0)).reshape(-1)
        curvature = Curvature(point.size)

        def recipe(flat: Array) -> Rule:
            return Rule("prices", flat.reshape(shape), start.signs, SOFTNESS)

        def merit(flat: Array) -> tuple[float, Array]:
            at, figures = self._evaluate(recipe(flat))
            value, by_loss, by_privacy = problem.merit(at)
            worth = -np.concatenate([[by_loss], by_privacy])[self._crowd.owner]
            return value, self._pull(recipe(flat), figures, worth[None])[0].reshape(-1)

        at, figures = self._evaluate(recipe(point))
        problem.restart(at, at)
        problem.prime(at)
        self._fit(problem, recipe(point), at, figures)
        before = np.inf
        for turn in range(rounds):
            self._tell("prices", turn / rounds)
            point, _, stopped = minimize(merit, point, curvature, steps, _TOLERANCE)
            at, figures = self._evaluate(recipe(point))
            problem.update(at, stopped)
            self._fit(problem, recipe(point), at, figures)
            reached = problem.estimate(at)
            if turn and abs(before - reached) < _ENOUGH:
                break
            before = reached
        by_loss, by_privacy = problem.lagrangian(at)
        worth = -np.concatenate([[by_loss], by_privacy])[self._crowd.owner]
        prices = -by_privacy * figures.privacy / max(by_loss * figures.loss, _TINY)
        return [recipe(point), Rule.prices(figures.estimate, worth)], prices

    def _evaluate(self, recipe: Rule) -> tuple[Evaluation, Figures]:
        self.passes += 1
        figures = Answers(self._crowd.wanted, self._crowd.owner, [self._crowd.ask(recipe)]).at(np.ones(1))
        return Evaluation(figures.loss, figures.privacy, []), figures

    def _pull(self, recipe: Rule, figures: Figures, worths: Array) -> Array:
        self.passes += 1
        return self._crowd.pull(recipe, figures.estimate, worths)

    def _fit(self, problem: LeastLoss, recipe: Rule, at: Evaluation, figures: Figures) -> None:
        units = np.diag(1 / figures.values)
        worths = -units[:, self._crowd.owner]
        slopes = self._pull(recipe, figures, worths).reshape(len(worths), -1)
        problem.fit(at, slopes[0], slopes[1:])
