"""Limited-memory BFGS that can be stopped and resumed, keeping what it has learned of the curvature."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, sqrt

import numpy as np
from scipy.linalg.lapack import dtrtrs

from veilnet._core.types import Array

ValueGradient = Callable[[Array], tuple[float, Array]]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9
_LINE_SEARCH_STEPS = 25
_TINY = np.finfo(float).tiny
_STEEPEST = 1e100


class Curvature:
    """The last few steps and gradient changes, kept as two stacks with their inner products.

    The inverse Hessian estimate is applied in the compact form of Byrd, Nocedal and Schnabel (1994): a few
    matrix-vector products instead of a loop over the stored pairs.
    """

    def __init__(self, size: int, memory: int = 12) -> None:
        self._steps: Array = np.zeros((memory, size))
        self._changes: Array = np.zeros((memory, size))
        self._step_change: Array = np.zeros((memory, memory))
        self._change_change: Array = np.zeros((memory, memory))
        self._slots: list[int] = []

    def forget(self) -> None:
        self._slots.clear()

    def learn(self, step: Array, change: Array) -> None:
        product = float(step @ change)
        if product <= 1e-10 * (sqrt(step @ step) * sqrt(change @ change)):
            return
        memory = self._steps.shape[0]
        slot = len(self._slots) if len(self._slots) < memory else self._slots.pop(0)
        self._slots.append(slot)
        self._steps[slot], self._changes[slot] = step, change
        self._step_change[:, slot] = self._steps @ change
        self._step_change[slot] = self._changes @ step
        self._change_change[:, slot] = self._change_change[slot] = self._changes @ change

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian estimate times the gradient."""
        if not self._slots:
            return -gradient / max(float(np.linalg.norm(gradient)), _TINY)
        slots = np.array(self._slots)
        down = slots[:, None]
        products, squares = self._step_change[down, slots], self._change_change[down, slots]
        scale = products[-1, -1] / squares[-1, -1]
        along_steps, along_changes = (self._steps @ gradient)[slots], (self._changes @ gradient)[slots]
        # Only the part of S'Y on and above the diagonal enters, steps in the order they were taken.
        inner = dtrtrs(products, along_steps)[0]
        middle = products.diagonal() * inner + scale * (squares @ inner - along_changes)
        of_steps, of_changes = np.zeros((2, self._steps.shape[0]))
        of_steps[slots] = dtrtrs(products, middle, trans=1)[0]
        of_changes[slots] = -scale * inner
        direction: Array = -scale * gradient - of_steps @ self._steps - of_changes @ self._changes
        return direction


def minimize(
    function: ValueGradient, start: Array, curvature: Curvature, iterations: int, tolerance: float
) -> tuple[Array, int, bool]:
    """Run at most ``iterations`` steps.

    Returns the point, the steps taken and whether it stopped by itself: decrease below ``tolerance``
    (the function is a logarithm, so this is relative) three times in a row, or no descent left.
    """
    point = start
    value, gradient = function(point)
    if not _usable(value, gradient):
        return point, 0, True
    small = 0
    for done in range(iterations):
        direction = curvature.direction(gradient)
        slope = float(direction @ gradient)
        if slope >= 0:
            curvature.forget()
            direction = curvature.direction(gradient)
            slope = float(direction @ gradient)
        if slope >= 0 or not isfinite(slope):
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


def _usable(value: float, gradient: Array) -> bool:
    """Beside a singular information matrix gradients exceed what can be squared: no point to work from."""
    return bool(isfinite(value) and np.abs(gradient).max(initial=0.0) < _STEEPEST)


def _weak_wolfe(
    function: ValueGradient, point: Array, value: float, slope: float, direction: Array
) -> tuple[Array, float, Array] | None:
    """Bisection to a step with sufficient decrease and a flatter slope (Lewis and Overton, 2013)."""
    low, high, step = 0.0, inf, 1.0
    best: tuple[Array, float, Array] | None = None
    for _ in range(_LINE_SEARCH_STEPS):
        moved = point + step * direction
        new_value, new_gradient = function(moved)
        if not _usable(new_value, new_gradient) or new_value > value + _SUFFICIENT_DECREASE * step * slope:
            high = step
        else:
            best = moved, new_value, new_gradient
            if float(new_gradient @ direction) >= _CURVATURE * slope:
                return best
            low = step
        step = (low + high) / 2 if isfinite(high) else 2 * step
    return best
