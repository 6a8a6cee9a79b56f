"""One trade-off curve: the least loss against a level t, where every p_j is to be at least t·weight_j.

Both questions are asked of the same curve. `JointCurve.at` gives the least loss at a level; `JointCurve.within` the
largest level within a loss, found as the root of the former, so that the two are inverse to each other. What is known
in closed form bounds the curve everywhere: shares are free up to the ceiling, telling nothing reaches the limit, and
hiding directions altogether is privacy without bound; a plan for more privacy serves for less.

In between, plans are followed from levels that depend on the network alone, upwards and downwards: from races at the
two nearest rungs of a ladder.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veilnet._core.progress import Stopped
from veilnet._core.types import Array
from veilnet.designs.joint.flat import as_it_is, between, sharpened
from veilnet.designs.joint.hiding import hiding_plans
from veilnet.designs.joint.levels import Levels
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss, MostPrivacy, Problem
from veilnet.designs.joint.run import Run
from veilnet.designs.joint.search import (
    JointResult,
    Search,
    best_hidden,
    converge,
    default_starts,
    is_small,
    least_loss_problem,
    polish,
    result_of,
    soften,
    solve,
    turn,
)
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.snap import Finished
from veilnet.designs.joint.starts import share_projectors
from veilnet.designs.joint.telling import SearchOptions
from veilnet.designs.joint.withholding import both, telling_nothing
from veilnet.model.standard_form import StandardForm


class JointCurve(Levels):
    """Least loss against the level t; shares have the floors at no loss.

    ceiling, limit: the levels that are free and that silence reaches.
    stopped:        whether the caller asked the search to stop; answers are then the best found so far.
    """

    def __init__(
        self, form: StandardForm, weights: Array, options: SearchOptions, *, floors: Array | None = None
    ) -> None:
        super().__init__(weights, floors)
        self.form = form
        self.objective = JointObjective(form)
        self.stopped = False
        self._starts, self._seed, self._tell = options.starts, options.seed, options.tell
        self.ceiling, self.limit = (
            self.reached(self.objective.privacy(shrink))
            for shrink in (share_projectors(self.objective), self.objective.silent)
        )
        self._bounds = self._closed_forms()
        self._rungs: dict[int, JointResult] = {}
        self._steps: dict[int, JointResult] = {}

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        targets = self.targets(level)
        eased = np.minimum(targets, SETTINGS.far)
        near = min(level, SETTINGS.far)
        found = self._least_loss(near, self._step_above(near), eased)
        if np.array_equal(eased, targets):
            return found
        # So much privacy is had by knowing nothing of some direction, or not at all; tiny multipliers find neither.
        problem = least_loss_problem(self.objective, targets)
        hidden = best_hidden(self.objective, problem, found.shrink)
        enough = [bound for bound in self._bounds if problem.safe(bound.at)]
        enough += [] if hidden is None else [hidden]
        enough += [between(self.objective, problem, found.shrink, plan.shrink) for plan in enough]
        if not any(plan.at.loss <= found.loss * (1 + SETTINGS.flat) for plan in enough):
            direct = solve(self.form, self.objective, problem, 0, [found.shrink], self._seed, self._tell)
            found = replace(direct, starts=found.starts, agreed=found.agreed)
        return self._sharpened(problem, self._best(problem, found, enough))

    def _sharpened(self, problem: LeastLoss, found: JointResult) -> JointResult:
        serving = min(self._bounds, key=lambda bound: bound.at.loss, default=None)
        if serving is None or self.stopped:
            return found
        try:
            return sharpened(self.objective, problem, found, serving, self._tell)
        except Stopped:
            self.stopped = True
            return replace(found, interrupted=True)

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        anchor = share_projectors(self.objective) if np.any(self.floors) else None
        problem = MostPrivacy(budget, self.weights, self.floors, anchor)
        # Plans in closed form and those that cost the budget to the last digit are wanted as they are: the recheck
        # allows for the same rounding.
        allowed = budget * (1 + SETTINGS.rounding) + SETTINGS.rounding
        free = [
            bound
            for bound in self._bounds
            if bound.at.loss <= allowed and problem.keeps_floors(self.objective.privacy(bound.shrink))
        ]
        highest = min(self.limit, SETTINGS.far) * (1 - SETTINGS.near_limit)
        if any(problem.level(self.objective.privacy(bound.shrink)) >= highest for bound in free):
            return self._best(problem, self._nothing_run(problem), free)
        low, high = self._bracket(allowed, highest)
        warm = [result.shrink for result in (low, high) if result is not None]
        found = solve(
            self.form,
            self.objective,
            problem,
            0 if warm else self._race_starts,
            warm,
            self._seed,
            self._tell,
        )
        if low is not None:
            free.append(Finished(low.shrink, at := self.objective(low.shrink), problem.value(at)))
            found = replace(found, starts=low.starts, agreed=low.agreed)
        return self._best(problem, found, free)

    def _bracket(self, budget: float, highest: float) -> tuple[JointResult | None, JointResult | None]:
        """The results at two levels close together, the first within the budget and the second beyond it."""
        inside: tuple[float, JointResult | None] = (self.ceiling, None)
        outside: tuple[float, JointResult | None] = (highest, None)
        dearer: list[tuple[float, JointResult]] = []

        def try_at(level: float, *, closely: bool = False) -> None:
            nonlocal inside, outside
            result = self.at(level) if closely else self._least_loss(level, closely=False)
            if result.loss <= budget:
                # A plan often reaches more than was asked of it.
                inside = (max(level, min(self.reached(result.privacy), highest)), result)
            else:
                outside = (level, result)
                dearer.append((level, result))

        def narrow(*, closely: bool) -> None:
            for _ in range(SETTINGS.root_steps):
                if self.stopped or np.log1p(outside[0]) - np.log1p(inside[0]) < SETTINGS.root_tolerance:
                    break
                try_at(self._level_between(inside, outside, budget), closely=closely)

        narrow(closely=False)
        # Where the loss is flat, a quick look takes much privacy for too dear: look closely at what nearly was not,
        # and a little further up.
        nearly = [each for each in dearer if each[1].loss <= budget * (1 + SETTINGS.flat)]
        for level, _ in sorted(nearly, key=lambda each: -each[0])[: SETTINGS.second_looks]:
            above = [each for each in dearer if each[0] > level]
            try_at(level, closely=True)
            if self.stopped or inside[0] >= level:
                outside = min(above, key=lambda each: each[0], default=(highest, None))
                break
        beyond = inside[0] * (1 + 2 * SETTINGS.root_tolerance)
        if not self.stopped and beyond < highest:
            before, outside = outside, (highest, None)
            try_at(beyond, closely=True)
            if inside[0] < beyond:
                outside = before
            narrow(closely=True)
        if outside[1] is None and not self.stopped and inside[0] < highest:
            try_at(highest)
        return inside[1], outside[1]

    def _level_between(
        self,
        inside: tuple[float, JointResult | None],
        outside: tuple[float, JointResult | None],
        budget: float,
    ) -> float:
        """A level inside the bracket: where a power law through both ends meets the budget, or the middle.

        The law is one of loss / (price - loss), where price is that of a plan for every level: its own, as long as
        little is lost, and where the loss is flat the law of what is saved.
        """
        low, high = np.log1p(inside[0]), np.log1p(outside[0])
        part = 0.5
        price = min((bound.at.loss for bound in self._bounds), default=np.inf)
        if (
            inside[1] is not None
            and outside[1] is not None
            and inside[1].loss > 0
            and outside[1].loss < price
        ):
            below, wanted, above = (
                np.log(loss) - np.log1p(-loss / price) for loss in (inside[1].loss, budget, outside[1].loss)
            )
            part = float(np.clip((wanted - below) / max(above - below, 1e-12), 0.1, 0.9))
        return float(np.expm1(low + part * (high - low)))

    @property
    def _race_starts(self) -> int:
        return default_starts(self.form) if self._starts is None else self._starts

    def _closed_forms(self) -> list[Finished]:
        """Plans that serve at every level: nothing told of what is asked about, or directions hidden altogether."""
        asked = self.asked
        silent = self.objective.privacy(self.objective.silent)
        unbounded = asked & np.isinf(silent)
        plans = [plan.shrink for plan in hiding_plans(self.form, unbounded, self._seed)]
        if not np.any(unbounded):
            plans = [plan.shrink for plan in telling_nothing(self.form, asked, self._seed)[:2]]
        elif np.any(asked & ~unbounded):
            nothing = telling_nothing(self.form, asked & ~unbounded, self._seed)[0].shrink
            plans = [both(plan, nothing) for plan in plans]
        return [as_it_is(self.objective, plan) for plan in plans]

    def _step_above(self, level: float) -> JointResult | None:
        """The answer at the next of many levels that depend on the network alone: a plan for more privacy serves."""
        if not is_small(self.form) or self.stopped:
            return None
        place = int(np.floor(np.log1p(level) / SETTINGS.step)) + 1
        above = min(float(np.expm1(place * SETTINGS.step)), SETTINGS.far)
        if not level < above < self.limit * (1 - 1e-6):
            return None
        if place not in self._steps:
            self._steps[place] = self._least_loss(above, closely=False)
        return self._steps[place]

    def _least_loss(
        self,
        level: float,
        above: JointResult | None = None,
        targets: Array | None = None,
        *,
        closely: bool = True,
    ) -> JointResult:
        """The least loss at a level, or at ``targets`` that are hardly below it; ``above`` answers a higher level."""
        problem = least_loss_problem(self.objective, self.targets(level) if targets is None else targets)
        search = Search.of(self.objective, problem, self._tell)
        warm: list[JointResult] = []
        try:
            warm = self._raced(level)
            if self.stopped and not warm:
                raise Stopped
            polish(search, [one.shrink for one in (*warm, above) if one is not None], rivals=True)
            if level < self.ceiling * (1 + SETTINGS.near_ceiling) or (closely and is_small(self.form)):
                shares = share_projectors(self.objective)
                search.runs.append(Run(self.objective, problem.copy(), shares, SETTINGS.cold_margin))
                converge(search, search.runs[-1])
            if closely and search.finished and is_small(self.form):
                turn(search)
                soften(search)
        except Stopped:
            self.stopped = True
        found = result_of(search, interrupted=self.stopped)
        found = replace(
            found,
            starts=max(sum(one.starts for one in warm), found.starts),
            agreed=max(sum(one.agreed for one in warm), 1),
            iterations=sum(one.iterations for one in warm) + found.iterations,
        )
        known = [as_it_is(self.objective, one.shrink) for one in (*warm, above) if one is not None]
        answer = self._best(
            problem, found, [plan for plan in (*self._bounds, *known) if problem.safe(plan.at)]
        )
        return self._sharpened(problem, answer)

    def _best(self, problem: Problem, found: JointResult, others: list[Finished]) -> JointResult:
        """The result, with a better plan in place of its own where there is one."""
        at = self.objective(found.shrink)
        own = problem.value(at) if problem.feasible(at) else np.inf
        better = min(others, key=lambda other: problem.value(other.at), default=None)
        interrupted = found.interrupted or self.stopped
        if better is None or problem.value(better.at) >= own:
            return replace(found, interrupted=interrupted)
        return replace(
            found,
            shrink=better.shrink,
            loss=better.at.loss,
            privacy=self.objective.with_infinities(better.shrink, better.at.privacy),
            interrupted=interrupted,
        )

    def _nothing_run(self, problem: Problem) -> JointResult:
        return result_of(Search.of(self.objective, problem, self._tell), interrupted=False)

    def _raced(self, level: float) -> list[JointResult]:
        """Results at the rungs below and above a level; rungs are the same whatever is asked."""
        height = np.log1p(level) - np.log1p(self.ceiling)
        step = np.log(SETTINGS.rung)
        top = np.log1p(self.limit) - np.log1p(self.ceiling)
        step = min(step, top)
        if not (
            step > 0 and np.isfinite(height)
        ):  # to doubles the ceiling is the limit: no rung lies between
            return []
        below = int(np.floor(height / step - 0.5))
        found = []
        for rung in () if self.stopped else (below, below + 1):
            rung_height = (rung + 0.5) * step
            if rung < 0 or rung_height >= top * (1 - 1e-6):
                continue
            if rung not in self._rungs:
                wanted = self.targets(float(np.expm1(np.log1p(self.ceiling) + rung_height)))
                starts = self._race_starts if self._starts is not None else -(-self._race_starts // 2)
                problem = least_loss_problem(self.objective, wanted)
                self._rungs[rung] = solve(
                    self.form,
                    self.objective,
                    problem,
                    starts,
                    [],
                    self._seed,
                    self._tell,
                    rounds=SETTINGS.rung_rounds,
                )
            found.append(self._rungs[rung])
            if self._rungs[rung].interrupted:
                self.stopped = True
                break
        return found
