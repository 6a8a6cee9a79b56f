"""Limited-memory BFGS that can be stopped and resumed, keeping what it has learned of the curvature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._types import Array

ValueGradient = Callable[[Array], tuple[float, Array]]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9
_LINE_SEARCH_STEPS = 25


class Curvature:
    """The last few steps and gradient changes."""

    def __init__(self, memory: int = 12) -> None:
        self._memory = memory
        self._pairs: list[tuple[Array, Array, float]] = []

    def learn(self, step: Array, change: Array) -> None:
        product = float(step @ change)
        if product > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, product))
            del self._pairs[: -self._memory]

    def forget(self) -> None:
        self._pairs.clear()

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian estimate times the gradient (two-loop recursion)."""
        if not self._pairs:
            return -gradient / max(float(np.linalg.norm(gradient)), np.finfo(float).tiny)
        result = -gradient
        weights = []
        for step, change, product in reversed(self._pairs):
            weight = float(step @ result) / product
            weights.append(weight)
            result -= weight * change
        step, change, product = self._pairs[-1]
        result *= product / float(change @ change)
        for (step, change, product), weight in zip(self._pairs, reversed(weights), strict=True):
            result += (weight - float(change @ result) / product) * step
        return result


def minimize(
    function: ValueGradient, start: Array, curvature: Curvature, iterations: int, tolerance: float
) -> tuple[Array, int, bool]:
    """Run at most ``iterations`` steps.

    Returns the point, the steps taken and whether it stopped by itself: decrease below ``tolerance``
    (the function is a logarithm, so this is relative) three times in a row, or no descent left.
    """
    point = start
    value, gradient = function(point)
    small = 0
    for done in range(iterations):
        direction = curvature.direction(gradient)
        slope = float(direction @ gradient)
        if slope >= 0:
            curvature.forget()
            direction = curvature.direction(gradient)
            slope = float(direction @ gradient)
        if slope >= 0 or not np.isfinite(slope):
            return point, done, True
        found = _weak_wolfe(function, point, value, slope, direction)
        if found is None:
            curvature.forget()
            small += 1
            if small > 1:
                return point, done, True
            continue
        moved, new_value, new_gradient = found
        curvature.learn(moved - point, new_gradient - gradient)
        small = small + 1 if value - new_value < tolerance else 0
        point, value, gradient = moved, new_value, new_gradient
        if small >= 3:
            return point, done + 1, True
    return point, iterations, False


def _weak_wolfe(
    function: ValueGradient, point: Array, value: float, slope: float, direction: Array
) -> tuple[Array, float, Array] | None:
    """Bisection to a step with sufficient decrease and a flatter slope (Lewis and Overton, 2013)."""
    low, high, step = 0.0, np.inf, 1.0
    best: tuple[Array, float, Array] | None = None
    for _ in range(_LINE_SEARCH_STEPS):
        moved = point + step * direction
        new_value, new_gradient = function(moved)
        if not np.isfinite(new_value) or new_value > value + _SUFFICIENT_DECREASE * step * slope:
            high = step
        else:
            best = moved, new_value, new_gradient
            if float(new_gradient @ direction) >= _CURVATURE * slope:
                return best
            low = step
        step = (low + high) / 2 if np.isfinite(high) else 2 * step
    return best
