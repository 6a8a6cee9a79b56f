"""The best answers that have no formula: Newton steps along a path, for a stack of agents at once.

max_X tr(c'(X^-1 + N)^-1 c) over X ⪰ 0, tr X <= 1 is max_Y 2<c, Y> - <Y, N Y> - |Y|_*², attained by the X that attains
the squared nuclear norm. That norm is smoothed with a weight that shrinks as the steps succeed.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans
from veilnet.designs.many_power.smoothing import smoothed_curvature, smoothed_eigenvalues, smoothed_value

_MOST_STEPS = 60
_SHRINK = 0.05
_CENTRED = 3.0  # Newton decrement below which the next weight is taken
_CLOSE = 1e-10  # of what is reached: how far from the best X may be
_SMALLEST_STEP = 1e-4


def smoothed_answers(metric: Array, force: Array) -> Array:
    """X_i of a stack, (s, b, b), each within a small part of the best.

    metric: N_i, (s, b, b).
    force:  c_i, (s, b, r).
    """
    count, size, columns = force.shape
    if columns > size:  # c c' is all that matters
        left, singular, _ = np.linalg.svd(force, full_matrices=False)
        force, columns = left * singular[:, None, :], size
    answer = np.empty((count, size, size))
    for part in parts(count, (size * columns) ** 2):
        answer[part] = _answers(metric[part], force[part])
    return answer


def _answers(metric: Array, force: Array) -> Array:
    _, size, columns = force.shape
    point = np.linalg.solve(metric + size * np.eye(size), force)
    weight = _reached(force, point) / columns
    moving = np.flatnonzero(weight > 0)
    for _ in range(_MOST_STEPS):
        if not moving.size:
            break
        try:
            point[moving], weight[moving], ended = _step(
                metric[moving], force[moving], point[moving], weight[moving]
            )
        except np.linalg.LinAlgError:
            break
        moving = moving[~ended]
    left, singular, _ = np.linalg.svd(point, full_matrices=False)
    x, _ = smoothed_eigenvalues(singular, np.where(weight > 0, weight, 1.0))
    found = (left * x[:, None, :]) @ np.swapaxes(left, 1, 2)
    return np.asarray((found + np.swapaxes(found, 1, 2)) / 2)


def _reached(force: Array, point: Array) -> Array:
    return np.asarray(np.sum(force * point, axis=(1, 2)))


def _step(metric: Array, force: Array, point: Array, weight: Array) -> tuple[Array, Array, Booleans]:
    """One Newton step of each, its next weight, and whether it was its last."""
    count, size, columns = force.shape
    left, singular, right = np.linalg.svd(point, full_matrices=True)
    x, slope = smoothed_eigenvalues(singular, weight)
    hessian = smoothed_curvature(singular, x, slope, weight, (size, columns))
    turned = np.swapaxes(left, 1, 2) @ metric @ left
    for column in range(columns):
        hessian[:, :, column, :, column] += turned
    downhill = np.swapaxes(left, 1, 2) @ (force - metric @ point) @ np.swapaxes(right, 1, 2)
    kept = np.arange(columns)
    downhill[:, kept, kept] -= singular / x
    flat, gradient = hessian.reshape(count, size * columns, -1), downhill.reshape(count, -1)
    scale = 1 / np.sqrt(np.diagonal(flat, axis1=1, axis2=2))
    flat = flat * scale[:, :, None] * scale[:, None, :]
    solution = scale * np.linalg.solve(flat, (scale * gradient)[:, :, None])[:, :, 0]
    decrement = np.sqrt(np.maximum(np.sum(gradient * solution, axis=1), 0.0) / weight)
    direction = left @ solution.reshape(point.shape) @ right
    length = _lengths(metric, force, point, direction, decrement, weight)
    moved = point + length[:, None, None] * direction
    centred = (length == 1.0) & (decrement < _CENTRED)
    close = weight * columns <= _CLOSE * _reached(force, moved)
    ended = (centred & close & (decrement < 0.1)) | (length < _SMALLEST_STEP)
    return moved, np.where(centred & ~close, _SHRINK * weight, weight), ended


def _lengths(
    metric: Array, force: Array, point: Array, direction: Array, decrement: Array, weight: Array
) -> Array:
    """Backtracking; a small decrement of a self-concordant function needs none."""
    length = np.ones(len(point))
    tried = np.flatnonzero(decrement > 0.5)
    if not tried.size:
        return length
    start = _value(metric[tried], force[tried], point[tried], weight[tried])
    promised = 0.1 * decrement[tried] ** 2 * weight[tried]
    while tried.size:
        step = length[tried]
        there = point[tried] + step[:, None, None] * direction[tried]
        short = _value(metric[tried], force[tried], there, weight[tried]) > start - step * promised
        short &= step >= _SMALLEST_STEP
        tried, start, promised = tried[short], start[short], promised[short]
        length[tried] /= 2
    return length


def _value(metric: Array, force: Array, point: Array, weight: Array) -> Array:
    singular = np.linalg.svd(point, compute_uv=False).astype(np.float64, copy=False)
    x, _ = smoothed_eigenvalues(singular, weight)
    smooth = smoothed_value(singular, x, weight)
    return np.asarray((np.sum(point * (metric @ point), axis=(1, 2)) + smooth) / 2 - _reached(force, point))
