"""What each figure of section VII measures on one draw, as rows of numbers.

Utility against privacy is by Algorithm 3, and by the joint solver from a few starts; both answers are measured again
from the network and the sanitizers they mean, by the definition of u and p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

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


Row = tuple[float, ...]


@dataclass(frozen=True)
class Figure:
    """One figure: the columns of its table and the measurement of one draw."""

    name: str
    columns: tuple[str, ...]
    measure: Callable[[Settings, int], list[Row]]


def _most_privacy(settings: Settings, number: int, *, prior: bool) -> list[Row]:
    """Ceiling, limit, exact test, printed theorem and free directions for every S and U."""
    drawn = draw(settings, number)
    rows: list[Row] = []
    for agents, public_rows in product(settings.agents, settings.public_rows):
        network = network_of(drawn, agents, public_rows, prior=prior)
        verdict = check(network)
        ranks, printed = verdict.shares.ranks, bool(verdict.printed_theorem.achievable)
        most = (verdict.ceiling[PRIVATE], verdict.limit[PRIVATE], int(verdict.achievable), int(printed))
        stuck = int(np.sum(ranks == network.blocks.sizes))
        rows.append((number, agents, public_rows, *most, int(network.N - ranks.sum()), stuck))
    return rows


figure_1 = partial(_most_privacy, prior=False)
figure_2 = partial(_most_privacy, prior=True)


def figure_3(settings: Settings, number: int) -> list[Row]:
    """Utility loss against threshold: Algorithm 3 and the joint solver; one more row at the draw's ceiling.

    The first draws also have the loss of Algorithm 3 after ``long_sweeps``; it is NaN in the others.
    """
    rows: list[Row] = []
    for agents in settings.tradeoff_agents:
        problem = case(settings, number, agents)
        sweeps = settings.tradeoff_sweeps
        found = {level: by_alternating(problem, level, sweeps) for level in settings.thresholds}
        joint = joint_curve(settings, number, agents, found)
        # At the ceiling the joint answer is the closed form: no loss at all.
        own = by_alternating(problem, problem.ceiling, sweeps)
        points = [
            *((level, 0, found[level], joint[level]) for level in found),
            (problem.ceiling, 1, own, 0.0),
        ]
        for threshold, at_ceiling, answer, least in points:
            longer = by_alternating_for_long(settings, number, agents, threshold)
            loss, long_loss = (
                np.nan if each is None else measured_loss(problem, each.shrink, threshold)
                for each in (answer, longer)
            )
            place = (number, agents, threshold, at_ceiling, problem.ceiling, problem.limit)
            rows.append((*place, loss, least, long_loss))
    return rows


def figure_4(settings: Settings, number: int) -> list[Row]:
    """Loss and privacy after each sweep of Algorithm 3 and each outer iteration of the joint solver.

    The joint solver's last row is its answer; iterations before it may still miss the threshold. Where the
    threshold is free it needs no iteration: its only row is the closed form.
    """
    threshold = settings.sweep_threshold
    rows: list[Row] = []
    for agents in settings.tradeoff_agents:
        problem = case(settings, number, agents)
        found = by_alternating_for_long(settings, number, agents, threshold)
        if found is None:
            found = by_alternating(problem, threshold, settings.sweeps)
        joint = by_joint(settings, number, agents, threshold)
        steps: list[tuple[float, float]] = []
        if joint is not None:
            last = measured_loss(problem, joint.shrink, threshold)
            steps = [(loss, level * threshold) for loss, level in joint.history]
            steps.append((last, float(joint.privacy[0])))
        elif threshold <= problem.ceiling:
            steps = [(0.0, problem.ceiling)]
        sweeps = [] if found is None else [(s.loss, float(s.privacy[0])) for s in found.sweeps]
        for iteration in range(max(len(sweeps), len(steps))):
            alternating = sweeps[iteration] if iteration < len(sweeps) else (np.nan, np.nan)
            jointly = steps[iteration] if iteration < len(steps) else (np.nan, np.nan)
            rows.append((number, agents, iteration, problem.ceiling, *alternating, *jointly))
    return rows


_MOST_PRIVACY = (
    "draw", "agents", "public_rows", "ceiling", "limit", "achievable", "printed_theorem", "free_directions",
    "agents_without_freedom",
)  # fmt: skip
_TRADEOFF = (
    "draw", "agents", "threshold", "at_ceiling", "ceiling", "limit", "alternating_loss", "joint_loss", "long_loss",
)  # fmt: skip
_ITERATIONS = (
    "draw", "agents", "iteration", "ceiling", "alternating_loss", "alternating_privacy", "joint_loss",
    "joint_privacy",
)  # fmt: skip

FIGURES = {
    figure.name: figure
    for figure in (
        Figure("fig1", _MOST_PRIVACY, figure_1),
        Figure("fig2", _MOST_PRIVACY, figure_2),
        Figure("fig3", _TRADEOFF, figure_3),
        Figure("fig4", _ITERATIONS, figure_4),
    )
}
