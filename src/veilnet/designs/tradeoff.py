"""Trading utility for privacy, all agents at once (problem P1; mathematics, sections 5 and 8).

Above the ceiling privacy costs utility. The joint solver looks for the least loss that reaches the privacy asked,
or the most privacy within a loss; many starts, deterministic, and the plan tells how many of them agreed. Both
questions, and every point of a frontier, are asked of the same curve. What is free stays a floor of what nobody gave
a number for (:mod:`veilnet.designs.floors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, VeilnetError
from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet.designs.floors import FlooredCurve, at_limit, curve_through, hiding_faces, in_order
from veilnet.designs.joint import (
    SETTINGS,
    JointObjective,
    JointResult,
    inside,
    telling_nothing,
    within,
)
from veilnet.designs.joint.withholding import both
from veilnet.designs.questions import read_weights
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.model.standard_form import StandardForm, standard_form
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict
from veilnet.verdict.shares import share_sanitizers

# Targets are aimed at with this relative margin, so that no rounding on the way to the agents eats into them;
# with the next one where the first was not confirmed.
MARGINS = (1e-8, 1e-6, 1e-4)


def curve_of(
    verdict: Verdict,
    weights: Array,
    floors: Mapping[str, float],
    *,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FlooredCurve:
    """The curve of least loss against privacy, divided between the private parameters by ``weights``."""
    kept = in_order(floors, verdict.network.private)
    form = standard_form(verdict.network)
    return FlooredCurve(form, weights, kept, starts=starts, seed=seed, progress=progress)


def least_loss_plan(
    verdict: Verdict,
    targets: Mapping[str, float],
    floors: Mapping[str, float],
    *,
    curve: FlooredCurve | None = None,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan of least utility loss that reaches every target and keeps every floor.

    ``curve`` where one was begun for these weights and floors.
    """
    wanted = np.array(list(targets.values()))
    near = [name for name, target in targets.items() if _at_limit(verdict, name, target)]
    if near:
        answers = _at_the_limit(verdict, near, targets, floors, starts=starts, seed=seed, progress=progress)
        return first_confirmed(verdict, answers, targets=targets, floors=floors)
    asked = curve or curve_of(verdict, wanted, floors, starts=starts, seed=seed, progress=progress)

    def answers_by_margin() -> Iterator[tuple[list[Array], dict[str, Any]]]:
        for margin in MARGINS:
            found = asked.at(float(wanted.max()) * (1 + margin))
            yield found.shrink, told(found)

    return first_confirmed(verdict, answers_by_margin(), targets=targets, floors=floors)


def most_privacy_plan(
    verdict: Verdict,
    loss: float,
    weights: Mapping[str, float] | None,
    floors: Mapping[str, float],
    *,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The plan with p_j >= t·weights_j for the largest common t and no p_j below its floor, losing at most ``loss``.

    Where no prior limits it, a direction of x may be hidden altogether at a finite loss; if that is allowed,
    it is the answer, and privacy is infinite.
    """
    divided = read_weights(verdict.network, weights)
    curve = curve_of(verdict, divided, floors, starts=starts, seed=seed, progress=progress)

    def answers() -> Iterator[tuple[list[Array], dict[str, Any]]]:
        for margin in (0.0, *MARGINS):
            found = curve.within(loss * (1 - margin))
            yield found.shrink, told(found)

    try:
        return first_confirmed(verdict, answers(), most_loss=loss, floors=floors)
    except InvalidPlan as refusal:
        return _shares_alone(verdict, loss, refusal)


def _shares_alone(verdict: Verdict, loss: float, refusal: InvalidPlan) -> Plan:
    """The shares, which lose nothing and so keep within any loss, where no plan that loses some is confirmed."""
    remark = (
        "this is the most privacy at no loss: the network amplifies rounding "
        f"{verdict.network.conditioning:.1g}-fold, and no plan that uses the loss allowed was confirmed"
    )
    try:
        return make_plan(
            verdict.network,
            share_sanitizers(verdict.shares),
            "joint",
            most_loss=loss,
            details={
                "ceiling": dict(verdict.ceiling),
                "limit": dict(verdict.limit),
                "interrupted": False,
                "remark": remark,
            },
        )
    except InvalidPlan:
        raise refusal from None


def first_confirmed(
    verdict: Verdict,
    answers: Iterator[tuple[list[Array], dict[str, Any]]],
    *,
    targets: Mapping[str, float] | None = None,
    worst_targets: Mapping[str, float] | None = None,
    most_loss: float | None = None,
    floors: Mapping[str, float] | None = None,
) -> Plan:
    """The first answer (X, and how it was found) that the independent recheck confirms, as a plan."""
    refusal: InvalidPlan | None = None
    for shrink, details in _as_long_as_numbers_last(answers):
        try:
            return make_plan(
                verdict.network,
                sanitizers_from_shrink(verdict.network, shrink),
                "joint",
                targets=targets,
                worst_targets=worst_targets,
                most_loss=most_loss,
                floors=floors,
                details={"ceiling": dict(verdict.ceiling), "limit": dict(verdict.limit), **details},
            )
        except InvalidPlan as error:
            refusal = refusal or error
    reason = (
        "the search met numbers beyond floating point"
        if refusal is None
        else f"{refusal}; aiming higher did not help"
    )
    raise InvalidPlan(
        f"{reason}. The network amplifies rounding "
        f"{verdict.network.conditioning:.1g}-fold: ask for a privacy further from its limit, or scale and reduce "
        "the parameters of x until fewer of them are nearly indistinguishable"
    ) from refusal


def _as_long_as_numbers_last(
    answers: Iterator[tuple[list[Array], dict[str, Any]]],
) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    """The answers up to the first for which floating point does not suffice."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            try:
                yield next(answers)
            except StopIteration:
                return
            except VeilnetError:
                raise
            except (np.linalg.LinAlgError, ValueError):
                return  # no convergence, or an overflow on the way: the caller says what to change


def told(result: JointResult) -> dict[str, Any]:
    """How a joint solution was found, for the plan's details."""
    return {
        "starts": result.starts,
        "starts_agreed": result.agreed,
        "iterations": result.iterations,
        "kkt_residual": result.kkt_residual,
        "interrupted": result.interrupted,
        "history": [list(step) for step in result.history],
    }


def aimed_at(targets: Mapping[str, float]) -> Array:
    """The targets with their margin, in the order of the private parameters."""
    wanted = np.array(list(targets.values()))
    return np.asarray(wanted * (1 + MARGINS[0]))


def _at_limit(verdict: Verdict, name: str, target: float) -> bool:
    """Whether a target is so close to its limit that the margin above it cannot be reached."""
    return 0 < target > verdict.limit[name] * (1 - SETTINGS.near_limit)


def _at_the_limit(
    verdict: Verdict,
    near: list[str],
    targets: Mapping[str, float],
    floors: Mapping[str, float],
    **options: Any,
) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    """Everything but what tells of the parameters at their limit, less what others ask; last, silence."""
    form = standard_form(verdict.network)
    about = np.array([name in near for name in targets])
    kept = in_order(floors, targets)
    hidden = ~about & at_limit(form, kept)
    spared = None if not np.any(hidden) else hiding_faces(form, hidden, options["seed"])
    others = np.where(about | hidden, 0.0, np.maximum(aimed_at(targets), kept))
    details: dict[str, Any] = {"tells_nothing_of": near}
    found = []
    for plan in telling_nothing(form, about, options["seed"]):
        faces = plan.shrink if spared is None else both(plan.shrink, spared)
        at = JointObjective(form)(faces)
        if np.all(at.privacy >= others):
            found.append((at.loss, faces, details))
            break
        narrowed = _within_faces(form, faces, others, **options)
        found.append((narrowed.loss, narrowed.shrink, details | told(narrowed)))
        if len(found) == 2:
            break
    for _, shrink, how in sorted(found, key=lambda each: each[0]):
        yield shrink, how
    yield [0 * x for x in found[0][1]], details


def _within_faces(form: StandardForm, faces: list[Array], others: Array, **options: Any) -> JointResult:
    """The least loss that reaches the other targets with what the faces leave to send."""
    found = curve_through(within(form, faces), others, **options).at(float(others.max()))
    return replace(found, shrink=inside(faces, found.shrink))
