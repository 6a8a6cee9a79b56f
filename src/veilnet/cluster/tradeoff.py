"""Trade-offs of a network in parts: prices go to all parts, L x L sums come back.

The search is that for very many agents in one piece (:mod:`veilnet.designs.many`), and every number it decides by is
a sum over parts in an order of their own; so it takes the same steps with any number of workers, with none, and after
some died. What was answered is kept in ``plan/search`` until the plan is there: a run that was cut off goes on where
it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.cluster.answering import (
    answer_sums,
    chosen_agents,
    chosen_together,
    key_of,
    mixture_sums,
    pull_sums,
)
from veilnet.cluster.asking import Asking
from veilnet.cluster.parts import Parts
from veilnet.cluster.tasks import BatchSums
from veilnet.designs.floors import floors_of
from veilnet.designs.joint import SETTINGS, SearchOptions
from veilnet.designs.many import (
    SAMPLE_ENTRIES,
    Effort,
    Known,
    ManySearch,
    Question,
    Rule,
    columns_of,
    search_closed_forms,
    standing_for,
)
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked

EFFORT = Effort(first=20, steps=20, rounds=2, last=20)
"""Passes over all parts: fewer than in one piece, as each reads or asks for all of them."""
_WITHOUT_BOUND = 1e12


class PartsCrowd:
    """All agents of a network in parts, as :class:`veilnet.designs.many.Crowd`."""

    def __init__(self, parts: Parts, whole: Network, client: Any) -> None:
        self.form = standard_form(whole)
        self.wanted, self.owner = columns_of(self.form)
        self.change = whole.in_raw_coordinates(np.eye(parts.length))
        self._where = (parts.folder, parts.length, self.change)
        self._asking = Asking(parts, client, key_of(self.change, self.wanted))

    def ask(self, recipe: Rule) -> Known:
        """As :meth:`veilnet.designs.many.Crowd.ask`."""
        told, hidden = self._asking.answered(answer_sums, self._where, (recipe, self.wanted))
        return Known(self.form.information + told, hidden)

    def pull(self, recipe: Rule, estimate: Array, worths: Array) -> Array:
        """As :meth:`veilnet.designs.many.Crowd.pull`."""
        return self._asking.answered(pull_sums, self._where, (recipe, estimate, worths))[0]

    def chosen(self, part: float) -> tuple[tuple[Array, ...], tuple[float, ...]]:
        """A part of all agents, and for how many each stands."""
        found = self._asking.over_batches(chosen_agents, arguments=(*self._where, part), join=chosen_together)
        return found.stacks, found.stand_for

    def send(self, recipes: tuple[Rule, ...], weights: Array, progress: Progress | None) -> BatchSums:
        """Write what everybody sends in a mixture, and add up what is known from it."""
        found: BatchSums = self._asking.over(
            mixture_sums,
            arguments=(self.change, recipes, weights),
            progress=progress,
            what="writing the plan",
        )
        return found

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        self._asking.forget()


def question_of(asked: Asked, names: list[str], margin: float) -> Question:
    """What is asked, for the search, aimed at with a margin so that rounding decides nothing."""
    wanted, kept, divided = (
        np.array([(each or {}).get(name, 0.0) for name in names])
        for each in (asked.targets, asked.floors, asked.weights)
    )
    if asked.most_loss is not None:
        return Question(kept, divided, asked.most_loss * (1 - margin))
    return Question(np.maximum(wanted * (1 + margin), kept))


def refuse_beyond(targets: Mapping[str, float], limit: Mapping[str, float], slack: float = 0.0) -> None:
    """Refuse what not even silence reaches.

    limit: name -> what the prior allows at most.
    slack: by how much a target may be above it, relative to 1 plus the limit.
    """
    for name, target in targets.items():
        if target > limit[name] + slack * (1 + limit[name]):
            raise Infeasible(
                f"privacy: {name} can reach {limit[name]:.6g} at most, by silence, found {target:.6g}; ask for less"
            )


class PartsTradeoff:
    """The trade-offs of a network in parts."""

    def __init__(
        self, parts: Parts, whole: Network, readings: int, starts: int | None, seed: int, progress: Progress | None,
        client: Any,
    ) -> None:  # fmt: skip
        self.crowd = PartsCrowd(parts, whole, client)
        self._names = list(whole.private)
        stacks, stand_for = self.crowd.chosen(SAMPLE_ENTRIES * parts.agents / readings**2)
        with one_thread():
            sample = standing_for(self.crowd.form, stacks, stand_for)
            self._search = ManySearch(self.crowd, sample, SearchOptions(starts, seed, progress), EFFORT)
            search_closed_forms(self._search, self.crowd.form, np.ones(len(self._names), bool))

    @property
    def ceiling(self) -> dict[str, float]:
        """Name -> privacy that is free."""
        return dict(zip(self._names, self._search.ceiling.tolist(), strict=True))

    def keeping(self, asked: Asked, limit: Mapping[str, float]) -> Asked:
        """What is asked, refused where the search for parts has no answer; what is free becomes a floor, but for what
        is spared.
        """
        refuse_beyond(asked.targets, limit)
        for name, target in asked.targets.items():
            if 0 < target > limit[name] * (1 - SETTINGS.near_limit):
                raise InvalidRequest(
                    f"privacy: {name} is asked for at its very limit, {limit[name]:.6g}; networks in parts reach any "
                    "privacy below it: ask for a little less"
                )
        unbounded = [name for name, free in self.ceiling.items() if free > _WITHOUT_BOUND]
        if unbounded:
            raise InvalidRequest(
                f"privacy: {unbounded[0]} is hidden without bound for free, which sums in doubles cannot keep; give "
                "save_parts a prior, or design without a target"
            )
        return asked.keeping(floors_of(self.ceiling, asked.spared) if len(self._names) > 1 else {})

    def answer(
        self, asked: Asked, margin: float, progress: Progress | None
    ) -> tuple[BatchSums, dict[str, Any]]:
        """The mixture found, written by all parts; its sums, and how it was found."""
        with one_thread():
            found, agreed = self._search.answer(question_of(asked, self._names, margin))
        sums = self.crowd.send(found.recipes, found.weights, progress)
        return sums, {
            "starts": self._search.starts,
            "starts_agreed": agreed,
            "iterations": found.passes,
            "kkt_residual": found.gap,
            "interrupted": found.interrupted or self._search.stopped,
            **({"given_up": sorted(asked.given_up)} if asked.given_up else {}),
        }
