"""Windows of rows as one row: mean, spread and slope of each reading, computed at the agent. NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import AnyArray, Array, Integers

_FEATURES = ("mean", "spread", "slope")


def windows_of(rows: int, window: int, labels: AnyArray | None = None) -> Integers:
    """(n, window) which rows are in each window: one after the other, none across two labels.

    Rows after the last whole window, of the table or of a run of one label, are left out.
    """
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
        raise InvalidRequest(f"window: expected a whole number of rows from 1 on, found {window!r}")
    ends: AnyArray | list[int] = [] if labels is None else np.flatnonzero(labels[1:] != labels[:-1]) + 1
    runs = np.split(np.arange(rows), ends)
    found = np.concatenate([run[: len(run) // window * window] for run in runs]).reshape(-1, window)
    if not len(found):
        where = "" if labels is None else ", none within one block"
        raise InvalidRequest(
            f"window: {rows} rows have no window of {window}{where}; give more rows, or shorter ones"
        )
    return np.asarray(found, np.intp)


def in_windows(columns: Sequence[Array], index: Integers) -> Array:
    """(n, window N) the readings of each window, row after row."""
    return np.stack(columns, axis=1)[index].reshape(len(index), -1)


def feature_names(names: Sequence[str], window: int) -> list[str]:
    """What :func:`features_of` computes: ``T mean``, ``T spread``, ``T slope``, reading after reading."""
    return [f"{name} {feature}" for name in names for feature in _FEATURES] if window > 1 else list(names)


def features_of(rows: Array, window: int) -> Array:
    """(n, 3N) features of windows (n, window N); rows themselves where a window is one row.

    Spread is the standard deviation, slope the change per row of the line of least squares. Of a window with a
    reading that is not a number no feature of that reading is one either, so that nothing is sent.
    """
    if window == 1:
        return rows
    cut = rows.reshape(len(rows), window, -1)
    moment = np.arange(window) - (window - 1) / 2
    with np.errstate(over="ignore", invalid="ignore"):  # what is then not a number is not sent
        slope = np.einsum("t,wtn->wn", moment / (moment @ moment), cut)
        return np.stack([cut.mean(axis=1), cut.std(axis=1), slope], axis=2).reshape(len(cut), -1)


def windows_with(features: Array, window: int) -> Array:
    """(n, window N) windows of these features (n, 3N): a parabola each; the spread is larger where the slope asks it.

    A parabola of two rows is a straight line, whose spread is that of its slope.
    """
    if window == 1:
        return features
    mean, spread, slope = np.moveaxis(features.reshape(len(features), 1, -1, 3), 3, 0)
    moment = (np.arange(window) - (window - 1) / 2)[:, None]
    of_slope = np.mean(moment**2)
    bend = moment**2 - of_slope
    bend /= max(float(bend.std()), np.finfo(np.float64).tiny)
    left = np.sqrt(np.maximum(spread**2 - slope**2 * of_slope, 0.0))
    return np.asarray(mean + slope * moment + left * bend).reshape(len(features), -1)
