"""New prices until no answer to them helps: fully corrective Frank-Wolfe steps on J̃.

The best mixture of the answers so far has a Lagrangian; its gradient by J̃ is the next price matrix, and what all
agents answer to it is the one answer that a first-order model promises most of. When it promises next to nothing, the
mixture is a stationary point of the whole problem. Each step is one pass over all agents.

Where steps go on too slowly, prices are searched for themselves. D of Γ = D diag(signs) D' has a column for each
public and private row: a handful of numbers however many agents there are, and the search of
:mod:`veilnet.designs.joint` for X is made for D instead. Much privacy is reached along a curved valley, on which
mixtures creep and a quasi-Newton method does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.progress import Stopped, Teller
from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import Evaluation
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.many.mixture import Answers, Figures, Question
from veilnet.designs.many.recipes import Crowd, Known, Rule

GAP = 3e-5
"""The relative improvement that a first-order model still promises, at which a mixture has converged."""
_OPEN_GAP = 3e-4  # more than this after the first steps, and prices are searched for themselves
_STALLED, _PATIENCE = 1e-7, 3  # progress, in log loss or log level, that is none; how many times in a row
_KEPT = 40  # answers mixed at most
_SHARE, _SILENCE = 0, 1
_PURE_PASSES, _PURE_PRICE, _CLOSE = 12, 1e-4, 1e-6
SOFTNESS = 0.05
"""μ, relative to the largest price that agents see in the middle."""
_TOLERANCE = 1e-7
_ENOUGH = 1e-4  # progress of a round, in log loss or log level, below which no other is made
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Effort:
    """How long a descent goes on: passes before and after the search for prices, and the steps and rounds of that."""

    first: int
    steps: int
    rounds: int
    last: int


@dataclass(frozen=True, eq=False)
class FoundMixture:
    """A mixture of answers, and what it reaches.

    recipes, weights: the mixture.
    at:      its loss and privacies.
    gap:     the relative improvement that a first-order model still promises; 0 exactly at a stationary point.
    passes:  over all agents.
    history: per step, (loss, privacies).
    """

    recipes: tuple[Rule, ...]
    weights: Array
    at: Figures
    value: float
    gap: float
    passes: int
    interrupted: bool
    history: tuple[tuple[float, Array], ...]


class Descent:
    """The answers of a crowd, kept from question to question.

    scale: the largest price that an agent in the middle sees of given prices.
    """

    def __init__(self, crowd: Crowd, scale: Callable[[Rule], float], tell: Teller) -> None:
        self.crowd = crowd
        self._scale, self._tell = scale, tell
        public = crowd.wanted[:, crowd.owner == 0]
        self._recipes = [Rule.span(public), Rule.span(public[:, :0])]
        self._known = [crowd.ask(recipe) for recipe in self._recipes]
        self._passes = len(self._recipes)
        self._prices = np.ones(int(crowd.owner.max()))
        self._reached = np.zeros(0)  # the weights a search had when it was stopped

    @property
    def ceiling(self) -> Array:
        """The privacies of shares alone."""
        return self._alone(self._known[_SHARE]).privacy

    @property
    def limit(self) -> Array:
        """The privacies of silence."""
        return self._alone(self._known[_SILENCE]).privacy

    def add(self, recipes: Sequence[Rule]) -> None:
        """Ask all agents, and keep their answers."""
        for recipe in recipes:
            self._keep(recipe, self._ask(recipe))

    def answer(self, question: Question, effort: Effort, first: Rule | None = None) -> FoundMixture:
        """The best mixture found, beginning from the answer to ``first``, or from the best known."""
        refuge = _SILENCE if question.budget is None else _SHARE
        began = self._passes
        if first is not None:
            self.add([first])
        weights = self._begin(question, refuge, only=None if first is None else len(self._known) - 1)
        self._reached = weights
        history: list[tuple[float, Array]] = []
        gap, interrupted = np.inf, False
        try:
            weights, gap = self._steps(question, refuge, weights, effort.first, history)
            if gap > _OPEN_GAP and effort.steps:
                before = self._answers().at(weights)
                prices = self._next(question, weights, before)[0]
                self.add(self._searched(question, before, prices, effort))
                weights = np.append(weights, np.zeros(len(self._known) - weights.size))
                rival = self._begin(question, refuge)
                if question.value(self._answers().at(rival)) < question.value(before):
                    weights = rival
                self._reached = weights
                weights, gap = self._steps(question, refuge, weights, effort.last, history)
            if effort.first:
                weights = self._pure(question, weights)
        except Stopped:
            interrupted = True
            weights = np.append(self._reached, np.zeros(len(self._known) - self._reached.size))
        at = self._answers().at(weights)
        used = weights > 0
        return FoundMixture(
            tuple(recipe for recipe, use in zip(self._recipes, used, strict=True) if use),
            weights[used] / weights.sum(),
            at,
            question.value(at),
            gap,
            self._passes - began,
            interrupted,
            tuple(history),
        )

    def or_alone(self, question: Question, found: FoundMixture, recipe: Rule) -> FoundMixture:
        """What was found, or one answer alone where that satisfies the question and is better."""
        at = self._alone(self.crowd.ask(recipe))
        if not question.safe(at) or question.value(at) >= found.value:
            return found
        value = question.value(at)
        return replace(
            found, recipes=(recipe,), weights=np.ones(1), at=at, value=value, passes=found.passes + 1
        )

    def _steps(
        self, question: Question, refuge: int, weights: Array, count: int, history: list[tuple[float, Array]]
    ) -> tuple[Array, float]:
        """So many Frank-Wolfe steps at most; the weights they end with, and the gap."""
        gap, still, before = np.inf, 0, np.inf
        for turn in range(count):
            weights = self._reached = self._answers().best(question, weights, refuge)
            at = self._answers().at(weights)
            history.append((at.loss, at.privacy))
            self._tell("passes over all agents", turn / count)
            recipe, worth = self._next(question, weights, at)
            known = self._ask(recipe)
            apart = at.information - known.information
            gap = float(np.einsum("lr,lm,mr->r", at.estimate, apart, at.estimate) @ worth)
            still = still + 1 if before - question.value(at) < _STALLED else 0
            before = question.value(at)
            if gap < GAP or still >= _PATIENCE:
                break
            weights = np.append(self._forget(weights), 0.0)
            self._keep(recipe, known)
            self._reached = weights
        return self._answers().best(question, weights, refuge), gap

    def _searched(self, question: Question, at: Figures, start: Rule, effort: Effort) -> list[Rule]:
        """Prices that minimise the Lagrangian, softly answered, and those at its gradient.

        They are for the targets; within a loss, for the privacies that the mixture ``at`` hand reaches with it.
        """
        targets, shape = question.targets, start.directions.shape
        if question.weights is not None:
            targets = np.maximum(targets, np.exp(-question.value(at)) * question.weights)
        problem = LeastLoss.between(targets, self.ceiling, self.limit)
        point = (start.directions / np.sqrt(self._scale(start) or 1.0)).reshape(-1)
        curvature = Curvature(point.size)

        def recipe(flat: Array) -> Rule:
            return Rule("prices", flat.reshape(shape), start.signs, SOFTNESS)

        def reached(flat: Array) -> tuple[Evaluation, Figures]:
            figures = self._alone(self._ask(recipe(flat)))
            return Evaluation([], figures.loss, figures.privacy, []), figures

        def slopes(flat: Array, figures: Figures, by: Array) -> Array:
            """By D, of what has these derivatives by loss and privacies, (m, 1 + J)."""
            self._passes += 1
            return self.crowd.pull(recipe(flat), figures.estimate, -by[:, self.crowd.owner]).reshape(
                len(by), -1
            )

        def merit(flat: Array) -> tuple[float, Array]:
            here, figures = reached(flat)
            value, by_loss, by_privacy = problem.merit(here)
            return value, slopes(flat, figures, np.concatenate([[by_loss], by_privacy])[None])[0]

        def fit(here: Evaluation, figures: Figures) -> None:
            each = slopes(point, figures, np.diag(1 / figures.values))
            problem.fit(here, each[0], each[1:])

        here, figures = reached(point)
        problem.restart(here, here)
        problem.prime(here)
        fit(here, figures)
        before = np.inf
        for turn in range(effort.rounds):
            self._tell("prices", turn / effort.rounds)
            point, _, stopped = minimize(merit, point, curvature, effort.steps, _TOLERANCE)
            here, figures = reached(point)
            problem.update(here, stopped)
            fit(here, figures)
            estimate = problem.estimate(here)
            if turn and abs(before - estimate) < _ENOUGH:
                break
            before = estimate
        by_loss, by_privacy = problem.lagrangian(here)
        # What a logarithm of each privacy is then worth in logarithms of the loss.
        self._prices = -by_privacy * figures.privacy / max(by_loss * figures.loss, _TINY)
        worth = -np.concatenate([[by_loss], by_privacy])[self.crowd.owner]
        return [recipe(point), Rule.prices(figures.estimate, worth)]

    def _pure(self, question: Question, weights: Array) -> Array:
        """One answer alone in place of a mixture, where that costs next to nothing: agents then add no noise.

        The prices of hiding are raised or lowered together until the answer just satisfies the question.
        """
        at = self._answers().at(weights)
        if np.count_nonzero(weights) == 1:
            return weights
        prices = self._worth(question, weights, at)
        low, high = -np.inf, np.inf
        tried: list[tuple[float, float]] = []
        factor = 0.0  # a logarithm
        for _ in range(_PURE_PASSES):
            worth = (np.concatenate([[-1.0], np.exp(factor) * prices]) / at.values)[self.crowd.owner]
            recipe = Rule.prices(at.estimate, worth)
            known = self._ask(recipe)
            reached = self._alone(known)
            missing = question.missing(reached)
            if question.safe(reached):
                high = min(high, factor) if question.budget is None else high
                low = low if question.budget is None else max(low, factor)
                if question.value(reached) <= question.value(at) + _PURE_PRICE and abs(missing) < _CLOSE:
                    self._keep(recipe, known)
                    return np.append(np.zeros(weights.size), 1.0)
            else:
                low = max(low, factor) if question.budget is None else low
                high = high if question.budget is None else min(high, factor)
            tried.append((factor, missing))
            factor = _secant(tried, low, high, 1.0 if question.budget is None else -1.0)
        return weights

    def _answers(self) -> Answers:
        return Answers(self.crowd.wanted, self.crowd.owner, self._known)

    def _alone(self, known: Known) -> Figures:
        return Answers(self.crowd.wanted, self.crowd.owner, [known]).at(np.ones(1))

    def _ask(self, recipe: Rule) -> Known:
        self._passes += 1
        return self.crowd.ask(recipe)

    def _keep(self, recipe: Rule, known: Known) -> None:
        self._recipes.append(recipe)
        self._known.append(known)

    def _begin(self, question: Question, refuge: int, only: int | None = None) -> Array:
        """The best of the answers, each on its own as far as it satisfies the question; or one of them."""
        answers = self._answers()
        best = np.zeros(len(self._known))
        best[refuge] = 1.0  # satisfies the question, if anything does
        least = np.inf
        for place in range(len(self._known)) if only is None else [only]:
            alone = np.zeros(len(self._known))
            alone[place] = 1.0
            tried = answers.retreated(question, alone, refuge)
            if tried is not None and (value := question.value(answers.at(tried))) < least:
                best, least = tried, value
        return best

    def _next(self, question: Question, weights: Array, at: Figures) -> tuple[Rule, Array]:
        """The gradient of the Lagrangian by J̃ as prices, and their weights."""
        worth = (np.concatenate([[-1.0], self._worth(question, weights, at)]) / at.values)[self.crowd.owner]
        return Rule.prices(at.estimate, worth), worth

    def _worth(self, question: Question, weights: Array, at: Figures) -> Array:
        """What a logarithm of each privacy is worth; one answer alone does not tell, what was known last does."""
        if np.count_nonzero(weights) > 1:
            found = self._answers().prices(question, weights, at)
            self._prices = found if np.any(found) else self._prices
        return self._prices

    def _forget(self, weights: Array) -> Array:
        """Room for one more: the oldest answer out of use goes; shares and silence stay."""
        idle = np.flatnonzero(weights[2:] <= 0) + 2
        if len(self._known) < _KEPT or not idle.size:
            return weights
        gone = int(idle[0])
        del self._recipes[gone], self._known[gone]
        return np.delete(weights, gone)


def _secant(tried: list[tuple[float, float]], low: float, high: float, towards: float) -> float:
    """The next factor: where a line through the last two meets zero, inside what is bracketed.

    towards: 1 where more of it helps what is missing, -1 where less does.
    """
    (last, missing) = tried[-1]
    if len(tried) == 1:
        guess = last + towards * np.clip(missing, -0.5, 0.5)
    else:
        before, missed = tried[-2]
        slope = (missing - missed) / (last - before) if last != before else 0.0
        # The margin of safety is aimed at too, or half of all guesses would fall short of it.
        guess = last - (missing + 2e-9) / slope if slope else last + 1e-3
    if not np.isfinite(guess) or not low < guess < high:
        if np.isfinite(low) and np.isfinite(high):
            return (low + high) / 2
        return float(np.clip(guess, last - 1.0, last + 1.0)) if np.isfinite(guess) else last + 0.1
    return float(np.clip(guess, last - 1.0, last + 1.0))
