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


def hiding(objective: JointObjective, directions: Array) -> list[Array]:
    """Every agent sends everything but what directions of x, (L,) or (L, k), show in its readings."""
    return [
        np.eye(left.shape[1]) - left @ left.transpose(0, 2, 1) for left, _ in _shown(objective, directions)
    ]


def _shown(objective: JointObjective, directions: Array) -> list[tuple[Array, Array]]:
    """Per group, an orthonormal basis of the columns of M_i = H_i V, (count, n, k), and the transpose of M_i^+.

    Exactly zero where what is left is rounding, so that an agent who sees nothing is spared.
    """
    directions = directions.reshape(len(directions), -1)
    found = []
    for observe, own in zip(objective.observe_groups, objective.observe_sizes, strict=True):
        left, sizes, right = np.linalg.svd(observe @ directions, full_matrices=False)
        limits = _UNSEEN * own * np.linalg.norm(directions, 2)
        seen = sizes > np.maximum(limits, _TINY)[:, None]
        inverse = np.where(seen, 1 / np.where(seen, sizes, 1.0), 0.0)
        found.append((left * seen[:, None, :], (left * inverse[:, None, :]) @ right))
    return found


def hidden_exactly(objective: JointObjective, shrink: list[Array], count: int) -> list[Array]:
    """X with the ``count`` directions of x that the centre knows least withheld by every agent altogether.

    Without a prior on them their privacy becomes infinite; what it costs is little where next to nothing was
    known of them. What the public rows see of a direction stays.
    """
    directions = objective.least_known(shrink)[1][:, :count]
    seen = np.linalg.qr(objective.public_columns)[0]
    directions = directions - seen @ (seen.T @ directions)
    points = [rest @ x @ rest for x, rest in zip(shrink, hiding(objective, directions), strict=True)]
    return [(hidden + hidden.transpose(0, 2, 1)) / 2 for hidden in points]


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
    span: Array,
    start: Array,
    fixed: Array | None = None,
    *,
    steps: int = SETTINGS.direction_steps,
    tolerance: float = SETTINGS.direction_tolerance,
) -> Array:
    """C, (d,) or (d, k), that locally minimises the merit of hiding V = fixed + span C, by the quasi-Newton method.
    Its length is 1 where nothing is fixed.

    X = I - M M^+ with M = H V, so that dX is -(X dM M^+) and its transpose.
    """
    base = 0.0 if fixed is None else fixed

    def merit(flat: Array) -> tuple[float, Array]:
        directions = base + span @ flat.reshape(start.shape)
        shown = _shown(objective, directions)
        at = objective([np.eye(left.shape[1]) - left @ left.transpose(0, 2, 1) for left, _ in shown])
        value, by_loss, by_privacy = problem.merit(at)
        slope = np.zeros((len(span), shown[0][0].shape[2]))
        gradients = objective.gradient(at, by_loss, by_privacy)
        for observe, (left, inverse), gradient in zip(
            objective.observe_groups, shown, gradients, strict=True
        ):
            pull = gradient @ inverse
            pull = -2 * (pull - left @ (left.transpose(0, 2, 1) @ pull))
            slope += np.tensordot(np.swapaxes(observe, 1, 2), pull, axes=([0, 2], [0, 1]))
        return value, (span.T @ slope).reshape(-1)

    begin = np.asarray(start, dtype=np.float64).reshape(-1)
    if fixed is None:
        begin = begin / np.linalg.norm(begin)
    found, _, _ = minimize(merit, begin, Curvature(begin.size), steps, tolerance)
    if fixed is None:  # the length of a direction says nothing, and what has none is no direction
        found = found / length if 0 < (length := float(np.linalg.norm(found))) < np.inf else begin
    return min((begin, found), key=lambda flat: merit(flat)[0]).reshape(start.shape)
