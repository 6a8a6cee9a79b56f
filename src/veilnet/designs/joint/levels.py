"""A trade-off curve: the least loss against a level t, where every p_j is to be at least t·weight_j.

One curve answers both questions: how little a level costs, and how much a loss buys, which is the root of the former.
Rows of few agents (:mod:`veilnet.designs.joint.curve`), of very many (:mod:`veilnet.designs.many.curve`) and streams
(:mod:`veilnet.designs.streams.curve`) each have their own way to find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.settings import SETTINGS

_FIRST_LAW = 2.0  # just above the ceiling the loss grows with the square of the height


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


@dataclass(frozen=True, eq=False)
class Tried:
    """A level and what was found there; None where nobody has looked."""

    level: float
    found: JointResult | None = None


class Levels:
    """What a level t asks: p_j >= max(t·weights_j, floors_j); a weight or a floor of zero asks nothing."""

    spent = 1e-5  # a loss that uses the budget up to this part of it is as good as the budget

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

    def keeps_floors(self, privacy: Array) -> bool:
        """Whether no privacy is below its floor."""
        return bool(np.all((privacy >= self.floors) | (self.floors <= 0)))

    def affordable(
        self,
        look: Callable[[float], JointResult],
        budget: float,
        inside: Tried,
        outside: Tried,
        *,
        tolerance: float = 0.0,
        free: float = 0.0,
        price: float = np.inf,
        steps: int | None = None,
    ) -> tuple[Tried, Tried]:
        """Levels within and beyond a loss, nearer to each other: the root of what ``look`` finds at a level.

        It ends where logarithms of levels, or of the loss and what is spent of it, differ by the tolerance, or where
        what was found was interrupted.

        free:  the level below which nothing is lost.
        price: of a plan for every level.
        """
        sides: list[bool] = []
        for _ in range(SETTINGS.root_steps if steps is None else steps):
            spent = budget * (1 - max(self.spent, tolerance))
            apart = np.log1p(outside.level) - np.log1p(inside.level)
            if apart <= tolerance or (inside.found is not None and inside.found.loss >= spent):
                break
            stuck = len(sides) > 1 and sides[-1] == sides[-2]  # the law misleads: the middle is safe
            law = Tried(inside.level), Tried(outside.level)
            level = _level_between(
                *(law if stuck else (inside, outside)), budget * (1 - self.spent / 2), free, price
            )
            found = look(level)
            sides = [] if stuck else [*sides, found.loss <= budget]
            if found.loss <= budget:
                # A plan often reaches more than was asked of it.
                level = min(max(level, self.reached(found.privacy)), outside.level)
                inside = Tried(level, found)
            else:
                outside = Tried(level, found)
            if found.interrupted:
                break
        return inside, outside


def _level_between(inside: Tried, outside: Tried, budget: float, free: float, price: float) -> float:
    """A level inside the bracket: where a power law through what was found at its ends meets the budget.

    The law is one of loss / (price - loss) against the height above what is free, in logarithms: its own, as long as
    little is lost, and where the loss is flat the law of what is saved. With one end it is the law just above the
    ceiling, with none the answer is the middle.
    """

    def odds(loss: float) -> float:
        return float(np.log(loss) - (np.log1p(-loss / price) if loss < price else 0.0))

    low, high, bottom = (np.log1p(level) for level in (inside.level, outside.level, free))
    ends = [
        (float(np.log(np.log1p(tried.level) - bottom)), odds(tried.found.loss))
        for tried in (inside, outside)
        if tried.found is not None and tried.level > free and 0 < tried.found.loss < np.inf
    ]
    part, margin = 0.5, 0.1
    if ends:
        (x, y), (right, top) = ends[0], ends[-1]
        law = (top - y) / (right - x) if right > x and top > y else _FIRST_LAW
        height = np.exp(min(x + (odds(budget) - y) / law, np.log(high - bottom)))
        part = float((bottom + height - low) / (high - low))
        # Close together the law is as good as the truth; far apart it may be far from it.
        margin = 0.02 if high - low > SETTINGS.root_tolerance else 1e-3
    return float(np.expm1(low + np.clip(part, margin, 1 - margin) * (high - low)))
