"""Trading utility for privacy, all agents at once (mathematics, section 5).

Several starts run side by side; after each round of steps the worse half is dropped. The leaders are disturbed
and settle again a few times, are run to convergence, snapped to exact zeros and ones and made exactly
feasible. Nonconvex: the best is the answer, and how many agreed with it is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veilnet._core.progress import Stopped
from veilnet._core.types import Array
from veilnet.designs.joint.hidden import hidden_exactly
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss, Problem
from veilnet.designs.joint.run import Run, toward_vertex
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.snap import Finished, finish, retreat
from veilnet.designs.joint.starts import disturbed, share_projectors, starting_points, turned_about
from veilnet.designs.joint.telling import Teller
from veilnet.model.standard_form import StandardForm


@dataclass(frozen=True, eq=False)
class JointResult:
    """What the joint solver found, and how.

    shrink: X per size group, (count, n, n), symmetric with eigenvalues in [0, 1].
    loss, privacy: at that X; every target is met, not by rounding only.
    starts, agreed: starts run (disturbed copies of the leaders included), and how many of them ended within
    1e-3 of the best objective; those dropped on the way seldom do.
    iterations: of all starts together. kkt_residual: the relative improvement a first-order model of the
    Lagrangian still promises (Frank-Wolfe gap), dimensionless.
    history: per outer iteration of the winning start, (loss, least privacy / target).
    """

    shrink: list[Array]
    loss: float
    privacy: Array
    starts: int
    agreed: int
    iterations: int
    kkt_residual: float
    interrupted: bool
    history: list[tuple[float, float]]


@dataclass(eq=False)
class Search:
    """The state of a search, kept outside the loop so that stopping it loses nothing."""

    objective: JointObjective
    problem: Problem
    fallback: Finished
    tell: Teller
    runs: list[Run] = field(default_factory=list)
    finished: list[tuple[Finished, Run]] = field(default_factory=list)

    @classmethod
    def of(cls, objective: JointObjective, problem: Problem, tell: Teller) -> Search:
        """A search that can already hand out its shares, retreated to where every constraint holds."""
        return cls(objective, problem, retreat(objective, problem, share_projectors(objective)), tell)


def least_loss_problem(objective: JointObjective, targets: Array) -> LeastLoss:
    """The problem of least loss, privacy counted in units of the room there is."""
    shares, silence = share_projectors(objective), objective.silent
    return LeastLoss.between(targets, objective(shares).privacy, objective(silence).privacy)


def is_small(form: StandardForm) -> bool:
    """Whether a start costs so little that one more for every agent is no matter."""
    return int((form.blocks.sizes**2).sum()) <= SETTINGS.small_entries


def default_starts(form: StandardForm) -> int:
    """Fewer for large networks, where the starts agree more and each costs more."""
    entries = int((form.blocks.sizes**2).sum())
    return 10 if entries <= 2_000 else 6 if entries <= 8_000 else 2


def solve(
    form: StandardForm,
    objective: JointObjective,
    problem: Problem,
    starts: int,
    warm: Sequence[list[Array]],
    seed: int,
    tell: Teller,
    *,
    rounds: int = SETTINGS.last_rounds,
) -> JointResult:
    """A race of ``starts`` cold starts and of warm ones; the best, and whether the search was stopped.

    The leaders are taken to convergence in at most so many ``rounds``.
    """
    search = Search.of(objective, problem, tell)
    interrupted = False
    try:
        for point in warm:
            search.runs.append(Run(objective, problem.copy(), point, SETTINGS.warm_margin))
        judge = problem.copy()
        judge.restart(search.fallback.at, search.fallback.at)
        for point in starting_points(form, objective, judge, starts, seed):
            search.runs.append(Run(objective, problem.copy(), point, SETTINGS.cold_margin))
        leaders = _race(search)
        if starts > 1:
            _shake(search, leaders, starts, seed)
        for done, run in enumerate(leaders):
            converge(search, run, rounds)
            tell("convergence", (done + 1) / len(leaders))
    except Stopped:
        interrupted = True
        leading = [run for run in search.runs if run.iterations]
        if leading and not search.finished:
            _finish(search, min(leading, key=lambda run: run.estimate))
    return result_of(search, interrupted=interrupted)


def polish(
    search: Search,
    points: Sequence[list[Array]],
    *,
    rivals: bool = False,
    rounds: int = SETTINGS.polish_rounds,
    margin: float = SETTINGS.primed_margin,
) -> None:
    """Take points that are nearly optimal to convergence, each on its own.

    Of ``rivals`` those are given up that, at the pace of their last round, would not overtake the best so far.
    """
    for done, point in enumerate(points):
        run = Run(search.objective, search.problem.copy(), point, margin, primed=True)
        search.runs.append(run)
        best = min((finished.value for finished, _ in search.finished), default=np.inf)
        to_beat = best if rivals else np.inf
        converge(search, run, rounds, SETTINGS.polish_steps, to_beat=to_beat)
        search.tell("convergence", (done + 1) / len(points))


def _race(search: Search) -> list[Run]:
    """Advance all starts, keep the better half, again; the last few, best first."""
    racing = list(search.runs)
    for number, (steps, jump) in enumerate(SETTINGS.race_rounds):
        for done, run in enumerate(racing):
            _advance(run, steps, jump)
            search.tell(f"round {number + 1} of {len(SETTINGS.race_rounds)}", (done + 1) / len(racing))
        racing.sort(key=lambda run: run.estimate)
        racing = racing[: max(SETTINGS.finishers, -(-len(racing) // 2))]
    return racing[: SETTINGS.finishers]


def _shake(search: Search, leaders: list[Run], kicks: int, seed: int) -> None:
    """Disturb the leaders in turn and let them settle again; one that does better replaces its parent."""
    rng = np.random.default_rng([seed, 1])
    for number in range(kicks):
        place = number % len(leaders)
        point, margin = disturbed(search.objective, leaders[place].shrink, number, rng)
        _try(search, leaders, place, point, margin, SETTINGS.race_jump)
        search.tell("disturbing the best", (number + 1) / kicks)


def turn(search: Search) -> None:
    """Try the best with one agent silent, or sending all it has, each in turn.

    Descent does not take an agent there where everything in between is dearer.
    """
    finished, run = min(search.finished, key=lambda pair: pair[0].value)
    leaders = [run]
    points = turned_about(finished.shrink)
    for done, point in enumerate(points):
        # Where everything is told, the logarithm of a privacy has no slope to follow.
        if search.problem.level(search.objective(point).privacy) > SETTINGS.rounding:
            _try(search, leaders, 0, point, 0.0, SETTINGS.escape)
        search.tell("turning agents", (done + 1) / len(points))
    if leaders[0] is not run:
        converge(search, leaders[0])


def soften(search: Search) -> None:
    """Polish the best once more, its zeros and ones softened so that those that rest there wrongly come free."""
    for _ in range(SETTINGS.second_looks):
        best = min((finished for finished, _ in search.finished), key=lambda each: each.value)
        polish(search, [best.shrink], rounds=SETTINGS.last_rounds, margin=SETTINGS.soft_margin)
        if search.finished[-1][0].value > best.value - SETTINGS.better:
            return


def _try(
    search: Search, leaders: list[Run], place: int, point: list[Array], margin: float, jump: float
) -> None:
    """Let a disturbed leader settle; it replaces its parent where it does better."""
    parent = leaders[place]
    kicked = Run(search.objective, search.problem.copy(), point, margin)
    search.runs.append(kicked)
    _advance(kicked, SETTINGS.kick_steps, jump)
    if kicked.estimate < parent.estimate + SETTINGS.promising:
        _advance(kicked, SETTINGS.settle_steps, 0.0)
    if kicked.estimate < parent.estimate - SETTINGS.better:
        leaders[place] = kicked


def converge(
    search: Search,
    run: Run,
    rounds: int = SETTINGS.last_rounds,
    steps: int = SETTINGS.last_steps,
    *,
    to_beat: float = np.inf,
) -> None:
    """Advance a start until it has converged, or has no hope to fall below ``to_beat`` in the rounds left."""
    for left in range(rounds, 0, -1):
        if run.converged(SETTINGS.gap, SETTINGS.infeasibility):
            break
        before = run.estimate
        run.advance(steps, SETTINGS.step_tolerance)
        if run.estimate - to_beat > max(before - run.estimate, 0.0) * left:
            return
    _finish(search, run)


def _advance(run: Run, steps: Sequence[int], jump: float) -> None:
    for count in steps:
        if not run.converged(SETTINGS.gap, SETTINGS.infeasibility):
            run.advance(count, SETTINGS.step_tolerance, jump)


def _finish(search: Search, run: Run) -> None:
    finished = finish(search.objective, run.problem, run.shrink)
    if np.max(finished.at.privacy) > SETTINGS.far:
        hidden = best_hidden(search.objective, search.problem, finished.shrink)
        finished = finished if hidden is None or hidden.value > finished.value else hidden
    search.finished.append((finished, run))


def followed(
    objective: JointObjective, problem: Problem, start: list[Array], rounds: int, steps: int
) -> JointResult:
    """One start, nearly optimal, followed for so many rounds of so many steps: for callers in a hurry."""
    search = Search.of(objective, problem, Teller(None))
    run = Run(objective, problem.copy(), start, SETTINGS.primed_margin, primed=True)
    search.runs.append(run)
    converge(search, run, rounds, steps)
    return result_of(search, interrupted=False)


def result_of(search: Search, *, interrupted: bool) -> JointResult:
    objective, problem = search.objective, search.problem
    iterations = sum(run.iterations for run in search.runs)
    winner, run = min(search.finished, key=lambda pair: pair[0].value, default=(search.fallback, None))
    if run is None or search.fallback.value < winner.value:
        winner, run = search.fallback, None
    agreed = sum(one.estimate <= winner.value + SETTINGS.agree for one in search.runs if one.iterations)
    residual, history = np.inf, []
    if run is not None:
        residual = toward_vertex(objective, run.problem, winner.at, winner.shrink)[0]
        history = [(loss, problem.level(privacy)) for loss, privacy in run.history]
    return JointResult(
        winner.shrink,
        winner.at.loss,
        objective.with_infinities(winner.shrink, winner.at.privacy),
        len(search.runs),
        agreed,
        iterations,
        residual,
        interrupted,
        history,
    )


def best_hidden(objective: JointObjective, problem: Problem, shrink: list[Array]) -> Finished | None:
    """The best safe point among those that withhold the least known directions altogether."""
    best: Finished | None = None
    for count in (1, 2, 3):
        hidden = hidden_exactly(objective, shrink, count)
        at = objective(hidden)
        if problem.safe(at) and (best is None or problem.value(at) < best.value):
            best = Finished(hidden, at, problem.value(at))
    return best
