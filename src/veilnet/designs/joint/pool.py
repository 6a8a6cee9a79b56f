"""Plans worth starting from, for every privacy on one curve: what a batch of scouts found at a few levels of it.

The levels depend on the network alone, never on the privacy asked, so that whoever asks for one point or for twenty
looks at the same plans. Descent does not take an agent from sending to silence where everything in between is
dearer, so the best plan of each level is tried again with one agent silent, or sending all it has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.hidden import hiding
from veilnet.designs.joint.objective import JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.scout import Batch, BatchObjective, Scouted, scout
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.starts import (
    random_projectors,
    random_shrink,
    share_projectors,
    silence,
    turned_about,
    unseen_by,
)
from veilnet.designs.joint.telling import Teller
from veilnet.model.standard_form import StandardForm

_TINY = np.finfo(float).tiny


def room_of(objective: JointObjective, targets: Array) -> Array:
    """How far targets lie from the ceiling below and from the limit above, in logarithms."""
    sharing = share_projectors(objective)
    wanted = np.log(np.maximum(targets, _TINY))
    ceiling = np.log(np.maximum(objective(sharing).privacy, _TINY))
    limit = np.log(np.maximum(objective([0 * x for x in sharing]).privacy, _TINY))
    return np.asarray(
        np.minimum(np.where(wanted > ceiling, wanted - ceiling, np.inf), np.abs(limit - wanted))
    )


def least_loss_problem(objective: JointObjective, targets: Array) -> LeastLoss:
    """The problem of least loss, privacy counted in units of the room there is."""
    return LeastLoss(targets, room_of(objective, targets))


class Pool:
    """Starts for any level of a curve.

    plans:   X of each plan kept.
    scouted: how many starts were made to find them, with ``iterations`` in all.
    """

    def __init__(
        self,
        form: StandardForm,
        objective: JointObjective,
        known: Sequence[list[Array]],
        levels: Sequence[Array],
        starts: int,
        seed: int,
        tell: Teller,
    ) -> None:
        self._objective = objective
        self._batch = BatchObjective(form)
        self.plans: list[list[Array]] = [share_projectors(objective), *known]
        self.scouted = 0
        rng = np.random.default_rng([seed, 3])
        blind = unseen_by(form.public)
        kinds = (
            lambda: hiding(objective, blind @ rng.standard_normal(blind.shape[1])),
            lambda: silence(objective, rng),
            lambda: random_shrink(objective, rng),
            lambda: random_projectors(objective, rng),
        )
        drawn = [
            (self.plans[0], *(kinds[number % 4]() for number in range(max(starts - 1, 0)))) for _ in levels
        ]
        tell("scouting", 0.1)
        scouted = self._scout(drawn, levels, SETTINGS.cold_margin, SETTINGS.scout_schedule)
        tell("scouting", 0.7)
        turned = [
            [point for leader in leaders(reached, targets, 1) for point in turned_about(reached.one(leader))]
            for reached, targets in zip(scouted, levels, strict=True)
        ]
        settled = self._scout(turned, levels, 0.0, SETTINGS.visit_schedule) if any(turned) else scouted
        tell("scouting", 1.0)
        for reached, again, targets in zip(scouted, settled, levels, strict=True):
            both = reached.and_(again)
            self.plans += [both.one(leader) for leader in leaders(both, targets, SETTINGS.kept_per_level)]
        self.scouted = sum(map(len, drawn)) + sum(map(len, turned))
        self.iterations = sum(
            sum(map(len, points)) * sum(steps for steps, _ in schedule)
            for points, schedule in ((drawn, SETTINGS.scout_schedule), (turned, SETTINGS.visit_schedule))
        )

    def visit(self, targets: Array) -> Scouted:
        """Every plan of the pool, taken to these targets."""
        return self._scout(
            [self.plans], [targets], SETTINGS.warm_margin, SETTINGS.visit_schedule, follow=True
        )[0]

    def _scout(
        self,
        points: Sequence[Sequence[list[Array]]],
        levels: Sequence[Array],
        margin: float,
        schedule: Sequence[tuple[int, float]],
        *,
        follow: bool = False,
    ) -> list[Scouted]:
        """All points at once, some for each of the levels; where they came to, level by level."""
        counts = [len(each) for each in points]
        every = [point for each in points for point in each]
        stacked: Batch = [np.stack([point[g] for point in every]) for g in range(len(self._objective.groups))]
        rooms = [np.clip(room_of(self._objective, targets), 1e-6, 1.0) for targets in levels]
        caps = []
        for targets in levels:
            enough = least_loss_problem(self._objective, targets)
            retreated = enough.retreat(self._objective, self.plans[0])
            caps.append(max(self._objective(retreated).loss, _TINY))
        cap = np.repeat(caps, counts)
        losses = np.array([self._objective(point).loss for point in every])
        reached = scout(
            self._batch,
            stacked,
            np.repeat(np.array(levels), counts, axis=0),
            np.repeat(np.array(rooms), counts, axis=0),
            np.minimum(np.maximum(0.3 * losses, 0.01 * cap), cap),
            np.full(len(every), margin),
            schedule,
            follow=follow,
        )
        ends = np.cumsum(counts)
        return [reached.part(slice(end - count, end)) for end, count in zip(ends, counts, strict=True)]


def leaders(reached: Scouted, targets: Array, count: int) -> list[int]:
    """The best few of a batch, nearly feasible ones first, no two of them alike."""
    with np.errstate(divide="ignore"):
        missing = np.max(
            np.where(targets > 0, np.log(targets / np.maximum(reached.privacy, _TINY)), 0.0), axis=1
        )
    order = np.lexsort([reached.estimate, missing > SETTINGS.nearly_feasible])
    chosen: list[int] = []
    for place in order:
        if len(chosen) == count:
            break
        if not np.isfinite(reached.estimate[place]):
            continue
        if not any(_alike(reached, int(place), other) for other in chosen):
            chosen.append(int(place))
    return chosen


def _alike(reached: Scouted, one: int, other: int) -> bool:
    near = abs(reached.estimate[one] - reached.estimate[other]) < SETTINGS.same_loss
    return bool(
        near or all(float(np.abs(x[one] - x[other]).max()) < SETTINGS.same_place for x in reached.shrink)
    )
