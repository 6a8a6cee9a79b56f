"""``veilnet audit``: attack a plan, and what is deployed of it, and report what can be learned."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet.cli._command_line import ACCEPT, HEAD, PLOT, VERBOSE, argument, option
from veilnet.cli._shared import (
    amounts,
    check_file,
    check_plot,
    fraction,
    json_text,
    print_json,
    progress,
    refuse_without_ledger,
    show,
    table,
    tell,
    write_plot,
)
from veilnet.model.doubts import accepted, doubt_notes

if TYPE_CHECKING:
    from rich.table import Table

    from veilnet.auditing.report import AuditReport
    from veilnet.plans.plan import Plan

_MODEL_ERROR = "5%"
_DATA = option(
    "--data",
    "Held-out table with the columns of the fit; without names: agent[1].. and private[1]..",
)
_TRAIN = option(
    "--train",
    "Training log for the attackers, usually that of the fit; by default they train on parts of --data.",
)
_TIME = option("--time", "Column of timestamps in both tables: numbers rows by the plan's step, finds gaps.")
_DEPLOYED = option("--deployed", "Folder of the deployed agent files; the plan's by default.")


def command(
    plan: Path = argument("Plan folder."),
    data: Path | None = _DATA,
    train: Path | None = _TRAIN,
    time: str | None = _TIME,
    deployed: Path | None = _DEPLOYED,
    run: list[str] | None = option(
        "--run", "Program to run for an agent, AGENT=COMMAND: readings in, messages out, as CSV (repeat)."
    ),
    colluding: int | None = option("--colluding", "Number of agents that hand over their readings or noise."),
    releases: int | None = option("--releases", "How many times the same x is released."),
    least_privacy: list[str] | None = option(
        "--least-privacy",
        "Privacy that must remain with --colluding or --releases: 5, or gait=5 (repeat).",
    ),
    model_error: str = option(
        "--model-error", "Relative error of the model, 5% or 0.05.", metavar="FRACTION", default=_MODEL_ERROR
    ),
    ledger: Path | None = option("--ledger", "Ledger of releases, or a live agent's store."),
    head: str | None = HEAD,
    released: int | None = option("--released", "Number of releases known to the centre."),
    out: Path | None = option("--out", "JSON file for all figures, for report --audit."),
    only: list[str] | None = option(
        "--only",
        "Section to run (repeat): deployed, promise, attackers, lattice, collusion, repetition, models, "
        "dropout, baselines, 'differential privacy', ledger.",
    ),
    accept: list[str] | None = ACCEPT,
    quick: bool = option("--quick", "Fewer rows and attackers."),
    plot: Path | None = PLOT,
    seed: int = option("--seed", "Simulation seed.", at_least=0, default=0),
    verbose: bool = VERBOSE,
    json: bool = option("--json", "Print JSON with every figure."),
) -> int:
    """Attack a plan and what is deployed of it.

    Runs the deployed sanitizers as black boxes, recomputes every promise, trains attackers, and tests collusion,
    repeated releases, wrong models and silent agents. Exit code 1: a promise is broken. False-alarm probability: at
    most 1e-6 on simulated rows, about 1 % on your --data.
    """
    from veilnet.cli._symbols import audit_symbols, is_symbols, refuse_other

    check_file(out)
    check_plot(plot)
    if is_symbols(plan):
        other = {
            "--train": train, "--time": time, "--deployed": deployed, "--colluding": colluding,
            "--releases": releases, "--least-privacy": least_privacy, "--ledger": ledger, "--only": only,
            "--accept": accept, "--out": out, "--plot": plot,
        }  # fmt: skip
        refuse_other(other)
        return audit_symbols(plan, data, seed, _commands(run), json=json)
    refuse_without_ledger(ledger, head=head, released=released)
    what_if = vn.WhatIf(
        agents_colluding=colluding,
        releases=releases,
        least_privacy=amounts(least_privacy, "--least-privacy"),
        model_error=fraction(model_error, "--model-error"),
    )
    loaded = vn.Plan.load(plan)
    doubts = accepted(loaded.network.doubts, accept or [])
    with progress("auditing", total=1.0) as steps:
        report = vn.audit(
            loaded,
            data,
            train=train,
            sanitizers=_mechanisms(loaded, deployed, run),
            what_if=what_if,
            trials=vn.Trials(seed=seed, quick=quick, time=time),
            ledger=None if ledger is None else vn.LedgerCheck(ledger, head, released),
            only=only or None,
            progress=steps.reached,
        )
    write_plot(plot, "audit", report.rows)
    return tell_report(replace(report, doubts=doubts), out, whole=verbose or bool(only), json=json)


def tell_report(report: AuditReport, out: Path | None, *, whole: bool, json: bool) -> int:
    """Write and print a report; exit code 1 where something is broken.

    whole: every row of every section; else only rows that do not hold, below a count for each section.
    """
    from veilnet.auditing.report import shown_tables
    from veilnet.auditing.sections import introduction
    from veilnet.io._atomic import write_text

    if out is not None:
        write_text(out, json_text(report.to_dict()))
    if json:
        print_json(report.to_dict())
    else:
        tell(report.headline())
        if not whole:
            show(_counts(report))
        odd = (*report.failed, *report.unclear)
        for section, headings, cells in shown_tables(report.rows if whole else odd):
            if section:
                show(section, style="bold")
                for sentence in introduction(section) if whole else ():
                    tell(sentence)
            show(table(headings, cells))
        ends = [report.conclusion()] if whole else [*report.still_open(), "-v shows every row."]
        for sentence in (*report.remarks(), *doubt_notes(report.doubts), report.assurance(), *ends):
            tell(sentence)
    return 0 if report.ok else 1


def _counts(report: AuditReport) -> Table:
    """How the rows of each section ended."""
    ends = {
        "holds": ("ok",),
        "cannot tell": ("cannot tell",),
        "broken": ("fail", "not covered"),
        "info": ("info",),
    }
    rows = []
    for section in report.sections:
        found = [row.verdict for row in report.of(section)]
        counts = [sum(verdict in some for verdict in found) for some in ends.values()]
        rows.append([section, *(str(count or "") for count in counts)])
    return table(["section", *ends], rows)


def _mechanisms(plan: Plan, folder: Path | None, commands: list[str] | None) -> dict[str, Any] | None:
    """What is deployed: files of a folder (or the plan's), and commands in place of some."""
    from veilnet.auditing.deployed.commands import CommandMechanism

    if folder is None and not commands:
        return None
    found: dict[str, Any] = dict(plan.sanitizers) if folder is None else _deployed(plan, folder)
    for agent, command in _commands(commands).items():
        found[agent] = CommandMechanism(command, plan.network.reading_names.get(agent, ()))
    return found


def _commands(given: list[str] | None) -> dict[str, str]:
    """agent -> command of --run."""
    found = {}
    for item in given or []:
        agent, equals, command = item.partition("=")
        if not equals:
            raise InvalidRequest(f"--run: expected agent=command, found {item!r}")
        found[agent] = command
    return found


def _deployed(plan: Plan, folder: Path) -> dict[str, Any]:
    """The agent files in a folder. One that cannot be read is deployed all the same: it fails the audit."""
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.plan_files import file_names

    if not folder.is_dir():
        raise InvalidPlan(f"{folder}: expected a folder with one file per agent")
    found: dict[str, Any] = {}
    for agent, name in file_names(list(plan.sanitizers)).items():
        path = folder / name
        if not path.exists():
            continue
        try:
            found[agent] = Sanitizer.load(path)
        except VeilnetError as error:
            found[agent] = partial(_refuse, error)
    return found


def _refuse(error: Exception, _readings: Any) -> Any:
    raise error
