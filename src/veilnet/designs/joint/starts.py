"""Where the joint solver begins: points that differ in kind, not only in chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.hidden import directions_worth_hiding, hiding
from veilnet.designs.joint.objective import JointObjective, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS
from veilnet.model.standard_form import StandardForm


def starting_points(
    form: StandardForm, objective: JointObjective, problem: LeastLoss, starts: int, seed: int
) -> Iterator[list[Array]]:
    """As many starts as asked, best bets first.

    - every agent sends only its share of the public estimate: perfect utility;
    - every agent hides one direction z of x: those that cost least, those the private rows see most, any;
    - shares disturbed, and random shrinkages.
    """
    rng = np.random.default_rng(seed)
    if starts > 0:
        yield share_projectors(objective)
    if starts < 2:
        return
    blind = unseen_by(form.public)
    principal = np.linalg.svd(np.vstack(form.private) @ blind, full_matrices=False)[2]
    trials = np.vstack([principal[:3], rng.standard_normal((SETTINGS.direction_trials, blind.shape[1]))])
    worth = directions_worth_hiding(objective, problem, blind, trials[: 2 * (starts - 1)])
    share = -(-(starts - 1) // 4)
    chosen = [*worth[:share], *(blind @ row for row in principal[: min(share, 3)])][: starts - 1]
    for direction in chosen:
        yield hiding(objective, direction)
    for number in range(starts - 1 - len(chosen)):
        if number % 3 == 0:
            yield hiding(objective, blind @ rng.standard_normal(blind.shape[1]))
        elif number % 3 == 1:
            yield random_shrink(objective, rng)
        else:
            yield share_projectors(objective, rng.uniform(0.0, 1.0), rng)


def share_projectors(
    objective: JointObjective, disturbance: float = 0.0, rng: np.random.Generator | None = None
) -> list[Array]:
    """Projectors onto each agent's share of the public estimate, disturbed relative to its size.

    What counts as none is judged by the largest share of all agents: of those of one size, all may have none.
    """
    bases = []
    for share in objective.share_groups:
        rows = share[:, :, : objective.public_rows]
        scale = np.sqrt((rows**2).mean(axis=(1, 2), keepdims=True))
        noisy = rows if rng is None else rows + disturbance * scale * rng.standard_normal(rows.shape)
        left, sizes, _ = np.linalg.svd(noisy, full_matrices=False)
        bases.append((left, sizes))
    least = 1e-10 * max(sizes.max(initial=0.0) for _, sizes in bases)
    kept = [left * (sizes > least)[:, None, :] for left, sizes in bases]
    return [some @ some.transpose(0, 2, 1) for some in kept]


def random_shrink(objective: Objective, rng: np.random.Generator) -> list[Array]:
    """Uniform eigenvalues in random directions."""
    points = []
    for group in objective.groups:
        vectors = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        values = rng.uniform(0.0, 1.0, (group.count, group.size))
        points.append((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    return points


def turned_about(shrink: list[Array]) -> list[list[Array]]:
    """A known X with one agent silent or sending all it has, each in turn, and all others softened a little.

    Exactly 0 or 1, the agent's X rests where the chart hides its derivative: the others settle around it first.
    """
    soft = SETTINGS.warm_margin
    eased = [(1 - 2 * soft) * x + soft * np.eye(x.shape[1]) for x in shrink]
    points = []
    for group, x in enumerate(shrink):
        identity = np.eye(x.shape[1])
        for agent, own in enumerate(x):
            for turned in (0 * identity, identity):
                if np.abs(own - turned).max() > SETTINGS.warm_margin:
                    point = list(eased)
                    point[group] = eased[group].copy()
                    point[group][agent] = turned
                    points.append(point)
    return points


def disturbed(
    objective: JointObjective, shrink: list[Array], number: int, rng: np.random.Generator
) -> tuple[list[Array], float]:
    """A known X disturbed in one of several ways, by its number; and the margin to start it with.

    What tells one basin from another is mostly which direction of x is hidden. So most or some agents hide another of
    the directions that the centre knows little of; or some fall silent; or all are softened.
    """
    turn, kind = divmod(number, SETTINGS.little_known + 2)
    little_known = objective.least_known(shrink)[1][:, 1 : 1 + SETTINGS.little_known]
    if kind < SETTINGS.little_known and little_known.shape[1]:
        part = SETTINGS.hiding_part
        other = hiding(objective, little_known[:, (kind + turn) % little_known.shape[1]])
    elif kind == SETTINGS.little_known:
        part, other = SETTINGS.silent_part, [0 * x for x in shrink]
    else:
        return shrink, float(rng.uniform(0.05, 0.4))
    points = []
    for x, turned in zip(shrink, other, strict=True):
        chosen = rng.uniform(size=(x.shape[0], 1, 1)) < part
        points.append(np.where(chosen, turned, x))
    return points, SETTINGS.kick_margin


def unseen_by(rows: Array) -> Array:
    """Orthonormal columns that the rows do not see; everything when nothing would be left."""
    _, sizes, right = np.linalg.svd(rows)
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    return right[rank:].T if rank < right.shape[0] else np.eye(right.shape[0])
