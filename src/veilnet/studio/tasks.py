"""What the studio's jobs do, each a function that a process of its own can be given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from veilnet._core.progress import Progress
from veilnet.auditing import audit
from veilnet.auditing.attack.held_out import read_samples
from veilnet.auditing.attack.on_data import SECTION
from veilnet.auditing.report import AuditReport, Row
from veilnet.calibration.fitting import Calibration, fit_report
from veilnet.designs.frontiers import Frontier, Point
from veilnet.designs.joint import SearchOptions
from veilnet.designs.tradeoff import RowTradeoff
from veilnet.io.sources import RowSource
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, with_its_dither
from veilnet.report.building import traced_frontier, traced_levels
from veilnet.studio.asking import Ask
from veilnet.studio.jobs import Tell
from veilnet.symbols.learning import SymbolLearner
from veilnet.symbols.plan import SymbolPlan
from veilnet.verdict.exact_test import check

_SECONDS = 300.0
NOT_HELD_OUT = (
    "the model was fitted to these rows, so they agree with it better than others will. Audit on rows that were "
    "kept aside, or from another day."
)


def trace(tell: Tell, progress: Progress, plan: Plan) -> Frontier | None:
    """The frontier of the network of a free plan; for rows it comes point by point, unless there are secrets."""
    network = plan.network
    if network.is_stream or network.secrets:
        return traced_frontier(plan, seconds=_SECONDS, progress=progress)
    return with_its_dither(network, lambda tried: _trace_rows(tell, progress, plan, tried))


def _trace_rows(tell: Tell, progress: Progress, plan: Plan, network: Network) -> Frontier:
    """Point by point; ``network`` counts the dither that the points call for, of which ``plan`` may need less."""
    verdict = check(network)
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    tradeoff = RowTradeoff(verdict, SearchOptions())
    curve = tradeoff.curve(np.ones(len(network.private)), {})
    levels = traced_levels(plan, verdict)
    rows: list[Point] = []
    for done, level in enumerate(levels):
        progress("tracing", done / len(levels))
        found = plan
        if level > ceiling:
            found = tradeoff.least_loss(Asked(dict.fromkeys(network.private, level)), curve)
        rows.append(Point.of(level, found))
        tell(Frontier(network, tuple(rows), ceiling, limit))
    return Frontier(network, tuple(rows), ceiling, limit)


def refine(tell: Tell, progress: Progress, network: Network, ask: Ask) -> Plan:  # noqa: ARG001
    """The plan that ``veilnet design`` would answer with."""
    return ask.answered(network, progress)


def attack(
    tell: Tell,  # noqa: ARG001
    progress: Progress,
    plan: Plan,
    rows: RowSource | None = None,
    fitted_to: bool = False,
) -> AuditReport:
    """The audit of a plan.

    rows:      a table to let attackers loose on; None for rows simulated from the model.
    fitted_to: whether these are the rows the model was made from, which the findings then say.
    """
    if rows is not None:  # a column that is missing is named now, not after minutes
        read_samples(plan.network, plan.sanitizers, rows)
    found = audit(plan, rows, progress=progress)
    if not fitted_to:
        return found
    caution = Row(SECTION, "the rows themselves", None, None, "warn", NOT_HELD_OUT)
    return replace(found, rows=(*found.rows, caution))


def fitted(tell: Tell, progress: Progress, table: RowSource, roles: dict[str, Any]) -> Calibration:  # noqa: ARG001
    """The network of a table, its columns given their roles."""
    progress("fitting", 0.0)
    return fit_report(table, **roles)


def symbols(tell: Tell, progress: Progress, table: RowSource, roles: dict[str, Any]) -> list[SymbolPlan]:  # noqa: ARG001
    """Plans of symbols of a table to choose from; all their promises hold together."""
    known, hidden, blocks = roles["public"][0], roles["private"], roles.get("blocks")
    return SymbolLearner(
        table, roles["agents"], known, hidden, blocks=blocks, progress=progress
    ).every_choice()
