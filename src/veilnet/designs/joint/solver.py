"""Trading utility for privacy, all agents at once (mathematics, section 5): the two questions one can ask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet.designs.joint.curve import JointCurve
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import MostPrivacy
from veilnet.designs.joint.search import JointResult, least_loss_problem, solve
from veilnet.designs.joint.telling import SearchOptions, Teller
from veilnet.model.standard_form import StandardForm

__all__ = ["JointResult", "least_loss", "most_privacy"]


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
    """Largest t with p_j >= t weights_j at a utility loss of at most ``loss``; ``warm`` as in :func:`least_loss`."""
    if warm:
        objective = JointObjective(form)
        problem = MostPrivacy(loss, np.asarray(weights, dtype=np.float64))
        return solve(form, objective, problem, starts or 0, warm, seed, Teller(progress))
    return JointCurve(form, weights, SearchOptions(starts, seed, progress)).within(loss)
