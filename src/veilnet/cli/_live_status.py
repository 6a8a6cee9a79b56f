"""``veilnet live status``: agents seen, lag, losses and refusals, from the stores of a centre and of agents."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from veilnet.cli._command_line import JSON, argument


def command(
    stores: list[Path] = argument("The centre's --out, or an agent's --store; several, if you like."),
    json: bool = JSON,
) -> None:
    """Say how a live network is doing, while it runs or afterwards; nothing is changed.

    Of a centre: each agent's messages, epochs it missed (no reading to release) or was silent in (no word arrived),
    how many epochs it is behind, when it was last heard, what was refused and why. Of an agent: releases, what waits
    to be acknowledged, and what is left of its budget.
    """
    from veilnet.cli._shared import print_json
    from veilnet.io.agent_ledger import KIND
    from veilnet.live.status import agent_status, kind_of, read_status

    found: list[dict[str, Any]] = []
    for path in stores:
        if kind_of(path) == KIND:
            agent, ledger = agent_status(path)
            found.append({"store": path, "agent": agent, **vars(ledger)})
            if not json:
                _show_agent(agent, ledger)
        else:
            status = read_status(path)
            found.append({"store": path, **status.as_json()})
            if not json:
                _show_centre(status)
    if json:
        print_json(found[0] if len(found) == 1 else found)


def _show_agent(agent: str, ledger: Any) -> None:
    from veilnet.cli._shared import tell

    left = "no budget" if ledger.left is None else f"{ledger.left} more within its budget"
    tell(
        f"{agent}: {ledger.releases} releases up to epoch {ledger.epoch}, {ledger.missed} epochs missed, "
        f"{ledger.waiting} messages not acknowledged, {ledger.refused} refused by the centre; {left}; "
        f"head {ledger.head}"
    )


def _show_centre(status: Any) -> None:
    from veilnet.cli._shared import console, table
    from veilnet.live.intake import NOT_USED

    revised = status.estimates - status.epochs
    console.print(
        f"{status.epochs} epochs estimated up to {status.newest}, {revised} revisions; "
        f"{len(status.plans)} plan{'s' if len(status.plans) > 1 else ''}, the newest {status.plans[-1][:16]}."
        if status.plans
        else "No plan was taken up yet."
    )
    columns = ["agent", "messages", "missed", "silent", "lag", "last heard", "again", "refused"]
    rows = [
        [each.agent, each.messages, each.missed, each.silent, each.lag, _ago(each.heard), each.duplicates,
         each.refused]
        for each in status.agents
    ]  # fmt: skip
    console.print(table(columns, rows))
    for (agent, reason), count in sorted(status.counts.items()):
        if reason != "duplicate":
            did = "Did not use" if reason in NOT_USED else "Refused"
            console.print(f"{did} {count} on the topic of {agent or 'nobody'}: {reason}.")


def _ago(heard: float) -> str:
    if not heard:
        return "never"
    seconds = max(0.0, time.time() - heard)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
