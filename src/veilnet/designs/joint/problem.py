"""The least utility loss with p_j >= target_j, as an augmented Lagrangian on logarithms (mathematics, section 5).

An evaluation becomes a number to minimise and its derivatives with respect to the loss and to each p_j; multipliers
and penalty are updated between minimisations. The most privacy within a loss is the root of the least loss
(:mod:`veilnet.designs.joint.levels`), so there is no other problem.

Logarithms make the problem independent of scale. The loss enters as
2 log((loss + reference) / (2 reference)), which has the slope of log loss at the reference but stays bounded
below where the loss vanishes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from veilnet._core.types import Array
from veilnet.designs.joint.objective import Evaluation
from veilnet.designs.joint.settings import SETTINGS

_LEAST_ROOM = 1e-6
_BISECTIONS = 40
_HARDLY_ANY = 1e-200  # privacy: what is divided by it stays a number, and is too steep for any line search
_TINY = np.finfo(float).tiny
_AIM, _ENOUGH, _TOO_MUCH = 3e-9, 1e-9, 1e-8
"""Relative margin aimed at by the repair, the least accepted, and the most left on a tight constraint."""


class LeastLoss:
    """Least loss subject to p_j >= target_j; targets that are zero ask nothing.

    ``room`` is how far, in logarithms, each target lies from where privacy is free or impossible. Within a
    narrow room privacy is counted in units of it, or its price would be out of proportion. Where the loss hardly
    rises with privacy, a logarithm of it is worth ``sharpness`` of privacy's: converged then means that privacy is
    as large as it can be too, not the loss alone as small.
    """

    def __init__(self, targets: Array, room: Array | None = None, sharpness: float = 1.0) -> None:
        self.targets = np.asarray(targets, dtype=np.float64)
        self.sharpness = float(sharpness)
        self._asked = self.targets > 0
        self._room = np.ones(self.targets.size) if room is None else np.clip(room, _LEAST_ROOM, 1.0)
        self._log_targets = np.log(np.where(self._asked, self.targets, 1.0))
        self._multipliers = np.zeros(self.targets.size)
        self._penalty = SETTINGS.first_penalty
        self._reference = 1.0
        self._previous = np.inf

    @classmethod
    def between(cls, targets: Array, ceiling: Array, limit: Array) -> LeastLoss:
        """The problem with privacy counted in units of the room there is between what is free and silence."""
        wanted, free, most = (np.log(np.maximum(each, _TINY)) for each in (targets, ceiling, limit))
        return cls(targets, np.minimum(np.where(wanted > free, wanted - free, np.inf), np.abs(most - wanted)))

    def level(self, privacy: Array) -> float:
        """Least p_j relative to its target."""
        return float(np.min(privacy[self._asked] / self.targets[self._asked]))

    def aim(self, targets: Array, loss: float) -> None:
        """Go on with other targets, at which about this loss is expected."""
        self.targets = targets
        self._log_targets = np.log(np.where(self._asked, targets, 1.0))
        self._reference = loss

    @property
    def worth(self) -> Array:
        """By how much the logarithm of the least loss grows with that of each target."""
        return self._multipliers / (self._room * self.sharpness)

    def copy(self) -> LeastLoss:
        """The same problem with multipliers of its own."""
        return self.sharper(self.sharpness)

    def sharper(self, sharpness: float) -> LeastLoss:
        """The same problem, with a logarithm of the loss worth so much of privacy's."""
        return LeastLoss(self.targets, self._room, sharpness)

    def _missing(self, at: Evaluation) -> Array:
        """log(target_j / p_j), minus infinity where nothing is asked."""
        return np.where(self._asked, self._log_targets - np.log(np.maximum(at.privacy, _TINY)), -np.inf)

    def _shortfall(self, at: Evaluation) -> Array:
        return self._missing(at) / self._room

    def _by_privacy(self, prices: Array, at: Evaluation) -> Array:
        return -prices / (np.maximum(at.privacy, _HARDLY_ANY) * self._room)

    def merit(self, at: Evaluation) -> tuple[float, float, Array]:
        """The augmented Lagrangian; its derivatives by the loss and by the privacies."""
        pressed = np.maximum(self._multipliers + self._penalty * self._shortfall(at), 0.0)
        level = (at.loss + self._reference) / (2 * self._reference)
        penalties = (pressed**2 - self._multipliers**2) / (2 * self._penalty)
        value = self.sharpness * 2 * np.log(level) + float(penalties.sum())
        return value, self.sharpness * 2 / (at.loss + self._reference), self._by_privacy(pressed, at)

    def restart(self, at: Evaluation, feasible: Evaluation) -> None:
        """First multipliers, penalty and reference, from the start and a feasible point near it."""
        # A reference far below the loss to be reached would make the loss worth more than any privacy.
        ceiling = max(feasible.loss if np.isfinite(feasible.loss) else at.loss, _TINY)
        self._reference = min(max(0.3 * at.loss, 0.01 * ceiling), ceiling)
        self._multipliers = self._asked / np.count_nonzero(self._asked)
        self._penalty = SETTINGS.first_penalty
        self._previous = np.inf

    def prime(self, at: Evaluation) -> None:
        """Take the start for nearly optimal: its loss is the measure, and violations count fully."""
        self._reference = max(at.loss, _TINY)
        self._penalty = SETTINGS.primed_penalty * max(1.0, self.sharpness * SETTINGS.sharp_penalty)

    def update(self, at: Evaluation, converged: bool) -> None:
        """New multipliers after a minimisation; the penalty grows where infeasibility does not shrink."""
        shortfall = self._shortfall(at)
        self._multipliers = np.maximum(self._multipliers + self._penalty * shortfall, 0.0)
        infeasible = self.infeasibility(at)
        if infeasible < SETTINGS.nearly_feasible:
            # Perfect utility, where the loss vanishes short of the targets, must not become the measure of it.
            self._reference = max(at.loss, 0.1 * self._reference)
        if infeasible > 0.25 * self._previous and (converged or infeasible > 1e-2):
            self._penalty = min(self._penalty * SETTINGS.penalty_growth, SETTINGS.penalty_limit)
        self._previous = infeasible

    def fit(self, at: Evaluation, loss_gradient: Array, privacy_gradients: Array) -> None:
        """Once nearly feasible, multipliers that balance the gradients of log loss, (n,), and log p_j, (J, n)."""
        active = np.flatnonzero(self._asked & (np.abs(self._shortfall(at)) < SETTINGS.nearly_feasible))
        if active.size and self.infeasibility(at) < SETTINGS.nearly_feasible:
            self._multipliers = np.zeros(self.targets.size)
            rows = privacy_gradients[active] / self._room[active, None]
            self._multipliers[active] = balance(rows, self.sharpness * loss_gradient)

    def lagrangian(self, at: Evaluation) -> tuple[float, Array]:
        """Derivatives of the Lagrangian by the loss and the privacies, scaled to log loss."""
        return self.sharpness / max(at.loss, _TINY), self._by_privacy(self._multipliers, at)

    def infeasibility(self, at: Evaluation) -> float:
        """Largest relative violation, or slack where a multiplier says there is none."""
        shortfall = self._shortfall(at)
        return float(np.max(np.where(self._multipliers > 0, np.abs(shortfall), np.maximum(shortfall, 0.0))))

    def estimate(self, at: Evaluation) -> float:
        """Log loss, corrected to first order for what is violated."""
        shortfall = np.where(self._multipliers > 0, self._shortfall(at), 0.0)
        return at.value + float(self._multipliers @ shortfall) / self.sharpness

    def safe(self, at: Evaluation) -> bool:
        """Whether every constraint holds with a margin that survives rounding elsewhere."""
        return bool(np.isfinite(at.loss) and np.all(at.privacy >= self.targets * (1 + _ENOUGH)))

    def wanting(self, at: Evaluation) -> tuple[Array, Array]:
        """Changes still wanted of the active constraints' logarithms, and those logarithms' derivatives.

        One number and one row (by loss, p_1, ..., p_J) per active constraint; empty when nothing is wanted.
        """
        need = self._missing(at) + _AIM
        tight = self._multipliers > 0
        active = (need > _AIM - _ENOUGH) | (tight & np.isfinite(need))
        if np.all(need[active] <= _AIM - _ENOUGH) and np.all(need[active] >= _AIM - _TOO_MUCH):
            return np.zeros(0), np.zeros((0, 1 + need.size))
        derivatives = np.hstack([np.zeros((need.size, 1)), np.diag(1 / np.maximum(at.privacy, _TINY))])
        return need[active], derivatives[active]

    def retreat(self, evaluate: Callable[[list[Array]], Evaluation], shrink: list[Array]) -> list[Array]:
        """Shrink every agent by one factor until every privacy is reached."""
        return _bisect(lambda s: [s * x for x in shrink], lambda s: self.safe(evaluate(s)))


def _bisect(path: Callable[[float], list[Array]], good: Callable[[list[Array]], bool]) -> list[Array]:
    """The last good point of a path that is good at 0, is left at 1, and turns bad once."""
    if good(path(1.0)):
        return path(1.0)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if good(path(middle)) else (low, middle)
    return path(low)


def balance(rows: Array, wanted: Array) -> Array:
    """Nonnegative weights of the rows that come nearest to the wanted sum."""
    basis, triangle = np.linalg.qr(rows.T)
    weights: Array = nnls(triangle, basis.T @ wanted)[0]
    return weights
