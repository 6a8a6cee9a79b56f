"""Trading utility for privacy on a stream: agents send noisy combinations of their readings and their memories.

Above the ceiling privacy costs utility. The family of messages contains every memoryless sanitizer and the share
filters themselves, and the search begins at the best of both (mathematics, section 7). Nothing is proved of how far
from the best possible the answer is: ``plan.gap`` is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.designs.floors import AT_LIMIT, FlooredCurve, in_order
from veilnet.designs.joint import JointResult, SearchOptions
from veilnet.designs.perfect import reachable
from veilnet.designs.streams.arrays import memories_of, sanitizers_from_knowledge
from veilnet.designs.streams.curve import StreamCurve, carrying
from veilnet.designs.streams.knowledge import JointState, ShareFilter, knowledge_of
from veilnet.designs.streams.limit import restricted, telling_nothing_of
from veilnet.designs.tradeoff import MARGINS, Answer, CannotKeep, Tradeoff, confirmed_plan, search_details
from veilnet.model.stream_size import MOST_JOINT, by_stacks
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.streams.exact_test import StreamVerdict

# Where agents would send nearly the same number several times over without noise, no figure can be trusted; each
# number then gets noise of this part of its variance, and the design is settled again with it.
_FINEST = (1e-6, 1e-5, 1e-4)


class StreamTradeoff(Tradeoff):
    """The trade-offs of one stream, each question a search over what agents know from their own past."""

    verdict: StreamVerdict

    def __init__(self, verdict: StreamVerdict, options: SearchOptions) -> None:
        super().__init__(verdict, options)
        network = verdict.network
        if by_stacks(network):
            raise InvalidRequest(
                "network: trade-offs on streams are searched for with all agents in one state, up to "
                f"{MOST_JOINT} agents times parameters, found {network.S} x {network.L}; ask for what is free "
                "(privacy=0, which share filters give without loss), design for network.one_row, or for a part of "
                "the network"
            )

    def curve(self, weights: Array, floors: Mapping[str, float]) -> FlooredCurve:
        """As :meth:`Tradeoff.curve`."""

        def plain() -> StreamCurve:
            return StreamCurve(self.knowledge, self._plain, weights, self.options)

        def kept() -> StreamCurve:
            hidden = self._hidden(floors)
            knowledge = self.knowledge
            if hidden:
                self._refuse_wandering(hidden[0])
                knowledge = self._telling_nothing_of(hidden, sharing=True)
            apart = np.array([name in hidden for name in names])
            others = np.where(apart, 0.0, in_floors)
            return StreamCurve(
                knowledge,
                None if hidden else self._plain,
                np.where(apart, 0.0, weights),
                self.options,
                floors=others,
            )

        names = self.verdict.network.private
        in_floors = in_order(floors, names)
        return FlooredCurve(plain, kept, in_floors)

    def _answers(self, curve: FlooredCurve, aims: list[dict[str, float]]) -> Iterator[Answer]:
        yield from self._settled(*curve.ask(**aims[0]), aims)

    def _settled(
        self, on: Any, found: JointResult, aims: list[dict[str, float]], **more: Any
    ) -> Iterator[Answer]:
        """What was found; then taken a little further; then with a little noise in every number."""
        yield self._answer(on, found, more)
        for aim in aims[1:]:
            yield self._answer(on, on.nudged(found, **aim), more)
        for finest in _FINEST:
            yield self._answer(on, on.softened(found, finest, **aims[-2]), more, finest)

    def _answer(
        self, on: StreamCurve, found: JointResult, more: Mapping[str, Any], finest: float = 0.0
    ) -> Answer:
        """What agents send; ``finest`` is the least noise of a number that it was made for."""
        shrink = carrying(on.objective, found.shrink)
        made = sanitizers_from_knowledge(
            self.verdict.network, on.objective.knowledge, self._filters, shrink, finest=finest
        )
        return made, {**reachable(self.verdict), **search_details(found), **more}

    def _hidden(self, floors: Mapping[str, float]) -> list[str]:
        """The parameters whose floor is their limit."""
        limits = self.verdict.limit
        return [
            name for name, floor in floors.items() if np.isinf(floor) or floor > limits[name] * (1 - AT_LIMIT)
        ]

    def _refuse_wandering(self, name: str) -> None:
        dynamics = self.verdict.network.dynamics
        if dynamics is None or not dynamics.stable:
            raise CannotKeep(
                f"privacy: for free, {name} is as hidden as by silence. On a stream that partly wanders off, no "
                f"paid-for plan is known that keeps it so; give_up={name!r} (--give-up) allows less"
            )

    def _telling_nothing_of(self, names: list[str], *, sharing: bool = False) -> JointState:
        """What agents may use where nothing is to be revealed of some parameters."""
        private = list(self.verdict.network.private)
        about = np.vstack([self.knowledge.private[private.index(name)] for name in names])
        return restricted(self.knowledge, telling_nothing_of(self.knowledge, about), sharing=sharing)

    @cached_property
    def knowledge(self) -> JointState:
        """What agents know with the memories of their share filters."""
        return knowledge_of(self.verdict.network, self._filters)

    @cached_property
    def _filters(self) -> list[ShareFilter]:
        return memories_of(self.verdict.network, self.verdict.shares)

    @cached_property
    def _plain(self) -> JointState:
        return knowledge_of(self.verdict.network, None)

    def _at_the_limit(self, near: list[str], asked: Asked) -> Plan:
        """Everything but what informs about the parameters at their limit, less what other targets ask."""
        network, floors = self.verdict.network, asked.floors
        if network.dynamics is None or not network.dynamics.stable:
            name = near[0]
            raise InvalidRequest(
                f"privacy: {name} was asked to stay as hidden as silence leaves it, and on a stream of which a part "
                "wanders off what tells nothing of it cannot be found; ask for a little less than its limit of "
                f"{number(self.verdict.limit[name])}"
            )
        unseen = [*near, *self._hidden(floors)]
        knowledge = self._telling_nothing_of(unseen)
        others = np.array(
            [
                0.0 if name in unseen else max(target, floors.get(name, 0.0))
                for name, target in asked.targets.items()
            ]
        )
        details = {**reachable(self.verdict), "tells_nothing_of": near}
        if knowledge.blocks.total == 0:
            sizes = zip(network.agents, network.blocks.sizes, strict=True)
            silent = {agent: Sanitizer.silent(int(size), agent=agent) for agent, size in sizes}
            return make_plan(network, silent, "joint", asked, details=details)
        on = StreamCurve(knowledge, None, others if np.any(others) else others + 1, self.options)
        if np.all(on.objective(on.sharing).privacy >= others):
            made = sanitizers_from_knowledge(network, knowledge, self._filters, on.sharing)
            return make_plan(network, made, "joint", asked, details=details)
        aims = [{"level": float(others.max()) * (1 + margin)} for margin in MARGINS]
        answers = self._settled(on, on.at(aims[0]["level"]), aims, tells_nothing_of=near)
        return confirmed_plan(network, answers, asked)
