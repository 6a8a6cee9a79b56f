"""Estimates as they are shown: one line for people, one table for programs."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from veilnet._core.words import join_names
from veilnet.live.centre import Estimated
from veilnet.live.epochs import Epochs

__all__ = ["as_line", "as_table"]


def as_table(made: Estimated, epochs: Epochs) -> dict[str, Any]:
    """An estimate for programs: what is published on the topic of estimates, and a line of ``center --json``.

    ``time`` is when the epoch began (None where epochs are rows); what is not estimable is None.
    """
    estimate = made.estimate
    start = epochs.start(made.epoch)
    return {
        "epoch": made.epoch,
        "time": None if start is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)),
        "plan": made.plan,
        "revision": made.revision,
        "estimates": {
            label: {"value": _plain(value), "deviation": _plain(deviation), "unit": unit}
            for label, unit, value, deviation in zip(
                estimate.labels, estimate.units, estimate.public, estimate.deviation, strict=True
            )
        },
        "covariance": [[_plain(each) for each in row] for row in np.asarray(estimate.covariance)],
        "missing": list(estimate.missing),
        "contradicting": list(estimate.contradicting),
    }


def as_line(made: Estimated, epochs: Epochs) -> str:
    """An estimate for people."""
    estimate = made.estimate
    start = epochs.start(made.epoch)
    when = "" if start is None else time.strftime(" (%Y-%m-%d %H:%M:%S UTC)", time.gmtime(start))
    parts = [
        f"{label} {value:.2f} ± {deviation:.2f} {unit}".rstrip()
        if math.isfinite(value)
        else f"{label} unknown"
        for label, unit, value, deviation in zip(
            estimate.labels, estimate.units, estimate.public, estimate.deviation, strict=True
        )
    ]
    notes = "" if made.revision == 0 else f", revision {made.revision}"
    if estimate.missing:
        notes += f"; missing: {join_names(list(estimate.missing))}"
    if estimate.contradicting:
        notes += f"; left out: {join_names(list(estimate.contradicting))}"
    return f"epoch {made.epoch}{when}: {', '.join(parts)}{notes}"


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
