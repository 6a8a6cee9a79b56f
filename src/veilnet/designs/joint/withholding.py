"""At the limit ε^max: telling nothing at all about a private parameter.

p_j is at its limit when no message moves the prior's estimate of g_j. In standard form it is enough that for every
row a of G_j some v with J0 v = a has X_i H_i v = 0 at every agent; then J̃ v = a, and a'J̃^+ a = a'J0^+ a. For J0 ≻ 0
only v = J0^-1 a will do. A singular J0 leaves a choice, v = J0^+ a + n with n in Null(J0), and the loss depends
much on n: it is optimised. Among all X that withhold given directions, sending everything else is best for utility.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import null_space, pinvh

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint.hidden import hiding, settle
from veilnet.designs.joint.objective import UNKNOWN, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.starts import share_projectors
from veilnet.model.standard_form import StandardForm

_MOVES = 1e-6  # less than this part of its deviation, a direction does not move a parameter


def telling_nothing(form: StandardForm, about: Booleans, seed: int = 0) -> list[list[Array]]:
    """X that tell nothing about the private parameters chosen, and everything else; cheapest first."""
    private = np.concatenate([rows for rows, chosen in zip(form.private, about, strict=True) if chosen])
    known = pinvh(form.information, rtol=1e-11) @ private.T
    free = null_space(form.information, rcond=1e-11)
    objective = JointObjective(form)
    if free.shape[1] == 0:
        return [hiding(objective, known / np.linalg.norm(known, axis=0))]
    found = [
        _settled(objective, known, free, start) for start in _beginnings(form, objective, known, free, seed)
    ]
    return sorted(found, key=lambda shrink: objective(shrink).loss)


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


def _settled(objective: JointObjective, known: Array, free: Array, start: Array) -> list[Array]:
    """A local minimum of the loss over n."""
    alone = LeastLoss(np.zeros(objective.targets))
    best = settle(
        *(objective, alone, free, start, known),
        steps=SETTINGS.hiding_steps,
        tolerance=SETTINGS.hiding_tolerance,
    )
    return hiding(objective, known + free @ best)


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
    values, vectors = objective.least_known(share_projectors(objective))
    unknown = vectors[:, values < UNKNOWN]
    private = np.concatenate([rows for rows, chosen in zip(form.private, about, strict=True) if chosen])
    _, sizes, moved = np.linalg.svd(private @ unknown, full_matrices=False)
    return hiding(objective, unknown @ moved[sizes > _MOVES].T)


def restricted_to(form: StandardForm, faces: list[Array]) -> StandardForm:
    """The same network when every agent may send only what its projector leaves: X_i = Π_i Y_i Π_i.

    J̃ = J0 + (ΠH)'Y(I + ΠEΠY)^-1 ΠH, so H and E are projected; ``withheld`` keeps what is lost for good.
    """
    observe = np.zeros(form.observe.shape)
    for group, face in zip(form.blocks.groups, faces, strict=True):
        group.put(observe, face @ group.take(form.observe))
    coupling = None
    weighted = observe
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
