"""``veilnet frontier``: the whole curve of utility against privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet.cli._command_line import JSON, SUMMED, argument, option

if TYPE_CHECKING:
    from veilnet.designs.frontiers import Frontier


def command(
    network: Path = argument("A network file: .toml, .json or .npz."),
    privacy: list[str] | None = option(
        "--privacy",
        "How much every private error variance is to grow: 3x, 50%, or 2 for 3x (repeat); else twenty. Of "
        "a secret with a change, how surely it may be seen: presence=auc:0.9,0.8,0.7,0.6.",
        metavar="GROWTH",
    ),
    points: int | None = option(
        "--points", "How many points to trace; twenty when nothing is said.", at_least=2
    ),
    summed: list[str] | None = SUMMED,
    out: Path | None = option("--out", "Plot to write: .svg, .png or .pdf."),
    prove: bool = option("--prove", "Prove for each point how far from the best possible it is."),
    csv: Path | None = option("--csv", "Table to write."),
    json: bool = JSON,
) -> None:
    """Trace the least utility loss for each privacy, with what is free and what is impossible marked."""
    import veilnet as vn
    from veilnet._core.words import join_names
    from veilnet.cli._shared import check_file, check_plot, console, groups, print_json, progress, table, tell
    from veilnet.cli._views import detectability_json
    from veilnet.io._atomic import replacing, write_text

    check_plot(out)
    check_file(csv)
    levels = None if not privacy else _levels(privacy)
    model = vn.Network.load(network)
    with progress("tracing the frontier", total=1.0) as steps:
        curve = vn.frontier(
            model,
            levels,
            points=points,
            prove=prove,
            summed=groups(summed),
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
            | ({"detectability": detectability_json(p.plan.detectability)} if curve.seen and p.plan else {})
            for p in curve.rows
        ]
        print_json({"measure": curve.measure, "ceiling": curve.ceiling, "limit": curve.limit, "rows": rows})
        return
    public = join_names(list(model.public))
    tell(curve.free_in_words)
    proved = ["no plan does it with less than"] if prove else []
    console.print(
        table(
            [
                curve.measure or "every private error variance grows",
                f"error variance of {public} then grows",
                *proved,
            ],
            _rows(curve, prove=prove),
        )
    )
    for path in (out, csv):
        if path is not None:
            console.print(f"Wrote {path}")


def _levels(given: list[str]) -> list[Any]:
    """Growths; or, of ``name=auc:0.9,0.8``, what is asked of the named secrets at each point."""
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import growth, targets

    if any(text.startswith("worst:") for text in given):
        raise InvalidRequest(
            "--privacy: a frontier is drawn over the mean of the directions; ask veilnet design for every direction "
            "(worst:)"
        )
    if not any("=" in text for text in given):
        return [growth(text, "--privacy") for text in given]
    lists = [(text.rpartition(":")[0], text.rpartition(":")[2].split(",")) for text in given]
    if len({len(values) for _, values in lists}) > 1:
        raise InvalidRequest("--privacy: expected as many figures for each secret, presence=auc:0.9,0.8,0.7")
    return [
        targets([f"{kind}:{values[place]}" for kind, values in lists], "--privacy")
        for place in range(len(lists[0][1]))
    ]


def _rows(curve: Frontier, *, prove: bool) -> list[list[str]]:
    """One row for all that is free, and one for each other point."""
    import numpy as np

    from veilnet._core.words import NOTHING, percent

    rows = []
    if curve.seen:
        rows.append([f"{curve.ceiling:.4g}", "not at all: so much is free", ""])
    elif curve.ceiling > NOTHING:
        free = "as much as one likes" if np.isinf(curve.ceiling) else f"up to {1 + curve.ceiling:.4g}-fold"
        rows.append([free, "not at all: so much is free", ""])
    for point in curve.rows:
        grows = f"{point.asked:.4g}" if curve.seen else f"{1 + point.asked:.4g}-fold"
        if point.plan is None:
            rows.append([grows, "impossible: not even silence hides so much", ""])
        elif point not in curve.free:
            proved = percent(point.bound) if np.isfinite(point.gap) else "not proved"
            rows.append([grows, f"by {percent(-point.utility)}", proved])
    return [row if prove else row[:2] for row in rows]
