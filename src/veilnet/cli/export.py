"""``veilnet export``: an agent's file as C99, for a device that runs no Python."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from veilnet.cli._command_line import ACCEPTED, JSON, TRUST, argument, option
from veilnet.cli._shared import print_json, tell


def command(
    agent: Path = argument("This agent's file in a plan folder."),
    c: Path = option("--c", "The folder for the C files.", metavar="DIR", required=True),
    arithmetic: Literal["double", "fixed"] = option(
        "--arithmetic", "Of its sums: fixed is for devices without doubles.", default="double"
    ),
    json: bool = JSON,
    trust: str | None = TRUST,
    accepted: Path | None = ACCEPTED,
) -> None:
    """Write an agent as C99: one header with its numbers, beside code that all agents share.

    veilnet_agent.c sanitizes a row (symbols.c makes a symbol of it), wire.c packs and seals messages, and journal.c
    keeps two pages of flash so that nothing is drawn twice. They allocate nothing; randomness and flash are callbacks
    of yours. Given the same random bytes they send the same numbers as 'veilnet sanitize', and 'veilnet audit --run'
    tries a program made of them. A file that may not be run is not exported.

    Exit code 0: written; 2: not an agent's file, or one that cannot be exported: the message says why.
    """
    from veilnet.cli._symbols import runnable
    from veilnet.export import export_c, rounding
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.acceptance import PlanFile

    found, plan, _ = runnable(PlanFile(agent, trust, accepted), sealed_bytes(agent))
    written = export_c(found, plan, c, arithmetic)
    if json:
        files = [str(path) for path in written]
        shows = rounding(found, arithmetic)
        print_json({"agent": found.agent, "plan": plan, "rounding": shows, "written": files})
        return
    tell(f"Wrote {len(written)} files to {c}: what {found.agent} needs of plan {plan}.")
    if shows := rounding(found, arithmetic):
        kind = "doubles" if arithmetic == "double" else "whole numbers, of readings that are floats"
        tell(f"Sums are of {kind}: rounding shows with a chance of at most {shows:.1g} a row.")
    tell(f"Compile with: cc -std=c99 -Os -I {c} your_program.c {c}/*.c -lm")
