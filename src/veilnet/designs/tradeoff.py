"""Trading utility for privacy, all agents at once (problem P1, MATH: section 5).

Above the ceiling privacy costs utility. The joint solver looks for the least loss that reaches the privacy asked,
or the most privacy within a loss; several starts, deterministic, and the plan tells how many of them agreed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._types import Array
from veilnet.asup import Verdict
from veilnet.designs._joint_solver import JointResult, least_loss, most_privacy
from veilnet.designs.requests import read_weights
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.plan import Plan, make_plan
from veilnet.sanitizer import Sanitizer
from veilnet.standard import standard_form

Progress = Callable[[str, float], None]

# Targets are aimed at with this relative margin, so that no rounding on the way to the agents eats into them.
MARGIN = 1e-8


def least_loss_plan(
    verdict: Verdict,
    targets: Mapping[str, float],
    *,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan of least utility loss that reaches every target."""
    network = verdict.network
    if _only_silence_reaches(verdict, targets):
        silent = {agent: Sanitizer.silent(h.shape[0], agent=agent) for agent, h in network.observe.items()}
        return make_plan(network, silent, "joint", targets=targets, details={"starts": 0, "silent": True})
    result = least_loss(
        standard_form(network), aimed_at(targets), starts=starts, seed=seed, progress=progress
    )
    return joint_plan(verdict, result, targets=targets)


def most_privacy_plan(
    verdict: Verdict,
    loss: float,
    weights: Mapping[str, float] | None = None,
    *,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan with p_j >= t·weights_j for the largest common t, losing at most ``loss``."""
    network = verdict.network
    shares = read_weights(network, weights)
    result = most_privacy(
        standard_form(network), loss * (1 - MARGIN), shares, starts=starts, seed=seed, progress=progress
    )
    return joint_plan(verdict, result, most_loss=loss)


def joint_plan(
    verdict: Verdict,
    result: JointResult,
    *,
    targets: Mapping[str, float] | None = None,
    most_loss: float | None = None,
) -> Plan:
    """A joint solution as a certified plan that tells how it was found."""
    return make_plan(
        verdict.network,
        sanitizers_from_shrink(verdict.network, result.shrink),
        "joint",
        targets=targets,
        most_loss=most_loss,
        details={
            "ceiling": dict(verdict.ceiling),
            "limit": dict(verdict.limit),
            "starts": result.starts,
            "starts_agreed": result.agreed,
            "iterations": result.iterations,
            "kkt_residual": result.kkt_residual,
            "interrupted": result.interrupted,
            "history": [list(step) for step in result.history],
        },
    )


def aimed_at(targets: Mapping[str, float]) -> Array:
    """The targets with their margin, in the order of the private parameters."""
    wanted = np.array(list(targets.values()))
    return np.asarray(wanted * (1 + MARGIN))


def _only_silence_reaches(verdict: Verdict, targets: Mapping[str, float]) -> bool:
    return any(
        target > verdict.limit[name] * (1 - 10 * MARGIN) for name, target in targets.items() if target > 0
    )
