"""``veilnet frontier``: the whole curve of utility against privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    network: Annotated[Path, typer.Argument(help="A network file: .toml, .json or .npz.")],
    privacy: Annotated[
        list[str] | None,
        typer.Option("--privacy", metavar="NUMBER", help="A privacy to include (repeat); twenty by default."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Plot to write: .svg, .png or .pdf.")] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove for each point how far from the best possible it is.")
    ] = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Table to write.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Trace the least utility loss for each privacy, with what is free and what is impossible marked."""
    import veilnet as vn
    from veilnet.cli._shared import check_file, check_plot, console, print_json, progress, table
    from veilnet.io._atomic import replacing, write_text

    check_plot(out)
    check_file(csv)
    levels = None if not privacy else [_level(text) for text in privacy]
    model = vn.Network.load(network)
    with progress("tracing the frontier", total=1.0) as steps:
        curve = vn.frontier(model, levels, prove=prove, progress=lambda _what, part: steps.update(part))
    if out is not None:
        with replacing(out) as file:
            curve.plot().savefig(file, format=out.suffix[1:].lower())
    if csv is not None:
        write_text(csv, curve.table())
    if json:
        rows = [
            {"asked": p.asked, "utility": p.utility, "privacy": p.privacy, "method": p.method, "gap": p.gap}
            for p in curve.rows
        ]
        print_json({"ceiling": curve.ceiling, "limit": curve.limit, "rows": rows})
        return
    console.print(
        table(
            ["privacy asked", "utility loss (%)", "method", *(["gap (%)"] if prove else [])],
            [[p.asked, -100 * p.utility, p.method, *([100 * p.gap] if prove else [])] for p in curve.rows],
            title=f"free up to {curve.ceiling:.4g} (ceiling), at most {curve.limit:.4g} (limit)",
        )
    )
    for path in (out, csv):
        if path is not None:
            console.print(f"Wrote {path}")


def _level(text: str) -> float:
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import amount

    if text.startswith("worst:"):
        raise InvalidRequest(
            f"--privacy: a frontier is drawn over the mean of the directions, found {text!r}; ask "
            "veilnet design for every direction"
        )
    return amount(text, "--privacy")
