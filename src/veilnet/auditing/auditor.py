"""Runs the sections of an audit one after the other and gathers their rows into a report."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet._core.progress import Progress, Stopped, silent, within
from veilnet._core.threads import one_thread
from veilnet._core.validation import as_number, refuse_unknown
from veilnet.auditing.baselines import Baseline
from veilnet.auditing.deployed.deployment import Deployment, Mechanism, deployment
from veilnet.auditing.ledger import Ledger, verify_ledger
from veilnet.auditing.measures import read_limits
from veilnet.auditing.report import LEFT_OUT, AuditReport, Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, part_of
from veilnet.plans.plan import Plan

if TYPE_CHECKING:
    from veilnet.auditing.attack.held_out import Samples

__all__ = ["Audit", "audit"]

Advance = Callable[[float], None]
Step = Callable[[Advance], list[Row]]


@dataclass(frozen=True, eq=False)
class Audit(AuditReport):
    """A report with the baselines that were computed for it, for :func:`plot_baselines`."""

    baselines: tuple[Baseline, ...] = ()


def audit(
    plan: Plan,
    data: Any = None,
    *,
    sanitizers: Mapping[str, Mechanism] | None = None,
    seed: int = 0,
    rows: int = 20_000,
    agents_colluding: int | None = None,
    releases: int | Sequence[int] | None = None,
    limits: float | Mapping[str, float] | None = None,
    model_error: float = 5.0,
    reading_bounds: Mapping[str, Any] | None = None,
    delta: float = 1e-6,
    attackers: str | Sequence[str] | Mapping[str, Any] | None = "auto",
    ledger: str | PathLike[str] | None = None,
    ledger_head: str | None = None,
    ledger_releases: int | None = None,
    only: Sequence[str] | None = None,
    quick: bool = False,
    false_alarm: float = FALSE_ALARM,
    progress: Progress | None = None,
) -> Audit:
    """Attack a plan and what is deployed of it; ``.ok`` says whether every promise holds.

    data:             held-out readings beside the truth: agent -> (T, N_i) and private name -> (T, rows), or a
                      table or CSV file; learned attackers are then trained and judged on it.
    sanitizers:       what is actually deployed, agent -> Sanitizer, or a function from readings (T, N_i) to
                      what is sent; the plan's own when left out.
    seed, rows:       of what is simulated. Deployed sanitizers draw from the operating system all the same.
    agents_colluding: up to so many agents hand over their readings or noise (2 are shown when left out).
    releases:         how often the same x is released (2, 10 and 100 are shown when left out).
    limits:           least privacy p_j that has to remain, one number or name -> number. With
                      ``agents_colluding`` or ``releases`` given, crossing it is a failure.
    model_error:      by how many percent H, R and the prior may be off.
    reading_bounds:   agent -> (lowest, highest), for the reading as differential privacy at ``delta``; the
                      limits of the sanitizers when left out.
    attackers:        "auto", names among ridge, neighbours, boosting, network, own regressors by name, or None.
    ledger:           the ledger of releases to verify, with the last head kept and the number of releases
                      known to have been made.
    only:             the sections to run, among deployed, promise, attackers, lattice, collusion, repetition,
                      models, dropout, baselines, differential privacy, ledger; all of them when left out.
    quick:            fewer rows, fewer attackers.
    false_alarm:      chance, at most, that a sound plan soundly deployed fails, over the whole audit.
    progress:         called with (section, fraction done). When it answers False the audit stops: the report has
                      the sections finished by then, is marked ``interrupted``, and is not ``ok``.
    """
    if not isinstance(plan, Plan):
        raise InvalidRequest(
            f"plan: expected a veilnet.Plan, found {type(plan).__name__}; use Plan.load(folder)"
        )
    count = _count(rows, "rows", 1000)
    floors = read_limits(plan.network, limits)
    if floors and agents_colluding is None and releases is None:
        raise InvalidRequest(
            "limits: say what they have to withstand, agents_colluding= (--colluding), releases= (--releases) "
            "or both; alone they decide nothing"
        )
    parts = _Parts(
        plan=plan,
        deployment=deployment(plan, sanitizers),
        seed=_count(seed, "seed", 0),
        count=min(count, 4000) if quick else count,
        quick=quick,
        chance=_chance(false_alarm),
    )
    colluding = 2 if agents_colluding is None else _count(agents_colluding, "agents_colluding", 1)
    times = _releases(releases)
    percent = as_number(model_error, "model_error", error=InvalidRequest)
    if percent < 0:
        raise InvalidRequest(f"model_error: expected a percentage of at least 0, found {percent:g}")
    found_baselines: list[Baseline] = []

    def compared(_: Advance) -> list[Row]:
        from veilnet.auditing.baselines import baseline_rows, baselines

        found_baselines.extend(baselines(plan))
        return baseline_rows(found_baselines)

    steps: dict[Section, tuple[float, Step]] = {
        Section.DEPLOYED: (2.0, parts.deployed),
        Section.PROMISE: (2.0, parts.promise),
        Section.ATTACKERS: (10.0, lambda go: parts.attacked(data, attackers, go)),
        Section.LATTICE: (2.0, lambda go: parts.lattice(data, go)),
        Section.COLLUSION: (
            2.0,
            lambda go: parts.collusion(colluding, floors if agents_colluding else {}, go),
        ),
        Section.REPETITION: (1.0, lambda _: parts.repetition(times, floors if releases is not None else {})),
        Section.MODELS: (2.0, lambda go: parts.wrong_models(percent, go)),
        Section.DROPOUT: (1.0, lambda go: parts.dropout(colluding, go)),
        Section.BASELINES: (2.0, compared),
        Section.DIFFERENTIAL_PRIVACY: (0.2, lambda _: parts.differential_privacy(reading_bounds, delta)),
    }
    if ledger is not None:
        steps[Section.LEDGER] = 0.2, lambda _: ledger_rows(plan, ledger, ledger_head, ledger_releases)
    steps = _chosen(steps, only)
    heeded_by: dict[str, tuple[Any, *tuple[Section, ...]]] = {
        "data": (data, Section.ATTACKERS, Section.LATTICE),
        "agents_colluding": (agents_colluding, Section.COLLUSION, Section.DROPOUT),
        "releases": (releases, Section.REPETITION),
        "reading_bounds": (reading_bounds, Section.DIFFERENTIAL_PRIVACY),
        "ledger": (ledger, Section.LEDGER),
        "ledger_head": (ledger_head, Section.LEDGER),
        "ledger_releases": (ledger_releases, Section.LEDGER),
    }
    for name, (value, *sections) in heeded_by.items():
        _refuse_idle(name, value, sections, steps)
    found, interrupted = _run(steps, progress or silent)
    return Audit(
        tuple(found),
        false_alarm,
        title=f"Audit of a {plan.method} plan for {plan.network.S} agents",
        on_data=data is not None and not {Section.ATTACKERS, Section.LATTICE}.isdisjoint(steps),
        interrupted=interrupted,
        baselines=tuple(found_baselines),
    )


def _run(steps: Mapping[Section, tuple[float, Step]], progress: Progress) -> tuple[list[Row], bool]:
    """The rows of every section; asked to stop, those of the sections that were finished, and True."""
    found: list[Row] = []
    total, before = sum(weight for weight, _ in steps.values()), 0.0
    try:
        with one_thread():
            for section, (weight, step) in steps.items():
                go = within(progress, section, before / total, weight / total)
                go(0.0)
                found += step(go)
                before += weight
    except Stopped:
        return found, True
    progress("done", 1.0)
    return found, False


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the sections have in common."""

    plan: Plan
    deployment: Deployment
    seed: int
    count: int
    quick: bool
    chance: float

    def deployed(self, go: Advance) -> list[Row]:
        from veilnet.auditing.deployed.rows import deployed_rows

        return deployed_rows(self.deployment, part_of(Section.DEPLOYED, self.chance), self.seed, go)

    def promise(self, go: Advance) -> list[Row]:
        from veilnet.auditing.promise import certificate_rows, exposure_rows, simulation_rows

        chance = part_of(Section.PROMISE, self.chance)
        simulated = simulation_rows(self.plan, self.deployment, chance, self.seed, self.count, go)
        return [*certificate_rows(self.plan), *simulated, *exposure_rows(self.plan)]

    def attacked(self, data: Any, wanted: Any, go: Advance) -> list[Row]:
        from veilnet.auditing.attack import attackers

        samples = self._samples(data)
        try:
            chosen = attackers.choose_attackers(wanted, self.quick)
        except MissingExtra as missing:
            if wanted != "auto":
                raise
            sentence = f"left out: {missing} (in a checkout, ./veilnet audit installs it)."
            rows = [Row(attackers.SECTION, "learned attackers", None, LEFT_OUT, "info", sentence)]
            if data is None:
                return rows
            chosen = {}
        else:
            rows = []
            if not chosen and data is None:
                return rows
        chance = part_of(Section.ATTACKERS, self.chance)
        return rows + attackers.attacker_rows(self.deployment, samples, chosen, chance, go)

    def lattice(self, data: Any, go: Advance) -> list[Row]:
        from veilnet.auditing.attack.lattice_rows import lattice_rows

        chance = part_of(Section.LATTICE, self.chance)
        return lattice_rows(self.deployment, self._samples(data), chance, self.seed, go)

    def _samples(self, data: Any) -> Samples:
        from veilnet.auditing.attack.held_out import read_samples, simulate
        from veilnet.auditing.what_if.variants import simulated

        if data is None:
            return simulate(simulated(self.plan.network), self.count, self.seed)
        return read_samples(self.plan.network, self.deployment.planned, data)

    def collusion(self, most: int, limits: Mapping[str, float], go: Advance) -> list[Row]:
        from veilnet.auditing.what_if.collusion import collusion_rows

        return collusion_rows(self.plan.network, self.deployment.planned, most, limits, go)

    def repetition(self, times: Sequence[int], limits: Mapping[str, float]) -> list[Row]:
        from veilnet.auditing.what_if.repetition import repetition_rows

        return repetition_rows(self.plan.network, self.deployment.planned, times, limits)

    def wrong_models(self, percent: float, go: Advance) -> list[Row]:
        from veilnet.auditing.what_if.wrong_models import wrong_model_rows

        return wrong_model_rows(self.plan.network, self.deployment.planned, percent, self.seed, go)

    def dropout(self, most: int, go: Advance) -> list[Row]:
        from veilnet.auditing.what_if.dropout import dropout_rows

        return dropout_rows(self.plan.network, self.deployment.planned, most, go)

    def differential_privacy(self, bounds: Mapping[str, Any] | None, delta: float) -> list[Row]:
        from veilnet.auditing.differential_privacy import differential_privacy_rows

        return differential_privacy_rows(self.plan.network, self.deployment.planned, bounds, delta)


def ledger_rows(plan: Plan, path: str | PathLike[str], head: str | None, releases: int | None) -> list[Row]:
    """Whether the ledger is whole, continues the head that was kept, and stays within its limits."""
    problems = verify_ledger(path, plan.network, head, releases)
    if problems:
        sentence = "; ".join(problems) + "."
        return [Row("ledger", "ledger of releases", "whole", "not whole", "fail", sentence)]
    opened = Ledger(path, plan.network)
    figures = {"head": opened.head, "releases": opened.count, "privacy": opened.privacy()}
    aside = "" if head is not None else "; keep its head, or a reset will go unnoticed"
    sentence = f"the ledger is whole, {opened.count} releases; head {opened.head}{aside}."
    verdict: Judgement = "ok" if head is not None else "warn"
    rows = [Row("ledger", "ledger of releases", "whole", "whole", verdict, sentence, figures=figures)]
    left = opened.remaining(plan)
    amount = "as many releases" if np.isinf(left) else f"{left:.0f} more releases"
    sentence = f"the limits allow {amount} of this plan{' as one likes' if np.isinf(left) else ''}."
    return [*rows, Row("ledger", "releases left", None, left, "info", sentence)]


def _chosen(
    steps: dict[Section, tuple[float, Step]], only: Sequence[str] | None
) -> dict[Section, tuple[float, Step]]:
    if only is None:
        return steps
    names = [only] if isinstance(only, str) else list(only)
    refuse_unknown(names, [section.value for section in Section], "only", error=InvalidRequest)
    wanted = {Section(name) for name in names}
    if Section.LEDGER in wanted and Section.LEDGER not in steps:
        raise InvalidRequest("only: the section 'ledger' needs a ledger; give ledger=")
    chosen = {section: step for section, step in steps.items() if section in wanted}
    if not chosen:
        raise InvalidRequest(f"only: expected at least one section among {', '.join(Section)}")
    return chosen


def _refuse_idle(name: str, value: Any, serves: Sequence[Section], chosen: Container[Section]) -> None:
    """Refuse an option that is given although no section that heeds it is run."""
    if value is None or any(section in chosen for section in serves):
        return
    if name in ("ledger_head", "ledger_releases"):
        raise InvalidRequest(f"{name}: there is no ledger to compare it with; give ledger=, or leave it out")
    needed = " or ".join(repr(section.value) for section in serves)
    raise InvalidRequest(f"{name}: only the section {needed} heeds it; add that to only=, or leave it out")


def _count(value: Any, name: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer)
        or value < least
        or value % 1
    ):
        raise InvalidRequest(f"{name}: expected a whole number from {least}, found {value!r}")
    return int(value)


def _releases(releases: int | Sequence[int] | None) -> tuple[int, ...]:
    if releases is None:
        return (2, 10, 100)
    given = releases if isinstance(releases, Sequence) else (releases,)
    return tuple(_count(value, "releases", 1) for value in given)


def _chance(value: float) -> float:
    number = as_number(value, "false_alarm", error=InvalidRequest)
    if not 0 < number < 0.5:
        raise InvalidRequest(f"false_alarm: expected a chance between 0 and 0.5, found {number:g}")
    return number
