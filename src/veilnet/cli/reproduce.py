"""``veilnet reproduce``: the experiments of the paper's section VII."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import JSON, argument, option
from veilnet.cli._shared import print_json, progress, show, table

if TYPE_CHECKING:
    from veilnet.paper import Settings


@contextmanager
def _where_draws_go(cluster: str | None) -> Iterator[None]:
    """The draws go to this cluster within, or stay here."""
    if cluster is None:
        yield
        return
    import joblib

    from veilnet.cluster import connect

    with connect(cluster) as client, joblib.parallel_config("dask", client=client):
        yield


def command(
    figure: Literal["fig1", "fig2", "fig3", "fig4", "all"] = argument("Figure of the paper.", default="all"),
    draws: int = option("--draws", "Random networks to draw.", default=100),
    jobs: int | None = option("--jobs", "Draws in parallel, all cores by default (-1). Same numbers."),
    out: Path | None = option("--out", "Folder for results; an interrupted run in it is resumed."),
    seed: int = option("--seed", "Seed of all draws.", default=0),
    draw: int | None = option("--draw", "Repeat one draw, print its rows, write nothing."),
    cluster: str | None = option(
        "--cluster",
        "Run on a Dask cluster: tcp://host:8786, or local to start one. Same numbers.",
        metavar="ADDRESS",
    ),
    json: bool = JSON,
) -> None:
    """Reproduce the paper's figures and check its claims, each true or false.

    Writes a table of every draw, plots and README.md, which compares the paper with the measurements. Exit code 0
    means that the run is complete, not that the paper is right.
    """
    import time

    from veilnet.paper import Settings, reproduce
    from veilnet.paper.figures import FIGURES

    if jobs == 0:
        raise InvalidRequest("--jobs: expected a number of processes, or -1 for every core, found 0")
    if jobs is not None and cluster is not None:
        raise InvalidRequest("--jobs: the cluster decides how many draws it measures at a time; leave it out")
    settings = Settings(draws=draws, seed=seed)
    figures = list(FIGURES) if figure == "all" else [figure]
    if draw is not None:
        refused = {"--jobs": jobs, "--out": out, "--cluster": cluster}
        _one_draw(settings, draw, figures, refused, json=json)
        return
    folder = Path("results") if out is None else out
    start = time.monotonic()
    with progress(f"measuring {figure}", total=1.0) as steps:
        try:
            with _where_draws_go(cluster):
                done = reproduce(
                    figures,
                    settings,
                    folder,
                    jobs=-1 if jobs is None and cluster is None else jobs,
                    progress=steps.reached,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"the draws measured so far are kept in {folder}, and the same command resumes them"
            ) from None
    seconds = time.monotonic() - start
    if json:
        found = {"folder": done.folder, "measured": done.measured, "seconds": seconds}
        print_json(found | {"claims": done.claims})
        return
    rows = [[each.figure, each.says, each.verdict] for each in done.claims if each.figure in figures]
    show(table(["figure", "the paper says", "agree"], rows))
    rest = "; the others were there" if done.measured < draws else ""
    show(f"Measured {done.measured} of {draws} draws in {seconds:.0f} s{rest}.")
    show(f"Wrote {done.folder}: README.md has the numbers behind each line.")


def _one_draw(
    settings: Settings, draw: int, figures: Sequence[str], refused: Mapping[str, object], *, json: bool
) -> None:
    """The rows of one draw, by figure. refused: options that have no effect on it."""
    import sys

    from veilnet.paper import measure_draw
    from veilnet.paper.figures import FIGURES
    from veilnet.paper.runs import need_extras

    for name, value in refused.items():
        if value is not None:
            raise InvalidRequest(f"{name}: has no effect with --draw, which measures one draw; leave it out")
    need_extras()
    if draw < 0:
        raise InvalidRequest(f"--draw: expected a number of at least 0, found {draw}")
    measured = measure_draw(settings, draw, figures)[1]
    found: dict[str, list[dict[str, float]]] = {}
    for name, rows in measured.items():
        columns, lines = FIGURES[name].columns, rows.splitlines()
        found[name] = [dict(zip(columns, map(float, line.split(",")), strict=True)) for line in lines]
        if not json:
            head = ",".join(("figure", *columns))
            sys.stdout.writelines(f"{line}\n" for line in (head, *(f"{name},{line}" for line in lines)))
    if json:
        print_json(found)
