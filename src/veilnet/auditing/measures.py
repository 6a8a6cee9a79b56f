"""Privacy and utility measured in the network that was promised, whatever is known about x; errors in its units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import as_number, refuse_unknown
from veilnet._core.words import alike, plus_minus
from veilnet.auditing.row import Judgement, Row
from veilnet.bounds.knowledge import Knowledge
from veilnet.bounds.typical_errors import typical_errors
from veilnet.model.network import Network


def growth(known: Knowledge, rows: Array) -> float:
    """tr(A P̃ A') / tr(A P A') - 1, below zero where more is known than one raw release tells.

    :meth:`Knowledge.growth` ends at zero, since sanitized messages never tell more than raw readings;
    repeated releases and better priors do.
    """
    if np.isinf(known.growth(rows)):
        return np.inf
    half = known.network.in_raw_coordinates(rows) @ known.directions
    weights = np.sum((half / np.max(np.abs(half))) ** 2, axis=0)
    seen = known.known
    left = known.sharpness[seen] ** 2
    return float(np.sum(weights[seen] * (1.0 - left) / left) / np.sum(weights))


def privacies(known: Knowledge) -> dict[str, float]:
    """p_j of every private parameter."""
    return {name: growth(known, rows) for name, rows in known.network.private.items()}


def read_least_privacy(network: Network, least: float | Mapping[str, float] | None) -> dict[str, float]:
    """The least privacy that has to remain: one number for all, or name -> number."""
    if least is None:
        return {}
    if isinstance(least, Mapping):
        refuse_unknown(least, tuple(network.private), "least_privacy", error=InvalidRequest)
        found = {
            str(name): as_number(value, f"least_privacy of {name!r}", error=InvalidRequest)
            for name, value in least.items()
        }
    else:
        found = dict.fromkeys(network.private, as_number(least, "least_privacy", error=InvalidRequest))
    for name, value in found.items():
        if value <= -1:
            raise InvalidRequest(
                f"least_privacy of {name!r}: expected a privacy above -1, found {value:g}; "
                "0 means: never better than one raw reading"
            )
    return found


@dataclass(frozen=True)
class InUnit:
    """Mean squares of a parameter with so many rows as typical errors in its unit: ``±7.2 °C``."""

    unit: str
    rows: int = 1

    def typical(self, square: float) -> float:
        """The root mean square over the rows, of a mean square summed over them."""
        return float(np.sqrt(max(square, 0.0) / self.rows))

    def __call__(self, square: float) -> str:
        """One error."""
        return "unbounded" if np.isinf(square) else plus_minus(self.typical(square), self.unit)

    def beside(self, square: float, guessing: float) -> str:
        """An error, and which part of guessing's it is: ``±7.2 °C (92 %)``."""
        if np.isinf(square) or guessing <= 0:
            return self(square)
        return f"{self(square)} ({100 * np.sqrt(square / guessing):.0f} %)"

    def shown(
        self, guessing: float, raw: float | None, promised: float | None, sent: float
    ) -> dict[str, str]:
        """The four errors of a row, under their headings."""
        return {
            "guessing": self(guessing),
            "raw": "" if raw is None else self.beside(raw, guessing),
            "promised": "nothing" if promised is None else self.beside(promised, guessing),
            "sent": self.beside(sent, guessing),
        }


@dataclass(frozen=True, kw_only=True)
class Compared(InUnit):
    """The same beside typical errors from raw readings and by guessing; growths are of error variances, from raw."""

    raw: float
    guessing: float

    def error(self, growth: float) -> float:
        """The typical error whose variance exceeds that from raw readings by so much: raw · sqrt(1 + growth)."""
        return self.raw * float(np.sqrt(max(1.0 + growth, 0.0)))

    def cells(self, growths: Mapping[str, float]) -> dict[str, str]:
        """Heading -> error in words."""
        return alike({heading: self.error(growth) for heading, growth in growths.items()}, self.unit)

    def figures(self, growths: Mapping[str, float]) -> dict[str, object]:
        """The errors as numbers, and their unit."""
        return {"errors": {each: self.error(growth) for each, growth in growths.items()}, "unit": self.unit}

    def row(
        self,
        section: str,
        what: str,
        growths: Mapping[str, float],
        verdict: Judgement = "info",
        why: str = "",
        *,
        figures: Mapping[str, object],
        shown: Mapping[str, str] = MappingProxyType({}),
    ) -> Row:
        """Guessing beside these growths, of which the last but one is promised and the last was found."""
        compared = {"guessing": (self.guessing / self.raw) ** 2 - 1.0, **growths}
        promised, found = list(growths.values())[-2:]
        numbers, words = {**self.figures(compared), **figures}, {**shown, **self.cells(compared)}
        return Row(section, what, promised, found, verdict, why, None, numbers, words)


def in_units(network: Network) -> dict[str, Compared]:
    """What is needed to say errors in units, by the name of the parameter."""
    rows = {**network.public, **network.private}
    return {
        name: Compared(each.unit, len(rows[name]), raw=each.raw, guessing=each.guessing)
        for name, each in typical_errors(network).items()
    }


def kept(left: float, least: float | None, lowest: float | None = None) -> Judgement:
    """The verdict on what is left where so much has to remain; ``lowest`` is a bound where it is not exact."""
    if least is None:
        return "info"
    return "fail" if left < least else "ok" if lowest is None or lowest >= least else "warn"
