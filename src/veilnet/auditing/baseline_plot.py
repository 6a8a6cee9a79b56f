"""One plot: utility loss against privacy, for the plan and for every other protection."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet.auditing.baselines import Baseline

_LEAST, _MOST = 1e-6, 1e6  # what the logarithmic axes show; losses of zero stand at the left edge


def plot_baselines(report: Any, path: str | PathLike[str]) -> None:
    """Draw the baselines of an audit (or a list of them) to a file: .svg, .png or .pdf."""
    found: list[Baseline] = list(getattr(report, "baselines", report))
    if not found:
        raise InvalidRequest("report: it has no baselines; audit with the section 'baselines'")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib: pip install "veilnet[plot]"') from None
    names = list(found[0].curve[0].privacy)
    figure = Figure(figsize=(4.2 * len(names), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for place, baseline in enumerate(found):
            _draw(panel, baseline, name, place)
        panel.set(xscale="log", yscale="log")
        panel.set(title=name, xlabel="utility loss", ylabel="privacy")
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.savefig(path)


def _draw(panel: Any, baseline: Baseline, name: str, place: int) -> None:
    points = sorted((_shown(p.loss), _shown(p.privacy[name])) for p in baseline.curve)
    losses, private = zip(*points, strict=True)
    style: dict[str, Any] = {"label": baseline.name, "color": f"C{place}"}
    if baseline.is_plan:
        panel.plot(losses, private, marker="*", markersize=15, linestyle="", zorder=5, **style)
    elif len(points) > 20:
        panel.plot(losses, private, **style)
    else:
        panel.plot(losses, private, marker="o", linestyle=":", **style)


def _shown(value: float) -> float:
    return float(np.clip(value, _LEAST, _MOST))
