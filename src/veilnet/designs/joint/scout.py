"""Many starts at once: a whole batch of shrinkages, each with targets of its own, advanced side by side.

On a small network one step of one start is nearly all overhead, so that a hundred starts cost little more than a few
when every array has one more axis. The scout takes them near their local optima; whoever called it then looks
closely at the few that lead. The mathematics is that of :mod:`veilnet.designs.joint.objective` (J̃ and its gradient),
:mod:`veilnet.designs.joint.chart` (X = sin²(Y)) and the problem of least loss of
:mod:`veilnet.designs.joint.problem`; B below is the number of starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.designs.joint.chart import divided_differences
from veilnet.designs.joint.objective import INFORMATION_FLOOR
from veilnet.designs.joint.problem import balance
from veilnet.designs.joint.settings import SETTINGS
from veilnet.model.standard_form import StandardForm

_SUFFICIENT_DECREASE = 1e-4
_STEP_LENGTHS = (np.ones(1), 4.0 ** -np.arange(1.0, 4.0), 4.0 ** -np.arange(4.0, 8.0))
_LONGEST_STEP = 1.0
_TINY = np.finfo(float).tiny
_STEEPEST = 1e100

Batch = list[Array]
"""X per size group: (B, count, n, n)."""


class BatchObjective:
    """Loss and privacies of B shrinkages at once, with gradients."""

    def __init__(self, form: StandardForm) -> None:
        self.groups = form.blocks.groups
        self.shapes = [(group.count, group.size, group.size) for group in self.groups]
        self.edges = np.cumsum([0, *(count * size * size for count, size, _ in self.shapes)])
        self._observe = form.observe
        self._parts = [np.ascontiguousarray(group.take(form.observe)) for group in self.groups]
        self._coupling = form.coupling
        self._wanted: Array = np.vstack([form.public, *form.private]).T.copy()
        self.private = len(form.private)
        counts = [form.public.shape[0], *(rows.shape[0] for rows in form.private)]
        self._owner = np.repeat(np.arange(1 + self.private), counts)
        self._sums = np.eye(1 + self.private)[self._owner]
        self._prior = form.information + INFORMATION_FLOOR * np.eye(form.information.shape[0])

    def __call__(self, shrink: Batch) -> tuple[Array, Array, Batch]:
        """Losses (B,), privacies (B, J), and W J̃^-1 A' per group, (B, count, n, rows of A)."""
        size, length = self._observe.shape
        batch = shrink[0].shape[0]
        if self._coupling is None:
            information = np.broadcast_to(self._prior, (batch, length, length))
            for x, part in zip(shrink, self._parts, strict=True):
                sent = (x @ part).reshape(batch, -1, length)
                information = information + part.reshape(-1, length).T @ sent
            views: Batch = list(self._parts)
        else:
            dense = np.zeros((batch, size, size))
            for x, group in zip(shrink, self.groups, strict=True):
                for place, rows in enumerate(group.rows):
                    dense[:, rows[:, None], rows[None, :]] = x[:, place]
            view = np.linalg.solve(np.eye(size) + self._coupling @ dense, self._observe)
            information = self._prior + self._observe.T @ (dense @ view)
            views = [np.asarray(view[:, group.rows], dtype=np.float64) for group in self.groups]
        information = (information + np.swapaxes(information, 1, 2)) / 2
        estimate = _solved(information, self._wanted)
        by_row = np.einsum("lr,blr->br", self._wanted, estimate)
        sums = by_row @ self._sums - 1.0
        seen = [view @ estimate[:, None] for view in views]
        return np.maximum(sums[:, 0], 0.0), np.maximum(sums[:, 1:], 0.0), seen

    def gradient(self, seen: Batch, of_loss: Array, of_privacy: Array) -> Batch:
        """∇_X of of_loss·loss + of_privacy·privacy, per start and group."""
        weights = -np.concatenate([of_loss[:, None], of_privacy], axis=1)[:, self._owner]
        return [(each * weights[:, None, None, :]) @ np.swapaxes(each, 2, 3) for each in seen]

    def shrink(self, flat: Array) -> tuple[Batch, list[tuple[Array, Array]]]:
        """X = sin²(Y) for Y given flat, (B, n), with the frames `pull_back` needs."""
        shrinks, frames = [], []
        for start, end, shape in zip(self.edges[:-1], self.edges[1:], self.shapes, strict=True):
            angles, vectors = _frames(flat[:, start:end].reshape(-1, *shape))
            half = vectors * np.sin(angles)[..., None, :]
            shrinks.append(half @ np.swapaxes(half, 2, 3))
            frames.append((angles, vectors))
        return shrinks, frames

    def pull_back(self, frames: list[tuple[Array, Array]], gradients: Batch) -> Array:
        """Gradient by Y, flat, from the gradient by X."""
        parts = []
        for (angles, vectors), gradient in zip(frames, gradients, strict=True):
            inverse = np.swapaxes(vectors, 2, 3)
            inner = divided_differences(angles)
            inner *= inverse @ gradient @ vectors
            pulled = vectors @ inner @ inverse
            parts.append(pulled.reshape(len(pulled), -1))
        return np.concatenate(parts, axis=1)

    def flat(self, shrinks: Batch, margin: Array) -> Array:
        """Y of given X, eigenvalues first drawn into [margin, 1 - margin], one margin per start."""
        parts = []
        bound = margin[:, None, None]
        for shrink in shrinks:
            values, vectors = _frames(shrink)
            angles = np.arcsin(np.sqrt(np.clip(values, bound, 1 - bound)))
            flat = (vectors * angles[..., None, :]) @ np.swapaxes(vectors, 2, 3)
            parts.append(flat.reshape(len(flat), -1))
        return np.concatenate(parts, axis=1)


def _frames(symmetric: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a stack; one or two readings, the common case, without LAPACK's overhead."""
    size = symmetric.shape[-1]
    if size == 1:
        return symmetric[..., 0], np.ones(symmetric.shape)
    if size > 2:
        values, vectors = np.linalg.eigh(symmetric)
        return values, vectors
    first, second = symmetric[..., 0, 0], symmetric[..., 1, 1]
    middle, half = (first + second) / 2, (first - second) / 2
    across = (symmetric[..., 0, 1] + symmetric[..., 1, 0]) / 2
    radius = np.hypot(half, across)
    angle = np.arctan2(across, half) / 2
    cos, sin = np.cos(angle), np.sin(angle)
    vectors = np.stack([np.stack([-sin, cos], -1), np.stack([cos, sin], -1)], -1)
    return np.stack([middle - radius, middle + radius], -1), vectors


def _solved(information: Array, right: Array) -> Array:
    try:
        return np.asarray(
            np.linalg.solve(information, np.broadcast_to(right, (len(information), *right.shape)))
        )
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(information)
        inner = np.swapaxes(vectors, 1, 2) @ right
        return np.asarray(vectors @ (inner / np.maximum(values, INFORMATION_FLOOR)[..., None]))


class BatchLeastLoss:
    """Least loss with p_j >= target_j for B starts, each with its own targets (B, J), room and multipliers."""

    def __init__(self, targets: Array, room: Array, losses: Array) -> None:
        self.targets = targets
        self._asked = targets > 0
        self._room = room
        self._log_targets = np.log(np.where(self._asked, targets, 1.0))
        self._multipliers = self._asked / np.maximum(np.count_nonzero(self._asked, axis=1), 1)[:, None]
        self._penalty = np.full(len(targets), SETTINGS.first_penalty)
        self._reference = np.maximum(losses, _TINY)
        self._previous = np.full(len(targets), np.inf)

    def shortfall(self, privacy: Array, chosen: Integers | None = None) -> Array:
        """log(target_j / p_j) in units of the room, minus infinity where nothing is asked."""
        pick: Integers | slice = slice(None) if chosen is None else chosen
        missing = self._log_targets[pick] - np.log(np.maximum(privacy, _TINY))
        return np.where(self._asked[pick], missing / self._room[pick], -np.inf)

    def merit(
        self, loss: Array, privacy: Array, chosen: Integers | None = None
    ) -> tuple[Array, Array, Array]:
        """The augmented Lagrangian of each start (or of those chosen), and its derivatives by loss and privacies."""
        pick: Integers | slice = slice(None) if chosen is None else chosen
        penalty, reference = self._penalty[pick, None], self._reference[pick]
        multipliers, room = self._multipliers[pick], self._room[pick]
        pressed = np.maximum(multipliers + penalty * self.shortfall(privacy, chosen), 0.0)
        value = 2 * np.log((loss + reference) / (2 * reference))
        value = value + np.sum((pressed**2 - multipliers**2) / (2 * penalty), axis=1)
        return value, 2 / (loss + reference), -pressed / (np.maximum(privacy, _TINY) * room)

    def aim(self, targets: Array) -> None:
        """Other targets, for the same starts."""
        self._log_targets = np.log(np.where(self._asked, targets, 1.0))

    def fit(self, loss: Array, privacy: Array, loss_slopes: Array, privacy_slopes: Array) -> None:
        """Where a start is nearly feasible, multipliers that balance the gradients of log loss, (B, n), and log p_j.

        ``privacy_slopes`` is (B, J, n).
        """
        shortfall = self.shortfall(privacy)
        active = self._asked & (np.abs(shortfall) < SETTINGS.nearly_feasible)
        near = np.any(active, axis=1) & np.all(shortfall < SETTINGS.nearly_feasible, axis=1)
        self._reference = np.where(near, np.maximum(loss, _TINY), self._reference)
        for place in np.flatnonzero(near):
            chosen = active[place]
            rows = privacy_slopes[place, chosen] / self._room[place, chosen, None]
            wanted = loss_slopes[place]
            if np.all(np.isfinite(rows)) and np.all(np.isfinite(wanted)):
                self._multipliers[place] = 0.0
                self._multipliers[place, chosen] = balance(rows, wanted)

    def update(self, loss: Array, privacy: Array) -> None:
        """New multipliers, references and penalties after some steps."""
        shortfall = self.shortfall(privacy)
        self._multipliers = np.maximum(self._multipliers + self._penalty[:, None] * shortfall, 0.0)
        infeasible = np.max(
            np.where(self._multipliers > 0, np.abs(shortfall), np.maximum(shortfall, 0.0)), axis=1
        )
        near = infeasible < SETTINGS.nearly_feasible
        self._reference = np.where(near, np.maximum(loss, 0.1 * self._reference), self._reference)
        slow = (infeasible > 0.25 * self._previous) & (infeasible > 1e-4)
        self._penalty = np.where(
            slow,
            np.minimum(self._penalty * SETTINGS.penalty_growth, SETTINGS.scout_penalty_limit),
            self._penalty,
        )
        self._previous = infeasible

    def lagrangian(self, loss: Array, privacy: Array) -> tuple[Array, Array]:
        return 1 / np.maximum(loss, _TINY), -self._multipliers / (np.maximum(privacy, _TINY) * self._room)

    def estimate(self, loss: Array, privacy: Array) -> Array:
        """log loss, corrected to first order for what is missing."""
        shortfall = np.where(self._multipliers > 0, self.shortfall(privacy), 0.0)
        return np.asarray(np.log(np.maximum(loss, _TINY)) + np.sum(self._multipliers * shortfall, axis=1))


@dataclass(frozen=True, eq=False)
class Scouted:
    """Where a batch of starts came to: X per group, loss, privacies, and log loss as estimated at the targets."""

    shrink: Batch
    loss: Array
    privacy: Array
    estimate: Array

    def one(self, place: int) -> list[Array]:
        """X of one start."""
        return [x[place] for x in self.shrink]

    def part(self, some: slice) -> Scouted:
        """Some of the starts."""
        return Scouted(
            [x[some] for x in self.shrink], self.loss[some], self.privacy[some], self.estimate[some]
        )

    def and_(self, more: Scouted) -> Scouted:
        """These starts and more of them."""
        return Scouted(
            [np.concatenate(pair) for pair in zip(self.shrink, more.shrink, strict=True)],
            np.concatenate([self.loss, more.loss]),
            np.concatenate([self.privacy, more.privacy]),
            np.concatenate([self.estimate, more.estimate]),
        )


def scout(
    objective: BatchObjective,
    starts: Batch,
    targets: Array,
    room: Array,
    reference: Array,
    margin: Array,
    schedule: Sequence[tuple[int, float]],
    *,
    follow: bool = False,
) -> Scouted:
    """Advance every start; ``schedule`` says how many steps before each update, and how far to jump after it.

    ``reference`` is a loss known to be enough for each start's targets; ``margin`` how far its eigenvalues are
    first drawn away from 0 and 1. With ``follow`` the starts are plans for other targets: each is led from the
    privacy it has to the targets by steps, so that it stays on its branch of the curve.
    """
    # Beside a singular J̃ numbers overflow; such starts are told by values that are not finite, and stay behind.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return _scout(objective, starts, targets, room, reference, margin, schedule, follow=follow)


def _scout(
    objective: BatchObjective,
    starts: Batch,
    targets: Array,
    room: Array,
    reference: Array,
    margin: Array,
    schedule: Sequence[tuple[int, float]],
    *,
    follow: bool,
) -> Scouted:
    problem = BatchLeastLoss(targets, room, reference)
    point = objective.flat(starts, margin)
    own = targets
    if follow:
        shrink, frames = objective.shrink(point)
        loss, privacy, seen = objective(shrink)
        own = np.clip(privacy, targets / SETTINGS.farthest, targets * SETTINGS.farthest)
        problem.aim(own)
        _fit(objective, problem, frames, loss, privacy, seen)
    for number, (steps, jump) in enumerate(schedule):
        if follow:
            part = min((number + 1) / max(len(schedule) - 1, 1), 1.0)
            problem.aim(np.where(targets > 0, own ** (1 - part) * targets**part, 0.0))
        point = _descend(objective, problem, point, steps)
        shrink, frames = objective.shrink(point)
        loss, privacy, seen = objective(shrink)
        problem.update(loss, privacy)
        _fit(objective, problem, frames, loss, privacy, seen)
        if jump:
            point = _jumped(objective, problem, shrink, loss, privacy, seen, jump)
    shrink, _ = objective.shrink(point)
    loss, privacy, _ = objective(shrink)
    return Scouted(shrink, loss, privacy, problem.estimate(loss, privacy))


def _fit(
    objective: BatchObjective,
    problem: BatchLeastLoss,
    frames: list[tuple[Array, Array]],
    loss: Array,
    privacy: Array,
    seen: Batch,
) -> None:
    none, zeros = np.zeros(privacy.shape), np.zeros(loss.shape)

    def by_chart(of_loss: Array, of_privacy: Array) -> Array:
        return objective.pull_back(frames, objective.gradient(seen, of_loss, of_privacy))

    slopes = []
    for place in range(privacy.shape[1]):
        unit = none.copy()
        unit[:, place] = 1 / np.maximum(privacy[:, place], _TINY)
        slopes.append(by_chart(zeros, unit))
    problem.fit(loss, privacy, by_chart(1 / np.maximum(loss, _TINY), none), np.stack(slopes, axis=1))


def _jumped(
    objective: BatchObjective,
    problem: BatchLeastLoss,
    shrink: Batch,
    loss: Array,
    privacy: Array,
    seen: Batch,
    jump: float,
) -> Array:
    """X mixed with the projectors that minimise the linear model of each Lagrangian, as Y."""
    mixed = []
    for x, slope in zip(shrink, objective.gradient(seen, *problem.lagrangian(loss, privacy)), strict=True):
        slope = np.where(np.isfinite(slope), slope, 0.0)
        values, vectors = _frames(slope)
        scale = np.maximum(np.abs(values).max(axis=(1, 2), keepdims=True), _TINY)
        kept = vectors * (values < -1e-12 * scale)[..., None, :]
        mixed.append((1 - jump) * x + jump * kept @ np.swapaxes(kept, 2, 3))
    return objective.flat(mixed, np.zeros(len(loss)))


def _descend(objective: BatchObjective, problem: BatchLeastLoss, point: Array, steps: int) -> Array:
    """So many steps of limited-memory BFGS for all starts, each with its own step length."""
    value, gradient = _merit(objective, problem, point, None)
    history: list[tuple[Array, Array, Array]] = []
    for _ in range(steps):
        direction = _direction(history, gradient)
        slope = np.einsum("bn,bn->b", direction, gradient)
        uphill = ~(slope < 0)
        direction = np.where(uphill[:, None], -gradient, direction)
        slope = np.where(uphill, -np.einsum("bn,bn->b", gradient, gradient), slope)
        # The first step, whose scale is not known yet, and any that would leave the chart's period are cut short.
        longest = np.maximum(np.linalg.norm(direction, axis=1) / _LONGEST_STEP, 1.0)
        direction, slope = direction / longest[:, None], slope / longest
        moved, new_value, new_gradient = point.copy(), value.copy(), gradient.copy()
        open_ = np.flatnonzero(slope < 0)
        for lengths in _STEP_LENGTHS:
            if open_.size == 0:
                break
            # Several lengths at once: a call costs more than what it works on.
            tried, step = np.repeat(open_, len(lengths)), np.tile(lengths, open_.size)
            trial = point[tried] + step[:, None] * direction[tried]
            trial_value, trial_gradient = _merit(objective, problem, trial, tried)
            good = trial_value <= value[tried] + _SUFFICIENT_DECREASE * step * slope[tried]
            by_start = good.reshape(open_.size, len(lengths))
            found = np.any(by_start, axis=1)
            longest_good = np.flatnonzero(found) * len(lengths) + np.argmax(by_start[found], axis=1)
            kept = open_[found]
            moved[kept], new_value[kept], new_gradient[kept] = (
                trial[longest_good],
                trial_value[longest_good],
                trial_gradient[longest_good],
            )
            open_ = open_[~found]
        _learn(history, moved - point, new_gradient - gradient)
        point, value, gradient = moved, new_value, new_gradient
    return point


def _merit(
    objective: BatchObjective, problem: BatchLeastLoss, flat: Array, chosen: Integers | None
) -> tuple[Array, Array]:
    """The augmented Lagrangians of the chosen starts and their gradients by Y; infinite where they cannot be used."""
    shrink, frames = objective.shrink(flat)
    loss, privacy, seen = objective(shrink)
    value, by_loss, by_privacy = problem.merit(loss, privacy, chosen)
    gradient = objective.pull_back(frames, objective.gradient(seen, by_loss, by_privacy))
    bad = ~np.isfinite(value) | ~(np.max(np.abs(gradient), axis=1) < _STEEPEST)
    return np.where(bad, np.inf, value), np.where(bad[:, None], 0.0, gradient)


def _learn(history: list[tuple[Array, Array, Array]], step: Array, change: Array) -> None:
    product = np.einsum("bn,bn->b", step, change)
    useful = (product > 1e-200) & (
        product > 1e-10 * np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
    )
    inverse = np.where(useful, 1 / np.where(useful, product, 1.0), 0.0)
    history.append((step, change, inverse))
    if len(history) > SETTINGS.scout_memory:
        history.pop(0)


def _direction(history: list[tuple[Array, Array, Array]], gradient: Array) -> Array:
    """Minus the inverse Hessian estimate times the gradient (two-loop recursion); pairs of weight 0 drop out."""
    rest = gradient.copy()
    weights = []
    for step, change, inverse in reversed(history):
        weight = inverse * np.einsum("bn,bn->b", step, rest)
        rest -= weight[:, None] * change
        weights.append(weight)
    scale = np.ones(len(gradient))
    known: Booleans = np.zeros(len(gradient), bool)
    for _, change, inverse in reversed(history):
        fresh = (inverse > 0) & ~known
        size = np.einsum("bn,bn->b", change, change)
        scale = np.where(fresh, 1 / np.maximum(inverse * size, _TINY), scale)
        known |= fresh
    rest *= scale[:, None]
    for (step, change, inverse), weight in zip(history, reversed(weights), strict=True):
        back = inverse * np.einsum("bn,bn->b", change, rest)
        rest += (weight - back)[:, None] * step
    return -rest
