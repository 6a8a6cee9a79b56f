"""The two trade-off problems as augmented Lagrangians on logarithms (mathematics, section 5).

`LeastLoss`: least utility loss with p_j >= target_j. `MostPrivacy`: largest t with p_j >= t weight_j and the
loss within a budget. Both turn an evaluation into a number to minimise and its derivatives with respect to
the loss and to each p_j; multipliers and penalty are updated between minimisations.

Logarithms make the problem independent of scale. The loss enters as
2 log((loss + reference) / (2 reference)), which has the slope of log loss at the reference but stays bounded
below where the loss vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.optimize import nnls

from veilnet._core.types import Array
from veilnet.designs.joint.objective import Evaluation
from veilnet.designs.joint.settings import SETTINGS

_LEAST_ROOM = 1e-6
_BISECTIONS = 40
_TINY = np.finfo(float).tiny
_AIM, _ENOUGH, _TOO_MUCH = 3e-9, 1e-9, 1e-8
"""Relative margin aimed at by the repair, the least accepted, and the most left on a tight constraint."""


class Merit(Protocol):
    """A number to minimise; ``at`` is always an evaluation of some X."""

    def merit(self, at: Evaluation) -> tuple[float, float, Array]:
        """The number (an augmented Lagrangian, say); its derivatives by the loss and by the privacies."""


class Problem(Merit, Protocol):
    """What the solver asks of a trade-off problem."""

    def restart(self, at: Evaluation, feasible: Evaluation) -> None:
        """First multipliers, penalty and reference, from the start and a feasible point near it."""

    def prime(self, at: Evaluation) -> None:
        """Take the start for nearly optimal: its loss is the measure, and violations count in earnest."""

    def update(self, at: Evaluation, converged: bool) -> None:
        """New multipliers after a minimisation; the penalty grows where infeasibility does not shrink."""

    def fit(self, at: Evaluation, loss_gradient: Array, privacy_gradients: Array) -> None:
        """Once nearly feasible, multipliers that balance the gradients of log loss, (n,), and log p_j, (J, n)."""

    def lagrangian(self, at: Evaluation) -> tuple[float, Array]:
        """Derivatives of the Lagrangian by the loss and the privacies, scaled to log loss or log t."""

    def infeasibility(self, at: Evaluation) -> float:
        """Largest relative violation, or slack where a multiplier says there is none."""

    def estimate(self, at: Evaluation) -> float:
        """Objective corrected to first order for what is violated: log loss, or minus log t."""

    def feasible(self, at: Evaluation) -> bool:
        """Whether every constraint holds."""

    def value(self, at: Evaluation) -> float:
        """Objective: log loss, or minus log t."""

    def level(self, privacy: Array) -> float:
        """Least p_j relative to its target or weight."""

    def copy(self) -> Problem:
        """The same problem with multipliers of its own."""

    def wanting(self, at: Evaluation) -> tuple[Array, Array]:
        """Changes still wanted of the active constraints' logarithms, and those logarithms' derivatives.

        One number and one row (by loss, p_1, ..., p_J) per active constraint; empty when nothing is wanted.
        """

    def safe(self, at: Evaluation) -> bool:
        """Whether every constraint holds with a margin that survives rounding elsewhere."""

    def retreat(self, evaluate: Callable[[list[Array]], Evaluation], shrink: list[Array]) -> list[Array]:
        """The nearest safe point on the way from X to where every constraint holds."""


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
        return float(np.min(privacy[self._asked] / self.targets[self._asked]))

    def copy(self) -> LeastLoss:
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
        return -prices / (np.maximum(at.privacy, _TINY) * self._room)

    def merit(self, at: Evaluation) -> tuple[float, float, Array]:
        pressed = np.maximum(self._multipliers + self._penalty * self._shortfall(at), 0.0)
        level = (at.loss + self._reference) / (2 * self._reference)
        penalties = (pressed**2 - self._multipliers**2) / (2 * self._penalty)
        value = self.sharpness * 2 * np.log(level) + float(penalties.sum())
        return value, self.sharpness * 2 / (at.loss + self._reference), self._by_privacy(pressed, at)

    def restart(self, at: Evaluation, feasible: Evaluation) -> None:
        # A reference far below the loss to be reached would make the loss worth more than any privacy.
        ceiling = max(feasible.loss, _TINY)
        self._reference = min(max(0.3 * at.loss, 0.01 * ceiling), ceiling)
        self._multipliers = self._asked / np.count_nonzero(self._asked)
        self._penalty = SETTINGS.first_penalty
        self._previous = np.inf

    def prime(self, at: Evaluation) -> None:
        self._reference = max(at.loss, _TINY)
        self._penalty = SETTINGS.primed_penalty * max(1.0, self.sharpness * SETTINGS.sharp_penalty)

    def update(self, at: Evaluation, converged: bool) -> None:
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
        active = np.flatnonzero(self._asked & (np.abs(self._shortfall(at)) < SETTINGS.nearly_feasible))
        if active.size and self.infeasibility(at) < SETTINGS.nearly_feasible:
            self._multipliers = np.zeros(self.targets.size)
            rows = privacy_gradients[active] / self._room[active, None]
            self._multipliers[active] = balance(rows, self.sharpness * loss_gradient)

    def lagrangian(self, at: Evaluation) -> tuple[float, Array]:
        return self.sharpness / max(at.loss, _TINY), self._by_privacy(self._multipliers, at)

    def infeasibility(self, at: Evaluation) -> float:
        shortfall = self._shortfall(at)
        return float(np.max(np.where(self._multipliers > 0, np.abs(shortfall), np.maximum(shortfall, 0.0))))

    def estimate(self, at: Evaluation) -> float:
        shortfall = np.where(self._multipliers > 0, self._shortfall(at), 0.0)
        return self.value(at) + float(self._multipliers @ shortfall) / self.sharpness

    def feasible(self, at: Evaluation) -> bool:
        return bool(np.all(at.privacy >= self.targets))

    def safe(self, at: Evaluation) -> bool:
        return bool(np.all(at.privacy >= self.targets * (1 + _ENOUGH)))

    def wanting(self, at: Evaluation) -> tuple[Array, Array]:
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

    def value(self, at: Evaluation) -> float:
        return float(np.log(max(at.loss, _TINY)))


class MostPrivacy:
    """Largest t with p_j >= t weight_j and loss <= budget; weights that are zero ask nothing.

    The best t for a given X solves the augmented Lagrangian exactly: the pressed multipliers of the p_j
    are the projection of multiplier + penalty * log(weight_j / p_j) onto the simplex.

    ``floors`` are privacies that hold whatever t is (zero: none), ``anchor`` an X without loss that has them.
    """

    def __init__(
        self,
        budget: float,
        weights: Array,
        floors: Array | None = None,
        anchor: list[Array] | None = None,
    ) -> None:
        self.budget = float(budget)
        self.weights = np.asarray(weights, dtype=np.float64)
        self._asked = self.weights > 0
        self._log_weights = np.log(np.where(self._asked, self.weights, 1.0))
        self._multipliers = self._asked / np.count_nonzero(self._asked)
        self._loss_multiplier = 0.0
        self.floors = np.zeros(self.weights.size) if floors is None else np.asarray(floors, dtype=np.float64)
        self._floored = self.floors > 0
        self._log_floors = np.log(np.where(self._floored, self.floors, 1.0))
        self._anchor = anchor
        self._floor_multipliers = np.zeros(self.weights.size)
        self._penalty = SETTINGS.first_penalty
        self._previous = np.inf

    def level(self, privacy: Array) -> float:
        return float(np.min(privacy[self._asked] / self.weights[self._asked]))

    def copy(self) -> MostPrivacy:
        return MostPrivacy(self.budget, self.weights, self.floors, self._anchor)

    def _log_ratios(self, at: Evaluation) -> Array:
        """log(weight_j / p_j), minus infinity where nothing is asked."""
        return np.where(self._asked, self._log_weights - np.log(np.maximum(at.privacy, _TINY)), -np.inf)

    def _excess(self, at: Evaluation) -> float:
        return float(2 * np.log((at.loss + self.budget) / (2 * self.budget)))

    def _sunk(self, at: Evaluation) -> Array:
        """log(floor_j / p_j), minus infinity where there is no floor."""
        return np.where(self._floored, self._log_floors - np.log(np.maximum(at.privacy, _TINY)), -np.inf)

    def _press_floors(self, at: Evaluation) -> Array:
        return np.maximum(self._floor_multipliers + self._penalty * self._sunk(at), 0.0)

    def _press(self, at: Evaluation) -> tuple[Array, float, float]:
        """Pressed multipliers of the privacies and of the loss, and the t of this X (as log)."""
        wish = self._multipliers + self._penalty * self._log_ratios(at)
        pressed, offset = _onto_simplex(wish)
        loss_pressed = max(self._loss_multiplier + self._penalty * self._excess(at), 0.0)
        return pressed, loss_pressed, -offset / self._penalty

    def merit(self, at: Evaluation) -> tuple[float, float, Array]:
        pressed, loss_pressed, log_t = self._press(at)
        floored = self._press_floors(at)
        squares = (
            float((pressed**2 - self._multipliers**2).sum()) + loss_pressed**2 - self._loss_multiplier**2
        )
        squares += float((floored**2 - self._floor_multipliers**2).sum())
        value = -log_t + squares / (2 * self._penalty)
        by_loss = loss_pressed * 2 / (at.loss + self.budget)
        return value, by_loss, -(pressed + floored) / np.maximum(at.privacy, _TINY)

    def restart(self, at: Evaluation, feasible: Evaluation) -> None:  # noqa: ARG002
        self._multipliers = self._asked / np.count_nonzero(self._asked)
        self._loss_multiplier = 1.0
        self._floor_multipliers = np.zeros(self.weights.size)
        self._penalty = SETTINGS.first_penalty
        self._previous = np.inf

    def prime(self, at: Evaluation) -> None:  # noqa: ARG002
        self._penalty = SETTINGS.primed_penalty

    def update(self, at: Evaluation, converged: bool) -> None:
        floored = self._press_floors(at)
        self._multipliers, self._loss_multiplier, _ = self._press(at)
        self._floor_multipliers = floored
        infeasible = self.infeasibility(at)
        if infeasible > 0.25 * self._previous and (converged or infeasible > 1e-2):
            self._penalty = min(self._penalty * SETTINGS.penalty_growth, SETTINGS.penalty_limit)
        self._previous = infeasible

    def fit(self, at: Evaluation, loss_gradient: Array, privacy_gradients: Array) -> None:
        ratios = self._log_ratios(at)
        active = np.flatnonzero(ratios > ratios.max() - SETTINGS.nearly_feasible)
        floored = np.flatnonzero(np.abs(self._sunk(at)) < SETTINGS.nearly_feasible)
        floored = np.setdiff1d(floored, active)  # one that t raises rests on its floor no more
        prices = balance(privacy_gradients[np.concatenate([active, floored])], loss_gradient)
        total = float(prices[: active.size].sum())
        if total > 0 and self.infeasibility(at) < SETTINGS.nearly_feasible:
            self._multipliers = np.zeros(self.weights.size)
            self._multipliers[active] = prices[: active.size] / total
            self._floor_multipliers = np.zeros(self.weights.size)
            self._floor_multipliers[floored] = prices[active.size :] / total
            self._loss_multiplier = 1 / total

    def lagrangian(self, at: Evaluation) -> tuple[float, Array]:
        multipliers = self._multipliers + self._floor_multipliers
        return self._loss_multiplier / self.budget, -multipliers / np.maximum(at.privacy, _TINY)

    def infeasibility(self, at: Evaluation) -> float:
        ratios = self._log_ratios(at)
        worst = float(ratios.max())
        uneven = float(np.max(np.where(self._multipliers > 0, worst - ratios, 0.0)))
        excess = self._excess(at)
        sunk = self._sunk(at)
        below = float(np.max(np.where(self._floor_multipliers > 0, np.abs(sunk), np.maximum(sunk, 0.0))))
        return max(uneven, below, abs(excess) if self._loss_multiplier > 0 else max(excess, 0.0))

    def estimate(self, at: Evaluation) -> float:
        ratios = np.where(self._multipliers > 0, self._log_ratios(at), 0.0)
        sunk = np.where(self._floor_multipliers > 0, self._sunk(at), 0.0)
        corrected = float(self._multipliers @ ratios) + float(self._floor_multipliers @ sunk)
        return corrected + self._loss_multiplier * self._excess(at)

    def keeps_floors(self, privacy: Array) -> bool:
        """Whether no privacy is below its floor."""
        return bool(np.all((privacy >= self.floors) | (self.floors <= 0)))

    def feasible(self, at: Evaluation) -> bool:
        return at.loss <= self.budget and self.keeps_floors(at.privacy)

    def safe(self, at: Evaluation) -> bool:
        kept = self.keeps_floors(at.privacy / (1 + _ENOUGH))
        return kept and at.loss <= self.budget * (1 - _ENOUGH)

    def wanting(self, at: Evaluation) -> tuple[Array, Array]:
        need = np.log(self.budget / max(at.loss, _TINY)) - _AIM
        derivatives = np.concatenate([[1 / max(at.loss, _TINY)], np.zeros(self.weights.size)])[None]
        sunk = self._sunk(at) + _AIM
        low = (sunk > _AIM - _ENOUGH) | ((self._floor_multipliers > 0) & np.isfinite(sunk))
        resting = np.all(sunk[low] <= _AIM - _ENOUGH) and np.all(sunk[low] >= _AIM - _TOO_MUCH)
        if _ENOUGH - _AIM <= need <= _TOO_MUCH - _AIM and resting:
            return np.zeros(0), derivatives[:0]
        by_privacy = np.hstack([np.zeros((sunk.size, 1)), np.diag(1 / np.maximum(at.privacy, _TINY))])
        return np.concatenate([[need], sunk[low]]), np.concatenate([derivatives, by_privacy[low]])

    def retreat(self, evaluate: Callable[[list[Array]], Evaluation], shrink: list[Array]) -> list[Array]:
        """Move every agent towards its raw reading, or the anchor, until the loss is within the budget."""
        raw = [np.broadcast_to(np.eye(x.shape[1]), x.shape) for x in shrink]
        anchor = raw if self._anchor is None else self._anchor
        return _bisect(
            lambda s: [s * x + (1 - s) * i for x, i in zip(shrink, anchor, strict=True)],
            lambda s: self.safe(evaluate(s)),
        )

    def value(self, at: Evaluation) -> float:
        return float(self._log_ratios(at).max())


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


def _onto_simplex(wish: Array) -> tuple[Array, float]:
    """Projection of ``wish`` onto {m >= 0, sum m = 1}: max(wish - offset, 0), and the offset."""
    ordered = np.sort(wish[np.isfinite(wish)])[::-1]
    offsets = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered > offsets)[-1])
    offset = float(offsets[last])
    return np.maximum(np.where(np.isfinite(wish), wish, -np.inf) - offset, 0.0), offset
