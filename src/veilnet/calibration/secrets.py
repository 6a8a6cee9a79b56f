"""Which private columns are secrets of a few values, and by how much they move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet.calibration.roles import column_groups
from veilnet.io.tables import class_columns
from veilnet.model.secret import Secret

CLASSES = "classes"


def columns_of_classes(table: Any, private: Any, changes: Mapping[str, Any] | None) -> Any:
    """The ``private`` argument with a column for each class, but the last, where a column is said to hold classes."""
    if not isinstance(changes, Mapping) or not any(_said(each)[0] == CLASSES for each in changes.values()):
        return private
    groups = column_groups(private, "private")
    for name, columns in groups.items():
        if _said(changes.get(name))[0] == CLASSES and len(columns) == 1:
            groups[name] = class_columns(table, columns[0])
    return groups


def _said(change: Any) -> tuple[Any, Any]:
    """(the change, how long it lasts)."""
    return change if isinstance(change, tuple) and len(change) == 2 else (change, None)


def with_changes(
    private: Mapping[str, Array], parameters: Array, changes: Mapping[str, Any] | None
) -> dict[str, Array | Secret]:
    """Rows by name, those with a change as a Secret: as given, or the distance of a column's two values.

    parameters: (rows, L), the columns of x.
    """
    given = changes or {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"changes: expected name -> change, found {type(given).__name__}")
    refuse_unknown(given, list(private), "changes", error=InvalidRequest)
    found: dict[str, Array | Secret] = {}
    for name, rows in private.items():
        values = np.unique(parameters @ rows[0]) if len(rows) == 1 else np.zeros(0)
        if name in given:
            change, lasts = _said(given[name])
            classes = isinstance(change, str) and change == CLASSES
            found[name] = (
                Secret.of_classes(rows, lasts=lasts) if classes else Secret(rows, change, lasts=lasts)
            )
        else:
            found[name] = Secret(rows, float(values[1] - values[0])) if values.size == 2 else rows
    return found
