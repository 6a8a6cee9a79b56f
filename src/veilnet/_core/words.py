"""Numbers and directions in words a person reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.types import Array

NOTHING = 5e-4
"""A variance that grows by less than this part is said not to grow."""


def direction_in_words(direction: Array, names: Sequence[str], *, parts_shown: int = 4) -> str:
    """A direction of x by the user's names, largest parts first: ``0.71 gait - 0.71 presence``."""
    norm = float(np.linalg.norm(direction))
    unit = direction / (norm if norm > 0 else 1.0)
    order = [int(k) for k in np.argsort(-np.abs(unit)) if abs(unit[k]) > 1e-6]
    if len(order) == 1:
        return names[order[0]]
    lead = np.sign(unit[order[0]]) if order else 1.0
    parts = [(float(lead * unit[k]), names[k]) for k in order[:parts_shown]]
    text = " ".join(
        (f"{'-' if value < 0 else '+'} " if place else "") + f"{abs(value):.2g} {name}"
        for place, (value, name) in enumerate(parts)
    )
    return text + (f" + {len(order) - parts_shown} smaller parts" if len(order) > parts_shown else "")


def join_names(names: Sequence[str], *, names_shown: int = 6) -> str:
    """``a, b and c``; long lists are cut."""
    shown = list(names[:names_shown])
    if len(names) > names_shown:
        return ", ".join(shown) + f" and {len(names) - names_shown} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def times(ratio: float) -> str:
    """An error ratio in words: how many-fold the variance grows."""
    if np.isinf(ratio):
        return "without bound"
    if ratio < 1 + NOTHING:
        return "not at all"
    if ratio < 2:
        return f"by {100 * (ratio - 1):.2g} %"
    return f"{ratio:.3g}-fold"


def number(value: float) -> str:
    """Three significant digits, ∞ for infinity."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.3g}"
