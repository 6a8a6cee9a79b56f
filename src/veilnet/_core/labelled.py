"""Numbers that come with names: a data frame, a series, a table of columns, a labelled array.

Where there are names, they decide which number is which, never the order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import AnyArray

_PLAIN = (np.ndarray, list, tuple)
_MISSING = frozenset({"NAType", "NaTType", "NoneType"})


def labels_of(thing: Any) -> list[str] | None:
    """The names that something gives its numbers, in order; None for plain arrays, and where names are only counted.

    thing: a pandas, polars or structured table, a mapping from names to columns, a pandas series (one row), an
           xarray array whose last dimension has names, or anything else.
    """
    if type(thing) in _PLAIN and getattr(getattr(thing, "dtype", None), "names", None) is None:
        return None
    if isinstance(thing, Mapping):
        found: Sequence[Any] = list(thing)
    elif getattr(getattr(thing, "dtype", None), "names", None):
        found = list(thing.dtype.names)
    elif hasattr(thing, "columns") and hasattr(thing, "__getitem__"):
        found = list(thing.columns)
    elif _last_dimension(thing) is not None:
        found = np.asarray(thing.coords[_last_dimension(thing)]).tolist()
    elif hasattr(thing, "to_numpy") and hasattr(thing, "index") and not callable(thing.index):
        found = list(thing.index)
    else:
        return None
    names = [each for each in found if isinstance(each, str)]
    return names if len(names) == len(found) else None


def picked(thing: Any, wanted: Sequence[str], name: str, error: type[VeilnetError]) -> AnyArray:
    """The wanted columns of something with names, (len(wanted),) of one row and (T, len(wanted)) of many.

    thing:  something of which :func:`labels_of` knows the names.
    wanted: names, in the order to give them.
    name:   what it is called in an error, which names columns and never quotes a number.
    error:  the kind of error.
    """
    known = labels_of(thing) or []
    for each in wanted:
        if known.count(each) != 1:
            shown = ", ".join(repr(label) for label in known[:12]) + (", ..." if len(known) > 12 else "")
            found = f"two columns {each!r}" if each in known else f"no column {each!r}"
            raise error(f"{name}: {found}; expected {', '.join(map(repr, wanted))}, found {shown}")
    dimension = _last_dimension(thing)
    if dimension is not None:
        return np.asarray(thing.sel({dimension: list(wanted)}))
    columns = [_without_gaps(thing[each]) for each in wanted]
    if len({column.shape for column in columns}) > 1 or any(column.ndim > 1 for column in columns):
        raise error(f"{name}: expected columns of one length")
    return np.stack(columns, axis=-1)


def _last_dimension(thing: Any) -> Any:
    """The last dimension of an xarray array that has names along it, or None."""
    dimensions = getattr(thing, "dims", None)
    if isinstance(dimensions, tuple) and dimensions and hasattr(thing, "sel") and hasattr(thing, "coords"):
        return dimensions[-1] if dimensions[-1] in thing.coords else None
    return None


def _without_gaps(column: Any) -> AnyArray:
    """A column as an array, not a number where the table or a mask says that a value is missing."""
    masked = isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column)
    array = column.astype(object).filled(math.nan) if masked else np.asarray(column)
    if array.dtype.kind != "O":
        return array
    return np.array(
        [math.nan if type(each).__name__ in _MISSING else each for each in array.reshape(-1)], dtype=object
    ).reshape(array.shape)
