"""What can be taken away: the network, the plan's folder, and the report, each as the command line writes it."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from veilnet.plans.plan import Plan
from veilnet.report.building import report_of
from veilnet.studio.workbench import Loaded
from veilnet.symbols.plan import SymbolPlan

__all__ = ["network_text", "plan_archive", "report_page"]


def network_text(now: Loaded) -> bytes:
    """The network as TOML."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.toml"
        now.network.save(path)
        return path.read_bytes()


def plan_archive(made: Plan | SymbolPlan) -> bytes:
    """The plan's folder as a .zip: ``plan/`` with a file for each agent and one for the centre."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        made.save(plan)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(plan.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
    return packed.getvalue()


def report_page(now: Loaded) -> bytes:
    """The report of the plan, with the frontier and the audit as far as there are any."""
    return report_of(now.plan, audit=now.audit, curve=now.curve).html.encode()
