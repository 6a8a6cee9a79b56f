"""One plot: utility loss against privacy, for the plan and for every other protection.

Both axes are logarithmic. What is exactly zero, or without bound, has a place of its own at the edge, marked 0 or ∞;
lines join only points that a logarithmic axis can show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet.auditing.baselines import Baseline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST, _MOST = 1e-6, 1e6  # less than this is drawn as nothing, more as without bound
_MANY_POINTS = 20  # a curve with more of them is drawn without markers
_MARKS = "osD^vXP<>"  # one for each protection: colours alone are not seen by everybody


def plot_baselines(report: Any, path: str | PathLike[str]) -> None:
    """Draw the baselines of an audit (or a list of them) to a file: .svg, .png or .pdf."""
    found: list[Baseline] = list(getattr(report, "baselines", report))
    if not found:
        raise InvalidRequest("report: it has no baselines; audit with the section 'baselines'")
    baseline_figure(found).savefig(path)


def baseline_figure(found: list[Baseline]) -> Figure:
    """The figure: one panel per private parameter."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib: pip install "veilnet[plot]"') from None
    names = list(found[0].curve[0].privacy)
    figure = Figure(figsize=(4.2 * len(names), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    losses = _Axis.of(point.loss for baseline in found for point in baseline.curve)
    for panel, name in zip(panels, names, strict=True):
        private = _Axis.of(point.privacy[name] for baseline in found for point in baseline.curve)
        for place, baseline in enumerate(found):
            looks = {"color": f"C{place}", "marker": _MARKS[place % len(_MARKS)]}
            _draw(panel, baseline, name, looks, losses, private)
        panel.set(xscale="log", yscale="log", title=name)
        panel.set(
            xlabel="public error variance grows by\n(1 doubles it; left is more useful)",
            ylabel=f"error variance on {name} grows by\n(up is more private)",
        )
        losses.mark(panel.xaxis)
        private.mark(panel.yaxis)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    return figure


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis over some decades, with a place for zero before them and one for ∞ after."""

    low: int
    high: int

    @classmethod
    def of(cls, values: Iterable[float]) -> _Axis:
        shown = [value for value in values if _LEAST <= value <= _MOST]
        if not shown:
            return cls(-1, 1)
        return cls(int(np.floor(np.log10(min(shown)))), int(np.ceil(np.log10(max(shown)))))

    @property
    def zero(self) -> float:
        return float(10.0 ** (self.low - 1))

    @property
    def unbounded(self) -> float:
        return float(10.0 ** (self.high + 1))

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        if value < _LEAST:
            return self.zero
        return value if value <= _MOST else self.unbounded

    def mark(self, axis: Any) -> None:
        """Decades, and the two places that are none."""
        step = max(1, (self.high - self.low) // 5)
        decades = range(self.low, self.high + 1, step)
        ticks = [self.zero, *(10.0**k for k in decades), self.unbounded]
        axis.set_ticks(ticks, labels=["0", *(f"{10.0**k:g}" for k in decades), "∞"])
        axis.set_ticks([], minor=True)


def _draw(
    panel: Any, baseline: Baseline, name: str, looks: dict[str, Any], losses: _Axis, private: _Axis
) -> None:
    points = [(point.loss, point.privacy[name]) for point in baseline.curve]
    inside = sorted(point for point in points if all(_LEAST <= value <= _MOST for value in point))
    edge = {(losses.place(x), private.place(y)) for x, y in points} - set(inside)
    style: dict[str, Any] = looks | {"label": baseline.name, "linestyle": ":"}
    if baseline.is_plan:
        style |= {"marker": "*", "markersize": 15, "linestyle": "", "zorder": 5}
    elif len(points) > _MANY_POINTS:
        style |= {"marker": "", "linestyle": "-"}
    if inside:
        panel.plot(*zip(*inside, strict=True), **style)
    if edge:
        apart = {"marker": style["marker"] or looks["marker"], "linestyle": "", "clip_on": False}
        panel.plot(*zip(*sorted(edge), strict=True), **(style | apart | ({"label": ""} if inside else {})))
