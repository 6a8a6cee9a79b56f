"""Trading utility for privacy, all agents at once (mathematics, section 5).

Several starts run side by side; after each round of steps the worse half is dropped. The leaders are disturbed
and settle again a few times, are run to convergence, snapped to exact zeros and ones and made exactly
feasible. Nonconvex: the best is the answer, and how many agreed with it is reported.

Numbers of starts, steps and disturbances were chosen on eight of the hardest networks of the paper's size,
those where random starts end 2 to 100 % apart: with these, 23 of 24 searches found the best loss known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veilnet._core.progress import Progress, Stopped, asks_to_stop, silent
from veilnet._core.types import Array
from veilnet.designs.joint.hidden import hidden_exactly
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import Problem
from veilnet.designs.joint.run import Run, toward_vertex
from veilnet.designs.joint.snap import Finished, finish, retreat
from veilnet.designs.joint.starts import disturbed, shares, starting_points
from veilnet.model.standard_form import StandardForm

_JUMP = 0.9
_ROUNDS = (((15, 15, 20, 30), _JUMP), ((30, 40), _JUMP), ((40, 60), _JUMP), ((60, 80), 0.0))
_KICK_STEPS, _SETTLE_STEPS = (20, 30, 40), (60, 80)
_PROMISING, _BETTER = 0.05, 1e-5
_LAST_ROUND = 30
_LAST_STEPS = 100
_COLD_MARGIN, _WARM_MARGIN = 0.15, 1e-3
_TOLERANCE = 1e-7
_GAP, _INFEASIBILITY = 3e-5, 1e-5
_AGREE = 1e-3
_FINISHERS = 2
FAR = 1e4


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
class _Search:
    """The state of a search, kept outside the loop so that an interruption loses nothing."""

    objective: JointObjective
    problem: Problem
    fallback: Finished
    runs: list[Run] = field(default_factory=list)
    finished: list[tuple[Finished, Run]] = field(default_factory=list)


def default_starts(form: StandardForm) -> int:
    """Fewer for large networks, where the starts agree more and each costs more."""
    entries = int((form.blocks.sizes**2).sum())
    return 10 if entries <= 2_000 else 6 if entries <= 8_000 else 2


def solve(
    form: StandardForm,
    objective: JointObjective,
    problem: Problem,
    starts: int | None,
    warm: Sequence[list[Array]],
    seed: int,
    progress: Progress | None,
) -> JointResult:
    search = _Search(objective, problem, retreat(objective, problem, shares(objective)))
    cold = (0 if warm else default_starts(form)) if starts is None else starts
    interrupted = False
    try:
        for point in warm:
            search.runs.append(Run(objective, problem.copy(), point, _WARM_MARGIN))
        judge = problem.copy()
        judge.restart(search.fallback.at, search.fallback.at)
        for point in starting_points(form, objective, judge, cold, seed):
            search.runs.append(Run(objective, problem.copy(), point, _COLD_MARGIN))
        tell = _stopping(progress or silent)
        leaders = _race(search, tell)
        if cold > 1:
            _shake(search, leaders, cold // 2, seed, tell)
        for done, run in enumerate(leaders):
            _converge(search, run)
            tell("convergence", (done + 1) / len(leaders))
    except Stopped:
        interrupted = True
        leading = [run for run in search.runs if run.iterations]
        if leading and not search.finished:
            _finish(search, min(leading, key=lambda run: run.estimate))
    return _result(search, interrupted)


def _stopping(progress: Progress) -> Progress:
    """Progress that raises :class:`Stopped` when it is answered False."""

    def tell(what: str, part: float) -> None:
        if asks_to_stop(progress(what, part)):
            raise Stopped

    return tell


def _race(search: _Search, progress: Progress) -> list[Run]:
    """Advance all starts, keep the better half, again; the last few, best first."""
    racing = list(search.runs)
    for number, (steps, jump) in enumerate(_ROUNDS):
        for done, run in enumerate(racing):
            _advance(run, steps, jump)
            progress(f"round {number + 1} of {len(_ROUNDS)}", (done + 1) / len(racing))
        racing.sort(key=lambda run: run.estimate)
        racing = racing[: max(_FINISHERS, -(-len(racing) // 2))]
    return racing[:_FINISHERS]


def _shake(search: _Search, leaders: list[Run], kicks: int, seed: int, progress: Progress) -> None:
    """Disturb the leaders in turn and let them settle again; one that does better replaces its parent."""
    rng = np.random.default_rng([seed, 1])
    for number in range(kicks):
        parent = leaders[number % len(leaders)]
        kicked = Run(
            search.objective, search.problem.copy(), *disturbed(search.objective, parent.shrink, rng)
        )
        search.runs.append(kicked)
        _advance(kicked, _KICK_STEPS, _JUMP)
        if kicked.estimate < parent.estimate + _PROMISING:
            _advance(kicked, _SETTLE_STEPS, 0.0)
        if kicked.estimate < parent.estimate - _BETTER:
            leaders[number % len(leaders)] = kicked
        progress("disturbing the best", (number + 1) / kicks)


def _converge(search: _Search, run: Run) -> None:
    for _ in range(_LAST_ROUND):
        if run.converged(_GAP, _INFEASIBILITY):
            break
        run.advance(_LAST_STEPS, _TOLERANCE)
    _finish(search, run)


def _advance(run: Run, steps: Sequence[int], jump: float) -> None:
    for count in steps:
        if not run.converged(_GAP, _INFEASIBILITY):
            run.advance(count, _TOLERANCE, jump)


def _finish(search: _Search, run: Run) -> None:
    finished = finish(search.objective, run.problem, run.shrink)
    if np.max(finished.at.privacy) > FAR:
        hidden = best_hidden(search.objective, search.problem, finished.shrink)
        finished = finished if hidden is None or hidden.value > finished.value else hidden
    search.finished.append((finished, run))


def _result(search: _Search, interrupted: bool) -> JointResult:
    objective, problem = search.objective, search.problem
    iterations = sum(run.iterations for run in search.runs)
    winner, run = min(search.finished, key=lambda pair: pair[0].value, default=(search.fallback, None))
    if run is None or search.fallback.value < winner.value:
        winner, run = search.fallback, None
    agreed = sum(one.estimate <= winner.value + _AGREE for one in search.runs if one.iterations)
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
