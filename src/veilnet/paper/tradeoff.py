"""Utility against privacy for one draw: Algorithm 3, and the joint solver from a few starts.

Both answers are measured again from the network and the sanitizers they mean, by the definition of u and p.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import Array
from veilnet.bounds.knowledge import knowledge
from veilnet.designs.joint import JointResult, least_loss
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.model.standard_form import StandardForm, standard_form
from veilnet.paper.alternating import AlternatingResult, alternate
from veilnet.paper.settings import PRIVATE, Settings, draw, network_of
from veilnet.verdict.exact_test import Verdict, check

# Aimed at this much more than asked, so that rounding on the way to the sanitizers does not fall short.
_MARGIN = 1e-8


@dataclass(frozen=True, eq=False)
class Case:
    """One draw with so many agents, in standard form, with its ceiling and limit."""

    verdict: Verdict
    form: StandardForm

    @property
    def ceiling(self) -> float:
        """Most privacy at perfect utility."""
        return self.verdict.ceiling[PRIVATE]

    @property
    def limit(self) -> float:
        """ε^max, the privacy if nothing were sent."""
        return self.verdict.limit[PRIVATE]


@lru_cache(maxsize=8)
def case(settings: Settings, number: int, agents: int) -> Case:
    """The network of figures 3 and 4; kept, since both figures ask for it."""
    network = network_of(draw(settings, number), agents, settings.tradeoff_public_rows, prior=True)
    return Case(check(network), standard_form(network))


def by_alternating(problem: Case, threshold: float, sweeps: int) -> AlternatingResult | None:
    """Algorithm 3; None where the prior already tells more than the threshold allows."""
    if threshold > problem.limit:
        return None
    return alternate(problem.form, np.array([threshold * (1 + _MARGIN)]), sweeps=sweeps)


@lru_cache(maxsize=16)
def by_alternating_for_long(
    settings: Settings, number: int, agents: int, threshold: float
) -> AlternatingResult | None:
    """Algorithm 3 for ``long_sweeps``; None for draws that are not run for long, and where out of reach.

    Kept: the threshold of figure 4 is one of those of figure 3.
    """
    if number >= settings.long_draws:
        return None
    return by_alternating(case(settings, number, agents), threshold, settings.long_sweeps)


@lru_cache(maxsize=8)
def by_joint(settings: Settings, number: int, agents: int, threshold: float) -> JointResult | None:
    """The joint solver from its own starts; None where privacy is free or out of reach.

    Kept: the threshold of figure 4 is one of those of figure 3.
    """
    problem = case(settings, number, agents)
    if not _costs(problem, threshold):
        return None
    return least_loss(problem.form, _target(threshold), starts=settings.starts)


def joint_curve(
    settings: Settings, number: int, agents: int, alternating: Mapping[float, AlternatingResult | None]
) -> dict[float, float]:
    """Threshold -> least loss found; 0 where it is free, NaN where it is out of reach.

    ``alternating`` has what Algorithm 3 ended with, per threshold. From the largest threshold down: that one from the
    solver's own starts and from Algorithm 3's answer, each other from the one above it, figure 4's also from the
    solver's own. A plan for more privacy serves for less, so the best of those above counts.
    """
    problem = case(settings, number, agents)
    losses: dict[float, float] = {}
    above: JointResult | None = None
    for level in sorted((each for each in alternating if _costs(problem, each)), reverse=True):
        answer = alternating[level] if above is None else above
        found = [least_loss(problem.form, _target(level), warm=[answer.shrink])] if answer else []
        if above is None or level == settings.sweep_threshold:
            own = by_joint(settings, number, agents, level)
            found += [own] if own else []
        above = min(found, key=lambda result: result.loss)
        losses[level] = measured_loss(problem, above.shrink, level)
    curve = {}
    for level in alternating:
        if level > problem.limit:
            curve[level] = float("nan")
        elif level <= problem.ceiling:
            curve[level] = 0.0
        else:
            curve[level] = min(loss for other, loss in losses.items() if other >= level)
    return curve


def measured_loss(problem: Case, shrink: list[Array], threshold: float) -> float:
    """Utility loss of what agents would send, by the definition; InvalidPlan if its privacy falls short."""
    network = problem.verdict.network
    known = knowledge(network, sanitizers_from_shrink(network, shrink))
    reached = known.growth(network.private[PRIVATE])
    if reached < threshold:
        raise InvalidPlan(f"privacy: {threshold:.12g} was asked for, {reached:.12g} is reached")
    return known.growth(network.U)


def _costs(problem: Case, threshold: float) -> bool:
    return problem.ceiling < threshold <= problem.limit


def _target(threshold: float) -> Array:
    return np.array([threshold * (1 + _MARGIN)])
