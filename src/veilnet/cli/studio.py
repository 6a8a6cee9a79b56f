"""``veilnet studio``: look at a network in the browser, and try what it would cost to protect it."""

from __future__ import annotations

from pathlib import Path

from veilnet.cli._command_line import argument, option


def command(
    given: Path | None = argument(
        "A network (.toml, .json, .npz) or a table (.csv, .parquet, ...) to open first.", default=None
    ),
    port: int = option("--port", "Port on this machine; 0 takes one that is free.", default=0),
) -> None:
    """Open the studio: drag privacy and see what it costs, agent by agent.

    It listens on this machine only and prints an address that works once, in one browser. Ctrl-C ends it.
    """
    from veilnet.cli._shared import console, tell
    from veilnet.studio.serving import serve

    def started(address: str) -> None:
        console.print("Open this address in a browser on this machine (it works once):\n")
        tell(f"  {address}\n")
        console.print("Ctrl-C ends the studio.")

    serve(given, port=port, started=started)
