"""Hiding directions of x altogether: privacy without bound at a finite loss.

Without a prior along z, if U z = 0 and no agent shows it, X_i H_i z = 0, then z cannot be estimated at all, nor
can any private parameter it moves; and among all X that hide z, sending everything else is best for utility
(:mod:`veilnet.designs.joint.hidden`). The least loss over z bounds what any privacy can cost.

The loss jumps where an agent sees nothing of z: it then keeps all its readings. So every subspace
{U z = 0, J0 z = 0, H_i z = 0 for the agents i that are spared} is searched on its own. A cheap z that leaves a
private parameter alone is tilted a little towards one that moves it, or a second direction is hidden beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import null_space

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.hidden import hiding, settle
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS
from veilnet.model.standard_form import StandardForm


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Unit directions, (L, k), their loss, and the subspace the first was searched in."""

    directions: Array
    loss: float
    basis: Array


def hiding_directions(form: StandardForm, protect: Booleans, seed: int = 0) -> list[Array]:
    """The cheapest few sets of directions found, (L, k) each, that move every protected parameter, cheapest first.

    Only directions the prior does not know are candidates.
    """
    blind = null_space(np.concatenate([form.public, form.information]), rcond=1e-9)
    if blind.shape[1] == 0 or not np.any(protect):
        return []
    objective = JointObjective(form)
    found = _search(form, objective, blind, seed)
    wanted = [rows for rows, asked in zip(form.private, protect, strict=True) if asked]
    covering = _covering(objective, wanted, found)
    cheapest = sorted(covering, key=lambda each: each.loss)[: SETTINGS.hiding_kept]
    return [each.directions for each in cheapest]


def _search(form: StandardForm, objective: JointObjective, blind: Array, seed: int) -> list[_Candidate]:
    """Single directions, cheapest first: the best of each subspace, optimised where that can pay."""
    rng = np.random.default_rng(seed)
    problem = LeastLoss(np.zeros(len(form.private)))  # the loss alone

    def candidate(basis: Array, coordinates: Array) -> _Candidate:
        direction = basis @ (coordinates / np.linalg.norm(coordinates))
        return _Candidate(direction[:, None], objective(hiding(objective, direction)).loss, basis)

    tried = []
    for basis in _subspaces(form, blind):
        size = basis.shape[1]
        trials = np.concatenate([np.eye(size), rng.standard_normal((SETTINGS.hiding_trials, size))])
        tried += [candidate(basis, trial) for trial in (trials if size > 1 else trials[:1])]
    tried.sort(key=lambda each: each.loss)
    settled = [
        candidate(
            each.basis,
            settle(
                objective,
                problem,
                each.basis,
                each.basis.T @ each.directions[:, 0],
                steps=SETTINGS.hiding_steps,
                tolerance=SETTINGS.hiding_tolerance,
            ),
        )
        for each in [each for each in tried if each.basis.shape[1] > 1][: SETTINGS.hiding_settled]
    ]
    return sorted([*tried, *settled], key=lambda each: each.loss)


def _subspaces(form: StandardForm, blind: Array) -> Iterator[Array]:
    """Orthonormal bases of the subspaces of ``blind`` that some agents see nothing of, the whole of it first."""
    seen: set[bytes] = set()
    waiting = [(blind, 0)]
    given = 0
    while waiting and given < SETTINGS.spared_patterns:
        basis, first = waiting.pop(0)
        key = np.round(basis @ basis.T, 6).tobytes() + b"\0"
        if key not in seen:
            seen.add(key)
            given += 1
            yield basis
        for agent in range(first, form.blocks.count if form.blocks.count <= SETTINGS.spared_patterns else 0):
            rows = form.observe[form.blocks.rows(agent)]
            left = null_space(rows @ basis / max(float(np.linalg.norm(rows)), 1e-300), rcond=1e-9)
            if 0 < left.shape[1] < basis.shape[1]:
                waiting.append((basis @ left, agent + 1))


def _covering(objective: JointObjective, wanted: list[Array], found: list[_Candidate]) -> list[_Candidate]:
    """Candidates that move every wanted parameter: as they are, tilted, or two and three of them together."""
    covering = [each for each in found if _moves_all(wanted, each.directions)]
    if not found or (covering and covering[0] is found[0]):
        return covering[: SETTINGS.hiding_kept]
    leading = found[: 2 * SETTINGS.hiding_settled]
    tilted = [made for each in leading if (made := _tilted(objective, wanted, each)) is not None]
    covering += tilted
    for count in (2, 3)[: len(wanted) - 1]:
        for some in combinations(leading[: SETTINGS.hiding_settled], count):
            together = np.concatenate([each.directions for each in some], axis=1)
            if _moves_all(wanted, together):
                loss = objective(hiding(objective, together)).loss
                covering.append(_Candidate(together, loss, some[0].basis))
    return covering


def _tilted(objective: JointObjective, wanted: list[Array], each: _Candidate) -> _Candidate | None:
    """The direction, tilted within its subspace towards the parameters it leaves alone; None if that fails."""
    direction = each.directions[:, 0]
    for rows in wanted:
        if np.linalg.norm(rows @ direction) > SETTINGS.moved:
            continue
        _, sizes, right = np.linalg.svd(rows @ each.basis, full_matrices=False)
        if sizes[0] * SETTINGS.tilt <= SETTINGS.moved / 10:
            return None
        direction = direction + max(SETTINGS.tilt, 2 * SETTINGS.moved / sizes[0]) * (each.basis @ right[0])
    direction = direction / np.linalg.norm(direction)
    if not _moves_all(wanted, direction[:, None]):
        return None
    return _Candidate(direction[:, None], objective(hiding(objective, direction)).loss, each.basis)


def _moves_all(wanted: list[Array], directions: Array) -> bool:
    return all(np.linalg.norm(rows @ directions) > SETTINGS.moved for rows in wanted)
