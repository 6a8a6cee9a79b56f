"""Trading utility for privacy, all agents at once (mathematics, section 5): the two questions one can ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss, MostPrivacy
from veilnet.designs.joint.search import FAR, JointResult, best_hidden, default_starts, solve
from veilnet.designs.joint.snap import Finished
from veilnet.designs.joint.starts import shares
from veilnet.model.standard_form import StandardForm

__all__ = ["JointResult", "least_loss", "most_privacy"]

_CLIMB = 2.0
_NEAR_LIMIT = 1e-6


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
    objective = JointObjective(form)
    targets = np.asarray(targets, dtype=np.float64)
    eased = np.minimum(targets, FAR)
    found = solve(form, objective, _least_loss(objective, eased), starts, warm, seed, progress)
    if np.array_equal(eased, targets):
        return found
    # So much privacy is had by knowing nothing of some direction, or not at all; tiny multipliers find neither.
    problem = _least_loss(objective, targets)
    hidden = best_hidden(objective, problem, found.shrink)
    direct = solve(form, objective, problem, 0, [found.shrink], seed, progress)
    if hidden is None or problem.value(hidden.at) > np.log(direct.loss):
        return direct
    interrupted = found.interrupted or direct.interrupted
    return replace(_handed_out(objective, found, hidden), interrupted=interrupted)


def _handed_out(objective: JointObjective, result: JointResult, better: Finished) -> JointResult:
    """The result with a better point in place of its own."""
    privacy = objective.with_infinities(better.shrink, better.at.privacy)
    return replace(result, shrink=better.shrink, loss=better.at.loss, privacy=privacy)


def _least_loss(objective: JointObjective, targets: Array) -> LeastLoss:
    return LeastLoss(targets, room_of(objective, targets))


def room_of(objective: JointObjective, targets: Array) -> Array:
    """How far targets lie from the ceiling below and from the limit above, in logarithms."""
    sharing = shares(objective)
    tiny = np.finfo(float).tiny
    wanted = np.log(np.maximum(targets, tiny))
    ceiling = np.log(np.maximum(objective(sharing).privacy, tiny))
    limit = np.log(np.maximum(objective([0 * x for x in sharing]).privacy, tiny))
    return np.asarray(
        np.minimum(np.where(wanted > ceiling, wanted - ceiling, np.inf), np.abs(limit - wanted))
    )


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
    """Largest t with p_j >= t weights_j at a utility loss of at most ``loss``.

    Where a little more loss buys very much privacy the problem as it stands is easily trapped. So the least
    loss for the t first found is looked for as well, and followed upwards while it stays within the budget.
    """
    objective = JointObjective(form)
    weights = np.asarray(weights, dtype=np.float64)
    problem = MostPrivacy(loss, weights)
    many = default_starts(form) if starts is None else starts
    found = solve(form, objective, problem, None if warm else -(-many // 2), warm, seed, progress)
    if found.interrupted or problem.level(found.privacy) > FAR:
        return found
    climbed = _climb(form, objective, problem, found, 0 if warm else many, seed, progress)
    better = solve(form, objective, problem, 0, climbed, seed, progress)
    best = max(found, better, key=lambda result: problem.level(result.privacy))
    hidden = best_hidden(objective, problem, climbed[-1])
    if hidden is not None and problem.level(hidden.at.privacy) > problem.level(best.privacy):
        best = _handed_out(objective, best, hidden)
    return replace(
        best,
        starts=found.starts + better.starts,
        iterations=found.iterations + better.iterations,
        interrupted=better.interrupted,
    )


def _climb(
    form: StandardForm,
    objective: JointObjective,
    problem: MostPrivacy,
    found: JointResult,
    starts: int,
    seed: int,
    progress: Progress | None,
) -> list[list[Array]]:
    """The X of least loss for growing t, the last within the budget and the first beyond."""
    silent = objective([0 * x for x in found.shrink]).privacy
    highest = problem.level(silent) * (1 - _NEAR_LIMIT)
    level = problem.level(found.privacy)
    result = solve(
        form,
        objective,
        _least_loss(objective, level * problem.weights),
        starts,
        [found.shrink],
        seed,
        progress,
    )
    kept = [found.shrink]
    while not result.interrupted:
        kept = [kept[-1], result.shrink]
        if result.loss > problem.budget or level >= min(highest, FAR):
            break
        level = min(_CLIMB * level, highest)
        target = _least_loss(objective, level * problem.weights)
        result = solve(form, objective, target, 0, [result.shrink], seed, progress)
    return kept
