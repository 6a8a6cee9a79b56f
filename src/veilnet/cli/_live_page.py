"""``veilnet live page``: estimates with their band and agents' health, in the browser."""

from __future__ import annotations

import sys
from pathlib import Path

from veilnet.cli._command_line import argument, option


def command(
    store: Path = argument("The centre's --out."),
    port: int = option("--port", "Port on this machine; 0 takes one that is free.", default=0),
) -> None:
    """Show a live network in the browser: each estimate with its band, and how every agent is doing.

    It listens on this machine only and prints an address that works once, in one browser. The page is new every five
    seconds, while the centre runs or afterwards. Ctrl-C ends it.
    """
    from veilnet.cli._shared import console, tell
    from veilnet.studio.live_page import serve_live

    def started(address: str) -> None:
        console.print("Open this address in a browser on this machine (it works once):\n")
        tell(f"  {address}\n")
        console.print("Ctrl-C ends it.")
        sys.stdout.flush()  # whoever reads it through a pipe waits for the address

    serve_live(store, port=port, started=started)
