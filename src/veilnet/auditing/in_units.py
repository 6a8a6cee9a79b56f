"""The audit's errors in the user's units: the cells of its tables, and the same numbers for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.words import alike
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.model.network import Network

__all__ = ["GrowthsInUnits", "in_units"]


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
