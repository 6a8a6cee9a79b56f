"""Directions of x that all agents hide altogether: where searches begin, and what is without bound or at its limit.

At most optima nearly all privacy comes from one direction z of x that the public rows do not see and that no
agent shows: X_i H_i z = 0. Among all X that hide z, sending everything else is best for utility, so

    X_i(z) = I - h_i h_i' / |h_i|²,    h_i = H_i z,

and the search over all X begins with a search over z alone, a handful of numbers.

*Without bound.* Without a prior along z, if U z = 0 and no agent shows it, then z cannot be estimated at all, nor can
any private parameter it moves: the least loss over z bounds what any privacy can cost. The loss jumps where an agent
sees nothing of z: it then keeps all its readings. So every subspace {U z = 0, J0 z = 0, H_i z = 0 for the agents i
that are spared} is searched on its own. A cheap z that leaves a private parameter alone is tilted a little towards
one that moves it, or a second direction is hidden beside it.

*At the limit ε^max.* p_j is at its limit when no message moves the prior's estimate of g_j. It is enough that for
every row a of G_j some v with J0 v = a has X_i H_i v = 0 at every agent; then J̃ v = a, and a'J̃^+ a = a'J0^+ a. For
J0 ≻ 0 only v = J0^-1 a will do. A singular J0 leaves a choice, v = J0^+ a + n with n in Null(J0), and the loss
depends much on n: it is optimised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.linalg import null_space, pinvh

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.joint.objective import UNKNOWN, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS
from veilnet.model.standard_form import StandardForm

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

    def merit(trial: Array) -> float:
        return problem.merit(objective(hiding(objective, blind @ trial)))[0]

    better = sorted(trials, key=merit)[: -(-len(trials) // 2)]
    distinct: list[Array] = []
    for candidate in sorted(
        (settle(objective, blind, trial, problem=problem) for trial in better), key=merit
    ):
        if all(abs(float(candidate @ other)) < SETTINGS.same_direction for other in distinct):
            distinct.append(candidate)
    return [blind @ candidate for candidate in distinct]


def settle(
    objective: JointObjective,
    span: Array,
    start: Array,
    *,
    fixed: Array | None = None,
    problem: LeastLoss | None = None,
) -> Array:
    """C, (d,) or (d, k), that locally minimises the merit of hiding V = fixed + span C, by the quasi-Newton method.
    Its length is 1 where nothing is fixed. Without a problem the loss alone is minimised, and closely.

    X = I - M M^+ with M = H V, so that dX is -(X dM M^+) and its transpose.
    """
    base = 0.0 if fixed is None else fixed
    how = (SETTINGS.direction_steps, SETTINGS.direction_tolerance)
    if problem is None:
        problem = LeastLoss(np.zeros(objective.targets))
        how = (SETTINGS.hiding_steps, SETTINGS.hiding_tolerance)

    def merit(flat: Array) -> tuple[float, Array]:
        directions = base + span @ flat.reshape(start.shape)
        shown = _shown(objective, directions)
        at = objective([np.eye(left.shape[1]) - left @ left.transpose(0, 2, 1) for left, _ in shown])
        value, by_loss, by_privacy = problem.merit(at)
        slope = np.zeros((len(span), shown[0][1].shape[2]))
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
    found, _, _ = minimize(merit, begin, Curvature(begin.size), *how)
    if fixed is None:  # the length of a direction says nothing, and what has none is no direction
        found = found / length if 0 < (length := float(np.linalg.norm(found))) < np.inf else begin
    return min((begin, found), key=lambda flat: merit(flat)[0]).reshape(start.shape)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Unit directions, (L, k), their loss, and the subspace the first was searched in."""

    directions: Array
    loss: float
    basis: Array

    @classmethod
    def of(cls, objective: JointObjective, directions: Array, basis: Array) -> _Candidate:
        return cls(directions, objective(hiding(objective, directions)).loss, basis)


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

    def candidate(basis: Array, coordinates: Array) -> _Candidate:
        direction = basis @ (coordinates / np.linalg.norm(coordinates))
        return _Candidate.of(objective, direction[:, None], basis)

    tried = []
    for basis in _subspaces(form, blind):
        size = basis.shape[1]
        trials = np.concatenate([np.eye(size), rng.standard_normal((SETTINGS.hiding_trials, size))])
        tried += [candidate(basis, trial) for trial in (trials if size > 1 else trials[:1])]
    tried.sort(key=lambda each: each.loss)
    settled = [
        candidate(each.basis, settle(objective, each.basis, each.basis.T @ each.directions[:, 0]))
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
                covering.append(_Candidate.of(objective, together, some[0].basis))
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
    return _Candidate.of(objective, direction[:, None], each.basis)


def _moves_all(wanted: list[Array], directions: Array) -> bool:
    return all(np.linalg.norm(rows @ directions) > SETTINGS.moved for rows in wanted)


_MOVES = 1e-6  # less than this part of its deviation, a direction does not move a parameter


def telling_nothing(form: StandardForm, about: Booleans, seed: int = 0) -> list[list[Array]]:
    """X that tell nothing about the private parameters chosen, and everything else; cheapest first."""
    private = np.concatenate([rows for rows, chosen in zip(form.private, about, strict=True) if chosen])
    known = pinvh(form.information, rtol=1e-11) @ private.T
    free = null_space(form.information, rcond=1e-11)
    objective = JointObjective(form)
    if free.shape[1] == 0:
        return [hiding(objective, known / np.linalg.norm(known, axis=0))]
    starts = _beginnings(form, objective, known, free, seed)
    best = (known + free @ settle(objective, free, start, fixed=known) for start in starts)
    return sorted((hiding(objective, each) for each in best), key=lambda shrink: objective(shrink).loss)


def _beginnings(
    form: StandardForm, objective: JointObjective, known: Array, free: Array, seed: int
) -> list[Array]:
    """Coefficients of n in Null(J0), (d, rows): none, those some or all agents see least, a few at random."""

    def least_seen(rows: Array) -> Array:
        return np.asarray(np.linalg.lstsq(rows @ free, -rows @ known, rcond=1e-10)[0])

    rng = np.random.default_rng([seed, 2])
    starts = [np.zeros((free.shape[1], known.shape[1])), least_seen(form.observe), least_seen(form.public)]
    agents = [form.observe[form.blocks.rows(place)] for place in range(min(form.blocks.count, 16))]
    starts += [least_seen(rows) for rows in agents]
    starts += [least_seen(np.concatenate([form.public, rows])) for rows in agents]
    starts += [
        least_seen(np.concatenate([one, other]))
        for place, one in enumerate(agents[:6])
        for other in agents[:place]
    ]
    scale = np.linalg.norm(known, axis=0)
    starts += [
        starts[1] + scale * rng.standard_normal(starts[0].shape) for _ in range(SETTINGS.hiding_trials)
    ]
    losses = [objective(hiding(objective, known + free @ start)).loss for start in starts]
    return [starts[place] for place in np.argsort(losses)[: SETTINGS.hiding_settled]]


def both(one: list[Array], other: list[Array]) -> list[Array]:
    """Projectors onto what both projectors leave."""
    made = []
    for first, second in zip(one, other, strict=True):
        size = first.shape[1]
        hidden = 2 * np.eye(size) - first - second
        values, vectors = np.linalg.eigh((hidden + hidden.transpose(0, 2, 1)) / 2)
        kept = vectors * (values < 1e-9)[:, None, :]
        made.append(kept @ kept.transpose(0, 2, 1))
    return made


def hiding_what_shares_hide(objective: JointObjective, form: StandardForm, about: Booleans) -> list[Array]:
    """Everything but what shows directions of x that shares hide altogether and that move the parameters chosen."""
    values, vectors = objective.least_known(objective.shares())
    unknown = vectors[:, values < UNKNOWN]
    private = np.concatenate([rows for rows, chosen in zip(form.private, about, strict=True) if chosen])
    _, sizes, moved = np.linalg.svd(private @ unknown, full_matrices=False)
    return hiding(objective, unknown @ moved[sizes > _MOVES].T)


def restricted_to(form: StandardForm, faces: list[Array]) -> StandardForm:
    """The same network when every agent may send only what its projector leaves: X_i = Π_i Y_i Π_i.

    J̃ = J0 + (ΠH)'Y(I + ΠEΠY)^-1 ΠH, so H and E are projected; ``withheld`` keeps what is lost for good.
    """
    observe = weighted = _projected(form, faces, form.observe)
    coupling = None
    if form.coupling is not None:
        half = _projected(form, faces, form.coupling)
        coupling = _projected(form, faces, np.ascontiguousarray(half.T))
        coupling = (coupling + coupling.T) / 2
        weighted = np.asarray(np.linalg.solve(coupling + np.eye(len(coupling)), observe))
    left = form.information + observe.T @ weighted
    withheld = np.eye(len(left)) - (left + left.T) / 2
    return replace(form, observe=observe, coupling=coupling, withheld=withheld)


def _projected(form: StandardForm, faces: list[Array], matrix: Array) -> Array:
    projected = np.zeros(matrix.shape)
    for group, face in zip(form.blocks.groups, faces, strict=True):
        group.put(projected, face @ group.take(matrix))
    return projected


def inside(faces: list[Array], shrink: list[Array]) -> list[Array]:
    """Π X Π: the same information for a network restricted to its faces, and nothing outside of them."""
    made = [face @ x @ face for face, x in zip(faces, shrink, strict=True)]
    return [(x + x.transpose(0, 2, 1)) / 2 for x in made]
