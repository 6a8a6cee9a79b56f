"""Hiding one direction of x altogether: privacy without bound at a finite loss.

Without a prior along z, if U z = 0 and no agent shows it, X_i H_i z = 0, then z cannot be estimated at all, nor
can any private parameter it moves; and among all X that hide z, sending everything else is best for utility:

    X_i(z) = I - h_i h_i' / |h_i|²,    h_i = H_i z.

The least loss over z bounds what any privacy can cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize

from veilnet._types import Array, Booleans
from veilnet.designs._joint_objective import JointObjective
from veilnet.standard import StandardForm

_TRIALS = 8
_MOVED = 1e-3  # z must move every private parameter that is to be hidden by this much of its raw deviation


@dataclass(frozen=True, eq=False)
class Hiding:
    """X per size group that hides one direction of x, and the utility loss it costs."""

    shrink: list[Array]
    loss: float


def cheapest_hiding(form: StandardForm, protect: Booleans, seed: int = 0) -> Hiding | None:
    """The direction whose hiding costs least and moves every protected parameter; None when there is none.

    Only directions the prior does not know are candidates.
    """
    blind = null_space(np.concatenate([form.public, form.information]), rcond=1e-9)
    if blind.shape[1] == 0 or not np.any(protect):
        return None
    objective = JointObjective(form)

    def loss(coordinates: Array) -> float:
        direction = blind @ (coordinates / np.linalg.norm(coordinates))
        return float(np.log1p(objective(_hide(objective, direction)).loss))

    rng = np.random.default_rng(seed)
    trials = np.concatenate([np.eye(blind.shape[1]), rng.standard_normal((_TRIALS, blind.shape[1]))])
    best: tuple[float, Array] | None = None
    for trial in sorted(trials, key=loss)[:_TRIALS]:
        settled = minimize(
            loss, trial / np.linalg.norm(trial), method="BFGS", options={"maxiter": 60, "gtol": 1e-7}
        )
        direction = blind @ (settled.x / np.linalg.norm(settled.x))
        moves = all(
            np.linalg.norm(rows @ direction) > _MOVED
            for rows, wanted in zip(form.private, protect, strict=True)
            if wanted
        )
        if moves and (best is None or settled.fun < best[0]):
            best = settled.fun, direction
    if best is None:
        return None
    shrink = _hide(objective, best[1])
    return Hiding(shrink, objective(shrink).loss)


def _hide(objective: JointObjective, direction: Array) -> list[Array]:
    points = []
    for observe in objective.observe_groups:
        shown = observe @ direction
        sizes = np.linalg.norm(shown, axis=1)
        unit = np.where(sizes[:, None] > 1e-12, shown / np.where(sizes > 0, sizes, 1.0)[:, None], 0.0)
        points.append(np.eye(observe.shape[1]) - unit[:, :, None] * unit[:, None, :])
    return points
