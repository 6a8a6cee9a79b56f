"""Trade-offs of a network in parts: prices go to all parts, L x L sums come back.

The search is that for very many agents in one piece (:mod:`veilnet.designs.many`), and every number it decides by is
a sum over parts in an order of their own; so it takes the same steps with any number of workers, with none, and after
some died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.cluster.answering import Asking, remembered
from veilnet.cluster.parts import PartFile, Parts
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import PlanSums, Summed, key_of, sent_sums
from veilnet.designs.floors import floors_of
from veilnet.designs.joint import SETTINGS, SearchOptions
from veilnet.designs.many import (
    SAMPLE_ENTRIES,
    Crowd,
    Effort,
    ManySearch,
    Question,
    Rule,
    evenly,
    mixed,
    search_closed_forms,
    standing_for,
)
from veilnet.designs.shrink import normal_rows
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked

EFFORT = Effort(first=20, steps=20, rounds=2, last=20)
"""Passes over all parts: fewer than in one piece, as each reads or asks for all of them."""
_WITHOUT_BOUND = 1e12


@dataclass(frozen=True, eq=False)
class White:
    """R_i^-½ H_i T^-1 of the agents of a part, (s, n, L).

    change: T^-1 of the raw information T'T of all agents and the prior.
    """

    change: Array

    def stacks(self, part: PartFile) -> Sequence[Array]:
        """As :meth:`veilnet.cluster.answering.Prepared.stacks`."""
        observe, roots = part.network.stacked, part.network.roots
        return [
            solve_lower_batch(roots[some], observe[some]) @ self.change
            for some in some_at_a_time(*observe.shape)
        ]


@dataclass(frozen=True, eq=False)
class Chosen(Summed):
    """Agents that stand for others: their readings, (s, n, L), and for how many each of a stack stands."""

    stacks: tuple[Array, ...]
    stand_for: tuple[float, ...]


def chosen_agents(part: PartFile, white: White, fraction: float) -> Chosen:
    """A task: a fraction of the agents of a part, evenly spread, at least one."""
    stack = np.concatenate(remembered(part, white))
    places = evenly(len(stack), fraction)
    return Chosen((stack[places],), (len(stack) / len(places),))


def mixture_sums(part: PartFile, white: White, recipes: Sequence[Rule], weights: Array) -> PlanSums:
    """The last pass: what every agent of a part sends in a mixture, written as a part of the plan."""

    def make() -> tuple[Array, Array, Integers]:
        shrink = [mixed(recipes, weights, each) for each in white.stacks(part)]
        return normal_rows(np.concatenate(shrink), part.network.roots)

    return sent_sums(part, key_of(part.digest, white, weights, *recipes), make)


class PartsCrowd(Crowd):
    """All agents of a network in parts."""

    def __init__(self, parts: Parts, whole: Network, client: Any) -> None:
        super().__init__(standard_form(whole))
        self.white = White(whole.in_raw_coordinates(np.eye(parts.length)))
        self.asking = Asking(parts, self.white, client, self.wanted)

    def summed(self, answer: Callable[..., Any], *asked: Any) -> tuple[Array, ...]:
        """As :meth:`veilnet.designs.many.Crowd.summed`."""
        return self.asking.answered(answer, *asked)


class PartsTradeoff:
    """The trade-offs of a network in parts."""

    def __init__(
        self, parts: Parts, whole: Network, readings: int, options: SearchOptions, client: Any
    ) -> None:
        self._parts, self._client, self._progress = parts, client, options.progress
        self._crowd = PartsCrowd(parts, whole, client)
        self._names = list(whole.private)
        share = SAMPLE_ENTRIES * parts.agents / readings**2
        chosen: Chosen = over_parts(chosen_agents, parts, self._crowd.white, share, client=client)
        with one_thread():
            sample = standing_for(self._crowd.form, chosen.stacks, chosen.stand_for)
            self._search = ManySearch(self._crowd, sample, options, EFFORT)
            search_closed_forms(self._search, self._crowd.form, np.ones(len(self._names), bool))

    @property
    def ceiling(self) -> dict[str, float]:
        """Name -> privacy that is free."""
        return dict(zip(self._names, self._search.ceiling.tolist(), strict=True))

    def keeping(self, asked: Asked, limit: Mapping[str, float]) -> Asked:
        """What is asked, refused where the search for parts has no answer; what is free becomes a floor, but for what
        is spared.
        """
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

    def answer(self, asked: Asked, margin: float) -> tuple[PlanSums, dict[str, Any]]:
        """The mixture found, aimed at with a margin so that rounding decides nothing, and written by all parts; its
        sums, and how it was found.
        """
        wanted, kept, divided = (
            np.array([(each or {}).get(name, 0.0) for name in self._names])
            for each in (asked.targets, asked.floors, asked.weights)
        )
        question = Question(np.maximum(wanted * (1 + margin), kept))
        if asked.most_loss is not None:
            question = Question(kept, divided, asked.most_loss * (1 - margin))
        with one_thread():
            found, agreed = self._search.answer(question)
        sums: PlanSums = over_parts(
            mixture_sums, self._parts, self._crowd.white, found.recipes, found.weights, client=self._client,
            progress=self._progress, what="writing the plan",
        )  # fmt: skip
        return sums, {
            "starts": self._search.starts,
            "starts_agreed": agreed,
            "iterations": found.passes,
            "kkt_residual": found.gap,
            "interrupted": found.interrupted or self._search.stopped,
            **({"given_up": sorted(asked.given_up)} if asked.given_up else {}),
        }

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        self._crowd.asking.forget()
