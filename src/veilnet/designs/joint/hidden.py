"""Directions of x worth hiding, found before the full problem is touched.

At most optima nearly all privacy comes from one direction z of x that the public rows do not see and that no
agent shows: X_i H_i z = 0. Among all X that hide z, sending everything else is best for utility, so

    X_i(z) = I - h_i h_i' / |h_i|²,    h_i = H_i z,

and the search over all X begins with a search over z alone, a handful of numbers.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS

_TINY = np.finfo(float).tiny
_UNSEEN = 1e-11  # below this part of what an agent could see of a direction, it is rounding


def hiding(objective: JointObjective, direction: Array) -> list[Array]:
    """Every agent sends everything but what direction z of x shows in its readings."""
    points = []
    for observe, sizes in zip(objective.observe_groups, objective.observe_sizes, strict=True):
        shown = _unit(_shown(observe, sizes, direction))
        points.append(np.eye(observe.shape[1]) - shown[:, :, None] * shown[:, None, :])
    return points


def hiding_all(objective: JointObjective, directions: Array) -> list[Array]:
    """Every agent sends everything but what any of several directions of x, (L, k), shows in its readings."""
    points = []
    for observe, own in zip(objective.observe_groups, objective.observe_sizes, strict=True):
        left, sizes, _ = np.linalg.svd(observe @ directions, full_matrices=False)
        limits = _UNSEEN * own * np.linalg.norm(directions, 2)
        withheld = left * (sizes > np.maximum(limits, _TINY)[:, None])[:, None, :]
        points.append(np.eye(observe.shape[1]) - withheld @ withheld.transpose(0, 2, 1))
    return points


def _shown(observe: Array, sizes: Array, direction: Array) -> Array:
    """H_i z per agent, |H_i| being ``sizes``.

    Exactly zero where what is left is rounding, so that an agent who sees nothing is spared.
    """
    shown = observe @ direction
    limits = _UNSEEN * sizes * np.linalg.norm(direction)
    return np.asarray(np.where(np.linalg.norm(shown, axis=1) > limits, shown.T, 0.0).T)


def hidden_exactly(objective: JointObjective, shrink: list[Array], count: int) -> list[Array]:
    """X with the ``count`` directions of x that the centre knows least withheld by every agent altogether.

    Without a prior on them their privacy becomes infinite; what it costs is little where next to nothing was
    known of them. What the public rows see of a direction stays.
    """
    directions = objective.least_known(shrink)[1][:, :count]
    seen = np.linalg.qr(objective.public_columns)[0]
    directions = directions - seen @ (seen.T @ directions)
    points = []
    for x, observe in zip(shrink, objective.observe_groups, strict=True):
        left, sizes, _ = np.linalg.svd(observe @ directions, full_matrices=False)
        shown = left * (sizes > 1e-10 * max(float(sizes.max(initial=0.0)), _TINY))[:, None, :]
        rest = np.eye(x.shape[1]) - shown @ shown.transpose(0, 2, 1)
        hidden = rest @ x @ rest
        points.append((hidden + hidden.transpose(0, 2, 1)) / 2)
    return points


def directions_worth_hiding(
    objective: JointObjective, problem: LeastLoss, blind: Array, trials: Array
) -> list[Array]:
    """Directions that minimise the problem's merit, best first, near-duplicates dropped.

    Columns of ``blind`` span what the public rows do not see; rows of ``trials`` are where to begin, in
    that basis: from the better half of them.
    """
    found = []
    merits = [problem.merit(objective(hiding(objective, blind @ trial)))[0] for trial in trials]
    for trial in trials[np.argsort(merits, kind="stable")[: -(-len(trials) // 2)]]:
        settled = settle(objective, problem, blind, trial)
        found.append((problem.merit(objective(hiding(objective, blind @ settled)))[0], settled))
    distinct: list[Array] = []
    for _, candidate in sorted(found, key=lambda pair: pair[0]):
        if all(abs(float(candidate @ other)) < SETTINGS.same_direction for other in distinct):
            distinct.append(candidate)
    return [blind @ candidate for candidate in distinct]


def settle(
    objective: JointObjective,
    problem: LeastLoss,
    blind: Array,
    start: Array,
    *,
    steps: int = SETTINGS.direction_steps,
    tolerance: float = SETTINGS.direction_tolerance,
) -> Array:
    """A local minimum over the unit sphere of z, by the same quasi-Newton method as the full problem."""

    def merit(coordinates: Array) -> tuple[float, Array]:
        length = float(np.linalg.norm(coordinates))
        unit = coordinates / length
        direction = blind @ unit
        at = objective(hiding(objective, direction))
        value, by_loss, by_privacy = problem.merit(at)
        slope = np.zeros(direction.size)
        for observe, sizes, gradient in zip(
            objective.observe_groups,
            objective.observe_sizes,
            objective.gradient(at, by_loss, by_privacy),
            strict=True,
        ):
            raw = _shown(observe, sizes, direction)
            shown = _unit(raw)
            pull = np.einsum("kij,kj->ki", gradient, shown)
            across = np.einsum("ki,ki->k", pull, shown)[:, None] * shown - pull
            size = np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), _TINY)
            slope += np.tensordot(2 * across / size, observe, axes=2)
        inner = blind.T @ slope
        tangent: Array = (inner - float(inner @ unit) * unit) / length
        return value, tangent

    unit = start / np.linalg.norm(start)
    settled, _, _ = minimize(merit, unit, Curvature(unit.size), steps, tolerance)
    return np.asarray(settled / np.linalg.norm(settled), dtype=np.float64)


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, _TINY), dtype=np.float64)
