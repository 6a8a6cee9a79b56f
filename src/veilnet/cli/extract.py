"""``veilnet extract``: one agent's own file, out of a plan that is one file, or in parts."""

from __future__ import annotations

import os
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import JSON, argument, option
from veilnet.cli._shared import print_json, tell


def command(
    plan: Path = argument("A plan in one file, plan.npz, or a folder of parts."),
    agent: str = argument("Whose file to extract, by name; center for the centre's."),
    out: str | None = option(
        "--out",
        "The file to write, or a folder for it; the agent's name and .json, here, when left out.",
        metavar="PATH",
    ),
    json: bool = JSON,
) -> None:
    """Write the file that one agent needs, the same as in the folder of the plan.

    A plan that was cut off or changed is refused, and nothing is written. What it promises is not recomputed
    here: 'veilnet verify' does. Exit code 0: written; 2: no such agent, or not readable as a plan.
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
            f"{plan}: expected a plan.npz or a folder of parts; in the folder of a plan "
            "every agent has its file already"
        )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    write_bytes(target, content)
    if json:
        print_json({"agent": agent, "plan": name, "saved": target})
    else:
        tell(f"Wrote {target}: what {agent} needs of plan {name}.")
