"""Messages as they are handed to the centre: arrays, lists, or frames whose columns say which number is which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.labelled import labels_of, picked
from veilnet._core.types import Array

__all__ = ["as_message", "numbered", "rows_in_words"]


def as_message(value: Any, name: str, size: int, columns: Callable[[], Sequence[str]]) -> Array:
    """Numbers (size,) of one row or (T, size) of many; not a number where something is missing.

    name:    what the value is called in an error.
    columns: what its columns have to be called, where they have names.
    """
    if labels_of(value) is not None:
        value = picked(value, columns(), name, InvalidReading)
    try:
        raw = np.ma.filled(value, np.nan) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        part = np.asarray(raw, dtype=np.float64) if raw.dtype.kind in "fiubO" else None
    except (TypeError, ValueError, OverflowError):
        part = None
    if part is None:
        raise InvalidReading(f"{name}: expected numbers, found something else; nan means missing")
    if part.ndim not in (1, 2) or part.shape[-1] != size:
        advice = "; write z[:, None] for a column of single numbers" if size == 1 and part.ndim == 1 else ""
        raise InvalidReading(f"{name}: expected shape ({size},) or (T, {size}), found {part.shape}{advice}")
    return part


def numbered(stem: str, count: int) -> list[str]:
    """z1, z2, ... for the stem z."""
    return [f"{stem}{k + 1}" for k in range(count)]


def rows_in_words(shape: tuple[int, ...]) -> str:
    """How many rows a message has, for an error."""
    return f"{shape[0]} rows" if shape else "one row as a vector"
