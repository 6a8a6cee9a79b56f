"""``veilnet verify``: recompute what a saved plan promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    plan: Annotated[Path, typer.Argument(help="The folder of a saved plan.")],
    network: Annotated[
        Path | None,
        typer.Argument(help="The network file you trust; without it, the plan's own is taken on trust."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Recompute every promise of a saved plan from scratch, on a network you trust.

    Checks that the plan was made for exactly this network, that every agent's file and the centre's hold
    what the plan says, that the grids are those the noise calls for, and that utility and privacy are as
    promised. Exit code 0: all confirmed; 1: something is not; 2: not readable as a plan or a network.
    """
    from veilnet.cli._shared import console, print_json, table
    from veilnet.model.network import Network
    from veilnet.plans.verification import verify

    checks = verify(plan, None if network is None else Network.load(network))
    ok = all(check.ok for check in checks)
    if json:
        print_json({"ok": ok, "trusted_network": network, "checks": checks})
    else:
        rows = [(check.what, check.promised, check.found, check.ok, check.note) for check in checks]
        console.print(table(("what", "promised", "found", "confirmed", ""), rows))
        if network is None:
            console.print("The plan's own network was taken on trust: give yours to check that too.")
        console.print("Every promise is confirmed." if ok else "NOT confirmed: do not use this plan.")
    if not ok:
        raise typer.Exit(1)
