"""What each figure of section VII measures on one draw, as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from veilnet.paper.settings import PRIVATE, Settings, draw, network_of
from veilnet.paper.tradeoff import (
    by_alternating,
    by_alternating_for_long,
    by_joint,
    case,
    joint_curve,
    measured_loss,
)
from veilnet.verdict.exact_test import check

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
    for agents in settings.agents:
        for public_rows in settings.public_rows:
            network = network_of(drawn, agents, public_rows, prior=prior)
            verdict = check(network)
            ranks = verdict.shares.ranks
            rows.append(
                (
                    number,
                    agents,
                    public_rows,
                    verdict.ceiling[PRIVATE],
                    verdict.limit[PRIVATE],
                    int(verdict.achievable),
                    int(bool(verdict.printed_theorem.achievable)),
                    int(network.N - ranks.sum()),
                    int(np.sum(ranks == network.blocks.sizes)),
                )
            )
    return rows


def figure_1(settings: Settings, number: int) -> list[Row]:
    """Most privacy at perfect utility without prior information."""
    return _most_privacy(settings, number, prior=False)


def figure_2(settings: Settings, number: int) -> list[Row]:
    """Most privacy at perfect utility with prior information, and ε^max."""
    return _most_privacy(settings, number, prior=True)


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
    "draw",
    "agents",
    "public_rows",
    "ceiling",
    "limit",
    "achievable",
    "printed_theorem",
    "free_directions",
    "agents_without_freedom",
)
_TRADEOFF = (
    "draw",
    "agents",
    "threshold",
    "at_ceiling",
    "ceiling",
    "limit",
    "alternating_loss",
    "joint_loss",
    "long_loss",
)
_ITERATIONS = (
    "draw",
    "agents",
    "iteration",
    "ceiling",
    "alternating_loss",
    "alternating_privacy",
    "joint_loss",
    "joint_privacy",
)

FIGURES = {
    figure.name: figure
    for figure in (
        Figure("fig1", _MOST_PRIVACY, figure_1),
        Figure("fig2", _MOST_PRIVACY, figure_2),
        Figure("fig3", _TRADEOFF, figure_3),
        Figure("fig4", _ITERATIONS, figure_4),
    )
}
