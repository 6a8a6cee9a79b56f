"""Trading utility for privacy on a stream: agents send noisy combinations of their readings and their memories.

Above the ceiling privacy costs utility. The family of messages contains every memoryless sanitizer and the share
filters themselves, and the search begins at the best of both (mathematics, section 7). Nothing is proved of how far
from the best possible the answer is: ``plan.gap`` is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.knowledge import StreamKnowledge, stream_knowledge
from veilnet.designs.floors import floors_of, in_order
from veilnet.designs.joint.search import JointResult
from veilnet.designs.questions import read_weights
from veilnet.designs.streams.arrays import memories_of, sanitizers_from_knowledge, stream_of
from veilnet.designs.streams.curve import StreamCurve
from veilnet.designs.streams.knowledge import Knowledge, ShareFilter, knowledge_of
from veilnet.designs.streams.limit import restricted, telling_nothing_of
from veilnet.designs.streams.perfect import perfect_stream_plan
from veilnet.designs.tradeoff import MARGINS, told
from veilnet.model.network import Network
from veilnet.model.stream_size import MOST_JOINT, by_stacks
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.streams.exact_test import StreamVerdict

_AT_LIMIT = 1e-7  # a target so near its limit, relative, counts as the limit
_FLOOR_AT_LIMIT = 1e-6  # likewise a floor, which is a little below what is free
_ROUNDING = 1e-9
# Where agents would send nearly the same number several times over without noise, no figure can be trusted; each
# number then gets noise of this part of its variance, and the design is settled again with it.
_FINEST = (1e-6, 1e-5, 1e-4)


@dataclass(frozen=True, eq=False)
class StreamTradeoff:
    """The trade-offs of one stream, each question a search over what agents know from their own past.

    verdict: what is free on the stream.
    starts, seed, progress: of the searches, as in :func:`veilnet.design`.
    given_up: private parameters that need not keep what is free of them.
    """

    verdict: StreamVerdict
    starts: int | None = None
    seed: int = 0
    progress: Progress | None = None
    given_up: frozenset[str] = frozenset()

    def curve(self, weights: Array) -> StreamCurve:
        """The curve of least loss against privacy, divided between the private parameters by ``weights``."""
        _refuse_many(self.verdict.network)
        return self._curve(self.knowledge, self._plain, weights)

    def least_loss(self, targets: Mapping[str, float], curve: StreamCurve | None = None) -> Plan:
        """The plan of least loss that reaches every target and keeps every floor; ``curve`` where one was begun."""
        _refuse_many(self.verdict.network)
        at_limit = [name for name, target in targets.items() if self._at_limit(name, target)]
        if at_limit:
            return self._at_the_limit(at_limit, targets)
        wanted = np.array(list(targets.values()))
        asked = curve or self.curve(wanted)
        level = float(wanted.max())
        if self._keeps(asked.at(level * (1 + MARGINS[0]))):
            return self._least_loss(asked, level, self.knowledge, targets)
        floored, knowledge = self._floored(wanted)
        return self._least_loss(floored, level, knowledge, targets)

    def most_privacy(self, loss: float, weights: Mapping[str, float] | None) -> Plan:
        """The plan with p_j >= t·weights_j for the largest common t and no floor broken, losing at most ``loss``."""
        _refuse_many(self.verdict.network)
        divided = read_weights(self.verdict.network, weights)
        curve, knowledge = self.curve(divided), self.knowledge
        found = curve.within(loss)
        if not self._keeps(found):
            try:
                curve, knowledge = self._floored(divided)
            except InvalidRequest as refusal:
                remark = str(refusal).removeprefix("privacy: ")
                return perfect_stream_plan(
                    self.verdict, {}, remark=f"this is the most privacy at no loss: {remark}"
                )
            found = curve.within(loss)

        def answers() -> Iterator[tuple[JointResult, float]]:
            yield found, 0.0
            for margin in MARGINS:
                yield curve.nudged(found, loss=loss * (1 - margin)), 0.0
            for finest in _FINEST:
                yield curve.softened(found, finest, loss=loss * (1 - MARGINS[1])), finest

        def holds(known: StreamKnowledge) -> bool:
            return -known.utility <= loss * (1 + _ROUNDING) and self._kept_by(known)

        try:
            return self._first_confirmed(answers(), knowledge, holds, most_loss=loss, floors=self.floors)
        except InvalidPlan:
            # Share filters lose nothing, and so keep within any loss.
            remark = "this is the most privacy at no loss: no plan that uses the loss allowed was confirmed"
            return perfect_stream_plan(self.verdict, {}, remark=remark)

    @cached_property
    def floors(self) -> dict[str, float]:
        """What plans that are paid for keep of what is free (:mod:`veilnet.designs.floors`)."""
        names = set(self.verdict.network.private)
        if len(names) == 1 or self.given_up >= names:
            return {}
        return floors_of(perfect_stream_plan(self.verdict, {}), self.given_up)

    def _kept_by(self, known: StreamKnowledge) -> bool:
        return all(known.privacy[name] >= floor for name, floor in self.floors.items())

    def _keeps(self, found: JointResult) -> bool:
        return bool(np.all(found.privacy >= in_order(self.floors, self.verdict.network.private)))

    def _floored(self, weights: Array) -> tuple[StreamCurve, Knowledge]:
        """The curve whose plans keep the floors, and what agents may use of their knowledge on it."""
        key = tuple((weights / np.max(weights)).tolist())
        if key not in self._curves:
            hidden = [name for name, floor in self.floors.items() if self._is_limit(name, floor)]
            knowledge = self.knowledge
            if hidden:
                self._refuse_wandering(hidden[0])
                knowledge = self._telling_nothing_of(hidden, sharing=True)
            apart = np.array([name in hidden for name in self.verdict.network.private])
            floors = np.where(apart, 0.0, in_order(self.floors, self.verdict.network.private))
            plain = None if hidden else self._plain
            self._curves[key] = (
                self._curve(knowledge, plain, np.where(apart, 0.0, weights), floors),
                knowledge,
            )
        return self._curves[key]

    @cached_property
    def _curves(self) -> dict[tuple[float, ...], tuple[StreamCurve, Knowledge]]:
        return {}

    def _is_limit(self, name: str, floor: float) -> bool:
        return bool(np.isinf(floor) or floor > self.verdict.limit[name] * (1 - _FLOOR_AT_LIMIT))

    def _refuse_wandering(self, name: str) -> None:
        dynamics = self.verdict.network.dynamics
        if dynamics is None or not dynamics.stable:
            raise InvalidRequest(
                f"privacy: for free, {name} is as hidden as silence leaves it, and on a stream that partly wanders "
                f"off no plan is known that is paid for and keeps it so; give_up={name!r} (--give-up) allows less"
            )

    def _telling_nothing_of(self, names: list[str], *, sharing: bool = False) -> Knowledge:
        """What agents may use where nothing is to be told of some parameters."""
        private = list(self.verdict.network.private)
        about = np.vstack([self.knowledge.private[private.index(name)] for name in names])
        return restricted(self.knowledge, telling_nothing_of(self.knowledge, about), sharing=sharing)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What agents know with the memories of their share filters."""
        return knowledge_of(stream_of(self.verdict.network), self._filters)

    @cached_property
    def _filters(self) -> list[ShareFilter]:
        return memories_of(self.verdict.network, self.verdict.shares)

    @cached_property
    def _plain(self) -> Knowledge:
        return knowledge_of(stream_of(self.verdict.network), None)

    def _curve(
        self, knowledge: Knowledge, plain: Knowledge | None, weights: Array, floors: Array | None = None
    ) -> StreamCurve:
        options: dict[str, Any] = {"starts": self.starts, "seed": self.seed, "progress": self.progress}
        return StreamCurve(knowledge, plain, weights, floors=floors, **options)

    def _at_limit(self, name: str, target: float) -> bool:
        return 0 < target > self.verdict.limit[name] * (1 - _AT_LIMIT)

    def _least_loss(
        self,
        curve: StreamCurve,
        level: float,
        knowledge: Knowledge,
        targets: Mapping[str, float],
        **more: Any,
    ) -> Plan:
        found = curve.at(level * (1 + MARGINS[0]))

        def answers() -> Iterator[tuple[JointResult, float]]:
            yield found, 0.0
            for margin in MARGINS[1:]:
                yield curve.nudged(found, level=level * (1 + margin)), 0.0
            for finest in _FINEST:
                yield curve.softened(found, finest, level=level * (1 + MARGINS[1])), finest

        def holds(known: StreamKnowledge) -> bool:
            reached = all(known.privacy[name] >= target for name, target in targets.items())
            return reached and self._kept_by(known)

        return self._first_confirmed(
            answers(), knowledge, holds, targets=targets, floors=self.floors, details=more
        )

    def _at_the_limit(self, at_limit: list[str], targets: Mapping[str, float]) -> Plan:
        """Everything but what tells of the parameters at their limit, less what other targets ask."""
        network = self.verdict.network
        if network.dynamics is None or not network.dynamics.stable:
            name = at_limit[0]
            raise InvalidRequest(
                f"privacy: {name} was asked to stay as hidden as silence leaves it, and on a stream of which a part "
                "wanders off what tells nothing of it cannot be found; ask for a little less than its limit of "
                f"{number(self.verdict.limit[name])}"
            )
        floors = self.floors
        hidden = [name for name, floor in floors.items() if self._is_limit(name, floor)]
        knowledge = self._telling_nothing_of([*at_limit, *hidden])
        others = np.array(
            [
                0.0 if name in (*at_limit, *hidden) else max(target, floors.get(name, 0.0))
                for name, target in targets.items()
            ]
        )
        if knowledge.blocks.total == 0:
            silent = {
                agent: Sanitizer.silent(int(size), agent=agent)
                for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
            }
            return self._plan(silent, targets=targets, floors=floors, details={"tells_nothing_of": at_limit})
        curve = self._curve(
            knowledge, None, np.where(others > 0, others, 0.0) if np.any(others) else others + 1
        )
        free = curve.objective(curve.sharing)
        if np.all(free.privacy >= others):
            made = sanitizers_from_knowledge(network, knowledge, self._filters, curve.sharing)
            return self._plan(made, targets=targets, floors=floors, details={"tells_nothing_of": at_limit})
        return self._least_loss(curve, float(others.max()), knowledge, targets, tells_nothing_of=at_limit)

    def _first_confirmed(
        self,
        answers: Iterator[tuple[JointResult, float]],
        knowledge: Knowledge,
        holds: Callable[[StreamKnowledge], bool],
        *,
        details: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> Plan:
        """The first answer that keeps its promise when judged as it is handed out, and that the recheck confirms.

        Answers come with the least noise of a number that they were made for.
        """
        network = self.verdict.network
        refusal: VeilnetError | None = None
        for found, finest in answers:
            made = sanitizers_from_knowledge(network, knowledge, self._filters, found.shrink, finest=finest)
            try:
                known = stream_knowledge(network, made)
                if holds(known):
                    return self._plan(made, known=known, details=told(found) | dict(details or {}), **asked)
            except (InvalidPlan, InvalidRequest) as error:  # the second where rounding spoils a steady state
                refusal = refusal or error
        raise InvalidPlan(
            f"{refusal or 'what the search promised does not hold of what would be sent'}; aiming higher did not "
            "help. Ask for a privacy further from its limit, or drop readings that nearly repeat others"
        ) from refusal

    def _plan(self, made: Mapping[str, Sanitizer], *, details: Mapping[str, Any], **asked: Any) -> Plan:
        free = {"ceiling": dict(self.verdict.ceiling), "limit": dict(self.verdict.limit)}
        return make_plan(self.verdict.network, made, "joint", details={**free, **details}, **asked)


def _refuse_many(network: Network) -> None:
    """Refuse to search where agents are too many for one state."""
    if by_stacks(network):
        raise InvalidRequest(
            "network: trade-offs on streams are searched for with all agents in one state, up to "
            f"{MOST_JOINT} agents times parameters, found {network.S} x {network.L}; ask for what is free "
            "(privacy=0, which share filters give without loss), design for network.one_row, or for a part of the "
            "network"
        )
