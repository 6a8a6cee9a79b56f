"""Paying never buys less: what is free stays a floor of every plan that is paid for, unless someone says otherwise.

At no loss the shares reach every ceiling at once, so the vector of all ceilings is feasible within any loss. A plan
that is paid for may not hide a private parameter less than that, for the sake of any other. A number asked of the
parameter says otherwise, since it is what is asked; so does ``give_up``.

A floor that is finite is one more constraint of the search. Where the free plan tells nothing at all of a parameter
(its ceiling is its limit, or without bound), every agent may only send what tells nothing of it either, and the
search goes on within that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.designs.joint import (
    SETTINGS,
    Curve,
    JointCurve,
    JointObjective,
    JointResult,
    Levels,
    SearchOptions,
    Tried,
    inside,
    restricted_to,
)
from veilnet.designs.joint.hidden import both, hiding_what_shares_hide, telling_nothing
from veilnet.designs.many import ManyCurve, are_many
from veilnet.designs.perfect import perfect_plan
from veilnet.model.standard_form import StandardForm
from veilnet.plans.asked import Asked
from veilnet.sums.program import SumProgram, has_program
from veilnet.verdict.exact_test import Verdict

KEPT_OF_FREE = 1e-7
"""A floor lies so far below what the free plan was confirmed to reach, relative, that rounding does not decide."""
NO_PROTECTION = 1e-9
"""Less is not protection, but rounding."""
AT_LIMIT = 1e-6
"""A floor so near its limit, relative, is the limit."""
_CROWD = (
    60  # agents; prices saved up to 43 % of the loss of 160, 12 % of 96, 0.1 % of 48 and nothing of fewer
)


def keeping_what_is_free(verdict: Verdict, asked: Asked) -> Asked:
    """What is asked, with a floor for every parameter that is not spared, where there is another to pay for."""
    if asked.spared >= set(verdict.network.private) or len(verdict.network.private) == 1:
        return asked
    return asked.keeping(floors_of(perfect_plan(verdict, Asked()).privacy, asked.spared))


def floors_of(free: Mapping[str, float], spared: frozenset[str]) -> dict[str, float]:
    """The privacy that a paid plan keeps of each parameter that is not spared; inf where nothing is revealed of it.

    free: the privacies without loss, as they were confirmed.
    """
    return {
        name: reached * (1 - KEPT_OF_FREE)
        for name, reached in free.items()
        if name not in spared and reached > NO_PROTECTION
    }


def in_order(floors: Mapping[str, float], names: Iterable[str]) -> Array:
    """The floors in the order of the names, 0 where there is none."""
    return np.array([floors.get(name, 0.0) for name in names])


def curve_through(
    form: StandardForm, weights: Array, options: SearchOptions, floors: Array | None = None
) -> Curve:
    """The curve of a network: exact where one agent sends all, by prices where its agents are very many.

    Where they are a crowd, the search knows answers to prices: ten starts that agree may all lose twice as much.
    """
    if has_program(form):
        return SumCurve(form, weights, options, floors=floors)
    crowd = form.coupling is None and form.blocks.count >= _CROWD and options.starts != 1
    by_prices = ManyCurve(form, weights, options, floors=floors) if crowd or are_many(form) else None
    if by_prices is not None and are_many(form):
        return by_prices
    return JointCurve(form, weights, options, floors=floors, beside=by_prices)


class FlooredCurve:
    """A trade-off curve on which no privacy falls below its floor.

    The curve without floors is asked first: where its answer breaks none, it is the best with them too.

    plain, kept: make the curves without and with floors.
    floors:      in the order of the private parameters, 0 for none.
    """

    def __init__(self, plain: Callable[[], Curve], kept: Callable[[], Curve], floors: Array) -> None:
        self._make_plain, self._make_kept, self._floors = plain, kept, floors

    def ask(self, *, level: float | None = None, loss: float | None = None) -> tuple[Curve, JointResult]:
        """The least loss at a level, or the most privacy within a loss; and the curve that it is on."""

        def answer(curve: Curve) -> JointResult:
            return curve.within(loss or 0.0) if level is None else curve.at(level)

        found = answer(self._plain)
        if np.all((found.privacy >= self._floors) | (self._floors <= 0)):
            return self._plain, found
        return self._kept, answer(self._kept)

    @cached_property
    def _plain(self) -> Curve:
        return self._make_plain()

    @cached_property
    def _kept(self) -> Curve:
        return self._make_kept()


def row_curve(form: StandardForm, weights: Array, floors: Array, options: SearchOptions) -> FlooredCurve:
    """The curve with floors of a network whose rows are sent one by one."""

    def kept() -> Curve:
        hidden = at_limit(form, floors)
        if not np.any(hidden):
            return curve_through(form, weights, options, floors)
        return Within(form, weights, floors, hidden, options)

    return FlooredCurve(lambda: curve_through(form, weights, options), kept, floors)


class Within:
    """A curve of the plans that tell nothing of some parameters, each at its limit."""

    def __init__(
        self, form: StandardForm, weights: Array, floors: Array, hidden: Booleans, options: SearchOptions
    ) -> None:
        self._objective = JointObjective(form)
        self._faces = hiding_faces(form, hidden, options.seed)
        self._curve = curve_through(
            restricted_to(form, self._faces),
            np.where(hidden, 0.0, weights),
            options,
            np.where(hidden, 0.0, floors),
        )
        self.ceiling, self.limit = self._curve.ceiling, self._curve.limit

    def at(self, level: float) -> JointResult:
        """As :meth:`Curve.at`."""
        return self._as_sent(self._curve.at(level))

    def within(self, budget: float) -> JointResult:
        """As :meth:`Curve.within`."""
        return self._as_sent(self._curve.within(budget))

    def _as_sent(self, found: JointResult) -> JointResult:
        shrink = inside(self._faces, found.shrink)
        return replace(found, shrink=shrink, privacy=self._objective.privacy(shrink))


def at_limit(form: StandardForm, floors: Array) -> Booleans:
    """Which floors are limits: silence leaves no more."""
    objective = JointObjective(form)
    limits = objective.privacy(objective.silent)
    return np.asarray((floors > 0) & (np.isinf(floors) | (floors > limits * (1 - AT_LIMIT))))


def hiding_faces(form: StandardForm, hidden: Booleans, seed: int) -> list[Array]:
    """What every agent may send where nothing is to be revealed of parameters of which free plans reveal nothing."""
    objective = JointObjective(form)
    unbounded = hidden & np.isinf(objective.privacy(objective.silent))
    faces: list[Array] | None = None
    if np.any(unbounded):
        faces = hiding_what_shares_hide(objective, form, unbounded)
    if np.any(hidden & ~unbounded):
        nothing = telling_nothing(form, hidden & ~unbounded, seed)[0]
        faces = nothing if faces is None else both(faces, nothing)
    assert faces is not None
    return faces


_MOST_LOOKS = 100


class SumCurve(Levels):
    """Least loss against the level t, of one agent, perhaps a group of all, with a full prior.

    ceiling, limit: the levels that are free and that silence reaches.
    """

    spent = 1e-10  # each look is exact and costs next to nothing

    def __init__(
        self, form: StandardForm, weights: Array, options: SearchOptions, *, floors: Array | None = None
    ) -> None:
        super().__init__(weights, floors)
        self._program, self._objective, self._tell = SumProgram(form), JointObjective(form), options.tell
        self.ceiling, self.limit = (
            self.reached(self._objective.privacy(shrink))
            for shrink in (self._objective.shares(), self._objective.silent)
        )

    def at(self, level: float) -> JointResult:
        """The least loss at a level between the ceiling and the limit."""
        found = self._program.least_loss(self.targets(level))
        shrink = [self._program.shrink(found.known)]
        at = self._objective(shrink)
        bound = self._program.least_loss_above(found.multipliers, self.targets(level))
        residual = max(0.0, at.loss / bound - 1.0) if bound > 0 else 0.0
        return JointResult(
            shrink, at.loss, at.privacy, 1, 1, found.steps, residual, False, [], found.multipliers
        )

    def within(self, budget: float) -> JointResult:
        """The largest level whose loss is at most ``budget``."""
        low, high = self.ceiling, self.limit * (1 - SETTINGS.near_limit)
        free, most = self.at(low), self.at(high)
        if most.loss <= budget or budget <= 0 or high <= low:
            return most if most.loss <= budget else free
        inside, _ = self.affordable(
            self.at, budget, Tried(low, free), Tried(high, most), free=low, steps=_MOST_LOOKS
        )
        return inside.found or free
