"""A trade-off with a proof of how good it is; a design that stays far from its bound is searched for again.

Where more than 5 % stays open, either the bound is loose or the design is poor. The proof names the directions
of x that leave it least room (:func:`~veilnet.designs.lower_bound.proving.hidden_directions`); hiding them is
where the search starts anew, and what it finds replaces the design if it is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.progress import Progress, Watched, silent
from veilnet._core.types import Array
from veilnet.bounds.knowledge import knowledge
from veilnet.designs.floors import in_order
from veilnet.designs.joint import (
    SETTINGS,
    JointCurve,
    JointObjective,
    JointResult,
    SearchOptions,
    Tried,
    least_loss,
)
from veilnet.designs.joint.hidden import hiding
from veilnet.designs.lower_bound.proving import hidden_directions, prove_least_loss, prove_most_privacy
from veilnet.designs.questions import read_weights
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.designs.tradeoff import aimed_at
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked
from veilnet.plans.every_direction import least_errors
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.plan import Plan, make_plan

_OPEN = 0.05
# A loss allowed is aimed at with this relative margin, and a better design is better by more than it.
_MARGIN = 1e-8
# A privacy within this part of its floor rests on it: the proof counts it. Others only enlarge the proof.
_RESTING = 0.01
# A design that is better by less than this part is proved by the proof at hand as well as by another.
_WORTH_PROVING = 1e-3


def proved_plan(
    plan: Plan,
    gap: float,
    weights: Mapping[str, float] | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan, or a better one, with the proof that comes nearest to ``gap``; as it was where nothing is proved.

    Where ``progress`` answers False, what is proved by then is all, and the plan says that it was interrupted.
    """
    by_name = dict(zip(plan.network.private, read_weights(plan.network, weights), strict=True))
    watch = Watched(progress)
    best = _best_proved(plan, gap, by_name, seed, watch)
    if not watch.stopped:
        return best
    return replace(best, details=MappingProxyType({**best.details, "interrupted": True}))


def quickly_proved(plan: Plan, weights: Mapping[str, float] | None = None) -> Plan:
    """The plan with what some tenths of a second prove of it; as it was where that is nothing."""
    if plan.network.is_stream or np.isfinite(plan.gap) or plan.method == "power":
        return plan
    by_name = dict(zip(plan.network.private, read_weights(plan.network, weights), strict=True))
    try:
        with np.errstate(all="ignore"):
            proof = _prove(plan, None, by_name, silent)
            return plan if proof is None else plan.with_proof(proof)
    except (np.linalg.LinAlgError, ValueError, InvalidPlan):
        return plan  # the network is beyond what doubles can bound; the plan stands without


def refuse_proof_of_streams() -> NoReturn:
    """Refuse to prove how good a trade-off on a stream is."""
    raise InvalidRequest(
        "prove: no bound on what a design can reach is known for streams; leave it out (share filters at perfect "
        "utility are optimal by theorem)"
    )


def _best_proved(plan: Plan, gap: float, weights: Mapping[str, float], seed: int, watch: Watched) -> Plan:
    proof = _prove(plan, gap, weights, watch)
    if proof is None:
        return plan
    plan = plan.with_proof(proof)
    if plan.gap <= _OPEN or watch.stopped or plan.worst_targets or plan.seen:
        return plan
    better = _restarted(plan, proof, weights, seed, watch)
    if better is None:
        return plan
    best = better.with_proof(proof)
    if watch.stopped or 1 + best.gap > (1 + plan.gap) * (1 - _WORTH_PROVING):
        return best
    again = _prove(better, gap, weights, watch)
    return best if again is None else min(best, better.with_proof(again), key=lambda each: each.gap)


def _prove(plan: Plan, gap: float | None, weights: Mapping[str, float], progress: Progress) -> Proof | None:
    every = _of_every_direction(plan)
    if plan.most_loss is None and (every or any(target > 0 for target in _asked(plan).values())):
        return prove_least_loss(
            *(plan.network, _asked(plan), -plan.utility, gap),
            design=plan.sanitizers,
            every=every,
            progress=progress,
        )
    if plan.most_loss is None:
        return None
    reached = min(plan.privacy[name] / weight for name, weight in weights.items() if weight > 0)
    if not 0 < reached < np.inf:
        return None
    kept = {name: floor for name, floor in plan.floors.items() if np.isfinite(floor)}
    binding = {name: floor for name, floor in kept.items() if plan.privacy[name] < floor * (1 + _RESTING)}
    return prove_most_privacy(
        *(plan.network, plan.most_loss, weights, reached, gap),
        floors=binding,
        design=plan.sanitizers,
        progress=progress,
    )


def _of_every_direction(plan: Plan) -> dict[str, list[Array]]:
    """name -> each M with G P̃ G' >= M, for parameters of several independent rows of which that is asked."""
    found: dict[str, list[Array]] = {}
    for name, rows in plan.network.private.items():
        if len(rows) > 1 and np.linalg.matrix_rank(rows) == len(rows):
            each = [] if name not in plan.seen else least_errors(plan.network, name, plan.seen[name])
            if name in plan.worst_targets:
                raw = knowledge(plan.network).error_covariance(rows)
                each = [*each, (1 + plan.worst_targets[name]) * raw]
            found |= {name: each} if each else {}
    return found


def _asked(plan: Plan) -> dict[str, float]:
    """What a design has to reach, floors included but for those without bound: a bound without them holds too."""
    return {name: each if np.isfinite(each) else 0.0 for name, each in plan.privacy_asked.items()}


def _restarted(
    plan: Plan, proof: Proof, weights: Mapping[str, float], seed: int, progress: Progress
) -> Plan | None:
    """A better plan from hiding what the proof says is hidden, None where there is none."""
    form = standard_form(plan.network)
    objective = JointObjective(form)
    warm: list[list[Array]] = [hiding(objective, each) for each in hidden_directions(proof, plan.network)]
    if plan.targets:
        found = least_loss(form, aimed_at(_asked(plan)), warm=warm, seed=seed, progress=progress)
        if found.loss >= -plan.utility * (1 - _MARGIN):
            return None
    else:
        allowed = (plan.most_loss or 0.0) * (1 - _MARGIN)
        floors = in_order(_asked(plan), plan.network.private)
        curve = JointCurve(form, np.array(list(weights.values())), SearchOptions(seed=seed), floors=floors)
        level = curve.reached(np.array(list(plan.privacy.values()))) * (1 + _MARGIN)

        def look(level: float) -> JointResult:
            return least_loss(form, curve.targets(level), warm=warm, seed=seed, progress=progress)

        found = look(level)
        if found.loss > allowed:
            return None
        warm = [found.shrink]
        top = Tried(max(level, min(curve.limit, SETTINGS.far)))
        inside, _ = curve.affordable(look, allowed, Tried(level, found), top, free=curve.ceiling)
        found = inside.found or found
    try:
        details = {**plan.details, "restarted_from_proof": True, "kkt_residual": found.kkt_residual}
        asked = Asked(plan.targets, most_loss=plan.most_loss, floors=plan.floors)
        made = sanitizers_from_shrink(plan.network, found.shrink)
        return make_plan(plan.network, made, "joint", asked, details=details)
    except InvalidPlan:
        return None  # the plan at hand is confirmed; one that is not takes nobody's place
