"""The whole curve of utility against privacy, each point started from its neighbours."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet._core.progress import Progress, asks_to_stop, silent
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.designs.hiding import Hiding, cheapest_hiding
from veilnet.designs.joint import JointResult, least_loss
from veilnet.designs.perfect import perfect_plan
from veilnet.designs.tradeoff import aimed_at, hiding_plan, joint_plan, least_loss_plan
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form
from veilnet.plans.plan import Plan
from veilnet.verdict.exact_test import Verdict, check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Frontier", "Point", "frontier"]

_POINTS = 20
# How far beyond the ceiling a curve goes when no prior limits it.
_BEYOND_CEILING = 100.0
# A target this close below the limit leaves nothing to optimise: it is reached by telling nothing of g_j.
_NEAR_LIMIT = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class Point:
    """One privacy asked of all private parameters, and what it costs.

    ``method`` is "perfect" where it is free, "joint" where it is not, "infeasible" beyond the limit (then
    utility is NaN and there is no plan).
    """

    asked: float
    utility: float
    privacy: Mapping[str, float]
    method: str
    plan: Plan | None


@dataclass(frozen=True, eq=False)
class Frontier:
    """The least utility loss for each privacy asked, with the ceiling (free up to there) and the limit."""

    network: Network
    rows: tuple[Point, ...]
    ceiling: float
    limit: float

    def table(self) -> str:
        """The points as CSV text."""
        lines = StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        names = list(self.network.private)
        writer.writerow(
            ["privacy_asked", "utility", "utility_loss", *(f"privacy_{n}" for n in names), "method"]
        )
        for point in self.rows:
            reached = [repr(point.privacy.get(name, float("nan"))) for name in names]
            writer.writerow(
                [repr(point.asked), repr(point.utility), repr(0.0 - point.utility), *reached, point.method]
            )
        return lines.getvalue()

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """Utility loss against privacy, ceiling and limit marked; written to ``path`` when one is given."""
        try:
            from matplotlib.figure import Figure
            from matplotlib.ticker import StrMethodFormatter
        except ImportError as error:
            raise MissingExtra('plots need matplotlib: pip install "veilnet[plot]"') from error
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        shown = [point for point in self.rows if point.plan is not None]
        axes.plot(
            [1 + p.asked for p in shown], [-100 * p.utility for p in shown], marker="o", color="tab:blue"
        )
        if np.isfinite(self.ceiling):
            axes.axvline(
                1 + self.ceiling, color="tab:green", linestyle="--", label="free up to here (ceiling)"
            )
        if np.isfinite(self.limit):
            axes.axvline(1 + self.limit, color="tab:red", linestyle=":", label="nothing sent at all (limit)")
        axes.set_xscale("log")
        axes.set_xlabel(f"error variance on {', '.join(self.network.private)} grows at least so many-fold")
        axes.set_ylabel(f"error variance on {', '.join(self.network.public_blocks)}\ngrows by (%)")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure

    def __str__(self) -> str:
        lines = [f"free up to {number(self.ceiling)} (ceiling), at most {number(self.limit)} (limit)"]
        lines += [
            f"privacy {number(p.asked)}: utility loss {100 * -p.utility:.3g} % ({p.method})"
            for p in self.rows
        ]
        return "\n".join(lines)


def frontier(
    network: Network,
    privacy: Sequence[float] | Array | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Frontier:
    """The least utility loss for each privacy in the list, asked of every private parameter alike.

    Without a list: twenty points from half the ceiling to nearly the limit. Points beyond the limit are kept
    and marked infeasible. The curve is monotone: a plan for more privacy serves for less.
    """
    verdict = check(network)
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    asked = _read_levels(privacy, ceiling, limit)
    costly = sorted({level for level in asked if ceiling < level <= limit * _NEAR_LIMIT})
    solved = _solve_all(verdict, costly, seed, progress or silent)
    hidden = (
        cheapest_hiding(standard_form(network), np.ones(len(network.private), bool), seed) if costly else None
    )
    return Frontier(network, tuple(_point(verdict, level, solved, hidden) for level in asked), ceiling, limit)


def _read_levels(privacy: Any, ceiling: float, limit: float) -> list[float]:
    if privacy is None:
        low = 0.5 * ceiling if np.isfinite(ceiling) and ceiling > 0 else 0.1
        high = 0.95 * limit if np.isfinite(limit) else _BEYOND_CEILING * max(2 * low, 1.0)
        return [float(level) for level in np.geomspace(low, max(high, 2 * low), _POINTS)]
    try:
        levels = [float(level) for level in privacy]
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"privacy: expected a list of numbers, found {privacy!r}") from error
    if not levels or not all(np.isfinite(level) and level >= 0 for level in levels):
        raise InvalidRequest(f"privacy: expected finite numbers of at least 0, found {levels}")
    return levels


def _solve_all(
    verdict: Verdict, levels: list[float], seed: int, progress: Progress
) -> dict[float, JointResult]:
    """All points above the ceiling: two of them from many starts, the rest from their neighbours, both ways."""
    if not levels:
        return {}
    form = standard_form(verdict.network)
    solved: dict[float, JointResult] = {}
    anchors = sorted({levels[len(levels) // 2], levels[-1]})
    visits = [*anchors, *reversed(levels), *levels]

    def targets(level: float) -> Array:
        return aimed_at(dict.fromkeys(verdict.network.private, level))

    for done, level in enumerate(visits):
        if asks_to_stop(progress(f"privacy {number(level)}", done / len(visits))) and solved:
            break
        cold = level not in solved and level in anchors
        near = _neighbours(levels, level, solved)
        if cold:
            found = least_loss(form, targets(level), seed=seed)
        elif any(_loses_to(solved.get(level), other, level) for other in near):
            found = least_loss(form, targets(level), warm=[other.shrink for other in near], seed=seed)
        else:
            continue
        if level not in solved or found.loss < solved[level].loss:
            solved[level] = found
        if found.interrupted:
            break
    return solved


def _neighbours(levels: list[float], level: float, solved: Mapping[float, JointResult]) -> list[JointResult]:
    place = levels.index(level)
    return [
        solved[other]
        for other in (*levels[place - 1 : place], *levels[place + 1 : place + 2])
        if other in solved
    ]


def _loses_to(mine: JointResult | None, neighbour: JointResult, level: float) -> bool:
    """Whether starting from the neighbour could improve this point."""
    return mine is None or (neighbour.loss <= mine.loss and bool(np.all(neighbour.privacy >= level)))


def _point(
    verdict: Verdict, level: float, solved: Mapping[float, JointResult], hidden: Hiding | None
) -> Point:
    if level > min(verdict.limit.values()):
        return Point(level, float("nan"), {}, "infeasible", None)
    targets = dict.fromkeys(verdict.network.private, level)
    # A plan for more privacy serves for less: taking the best of them makes the curve monotone.
    best = min((solved[other] for other in solved if other >= level), key=lambda one: one.loss, default=None)
    if level <= min(verdict.ceiling.values()):
        plan = perfect_plan(verdict, targets)
    elif hidden is not None and (best is None or hidden.loss < best.loss):
        plan = hiding_plan(verdict, hidden, targets=targets)
    elif best is not None:
        plan = joint_plan(verdict, best, targets=targets)
    else:
        plan = least_loss_plan(verdict, targets)
    return Point(level, plan.utility, plan.privacy, plan.method, plan)
