"""The four figures, as SVG and PNG; the same numbers give the same files to the last byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.types import Array
from veilnet.io._atomic import write_bytes
from veilnet.paper._claim import ROUNDING
from veilnet.paper._claims_privacy import TRUNCATED_AT
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Summary, Table, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple")
# matplotlib would otherwise write the date and ids from a random number.
_STYLE: Any = {"svg.hashsalt": "veilnet", "path.simplify": False}
_ITERATIONS_SHOWN = 40


def draw_figure(name: str, table: Table, settings: Settings, folder: Path) -> None:
    """Write ``name``.svg and ``name``.png into a folder."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        _DRAWERS[name](figure, table, settings)
        for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            written = BytesIO()
            figure.savefig(written, format=kind, metadata=metadata, dpi=120)
            write_bytes(folder / f"{name}.{kind}", written.getvalue())


def _ceiling(cell: Table) -> Array:
    return cell["ceiling"]


def _part_of_limit(cell: Table) -> Array:
    return 100 * cell["ceiling"] / cell["limit"]


def _figure_1(figure: Figure, table: Table, _settings: Settings) -> None:
    privacy, infinite = figure.subplots(1, 2)
    agents = table.levels("agents")
    ceilings = table.series("public_rows", "agents", _ceiling)
    for colour, (rows, each) in zip(_COLOURS, ceilings.items(), strict=False):
        label, shown = f"U = {int(rows)}", [summarize(np.minimum(one, TRUNCATED_AT)) for one in each]
        _band(privacy, agents, shown, colour, label, "o", by_mean=True)
        part = [100 * float(np.mean(np.isinf(one))) for one in each]
        infinite.plot(agents, part, "o-", color=colour, label=label)
    privacy.set_ylabel(f"most privacy at perfect utility\n(truncated at {TRUNCATED_AT:g}; mean, 95 % band)")
    infinite.set_ylabel("draws where it is infinite (%)")
    figure.suptitle("Figure 1: most privacy at perfect utility, no prior")
    for axes in (privacy, infinite):
        _agents_axis(axes, agents)


def _figure_2(figure: Figure, table: Table, _settings: Settings) -> None:
    privacy, part = figure.subplots(1, 2)
    agents = table.levels("agents")
    measures = _ceiling, _part_of_limit
    for axes, measure in zip((privacy, part), measures, strict=True):
        found = table.series("public_rows", "agents", measure)
        for colour, (rows, each) in zip(_COLOURS, found.items(), strict=False):
            shown = list(map(summarize, each))
            _band(axes, agents, shown, colour, f"U = {int(rows)}", "o", by_mean=True, nothing=ROUNDING)
    limits = summarize(table.where(agents=agents[0], public_rows=table.levels("public_rows")[0])["limit"])
    privacy.axhspan(*limits.mean_band, color="tab:red", alpha=0.2)
    for word, value, line in (("mean", limits.mean, ":"), ("median", limits.median, "--")):
        privacy.axhline(value, color="tab:red", linestyle=line, label=f"ε^max: {word} {value:.4g}")
    for axes, measure in zip((privacy, part), measures, strict=True):
        axes.set_yscale("log")
        # Where agents must send everything nothing is private: off a logarithmic axis.
        axes.set_ylim(bottom=0.5 * float(np.min(measure(table)[table["ceiling"] > ROUNDING], initial=1.0)))
    privacy.set_ylabel("most privacy at perfect utility\n(mean, 95 % band)")
    part.set_ylabel("share of ε^max (%; mean, 95 % band)")
    figure.suptitle("Figure 2: most privacy at perfect utility, with prior (hollow, on the axis: none)")
    for axes in (privacy, part):
        _agents_axis(axes, agents)


def _figure_3(figure: Figure, table: Table, settings: Settings) -> None:
    panels = figure.subplots(1, len(settings.tradeoff_agents), sharey=True, squeeze=False)[0]
    fixed = table.where(at_ceiling=0)
    levels = fixed.levels("threshold")

    def typical(column: str) -> dict[float, list[Summary]]:
        return fixed.series("agents", "threshold", lambda cell: summarize(100 * cell[column]))

    losses = typical("alternating_loss"), typical("joint_loss")
    by_mean = not any(each.outliers_rule for both in losses for series in both.values() for each in series)
    middle = "mean" if by_mean else "median"
    label = f"Algorithm 3, {settings.tradeoff_sweeps} sweeps"
    for axes, agents in zip(panels, table.levels("agents"), strict=True):
        alternating, joint = (each[agents] for each in losses)
        _band(axes, levels, alternating, "tab:orange", label, "s", by_mean=by_mean)
        _band(axes, levels, joint, "tab:blue", "joint solver", "o", by_mean=by_mean)
        own = table.where(agents=agents, at_ceiling=1)
        ceilings, at_ceiling = summarize(own["ceiling"]), summarize(100 * own["alternating_loss"])
        axes.axvspan(*ceilings.median_band, color="tab:green", alpha=0.2)
        axes.axvline(ceilings.median, color="tab:green", linestyle="--", label="free up to here (median)")
        at = at_ceiling.mean if by_mean else at_ceiling.median
        axes.plot(
            ceilings.median, at, "*", color="tab:red", markersize=10, label="Algorithm 3 at the ceiling"
        )
        axes.set_xscale("log")
        axes.set_title(f"S = {int(agents)}")
        axes.set_xlabel("privacy threshold ε")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower right")
    panels[0].set_yscale("symlog", linthresh=1.0)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel(f"utility loss -u (%; {middle}, 95 % band)")
    figure.suptitle(f"Figure 3: utility against privacy, with prior, U = {settings.tradeoff_public_rows}")


def _figure_4(figure: Figure, table: Table, settings: Settings) -> None:
    losses, privacy = figure.subplots(1, 2)
    shown = range(min(settings.sweeps, _ITERATIONS_SHOWN) + 1)
    for colour, agents in zip(_COLOURS, table.levels("agents"), strict=False):
        rows = table.where(agents=agents)
        for method, line, marker in (("alternating", "-", ""), ("joint", "--", ".")):
            loss = _padded(rows, f"{method}_loss", len(shown))
            reached = _padded(rows, f"{method}_privacy", len(shown))
            name = "Algorithm 3" if method == "alternating" else "joint solver"
            label = f"{name}, S = {int(agents)}"
            columns = [summarize(100 * column) for column in loss.T]
            _band(losses, shown, columns, colour, label, marker, by_mean=False, line=line)
            parts = [summarize(c / settings.sweep_threshold).median for c in reached.T]
            privacy.plot(shown, parts, line, color=colour, label=label)
    losses.set_yscale("symlog", linthresh=1.0)
    losses.set_ylim(bottom=0)
    losses.set_ylabel("utility loss -u (%; median, 95 % band)")
    privacy.set_yscale("log")
    privacy.set_ylabel("privacy / threshold (median)")
    figure.suptitle(
        f"Figure 4: sweeps of Algorithm 3 and outer iterations of the joint solver, ε = {settings.sweep_threshold:g}"
    )
    for axes in (losses, privacy):
        axes.set_xlabel("sweep or iteration")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)


def _padded(rows: Table, column: str, length: int) -> Array:
    """(draws, length): each draw's iterations, the last one repeated once it has ended."""
    padded = np.full((rows.draws, length), np.nan)
    for place, draw in enumerate(rows.levels("draw")):
        values = rows.where(draw=draw)[column]
        values = values[~np.isnan(values)][:length]
        if values.size:
            padded[place, : values.size] = values
            padded[place, values.size :] = values[-1]
    return padded


def _band(
    axes: Axes,
    at: Sequence[float],
    summaries: Sequence[Summary],
    colour: str,
    label: str,
    marker: str,
    *,
    by_mean: bool,
    line: str = "-",
    nothing: float = -np.inf,
) -> None:
    """A line with its band. What is no more than ``nothing`` has no place on a logarithmic axis: it stands hollow at
    its foot, and no line leads there.
    """
    places = np.asarray(at, dtype=np.float64)
    middle = np.array([each.mean if by_mean else each.median for each in summaries])
    bands = np.array([each.mean_band if by_mean else each.median_band for each in summaries])
    gone = middle <= nothing
    middle[gone], bands[gone] = np.nan, np.nan
    axes.plot(places, middle, line, marker=marker or None, color=colour, label=label)
    axes.fill_between(places, bands[:, 0], bands[:, 1], color=colour, alpha=0.2, linewidth=0)
    if gone.any():
        foot = axes.get_xaxis_transform()  # given at once: zeros must not stretch the axis first
        hollow = axes.plot(
            places[gone], np.zeros(gone.sum()), "o", color=colour, transform=foot, clip_on=False
        )
        hollow[0].set_markerfacecolor("none")


def _agents_axis(axes: Any, agents: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(agents, [f"{count:g}" for count in agents])
    axes.minorticks_off()
    axes.set_xlabel("number of agents S")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


_DRAWERS: dict[str, Callable[[Figure, Table, Settings], None]] = {
    "fig1": _figure_1,
    "fig2": _figure_2,
    "fig3": _figure_3,
    "fig4": _figure_4,
}
