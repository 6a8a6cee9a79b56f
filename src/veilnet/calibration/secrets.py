"""Which private columns are secrets of a few values, and by how much they move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet.model.secret import Secret


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
            each = given[name]
            change, lasts = each if isinstance(each, tuple) else (each, None)
            found[name] = Secret(rows, change, lasts=lasts)
        else:
            found[name] = Secret(rows, float(values[1] - values[0])) if values.size == 2 else rows
    return found
