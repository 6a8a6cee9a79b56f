"""``veilnet live keys``: certificates for every party of a plan, and the broker's configuration."""

from __future__ import annotations

import os
from pathlib import Path

from veilnet.cli._command_line import JSON, ROOT, argument, option


def command(
    plan: Path = argument("The plan: its folder, its center.json, or plan.npz."),
    out: Path = option("--out", "The folder for all keys; one that has some is completed.", required=True),
    host: list[str] | None = option(
        "--host", "Name or address by which the broker is reached (repeat); localhost if left out."
    ),
    port: int = option("--port", "Where the broker listens.", at_least=1, at_most=65535, default=8883),
    folder: str | None = option(
        "--broker-folder", "Where keys/broker will be on the broker's machine, if elsewhere."
    ),
    persistence: str | None = option(
        "--persistence", "Where the broker may keep what it queues; in memory if left out."
    ),
    reader: list[str] | None = option("--reader", "A program that reads estimates, as telegraf (repeat)."),
    root: str = ROOT,
    days: int = option("--days", "How long certificates are valid.", at_least=1, default=365),
    json: bool = JSON,
) -> None:
    """Make a certificate for the broker, the centre and every agent of a plan, and Mosquitto's configuration.

    Hand each party its own folder and nothing else: keys/broker, keys/centre, keys/agents/kitchen, ... The folder
    keys/authority stays with you: whoever has it can pose as anybody. Run it again after a change of the plan, or to
    renew: the authority is kept, and so are certificates with at least 30 days left; mosquitto.conf and the list of
    who may do what are written anew, and agents that left the plan may do nothing any more.
    """
    from veilnet.cli._shared import print_json, tell
    from veilnet.live.broker import BrokerPlan, write_configuration
    from veilnet.live.keys import LOOPBACK, make_keys
    from veilnet.live.seals import make_seals
    from veilnet.live.topics import Topics

    topics = Topics(root)
    agents = _agents(plan)
    made = make_keys(out, agents, hosts=tuple(host or LOOPBACK), readers=tuple(reader or ()), days=days)
    make_seals(made.keys, agents, reader or ())
    written = write_configuration(
        made.keys.broker,
        BrokerPlan(agents, topics, tuple(reader or ())),
        folder=folder,
        port=port,
        address=None if host else "127.0.0.1",
        persistence=persistence,
    )
    if json:
        print_json({"folder": out, "configuration": written, "new": made.new, "kept": made.kept})
        return
    tell(
        f"Made keys for {len(made.new)} parties in {out}, kept those of {len(made.kept)}; valid for {days} days."
    )
    tell(f"Start the broker with: mosquitto -c {written}")
    if os.geteuid() == 0:
        tell(
            f"As root it becomes the user mosquitto; let that one read it: chown -R mosquitto {written.parent}"
        )
    tell(f"Hand each party its own folder and nothing else; keep {made.keys.authority} to yourself.")


def _agents(plan: Path) -> list[str]:
    """The names of the agents in a plan."""
    from veilnet.io.centre_files import load_centre
    from veilnet.io.plan_archives import is_archive
    from veilnet.io.plan_files import CENTRE
    from veilnet.plans.plan import Plan

    if is_archive(plan):
        return list(Plan.load(plan).network.agents)
    return list(load_centre(plan / CENTRE if plan.is_dir() else plan).agents)
