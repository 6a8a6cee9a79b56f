"""A private parameter with the change that must stay hidden: somebody comes in, a machine is switched on.

For such a secret a standard error says little. What counts is how surely its change is seen in the messages
(:mod:`veilnet.bounds.detectability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.durations import duration_in_words, read_step
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_matrix
from veilnet._core.words import number


@dataclass(frozen=True, eq=False)
class Secret:
    """Rows of G_j, and by how much g_j = G_j x moves when what must stay hidden happens.

    rows:   (r, L), or one row.
    change: Δ, above 0: the size of the change, in the unit of g. With several rows a number means any change of that
            length, a vector of r numbers that one change, and several vectors, (m, r), any of them.
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
        if found.ndim > 2 or (found.ndim and found.shape[-1] != len(rows)):
            raise InvalidNetwork(
                f"Secret change: expected one number, or {len(rows)}, one for each row (several such: any of them); "
                f"found shape {found.shape}"
            )
        moves = bool(np.all(np.any(np.atleast_2d(found), axis=1))) and found.size > 0
        if not np.all(np.isfinite(found)) or not moves or (found.ndim == 0 and found < 0):
            raise InvalidNetwork(
                f"Secret change: expected the size of what must stay hidden, above 0, found {self.change!r}; for a "
                "parameter that no change belongs to give its rows alone"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "change", float(found) if found.ndim == 0 else found)
        if not isinstance(self.unit, str):
            raise InvalidNetwork(f"Secret unit: expected a word such as 'people', found {self.unit!r}")
        object.__setattr__(self, "lasts", read_step(self.lasts, "Secret lasts"))

    @classmethod
    def of_classes(cls, rows: Any, *, lasts: Any = None) -> Secret:
        """Which of K classes it is: one row for each class but the last, 1 where it is that class and 0 elsewhere.

        rows:  (K - 1, L). What must stay hidden is any move from one class to another.
        lasts: how long it stays in a class, as above.
        """
        classes = as_matrix(rows, "Secret rows")
        ones = np.concatenate([np.eye(len(classes)), np.zeros((1, len(classes)))])
        first, second = np.triu_indices(len(ones), 1)
        return cls(classes, ones[first] - ones[second], lasts=lasts)

    def squared_deviations(self, information: Array) -> float:
        """Δ'IΔ of the change that is seen most surely.

        information: I, (r, r), what messages add on g.
        """
        change = np.asarray(self.change)
        if change.ndim:
            each = np.atleast_2d(change)
            return max(0.0, float(np.max(np.sum(each @ information * each, axis=1))))
        return max(0.0, float(change) ** 2 * float(np.linalg.eigvalsh((information + information.T) / 2)[-1]))

    def rows_it_lasts(self, step: float | None) -> int:
        """T, over how many rows the change stays: those that begin within ``lasts``.

        step: how long a row takes, in seconds; None where nobody said.
        """
        if self.lasts is None:
            return 1
        if step is None:
            raise InvalidNetwork(
                f"Secret lasts: {duration_in_words(self.lasts)} is counted in rows, by the network's step; give step="
            )
        # A thousandth of a row more is rounding of the two durations, not another row.
        return max(1, int(np.ceil(self.lasts / step - 1e-3)))


def change_in_words(change: float | Array, directions: int, unit: str = "") -> str:
    """The change, for a reader: "a change of 1 people". ``directions`` is how many rows the secret has."""
    change = np.asarray(change)
    if change.ndim > 1 and len(change) > 1:
        return f"the most visible of {len(change)} changes"
    size = ", ".join(number(float(each)) for each in np.ravel(change))
    kind = "any change of length" if directions > 1 and not change.ndim else "a change of"
    return f"{kind} {size}{f' {unit}' * bool(unit)}"


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
