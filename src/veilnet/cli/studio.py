"""``veilnet studio``: look at a network in the browser, and try what it would cost to protect it."""

from __future__ import annotations

from pathlib import Path

from veilnet.cli._command_line import PORT, argument
from veilnet.cli._shared import tell_address


def command(
    given: Path | None = argument(
        "Network (.toml, .json, .npz) or table (.csv, .parquet, ...) to open.", default=None
    ),
    port: int = PORT,
) -> None:
    """Open the studio: drag privacy and see what it costs, agent by agent.

    It listens on this machine only and prints an address that works once, in one browser. Ctrl-C ends it.
    """
    from veilnet.studio.loopback import serve

    serve(given, port=port, started=tell_address)
