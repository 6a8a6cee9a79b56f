"""A private parameter with the change that must stay hidden: somebody comes in, a machine is switched on.

For such a secret a standard error says little. What counts is how surely its change is seen in the messages
(:mod:`veilnet.bounds.detectability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.durations import in_words, read_step
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_matrix

__all__ = ["Secret"]


@dataclass(frozen=True, eq=False)
class Secret:
    """Rows of G_j, and by how much g_j = G_j x moves when what must stay hidden happens.

    rows:   (r, L), or one row.
    change: Δ, above 0: the size of the change, in the unit of g. With several rows a number means any change of that
            length, and a vector of r numbers that one change.
    unit:   of g, for people; the same as ``units={name: unit}`` of the network.
    lasts:  how long the change stays, such as "1h", or seconds; needs the network's ``step``. None: one row.
    """

    rows: Array
    change: float | Array
    unit: str = ""
    lasts: Any = None

    def __post_init__(self) -> None:
        rows = as_matrix(self.rows, "Secret rows")
        found = as_array(self.change, "Secret change")
        if found.shape not in ((), (len(rows),)):
            raise InvalidNetwork(
                f"Secret change: expected one number, or {len(rows)}, one for each row; found shape {found.shape}"
            )
        if not np.all(np.isfinite(found)) or not np.any(found) or (found.ndim == 0 and found < 0):
            raise InvalidNetwork(
                f"Secret change: expected the size of what must stay hidden, above 0, found {self.change!r}; for a "
                "parameter that no change belongs to give its rows alone"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "change", float(found) if found.ndim == 0 else found)
        if not isinstance(self.unit, str):
            raise InvalidNetwork(f"Secret unit: expected a word such as 'people', found {self.unit!r}")
        object.__setattr__(self, "lasts", read_step(self.lasts, "Secret lasts"))

    def rows_it_lasts(self, step: float | None) -> int:
        """T, over how many rows the change stays: those that begin within ``lasts``.

        step: how long a row takes, in seconds; None where nobody said.
        """
        if self.lasts is None:
            return 1
        if step is None:
            raise InvalidNetwork(
                f"Secret lasts: {in_words(self.lasts)} is so many rows as the network's step says; give step="
            )
        # A thousandth of a row more is rounding of the two durations, not another row.
        return max(1, int(np.ceil(self.lasts / step - 1e-3)))


def secrets_among(private: Any) -> tuple[Any, dict[str, Secret]]:
    """The ``private`` argument with rows alone, and the secrets in it by name."""
    if not isinstance(private, Mapping):
        return private, {}
    secrets = {name: each for name, each in private.items() if isinstance(each, Secret)}
    return {name: each.rows if name in secrets else each for name, each in private.items()}, secrets


def with_units(units: Any, secrets: Mapping[str, Secret]) -> Any:
    """The ``units`` argument with those that secrets were given, as the network reads and refuses it."""
    named = {name: each.unit for name, each in secrets.items() if each.unit}
    return named | dict(units) if named and isinstance(units, Mapping) else units or named
