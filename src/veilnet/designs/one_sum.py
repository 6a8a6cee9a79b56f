"""The trade-off curve of one sum of all agents: exact at every point (:mod:`veilnet.sums.program`)."""

from __future__ import annotations

from scipy.optimize import brentq

from veilnet._core.types import Array
from veilnet.designs.joint import (
    SETTINGS,
    JointObjective,
    JointResult,
    Levels,
    SearchOptions,
    share_projectors,
)
from veilnet.model.standard_form import StandardForm
from veilnet.sums.program import SumProgram

_SPENT = 1e-10  # of a loss: so near to it a level is looked for
_MOST_LOOKS = 100


class SumCurve(Levels):
    """Least loss against the level t, of one agent, perhaps a group of all, with a full prior.

    ceiling, limit: the levels that are free and that silence reaches.
    """

    def __init__(
        self, form: StandardForm, weights: Array, options: SearchOptions, *, floors: Array | None = None
    ) -> None:
        super().__init__(weights, floors)
        self._program, self._objective, self._tell = SumProgram(form), JointObjective(form), options.tell
        self.ceiling, self.limit = (
            self.reached(self._objective.privacy(shrink))
            for shrink in (share_projectors(self._objective), self._objective.silent)
        )

    def at(self, level: float) -> JointResult:
        """The least loss at a level between the ceiling and the limit."""
        found = self._program.least_loss(self.targets(level))
        shrink = [self._program.shrink(found.known)]
        at = self._objective(shrink)
        bound = self._program.least_loss_above(found.multipliers, self.targets(level))
        residual = max(0.0, at.loss / bound - 1.0) if bound > 0 else 0.0
        return JointResult(
            shrink, at.loss, at.privacy, 1, 1, found.steps, residual, False, [], found.multipliers
        )

    def within(self, budget: float) -> JointResult:
        """The largest level whose loss is at most ``budget``."""
        low, high = self.ceiling, self.limit * (1 - SETTINGS.near_limit)
        best = self.at(high)
        if best.loss <= budget:
            return best
        found: dict[float, JointResult] = {}

        def over(level: float) -> float:
            found[level] = self.at(level)
            return found[level].loss - budget * (1 - _SPENT / 2)

        if budget > 0 and high > low:
            near = (_SPENT * low, _SPENT / 4)  # of the level, and relative to it
            brentq(over, low, high, (), *near, _MOST_LOOKS, full_output=True, disp=False)
        inside = [level for level, each in found.items() if each.loss <= budget]
        return found[max(inside)] if inside else self.at(low)
