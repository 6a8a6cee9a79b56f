"""Runs the sections of an audit one after the other and gathers their rows into a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress, Stopped, silent, within
from veilnet._core.threads import one_thread
from veilnet._core.validation import expect, refuse_unknown
from veilnet._core.words import counted
from veilnet.auditing.baselines import Baseline
from veilnet.auditing.conclusion import promised_in_words
from veilnet.auditing.deployed.deployment import Deployment, Mechanism, deployment
from veilnet.auditing.fingerprint import plan_fingerprint
from veilnet.auditing.ledger import Ledger, verify_ledger
from veilnet.auditing.live_ledger import live_ledger_rows
from veilnet.auditing.measures import read_least_privacy
from veilnet.auditing.options import (
    DifferentialPrivacy,
    LedgerCheck,
    Trials,
    WhatIf,
    expect_group,
    given_options,
    refuse_idle,
)
from veilnet.auditing.parts import Advance, Parts
from veilnet.auditing.promise import seen_rows
from veilnet.auditing.report import AuditReport, Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.io.agent_ledger import is_agent_store
from veilnet.model.stream_size import MOST_JOINT, by_stacks
from veilnet.plans.plan import Plan

__all__ = ["Audit", "audit"]

Step = Callable[[Advance], list[Row]]

_DEFAULT_WHAT_IF = WhatIf()
_DEFAULT_TRIALS = Trials()
_DEFAULT_DIFFERENTIAL_PRIVACY = DifferentialPrivacy()


@dataclass(frozen=True, eq=False)
class Audit(AuditReport):
    """A report with what was computed for it and can be drawn.

    baselines: other protections of the same network; empty when they were not run.
    """

    baselines: tuple[Baseline, ...] = ()


def audit(
    plan: Plan | str | PathLike[str],
    data: Any = None,
    *,
    sanitizers: Mapping[str, Mechanism] | None = None,
    what_if: WhatIf = _DEFAULT_WHAT_IF,
    trials: Trials = _DEFAULT_TRIALS,
    differential_privacy: DifferentialPrivacy = _DEFAULT_DIFFERENTIAL_PRIVACY,
    ledger: LedgerCheck | None = None,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack a plan and what is deployed of it; ``.ok`` says whether every promise holds.

    plan:                 the plan whose promises are tested, or where it was saved.
    data:                 held-out readings beside the truth: agent -> (T, N_i) and private name -> (T, rows), or a
                          table or CSV file; learned attackers are then trained and judged on it.
    sanitizers:           what is actually deployed, agent -> Sanitizer, or a function from readings (T, N_i) to
                          what is sent; the plan's own when left out.
    what_if:              what could happen, and what privacy has to remain even then: colluding agents, repeated
                          releases, a wrong model (:class:`WhatIf`).
    trials:               which attackers are trained, on how many rows, from which seed, and at which rate of false
                          alarms (:class:`Trials`).
    differential_privacy: bounds of the readings and δ, for the reading as (ε, δ) (:class:`DifferentialPrivacy`).
    ledger:               the ledger of releases to verify, with what is known of it (:class:`LedgerCheck`).
    only:                 the sections to run, among deployed, promise, attackers, lattice, collusion, repetition,
                          models, dropout, baselines, differential privacy, ledger; all of them when left out.
    progress:             called with (section, fraction done). When it answers False the audit stops: the report
                          has the sections finished by then, is marked ``interrupted``, and is not ``ok``.
    """
    if isinstance(plan, str | PathLike):
        plan = Plan.load(plan)
    expect(plan, Plan, "plan")
    expect_group(what_if, WhatIf, "what_if")
    expect_group(trials, Trials, "trials")
    expect_group(differential_privacy, DifferentialPrivacy, "differential_privacy")
    if ledger is not None:
        expect_group(ledger, LedgerCheck, "ledger")
    floors = read_least_privacy(plan.network, what_if.least_privacy)
    parts = _parts_of(plan, deployment(plan, sanitizers), trials)
    parts.refuse(what_if, ledger)
    found_baselines: list[Baseline] = []
    steps: dict[Section, tuple[float, Step]] = {
        Section.DEPLOYED: (2.0, parts.deployed),
        Section.PROMISE: (2.0, lambda go: [*parts.promise(go), *seen_rows(plan)]),
        Section.ATTACKERS: (10.0, lambda go: parts.attacked(data, go)),
        Section.LATTICE: (2.0, lambda go: parts.lattice(data, go)),
        Section.COLLUSION: (2.0, lambda go: parts.collusion(what_if, floors, go)),
        Section.REPETITION: (1.0, lambda _: parts.repetition(what_if, floors)),
        Section.MODELS: (2.0, lambda go: parts.wrong_models(what_if.model_error, go)),
        Section.DROPOUT: (1.0, lambda go: parts.dropout(what_if.colluding, go)),
        Section.BASELINES: (2.0, lambda _: parts.compared(found_baselines)),
        Section.DIFFERENTIAL_PRIVACY: (0.2, lambda _: parts.differential_privacy(differential_privacy)),
    }
    if ledger is not None:
        steps[Section.LEDGER] = 0.2, lambda _: ledger_rows(plan, ledger)
    steps = _chosen(steps, only)
    given = given_options(what_if, trials, differential_privacy)
    given |= {name for name, value in (("data", data), ("ledger", ledger)) if value is not None}
    refuse_idle(given, steps)
    found, interrupted = _run(steps, progress or silent)
    return Audit(
        tuple(found),
        trials.false_alarm,
        title=f"Audit of the plan for {counted(plan.network.S, 'agent')}",
        on_data=(
            trials.false_alarm_on_data
            if data is not None and not {Section.ATTACKERS, Section.LATTICE}.isdisjoint(steps)
            else None
        ),
        interrupted=interrupted,
        promised=promised_in_words(plan),
        doubts=plan.network.doubts,
        plan=plan_fingerprint(plan.network, plan.sanitizers),
        baselines=tuple(found_baselines),
    )


def _parts_of(plan: Plan, deployed: Deployment, trials: Trials) -> Parts:
    if not plan.network.is_stream:
        return Parts(plan, deployed, trials)
    if by_stacks(plan.network):
        raise InvalidRequest(
            f"plan: an audit of a stream filters with all memories in one state, up to {MOST_JOINT} agents times "
            f"parameters, found {plan.network.S} x {plan.network.L}; audit the plan of a part of the network, and "
            "verify() this one"
        )
    from veilnet.auditing.streams.parts import StreamParts

    return StreamParts(plan, deployed, trials)


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


def ledger_rows(plan: Plan, ledger: LedgerCheck) -> list[Row]:
    """Whether the ledger is whole, continues the head that was kept, and leaves the least privacy it has to."""
    if is_agent_store(Path(ledger.path)):
        return live_ledger_rows(plan, ledger)
    head = ledger.head
    problems = verify_ledger(ledger.path, plan.network, head, ledger.releases)
    if problems:
        sentence = "; ".join(problems) + "."
        return [Row("ledger", "ledger of releases", "whole", "not whole", "fail", sentence)]
    opened = Ledger(ledger.path, plan.network)
    figures = {"head": opened.head, "releases": opened.count, "privacy": opened.privacy()}
    aside = "" if head is not None else "; keep its head, or a reset will go unnoticed"
    sentence = f"the ledger is whole, {opened.count} releases; head {opened.head}{aside}."
    verdict: Judgement = "ok" if head is not None else "warn"
    rows = [Row("ledger", "ledger of releases", "whole", "whole", verdict, sentence, figures=figures)]
    left = opened.remaining(plan)
    amount = "as many releases" if np.isinf(left) else f"{left:.0f} more releases"
    sentence = f"its least privacy allows {amount} of this plan{' as one likes' if np.isinf(left) else ''}."
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
        raise InvalidRequest("only: the section 'ledger' needs a ledger; give ledger=vn.LedgerCheck(path)")
    chosen = {section: step for section, step in steps.items() if section in wanted}
    if not chosen:
        raise InvalidRequest(f"only: expected at least one section among {', '.join(Section)}")
    return chosen
