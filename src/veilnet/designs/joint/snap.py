"""From a nearly optimal X to the one that is handed out: exact zeros and ones, exact feasibility.

Eigenvalues near 0 and 1 are set to 0 and 1 (a direction withheld, a direction sent without noise). What that
costs in feasibility is repaired by Newton steps inside the face that is left: eigenvectors turn, fractional
eigenvalues move. At a KKT point every direction in the face buys privacy at the same price, so the least-norm
step is as good as any. If the face has no room, X is shrunk as a whole, which raises every privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.objective import Evaluation, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS

_LONGEST_STEP = 0.5


@dataclass(frozen=True, eq=False)
class Finished:
    """A feasible X, its evaluation and the problem's objective there."""

    shrink: list[Array]
    at: Evaluation
    value: float


@dataclass(frozen=True, eq=False)
class _Face:
    """X by eigenvectors and eigenvalues; eigenvalues that are exactly 0 or 1 stay."""

    vectors: list[Array]
    values: list[Array]

    def shrink(self) -> list[Array]:
        made = []
        for vectors, values in zip(self.vectors, self.values, strict=True):
            x = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
            made.append((x + x.transpose(0, 2, 1)) / 2)
        return made

    def tangent(self, gradients: list[Array]) -> tuple[list[Array], list[Array]]:
        """Gradient by rotations (skew) and by fractional eigenvalues, from the gradient by X."""
        turns, moves = [], []
        for vectors, values, gradient in zip(self.vectors, self.values, gradients, strict=True):
            inner = vectors.transpose(0, 2, 1) @ gradient @ vectors
            turns.append(inner * (values[:, None, :] - values[:, :, None]))
            free = (values > 0) & (values < 1)
            moves.append(np.where(free, np.einsum("kii->ki", inner), 0.0))
        return turns, moves

    def moved(self, turns: list[Array], moves: list[Array]) -> _Face:
        """The face after rotating by the Cayley transform of ``turns`` and shifting eigenvalues."""
        vectors, values = [], []
        for v, d, turn, move in zip(self.vectors, self.values, turns, moves, strict=True):
            identity = np.eye(v.shape[1])
            vectors.append(v @ np.linalg.solve(identity - turn / 2, identity + turn / 2))
            values.append(np.clip(d + move, 0.0, 1.0))
        return _Face(vectors, values)


def simplest_near(objective: Objective, problem: LeastLoss, shrink: list[Array]) -> Finished:
    """The simplest feasible X near ``shrink``: as many exact zeros and ones as cost next to nothing."""
    decomposed = [np.linalg.eigh(x) for x in shrink]
    best: Finished | None = None
    tried: list[Finished] = []
    counts: set[tuple[int, ...]] = set()
    for threshold in SETTINGS.snap_thresholds:
        values = [_snapped(d, threshold) for d, _ in decomposed]
        pattern = tuple(int(((d > 0) & (d < 1)).sum()) for d in values)
        if pattern in counts:
            continue
        counts.add(pattern)
        repaired = _repair(objective, problem, _Face([v for _, v in decomposed], values))
        if repaired is not None:
            tried.append(repaired)
            if best is None or repaired.value < best.value:
                best = repaired
    if best is None:
        return retreat(objective, problem, shrink)
    return next(candidate for candidate in tried if candidate.value <= best.value + SETTINGS.snap_price)


def retreat(objective: Objective, problem: LeastLoss, shrink: list[Array]) -> Finished:
    """The feasible point reached by giving way as a whole: crude, but it always exists."""
    reached = problem.retreat(objective, [_clipped(x) for x in shrink])
    at = objective(reached)
    return Finished(reached, at, problem.value(at))


def _snapped(values: Array, threshold: float) -> Array:
    return np.where(values <= threshold, 0.0, np.where(values >= 1 - threshold, 1.0, values))


def _clipped(x: Array) -> Array:
    values, vectors = np.linalg.eigh(x)
    clipped: Array = (vectors * np.clip(values, 0, 1)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return clipped


def _repair(objective: Objective, problem: LeastLoss, face: _Face) -> Finished | None:
    """Newton steps inside the face until every constraint holds with a whisker to spare."""
    for _ in range(SETTINGS.snap_steps):
        shrink = face.shrink()
        at = objective(shrink)
        if not np.isfinite(at.loss):
            return None
        wanting, weights = problem.wanting(at)
        if wanting.size == 0 and problem.safe(at):
            return Finished(shrink, at, problem.value(at))
        tangents = [face.tangent(objective.gradient(at, float(weight[0]), weight[1:])) for weight in weights]
        flat = np.array(
            [np.concatenate([part.reshape(-1) for part in turns + moves]) for turns, moves in tangents]
        )
        gram = flat @ flat.T
        if not np.all(np.isfinite(gram)) or not np.any(np.diag(gram) > 0):
            return None
        pull = np.linalg.lstsq(gram, wanting, rcond=1e-12)[0]
        length = float(np.abs(pull @ flat).max())
        pull *= min(1.0, _LONGEST_STEP / max(length, np.finfo(float).tiny))
        face = face.moved(
            [
                sum(a * turns[g] for a, (turns, _) in zip(pull, tangents, strict=True))
                for g in range(len(shrink))
            ],
            [
                sum(a * moves[g] for a, (_, moves) in zip(pull, tangents, strict=True))
                for g in range(len(shrink))
            ],
        )
    shrink = face.shrink()
    at = objective(shrink)
    return Finished(shrink, at, problem.value(at)) if problem.safe(at) else None
