"""``veilnet live read``: estimates from the broker, each with the centre's signature checked."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from veilnet.cli._command_line import BROKER, ROOT, option
from veilnet.cli._lines import speaker


def command(
    broker: str = BROKER,
    cert: Path = option(
        "--cert", "The folder of a reader of 'veilnet live keys --reader NAME'.", required=True
    ),
    count: int | None = option("--count", "End after so many estimates; never if left out.", at_least=1),
    root: str = ROOT,
) -> int:
    """Print estimates as JSON lines, as the centre publishes them, and nothing that it did not sign.

    A broker can invent estimates for readers that do not check: Home Assistant and Telegraf trust it. Here what was
    not signed by the centre, was changed, is of another network or older than what came before is left out, and said;
    the exit code is then 1. A broker can still hold estimates back: "published" says when the centre spoke.
    """
    from veilnet.live.connecting import read_address
    from veilnet.live.keys import Credentials
    from veilnet.live.reading import Reader
    from veilnet.live.topics import Topics

    ended = threading.Event()
    coming = itertools.count(1)

    def estimated(table: dict[str, Any]) -> None:
        if ended.is_set():
            return
        sys.stdout.write(json.dumps(table, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        if next(coming) == count:
            ended.set()

    reader = Reader(
        Topics(root), Credentials(cert), read_address(broker), say=speaker("live read"), estimated=estimated
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    reader.start()
    try:
        ended.wait()
    finally:
        reader.stop()
    return 1 if reader.refused else 0
