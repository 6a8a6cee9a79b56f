"""How a plan fares when its model is off: the centre's public error and what stays private, over many true models.

Each draw makes every entry of H, and every deviation of the noise and the prior, wrong by its own random factor. The
centre goes on fusing with the plan's model; the attacker knows the true one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.validation import as_number
from veilnet.auditing.what_if.wrong_models import WrongModel, random_mistake
from veilnet.plans.plan import Plan

_DRAWS = 200


@dataclass(frozen=True)
class Robustness:
    """Outcomes over random true models.

    error:          by which fraction the model was off.
    draws:          how many true models were tried.
    public_average: the centre's public error variance, as a multiple of what raw readings allow who knows the truth:
                    the average over the draws.
    public_worst:   the same, the worst draw.
    privacy_worst:  p_j per private parameter, the worst draw, against an attacker who knows the true model.
    """

    error: float
    draws: int
    public_average: float
    public_worst: float
    privacy_worst: Mapping[str, float]


def robustness(plan: Plan, error: float, *, draws: int = _DRAWS, seed: int = 0) -> Robustness:
    """Try a plan on random true models that differ from its own by this fraction.

    plan:  the plan; if it was made for an error of the model, draws are around the model as it was stated.
    error: deviation of the relative errors, 0.05 for 5 %.
    draws: how many true models.
    seed:  of the draws: the same seed tries two plans for one network on the same true models.
    """
    size = as_number(error, "error", error=InvalidRequest)
    rng = np.random.default_rng([seed, 4])
    model = WrongModel(plan.network, plan.sanitizers)
    outcomes = model.outcomes(random_mistake(plan.network, rng, size) for _ in range(draws))
    public = [1.0 + outcome.public_loss for outcome in outcomes]
    return Robustness(
        error=size,
        draws=len(outcomes),
        public_average=float(np.mean(public)),
        public_worst=max(public),
        privacy_worst={
            name: min(outcome.privacy[name] for outcome in outcomes) for name in plan.network.private
        },
    )
