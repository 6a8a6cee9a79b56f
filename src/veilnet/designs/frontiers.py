"""The whole curve of utility against privacy, each point started from its neighbours."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.progress import Progress, Watched
from veilnet._core.spelling import names_keywords
from veilnet._core.types import Array
from veilnet._core.validation import expect
from veilnet._core.words import join_names, number, times
from veilnet.bounds.detectability import Detector
from veilnet.designs.choice import design, tradeoff_of
from veilnet.designs.floors import FlooredCurve
from veilnet.designs.joint import SearchOptions
from veilnet.designs.perfect import perfect_plan
from veilnet.designs.proved import proved_plan, quickly_proved, refuse_proof_of_streams
from veilnet.designs.questions import (
    Times,
    read_asked,
    read_count,
    read_gap,
    refuse_public_and_private,
    refuse_worst,
)
from veilnet.designs.secrets import SeenAtMost
from veilnet.designs.tradeoff import Tradeoff
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, with_its_dither
from veilnet.sums.merging import SumGroups, merged, read_summed
from veilnet.verdict.exact_test import Verdict, check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LITTLE, _MUCH = 1.1, 1.5  # times a private and a public error between two points: more is a cliff
_POINTS = 20
_POINTS_OR_LIST = "points: it counts points where no list is given; leave it out, or privacy="
# How far beyond the ceiling a curve goes when no prior limits it.
_BEYOND_CEILING = 100.0


@dataclass(frozen=True, eq=False)
class Point:
    """One privacy asked of all private parameters, or how surely changes may be seen, and what it costs.

    asked:   the privacy asked of every private parameter; of secrets what was asked in its place, an AUC of 0.6 say.
    utility: the paper's u <= 0 of the plan; NaN where there is none.
    privacy: p_j that the plan reaches, per private parameter.
    method:  "perfect" where it is free, "joint" where it is not, "infeasible" beyond the limit.
    plan:    what each agent sends; None where it is infeasible.
    borrowed: whether its plan was made for more privacy and costs less than its own: a proof is of that level then.
    """

    asked: float
    utility: float
    privacy: Mapping[str, float]
    method: str
    plan: Plan | None
    borrowed: bool = False

    @classmethod
    def of(cls, asked: float, plan: Plan | None, *, borrowed: bool = False) -> Point:
        """What a plan reaches.

        asked, borrowed: as above.
        plan: None where there is none.
        """
        if plan is None:
            return cls(asked, float("nan"), {}, "infeasible", None)
        return cls(asked, plan.utility, dict(plan.privacy), plan.method, plan, borrowed)

    @property
    def gap(self) -> float:
        """How far above the least possible loss it can be at most, relative; inf where nothing is proved."""
        return np.inf if self.plan is None or self.borrowed else self.plan.gap

    @property
    def bound(self) -> float:
        """A loss that no design for this privacy undercuts; 0 if nothing is proved."""
        return 0.0 - self.utility / (1 + self.gap) if self.gap < np.inf else 0.0


@dataclass(frozen=True, eq=False)
class Frontier:
    """The least utility loss for each privacy asked of every private parameter alike, or of the changes of secrets.

    network:     the model.
    rows:        the points, in the order of the privacy asked.
    ceiling:     the privacy up to which it is free, the smallest over the private parameters; of secrets, how surely
                 their changes are seen where nothing is lost.
    limit:       the privacy that even silence does not exceed, likewise; of secrets, what guessing reaches.
    interrupted: whether the search was stopped before it had every point; those in ``rows`` keep their promises.
    seen:        of secrets, name -> one of the targets asked of them, which tells the measure; empty otherwise.
    """

    network: Network
    rows: tuple[Point, ...]
    ceiling: float
    limit: float
    interrupted: bool = False
    seen: Mapping[str, SeenAtMost] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """What is asked of secrets, "AUC of presence"; nothing where growths of errors are asked."""
        word = next((each.word for each in self.seen.values()), "")
        return f"{word} of {join_names(list(self.seen))}" if word else ""

    def level(self, asked: float) -> str:
        """What is asked, in words: "3x or more", "AUC of presence 0.6 or less".

        asked: of a point.
        """
        return f"{self.measure} {number(asked)} or less" if self.seen else f"{times(1 + asked)} or more"

    @property
    def free_in_words(self) -> str:
        """What is free, and what silence would give."""
        if self.seen:
            return (
                f"For free, the {self.measure} is {number(self.ceiling)} at most; if nothing were sent, it would be "
                f"{number(self.limit)}, which is guessing."
            )
        return (
            f"For free, the standard error of {join_names(list(self.network.private))} grows at least "
            f"{times(1 + self.ceiling)}; if nothing were sent, {times(1 + self.limit)}."
        )

    @property
    def cliff(self) -> str:
        """Where a little more privacy costs very much, in words; nothing where it does so nowhere."""
        if self.seen:
            return ""
        points = sorted((each for each in self.rows if each.plan is not None), key=lambda each: each.asked)
        for low, high in pairwise(points):
            private, public = (1 + high.asked) / (1 + low.asked), (1 - high.utility) / (1 - low.utility)
            if private <= _LITTLE**2 and public >= _MUCH**2:
                prices = [
                    f"where the private error grows {times(1 + each.asked)}, the public one grows "
                    f"{times(1 - each.utility)}"
                    for each in (low, high)
                ]
                return f"Beware of a cliff: {'; '.join(prices)}."
        return ""

    def _drawn(self, asked: float) -> float:
        """Where a plot shows it: a growth p as a ratio of standard errors, what is asked of secrets as it is."""
        return asked if self.seen else float(np.sqrt(1 + asked))

    @property
    def free(self) -> tuple[Point, ...]:
        """The points that cost nothing: all of them are one plan, the one without loss."""
        return tuple(point for point in self.rows if point.method == "perfect")

    def table(self) -> str:
        """The points as CSV text."""
        lines = StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        names, seen = list(self.network.private), list(self.seen)
        first = self.measure or "privacy_asked"
        reached = [f"privacy_{name}" for name in names] + [f"auc_{name}" for name in seen]
        writer.writerow([first, "utility", "utility_loss", *reached, "method", "gap"])
        for point in self.rows:
            found = point.plan.detectability if point.plan is not None and seen else {}
            aucs = [found[name].longest.auc if name in found else np.nan for name in seen]
            values = [point.asked, point.utility, 0.0 - point.utility]
            values += [*(point.privacy.get(name, np.nan) for name in names), *aucs]
            writer.writerow([*(repr(float(each)) for each in values), point.method, repr(point.gap)])
        return lines.getvalue()

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """Utility loss against privacy: what is free as a region, what costs something as a curve from its edge.

        path: where to write the figure too, .svg, .png or .pdf; nowhere when left out.
        """
        try:
            from matplotlib.figure import Figure
            from matplotlib.ticker import StrMethodFormatter
        except ImportError as error:
            raise missing_extra("plots need matplotlib", "plot") from error
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        shown = sorted(
            (point for point in self.rows if point.plan is not None and point.method != "perfect"),
            key=lambda point: -point.asked if self.seen else point.asked,
        )
        drawn = self._drawn
        edge = [drawn(self.ceiling)] if np.isfinite(self.ceiling) and shown else []
        axes.plot(
            [*edge, *(drawn(p.asked) for p in shown)],
            [*(0.0 for _ in edge), *(_larger(-p.utility) for p in shown)],
            marker="o",
            color="tab:blue",
            markevery=list(range(len(edge), len(edge) + len(shown))),
        )
        if any(point.plan is not None and point.plan.proof is not None for point in shown):
            axes.fill_between(
                [drawn(p.asked) for p in shown],
                [_larger(p.bound) for p in shown],
                [_larger(-p.utility) for p in shown],
                color="tab:blue",
                alpha=0.2,
                label="the best possible lies in here (proved)",
            )
        if self.seen:
            axes.invert_xaxis()  # further right is more private
        else:
            axes.set_xscale("log")
        if np.isfinite(self.ceiling):
            asked = [drawn(p.asked) for p in self.rows]
            end = drawn(self.ceiling)
            start = max([*asked, end]) if self.seen else min([*asked, end])
            if start != end:
                reach = f"down to {number(self.ceiling)}" if self.seen else f"up to {times(1 + self.ceiling)}"
                axes.axvspan(
                    start, end, color="tab:green", alpha=0.15, label=f"free: {reach} nothing is lost"
                )
            axes.axvline(end, color="tab:green", linestyle="--")
        if np.isfinite(self.limit):
            axes.axvline(
                drawn(self.limit), color="tab:red", linestyle=":", label="nothing sent at all (limit)"
            )
        axes.set_ylim(bottom=0.0)
        grows = f"standard error of {', '.join(self.network.private)}, times the raw one, at least"
        axes.set_xlabel(f"{self.measure}, at most (best detector)" if self.seen else grows)
        axes.set_ylabel(f"standard error of {', '.join(self.network.public)}\ngrows by (%)")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure

    def __str__(self) -> str:
        public = join_names(list(self.network.public))
        lines = [self.free_in_words]
        for point in self.rows:
            if point.plan is None:
                lines.append(f"- {self.level(point.asked)}: impossible, not even silence hides so much")
            elif point.method != "perfect":
                grows = times(1 - point.utility)
                lines.append(f"- {self.level(point.asked)}: the standard error of {public} grows {grows}")
        lines += [self.cliff] if self.cliff else []
        if self.interrupted:
            lines.append(f"The search was interrupted: these are the {len(self.rows)} points found so far.")
        return "\n".join(lines)


def _larger(variance: float) -> float:
    """By how many percent a standard error grows whose variance grows by this part."""
    return 100 * (float(np.sqrt(1 + variance)) - 1)


@names_keywords
def frontier(
    network: Network,
    privacy: Sequence[float | Times | Mapping[str, SeenAtMost]] | Array | None = None,
    *,
    points: int | None = None,
    seed: int = 0,
    prove: bool | float = False,
    summed: bool | Sequence[Sequence[str]] | Mapping[str, Sequence[str]] | SumGroups | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The least utility loss for each privacy in the list, asked of every private parameter alike.

    network:  the model.
    privacy:  the list, of p or of ``vn.Times(2)``; when left out, twenty points from the ceiling, the most that is
              free, to nearly the limit. Of secrets ``[{"presence": Auc(0.9)}, {"presence": Auc(0.6)}]``: the same
              names and the same measure in each; all other parameters keep what is free of them.
    points:   how many in place of twenty.
    seed:     of the joint search.
    prove:    try longer to prove how far each point is from the best possible, as in :func:`veilnet.design`; what
              some tenths of a second prove is there without.
    summed:   the centre sees only sums of messages, as in :func:`veilnet.design`.
    progress: called with (what is being done, fraction done); returning False stops the search, and the points
              found so far are returned in a frontier marked as interrupted.

    Points beyond the limit are kept and marked infeasible. Each point is what :func:`design` answers for it,
    whatever else is in the list, but for this: a plan for more privacy serves for less, so the curve is monotone.
    """
    expect(network, Network, "network")
    refuse_public_and_private(network)
    groups = read_summed(summed)
    if groups is not None:
        network = merged(network, groups)
    seed = read_count(seed, "seed", least=0)
    if isinstance(privacy, Sequence):
        privacy = [each.growth if isinstance(each, Times) else each for each in privacy]
    if isinstance(privacy, Sequence) and any(isinstance(each, Mapping | SeenAtMost) for each in privacy):
        if points is not None:
            raise InvalidRequest(_POINTS_OR_LIST)
        return _frontier_of_secrets(network, _read_secrets(network, privacy), seed, prove, progress)
    return with_its_dither(network, lambda tried: _frontier(tried, privacy, points, seed, prove, progress))


def sketched(network: Network, levels: Sequence[float], progress: Progress | None) -> Frontier:
    """A frontier to look at; that of a large stream is followed from what is free, level by level."""
    return with_its_dither(
        network, lambda tried: _frontier(tried, levels, None, 0, False, progress, sketch=network.is_stream)
    )


def _frontier(
    network: Network,
    privacy: Sequence[Any] | Array | None,
    points: int | None,
    seed: int,
    prove: bool | float,
    progress: Progress | None,
    sketch: bool = False,
) -> Frontier:
    verdict = check(network)
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    if privacy is not None and points is not None:
        raise InvalidRequest(_POINTS_OR_LIST)
    count = _POINTS if points is None else read_count(points, "points", least=2)
    asked = _default_levels(count, ceiling, limit) if privacy is None else _read_levels(privacy)
    wanted = read_gap(prove)
    if wanted is not None and network.is_stream:
        refuse_proof_of_streams()
    watch = Watched(progress)
    plans = _plans(verdict, asked, SearchOptions(seed=seed, progress=watch, sketch=sketch), watch)
    rows = [_point(level, plans) for level in asked if level in plans]
    if not watch.stopped:
        rows = [_proved(point, wanted, seed) for point in rows]
    return Frontier(verdict.network, tuple(rows), ceiling, limit, watch.stopped)


def _read_secrets(network: Network, privacy: Sequence[Any]) -> list[dict[str, SeenAtMost]]:
    """What is asked at each point: one target for the same secrets."""
    asked = [
        dict.fromkeys(network.private, each) if isinstance(each, SeenAtMost) else each for each in privacy
    ]
    alike = all(
        isinstance(each, Mapping)
        and len(set(each.values())) == 1
        and all(isinstance(target, SeenAtMost) for target in each.values())
        for each in asked
    )
    kinds = {replace(target, most=0.9) for each in asked for target in each.values()} if alike else set()
    if len(kinds) != 1 or any(set(each) != set(asked[0]) for each in asked):
        raise InvalidRequest(
            "privacy: expected a list of numbers, or of {name: Auc(...)} with the same names and the same measure in "
            f"each, found {privacy!r}"
        )
    for each in asked:
        read_asked(network, each)
    return asked


def _frontier_of_secrets(
    network: Network,
    asked: list[dict[str, SeenAtMost]],
    seed: int,
    prove: bool | float,
    progress: Progress | None,
) -> Frontier:
    free = design(network)
    kind = next(iter(asked[0].values()))
    for_free = max(each.longest.mu for name, each in free.detectability.items() if name in asked[0])
    levels = [next(iter(each.values())).most for each in asked]
    plans: dict[float, Plan | None] = {}  # by minus the level: less of it is more privacy
    watch = Watched(progress)
    for place, (level, each) in enumerate(zip(levels, asked, strict=True)):
        watch.start, watch.part = place / len(asked), 1 / len(asked)
        try:
            plans[-level] = design(free.network, each, seed=seed, prove=prove, progress=watch)
        except Infeasible:
            plans[-level] = None
        if watch.stopped:
            break
    rows = [replace(_point(-level, plans), asked=level) for level in levels if -level in plans]
    ceiling, limit = kind.reached(Detector(for_free)), kind.by_guessing
    return Frontier(free.network, tuple(rows), ceiling, limit, watch.stopped, asked[0])


def _proved(point: Point, gap: float | None, seed: int) -> Point:
    """The point with a proof of its gap, where it is not closed already: a quick one where no gap is asked for."""
    if point.plan is None or point.borrowed or point.gap <= (gap or 0.0):
        return point
    plan = quickly_proved(point.plan) if gap is None else proved_plan(point.plan, gap, seed=seed)
    return Point.of(point.asked, plan)


def _default_levels(count: int, ceiling: float, limit: float) -> list[float]:
    """From the ceiling, the most that is free, to nearly the limit."""
    low = float(ceiling) if np.isfinite(ceiling) and ceiling > 0 else 0.1
    high = low + 0.95 * (limit - low) if np.isfinite(limit) else _BEYOND_CEILING * max(low, 1.0)
    levels = np.geomspace(low, max(high, low), count)
    levels[0] = low  # to the last bit: a little above the ceiling is not free
    return [float(level) for level in levels]


def _read_levels(privacy: Any) -> list[float]:
    for level in privacy if isinstance(privacy, Sequence) else [privacy]:
        refuse_worst(level, "privacy")
    try:
        levels = [float(level) for level in privacy]
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"privacy: expected a list of numbers, found {privacy!r}") from error
    if not levels or not all(np.isfinite(level) and level >= 0 for level in levels):
        raise InvalidRequest(f"privacy: expected finite numbers of at least 0, found {levels}")
    return levels


def _plans(
    verdict: Verdict, asked: list[float], options: SearchOptions, watch: Watched
) -> dict[float, Plan | None]:
    """Level -> plan from one curve, None where it is beyond the limit; of a search that was stopped those it had."""
    limit, ceiling = min(verdict.limit.values()), min(verdict.ceiling.values())
    levels = sorted({level for level in asked if level <= limit})
    plans: dict[float, Plan | None] = {level: None for level in asked if level > limit}
    names = list(verdict.network.private)
    tradeoff: Tradeoff | None = None
    curve: FlooredCurve | None = None
    for place, level in enumerate(levels):
        wanted = Asked(dict.fromkeys(names, level))
        if level <= ceiling:
            plans[level] = perfect_plan(verdict, wanted, gap_privacy=options.gap_privacy)
            continue
        # Of a level the search itself cannot say how far it is.
        watch.prefix, watch.start, watch.part = f"privacy {number(level)}: ", place / len(levels), 0.0
        if watch("begun", 0.0) is False:
            break
        if tradeoff is None or curve is None:
            tradeoff = tradeoff_of(verdict, options)
            curve = tradeoff.curve(np.ones(len(names)), {})
        found = tradeoff.least_loss(wanted, curve)
        if watch.stopped:  # what a search had found when it was stopped may cost many times too much
            break
        plans[level] = found
    return plans


def through(curve: Frontier, plan: Plan) -> Frontier:
    """The curve with a plan on it, and no point above what that plan serves for; of secrets it stays as it is.

    A search may miss what another one found: a plan that is known says what its privacy costs at most.
    """
    level = min(plan.privacy.values())
    if curve.seen or not curve.ceiling < level <= curve.limit:
        return curve
    plans = {point.asked: point.plan for point in curve.rows}
    known = plans.get(level)
    if known is None or known.utility < plan.utility:
        plans[level] = plan
    return replace(curve, rows=tuple(_point(each, plans) for each in sorted(plans)))


def _point(level: float, plans: Mapping[float, Plan | None]) -> Point:
    """The cheapest plan for a level or for more of it."""
    own = plans[level]
    if own is None:
        return Point.of(level, None)
    rivals = [plan for other, plan in plans.items() if other > level and plan is not None]
    best = max([own, *rivals], key=lambda plan: plan.utility)
    return Point.of(level, best, borrowed=best is not own and best.method != "perfect")
