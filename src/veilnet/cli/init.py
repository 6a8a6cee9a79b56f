"""``veilnet init``: a commented network file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[Path, typer.Argument(help="File to write, or - for standard output.")] = Path(
        "house.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="The house as a stream: its rows follow one another in time.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Write a commented network file to start from: a small house with five rooms."""
    from veilnet.cli._shared import console, print_json
    from veilnet.io.template import template_text, write_template

    if str(path) == "-":
        typer.echo(template_text(stream=stream), nl=False)
        return
    written = write_template(path, force=force, stream=stream)
    if json:
        print_json({"written": written})
        return
    console.print(f"Wrote {written}: a small house, explained line by line. Put your own numbers in, then:")
    console.print(f"  veilnet check {written}", soft_wrap=True)
