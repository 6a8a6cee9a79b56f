"""Targets for every direction of a private parameter: no combination of its rows may stay exposed.

The trace p_j is a mean over the directions of g_j, so one of them can stay known while others make up for it. Here
every direction a of g_j is asked for: a'P̃a >= (1 + ε) a'Pa, which is to say that the smallest generalised
eigenvalue of (G_j P̃ G_j', G_j P G_j') is at least 1 + ε. Each direction by itself is a private parameter with one
row, and only a few matter: the solver starts with the rows of g_j, looks for the direction its plan leaves most
exposed, adds that, and begins again from the plan it has until no direction is left below the target. A secret of
several rows asks a'P̃a >= a'Ma instead, with the M of :mod:`veilnet.plans.every_direction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from veilnet._core.errors import Infeasible
from veilnet._core.linalg import orthonormal_rows
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.bounds.detectability import Detector
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
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
    restricted_to,
    telling_nothing,
)
from veilnet.designs.tradeoff import Answer, RowTradeoff, confirmed_plan, search_details
from veilnet.model.network import Network
from veilnet.model.standard_form import StandardForm
from veilnet.plans.asked import Asked
from veilnet.plans.every_direction import least_errors
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


def asks_directions(network: Network, asked: Asked) -> bool:
    """Whether something is asked of every direction of a parameter with several."""
    return bool(asked.worst) or any(len(network.private[name]) > 1 for name in asked.seen)


def hidden_for_free(verdict: Verdict, seen: Mapping[str, float]) -> bool:
    """Whether at perfect utility no change is seen better than allowed."""
    found = _seen_for_free(verdict)
    return all(found[name] <= mu for name, mu in seen.items())


def seen_for_free(verdict: Verdict, seen: Mapping[str, float]) -> Infeasible:
    """The refusal that says how surely changes are seen where no utility may be lost, in all words of targets."""
    found = _seen_for_free(verdict)
    each = [f"{name} with {Detector(found[name])}" for name, most in seen.items() if found[name] > most]
    return Infeasible(
        f"privacy: at perfect utility the best detector sees the change of {join_names(each)}. Allow as much, or use "
        "method='auto' to trade utility for less"
    )


def _seen_for_free(verdict: Verdict) -> dict[str, float]:
    return {name: each.longest.mu for name, each in verdict.detectability.items()}


class _Directions(NamedTuple):
    """What is asked of every direction of one parameter.

    basis: (r, L), orthonormal rows in the coordinates where the raw information is the identity.
    least: M, (r, r), in theirs: B P̃ B' >= M.
    """

    basis: Array
    least: Array

    def asked_of(self, direction: Array) -> float:
        """The growth that a unit direction, (r,), has to reach."""
        return float(direction @ self.least @ direction) - 1.0


def _directions(network: Network, asked: Asked) -> list[_Directions]:
    found = []
    for name in [*asked.worst, *asked.seen]:
        rows = network.in_raw_coordinates(network.private[name])
        basis = orthonormal_rows(rows)
        if name in asked.worst:
            found.append(_Directions(basis, (1.0 + asked.worst[name]) * np.eye(len(basis))))
        elif len(rows) > 1:
            turned = np.linalg.inv(rows @ basis.T)  # g = rows x, so basis x = turned g
            found += [
                _Directions(basis, turned @ least @ turned.T)
                for least in least_errors(network, name, asked.seen[name])
            ]
    return found


def worst_direction_plan(verdict: Verdict, asked: Asked, options: SearchOptions) -> Plan:
    """The plan of least loss found with p_j >= target_j, no floor broken, and every direction of g_j >= worst_j."""
    tradeoff = RowTradeoff(verdict, options)
    form, targets, worst = tradeoff.form, asked.targets, asked.worst
    directions = _directions(verdict.network, asked)
    kept = in_order(asked.floors, targets)

    def answers() -> Iterator[Answer]:
        limits = worst_limits(verdict.network)
        near = [name for name, value in worst.items() if value > limits[name] * (1 - SETTINGS.near_limit)]
        if not near:
            found = _every_direction(form, targets, directions, options)
            if np.any(JointObjective(form).privacy(found.shrink) < kept):
                found = _with_floors(form, asked, directions, kept, options)
            yield tradeoff.answer(found.shrink, search_details(found))
        # Nothing revealed of a parameter leaves every direction of it at its limit.
        about = np.array([name in asked.numbered or asked.floors.get(name, 0.0) > 0 for name in targets])
        nothing = telling_nothing(form, about, options.seed)[0]
        yield tradeoff.answer(nothing, {"tells_nothing_of": [*worst, *asked.seen]})

    return confirmed_plan(verdict.network, answers(), asked)


def _with_floors(
    form: StandardForm, asked: Asked, directions: list[_Directions], kept: Array, options: SearchOptions
) -> JointResult:
    """The same where floors bind: among plans that tell nothing of parameters whose floor is their limit."""
    hidden = at_limit(form, kept)
    raised = {
        name: target if hidden[place] else max(target, float(kept[place]))
        for place, (name, target) in enumerate(asked.targets.items())
    }
    if not np.any(hidden):
        return _every_direction(form, raised, directions, options)
    faces = hiding_faces(form, hidden, options.seed)
    found = _every_direction(restricted_to(form, faces), raised, directions, options)
    return replace(found, shrink=inside(faces, found.shrink))


def _every_direction(
    form: StandardForm, targets: Mapping[str, float], directions: list[_Directions], options: SearchOptions
) -> JointResult:
    """The best of three passes: a search, one that begins where nothing is revealed of any parameter, and the search
    once more with all directions that these added. Following one plan from direction to direction may end in a poor
    valley: of ten networks with two private rows, three lost 1.02, 1.4 and 92 times as much without the second.
    """
    cuts = []
    for each in directions:
        axes = np.linalg.eigh(each.least)[1].T
        # Between the axes too: a search that begins without these was seen to end in a poor valley.
        one, other = np.triu_indices(len(axes), 1)
        between = [axes[one] + axes[other], axes[one] - axes[other]]
        for direction in np.concatenate([axes, *(found / np.sqrt(2) for found in between)]):
            if each.asked_of(direction) > 0:
                cuts.append((direction[None] @ each.basis, each.asked_of(direction)))
    plain = [
        (rows, target) for rows, target in zip(form.private, targets.values(), strict=True) if target > 0
    ]
    first = len(cuts)
    nothing = telling_nothing(form, np.ones(len(form.private), dtype=bool), options.seed)[0]
    passes = [_settled(form, plain, cuts, directions, options, begin) for begin in (None, nothing)]
    if len(cuts) > first and not any(found.interrupted for _, found in passes):
        passes.append(_settled(form, plain, cuts, directions, options))
    return min(passes, key=lambda each: (each[0], each[1].loss))[1]


def _settled(
    form: StandardForm,
    plain: list[tuple[Array, float]],
    cuts: list[tuple[Array, float]],
    directions: list[_Directions],
    options: SearchOptions,
    begin: list[Array] | None = None,
) -> tuple[int, JointResult]:
    """How many directions stay exposed, none as a rule, and the plan; those that it needs are added to ``cuts``.

    begin: a plan to follow; None for a search of its own.
    """
    found: JointResult | None = None
    near = begin
    for margin in SETTINGS.worst_margins:
        # New directions close in on the target slowly: asking a little more of them ends it.
        aimed = [(direction, value * (1 + 2 * margin)) for direction, value in cuts]
        rows, wanted = zip(*plain, *aimed, strict=True)
        extended = replace(form, private=tuple(rows))
        if near is None:
            found = JointCurve(extended, np.array(wanted), options).at(max(wanted))
        else:
            followed = least_loss(extended, np.array(wanted), warm=[near], seed=options.seed)
            found = followed if found is None else replace(followed, starts=found.starts, agreed=found.agreed)
        near = found.shrink
        exposed = [
            (direction, asked)
            for each in directions
            for direction, growth, asked in [_most_exposed(extended, each, found.shrink)]
            if growth < asked * (1 + SETTINGS.worst_margins[0])
        ]
        if not exposed or found.interrupted:
            break
        cuts += exposed
    return len(exposed), found  # type: ignore[return-value]  # the loop runs at least once


def _most_exposed(form: StandardForm, asked: _Directions, shrink: list[Array]) -> tuple[Array, float, float]:
    """The unit direction, (1, L), that falls shortest of what is asked of it, its growth and the one asked."""
    values, vectors = JointObjective(form).least_known(shrink)
    half = (asked.basis @ vectors) / np.sqrt(np.maximum(values, INFORMATION_FLOOR))
    errors = half @ half.T
    direction = eigh(asked.least, errors)[1][:, -1]
    direction = direction / np.linalg.norm(direction)
    growth = float(direction @ errors @ direction) - 1.0
    return direction[None] @ asked.basis, growth, asked.asked_of(direction)
