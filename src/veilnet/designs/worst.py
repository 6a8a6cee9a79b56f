"""Targets for the worst direction of a private parameter: no combination of its rows may stay exposed.

The trace p_j is a mean over the directions of g_j, so one of them can stay known while others make up for it. Here
every direction a of g_j is asked for: a'P̃a >= (1 + ε) a'Pa, which is to say that the smallest generalised
eigenvalue of (G_j P̃ G_j', G_j P G_j') is at least 1 + ε. Each direction by itself is a private parameter with one
row, and only a few matter: the solver starts with the rows of g_j, looks for the direction its plan leaves most
exposed, adds that, and begins again from the plan it has until no direction is left below the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from veilnet._core.linalg import orthonormal_rows
from veilnet._core.types import Array
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.designs.confirmed import Answer, confirmed_plan
from veilnet.designs.floors import at_limit, hiding_faces, in_order
from veilnet.designs.joint import (
    INFORMATION_FLOOR,
    SETTINGS,
    JointCurve,
    JointObjective,
    JointResult,
    SearchOptions,
    inside,
    least_loss,
    telling_nothing,
    within,
)
from veilnet.designs.tradeoff import RowTradeoff, how_found
from veilnet.model.network import Network
from veilnet.model.standard_form import StandardForm
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan
from veilnet.verdict.exact_test import Verdict


def worst_limits(network: Network) -> dict[str, float]:
    """The growth of the most exposed direction of every private parameter if nothing at all were sent."""
    silent = knowledge_of_factor(network, np.zeros((0, network.L)))
    return {name: silent.worst_growth(rows) for name, rows in network.private.items()}


def worst_ceilings(verdict: Verdict) -> dict[str, float]:
    """The growth of the most exposed direction of every private parameter at perfect utility."""
    known = knowledge(verdict.network, verdict.shares.sanitizers)
    return {name: known.worst_growth(rows) for name, rows in verdict.network.private.items()}


def worst_direction_plan(verdict: Verdict, asked: Asked, options: SearchOptions) -> Plan:
    """The plan of least loss found with p_j >= target_j, no floor broken, and every direction of g_j >= worst_j."""
    tradeoff = RowTradeoff(verdict, options)
    form, targets, worst = tradeoff.form, asked.targets, asked.worst
    kept = in_order(asked.floors, targets)

    def answers() -> Iterator[Answer]:
        limits = worst_limits(verdict.network)
        near = [name for name, value in worst.items() if value > limits[name] * (1 - SETTINGS.near_limit)]
        if not near:
            found = _every_direction(verdict, form, targets, worst, options)
            if np.any(JointObjective(form).privacy(found.shrink) < kept):
                found = _with_floors(verdict, form, asked, kept, options)
            yield tradeoff.answer(found.shrink, how_found(found))
        # Nothing told of a parameter leaves every direction of it at its limit.
        about = np.array(
            [name in worst or targets[name] > 0 or asked.floors.get(name, 0.0) > 0 for name in targets]
        )
        nothing = telling_nothing(form, about, options.seed)[0].shrink
        yield tradeoff.answer(nothing, {"tells_nothing_of": [*worst]})

    return confirmed_plan(verdict.network, answers(), asked)


def _with_floors(
    verdict: Verdict, form: StandardForm, asked: Asked, kept: Array, options: SearchOptions
) -> JointResult:
    """The same where floors bind: among plans that tell nothing of parameters whose floor is their limit."""
    hidden = at_limit(form, kept)
    raised = {
        name: target if hidden[place] else max(target, float(kept[place]))
        for place, (name, target) in enumerate(asked.targets.items())
    }
    if not np.any(hidden):
        return _every_direction(verdict, form, raised, asked.worst, options)
    faces = hiding_faces(form, hidden, options.seed)
    found = _every_direction(verdict, within(form, faces), raised, asked.worst, options)
    return replace(found, shrink=inside(faces, found.shrink))


def _every_direction(
    verdict: Verdict,
    form: StandardForm,
    targets: Mapping[str, float],
    worst: Mapping[str, float],
    options: SearchOptions,
) -> JointResult:
    bases = {
        name: orthonormal_rows(verdict.network.in_raw_coordinates(verdict.network.private[name]))
        for name in worst
    }
    cuts = [(basis[k : k + 1], worst[name]) for name, basis in bases.items() for k in range(len(basis))]
    enough = {name: value * (1 + SETTINGS.worst_margins[0]) for name, value in worst.items()}
    plain = [
        (rows, target) for rows, target in zip(form.private, targets.values(), strict=True) if target > 0
    ]
    found: JointResult | None = None
    for margin in SETTINGS.worst_margins:
        # New directions close in on the target slowly: asking a little more of them ends it.
        aimed = [(direction, value * (1 + 2 * margin)) for direction, value in cuts]
        rows, wanted = zip(*plain, *aimed, strict=True)
        extended = replace(form, private=tuple(rows))
        if found is None:
            found = JointCurve(extended, np.array(wanted), options).at(max(wanted))
        else:
            followed = least_loss(extended, np.array(wanted), warm=[found.shrink], seed=options.seed)
            found = replace(followed, starts=found.starts, agreed=found.agreed)
        exposed = [
            (direction, worst[name])
            for name, basis in bases.items()
            for direction, growth in [_most_exposed(extended, basis, found.shrink)]
            if growth < enough[name]
        ]
        if not exposed or found.interrupted:
            break
        cuts += exposed
    return found  # type: ignore[return-value]  # the loop runs at least once


def _most_exposed(form: StandardForm, basis: Array, shrink: list[Array]) -> tuple[Array, float]:
    """The unit direction, (1, L), of the rows' span whose error grows least, and by how much."""
    values, vectors = JointObjective(form).least_known(shrink)
    half = (basis @ vectors) / np.sqrt(np.maximum(values, INFORMATION_FLOOR))
    errors, directions = np.linalg.eigh(half @ half.T)
    return directions[:, :1].T @ basis, float(errors[0]) - 1.0
