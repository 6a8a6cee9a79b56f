"""Trading utility for privacy, all agents at once (problem P1; mathematics, section 5).

Above the ceiling privacy costs utility. The joint solver looks for the least loss that reaches the privacy asked,
or the most privacy within a loss; several starts, deterministic, and the plan tells how many of them agreed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import privacy
from veilnet.designs.hiding import Hiding, cheapest_hiding
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.solver import JointResult, least_loss, most_privacy
from veilnet.designs.questions import read_weights
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.designs.withholding import telling_nothing
from veilnet.model.standard_form import StandardForm, standard_form
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict

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
    form = standard_form(network)
    at_limit = [name for name, target in targets.items() if _at_limit(verdict, name, target)]
    if at_limit:
        return _plan_at_limit(verdict, form, at_limit, targets)
    result = least_loss(form, aimed_at(targets), starts=starts, seed=seed, progress=progress)
    asked = np.array([target > 0 for target in targets.values()])
    rivals = [cheapest_hiding(form, asked, seed), _nothing_told(verdict, form, targets)]
    cheaper = [rival for rival in rivals if rival is not None and rival.loss < result.loss]
    if cheaper:
        return hiding_plan(verdict, min(cheaper, key=lambda rival: rival.loss), targets=targets)
    return joint_plan(verdict, result, targets=targets)


def _nothing_told(verdict: Verdict, form: StandardForm, targets: Mapping[str, float]) -> Hiding | None:
    """Everything but what tells of the parameters asked about: the plan at their limits, which serves for less."""
    asked = [name for name, target in targets.items() if target > 0]
    if not all(np.isfinite(verdict.limit[name]) for name in asked):
        return None
    shrink = telling_nothing(form, np.array([name in asked for name in targets]))
    at = JointObjective(form)(shrink)
    return Hiding(shrink, at.loss) if np.all(at.privacy >= aimed_at(targets)) else None


def most_privacy_plan(
    verdict: Verdict,
    loss: float,
    weights: Mapping[str, float] | None = None,
    *,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan with p_j >= t·weights_j for the largest common t, losing at most ``loss``.

    Where no prior limits it, a direction of x may be hidden altogether at a finite loss; if that is allowed,
    it is the answer, and privacy is infinite.
    """
    network = verdict.network
    form = standard_form(network)
    shares = read_weights(network, weights)
    hidden = cheapest_hiding(form, shares > 0, seed)
    if hidden is not None and hidden.loss <= loss * (1 - MARGIN):
        return hiding_plan(verdict, hidden, most_loss=loss)
    result = most_privacy(form, loss * (1 - MARGIN), shares, starts=starts, seed=seed, progress=progress)
    return joint_plan(verdict, result, most_loss=loss)


def hiding_plan(
    verdict: Verdict,
    hidden: Hiding,
    *,
    targets: Mapping[str, float] | None = None,
    most_loss: float | None = None,
) -> Plan:
    """A plan that hides one or more directions of x altogether."""
    return make_plan(
        verdict.network,
        sanitizers_from_shrink(verdict.network, hidden.shrink),
        "joint",
        targets=targets,
        most_loss=most_loss,
        details={"ceiling": dict(verdict.ceiling), "limit": dict(verdict.limit), "hides_directions": True},
    )


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


def _at_limit(verdict: Verdict, name: str, target: float) -> bool:
    """Whether a target is so close to its limit that the margin above it cannot be reached."""
    return 0 < target > verdict.limit[name] * (1 - 10 * MARGIN)


def _plan_at_limit(
    verdict: Verdict, form: StandardForm, at_limit: list[str], targets: Mapping[str, float]
) -> Plan:
    """Everything but what tells of the parameters at their limit; silence where that is not enough."""
    network = verdict.network
    about = np.array([name in at_limit for name in network.private])
    sanitizers = sanitizers_from_shrink(network, telling_nothing(form, about))
    reached = privacy(network, sanitizers)
    if any(reached[name] < target for name, target in targets.items()):
        sanitizers = {
            agent: Sanitizer.silent(rows.shape[0], agent=agent) for agent, rows in network.observe.items()
        }
    details = {"ceiling": dict(verdict.ceiling), "limit": dict(verdict.limit), "tells_nothing_of": at_limit}
    return make_plan(network, sanitizers, "joint", targets=targets, details=details)
