"""Runs the sections of an audit one after the other and gathers their rows into a report.

What a user gives is read before the first section. Whatever goes wrong after that is a finding: what is deployed may
misbehave, a part may be left out, a figure may not be computable; the other sections are run all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest, MissingExtra, VeilnetError
from veilnet._core.progress import Progress, Stopped, silent, within
from veilnet._core.spelling import names_keywords
from veilnet._core.threads import one_thread
from veilnet._core.validation import expect, refuse_unknown
from veilnet._core.words import counted
from veilnet.auditing.attack.attackers import attacker_rows
from veilnet.auditing.attack.held_out import Samples, read_samples, read_training
from veilnet.auditing.attack.lattice_rows import lattice_rows
from veilnet.auditing.attack.learners import Learner, choose_attackers
from veilnet.auditing.attack.on_data import rows_on_data
from veilnet.auditing.attack.single_rows import rows_by_the_model
from veilnet.auditing.baselines import Baseline, baseline_rows, baselines
from veilnet.auditing.deployed.commands import CommandMechanism
from veilnet.auditing.deployed.deployment import (
    Deployment,
    Mechanism,
    Misbehaves,
    deployment,
    with_opened_sums,
)
from veilnet.auditing.deployed.rows import deployed_rows
from veilnet.auditing.differential_privacy import differential_privacy_rows, widths_of_readings
from veilnet.auditing.ledger import ledger_rows
from veilnet.auditing.measures import read_least_privacy
from veilnet.auditing.options import (
    DifferentialPrivacy,
    LedgerCheck,
    Trials,
    WhatIf,
    expect_groups,
    refuse_idle,
)
from veilnet.auditing.promise import (
    certificate_rows,
    exposure_rows,
    promised_in_words,
    seen_rows,
    simulation_rows,
)
from veilnet.auditing.report import LEFT_OUT, NOT_COMPUTED, AuditReport, Judgement, LeftOut, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import part_of
from veilnet.auditing.streams.on_data import stream_by_the_model
from veilnet.auditing.streams.world import StreamWorld, window_rows
from veilnet.auditing.what_if.collusion import collusion_rows
from veilnet.auditing.what_if.dropout import dropout_rows
from veilnet.auditing.what_if.repetition import repetition_rows
from veilnet.auditing.what_if.wrong_models import wrong_model_rows
from veilnet.auditing.worlds import world_of
from veilnet.io.agent_ledger import is_agent_store
from veilnet.model.stream_size import MOST_JOINT, by_stacks
from veilnet.plans.fingerprint import plan_fingerprint
from veilnet.plans.plan import Plan

Advance = Callable[[float], None]
Step = Callable[[Advance], list[Row]]

_DEFAULT_WHAT_IF = WhatIf()
_DEFAULT_TRIALS = Trials()
_DEFAULT_DIFFERENTIAL_PRIVACY = DifferentialPrivacy()
_ROWS_OF_COMMANDS = 1000  # a command is started anew for every stream
_WEIGHTS = {
    Section.ATTACKERS: 10.0,
    Section.REPETITION: 1.0,
    Section.DROPOUT: 1.0,
}  # of progress, where not 2


@dataclass(frozen=True, eq=False)
class Audit(AuditReport):
    """A report with what was computed for it and can be drawn.

    baselines: other protections of the same network; empty when they were not run.
    """

    baselines: tuple[Baseline, ...] = ()


@names_keywords
def audit(
    plan: Plan | str | PathLike[str],
    data: Any = None,
    *,
    train: Any = None,
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
                          table or CSV file; learned attackers are then judged on it.
    train:                the log that they learn from, in the same form: that of the fit, which is what an attacker
                          has. Left out, they learn from stretches of ``data`` that they are not judged on.
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
    plan = Plan.load(plan) if isinstance(plan, str | PathLike) else plan
    expect(plan, Plan, "plan")
    expect_groups(what_if=what_if, trials=trials, differential_privacy=differential_privacy, ledger=ledger)
    with_help, again = _floors(plan, what_if)
    _refuse_on_streams(plan, what_if, ledger)
    chosen = _chosen(only, ledger)
    refuse_idle(chosen, what_if, trials, differential_privacy, data=data, train=train, ledger=ledger)
    running = deployment(plan, sanitizers)
    seen = with_opened_sums(running, plan) if sanitizers is None else running  # what the centre gets
    widths = widths_of_readings(plan.network, running.planned, differential_privacy.reading_bounds)
    samples, training = _logs(running, data, train, trials.time)
    attackers, missing = _attackers(plan, trials) if Section.ATTACKERS in chosen else ({}, None)
    found_baselines: list[Baseline] = []
    world, network, planned, seed = world_of(plan.network), plan.network, running.planned, int(trials.seed)

    chance = partial(_chance, trials, samples is not None)

    def attacked(go: Advance) -> list[Row]:
        share = chance(Section.ATTACKERS)
        if samples is None:
            return attacker_rows(world, seen, attackers, count, seed, share, go) if attackers else []
        by_the_model = stream_by_the_model if network.is_stream else rows_by_the_model
        return rows_on_data(seen, samples, training, by_the_model, attackers, share, go)

    def compared(_: Advance) -> list[Row]:
        found_baselines.extend(baselines(plan))
        return baseline_rows(network, found_baselines)

    count = _rows_simulated(running, trials)
    of_ledger = ledger_rows(plan, ledger) if Section.LEDGER in chosen and ledger is not None else []
    steps: dict[Section, list[Step]] = {
        Section.DEPLOYED: [lambda go: deployed_rows(running, chance(Section.DEPLOYED), seed, go)],
        Section.PROMISE: [
            lambda _: certificate_rows(plan),
            lambda _: window_rows(world, planned) if isinstance(world, StreamWorld) else [],
            lambda go: simulation_rows(world, seen, chance(Section.PROMISE), seed, count, go),
            lambda _: exposure_rows(plan),
            lambda _: seen_rows(plan),
        ],
        Section.ATTACKERS: [lambda _: _without(missing), attacked],
        Section.LATTICE: [
            lambda go: lattice_rows(running, samples, trials.count, chance(Section.LATTICE), seed, go)
        ],
        Section.SUMS: [lambda go: _sums(plan, chance(Section.SUMS), seed, go)],
        Section.COLLUSION: [lambda go: collusion_rows(network, planned, what_if.colluding, with_help, go)],
        Section.REPETITION: [lambda _: repetition_rows(network, planned, what_if.times, again)],
        Section.MODELS: [lambda go: wrong_model_rows(network, planned, what_if.model_error, seed, go)],
        Section.DROPOUT: [lambda go: dropout_rows(network, planned, what_if.colluding, go)],
        Section.BASELINES: [compared],
        Section.DIFFERENTIAL_PRIVACY: [
            lambda _: differential_privacy_rows(network, planned, widths, differential_privacy.delta)
        ],
        Section.LEDGER: [lambda _: of_ledger],
    }
    found, interrupted = _run({section: steps[section] for section in chosen}, progress or silent)
    return Audit(
        tuple(found),
        trials.false_alarm,
        title=f"Audit of the plan for {counted(len(plan.members), 'agent')}",
        on_data=None if samples is None else trials.false_alarm_on_data,
        interrupted=interrupted,
        promised=promised_in_words(plan),
        doubts=network.doubts,
        plan=plan_fingerprint(network, plan.sanitizers),
        baselines=tuple(found_baselines),
    )


def _floors(plan: Plan, what_if: WhatIf) -> list[dict[str, float]]:
    """The privacy that has to remain where agents collude, and after repeated releases, as far as it was asked."""
    floors = read_least_privacy(plan.network, what_if.least_privacy)
    return [floors if asked is not None else {} for asked in (what_if.agents_colluding, what_if.releases)]


def _chance(trials: Trials, on_data: bool, section: Section) -> float:
    """The share of a section in the rate of false alarms."""
    if on_data and section in (Section.ATTACKERS, Section.LATTICE):
        return part_of(section, trials.false_alarm_on_data, on_data=True)
    return part_of(section, trials.false_alarm)


def _logs(
    running: Deployment, data: Any, train: Any, time: str | None
) -> tuple[Samples | None, Samples | None]:
    """The rows that attackers are judged on, and those that they learn from, where these are given."""
    if data is None:
        if train is not None:
            raise InvalidRequest(
                "train: attackers who learn from it need other rows to be judged on; give data="
            )
        if time is not None:
            raise InvalidRequest("time: it names a column of data; give data= as well")
        return None, None
    network, planned = running.network, running.planned
    samples = read_samples(network, planned, data, time)
    return samples, None if train is None else read_training(network, planned, train, samples, time)


def _run(steps: Mapping[Section, Sequence[Step]], progress: Progress) -> tuple[list[Row], bool]:
    """The rows of every section; asked to stop, those of the sections that were finished, and True."""
    found: list[Row] = []
    weights = {section: _WEIGHTS.get(section, 2.0) for section in steps}
    total, before = sum(weights.values()), 0.0
    try:
        with one_thread():
            for section, parts in steps.items():
                go = within(progress, section, before / total, weights[section] / total)
                go(0.0)
                rows = [row for part in parts for row in _tried(section, part, go)]
                found += rows
                before += weights[section]
    except Stopped:
        return found, True
    progress("done", 1.0)
    return found, False


def _tried(section: Section, step: Step, go: Advance) -> list[Row]:
    """The rows of one step; a row that says why where it could not be made."""
    verdict: Judgement = "cannot tell"
    try:
        return step(go)
    except LeftOut as reason:
        verdict, outcome, why = "info", LEFT_OUT, f"Left out: {reason}."
    except Misbehaves as trouble:
        verdict, outcome, why = "fail", NOT_COMPUTED, f"What is deployed cannot be attacked: {trouble}."
    except (VeilnetError, ArithmeticError, np.linalg.LinAlgError) as error:
        outcome, why = NOT_COMPUTED, f"It could not be computed: {error}."
    return [Row(section.heading, section.value, None, outcome, verdict, why, shown={"outcome": outcome})]


def _attackers(plan: Plan, trials: Trials) -> tuple[Mapping[str, Learner], MissingExtra | None]:
    """The attackers that were chosen; none, and what is missing for them, where they were left to be chosen."""
    wanted = trials.attackers
    if wanted == "auto" and plan.network.is_stream:  # those that stand messages of many rows at once
        wanted = ("ridge",) if trials.quick else ("ridge", "boosting", "network")
    try:
        return choose_attackers(wanted, trials.quick), None
    except MissingExtra as missing:
        if trials.attackers != "auto":
            raise
        return {}, missing


def _sums(plan: Plan, chance: float, seed: int, go: Advance) -> list[Row]:
    """Masks and lies, where agents add up their messages: only then are the packages of the rounds needed."""
    if not plan.network.members:
        return []
    try:
        from veilnet.auditing.attack.sum_rows import sum_rows
    except MissingExtra as missing:
        return _without(missing)
    return sum_rows(plan, chance, seed, go)


def _without(missing: MissingExtra | None) -> list[Row]:
    if missing is not None:
        raise LeftOut(f"{missing} (in a checkout, ./veilnet audit installs it)")
    return []


def _rows_simulated(running: Deployment, trials: Trials) -> int:
    """How many rows are judged in a simulation."""
    started = any(isinstance(each, CommandMechanism) for each in running.deployed.values())
    return min(trials.count, _ROWS_OF_COMMANDS) if started and running.network.is_stream else trials.count


def _refuse_on_streams(plan: Plan, what_if: WhatIf, ledger: LedgerCheck | None) -> None:
    """Releases of an x that stays are counted neither by --releases nor by a ledger where x moves.

    A live agent's store records what was sent, whatever x does.
    """
    if not plan.network.is_stream:
        return
    if by_stacks(plan.network):
        raise InvalidRequest(
            f"plan: an audit of a stream filters with all memories in one state, up to {MOST_JOINT} agents times "
            f"parameters, found {plan.network.S} x {plan.network.L}; audit the plan of a part of the network, and "
            "verify() this one"
        )
    live = ledger is not None and is_agent_store(Path(ledger.path))
    for name, value in {"releases": what_if.releases, "ledger": None if live else ledger}.items():
        if value is not None:
            raise InvalidRequest(
                f"{name}: it counts releases of one x that stays; the promise of a stream plan counts every row "
                "already, for an x that moves. Leave it out, or audit a plan without dynamics"
            )


def _chosen(only: Sequence[str] | None, ledger: LedgerCheck | None) -> list[Section]:
    """The sections to run, in their order."""
    if only is None:
        return [section for section in Section if section != Section.LEDGER or ledger is not None]
    names = [only] if isinstance(only, str) else list(only)
    refuse_unknown(names, [section.value for section in Section], "only", error=InvalidRequest)
    chosen = [section for section in Section if section.value in names]
    if Section.LEDGER in chosen and ledger is None:
        raise InvalidRequest("only: the section 'ledger' needs a ledger; give ledger=vn.LedgerCheck(path)")
    if not chosen:
        raise InvalidRequest(f"only: expected at least one section among {', '.join(Section)}")
    return chosen
