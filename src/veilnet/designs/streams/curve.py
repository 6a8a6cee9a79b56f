"""One trade-off curve of a stream: the least loss against a level t, where every p_j is to be at least t·weight_j.

`StreamCurve.at` gives the least loss at a level, `StreamCurve.within` the largest level within a loss. Both begin at
the share filters, at the best memoryless design (found by the same search on the readings alone), at mixtures of the
two and at random; the memoryless design and the share filters with as much noise as is needed are among the
candidates, so that the answer is never worse than either.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from veilnet._core.progress import Stopped
from veilnet._core.types import Array
from veilnet.designs.joint.levels import Levels
from veilnet.designs.joint.problem import LeastLoss, MostPrivacy, Problem
from veilnet.designs.joint.run import toward_vertex
from veilnet.designs.joint.search import JointResult
from veilnet.designs.joint.snap import finish, retreat
from veilnet.designs.joint.starts import random_shrink
from veilnet.designs.joint.telling import SearchOptions
from veilnet.designs.streams.knowledge import JointState
from veilnet.designs.streams.objective import StreamObjective
from veilnet.designs.streams.search import STREAM_SETTINGS, Race, Start, embedded, projectors

_SMALL = 60  # numbers in the joint state up to which starts are cheap
# For small streams and for others: starts, those of each race that are settled, and updates of the multipliers then.
_STARTS, _FINISHERS, _ROUNDS = (12, 4), (2, 1), (12, 4)
_PLAIN_STARTS = 5
_DISTURBANCE = 0.5


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
        self.objective = StreamObjective(knowledge)
        self.plain = None if plain is None else StreamObjective(plain)
        self.stopped = False
        self._seed, self._tell = options.seed, options.tell
        size = 0 if len(knowledge.transition) <= _SMALL else 1
        self._starts = _STARTS[size] if options.starts is None else options.starts
        self._finishers, self._rounds = _FINISHERS[size], _ROUNDS[size]
        self.sharing = projectors(self.objective, self.objective.knowledge.shares)
        self._ceilings = self.objective(self.sharing).privacy
        self._limits = self.objective([0 * x for x in self.sharing]).privacy
        self.ceiling, self.limit = self.reached(self._ceilings), self.reached(self._limits)
        self._found: dict[float, JointResult] = {}

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        if level not in self._found:
            problem = self._least_loss(level)
            found = self._search(problem, problem.copy())
            near = min(self._found, key=lambda other: abs(other - level), default=None)
            if near is not None and not self.stopped:
                found = self._polished(problem.copy(), self._found[near], found)
            self._found[level] = found
            self._serve_for_less()
        return self._found[level]

    def nudged(
        self, near: JointResult, *, level: float | None = None, loss: float | None = None
    ) -> JointResult:
        """A result taken to a level, or a loss, close to its own without a new search."""
        problem = self._most_privacy(loss or 0.0) if level is None else self._least_loss(level)
        finished = finish(self.objective, problem, near.shrink)
        return replace(near, shrink=finished.shrink, loss=finished.at.loss, privacy=finished.at.privacy)

    def softened(
        self, near: JointResult, finest: float, *, level: float | None = None, loss: float | None = None
    ) -> JointResult:
        """A result once more, where every number really carries as much noise as ``finest`` says at least."""
        problem = self._most_privacy(loss or 0.0) if level is None else self._least_loss(level)
        race = Race(
            StreamObjective(self.objective.knowledge, finest=finest), problem, self._tell, self._rounds
        )
        try:
            race.polish(Start(near.shrink, STREAM_SETTINGS.fine_margin))
        except Stopped:
            self.stopped = True
            race.stop()
        best = race.best()[0]
        return replace(near, shrink=best.shrink, loss=best.at.loss, privacy=best.at.privacy)

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        problem = self._most_privacy(budget)
        # Readings alone need not reach the floors within the loss: what they do reach is a start, no more.
        direct = self._search(problem, MostPrivacy(budget, self.weights))
        if self.stopped:
            return direct
        # Ask the other question too, so that the answers to both agree.
        level = problem.level(direct.privacy)
        if not self.ceiling * (1 + 1e-9) < level < self.limit * (1 - 1e-9):
            return direct
        inverse = self.at(level)
        if self.stopped or inverse.loss >= budget * (1 - 1e-6):
            return direct
        return self._polished(problem.copy(), inverse, direct)

    def _least_loss(self, level: float) -> Problem:
        return LeastLoss.between(self.targets(level), self._ceilings, self._limits)

    def _most_privacy(self, budget: float) -> Problem:
        return MostPrivacy(budget, self.weights, self.floors, self.sharing if np.any(self.floors) else None)

    def _polished(self, problem: Problem, near: JointResult, known: JointResult) -> JointResult:
        """What is known, or something better reached from a result that is near."""
        race = Race(self.objective, problem, self._tell, self._rounds)
        race.know([near.shrink])
        try:
            race.polish(Start(near.shrink, STREAM_SETTINGS.warm_margin))
        except Stopped:
            self.stopped = True
        if not race.finished:
            return known
        better = self._best(race)
        if problem.value(race.best()[0].at) >= problem.value(self.objective(known.shrink)):
            return known
        return replace(
            better, starts=known.starts + better.starts, iterations=known.iterations + better.iterations
        )

    def _search(self, problem: Problem, plain_problem: Problem) -> JointResult:
        race = Race(self.objective, problem, self._tell, self._rounds)
        race.know([self.sharing])
        fallback = retreat(self.objective, problem, self.sharing)
        race.finished.append((fallback, None))
        try:
            if self.stopped:
                raise Stopped
            plain = self._memoryless(plain_problem)
            race.know([] if plain is None else [plain])
            points = self._starting_points(plain)
            for place, finest in enumerate(STREAM_SETTINGS.coarse):
                turn = points[place :: len(STREAM_SETTINGS.coarse)]
                if turn:
                    race.run(turn, self._finishers, finest)
        except Stopped:
            self.stopped = True
            race.stop()
        return self._best(race)

    def _memoryless(self, problem: Problem) -> list[Array] | None:
        """The best design on the readings alone, among those with memory."""
        if self.plain is None:
            return None
        race = Race(self.plain, problem, self._tell, _ROUNDS[0])
        rng = np.random.default_rng([self._seed, 1])
        raw = [np.array([np.eye(group.size)] * group.count) for group in self.plain.groups]
        race.finished.append((retreat(self.plain, problem, raw), None))
        starts = [Start(raw, STREAM_SETTINGS.cold_margin)]
        starts += [
            Start(random_shrink(self.plain, rng), STREAM_SETTINGS.warm_margin)
            for _ in range(_PLAIN_STARTS - 1)
        ]
        race.run(starts, _FINISHERS[0], STREAM_SETTINGS.coarse[0])
        return embedded(self.objective, self.plain, race.best()[0].shrink)

    def _starting_points(self, plain: list[Array] | None) -> list[Start]:
        """As many starts as asked, best bets first."""
        rng = np.random.default_rng([self._seed, 2])
        points = [
            Start(self.sharing, STREAM_SETTINGS.near_margin),
            Start(self.sharing, STREAM_SETTINGS.cold_margin),
        ]
        if plain is not None:
            half = [(one + other) / 2 for one, other in zip(self.sharing, plain, strict=True)]
            points += [Start(half, STREAM_SETTINGS.warm_margin), Start(plain, STREAM_SETTINGS.cold_margin)]
        while len(points) < self._starts:
            kind = len(points) // 2 % 2
            shrink = self._disturbed(rng) if kind else random_shrink(self.objective, rng)
            points.append(Start(shrink, STREAM_SETTINGS.warm_margin))
        return points[: self._starts]

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

    def _best(self, race: Race) -> JointResult:
        winner, run = race.best()
        residual, history = np.inf, []
        if run is not None:
            residual = toward_vertex(self.objective, run.problem, winner.at, winner.shrink)[0]
            history = [(loss, race.problem.level(privacy)) for loss, privacy in run.history]
        return JointResult(
            winner.shrink,
            winner.at.loss,
            winner.at.privacy,
            len(race.runs),
            max(race.agreeing(winner.value), 1),
            sum(each.iterations for each in race.runs),
            residual,
            self.stopped,
            history,
        )
