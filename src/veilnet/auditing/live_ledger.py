"""What an audit says of a live agent's store: whether its chain of releases is whole and continues what was kept."""

from __future__ import annotations

from pathlib import Path

from veilnet.auditing.options import LedgerCheck
from veilnet.auditing.report import Judgement, Row
from veilnet.io.agent_ledger import audit_releases
from veilnet.plans.plan import Plan

__all__ = ["live_ledger_rows"]

_WHAT = "releases of a live agent"


def live_ledger_rows(plan: Plan, ledger: LedgerCheck) -> list[Row]:
    """Whether the store is whole, continues the head that was kept, and kept to its budget."""
    found = audit_releases(Path(ledger.path), head=ledger.head, received=ledger.releases)
    problems = list(found.problems)
    if found.agent and found.agent not in plan.network.position:
        problems.append(f"it is the store of {found.agent!r}, which is no agent of this plan")
    if problems:
        return [Row("ledger", _WHAT, "whole", "not whole", "fail", "; ".join(problems) + ".")]
    figures = {
        "agent": found.agent,
        "head": found.head,
        "releases": found.count,
        "missed": found.missed,
        "reserved": found.reserved,
        "last epoch": found.last_row,
    }
    aside = "" if ledger.head is not None else "; keep its head, or a reset will go unnoticed"
    sentence = (
        f"the store of {found.agent} is whole, {found.count} releases up to epoch {found.last_row} and "
        f"{found.missed} told as missed; {''.join(f'{remark}; ' for remark in found.remarks)}head "
        f"{found.head}{aside}."
    )
    verdict: Judgement = "ok" if ledger.head is not None else "warn"
    rows = [Row("ledger", _WHAT, "whole", "whole", verdict, sentence, figures=figures)]
    if found.left is None:
        return rows
    left = f"its budget allows {found.left} more releases."
    return [*rows, Row("ledger", "releases left", None, float(found.left), "info", left)]
