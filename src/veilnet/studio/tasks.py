"""What the studio's jobs do, each a function that a process of its own can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veilnet._core.progress import Progress
from veilnet.auditing import audit
from veilnet.auditing.report import AuditReport
from veilnet.calibration.fitting import Calibration, fit_report
from veilnet.designs.frontiers import Frontier
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.report.building import traced_frontier
from veilnet.studio.asking import Ask
from veilnet.studio.jobs import Tell

__all__ = ["attack", "fitted", "refine", "trace"]

_SECONDS = 300.0


def trace(tell: Tell, progress: Progress, plan: Plan) -> Frontier | None:  # noqa: ARG001
    """The frontier of a plan's network."""
    return traced_frontier(plan, seconds=_SECONDS, progress=progress)


def refine(tell: Tell, progress: Progress, network: Network, ask: Ask) -> Plan:  # noqa: ARG001
    """The plan that ``veilnet design`` would answer with."""
    return ask.answered(network, progress)


def attack(tell: Tell, progress: Progress, plan: Plan) -> AuditReport:  # noqa: ARG001
    """The audit of a plan, on rows simulated from its model."""
    return audit(plan, progress=progress)


def fitted(tell: Tell, progress: Progress, table: Path, roles: dict[str, Any]) -> Calibration:  # noqa: ARG001
    """The network of a table, its columns given their roles."""
    progress("fitting", 0.0)
    return fit_report(table, **roles)
