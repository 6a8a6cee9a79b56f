"""Trading utility for privacy, all agents at once (problem P1; mathematics, sections 5, 7 and 8).

Above the ceiling privacy costs utility. A search looks for the least loss that reaches the privacy asked, or the most
privacy within a loss; many starts, deterministic, and the plan tells how many of them agreed. Both questions, and
every point of a frontier, are asked of the same curve. What is free stays a floor of what nobody gave a number for
(:mod:`veilnet.designs.floors`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import outlook
from veilnet.bounds.streams.gaps import GAP_PRIVACY
from veilnet.designs.floors import FlooredCurve, at_limit, curve_through, hiding_faces, in_order, row_curve
from veilnet.designs.joint import (
    SETTINGS,
    JointObjective,
    JointResult,
    SearchOptions,
    inside,
    restricted_to,
    telling_nothing,
)
from veilnet.designs.joint.hidden import both
from veilnet.designs.perfect import reachable
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.model.network import Network
from veilnet.model.standard_form import StandardForm, standard_form
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict


class CannotKeep(InvalidRequest):
    """No plan is known that is paid for and keeps what is free."""


class Tradeoff(ABC):
    """The trade-offs of one network, each question to a curve and each answer a plan that was confirmed.

    verdict: what is free.
    options: of the searches.
    """

    def __init__(self, verdict: Verdict, options: SearchOptions) -> None:
        self.verdict, self.options = verdict, options

    def least_loss(self, asked: Asked, curve: FlooredCurve | None = None) -> Plan:
        """The plan of least loss that reaches every target and keeps every floor.

        ``curve`` where one was begun for these weights and floors.
        """
        limit = self.verdict.limit  # so near to it the margin above a target cannot be reached
        near = [
            name
            for name, target in asked.targets.items()
            if 0 < target > limit[name] * (1 - SETTINGS.near_limit)
        ]
        if near:
            return self._at_the_limit(near, asked)
        wanted = np.array(list(asked.targets.values()))
        curve = curve or self.curve(wanted, asked.floors)
        aims = [{"level": float(wanted.max()) * (1 + margin)} for margin in MARGINS]
        answers = self._answers(curve, aims)
        return confirmed_plan(self.verdict.network, answers, asked, self.options.gap_privacy)

    def most_privacy(self, asked: Asked) -> Plan:
        """The plan with p_j >= t·weights_j for the largest common t and no p_j below its floor, within the loss.

        Where no prior limits it, a direction of x may be hidden altogether at a finite loss; if that is allowed,
        it is the answer, and privacy is infinite.
        """
        weights = {} if asked.weights is None else asked.weights
        curve = self.curve(
            np.array([weights.get(name, 0.0) for name in self.verdict.network.private]), asked.floors
        )
        loss = asked.most_loss or 0.0
        aims = [{"loss": loss * (1 - margin)} for margin in (0.0, *MARGINS)]
        try:
            return confirmed_plan(self.verdict.network, self._answers(curve, aims), asked)
        except CannotKeep as refusal:
            return self._shares_alone(asked, str(refusal).removeprefix("privacy: "))
        except InvalidPlan as refusal:
            try:
                return self._shares_alone(asked, self._unconfirmed())
            except InvalidPlan:
                raise refusal from None

    @abstractmethod
    def curve(self, weights: Array, floors: Mapping[str, float]) -> FlooredCurve:
        """The curve of least loss against privacy, divided between the private parameters by ``weights``."""

    @abstractmethod
    def _answers(self, curve: FlooredCurve, aims: list[dict[str, float]]) -> Iterator[Answer]:
        """What the curve answers to the first aim, and to the next where that was not confirmed."""

    @abstractmethod
    def _at_the_limit(self, near: list[str], asked: Asked) -> Plan:
        """The plan that tells nothing of some parameters, and of the others no more than is asked."""

    def _shares_alone(self, asked: Asked, why: str) -> Plan:
        """The shares, which lose nothing and so keep within any loss, where no plan that loses some is confirmed."""
        details = {"interrupted": False, "remark": f"this is the most privacy at no loss: {why}"}
        details |= reachable(self.verdict)
        network, made = self.verdict.network, self.verdict.shares.sanitizers
        return make_plan(network, made, "joint", replace(asked, floors={}), details=details)

    def _unconfirmed(self) -> str:
        return "no plan that uses the loss allowed was confirmed"


class RowTradeoff(Tradeoff):
    """The trade-offs of a network whose rows are sent one by one."""

    @cached_property
    def form(self) -> StandardForm:
        """The network in standard form."""
        return standard_form(self.verdict.network)

    def curve(self, weights: Array, floors: Mapping[str, float]) -> FlooredCurve:
        """As :meth:`Tradeoff.curve`."""
        return row_curve(self.form, weights, in_order(floors, self.verdict.network.private), self.options)

    def answer(self, shrink: list[Array], details: Mapping[str, Any]) -> Answer:
        """What agents send, from X."""
        return (sanitizers_from_shrink(self.verdict.network, shrink), {**reachable(self.verdict), **details})

    def _how(self, found: JointResult) -> dict[str, Any]:
        """How it was found, with the multipliers by name where they prove it."""
        if found.multipliers is None:
            return search_details(found)
        named = dict(zip(self.verdict.network.private, found.multipliers.tolist(), strict=True))
        return search_details(found) | {"multipliers": named}

    def _answers(self, curve: FlooredCurve, aims: list[dict[str, float]]) -> Iterator[Answer]:
        for aim in aims:
            found = curve.ask(**aim)[1]
            yield self.answer(found.shrink, self._how(found))

    def _unconfirmed(self) -> str:
        amplified = self.verdict.network.conditioning
        return f"the network amplifies rounding {amplified:.1g}-fold, and {super()._unconfirmed()}"

    def _at_the_limit(self, near: list[str], asked: Asked) -> Plan:
        answers = (self.answer(*each) for each in self._telling_nothing_of(near, asked))
        return confirmed_plan(self.verdict.network, answers, asked)

    def _telling_nothing_of(
        self, near: list[str], asked: Asked
    ) -> Iterator[tuple[list[Array], dict[str, Any]]]:
        """Everything but what informs about the parameters at their limit, less what others ask; last, silence."""
        form, seed = self.form, self.options.seed
        about = np.array([name in near for name in asked.targets])
        kept = in_order(asked.floors, asked.targets)
        hidden = ~about & at_limit(form, kept)
        spared = None if not np.any(hidden) else hiding_faces(form, hidden, seed)
        others = np.where(about | hidden, 0.0, np.maximum(aimed_at(asked.targets), kept))
        details: dict[str, Any] = {"tells_nothing_of": near}
        found = []
        for nothing in telling_nothing(form, about, seed):
            faces = nothing if spared is None else both(nothing, spared)
            at = JointObjective(form)(faces)
            if np.all(at.privacy >= others):
                found.append((at.loss, faces, details))
                break
            curve = curve_through(restricted_to(form, faces), others, self.options)
            narrowed = curve.at(float(others.max()))
            shrink = inside(faces, narrowed.shrink)
            found.append((narrowed.loss, shrink, details | search_details(narrowed)))
            if len(found) == 2:
                break
        for _, shrink, how in sorted(found, key=lambda each: each[0]):
            yield shrink, how
        yield [0 * x for x in found[0][1]], details


def search_details(result: JointResult) -> dict[str, Any]:
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


MARGINS = (1e-8, 1e-6, 1e-4)
"""Targets are aimed at with the first, relative, so that no rounding on the way to the agents eats into them; with
the next one where what came of it was not confirmed."""

Answer = tuple[Mapping[str, Sanitizer], Mapping[str, Any]]
"""What every agent sends, and how that was found."""


def confirmed_plan(
    network: Network, answers: Iterable[Answer], asked: Asked, gap_privacy: float | None = GAP_PRIVACY
) -> Plan:
    """The first answer that the recheck confirms; InvalidPlan, with what to change, where there is none.

    An answer for a stream has to keep its promise to the last bit as it is handed out, too: what a search promises
    there is of messages with a little noise more (:data:`veilnet.designs.streams.objective.FINEST`).
    """
    refusal: VeilnetError | None = None
    for sanitizers, details in _as_long_as_numbers_last(iter(answers)):
        try:
            known = outlook(network, sanitizers) if network.is_stream else None
            if known is None or asked.met_by(-known.utility, known.privacy):
                return make_plan(
                    network, sanitizers, "joint", asked, details=details, known=known, gap_privacy=gap_privacy
                )
        except InvalidPlan as error:
            refusal = refusal or error
        except InvalidRequest as error:  # rounding spoils the steady state of a stream
            if not network.is_stream:
                raise
            refusal = refusal or error
    raise InvalidPlan(_why(network, refusal)) from refusal


def _as_long_as_numbers_last(answers: Iterator[Answer]) -> Iterator[Answer]:
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


def _why(network: Network, refusal: VeilnetError | None) -> str:
    if network.is_stream:
        return (
            f"{refusal or 'what the search promised does not hold of what would be sent'}; aiming higher did not "
            "help. Ask for a privacy further from its limit, or drop readings that nearly repeat others"
        )
    met = "the search met numbers beyond floating point"
    return (
        f"{met if refusal is None else f'{refusal}; aiming higher did not help'}. The network amplifies rounding "
        f"{network.conditioning:.1g}-fold: ask for a privacy further from its limit, or scale and reduce the "
        "parameters of x until fewer of them are nearly indistinguishable"
    )
