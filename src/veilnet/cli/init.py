"""``veilnet init``: a commented network file to start from."""

from __future__ import annotations

import sys
from pathlib import Path

from veilnet.cli._command_line import JSON, argument, option
from veilnet.cli._shared import print_json, show, tell


def command(
    path: Path = argument("File to write, or - for standard output.", default=Path("house.toml")),
    force: bool = option("--force", "Replace the file."),
    stream: bool = option("--stream", "The house as a time series."),
    json: bool = JSON,
) -> None:
    """Write a commented example network: a small house with five rooms."""
    from veilnet.io.template import template_text, write_template

    if str(path) == "-":
        sys.stdout.write(template_text(stream=stream))
        return
    written = write_template(path, force=force, stream=stream)
    if json:
        print_json({"written": written})
        return
    show(f"Wrote {written}: a small house, explained line by line. Put your own numbers in, then:")
    tell(f"  veilnet check {written}")
