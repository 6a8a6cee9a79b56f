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
from veilnet.designs.joint.search import JointResult
from veilnet.designs.questions import read_weights
from veilnet.designs.streams.arrays import memories_of, sanitizers_from_knowledge, stream_of
from veilnet.designs.streams.curve import StreamCurve
from veilnet.designs.streams.knowledge import Knowledge, ShareFilter, knowledge_of
from veilnet.designs.streams.limit import restricted, telling_nothing_of
from veilnet.designs.streams.perfect import perfect_stream_plan
from veilnet.designs.tradeoff import MARGINS, told
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.streams.exact_test import StreamVerdict

_AT_LIMIT = 1e-7  # a target so near its limit, relative, counts as the limit
_ROUNDING = 1e-9
# Where agents would send nearly the same number several times over without noise, no figure can be trusted; each
# number then gets noise of this part of its variance, and the design is settled again with it.
_FINEST = (1e-6, 1e-5, 1e-4)


@dataclass(frozen=True, eq=False)
class StreamTradeoff:
    """The trade-offs of one stream, each question a search over what agents know from their own past.

    verdict: what is free on the stream.
    starts, seed, progress: of the searches, as in :func:`veilnet.design`.
    """

    verdict: StreamVerdict
    starts: int | None = None
    seed: int = 0
    progress: Progress | None = None

    def curve(self, weights: Array) -> StreamCurve:
        """The curve of least loss against privacy, divided between the private parameters by ``weights``."""
        return self._curve(self.knowledge, self._plain, weights)

    def least_loss(self, targets: Mapping[str, float], curve: StreamCurve | None = None) -> Plan:
        """The plan of least utility loss that reaches every target; ``curve`` where one was begun for its weights."""
        at_limit = [name for name, target in targets.items() if self._at_limit(name, target)]
        if at_limit:
            return self._at_the_limit(at_limit, targets)
        wanted = np.array(list(targets.values()))
        asked = curve or self.curve(wanted)
        level = float(wanted.max())
        return self._least_loss(asked, level, self.knowledge, targets)

    def most_privacy(self, loss: float, weights: Mapping[str, float] | None) -> Plan:
        """The plan with p_j >= t·weights_j for the largest common t, losing at most ``loss``."""
        curve = self.curve(read_weights(self.verdict.network, weights))
        found = curve.within(loss)

        def answers() -> Iterator[tuple[JointResult, float]]:
            yield found, 0.0
            for margin in MARGINS:
                yield curve.nudged(found, loss=loss * (1 - margin)), 0.0
            for finest in _FINEST:
                yield curve.softened(found, finest, loss=loss * (1 - MARGINS[1])), finest

        def holds(known: StreamKnowledge) -> bool:
            return -known.utility <= loss * (1 + _ROUNDING)

        try:
            return self._first_confirmed(answers(), self.knowledge, holds, most_loss=loss)
        except InvalidPlan:
            # Share filters lose nothing, and so keep within any loss.
            remark = "this is the most privacy at no loss: no plan that uses the loss allowed was confirmed"
            return perfect_stream_plan(self.verdict, {}, remark=remark)

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

    def _curve(self, knowledge: Knowledge, plain: Knowledge | None, weights: Array) -> StreamCurve:
        return StreamCurve(
            knowledge, plain, weights, starts=self.starts, seed=self.seed, progress=self.progress
        )

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
            return all(known.privacy[name] >= target for name, target in targets.items())

        return self._first_confirmed(answers(), knowledge, holds, targets=targets, details=more)

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
        names = list(targets)
        about = np.vstack([self.knowledge.private[names.index(name)] for name in at_limit])
        knowledge = restricted(self.knowledge, telling_nothing_of(self.knowledge, about))
        others = np.array([0.0 if name in at_limit else target for name, target in targets.items()])
        if knowledge.blocks.total == 0:
            silent = {
                agent: Sanitizer.silent(int(size), agent=agent)
                for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
            }
            return self._plan(silent, targets=targets, details={"tells_nothing_of": at_limit})
        curve = self._curve(
            knowledge, None, np.where(others > 0, others, 0.0) if np.any(others) else others + 1
        )
        free = curve.objective(curve.sharing)
        if np.all(free.privacy >= others):
            made = sanitizers_from_knowledge(network, knowledge, self._filters, curve.sharing)
            return self._plan(made, targets=targets, details={"tells_nothing_of": at_limit})
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
