"""Curves of a private parameter: a few lines of blocks for the terminal, and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from veilnet._core.types import Array

if TYPE_CHECKING:
    from veilnet.cli.stream_story import Track

_BLOCKS = "▁▂▃▄▅▆▇█"


def in_blocks(values: Array, lowest: float, highest: float) -> str:
    """One character per value, from low to high between the two ends."""
    part = (values - lowest) / (highest - lowest)
    levels = np.clip((part * len(_BLOCKS)).astype(int), 0, len(_BLOCKS) - 1)
    return "".join(_BLOCKS[level] for level in levels)


def track_in_blocks(track: Track, rows: int) -> list[str]:
    """The truth and both estimates over the first rows, on one scale."""
    curves = {
        f"{track.name}, true": track.truth[:rows],
        "from raw readings": track.from_raw[:rows],
        "from what is sent": track.from_sent[:rows],
    }
    together = np.concatenate(list(curves.values()))
    width = max(map(len, curves))
    return [
        f"{label:>{width}}  {in_blocks(values, float(together.min()), float(together.max()))}"
        for label, values in curves.items()
    ]


def plot_track(track: Track, rows: int, path: Path) -> None:
    """The same as a figure: .svg, .png or .pdf."""
    from veilnet._core.extras import missing_extra

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("plots need matplotlib", "plot") from error
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.add_subplot()
    hours = np.arange(rows) / 4
    axes.plot(hours, track.truth[:rows], color="black", linewidth=1.6, label="true")
    axes.plot(
        hours, track.from_raw[:rows], color="tab:orange", label="the centre's estimate from raw readings"
    )
    axes.plot(hours, track.from_sent[:rows], color="tab:blue", label="... from what is sent")
    axes.set_xlabel("hours")
    axes.set_ylabel(f"{track.name} ({track.unit})" if track.unit else track.name)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)
