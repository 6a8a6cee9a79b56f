"""``veilnet init``: a commented network file to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from veilnet.cli._command_line import Argument, Json, Option


def command(
    path: Annotated[Path, Argument("File to write, or - for standard output.")] = Path("house.toml"),
    force: Annotated[bool, Option("--force", "Replace the file if it exists.")] = False,
    stream: Annotated[
        bool, Option("--stream", "The house as a stream: its rows follow one another in time.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a commented network file to start from: a small house with five rooms."""
    from veilnet.cli._shared import console, print_json
    from veilnet.io.template import template_text, write_template

    if str(path) == "-":
        sys.stdout.write(template_text(stream=stream))
        return
    written = write_template(path, force=force, stream=stream)
    if json:
        print_json({"written": written})
        return
    console.print(f"Wrote {written}: a small house, explained line by line. Put your own numbers in, then:")
    console.print(f"  veilnet check {written}", soft_wrap=True)
