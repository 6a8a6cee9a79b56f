"""Hiding one direction of x altogether: privacy without bound at a finite loss.

Without a prior along z, if U z = 0 and no agent shows it, X_i H_i z = 0, then z cannot be estimated at all, nor
can any private parameter it moves; and among all X that hide z, sending everything else is best for utility
(:mod:`veilnet.designs.joint.hidden`). The least loss over z bounds what any privacy can cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.hidden import hiding, settle
from veilnet.designs.joint.objective import Evaluation, JointObjective
from veilnet.model.standard_form import StandardForm

_TRIALS = 8
_STEPS, _TOLERANCE = 200, 1e-12
_MOVED = 1e-3  # z must move every private parameter that is to be hidden by this much of its raw deviation


@dataclass(frozen=True, eq=False)
class Hiding:
    """X per size group that hides directions of x altogether, and the utility loss it costs."""

    shrink: list[Array]
    loss: float


class _LossAlone:
    """log(1 + loss), and nothing else."""

    def __init__(self, private: int) -> None:
        self._none = np.zeros(private)

    def merit(self, at: Evaluation) -> tuple[float, float, Array]:
        return float(np.log1p(at.loss)), 1.0 / (1.0 + at.loss), self._none


def cheapest_hiding(form: StandardForm, protect: Booleans, seed: int = 0) -> Hiding | None:
    """The direction whose hiding costs least and moves every protected parameter; None when there is none.

    Only directions the prior does not know are candidates.
    """
    blind = null_space(np.concatenate([form.public, form.information]), rcond=1e-9)
    if blind.shape[1] == 0 or not np.any(protect):
        return None
    objective = JointObjective(form)
    problem = _LossAlone(len(form.private))

    def loss(coordinates: Array) -> float:
        return objective(hiding(objective, blind @ coordinates)).loss

    rng = np.random.default_rng(seed)
    trials = np.concatenate([np.eye(blind.shape[1]), rng.standard_normal((_TRIALS, blind.shape[1]))])
    trials /= np.linalg.norm(trials, axis=1)[:, None]
    settled = [
        settle(objective, problem, blind, trial, steps=_STEPS, tolerance=_TOLERANCE)
        for trial in sorted(trials, key=loss)[:_TRIALS]
    ]
    moving = [z for z in settled if _moves(form, blind @ z, protect)]
    if not moving:
        return None
    best = hiding(objective, blind @ min(moving, key=loss))
    return Hiding(best, objective(best).loss)


def _moves(form: StandardForm, direction: Array, protect: Booleans) -> bool:
    return all(
        np.linalg.norm(rows @ direction) > _MOVED
        for rows, wanted in zip(form.private, protect, strict=True)
        if wanted
    )
