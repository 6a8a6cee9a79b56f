"""``veilnet report``: a page that shows what a plan does, to look at and to hand on."""

from __future__ import annotations

from pathlib import Path

from veilnet.cli._command_line import argument, option
from veilnet.cli._shared import check_file, progress, show, tell


def command(
    plan: Path = argument("Plan folder."),
    out: Path = option("--out", "Page to write.", default=Path("report.html")),
    audit: Path | None = option(
        "--audit",
        "Output of 'veilnet audit --json'; by default audit.json in the plan folder, if present.",
    ),
    frontier: bool = option(
        "--frontier", "Trace what more privacy would cost.", yes_or_no=True, default=True
    ),
    seconds: float = option(
        "--seconds", "Stop tracing the frontier after this time.", metavar="NUMBER", default=120.0
    ),
) -> None:
    """Write a self-contained HTML page that shows a plan.

    It shows what the centre can learn before and after, in your units; whether privacy is free; what more would
    cost; what each agent sends; audit, doubts and certificate. The plan is verified first. For a plan of symbols:
    what nobody can guess, what each symbol means, and how evidence accumulates over rows.
    """
    from veilnet.cli._symbols import is_symbols
    from veilnet.io.audit_files import load_audit
    from veilnet.io.plan_files import file_names
    from veilnet.plans.plan import Plan
    from veilnet.report.building import report_of, traced_frontier
    from veilnet.symbols.plan import SymbolPlan

    check_file(out)
    loaded = SymbolPlan.load(plan) if is_symbols(plan) else Plan.load(plan)
    agents = loaded.agents if isinstance(loaded, SymbolPlan) else loaded.sanitizers
    beside = plan / "audit.json"
    # An agent may be called "audit": the file is its own then, and no audit of the plan.
    if audit is None and beside.is_file() and beside.name not in file_names(list(agents)).values():
        audit = beside
    found = None if audit is None else load_audit(audit)
    curve = None
    if frontier and isinstance(loaded, Plan):
        with progress("tracing the frontier", total=1.0) as steps:
            curve = traced_frontier(loaded, seconds=seconds, progress=steps.reached)
    made = report_of(loaded, audit=found, curve=curve)
    made.save(out)
    tell(made.title)
    if curve is not None and curve.interrupted:
        show(f"The frontier was stopped after {seconds:g} s; --seconds gives it longer.")
    tell(f"Wrote {out}: open it in any browser.")
