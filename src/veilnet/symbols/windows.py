"""Windows of rows as one row: mean, spread and slope of each reading, computed at the agent. NumPy alone.

A plan learned from a table of such features is run on ``window_features`` of what the agent reads: a symbol for each
window, not for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array
from veilnet.agent.release import plain_numbers

__all__ = ["window_features", "window_names"]

_FEATURES = ("mean", "spread", "slope")


def window_names(names: Sequence[str]) -> list[str]:
    """The columns of :func:`window_features`: ``T mean``, ``T spread``, ``T slope``, reading after reading."""
    return [f"{name} {feature}" for name in names for feature in _FEATURES]


def window_features(readings: Any, length: int) -> Array:
    """(T // length, 3N) features of readings (T, N), window after window; rows after the last whole one are left.

    length: rows of a window, at least 2.

    Spread is the standard deviation, slope the change per row of the line of least squares. A window with a reading
    that is masked or not a number has none: its features are not numbers either, so that nothing is sent of it.
    """
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 2:
        raise InvalidRequest(f"length: expected a whole number of rows from 2 on, found {length!r}")
    rows = plain_numbers(readings, "")
    if rows.ndim != 2:
        raise InvalidReading(f"readings: expected rows of numbers (T, N), found shape {rows.shape}")
    cut = rows[: len(rows) // length * length].reshape(-1, length, rows.shape[1])
    whole = np.asarray(np.isfinite(cut).all(axis=(1, 2)))
    cut = np.where(whole[:, None, None], cut, 0.0)
    moment = np.arange(length) - (length - 1) / 2
    slope = np.einsum("t,wtn->wn", moment / (moment @ moment), cut)
    found = np.stack([cut.mean(axis=1), cut.std(axis=1), slope], axis=2).reshape(len(cut), -1)
    found[~whole] = np.nan
    return found
