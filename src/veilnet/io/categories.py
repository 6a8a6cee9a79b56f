"""Columns of texts as numbers: two texts are 0 and 1, more are told apart by a column for each.

``heating`` with the texts off and on becomes 0 and 1. Of ``weather`` with rain, snow and sun there is no such column,
since no number is between them: ``weather:rain`` is 1 where it rains and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array

__all__ = ["as_category", "column_of", "texts_of"]

_MOST = 20  # different texts of a category
_OF = ":"


def column_of(name: str, known: Sequence[str]) -> str:
    """The column that a name is of: itself, or what stands before ``:text``."""
    column, mark, _ = name.rpartition(_OF)
    return column if name not in known and mark and column in known else name


def texts_of(values: Any) -> list[str | None] | None:
    """A column of texts, None where one is missing; None for a column of anything else."""
    array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "OUT":
        return None
    cells = [value if isinstance(value, str) else None for value in array.tolist()]
    others = [value for value in array.tolist() if not isinstance(value, str) and not _missing(value)]
    texts = [cell for cell in cells if cell is not None]
    return cells if texts and not others and not any(map(_reads_as_number, texts)) else None


def as_category(
    texts: Sequence[str | None], name: str, known: Sequence[str], where: str, notes: list[str]
) -> Array:
    """A column of texts as numbers, NaN where one is missing; the note says which text is which."""
    found = sorted({text for text in texts if text is not None})
    column = column_of(name, known)
    if len(found) > _MOST:
        raise InvalidNetwork(
            f"{where}: column {column!r}: expected numbers, or at most {_MOST} different texts, found {len(found)}"
        )
    if column != name:
        one = name[len(column) + 1 :]
        if one not in found:
            raise InvalidNetwork(f"{where}: column {column!r} has no text {one!r}; it has {', '.join(found)}")
        notes.append(f"{name!r} is 1 where {column} is {one!r} and 0 elsewhere")
    elif len(found) == 2:
        one = found[1]
        notes.append(f"{name!r} is a category: {found[0]!r} counts as 0, {found[1]!r} as 1")
    else:
        names = ", ".join(f"{name}{_OF}{text}" for text in found[1:])
        advice = f"name those that matter, one fewer than there are: {names}" if names else "it tells nothing"
        raise InvalidNetwork(
            f"{where}: column {name!r}: expected numbers or two texts, found {len(found)}: {', '.join(found)}; "
            f"{advice}"
        )
    return np.array([np.nan if text is None else float(text == one) for text in texts], dtype=np.float64)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )
