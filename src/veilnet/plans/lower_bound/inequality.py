"""What the two theorems that bound a trade-off have in common: one inequality in β and the c_j, read both ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet.plans.lower_bound.lifted_form import LiftedForm

_EPS = float(np.finfo(float).eps)
# Where to look first for a loss that is proved, as parts of the ceiling.
_PARTS = (1.0, 0.9999, 0.99, 0.9, 0.6, 0.3, 0.1, 0.01, 1e-4, 0.0)
_BISECTIONS = 20
_MOST_PRIVACY = 1e12


class Inequality(ABC):
    """If its surplus is positive, no X loses at most β and hides the parameters ``asked`` (positions) so much."""

    form: LiftedForm
    asked: tuple[int, ...]
    rounding: float = _EPS

    @abstractmethod
    def _surplus(self, grown: float, kept: dict[int, float]) -> float:
        """The surplus for 1 + β = grown and c_j = kept_j, less what rounding may have added to it."""

    @abstractmethod
    def hidden(self, loss: float, privacy: Mapping[int, float], count: int) -> list[Array]:
        """Directions of x, (L,), where v'A v is least: what a better design would hide, best first."""

    def surplus(self, loss: float, privacy: Mapping[int, float]) -> float:
        """By how much the inequality holds, rounding and the slack of the form deducted."""
        spoilt = (1.0 + self.form.slack) * (1.0 + 64 * self.rounding * self.form.conditioning)
        found = self._surplus((1.0 + loss) * spoilt, {j: (1.0 + privacy[j]) / spoilt for j in self.asked})
        return found if np.isfinite(found) else -np.inf

    def proves(self, loss: float, privacy: Mapping[int, float]) -> bool:
        """Whether no X loses at most ``loss`` and gives every parameter asked at least its privacy."""
        return self.surplus(loss, privacy) > 0.0

    def largest_loss(self, privacy: Mapping[int, float], ceiling: float) -> float:
        """The largest β in [0, ceiling] at which the inequality holds; 0 where it holds nowhere (a loss is >= 0)."""
        low, high = ceiling, ceiling
        for part in _PARTS:
            low = part * ceiling
            if self.proves(low, privacy):
                break
            high = low
        if low == high:  # all of it, or not even zero
            return low
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.proves(middle, privacy) else (low, middle)
        return low

    def least_unaffordable_privacy(
        self,
        loss: float,
        weights: Mapping[int, float],
        least: float,
        floors: Mapping[int, float] | None = None,
    ) -> float:
        """The least t >= least with a proof that p_j >= t·weights_j costs more than ``loss``; inf where none is.

        With ``floors`` the proof is of p_j >= max(t·weights_j, floors_j).
        """
        kept = floors or {}

        def holds(t: float) -> bool:
            return self.proves(loss, {j: max(t * weight, kept.get(j, 0.0)) for j, weight in weights.items()})

        if holds(least):
            return least
        low, high = least, 1.25 * least
        while not holds(high):
            low, high = high, 4 * high
            if high > _MOST_PRIVACY:
                return np.inf
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high
