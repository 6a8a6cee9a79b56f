"""The best mixture of answers: X_i = Σ_k a_k X_i(recipe k), a on the simplex.

J̃ is linear in the mixture, so with J̃_k the information of each answer alone

    J̃ = Σ_k a_k J̃_k,   f = tr(A J̃^-1 A') - tr(A A') = tr(A D A') + tr(A D J̃^-1 D A'),   D = J - J̃,
    ∂f/∂a_k = tr(E' D_k E) - const,   E = J̃^-1 A' = A' + S,   S = J̃^-1 D A',

and D A' is kept for each answer, so that no two nearly equal numbers are subtracted however small the loss. What is
left to minimise is a problem in a few dozen weights, by sequential quadratic programming.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls

from veilnet._core.types import Array, Integers
from veilnet.designs.joint import INFORMATION_FLOOR
from veilnet.designs.many.recipes import Known

_TINY = np.finfo(float).tiny
_AIM, _ENOUGH = 3e-9, 1e-9  # relative margins aimed at and accepted, as for small networks
_BISECTIONS = 60
_TIGHT = 1e-5  # a constraint this near to its bound, in logarithms, has a price


@dataclass(frozen=True, eq=False)
class Question:
    """Least loss with p_j >= targets_j, or (with a budget) the largest t with p_j >= t weights_j within that loss.

    targets: the privacies that have to be reached, zero for none: targets and floors, or with a budget floors alone.
    weights: with a budget, how the privacy is divided; zero asks nothing.
    budget:  the loss allowed; None asks for the least.
    """

    targets: Array
    weights: Array | None = None
    budget: float | None = None

    def safe(self, at: Figures) -> bool:
        """Whether every constraint holds with a margin that survives rounding elsewhere."""
        kept = bool(np.all(at.privacy >= self.targets * (1 + _ENOUGH)))
        return kept and (self.budget is None or at.loss <= self.budget * (1 - _ENOUGH))

    def missing(self, at: Figures) -> float:
        """How far, in logarithms, the constraint that presses most is from its bound; negative where all hold."""
        if self.budget is not None:
            return float(np.log(max(at.loss, _TINY) / self.budget))
        asked = self.targets > 0
        return float(np.max(np.log(self.targets[asked] / np.maximum(at.privacy[asked], _TINY))))

    def value(self, at: Figures) -> float:
        """What is minimised: log loss, or minus log t."""
        if self.budget is None or self.weights is None:
            return float(np.log(max(at.loss, _TINY)))
        asked = self.weights > 0
        return -float(np.min(np.log(np.maximum(at.privacy[asked], _TINY) / self.weights[asked])))


@dataclass(frozen=True, eq=False)
class Figures:
    """Loss and privacies of a mixture, their derivatives by its weights, (1 + J, K), E (L, r) and J̃."""

    loss: float
    privacy: Array
    slopes: Array
    estimate: Array
    information: Array

    @property
    def values(self) -> Array:
        """Loss, then privacies."""
        return np.asarray(np.maximum(np.concatenate([[self.loss], self.privacy]), _TINY))


class Answers:
    """The answers to mix: what is known from each."""

    def __init__(self, wanted: Array, owner: Integers, known: Sequence[Known]) -> None:
        self._wanted, self._owner = wanted, owner
        self._information = np.array([each.information for each in known])
        self._hidden = np.array([each.hidden for each in known])
        self._floor = INFORMATION_FLOOR * np.eye(len(wanted))
        self._select = (owner[None, :] == np.arange(owner.max() + 1)[:, None]).astype(float)

    def __len__(self) -> int:
        return len(self._information)

    def at(self, weights: Array) -> Figures:
        """The mixture with these weights."""
        information = np.tensordot(weights, self._information, 1)
        hidden = np.tensordot(weights, self._hidden, 1)
        spread = np.linalg.solve(information + self._floor, hidden)
        sums = self._select @ np.einsum("lr,lr->r", self._wanted + spread, hidden)
        lost = np.einsum("lr,klr->kr", self._wanted + 2 * spread, self._hidden)
        lost += np.einsum("lr,lr->r", spread, spread) - np.einsum(
            "klr,lr->kr", self._information @ spread, spread
        )
        return Figures(
            max(float(sums[0]), 0.0),
            np.maximum(sums[1:], 0.0),
            self._select @ lost.T,
            self._wanted + spread,
            information,
        )

    def retreated(self, question: Question, weights: Array, refuge: int) -> Array | None:
        """The weights nearest to these, on the way to one answer alone, that satisfy the question; None if none."""
        alone = np.zeros(len(self))
        alone[refuge] = 1.0
        if question.safe(self.at(weights)):
            return weights
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if question.safe(self.at((1 - middle) * weights + middle * alone)):
                high = middle
            else:
                low = middle
        moved = (1 - high) * weights + high * alone
        return moved if question.safe(self.at(moved)) else None

    def best(self, question: Question, weights: Array, refuge: int) -> Array:
        """Weights that are at least as good as the given ones, which satisfy the question; so do these."""
        before = self.at(weights)
        tried = self._programmed(question, weights, before)
        if tried is None:
            return weights
        safe = self.retreated(question, tried, refuge)
        if safe is None or question.value(self.at(safe)) >= question.value(before):
            return weights
        return safe

    def _programmed(self, question: Question, weights: Array, before: Figures) -> Array | None:
        count = len(self)
        reference = before.loss if question.budget is None else question.budget
        reference = max(reference, _TINY)
        # Each weight in units of what moves the logarithms by one: answers far off need tiny ones.
        relative = (before.slopes - (before.slopes @ weights)[:, None]) / np.maximum(
            before.values, reference * 1e-3
        )[:, None]
        scale = 1.0 / np.maximum(np.abs(relative).sum(axis=0), 1.0)
        most = question.budget is not None
        asked = question.targets > 0
        divided = (
            question.weights > 0 if most and question.weights is not None else np.zeros(asked.size, bool)
        )
        last: tuple[bytes, Figures] = (b"", before)

        def at(point: Array) -> Figures:
            nonlocal last
            key = point.tobytes()
            if key != last[0]:
                last = (key, self.at(point[:count] * scale))
            return last[1]

        def extended(slope: Array, by_level: float = 0.0) -> Array:
            return np.append(slope * scale, by_level) if most else slope * scale

        def loss_in_logarithms(point: Array) -> tuple[float, Array]:
            found = at(point)
            value = 2 * np.log((found.loss + reference) / (2 * reference))
            return float(value), extended(found.slopes[0] * 2 / (found.loss + reference))

        def logarithms(point: Array) -> tuple[Array, Array]:
            found = at(point)
            return np.log(found.values[1:]), found.slopes[1:] / found.values[1:, None]

        constraints: list[Any] = [
            {"type": "eq", "fun": lambda p: p[:count] @ scale - 1, "jac": lambda _: extended(np.ones(count))}
        ]
        if np.any(asked):
            wanted = np.log(question.targets[asked] * (1 + _AIM))
            constraints.append(
                {
                    "type": "ineq",
                    "fun": lambda p: logarithms(p)[0][asked] - wanted,
                    "jac": lambda p: np.array([extended(row) for row in logarithms(p)[1][asked]]),
                }
            )
        objective: Callable[[Array], tuple[float, Array]] = loss_in_logarithms
        start = weights / scale
        bounds: list[tuple[float | None, float | None]] = [(0.0, 1.0 / each) for each in scale]
        if most and question.weights is not None:
            shift = np.log(question.weights[divided])
            start = np.append(start, -question.value(before))
            bounds.append((None, None))
            constraints.append(
                {
                    "type": "ineq",
                    "fun": lambda p: logarithms(p)[0][divided] - shift - p[-1],
                    "jac": lambda p: np.array([extended(row, -1.0) for row in logarithms(p)[1][divided]]),
                }
            )
            constraints.append(
                {
                    "type": "ineq",
                    "fun": lambda p: -loss_in_logarithms(p)[0] - _AIM,
                    "jac": lambda p: -loss_in_logarithms(p)[1],
                }
            )
            only_level = np.append(np.zeros(count), -1.0)
            objective = lambda p: (-float(p[-1]), only_level)  # noqa: E731
        with np.errstate(all="ignore"):
            result = minimize(
                objective, start, jac=True, bounds=bounds, constraints=constraints, method="SLSQP",
                options={"maxiter": 100, "ftol": 1e-10},
            )  # fmt: skip
        found = np.maximum(result.x[:count] * scale, 0.0)
        if not np.all(np.isfinite(found)) or found.sum() <= 0:
            return None
        found[found < 1e-14] = 0.0
        return np.asarray(found / found.sum())

    def prices(self, question: Question, weights: Array, at: Figures) -> Array:
        """λ_j with ∇ log loss = Σ λ_j ∇ log p_j on the weights in use, zero where nothing presses."""
        mixing = weights > 0
        slopes = at.slopes / at.values[:, None]
        slopes = ((slopes - (slopes @ weights)[:, None]) * np.sqrt(weights))[:, mixing]
        pressing = (question.targets > 0) & (at.privacy <= question.targets * (1 + _TIGHT))
        if question.weights is not None:
            divided = np.where(question.weights > 0, question.weights, 1.0)
            ratio = np.where(question.weights > 0, at.privacy / divided, np.inf)
            pressing |= ratio <= ratio.min() * (1 + _TIGHT)
        found = np.zeros(at.privacy.size)
        if np.any(pressing):
            found[pressing] = nnls(slopes[1:][pressing].T, slopes[0])[0]
        return found
