"""Utility loss and privacy of all agents' shrinkages at once, with gradients (mathematics, section 5).

A sanitization in standard form is one symmetric X_i in [0, I] per agent: 0 is silence, I the raw reading.
With E the correlation between agents' noises (none when independent) and W = (I + E X)^-1 H,

    J̃(X) = J0 + H' X W,     loss = tr(U J̃^-1 U') - 1,     p_j = tr(G_j J̃^-1 G_j') - 1,
    ∇_i tr(A J̃^-1 A') = -(W_i J̃^-1 A')(W_i J̃^-1 A')'.

Losses and privacies are computed from D = I - J̃ = H'(I + E)^-1 (I - X) W (plus what a network restricted to faces
withholds for good) without subtracting two nearly equal traces: tr(A J̃^-1 A') - tr(A A') = tr(A D A') + tr(A
D J̃^-1 D A').
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs

from veilnet._core.blocks import Group
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.model.standard_form import StandardForm

INFORMATION_FLOOR = 1e-13
"""Added to J̃, relative to the raw information I: where J̃ is singular, privacy is huge instead of infinite.
It only ever understates privacy."""
UNKNOWN = 1e-12
_LEAVES_RANGE = 1e-9


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Loss and privacies at one X, and what their gradients are made of.

    ``seen`` of a row is W J̃^-1 A' per group of agents, A = [U; G_1; ...; G_J]: (count, n, rows of A).
    """

    shrink: list[Array]
    loss: float
    privacy: Array
    seen: list[Array]

    @property
    def value(self) -> float:
        """Log loss."""
        return float(np.log(max(self.loss, np.finfo(float).tiny)))


class Objective(Protocol):
    """Loss and privacies as functions of X, one array per group of agents; of one row, or of a stream."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """The agents whose X have one size."""

    @property
    def targets(self) -> int:
        """How many private parameters there are."""

    def __call__(self, shrink: Sequence[Array]) -> Evaluation:
        """Loss and privacies at X."""

    def gradient(self, at: Evaluation, of_loss: float, of_privacy: Array) -> list[Array]:
        """∇_X of ``of_loss * loss + of_privacy @ privacy``, per group."""

    def with_infinities(self, shrink: Sequence[Array], privacy: Array) -> Array:
        """The privacies at X, infinite where nothing bounds them."""


class JointObjective:
    """Loss and privacies of a network in standard form, as functions of X (one array per size group)."""

    def __init__(self, form: StandardForm) -> None:
        self.groups = form.blocks.groups
        self.targets = len(form.private)
        self.evaluations = 0
        self._size, self._length = form.observe.shape
        self._wanted: Array = np.vstack([form.public, *form.private]).T.copy()
        counts = [form.public.shape[0], *(rows.shape[0] for rows in form.private)]
        self.row_owner = np.repeat(np.arange(1 + self.targets), counts)
        self._independent = form.coupling is None
        shares: Array = form.observe @ self._wanted
        self._coupling: list[Array] = []
        if form.coupling is not None:
            shares = np.asarray(np.linalg.solve(form.coupling + np.eye(self._size), shares), dtype=np.float64)
            self._observe = np.asarray(form.observe, order="F")
            self._coupling = [np.ascontiguousarray(group.take(form.coupling)) for group in self.groups]
            self._order = np.concatenate([group.rows.reshape(-1) for group in self.groups])
        self._parts = [list(parts(group.count, group.size, self._length)) for group in self.groups]
        self.observe_groups = [np.ascontiguousarray(group.take(form.observe)) for group in self.groups]
        self.share_groups = [np.ascontiguousarray(group.take(shares)) for group in self.groups]
        self._prior = form.information
        self._floor: Array = INFORMATION_FLOOR * np.eye(self._length)
        self._withheld: Array = np.zeros(self._wanted.shape)
        if form.withheld is not None:
            self._withheld = form.withheld @ self._wanted

    @cached_property
    def observe_sizes(self) -> list[Array]:
        """|H_i| for each agent of each group."""
        return [np.sqrt(np.einsum("kij,kij->k", observe, observe)) for observe in self.observe_groups]

    @property
    def public_rows(self) -> int:
        return int(np.count_nonzero(self.row_owner == 0))

    @property
    def public_columns(self) -> Array:
        """U', one column per public row."""
        return self._wanted[:, self.row_owner == 0]

    def __call__(self, shrink: Sequence[Array]) -> Evaluation:
        """Loss, privacies and the factors of their gradients at X."""
        self.evaluations += 1
        views = self._views(shrink)
        information = self._information(shrink, views) + self._floor
        hidden = self._withheld.copy()
        for x, view, share, runs in zip(shrink, views, self.share_groups, self._parts, strict=True):
            for part in runs:
                withheld = share[part] - x[part] @ share[part]
                hidden += view[part].reshape(-1, self._length).T @ withheld.reshape(-1, withheld.shape[2])
        spread = _solve_positive(information, hidden)
        estimate = self._wanted + spread
        by_row = np.einsum("lr,lr->r", estimate, hidden)
        sums = np.bincount(self.row_owner, weights=by_row, minlength=1 + self.targets)
        loss, privacy = max(float(sums[0]), 0.0), np.maximum(sums[1:], 0.0)
        return Evaluation(list(shrink), loss, privacy, [view @ estimate for view in views])

    def least_known(self, shrink: Sequence[Array]) -> tuple[Array, Array]:
        """Eigenvalues (ascending) and eigenvectors of J̃: what the centre knows least of x comes first."""
        values, vectors = np.linalg.eigh(self._information(shrink, self._views(shrink)))
        return values, vectors

    @property
    def silent(self) -> list[Array]:
        """X = 0: nothing is sent."""
        return [np.zeros((group.count, group.size, group.size)) for group in self.groups]

    def shares(self, disturbance: float = 0.0, rng: np.random.Generator | None = None) -> list[Array]:
        """Projectors onto each agent's share of the public estimate, disturbed relative to its size.

        What counts as none is judged by the largest share of all agents: of those of one size, all may have none.
        """
        bases = []
        for share in self.share_groups:
            rows = share[:, :, : self.public_rows]
            scale = np.sqrt((rows**2).mean(axis=(1, 2), keepdims=True))
            noisy = rows if rng is None else rows + disturbance * scale * rng.standard_normal(rows.shape)
            left, sizes, _ = np.linalg.svd(noisy, full_matrices=False)
            bases.append((left, sizes))
        least = 1e-10 * max(sizes.max(initial=0.0) for _, sizes in bases)
        kept = [left * (sizes > least)[:, None, :] for left, sizes in bases]
        return [some @ some.transpose(0, 2, 1) for some in kept]

    def privacy(self, shrink: Sequence[Array]) -> Array:
        """The privacies at X, infinite where nothing bounds them."""
        return self.with_infinities(shrink, self(shrink).privacy)

    def with_infinities(self, shrink: Sequence[Array], privacy: Array) -> Array:
        """The privacies, infinite where a private row leaves the range of J̃."""
        return infinite_where_unknown(*self.least_known(shrink), self._wanted, self.row_owner, privacy)

    def _information(self, shrink: Sequence[Array], views: list[Array]) -> Array:
        """J̃ = J0 + H' X W."""
        information = self._prior
        for x, observe, view, runs in zip(shrink, self.observe_groups, views, self._parts, strict=True):
            for part in runs:
                sent = (x[part] @ view[part]).reshape(-1, self._length)
                information = information + observe[part].reshape(-1, self._length).T @ sent
        return np.asarray((information + information.T) / 2)

    def _views(self, shrink: Sequence[Array]) -> list[Array]:
        """W = (I + E X)^-1 H, cut into groups."""
        if self._independent:
            return self.observe_groups
        # The transpose of I + E X, row by row of X E: its columns in the order of the groups put W's rows in it too.
        parts = [
            (x @ coupling).reshape(-1, self._size) for x, coupling in zip(shrink, self._coupling, strict=True)
        ]
        system = np.concatenate(parts)
        system[np.arange(self._size), self._order] += 1.0
        _, _, solved, _ = dgesv(system.T, self._observe, overwrite_a=1)
        ends = np.cumsum([len(part) for part in parts])
        return [
            np.ascontiguousarray(solved[end - len(part) : end]).reshape(*x.shape[:2], self._length)
            for part, end, x in zip(parts, ends, shrink, strict=True)
        ]

    def gradient(self, at: Evaluation, of_loss: float, of_privacy: Array) -> list[Array]:
        """∇_X of ``of_loss * loss + of_privacy @ privacy``, per group."""
        prices = np.empty(1 + self.targets)
        prices[0], prices[1:] = of_loss, of_privacy
        weights = -prices[self.row_owner]
        return [(seen * weights) @ seen.transpose(0, 2, 1) for seen in at.seen]


def infinite_where_unknown(
    values: Array, vectors: Array, wanted: Array, owner: Integers, privacy: Array
) -> Array:
    """The privacies, infinite where a private row leaves the range of J̃.

    values, vectors: the eigenvalues and eigenvectors of J̃.
    wanted, owner:   [U; G_1; ...; G_J]', (L, r), and whose each column is: 0 public, j of G_j.
    """
    unknown = (vectors[:, values < UNKNOWN].T @ wanted) ** 2
    lost = np.bincount(owner, weights=unknown.sum(axis=0), minlength=1 + privacy.size)[1:]
    return np.where(lost > _LEAVES_RANGE, np.inf, privacy)


def _solve_positive(matrix: Array, right: Array) -> Array:
    """Solve with a symmetric matrix that is positive definite but perhaps for rounding."""
    factor, failed = dpotrf(matrix, lower=1)
    if not failed:
        solved: Array = dpotrs(factor, right, lower=1)[0]
        return solved
    values, vectors = np.linalg.eigh(matrix)
    floored: Array = vectors @ ((vectors.T @ right) / np.maximum(values, INFORMATION_FLOOR)[:, None])
    return floored
