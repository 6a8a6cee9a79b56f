"""Where the loss hardly rises with privacy: near the price of a plan that serves at every level.

Hiding a direction of x altogether has a price, and on the way there loss = price - a/p: between p = 1000 and p = 2000
the loss may differ in its fifth digit only. A search that is content with four finds some p between the two, and the
largest privacy that a loss buys is lost in its rounding. So there the loss is weighed by the part of the price that
is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from veilnet._core.progress import Teller
from veilnet._core.types import Array
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.search import RowRace
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.snap import Finished
from veilnet.designs.joint.starts import share_projectors

_LEAST_PART = 1e-9  # of a plan in a mixture: less is rounding


def sharpened(
    objective: JointObjective, problem: LeastLoss, found: JointResult, serving: Finished, tell: Teller
) -> JointResult:
    """The result for ``problem``, or a better one where it saves next to nothing of the price of ``serving``."""
    price = serving.at.loss
    if price <= 0:  # it costs nothing: there is nothing to save
        return found
    if found.loss < price * (1 - SETTINGS.flat_part) or not problem.safe(serving.at):
        return found
    best = as_it_is(objective, found.shrink)
    mixed = between(objective, problem, share_projectors(objective), serving.shrink)
    if mixed.at.loss < best.at.loss or not problem.safe(best.at):
        best = mixed
    iterations = found.iterations
    for turn, margin in enumerate(SETTINGS.sharp_margins):
        saved = price - best.at.loss
        sharp = problem.sharper(min(price / max(saved, np.finfo(float).tiny), SETTINGS.sharpest))
        race = RowRace(objective, sharp, tell)
        race.polish([best.shrink], margin, steps=SETTINGS.polish[1])
        reached = as_it_is(objective, race.best()[0].shrink)
        iterations += sum(run.iterations for run in race.runs)
        if problem.safe(reached.at) and reached.at.loss < best.at.loss:
            best = reached
        if turn > 0 and price - best.at.loss < saved * (1 + SETTINGS.worth_saving):
            break
    if best.at.loss >= found.loss:
        return found
    privacy = objective.with_infinities(best.shrink, best.at.privacy)
    return replace(found, shrink=best.shrink, loss=best.at.loss, privacy=privacy, iterations=iterations)


def between(objective: JointObjective, problem: LeastLoss, low: list[Array], high: list[Array]) -> Finished:
    """The plan nearest to ``low``, which may hide too little, on the way to ``high``, which hides enough."""

    def mixed(part: float) -> Finished:
        return as_it_is(objective, [(1 - part) * x + part * y for x, y in zip(low, high, strict=True)])

    def refined(start: float, end: float, rest: Callable[[float], float]) -> Finished:
        """Bisection until what is left of the nearer end is known to the tolerance."""
        plan = mixed(end)
        while end - start > SETTINGS.between_tolerance * max(rest(end), _LEAST_PART):
            middle = (start + end) / 2
            tried = mixed(middle)
            if problem.safe(tried.at):
                end, plan = middle, tried
            else:
                start = middle
        return plan

    if problem.safe(mixed(0.5).at):
        return refined(0.0, 0.5, lambda part: part)
    return refined(0.5, 1.0, lambda part: 1 - part)


def as_it_is(objective: JointObjective, shrink: list[Array]) -> Finished:
    """A plan and its loss, whatever it reaches."""
    at = objective(shrink)
    return Finished(shrink, at, float(np.log(max(at.loss, np.finfo(float).tiny))))
