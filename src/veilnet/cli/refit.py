"""``veilnet refit``: a new plan from new calibration rows, compared with the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from veilnet.cli._command_line import Argument, Json, Option


def command(
    plan: Annotated[Path, Argument("Folder of the old plan.")],
    data: Annotated[Path, Argument("New calibration rows, with the columns the old fit had.")],
    privacy: Annotated[
        list[str] | None,
        Option("--privacy", "Ask for this privacy now, as for design: 3x, or lights=3x (repeat)."),
    ] = None,
    utility_loss: Annotated[
        str | None, Option("--utility-loss", metavar="PART", help="Ask for this loss now: 5% or 0.05.")
    ] = None,
    time: Annotated[
        str | None, Option("--time", "The column that tells when a row was measured, as for fit.")
    ] = None,
    missing: Annotated[
        str, Option("--missing", "Rows with missing values: refuse the table, or drop them.")
    ] = "refuse",
    accept: Annotated[
        list[str] | None, Option("--accept", "A doubt of the new fit to accept by its name (repeat).")
    ] = None,
    out: Annotated[Path | None, Option("--out", "Folder to write the new plan to.")] = None,
    force: Annotated[bool, Option("--force", "Let --out replace the plan of another network.")] = False,
    json: Json = False,
) -> None:
    """Fit the network anew and design as before; say what the old messages allow now, and what the new plan gives."""
    import veilnet as vn
    from veilnet._core.errors import InvalidRequest
    from veilnet.auditing.refitting import refit
    from veilnet.cli._shared import console, loss_allowed, print_json, targets
    from veilnet.io.plan_reading import check_destination
    from veilnet.model.doubts import doubt_notes

    wanted, loss = targets(privacy, "--privacy"), loss_allowed(utility_loss, "--utility-loss")
    old = vn.Plan.load(plan)
    if out is not None and out.resolve() == plan.resolve():
        raise InvalidRequest(
            f"{out}: agents and centre need the old plan until all have the new one; choose another folder"
        )
    found = refit(
        old,
        data,
        privacy=wanted,
        utility_loss=loss,
        time=time,
        missing=missing,  # type: ignore[arg-type]  # fit_report refuses other words
        accept=accept or [],
    )
    rows, summary = found.rows, str(found)  # before anything is written: what cannot be compared is not saved
    if out is not None:
        check_destination(out, found.new.network, force=force)
        found.new.save(out, force=force)
    if json:
        print_json(
            {
                "report": found.calibration.report,
                "warnings": found.calibration.warnings,
                "doubts": found.new.network.doubts,
                "promises": [
                    dict(zip(("what", "promised", "old_messages_now", "new_plan"), row, strict=True))
                    for row in rows
                ],
                "errors_of_the_old_centre": found.errors,
                "rows_the_old_agents_refuse": found.refused,
                "saved": out,
            }
        )
        return
    console.print(str(found.calibration.report), soft_wrap=True)
    for note in doubt_notes(found.new.network.doubts):
        console.print(f"\n{note}", soft_wrap=True)
    console.print(f"\n{summary}", soft_wrap=True)
    if out is not None:
        console.print(
            f"\nWrote {out}. Give every agent its new file, and the centre its center.json.", soft_wrap=True
        )
