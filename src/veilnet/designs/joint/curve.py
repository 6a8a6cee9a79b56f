"""One trade-off curve: the least loss against a level t, where every p_j is to be at least t·weight_j.

Both questions are asked of the same curve. `JointCurve.at` gives the least loss at a level; `JointCurve.within` the
largest level within a loss, found as the root of the former, so that the two are inverse to each other. What is known
in closed form bounds the curve everywhere: shares are free up to the ceiling, telling nothing reaches the limit, and
hiding directions altogether is privacy without bound; a plan for more privacy serves for less.

In between, plans are followed from levels that depend on the network alone, upwards and downwards: from races at the
two nearest rungs of a ladder.

Hiding a direction of x altogether has a price, and on the way there loss = price - a/p: between p = 1000 and p = 2000
the loss may differ in its fifth digit only. A search that is content with four finds some p between the two, and the
largest privacy that a loss buys is lost in its rounding. So near the price of a plan that serves at every level the
loss is weighed by the part of the price that is saved (:func:`sharpened`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from veilnet._core.progress import Progress, Stopped, Teller
from veilnet._core.types import Array
from veilnet.designs.joint.hidden import both, hiding, hiding_directions, telling_nothing
from veilnet.designs.joint.levels import Curve, Levels, Tried
from veilnet.designs.joint.objective import Evaluation, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.search import (
    RowRace,
    best_hidden,
    default_starts,
    is_small,
    least_loss_problem,
    solve,
)
from veilnet.designs.joint.settings import SETTINGS, SearchOptions
from veilnet.model.standard_form import StandardForm

# Of the logarithm of 1 + p: far enough to lie in another valley, near enough to be worth its search.
_NEXT_VALLEY = 0.05


class JointCurve(Levels):
    """Least loss against the level t; shares have the floors at no loss.

    ceiling, limit: the levels that are free and that silence reaches.
    stopped:        whether the caller asked the search to stop; answers are then the best found so far.
    beside:         another curve of the same question, whose answers are known here too.
    """

    def __init__(
        self,
        form: StandardForm,
        weights: Array,
        options: SearchOptions,
        *,
        floors: Array | None = None,
        beside: Curve | None = None,
    ) -> None:
        super().__init__(weights, floors)
        self._beside = beside
        self.form = form
        self.objective = JointObjective(form)
        self.stopped = False
        self._starts, self._seed, self._tell = options.starts, options.seed, options.tell
        self.ceiling, self.limit = (
            self.reached(self.objective.privacy(shrink))
            for shrink in (self.objective.shares(), self.objective.silent)
        )
        self._bounds = self._closed_forms()
        self._rungs: dict[int, JointResult] = {}
        self._steps: dict[int, JointResult] = {}

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        targets = self.targets(level)
        eased = np.minimum(targets, SETTINGS.far)
        near = min(level, SETTINGS.far)
        beside = [] if self._beside is None or self.stopped else [self._beside.at(near)]
        found = self._least_loss(near, [*self._raced(near), *beside], self._step_above(near), eased)
        if np.array_equal(eased, targets):
            return found
        # So much privacy is had by knowing nothing of some direction, or not at all; tiny multipliers find neither.
        problem = least_loss_problem(self.objective, targets)
        hidden = best_hidden(self.objective, problem, found.shrink)
        enough = [bound for bound in self._bounds if problem.safe(bound)]
        enough += [] if hidden is None else [hidden]
        enough += [between(self.objective, problem, found.shrink, plan.shrink) for plan in enough]
        if not any(plan.loss <= found.loss * (1 + SETTINGS.flat) for plan in enough):
            direct = solve(self.form, self.objective, problem, 0, [found.shrink], self._seed, self._tell)
            found = replace(direct, starts=found.starts, agreed=found.agreed)
        return self._sharpened(problem, self._best(problem, found, enough))

    def _sharpened(self, problem: LeastLoss, found: JointResult) -> JointResult:
        serving = min(self._bounds, key=lambda bound: bound.loss, default=None)
        if serving is None or self.stopped:
            return found
        try:
            return sharpened(self.objective, problem, found, serving, self._tell)
        except Stopped:
            self.stopped = True
            return replace(found, interrupted=True)

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        # Plans in closed form and those that cost the budget to the last digit are wanted as they are: the recheck
        # allows for the same rounding.
        allowed = budget * (1 + SETTINGS.rounding) + SETTINGS.rounding
        shares = self.objective(self.objective.shares())
        affordable = [self._as_result(plan) for plan in (shares, *self._bounds) if plan.loss <= allowed]
        affordable += [] if self._beside is None else [self._beside.within(budget)]
        known = [one for one in affordable if self.keeps_floors(one.privacy)]
        highest = min(self.limit, SETTINGS.far) * (1 - SETTINGS.near_limit)
        if not any(self.reached(one.privacy) >= highest for one in known):
            inside, outside = self._bracket(allowed, highest)
            near = [one.found for one in (inside, outside) if one.found is not None]
            if near and not self.stopped:

                def follow(level: float) -> JointResult:
                    return self._least_loss(level, near, closely=False)

                inside, _ = self._narrowed(follow, budget, inside, outside)
            known += [] if inside.found is None else [inside.found]
        best = max(known, key=lambda one: self.reached(one.privacy))
        return replace(best, interrupted=self.stopped)

    def _narrowed(
        self,
        look: Callable[[float], JointResult],
        budget: float,
        inside: Tried,
        outside: Tried,
        tolerance: float = 0.0,
    ) -> tuple[Tried, Tried]:
        price = min((bound.loss for bound in self._bounds), default=np.inf)
        return self.affordable(
            look, budget, inside, outside, tolerance=tolerance, free=self.ceiling, price=price
        )

    def _bracket(self, budget: float, highest: float) -> tuple[Tried, Tried]:
        """Two levels close together, the first within the budget and the second beyond it."""
        dearer: list[Tried] = []

        def glance(level: float) -> JointResult:
            found = self._least_loss(level, self._raced(level), closely=False)
            dearer.extend([Tried(level, found)] if found.loss > budget else [])
            return found

        top = Tried(highest)
        inside, outside = self._narrowed(glance, budget, Tried(self.ceiling), top, SETTINGS.root_tolerance)
        # Where the loss is flat, a quick look takes much privacy for too dear: look closely at what nearly was not,
        # and a little further up.
        nearly = [one for one in dearer if one.found and one.found.loss <= budget * (1 + SETTINGS.flat)]
        nearly = sorted(nearly, key=lambda one: -one.level)[: SETTINGS.second_looks]
        looks = ((one.level, self.at(one.level)) for one in nearly if not self.stopped)
        for level, found in looks:
            if found.loss <= budget:
                above = [one for one in dearer if one.level > level]
                inside, outside = Tried(level, found), min(above, key=lambda one: one.level, default=top)
                break
        for step in (2 * SETTINGS.root_tolerance, _NEXT_VALLEY):
            beyond = float(np.expm1(np.log1p(inside.level) + step))
            if not self.stopped and beyond < highest and (found := self.at(beyond)).loss <= budget:
                further = Tried(beyond, found)
                inside, outside = self._narrowed(self.at, budget, further, top, SETTINGS.root_tolerance)
        if outside.found is None and not self.stopped and inside.level < highest:
            found = glance(highest)
            outside = Tried(highest, found)
            inside = outside if found.loss <= budget else inside
        return inside, outside

    @property
    def _race_starts(self) -> int:
        return default_starts(self.form) if self._starts is None else self._starts

    def _closed_forms(self) -> list[Evaluation]:
        """Plans that serve at every level: nothing revealed of what is asked, or directions hidden altogether."""
        asked = self.asked
        silent = self.objective.privacy(self.objective.silent)
        unbounded = asked & np.isinf(silent)
        directions = hiding_directions(self.form, unbounded, self._seed)
        plans = [hiding(self.objective, each) for each in directions]
        if not np.any(unbounded):
            plans = telling_nothing(self.form, asked, self._seed)[:2]
        elif np.any(asked & ~unbounded):
            nothing = telling_nothing(self.form, asked & ~unbounded, self._seed)[0]
            plans = [both(plan, nothing) for plan in plans]
        return [self.objective(plan) for plan in plans]

    def _step_above(self, level: float) -> JointResult | None:
        """The answer at the next of many levels that depend on the network alone: a plan for more privacy serves."""
        if not is_small(self.form) or self.stopped:
            return None
        place = int(np.floor(np.log1p(level) / SETTINGS.step)) + 1
        above = min(float(np.expm1(place * SETTINGS.step)), SETTINGS.far)
        if not level < above < self.limit * (1 - 1e-6):
            return None
        if place not in self._steps:
            self._steps[place] = self._least_loss(above, self._raced(above), closely=False)
        return self._steps[place]

    def _least_loss(
        self,
        level: float,
        warm: list[JointResult],
        above: JointResult | None = None,
        targets: Array | None = None,
        *,
        closely: bool = True,
    ) -> JointResult:
        """The least loss at a level, or at ``targets`` that are hardly below it, from results at levels near it.

        ``above`` answers a higher level.
        """
        problem = least_loss_problem(self.objective, self.targets(level) if targets is None else targets)
        race = RowRace(self.objective, problem, self._tell)
        try:
            if self.stopped and not warm:
                raise Stopped
            near = [one.shrink for one in (*warm, above) if one is not None]
            race.polish(near, SETTINGS.warm_margin, *SETTINGS.polish, rivals=True)
            if level < self.ceiling * (1 + SETTINGS.near_ceiling) or (closely and is_small(self.form)):
                race.converge(race.begin(self.objective.shares(), SETTINGS.cold_margin))
            if closely and is_small(self.form):
                race.turn()
                race.soften()
        except Stopped:
            self.stopped = True
        found = race.result(interrupted=self.stopped)
        found = replace(
            found,
            starts=max(sum(one.starts for one in warm), found.starts),
            agreed=max(sum(one.agreed for one in warm), 1),
            iterations=sum(one.iterations for one in warm) + found.iterations,
        )
        known = [self.objective(one.shrink) for one in (*warm, above) if one is not None]
        answer = self._best(problem, found, [plan for plan in (*self._bounds, *known) if problem.safe(plan)])
        return self._sharpened(problem, answer)

    def _best(self, problem: LeastLoss, found: JointResult, others: list[Evaluation]) -> JointResult:
        """The result, with a better plan in place of its own where there is one."""
        at = self.objective(found.shrink)
        better = min(others, key=lambda other: other.loss, default=None)
        reaches = bool(np.all(at.privacy >= problem.targets))
        if better is None or (reaches and better.loss >= at.loss):
            return replace(found, interrupted=found.interrupted or self.stopped)
        return self._as_result(better, found)

    def _as_result(self, plan: Evaluation, found: JointResult | None = None) -> JointResult:
        """A plan as a result, of the search that ``found`` another; of none where that is not given."""
        privacy = self.objective.with_infinities(plan.shrink, plan.privacy)
        if found is None:
            found = JointResult(plan.shrink, 0.0, privacy, 0, 0, 0, np.inf, self.stopped, [])
        interrupted = found.interrupted or self.stopped
        return replace(found, shrink=plan.shrink, loss=plan.loss, privacy=privacy, interrupted=interrupted)

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
                    *(self.form, self.objective, problem, starts, [], self._seed, self._tell),
                    rounds=SETTINGS.rung_rounds,
                )
            found.append(self._rungs[rung])
            if self._rungs[rung].interrupted:
                self.stopped = True
                break
        return found


def least_loss(
    form: StandardForm,
    targets: Array,
    *,
    starts: int | None = None,
    warm: Sequence[list[Array]] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> JointResult:
    """Least utility loss with p_j >= targets_j (above the ceiling for some j, below the limit for all).

    With ``warm`` starts only these are followed, and as many cold ones as asked: quick, and as good as they are.
    """
    targets = np.asarray(targets, dtype=np.float64)
    if warm:
        objective = JointObjective(form)
        problem = least_loss_problem(objective, targets)
        return solve(form, objective, problem, starts or 0, warm, seed, Teller(progress))
    return JointCurve(form, targets, SearchOptions(starts, seed, progress)).at(float(targets.max()))


_LEAST_PART = 1e-9  # of a plan in a mixture: less is rounding


def sharpened(
    objective: JointObjective, problem: LeastLoss, found: JointResult, serving: Evaluation, tell: Teller
) -> JointResult:
    """The result for ``problem``, or a better one where it saves next to nothing of the price of ``serving``."""
    price = serving.loss
    if price <= 0:  # it costs nothing: there is nothing to save
        return found
    if found.loss < price * (1 - SETTINGS.flat_part) or not problem.safe(serving):
        return found
    best = objective(found.shrink)
    mixed = between(objective, problem, objective.shares(), serving.shrink)
    if mixed.loss < best.loss or not problem.safe(best):
        best = mixed
    iterations = found.iterations
    for turn, margin in enumerate(SETTINGS.sharp_margins):
        saved = price - best.loss
        sharp = problem.sharper(min(price / max(saved, np.finfo(float).tiny), SETTINGS.sharpest))
        race = RowRace(objective, sharp, tell)
        race.polish([best.shrink], margin, steps=SETTINGS.polish[1])
        reached = objective(race.best()[0].shrink)
        iterations += sum(run.iterations for run in race.runs)
        if problem.safe(reached) and reached.loss < best.loss:
            best = reached
        if turn > 0 and price - best.loss < saved * (1 + SETTINGS.worth_saving):
            break
    if best.loss >= found.loss:
        return found
    privacy = objective.with_infinities(best.shrink, best.privacy)
    return replace(found, shrink=best.shrink, loss=best.loss, privacy=privacy, iterations=iterations)


def between(objective: JointObjective, problem: LeastLoss, low: list[Array], high: list[Array]) -> Evaluation:
    """The plan nearest to ``low``, which may hide too little, on the way to ``high``, which hides enough."""

    def mixed(part: float) -> Evaluation:
        return objective([(1 - part) * x + part * y for x, y in zip(low, high, strict=True)])

    def refined(start: float, end: float, rest: Callable[[float], float]) -> Evaluation:
        """Bisection until what is left of the nearer end is known to the tolerance."""
        plan = mixed(end)
        while end - start > SETTINGS.between_tolerance * max(rest(end), _LEAST_PART):
            middle = (start + end) / 2
            tried = mixed(middle)
            if problem.safe(tried):
                end, plan = middle, tried
            else:
                start = middle
        return plan

    if problem.safe(mixed(0.5)):
        return refined(0.0, 0.5, lambda part: part)
    return refined(0.5, 1.0, lambda part: 1 - part)
