"""``veilnet frontier``: the whole curve of utility against privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from veilnet.cli._command_line import Argument, Json, Option

if TYPE_CHECKING:
    from veilnet.designs.frontiers import Frontier


def command(
    network: Annotated[Path, Argument("A network file: .toml, .json or .npz.")],
    privacy: Annotated[
        list[str] | None,
        Option(
            "--privacy",
            metavar="GROWTH",
            help="How much every private error variance is to grow: 3x, 50%, or 2 for 3x (repeat); else twenty.",
        ),
    ] = None,
    points: Annotated[
        int | None,
        Option("--points", at_least=2, help="How many points to trace; twenty when nothing is said."),
    ] = None,
    out: Annotated[Path | None, Option("--out", "Plot to write: .svg, .png or .pdf.")] = None,
    prove: Annotated[
        bool, Option("--prove", "Prove for each point how far from the best possible it is.")
    ] = False,
    csv: Annotated[Path | None, Option("--csv", "Table to write.")] = None,
    json: Json = False,
) -> None:
    """Trace the least utility loss for each privacy, with what is free and what is impossible marked."""
    import veilnet as vn
    from veilnet._core.words import join_names, times
    from veilnet.cli._parts import refuse_parts
    from veilnet.cli._shared import check_file, check_plot, console, print_json, progress, table
    from veilnet.io._atomic import replacing, write_text

    refuse_parts(network, "frontier")
    check_plot(out)
    check_file(csv)
    levels = None if not privacy else [_level(text) for text in privacy]
    model = vn.Network.load(network)
    with progress("tracing the frontier", total=1.0) as steps:
        curve = vn.frontier(
            model,
            levels,
            points=points,
            prove=prove,
            progress=lambda _what, part: steps.update(part),
        )
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
    private, public = join_names(list(model.private)), join_names(list(model.public))
    console.print(
        f"For free, the centre's error variance on {private} grows at least {times(1 + curve.ceiling)}; if nothing "
        f"were sent, {times(1 + curve.limit)}."
    )
    proved = ["no plan does it with less than"] if prove else []
    console.print(
        table(
            ["every private error variance grows", f"that of {public} then grows", *proved],
            _rows(curve, prove=prove),
        )
    )
    for path in (out, csv):
        if path is not None:
            console.print(f"Wrote {path}")


def _level(text: str) -> float:
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import growth

    if text.startswith("worst:"):
        raise InvalidRequest(
            f"--privacy: a frontier is drawn over the mean of the directions, found {text!r}; ask "
            "veilnet design for every direction"
        )
    return growth(text, "--privacy")


def _rows(curve: Frontier, *, prove: bool) -> list[list[str]]:
    """One row for all that is free, and one for each other point."""
    import numpy as np

    from veilnet._core.words import NOTHING, percent

    rows = []
    if curve.ceiling > NOTHING:
        free = "as much as one likes" if np.isinf(curve.ceiling) else f"up to {1 + curve.ceiling:.4g}-fold"
        rows.append([free, "not at all: so much is free", ""])
    for point in curve.rows:
        grows = f"{1 + point.asked:.4g}-fold"
        if point.plan is None:
            rows.append([grows, "impossible: not even silence hides so much", ""])
        elif point not in curve.free:
            proved = percent(point.bound) if np.isfinite(point.gap) else "not proved"
            rows.append([grows, f"by {percent(-point.utility)}", proved])
    return [row if prove else row[:2] for row in rows]
