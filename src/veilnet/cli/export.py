"""``veilnet export``: an agent's file as C99, for a device that runs no Python."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from veilnet.cli._command_line import ACCEPTED, JSON, TRUST, argument, option
from veilnet.cli._shared import print_json, tell


def command(
    agent: Path = argument("Agent's file in a plan folder."),
    c: Path = option("--c", "Folder for the C files.", metavar="DIR", required=True),
    arithmetic: Literal["double", "fixed"] = option(
        "--arithmetic", "double, or fixed (integers) for devices without doubles.", default="double"
    ),
    json: bool = JSON,
    trust: str | None = TRUST,
    accepted: Path | None = ACCEPTED,
) -> None:
    """Export an agent as C99: one header with its numbers, and code shared by all agents.

    veilnet_agent.c sanitizes a row (symbols.c forms a symbol), wire.c packs and seals messages, and journal.c uses
    two flash pages so that noise is never drawn twice for a reading. Nothing is allocated; randomness and flash are
    your callbacks. With the same random bytes the numbers equal those of 'veilnet sanitize'; 'veilnet audit --run'
    tests your program. Exit code 0: written; 2: not exportable, with the reason.
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
        kind = "double precision" if arithmetic == "double" else "integers, from float readings"
        tell(f"Arithmetic: {kind}; a rounding error shows with probability at most {shows:.1g} per row.")
    tell(f"Compile with: cc -std=c99 -Os -I {c} your_program.c {c}/*.c -lm")
