"""Trading utility for privacy, all agents at once (MATH section 5).

Several starts run side by side; after each round of steps the worse half is dropped, the last ones are run
to convergence, snapped to exact zeros and ones and made exactly feasible. Nonconvex: the best start is the
answer, and how many agreed with it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from veilnet._types import Array
from veilnet.designs._joint_objective import JointObjective
from veilnet.designs._joint_problem import LeastLoss, MostPrivacy, Problem
from veilnet.designs._joint_run import Run, toward_vertex
from veilnet.designs._joint_snap import Finished, finish, retreat
from veilnet.designs._joint_starts import shares, starting_points
from veilnet.standard import StandardForm

Progress = Callable[[str, float], None]

_ROUNDS = ((15, 15, 20, 30), (30, 40), (40, 60), (60, 80))
_LAST_ROUND = 30
_LAST_STEPS = 100
_COLD_MARGIN, _WARM_MARGIN = 0.15, 1e-3
_JUMP = 0.9
_TOLERANCE = 1e-7
_GAP, _INFEASIBILITY = 3e-5, 1e-5
_AGREE = 1e-3
_FINISHERS = 2


@dataclass(frozen=True, eq=False)
class JointResult:
    """What the joint solver found, and how.

    shrink: X per size group, (count, n, n), symmetric with eigenvalues in [0, 1].
    loss, privacy: at that X; every target is met, not by rounding only.
    starts, agreed: starts run, and how many of them ended within 1e-3 of the best objective.
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


def least_loss(
    form: StandardForm,
    targets: Array,
    *,
    starts: int | None = None,
    warm: Sequence[list[Array]] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> JointResult:
    """Least utility loss with p_j >= targets_j (above the ceiling for some j, below the limit for all)."""
    return _solve(form, LeastLoss(targets), starts, warm, seed, progress)


def most_privacy(
    form: StandardForm,
    loss: float,
    weights: Array,
    *,
    starts: int | None = None,
    warm: Sequence[list[Array]] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> JointResult:
    """Largest t with p_j >= t weights_j at a utility loss of at most ``loss``."""
    return _solve(form, MostPrivacy(loss, weights), starts, warm, seed, progress)


def default_starts(form: StandardForm) -> int:
    """Fewer for large networks, where the starts agree more and each costs more."""
    entries = int((form.blocks.sizes**2).sum())
    return 24 if entries <= 5_000 else 6 if entries <= 20_000 else 2


def _solve(
    form: StandardForm,
    problem: Problem,
    starts: int | None,
    warm: Sequence[list[Array]],
    seed: int,
    progress: Progress | None,
) -> JointResult:
    objective = JointObjective(form)
    search = _Search(objective, problem, retreat(objective, problem, shares(objective)))
    cold = (0 if warm else default_starts(form)) if starts is None else starts
    interrupted = False
    try:
        for point in warm:
            search.runs.append(Run(objective, problem.copy(), point, _WARM_MARGIN))
        for point in islice(starting_points(form, objective, seed), cold):
            search.runs.append(Run(objective, problem.copy(), point, _COLD_MARGIN))
        _race(search, progress or _silent)
    except KeyboardInterrupt:
        interrupted = True
        leading = [run for run in search.runs if run.iterations]
        if leading and not search.finished:
            _finish(search, min(leading, key=lambda run: run.estimate))
    return _result(search, len(warm) + cold, interrupted)


def _race(search: _Search, progress: Progress) -> None:
    """Advance all starts, keep the better half, again; run the last ones to convergence."""
    racing = list(search.runs)
    jumps = (_JUMP, _JUMP, _JUMP, 0.0)
    for number, steps in enumerate(_ROUNDS):
        for done, run in enumerate(racing):
            for count in steps:
                if not run.converged(_GAP, _INFEASIBILITY):
                    run.advance(count, _TOLERANCE, jumps[number])
            progress(f"round {number + 1}", (done + 1) / len(racing))
        racing.sort(key=lambda run: run.estimate)
        racing = racing[: max(_FINISHERS, -(-len(racing) // 2))]
    for done, run in enumerate(racing):
        for _ in range(_LAST_ROUND):
            if run.converged(_GAP, _INFEASIBILITY):
                break
            run.advance(_LAST_STEPS, _TOLERANCE)
        _finish(search, run)
        progress("convergence", (done + 1) / len(racing))


def _finish(search: _Search, run: Run) -> None:
    search.finished.append((finish(search.objective, run.problem, run.shrink), run))


def _result(search: _Search, starts: int, interrupted: bool) -> JointResult:
    objective, problem = search.objective, search.problem
    iterations = sum(run.iterations for run in search.runs)
    winner, run = min(search.finished, key=lambda pair: pair[0].value, default=(search.fallback, None))
    if run is None or search.fallback.value < winner.value:
        winner, run = search.fallback, None
    agreed = sum(finished.value <= winner.value + _AGREE for finished, _ in search.finished)
    residual, history = np.inf, []
    if run is not None:
        residual = toward_vertex(objective, run.problem, winner.at, winner.shrink)[0]
        history = [(loss, problem.level(privacy)) for loss, privacy in run.history]
    return JointResult(
        winner.shrink,
        winner.at.loss,
        winner.at.privacy,
        starts,
        agreed,
        iterations,
        residual,
        interrupted,
        history,
    )


def _silent(_stage: str, _fraction: float) -> None:
    return None
