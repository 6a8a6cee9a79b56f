"""``veilnet extract``: one agent's own file, out of a plan that is one file, or in parts."""

from __future__ import annotations

import os
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import JSON, argument, option
from veilnet.cli._shared import print_json, tell


def command(
    plan: Path = argument("plan.npz, or a folder of parts."),
    agent: str = argument("Agent's name; center for the centre's file."),
    out: str | None = option(
        "--out",
        "File or folder to write; AGENT.json by default.",
        metavar="PATH",
    ),
    json: bool = JSON,
) -> None:
    """Extract one agent's file from a plan in a single file.

    The result equals the file in a plan folder. A truncated or modified plan is refused, and nothing is written.
    Promises are not recomputed: use 'veilnet verify'. Exit code 0: written; 2: no such agent, or unreadable.
    """
    from veilnet.io._atomic import write_bytes
    from veilnet.io.plan_archives import Archive, is_archive
    from veilnet.io.plan_files import CENTRE, centre_file, file_names

    own_name = CENTRE if agent == "center" else file_names([agent])[agent]
    folder, target = None, Path(own_name if out is None else out)
    if out is not None and (out.endswith(("/", os.sep)) or target.is_dir()):
        folder, target = target, target / own_name
    if (plan / "header.json").is_file():
        from veilnet.cluster import agent_file

        name, content = agent_file(plan, agent)
    elif is_archive(plan):
        archive = Archive.read(plan)
        name = archive.plan
        content = centre_file(plan) if agent == "center" else archive.agent_file(agent)
    else:
        raise InvalidRequest(
            f"{plan}: expected a plan.npz or a folder of parts; a plan folder already has one file per agent"
        )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    write_bytes(target, content)
    if json:
        print_json({"agent": agent, "plan": name, "saved": target})
    else:
        tell(f"Wrote {target}: what {agent} needs of plan {name}.")
