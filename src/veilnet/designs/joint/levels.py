"""A trade-off curve: the least loss against a level t, where every p_j is to be at least t·weight_j.

One curve answers both questions: how little a level costs, and how much a loss buys. Rows of few agents
(:mod:`veilnet.designs.joint.curve`), of very many (:mod:`veilnet.designs.many.curve`) and streams
(:mod:`veilnet.designs.streams.curve`) each have their own way to find it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.search import JointResult


class Curve(Protocol):
    """What is asked of a trade-off curve."""

    @property
    def ceiling(self) -> float:
        """The level that is free."""

    @property
    def limit(self) -> float:
        """The level that silence reaches."""

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""


class Levels:
    """What a level t asks: p_j >= max(t·weights_j, floors_j); a weight or a floor of zero asks nothing."""

    def __init__(self, weights: Array, floors: Array | None) -> None:
        self.weights = np.asarray(weights, dtype=np.float64) / np.max(weights)
        self.floors = np.zeros(self.weights.size) if floors is None else np.asarray(floors, dtype=np.float64)

    @property
    def asked(self) -> Booleans:
        """Of which parameters a level asks something."""
        return np.asarray(self.weights > 0)

    def targets(self, level: float) -> Array:
        """What every p_j has to reach at a level."""
        return np.maximum(level * self.weights, self.floors)

    def reached(self, privacy: Array) -> float:
        """The level that privacies reach."""
        return float(np.min(privacy[self.asked] / self.weights[self.asked]))
