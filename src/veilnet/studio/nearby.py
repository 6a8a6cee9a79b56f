"""Plans beside plans that are known: a few steps from the nearest one, for someone who drags a target.

A design from scratch looks in many places. Here one start, the known plan nearest to what is asked, is followed for a
fixed number of steps and made exactly feasible. The answer keeps its promise as every plan does, and nothing that is
free is lost; it may cost a little more than a design would, and the caller runs one when the dragging ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.errors import Infeasible
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.designs.floors import at_limit, floors_of, in_order
from veilnet.designs.joint import (
    SETTINGS,
    JointObjective,
    JointResult,
    LeastLoss,
    Levels,
    followed,
    least_loss_problem,
    spent,
)
from veilnet.designs.perfect import perfect_plan, reachable
from veilnet.designs.questions import ratio_and_p
from veilnet.designs.shrink import sanitizers_from_shrink, shrink_from_sanitizers
from veilnet.designs.tradeoff import MARGINS, search_details
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked
from veilnet.plans.plan import OtherDither, Plan, make_plan
from veilnet.verdict.exact_test import Verdict, check

# Rounds, and steps in each: as many as leave an answer within the fifth of a second that a dragging hand waits for.
# On a network of few readings a step costs much less, and more of them come close to what a design finds.
_FEW_READINGS = 36
_PATIENT, _HURRIED = (10, 40), (3, 25)
# of the way from a known level to the limit: where the level that a loss buys is looked for first
_ABOVE = 0.1
_SAME = 1e-3  # in logarithms of privacies: a known plan nearer than this is replaced


@dataclass(frozen=True, eq=False)
class _Known:
    """A plan, and the logarithms of the privacies it reaches (of 1 + p_j)."""

    found: JointResult
    privacy: Array


class Nearby:
    """Quick answers of one network; what was answered before is where the next answer begins.

    verdict:  of the network.
    given_up: private parameters that may be hidden less than they are for free.
    """

    def __init__(self, verdict: Verdict, given_up: frozenset[str] = frozenset()) -> None:
        self.given_up = given_up
        self._begin(verdict)

    def _begin(self, verdict: Verdict) -> None:
        self.verdict = verdict
        given_up = self.given_up
        self._floors = floors_of(perfect_plan(verdict, Asked()).privacy, given_up)
        form = standard_form(verdict.network)
        self._objective = JointObjective(form)
        self._kept = in_order(self._floors, verdict.network.private)
        at_limits = at_limit(form, self._kept)
        self.hidden = tuple(
            name for name, nothing in zip(verdict.network.private, at_limits, strict=True) if nothing
        )
        """Parameters that the free plan reveals nothing about, so that no other plan may."""
        self._budget = _PATIENT if verdict.network.N <= _FEW_READINGS else _HURRIED
        self._known: list[_Known] = []
        self._remember(self._objective.shares())

    @property
    def quick(self) -> bool:
        """Whether it can answer: only where no parameter has to stay wholly hidden."""
        return not self.hidden

    def giving_up(self, given_up: frozenset[str]) -> Nearby:
        """Answers that may hide these parameters less than they are for free, beginning from the same plans."""
        if given_up == self.given_up:
            return self
        other = Nearby(self.verdict, given_up)
        for known in self._known:
            other._remember(known.found.shrink)
        return other

    def learn(self, sanitizers: Mapping[str, Sanitizer]) -> None:
        """Begin from this plan too where it is the nearest.

        sanitizers: agent -> Sanitizer, of a plan for this network.
        """
        self._remember(shrink_from_sanitizers(self.verdict.network, sanitizers))

    def plan(self, targets: Mapping[str, float]) -> Plan:
        """A plan that reaches every target at nearly the least loss; the free one where that is enough.

        targets: p_j for each private parameter, below its limit; 0 where what is free is kept.
        """
        names = list(self.verdict.network.private)
        wanted = np.array([targets[name] for name in names])
        beyond = [name for name in names if targets[name] >= self.verdict.limit[name]]
        if beyond:
            each = [
                f"{name!r}: {ratio_and_p(targets[name])} was asked, and even silence gives only "
                f"{ratio_and_p(self.verdict.limit[name])}"
                for name in beyond
            ]
            raise Infeasible(f"privacy: {'; '.join(each)}")
        if all(targets[name] <= self.verdict.ceiling[name] for name in names):
            return perfect_plan(self.verdict, Asked(dict(targets)))
        kept = np.where(wanted > 0, wanted * (1 + MARGINS[0]), self._kept)
        problem = least_loss_problem(self._objective, kept)
        try:
            return self._as_plan(self._followed(problem, self._nearest(wanted)), Asked(dict(targets)))
        except OtherDither as other:
            self._begin(check(other.network))
            return self.plan(targets)

    def within(self, loss: float) -> Plan:
        """A plan that loses at most ``loss``, with nearly the largest privacy that all private parameters can share.

        loss: the utility loss allowed, as a part of the raw error.
        """
        if loss <= 0:
            return perfect_plan(self.verdict, Asked(dict(self.verdict.ceiling)))
        levels = Levels(np.ones(self._kept.size), self._kept)
        kept = [known.found for known in self._known if levels.keeps_floors(known.found.privacy)]
        near = max((one for one in kept if one.loss <= loss), key=lambda one: levels.reached(one.privacy))
        highest = min(*self.verdict.limit.values(), SETTINGS.far) * (1 - SETTINGS.near_limit)
        low, high = np.log1p(levels.reached(near.privacy)), np.log1p(highest)
        level = float(np.expm1(low + _ABOVE * (high - low)))
        start = (near.shrink, float(np.expm1(low)), level, highest)
        found = spent(self._objective, levels.targets, loss, *start, *self._budget) or near
        self._remember(found.shrink)
        try:
            return self._as_plan(found, Asked(most_loss=loss))
        except OtherDither as other:
            self._begin(check(other.network))
            return self.within(loss)

    def _nearest(self, wanted: Array) -> list[Array]:
        """X of the known plan whose privacies are nearest."""
        asked = np.log1p(wanted)
        return min(self._known, key=lambda known: float(np.abs(known.privacy - asked).max())).found.shrink

    def _followed(self, problem: LeastLoss, start: list[Array]) -> JointResult:
        found = followed(self._objective, problem, start, *self._budget)
        self._remember(found.shrink)
        return found

    def _remember(self, shrink: list[Array]) -> None:
        at = self._objective(shrink)
        found = JointResult(shrink, at.loss, at.privacy, 0, 0, 0, np.inf, interrupted=False, history=[])
        made = _Known(found, np.log1p(at.privacy))
        self._known = [old for old in self._known if np.abs(old.privacy - made.privacy).max() > _SAME]
        self._known.append(made)

    def _as_plan(self, found: JointResult, asked: Asked) -> Plan:
        network = self.verdict.network
        floors = {name: floor for name, floor in self._floors.items() if name not in asked.numbered}
        return make_plan(
            network,
            sanitizers_from_shrink(network, found.shrink),
            "joint",
            replace(asked, floors=floors, given_up=self.given_up),
            details={**reachable(self.verdict), **search_details(found)},
        )
