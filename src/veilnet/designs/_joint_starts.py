"""Where the joint solver begins: points that differ in kind, not only in chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilnet._types import Array
from veilnet.designs._joint_objective import JointObjective
from veilnet.standard import StandardForm


def starting_points(form: StandardForm, objective: JointObjective, seed: int) -> Iterator[list[Array]]:
    """An endless sequence, best bets first.

    - every agent sends only its share of the public estimate (perfect utility), exactly and then disturbed;
    - every agent hides one direction z of x that the public rows do not see and the private rows do;
    - random shrinkages.
    """
    rng = np.random.default_rng(seed)
    yield shares(objective)
    blind = _null_space(form.public)
    seen = np.vstack(form.private) @ blind
    _, _, directions = np.linalg.svd(seen, full_matrices=False)
    while True:
        for direction in directions[:3]:
            yield hiding(objective, blind @ direction)
            yield hiding(objective, blind @ rng.standard_normal(blind.shape[1]))
            yield shares(objective, rng.uniform(0.0, 1.0), rng)
            yield random_shrink(objective, rng)


def shares(
    objective: JointObjective, disturbance: float = 0.0, rng: np.random.Generator | None = None
) -> list[Array]:
    """Projectors onto each agent's share of the public estimate, disturbed relative to its size."""
    points = []
    for share in objective.share_groups:
        rows = share[:, :, : objective.public_rows]
        scale = np.sqrt((rows**2).mean(axis=(1, 2), keepdims=True))
        noisy = rows if rng is None else rows + disturbance * scale * rng.standard_normal(rows.shape)
        left, sizes, _ = np.linalg.svd(noisy, full_matrices=False)
        kept = left * (sizes > 1e-10 * sizes.max(initial=0.0))[:, None, :]
        points.append(kept @ kept.transpose(0, 2, 1))
    return points


def hiding(objective: JointObjective, direction: Array) -> list[Array]:
    """Every agent sends everything but what direction z of x shows in its readings."""
    points = []
    for group, observe in zip(objective.groups, objective.observe_groups, strict=True):
        shown = observe @ direction
        shown = shown / np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), np.finfo(float).tiny)
        points.append(np.eye(group.size) - shown[:, :, None] * shown[:, None, :])
    return points


def random_shrink(objective: JointObjective, rng: np.random.Generator) -> list[Array]:
    """Uniform eigenvalues in random directions."""
    points = []
    for group in objective.groups:
        vectors = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        values = rng.uniform(0.0, 1.0, (group.count, group.size))
        points.append((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    return points


def _null_space(rows: Array) -> Array:
    """Orthonormal columns that the rows do not see; everything when nothing would be left."""
    _, sizes, right = np.linalg.svd(rows)
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    return right[rank:].T if rank < right.shape[0] else np.eye(right.shape[0])
