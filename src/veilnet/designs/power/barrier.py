"""A path-following Newton method on the factor Y: slower, and untroubled by any scale of the powers.

Each |Y_i|_*² is smoothed (:mod:`veilnet.designs.many_power.smoothing`). The quadratic part is exact however stiff it
is, which is what the splitting and the fixed-rank Newton steps cannot offer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from veilnet._core.blocks import Group
from veilnet._core.types import Array
from veilnet.designs.many_power.smoothing import smoothed_curvature, smoothed_eigenvalues, smoothed_value
from veilnet.designs.power.problem import Certificate, ScaledProblem

_MOST_STEPS = 100
_SHRINK = 0.1
_CENTRED = 6.0  # Newton decrement below which the next μ is taken
_SMALLEST_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class _Smoothed:
    """One group of agents around its current Y_i = U diag(s) V'."""

    group: Group
    left: Array
    singular: Array
    right: Array
    eigenvalues: Array
    slope: Array  # 2νx - μ


def follow_central_path(problem: ScaledProblem, certificate: Certificate, relative_gap: float) -> int:
    """Newton steps until the certificate closes or rounding stops progress; returns how many were taken."""
    gain = problem.gain
    dimensions = sum(group.count * min(group.size, gain.shape[1]) for group in problem.blocks.groups)
    weight = sum(float(np.sum(s[:, 0] ** 2)) for s in problem.singular_values(gain)) / dimensions
    values, vectors = problem.spectrum
    largest = int(problem.blocks.sizes.max())
    point: Array = vectors @ ((vectors.T @ gain) / (values + largest)[:, None])  # power spread evenly
    for step in range(1, _MOST_STEPS + 1):
        try:
            direction, decrement = _newton_direction(problem, point, weight)
        except np.linalg.LinAlgError:
            return step
        length = _step_length(problem, point, direction, decrement, weight)
        point = point + length * direction
        certificate.offer(point)
        path_ended = weight * dimensions < 1e-3 * relative_gap * certificate.lower
        if certificate.gap <= relative_gap or length < _SMALLEST_STEP or path_ended:
            return step
        if length == 1.0 and decrement < _CENTRED:
            weight *= _SHRINK
    return _MOST_STEPS


def _value(problem: ScaledProblem, point: Array, weight: float) -> float:
    """½|C'Y|² - <A, Y> plus the smoothed half squares of the nuclear norms."""
    value = float(np.sum((problem.root.T @ point) ** 2)) / 2 - float(np.sum(problem.gain * point))
    for singular in problem.singular_values(point):
        x, _ = smoothed_eigenvalues(singular, weight)
        value += float(np.sum(smoothed_value(singular, x, weight))) / 2
    return value


def _step_length(
    problem: ScaledProblem, point: Array, direction: Array, decrement: float, weight: float
) -> float:
    """Backtracking; a small decrement of a self-concordant function needs none."""
    if decrement <= 0.5:
        return 1.0
    start = _value(problem, point, weight)
    length = 1.0
    while length >= _SMALLEST_STEP:
        if (
            _value(problem, point + length * direction, weight)
            <= start - 0.1 * length * decrement**2 * weight
        ):
            break
        length /= 2
    return length


def _newton_direction(problem: ScaledProblem, point: Array, weight: float) -> tuple[Array, float]:
    """Newton direction and decrement, assembled in each agent's singular basis where its part is sparse."""
    total, columns = point.shape
    blocks = problem.blocks
    force = problem.gain - problem.root @ (problem.root.T @ point)
    rotation = np.zeros((total, total))
    right_bases = np.empty((blocks.count, columns, columns))
    downhill = np.empty_like(point)
    parts: list[_Smoothed] = []
    for group in blocks.groups:
        left, singular, right = np.linalg.svd(group.take(point), full_matrices=True)
        x, slope = smoothed_eigenvalues(singular, weight)
        rotation[group.rows[:, :, None], group.rows[:, None, :]] = left
        right_bases[group.agents] = right
        local = left.transpose(0, 2, 1) @ group.take(force) @ right.transpose(0, 2, 1)
        kept = np.arange(singular.shape[1])
        local[:, kept, kept] -= singular / x
        group.put(downhill, local)
        parts.append(_Smoothed(group, left, singular, right, x, slope))

    flat_bases = right_bases.reshape(-1, columns)
    overlap = (flat_bases @ flat_bases.T).reshape(blocks.count, columns, blocks.count, columns)
    quartic = overlap[blocks.owner][:, :, blocks.owner]
    quartic *= (rotation.T @ problem.curvature @ rotation)[:, None, :, None]
    hessian = quartic.reshape(point.size, point.size)
    for part in parts:
        size = part.group.size
        own = smoothed_curvature(part.singular, part.eigenvalues, part.slope, weight, (size, columns))
        index = ((part.group.rows * columns)[:, :, None] + np.arange(columns)).reshape(part.group.count, -1)
        hessian[index[:, :, None], index[:, None, :]] += own.reshape(*index.shape, -1)

    scale = 1 / np.sqrt(np.diag(hessian))
    hessian *= scale
    hessian *= scale[:, None]
    factorized = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    right_side = downhill.ravel()
    solution = scale * cho_solve(factorized, scale * right_side, check_finite=False)
    decrement = float(np.sqrt(max(float(right_side @ solution), 0.0) / weight))
    rotated = solution.reshape(point.shape)
    direction = np.empty_like(point)
    for part in parts:
        part.group.put(direction, part.left @ part.group.take(rotated) @ part.right)
    return direction, decrement
