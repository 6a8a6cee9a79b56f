"""``veilnet frontier``: the whole curve of utility against privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import JSON, PAPER, PLOT, PRIVACY, SUMMED, argument, option
from veilnet.cli._shared import (
    check_file,
    check_plot,
    groups,
    print_json,
    progress,
    show,
    table,
    targets,
    tell,
    tell_next,
    write_plot,
)

if TYPE_CHECKING:
    from veilnet.designs.frontiers import Frontier


def command(
    network: Path = argument("Network file (.toml, .json, .npz)."),
    private_error: list[str] | None = option(
        "--private-error",
        "Smallest standard error allowed for every private parameter, 2x the raw one (repeat); twenty levels "
        "by default. For a secret: presence=auc:0.9,0.8,0.7,0.6.",
        metavar="ERROR",
    ),
    privacy: list[str] | None = PRIVACY,
    points: int | None = option("--points", "Number of points (default 20).", at_least=2),
    summed: list[str] | None = SUMMED,
    plot: Path | None = PLOT,
    prove: bool = option("--prove", "Prove for each point how far it is from the optimum."),
    csv: Path | None = option("--csv", "Table to write."),
    paper: bool = PAPER,
    json: bool = JSON,
) -> None:
    """Trace public error against private error, with what is free and what is impossible marked."""
    from veilnet._core.words import join_names
    from veilnet.cli._views import detectability_json
    from veilnet.io._atomic import write_text

    check_plot(plot)
    check_file(csv)
    if privacy and private_error:
        raise InvalidRequest("--privacy and --private-error: expected one of them, found both; keep one")
    levels = _levels(privacy, "--privacy") if privacy else _levels(private_error or [], "--private-error")
    model = vn.Network.load(network)
    with progress("tracing the frontier", total=1.0) as steps:
        curve = vn.frontier(
            model, levels or None, points=points, prove=prove, summed=groups(summed), progress=steps.reached
        )
    write_plot(plot, "frontier", curve)
    if csv is not None:
        write_text(csv, curve.table())
    if json:
        names = ("asked", "utility", "privacy", "method", "gap")
        rows = [{name: getattr(point, name) for name in names} for point in curve.rows]
        for row, point in zip(rows, curve.rows, strict=True):
            if curve.seen and point.plan:
                row["detectability"] = detectability_json(point.plan.detectability)
        print_json({"measure": curve.measure, "ceiling": curve.ceiling, "limit": curve.limit, "rows": rows})
        return
    tell(curve.free_in_words)
    grows = f"standard error of {join_names(list(model.public))} then grows"
    heads = [curve.measure or "every private standard error grows", grows]
    heads += ["no plan does it with less than"] if prove else []
    show(table([*heads, *(["p", "u"] if paper else [])], _rows(curve, prove=prove, paper=paper)))
    for path in (plot, csv):
        if path is not None:
            show(f"Wrote {path}")
    paid = [point for point in curve.rows if point.plan is not None and point not in curve.free]
    if paid and not curve.seen:
        asked = f"{(1 + paid[len(paid) // 2].asked) ** 0.5:.3g}x"
        tell_next("design", network, "--private-error", asked, "--out", "plan/")


def _levels(given: list[str], option: str) -> list[Any]:
    """Growths; or, of ``name=auc:0.9,0.8``, what is asked of the named secrets at each point."""
    if any(text.startswith("worst:") for text in given):
        raise InvalidRequest(
            f"{option}: a frontier is traced over the mean of all directions; use veilnet design for every direction "
            "(worst:)"
        )
    if not any("=" in text for text in given):
        return [targets([text], option) for text in given]
    lists = [(text.rpartition(":")[0], text.rpartition(":")[2].split(",")) for text in given]
    if len({len(values) for _, values in lists}) > 1:
        raise InvalidRequest(f"{option}: expected as many figures for each secret, presence=auc:0.9,0.8,0.7")
    return [
        targets([f"{kind}:{values[place]}" for kind, values in lists], option)
        for place in range(len(lists[0][1]))
    ]


def _rows(curve: Frontier, *, prove: bool, paper: bool) -> list[list[str]]:
    """One row for all that is free, and one for each other point."""
    import numpy as np

    from veilnet._core.words import NOTHING, percent

    rows = []
    if curve.seen or curve.ceiling > NOTHING:
        free = f"up to {(1 + curve.ceiling) ** 0.5:.4g}x"
        free = "without bound" if np.isinf(curve.ceiling) else free
        free = f"{curve.ceiling:.4g}" if curve.seen else free
        rows.append([free, "not at all (free)", "", f"{curve.ceiling:.4g}", "0"])
    for point in curve.rows:
        grows = f"{point.asked:.4g}" if curve.seen else f"{(1 + point.asked) ** 0.5:.4g}x"
        scale = [f"{point.asked:.4g}", "" if point.plan is None else f"{point.utility:.3g}"]
        if point.plan is None:
            rows.append([grows, "impossible, even by silence", "", *scale])
        elif point not in curve.free:
            proved = percent((1 + point.bound) ** 0.5 - 1) if np.isfinite(point.gap) else "not proved"
            rows.append([grows, f"by {percent((1 - point.utility) ** 0.5 - 1)}", proved, *scale])
    return [[*row[: 3 if prove else 2], *(row[3:] if paper else [])] for row in rows]
