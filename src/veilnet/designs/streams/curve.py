"""One trade-off curve of a stream: the least loss against a level t, where every p_j is to be at least t·weight_j.

`StreamCurve.at` gives the least loss at a level, `StreamCurve.within` the largest level within a loss. Both begin at
the share filters, at the best memoryless design (found by the same search on the readings alone), at mixtures of the
two and at random; the memoryless design and the share filters with as much noise as is needed are among the
candidates, so that the answer is never worse than either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from veilnet._core.progress import Progress, Stopped, Teller
from veilnet._core.types import Array
from veilnet.designs.joint.levels import Levels, Tried
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult, Race, simplest_near
from veilnet.designs.joint.search import random_shrink
from veilnet.designs.joint.settings import LARGE_STREAM, SETTINGS, STREAM, SearchOptions
from veilnet.designs.streams.knowledge import JointState
from veilnet.designs.streams.objective import StreamObjective

_SMALL = 60  # numbers in the joint state up to which starts are cheap
_STARTS, _STARTS_OF_LARGE, _PLAIN_STARTS = 12, 4, 5
_DISTURBANCE = 0.5
_QUICK = 4  # rounds of a glance at a level, for where it lies
_LAST_LOOKS = 4  # at levels near the one that a loss buys: a step of a stream costs too much for more
_NEAR = 1e-3  # of a large one: a loss nearer to what is allowed, or a level, is not worth a look of seconds
_USUAL, _SHOWN = 1500, 20  # evaluations of a search, and between two signs of life
_NOT_FELT = 1e-9  # of a loss and a privacy, and of the steepest of their slopes
_CLOSE = 1e-3  # by which a level and a loss are surely beyond those of a result close by, relative

Start = tuple[list[Array], float]
"""A point to begin at, and how far it is drawn away from exact zeros and ones."""


class _Counting(Teller):
    """Tells how far a search is by its evaluations, of which there are about as many as usual; never falls back."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__(progress)
        self._done = 0
        self._stop = False

    def __call__(self, stage: str, fraction: float) -> None:  # noqa: ARG002 (that of a single round)
        if self._stop:
            raise Stopped
        super().__call__(stage, self._done / (self._done + _USUAL))

    def count(self) -> None:
        """One more evaluation; who asks to stop now is obeyed where the search next shows its progress."""
        self._done += 1
        if self._done % _SHOWN == 0:
            try:
                self("search", 0.0)
            except Stopped:
                self._stop = True


class StreamCurve(Levels):
    """Least loss against the level t; share filters have the floors at no loss.

    ``knowledge`` is what agents know, ``plain`` the same without memories (None: no memoryless design is looked for).

    ceiling, limit: the levels that share filters give for nothing, and that silence reaches.
    stopped:        whether the caller asked the search to stop; answers are then the best found so far.
    """

    def __init__(
        self,
        knowledge: JointState,
        plain: JointState | None,
        weights: Array,
        options: SearchOptions,
        *,
        floors: Array | None = None,
    ) -> None:
        super().__init__(weights, floors)
        self._seed, self._tell = options.seed, _Counting(options.progress)
        self.objective = StreamObjective(knowledge, counted=self._tell.count)
        self.plain = None if plain is None else StreamObjective(plain, counted=self._tell.count)
        self.stopped = False
        small = len(knowledge.transition) <= _SMALL
        self._pace, usual = (STREAM, _STARTS) if small else (LARGE_STREAM, _STARTS_OF_LARGE)
        self._starts = usual if options.starts is None else options.starts
        self.sharing = projectors(self.objective, self.objective.knowledge.shares)
        self._ceilings = self.objective(self.sharing).privacy
        self._limits = self.objective([0 * x for x in self.sharing]).privacy
        self.ceiling, self.limit = self.reached(self._ceilings), self.reached(self._limits)
        self._found: dict[float, JointResult] = {}
        self._sketch = options.sketch and not small
        self._looks: list[Tried] = [Tried(self.ceiling, self._free)] if self._sketch else []

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        if level not in self._found:
            known = bool(self._looks)
            found = self._follow(level) if self._sketch else self._search(level, self._starts)
            if known and not self._sketch and not self.stopped:
                near = self._follow(level)
                found = replace(
                    min(near, found, key=lambda each: each.loss),
                    starts=found.starts + near.starts,
                    iterations=found.iterations + near.iterations,
                )
            self._found[level] = found
            self._serve_for_less()
        return self._found[level]

    def nudged(
        self, near: JointResult, *, level: float | None = None, loss: float | None = None
    ) -> JointResult:
        """A result taken to a level, or a loss, close to its own without a new search."""

        def repaired(level: float) -> JointResult:
            finished = simplest_near(self.objective, self._least_loss(level), near.shrink)
            return replace(near, shrink=finished.shrink, loss=finished.loss, privacy=finished.privacy)

        return self._aimed(repaired, near, level, loss)

    def softened(
        self, near: JointResult, finest: float, *, level: float | None = None, loss: float | None = None
    ) -> JointResult:
        """A result once more, where every number really carries as much noise as ``finest`` says at least."""
        objective = StreamObjective(self.objective.knowledge, finest=finest, counted=self._tell.count)

        def polished(level: float) -> JointResult:
            race = Race(objective, self._least_loss(level), self._tell, self._pace, near.shrink)
            best = self._polished(race, near.shrink, SETTINGS.fine_margin)
            return replace(near, shrink=best.shrink, loss=best.loss, privacy=best.privacy)

        return self._aimed(polished, near, level, loss)

    def _aimed(
        self, look: Callable[[float], JointResult], near: JointResult, level: float | None, loss: float | None
    ) -> JointResult:
        """What is found at a level; or at the one that a loss buys, which is close to that of a result."""
        if level is not None:
            return look(level)
        close = Tried(self.reached(near.privacy) * (1 + _CLOSE), replace(near, loss=near.loss * (1 + _CLOSE)))
        inside, _ = self.affordable(look, loss or 0.0, Tried(self.ceiling), close, free=self.ceiling)
        return inside.found or near

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        free = Tried(self.ceiling, self._free)
        top = Tried(min(self.limit, SETTINGS.far) * (1 - SETTINGS.near_limit))

        def glance(level: float) -> JointResult:
            """A search from half the starts, and from then on what is followed from there."""
            return self._follow(level, _QUICK) if self._looks else self._search(level, -(-self._starts // 2))

        inside, outside = self.affordable(
            glance, budget, free, top, tolerance=SETTINGS.root_tolerance, free=self.ceiling
        )
        if inside is not free and not self.stopped:
            # What was followed there may be far from the best at that level: search there too. Losses grow at least
            # as the height above the ceiling does, so that the height grows by no more than the loss may.
            raced = self._search(inside.level, self._starts)
            if inside.found is None or raced.loss < inside.found.loss:
                bottom = np.log1p(self.ceiling)
                height = (np.log1p(inside.level) - bottom) * budget / raced.loss
                inside = Tried(inside.level, raced)
                outside = Tried(min(float(np.expm1(bottom + height)), top.level))
        if not self.stopped:
            near = 0.0 if self._pace is STREAM else _NEAR
            inside, _ = self.affordable(
                self._follow, budget, inside, outside, tolerance=near, free=self.ceiling, steps=_LAST_LOOKS
            )
        return replace(inside.found or self._free, interrupted=self.stopped)

    @property
    def _free(self) -> JointResult:
        """What share filters give without loss."""
        race = Race(self.objective, LeastLoss(0 * self.weights), self._tell, self._pace)
        race.know([self.sharing])
        return race.result()

    def _least_loss(self, level: float) -> LeastLoss:
        return LeastLoss.between(self.targets(level), self._ceilings, self._limits)

    def _follow(self, level: float, rounds: int | None = None) -> JointResult:
        """What is reached at a level from the nearest one that was looked at."""
        near = min(self._looks, key=lambda one: abs(np.log1p(one.level) - np.log1p(level))).found
        assert near is not None
        race = Race(self.objective, self._least_loss(level), self._tell, self._pace, near.shrink)
        found = self._polished(race, near.shrink, SETTINGS.warm_margin, rounds)
        self._looks.append(Tried(level, found))
        return found

    def _polished(
        self, race: Race, start: list[Array], margin: float, rounds: int | None = None
    ) -> JointResult:
        try:
            race.polish([start], margin, rounds)
        except Stopped:
            self.stopped = True
            race.stop()
        return race.result(interrupted=self.stopped)

    def _search(self, level: float, starts: int) -> JointResult:
        problem = self._least_loss(level)
        race = Race(self.objective, problem, self._tell, self._pace, self.sharing)
        race.know([self.sharing])
        try:
            if self.stopped:
                raise Stopped
            plain = self._memoryless(problem.copy())
            race.know([] if plain is None else [plain])
            points = self._starting_points(plain, starts)
            for place, finest in enumerate(SETTINGS.coarse):
                self._coarsely(race, points[place :: len(SETTINGS.coarse)], finest)
        except Stopped:
            self.stopped = True
            race.stop()
        found = race.result(interrupted=self.stopped)
        self._looks.append(Tried(level, found))
        return found

    def _coarsely(self, race: Race, starts: list[Start], finest: float) -> None:
        """Race starts where the least noise of messages is ``finest``, and take the best to the end without it."""
        objective = race.objective
        assert isinstance(objective, StreamObjective)
        if not starts:
            return
        coarser = objective.coarser(finest)
        coarse = Race(coarser, race.problem, race.tell, race.pace)
        try:
            for shrink, margin in starts:
                coarse.begin(shrink, margin)
            for run in coarse.leaders():
                coarse.converge(run)
                self._tell("convergence", 1.0)
        finally:
            race.runs += coarse.runs
        settled = objective.finer(coarser, coarse.best()[0].shrink)
        race.know([settled])
        race.polish([settled], SETTINGS.fine_margin)

    def _memoryless(self, problem: LeastLoss) -> list[Array] | None:
        """The best design on the readings alone, among those with memory."""
        if self.plain is None:
            return None
        rng = np.random.default_rng([self._seed, 1])
        raw = [np.array([np.eye(group.size)] * group.count) for group in self.plain.groups]
        race = Race(self.plain, problem, self._tell, STREAM, raw)
        others = [(random_shrink(self.plain, rng), SETTINGS.mixed_margin) for _ in range(_PLAIN_STARTS - 1)]
        self._coarsely(race, [(raw, SETTINGS.cold_margin), *others], SETTINGS.coarse[0])
        return embedded(self.objective, self.plain, race.best()[0].shrink)

    def _starting_points(self, plain: list[Array] | None, starts: int) -> list[Start]:
        """As many starts as asked, best bets first."""
        rng = np.random.default_rng([self._seed, 2])
        points = [(self.sharing, SETTINGS.warm_margin), (self.sharing, SETTINGS.cold_margin)]
        if plain is not None:
            half = [(one + other) / 2 for one, other in zip(self.sharing, plain, strict=True)]
            points += [(half, SETTINGS.mixed_margin), (plain, SETTINGS.cold_margin)]
        while len(points) < starts:
            kind = len(points) // 2 % 2
            shrink = self._disturbed(rng) if kind else random_shrink(self.objective, rng)
            points.append((shrink, SETTINGS.mixed_margin))
        return points[:starts]

    def _disturbed(self, rng: np.random.Generator) -> list[Array]:
        """As many exact numbers as the shares have, turned away from them."""
        points = []
        for shared in self.sharing:
            count, size = shared.shape[:2]
            turned = shared + _DISTURBANCE * rng.standard_normal(shared.shape) @ shared / np.sqrt(size)
            left, sizes, _ = np.linalg.svd(turned)
            kept = left * (sizes > 1e-9)[:, None, :]
            points.append((kept @ kept.transpose(0, 2, 1)).reshape(count, size, size))
        return points

    def _serve_for_less(self) -> None:
        """A plan for more privacy serves for less: let it, where it is cheaper."""
        levels = sorted(self._found, reverse=True)
        for higher, lower in pairwise(levels):
            if self._found[higher].loss < self._found[lower].loss:
                self._found[lower] = self._found[higher]


def embedded(objective: StreamObjective, plain: StreamObjective, shrink: Sequence[Array]) -> list[Array]:
    """A memoryless plan among those with memory: readings come first in every agent's knowledge."""
    by_agent: dict[int, Array] = {}
    for group, stack in zip(plain.groups, shrink, strict=True):
        by_agent.update(zip(group.agents.tolist(), stack, strict=True))
    made = []
    for group in objective.groups:
        stack = np.zeros((group.count, group.size, group.size))
        for place, agent in enumerate(group.agents.tolist()):
            x = by_agent[agent]
            stack[place, : len(x), : len(x)] = x
        made.append(stack)
    return made


def projectors(objective: StreamObjective, rows: Sequence[Array]) -> list[Array]:
    """Projectors onto the span of each agent's rows: these sent without noise, and nothing else."""
    made = []
    for group in objective.groups:
        stack = np.zeros((group.count, group.size, group.size))
        for place, agent in enumerate(group.agents.tolist()):
            _, sizes, right = np.linalg.svd(rows[agent], full_matrices=False)
            kept = right[sizes > 1e-12 * sizes.max(initial=0.0)]
            stack[place] = kept.T @ kept
        made.append(stack)
    return made


def carrying(objective: StreamObjective, shrink: Sequence[Array]) -> list[Array]:
    """The same without numbers that carry nothing, which a search leaves as they were where it began.

    Those are looked at that no loss and no privacy feels, and left out where both stay without them.
    """
    at = objective(shrink)
    if not at.seen:
        return list(shrink)
    left = [np.array(x) for x in shrink]
    decomposed = [np.linalg.eigh(x) for x in shrink]
    felt = [np.zeros(values.shape) for values, _ in decomposed]
    for weights in np.eye(1 + objective.targets):
        slopes = objective.gradient(at, float(weights[0]), weights[1:])
        most = max((float(np.max(np.abs(each), initial=0.0)) for each in slopes), default=0.0)
        for found, slope, (_, vectors) in zip(felt, slopes, decomposed, strict=True):
            along = np.einsum("kji,kjl,kli->ki", vectors, slope, vectors)
            np.maximum(found, np.abs(along) / max(most, np.finfo(float).tiny), out=found)
    for x, found, (values, vectors) in zip(left, felt, decomposed, strict=True):
        for agent, number in zip(*np.nonzero((values > 0) & (found <= _NOT_FELT)), strict=True):
            direction, before = vectors[agent, :, number], x[agent].copy()
            x[agent] -= values[agent, number] * np.outer(direction, direction)
            without = objective(left)
            same = np.allclose(without.privacy, at.privacy, rtol=_NOT_FELT, atol=_NOT_FELT)
            if not (same and abs(without.loss - at.loss) <= _NOT_FELT):
                x[agent] = before
    return left
