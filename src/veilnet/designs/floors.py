"""Paying never buys less: what is free stays a floor of every plan that is paid for, unless someone says otherwise.

At no loss the shares reach every ceiling at once, so the vector of all ceilings is feasible within any loss. A plan
that is paid for may not hide a private parameter less than that, whoever else it is made for. A number asked of the
parameter says otherwise, since it is what is asked; so does ``give_up``.

A floor that is finite is one more constraint of the search. Where the free plan tells nothing at all of a parameter
(its ceiling is its limit, or without bound), every agent may only send what tells nothing of it either, and the
search goes on within that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import refuse_unknown
from veilnet.designs.joint import Curve, JointObjective, JointResult, inside, within
from veilnet.designs.joint.withholding import both, hiding_what_shares_hide, telling_nothing
from veilnet.designs.many import ManyCurve, are_many
from veilnet.model.network import Network
from veilnet.model.standard_form import StandardForm
from veilnet.plans.plan import Plan

# A floor lies so far below what the free plan was confirmed to reach, relative, that rounding does not decide.
KEPT_OF_FREE = 1e-7
_NOTHING = 1e-9  # less is not protection, but rounding
# A floor so near its limit, relative, is the limit.
_AT_LIMIT = 1e-6


def read_give_up(network: Network, give_up: Any) -> frozenset[str]:
    """The names given up: one, or several."""
    names = [give_up] if isinstance(give_up, str) or not isinstance(give_up, Iterable) else list(give_up)
    if not all(isinstance(name, str) for name in names):
        raise InvalidRequest(
            f"give_up: expected the name of a private parameter, or several, found {give_up!r}"
        )
    refuse_unknown(names, list(network.private), "give_up", error=InvalidRequest)
    return frozenset(names)


def noting(plan: Plan, given_up: frozenset[str]) -> Plan:
    """The plan with a note of what was given up, where that could matter."""
    if not given_up or plan.method != "joint":
        return plan
    return replace(plan, details=MappingProxyType({**plan.details, "given_up": sorted(given_up)}))


def floors_of(free: Plan, spared: frozenset[str]) -> dict[str, float]:
    """The privacy that a paid plan keeps of each parameter that is not spared; inf where nothing is told of it.

    free: the plan without loss, as it was confirmed.
    """
    return {
        name: reached * (1 - KEPT_OF_FREE)
        for name, reached in free.privacy.items()
        if name not in spared and reached > _NOTHING
    }


def in_order(floors: Mapping[str, float], names: Iterable[str]) -> Array:
    """The floors in the order of the names, 0 where there is none."""
    return np.array([floors.get(name, 0.0) for name in names])


def curve_through(form: StandardForm, weights: Array, **options: Any) -> Curve | ManyCurve:
    """The curve of a network: by prices where its agents are very many."""
    return ManyCurve(form, weights, **options) if are_many(form) else Curve(form, weights, **options)


class FlooredCurve:
    """A trade-off curve on which no privacy falls below its floor.

    The curve without floors is asked first: where its answer breaks none, it is the best with them too.
    """

    def __init__(self, form: StandardForm, weights: Array, floors: Array, **options: Any) -> None:
        self._form, self._weights, self._floors, self._options = form, weights, floors, options

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        found = self._plain.at(level)
        return found if self._keeps(found) else self._kept.at(level)

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        found = self._plain.within(budget)
        return found if self._keeps(found) else self._kept.within(budget)

    def _keeps(self, found: JointResult) -> bool:
        return bool(np.all((found.privacy >= self._floors) | (self._floors <= 0)))

    @cached_property
    def _plain(self) -> Curve | ManyCurve:
        return curve_through(self._form, self._weights, **self._options)

    @cached_property
    def _kept(self) -> Curve | ManyCurve | Within:
        hidden = at_limit(self._form, self._floors)
        if not np.any(hidden):
            return curve_through(self._form, self._weights, floors=self._floors, **self._options)
        return Within(self._form, self._weights, self._floors, hidden, **self._options)


class Within:
    """A curve of the plans that tell nothing of some parameters, each at its limit."""

    def __init__(
        self, form: StandardForm, weights: Array, floors: Array, hidden: Booleans, **options: Any
    ) -> None:
        self._objective = JointObjective(form)
        self._faces = hiding_faces(form, hidden, options.get("seed", 0))
        self._curve = curve_through(
            within(form, self._faces),
            np.where(hidden, 0.0, weights),
            floors=np.where(hidden, 0.0, floors),
            **options,
        )

    def at(self, level: float) -> JointResult:
        """As :meth:`FlooredCurve.at`."""
        return self._as_sent(self._curve.at(level))

    def within(self, budget: float) -> JointResult:
        """As :meth:`FlooredCurve.within`."""
        return self._as_sent(self._curve.within(budget))

    def _as_sent(self, found: JointResult) -> JointResult:
        shrink = inside(self._faces, found.shrink)
        privacy = self._objective.with_infinities(shrink, self._objective(shrink).privacy)
        return replace(found, shrink=shrink, privacy=privacy)


def at_limit(form: StandardForm, floors: Array) -> Booleans:
    """Which floors are limits: silence leaves no more."""
    objective = JointObjective(form)
    silent = [np.zeros((group.count, group.size, group.size)) for group in objective.groups]
    limits = objective.with_infinities(silent, objective(silent).privacy)
    return np.asarray((floors > 0) & (np.isinf(floors) | (floors > limits * (1 - _AT_LIMIT))))


def hiding_faces(form: StandardForm, hidden: Booleans, seed: int) -> list[Array]:
    """What every agent may send where nothing is to be told of parameters of which free plans tell nothing."""
    objective = JointObjective(form)
    silent = [np.zeros((group.count, group.size, group.size)) for group in objective.groups]
    unbounded = hidden & np.isinf(objective.with_infinities(silent, objective(silent).privacy))
    faces: list[Array] | None = None
    if np.any(unbounded):
        faces = hiding_what_shares_hide(objective, form, unbounded)
    if np.any(hidden & ~unbounded):
        nothing = telling_nothing(form, hidden & ~unbounded, seed)[0].shrink
        faces = nothing if faces is None else both(faces, nothing)
    assert faces is not None
    return faces
