"""``veilnet inspect``: what an agent is asked to send, in words, before it sends anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    sanitizer: Annotated[Path, typer.Argument(help="An agent's file in a plan folder.")],
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", help="Fingerprint, public key or trust file to check it against (repeat)."),
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin this very file: sanitize then refuses any other in its place.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Say what an agent's file would send of each reading: exactly, with noise, mixed, or nothing.

    Raises an alarm where raw readings can be recovered from what is sent. Shows the file's fingerprint, to compare by
    another way with whoever designed the plan. Exit code 0: nothing alarming; 1: an alarm, or a file that is not
    trusted; 2: not readable as an agent's file.
    """
    from veilnet._core.errors import InvalidPlan
    from veilnet.agent.inspection import inspect
    from veilnet.cli._shared import console, print_json
    from veilnet.io.sanitizer_files import read_sanitizer
    from veilnet.io.trust import fingerprint, pinned, require_trust
    from veilnet.io.trust import pin as write_pin

    agent, plan = read_sanitizer(sanitizer)
    found = inspect(agent)
    distrust = ""
    has_pins = not pin and pinned(sanitizer, trust or ()) is not None
    if has_pins:
        try:
            require_trust(sanitizer, trust or ())
        except InvalidPlan as error:
            distrust = str(error)
    if json:
        print_json(
            {
                "agent": found.agent,
                "plan": plan,
                "fingerprint": fingerprint(sanitizer),
                "trusted": None if not has_pins else not distrust,
                "numbers": found.numbers,
                "readings": found.exposures,
                "alarms": found.alarms,
                "notes": found.notes,
            }
        )
    else:
        console.print(str(found), soft_wrap=True)
        console.print(
            f"Plan {plan or 'none'}; fingerprint of this file {fingerprint(sanitizer)}", soft_wrap=True
        )
        if has_pins:
            console.print(distrust or "It is trusted: pinned, or signed with a pinned key.", soft_wrap=True)
    if found.alarms and pin:
        console.print("Not pinned: there is an alarm.", soft_wrap=True)
    elif pin:
        written = write_pin(sanitizer)
        if not json:
            console.print(
                f"Pinned in {written}: sanitize refuses any other file in its place.", soft_wrap=True
            )
    if found.alarms or distrust:
        raise typer.Exit(1)
