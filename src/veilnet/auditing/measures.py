"""Privacy and utility measured in the network that was promised, whatever is known about x; errors in its units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import as_number, refuse_unknown
from veilnet._core.words import alike
from veilnet.bounds.knowledge import Knowledge
from veilnet.bounds.typical_errors import TypicalError, typical_errors
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
class GrowthsInUnits:
    """Errors on one parameter that belong side by side, as typical ones in its unit.

    typical: what raw readings and guessing leave of it.
    """

    typical: TypicalError

    @property
    def guessing(self) -> float:
        """The growth, against raw readings, of the error variance that guessing leaves."""
        return (self.typical.guessing / self.typical.raw) ** 2 - 1.0

    def error(self, growth: float) -> float:
        """The typical error whose variance exceeds that from raw readings by so much: raw · sqrt(1 + growth)."""
        return self.typical.raw * float(np.sqrt(max(1.0 + growth, 0.0)))

    def cells(self, growths: Mapping[str, float]) -> dict[str, str]:
        """Heading -> error in words."""
        return alike({heading: self.error(growth) for heading, growth in growths.items()}, self.typical.unit)

    def figures(self, growths: Mapping[str, float]) -> dict[str, object]:
        """The errors as numbers, and their unit."""
        errors = {heading: self.error(growth) for heading, growth in growths.items()}
        return {"errors": errors, "unit": self.typical.unit}


def in_units(network: Network) -> dict[str, GrowthsInUnits]:
    """What is needed to say errors in units, by the name of the parameter."""
    return {name: GrowthsInUnits(typical) for name, typical in typical_errors(network).items()}
