"""Estimates as they are shown: one line for people, one table for programs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.words import join_names
from veilnet.live.centre import Estimated
from veilnet.live.epochs import Epochs
from veilnet.live.fusions import ClassEstimate, LiveEstimate


def as_table(made: Estimated, epochs: Epochs, *, delayed: bool = False) -> dict[str, Any]:
    """An estimate for programs: what is published on the topic of estimates, and a line of ``center --json``.

    ``time`` is when the epoch began (None where epochs are rows); what is not estimable is None. Of a class there is
    no deviation, but ``chance``, and ``probabilities`` of all values. ``outside`` are estimates beyond what was
    calibrated. ``drifted`` are agents whose law is another than the one that the plan counted: then its promise is
    void. ``newest`` is False of what stands in the history, and ``delayed`` True of what is published later than it
    was made.
    """
    estimate = made.estimate
    start = epochs.start(made.epoch)
    return {
        "epoch": made.epoch,
        "time": None if start is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)),
        "plan": made.plan,
        "revision": made.revision,
        "estimates": _estimates(estimate),
        "covariance": [[_plain(each) for each in row] for row in np.asarray(estimate.covariance)],
        "missing": list(estimate.missing),
        "contradicting": list(estimate.contradicting),
        "outside": _outside(estimate),
        "drifted": list(made.drifted),
        "newest": made.newest,
        "delayed": delayed,
    }


def _estimates(estimate: LiveEstimate) -> dict[str, dict[str, Any]]:
    if isinstance(estimate, ClassEstimate):
        chances = {
            str(each): float(chance) for each, chance in zip(estimate.classes, estimate.public, strict=True)
        }
        of_class = {"chance": max(chances.values()), "probabilities": chances}
        return {estimate.label: {"value": estimate.value, "deviation": None, "unit": ""} | of_class}
    return {
        label: {"value": _plain(value), "deviation": _plain(deviation), "unit": unit}
        for label, unit, value, deviation in zip(
            estimate.labels, estimate.units, estimate.public, estimate.deviation, strict=True
        )
    }


def _outside(estimate: LiveEstimate) -> list[str]:
    """Public parameters whose estimates lie beyond what the fit saw of them."""
    if isinstance(estimate, ClassEstimate):
        return []
    return [label for label, far in zip(estimate.labels, estimate.outside, strict=True) if far]


def as_line(made: Estimated, epochs: Epochs) -> str:
    """An estimate for people."""
    estimate = made.estimate
    start = epochs.start(made.epoch)
    when = "" if start is None else time.strftime(" (%Y-%m-%d %H:%M:%S UTC)", time.gmtime(start))
    parts = [_in_words(label, **each) for label, each in _estimates(estimate).items()]
    notes = "" if made.revision == 0 else f", revision {made.revision}"
    if estimate.missing:
        notes += f"; missing: {join_names(list(estimate.missing))}"
    if estimate.contradicting:
        notes += f"; left out: {join_names(list(estimate.contradicting))}"
    if _outside(estimate):
        notes += f"; outside what was calibrated: {join_names(_outside(estimate))}"
    if made.drifted:
        notes += f"; promise void: {join_names(list(made.drifted))} sends by another law"
    return f"epoch {made.epoch}{when}: {', '.join(parts)}{notes}"


def void(agents: Sequence[str]) -> str:
    """What it means that agents send by another law than the one that was counted."""
    from veilnet.symbols.drift import SymbolDrift

    return str(SymbolDrift({}, tuple(agents)))


def _in_words(
    label: str, value: Any, deviation: float | None, unit: str, chance: float | None = None, **_: Any
) -> str:
    if chance is not None:
        return f"{label} {value} (chance {chance:.2f})"
    if value is None:
        return f"{label} unknown"
    return f"{label} {value:.2f} ± {math.inf if deviation is None else deviation:.2f} {unit}".rstrip()


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
