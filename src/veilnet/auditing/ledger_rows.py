"""What an audit says of a ledger of releases, or of a live agent's store: whether it is whole, and what is left."""

from __future__ import annotations

from pathlib import Path

from veilnet._core.words import number
from veilnet.auditing.ledger import Ledger, verify_ledger
from veilnet.auditing.options import LedgerCheck
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.io.agent_ledger import audit_releases, is_agent_store
from veilnet.plans.plan import Plan


def ledger_rows(plan: Plan, check: LedgerCheck) -> list[Row]:
    """Whether it is whole and continues the head that was kept, and how many releases it still allows."""
    path = Path(check.path)
    left: float | None = None
    remarks = [] if check.head is not None else ["keep its head, or a reset will go unnoticed"]
    if is_agent_store(path):
        what = "releases of a live agent"
        found = audit_releases(path, head=check.head, received=check.releases)
        problems = list(found.problems)
        if found.agent and found.agent not in plan.network.position:
            problems.append(f"it is the store of {found.agent!r}, which is no agent of this plan")
        left = None if found.left is None else float(found.left)
        remarks = [*found.remarks, *remarks]
        figures = {"agent": found.agent, "head": found.head, "releases": found.count, "missed": found.missed}
        figures |= {"reserved": found.reserved, "last epoch": found.last_row}
    else:
        what = "ledger of releases"
        problems = verify_ledger(path, plan.network, check.head, check.releases)
        figures = {}
        if not problems:
            opened = Ledger(path, plan.network)
            left = opened.remaining(plan)
            figures = {"head": opened.head, "releases": opened.count, "privacy": opened.privacy()}
    section = Section.LEDGER.heading
    if problems:
        return [Row(section, what, "whole", "not whole", "fail", "; ".join(problems) + ".")]
    verdict: Judgement = "ok" if check.head is not None else "warn"
    headings = ("agent", "releases", "missed", "last epoch", "head")
    shown = {"found": "whole"} | {each: str(figures[each]) for each in headings if each in figures}
    why = f"{'; '.join(remarks)}." if remarks else ""
    rows = [Row(section, what, "whole", "whole", verdict, why, None, figures, shown)]
    if left is None:
        return rows
    return [*rows, Row(section, "releases left", None, left, "info", shown={"more releases": number(left)})]
