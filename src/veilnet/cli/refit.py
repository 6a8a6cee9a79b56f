"""``veilnet refit``: a new plan from new calibration rows, compared with the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import veilnet as vn
from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import (
    JSON,
    PRIVACY,
    PRIVATE_ERROR,
    PUBLIC_ERROR,
    UTILITY_LOSS,
    argument,
    option,
)
from veilnet.cli._shared import asked_for, print_json, tell
from veilnet.model.doubts import doubt_notes


def command(
    plan: Path = argument("Folder of the old plan."),
    data: Path = argument("New calibration table, with the columns of the old fit."),
    private_error: list[str] | None = PRIVATE_ERROR,
    public_error: str | None = PUBLIC_ERROR,
    privacy: list[str] | None = PRIVACY,
    utility_loss: str | None = UTILITY_LOSS,
    time: str | None = option("--time", "Column of timestamps, as for fit."),
    missing: str = option(
        "--missing", "Rows with missing values: refuse the table, or drop them.", default="refuse"
    ),
    accept: list[str] | None = option("--accept", "Doubt of the new fit to accept, by name (repeat)."),
    out: Path | None = option("--out", "Folder for the new plan."),
    force: bool = option("--force", "Replace a plan of another network."),
    json: bool = JSON,
) -> None:
    """Refit the network to new data and redesign; compare the old messages with the new plan."""
    from veilnet.auditing.refitting import refit
    from veilnet.io.plan_reading import check_destination

    asked = asked_for(privacy, private_error, utility_loss, public_error)
    old = vn.Plan.load(plan)
    if out is not None and out.resolve() == plan.resolve():
        raise InvalidRequest(
            f"{out}: agents and centre need the old plan until all have the new one; choose another folder"
        )
    unchecked: Any = missing  # fit_report refuses other words
    found = refit(old, data, **asked, time=time, missing=unchecked, accept=accept or [])
    rows, summary = found.rows, str(found)  # before anything is written: what cannot be compared is not saved
    if out is not None:
        check_destination(out, found.new.network, force=force)
        found.new.save(out, force=force)
    report, doubts = found.calibration.report, found.new.network.doubts
    if json:
        heads = ("what", "promised", "old_messages_now", "new_plan")
        print_json(
            {
                "report": report,
                "warnings": found.calibration.warnings,
                "doubts": doubts,
                "promises": [dict(zip(heads, row, strict=True)) for row in rows],
                "errors_of_the_old_centre": found.errors,
                "rows_the_old_agents_refuse": found.refused,
                "saved": out,
            }
        )
        return
    written = f"Wrote {out}. Give every agent its new file, and the centre its center.json."
    tell("\n\n".join([str(report), *doubt_notes(doubts), summary, *([] if out is None else [written])]))
