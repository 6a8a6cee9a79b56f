"""One trade-off curve of a stream: the least loss against a level t, where every p_j is to be at least t·weight_j.

`StreamCurve.at` gives the least loss at a level, `StreamCurve.within` the largest level within a loss. Both begin at the
share filters, at the best memoryless design (found by the same search on the readings alone), at mixtures of the two
and at random; the memoryless design and the share filters with as much noise as is needed are among the candidates, so
that the answer is never worse than either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.progress import Progress, Stopped
from veilnet._core.types import Array
from veilnet.designs.joint.problem import LeastLoss, MostPrivacy, Problem
from veilnet.designs.joint.run import toward_vertex
from veilnet.designs.joint.search import JointResult
from veilnet.designs.joint.snap import finish, retreat
from veilnet.designs.joint.telling import Teller
from veilnet.designs.streams.knowledge import ShareFilter, Stream, knowledge_of
from veilnet.designs.streams.objective import StreamObjective
from veilnet.designs.streams.search import STREAM_SETTINGS, Race, Start, embedded, projectors

_TINY = np.finfo(float).tiny
_SMALL = 60  # numbers in the joint state up to which starts are cheap
_PLAIN_STARTS = 5
_NEIGHBOUR = 1e-3


class StreamCurve:
    """Least loss against the level t with p_j >= t·weights_j; weights that are zero ask nothing.

    ceiling, limit: the levels that share filters give for nothing, and that silence reaches.
    stopped:        whether the caller asked the search to stop; answers are then the best found so far.
    """

    def __init__(
        self,
        stream: Stream,
        filters: Sequence[ShareFilter],
        weights: Array,
        *,
        starts: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.objective = StreamObjective(knowledge_of(stream, filters))
        self.plain = StreamObjective(knowledge_of(stream, None))
        self.weights = np.asarray(weights, dtype=np.float64) / np.max(weights)
        self.stopped = False
        self._seed = seed
        self._tell = Teller(progress)
        small = len(self.objective.knowledge.transition) <= _SMALL
        self._starts = (7 if small else 3) if starts is None else starts
        self.sharing = projectors(self.objective, self.objective.knowledge.shares)
        self._ceilings = self.objective(self.sharing).privacy
        self._limits = self.objective([0 * x for x in self.sharing]).privacy
        asked = self.weights > 0
        self.ceiling, self.limit = (
            float(np.min(each[asked] / self.weights[asked])) for each in (self._ceilings, self._limits)
        )
        self._found: dict[float, JointResult] = {}

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        if level not in self._found:
            targets = level * self.weights
            self._found[level] = self._search(
                LeastLoss(targets, self._room(targets)), LeastLoss(targets, self._room(targets))
            )
            self._serve_for_less()
        return self._found[level]

    def nudged(self, level: float, near: JointResult) -> JointResult:
        """A result taken to a level close to its own, without a new search."""
        targets = level * self.weights
        finished = finish(self.objective, LeastLoss(targets, self._room(targets)), near.shrink)
        return _result(self.objective, finished.shrink, like=near)

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        problem = MostPrivacy(budget, self.weights)
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
        return self._polished(problem, inverse, [direct.shrink])

    def refine(self, level: float, neighbour: JointResult) -> JointResult:
        """The result at a level, or a better one reached from that of a neighbouring level."""
        targets = level * self.weights
        problem = LeastLoss(targets, self._room(targets))
        self._found[level] = self._polished(problem, neighbour, [self._found[level].shrink])
        return self._found[level]

    def _polished(self, problem: Problem, near: JointResult, known: list[list[Array]]) -> JointResult:
        race = Race(self.objective, problem, self._tell)
        race.know([*known, near.shrink])
        try:
            race.polish([Start(near.shrink, STREAM_SETTINGS.warm_margin)])
        except Stopped:
            self.stopped = True
        return self._best(race) if race.finished else near

    def _search(self, problem: Problem, plain_problem: Problem) -> JointResult:
        race = Race(self.objective, problem, self._tell)
        race.know([self.sharing])
        fallback = retreat(self.objective, problem, self.sharing)
        race.finished.append((fallback, None))
        try:
            if self.stopped:
                raise Stopped
            plain = embedded(self.objective, self.plain, self._memoryless(plain_problem))
            race.know([plain])
            race.run(self._starting_points(plain))
        except Stopped:
            self.stopped = True
            race.stop()
        return self._best(race)

    def _memoryless(self, problem: Problem) -> list[Array]:
        """The best design on the readings alone."""
        race = Race(self.plain, problem, self._tell)
        rng = np.random.default_rng([self._seed, 1])
        raw = [np.broadcast_to(np.eye(g.size), (g.count, g.size, g.size)) for g in self.plain.groups]
        race.finished.append((retreat(self.plain, problem, [np.array(x) for x in raw]), None))
        starts = [Start([np.array(x) for x in raw], STREAM_SETTINGS.cold_margin)]
        starts += [
            Start(_random(self.plain, rng), STREAM_SETTINGS.warm_margin) for _ in range(_PLAIN_STARTS - 1)
        ]
        race.run(starts)
        return race.best()[0].shrink

    def _starting_points(self, plain: list[Array]) -> list[Start]:
        """As many starts as asked, best bets first."""
        rng = np.random.default_rng([self._seed, 2])
        half = [(one + other) / 2 for one, other in zip(self.sharing, plain, strict=True)]
        points = [
            Start(self.sharing, STREAM_SETTINGS.near_margin),
            Start(half, STREAM_SETTINGS.warm_margin),
            Start(self.sharing, STREAM_SETTINGS.cold_margin),
            Start(plain, STREAM_SETTINGS.cold_margin),
        ]
        while len(points) < self._starts:
            points.append(Start(_random(self.objective, rng), STREAM_SETTINGS.warm_margin))
        return points[: self._starts]

    def _room(self, targets: Array) -> Array:
        """How far targets lie from the ceiling below and from the limit above, in logarithms."""
        wanted, ceiling, limit = (
            np.log(np.maximum(each, _TINY)) for each in (targets, self._ceilings, self._limits)
        )
        return np.asarray(
            np.minimum(np.where(wanted > ceiling, wanted - ceiling, np.inf), np.abs(limit - wanted))
        )

    def _serve_for_less(self) -> None:
        """A plan for more privacy serves for less: let it, where it is cheaper."""
        levels = sorted(self._found, reverse=True)
        for higher, lower in zip(levels, levels[1:], strict=False):
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


def _result(objective: StreamObjective, shrink: list[Array], like: JointResult) -> JointResult:
    at = objective(shrink)
    return JointResult(
        shrink,
        at.loss,
        at.privacy,
        like.starts,
        like.agreed,
        like.iterations,
        like.kkt_residual,
        like.interrupted,
        like.history,
    )


def _random(objective: StreamObjective, rng: np.random.Generator) -> list[Array]:
    """Uniform eigenvalues in random directions."""
    points = []
    for group in objective.groups:
        vectors = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        values = rng.uniform(0.0, 1.0, (group.count, group.size))
        points.append((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    return points
