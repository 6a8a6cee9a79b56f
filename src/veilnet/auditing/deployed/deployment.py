"""What is actually deployed, as black boxes: agent -> readings in, numbers out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Integers
from veilnet._core.validation import refuse_unknown
from veilnet.agent.release import NotPrivate
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

Mechanism = Sanitizer | Callable[[Array], Any]


class Misbehaves(Exception):
    """A deployed mechanism that does not answer as a sanitizer does; the message says how."""


@dataclass(frozen=True, eq=False)
class Deployment:
    """The plan's sanitizer of every agent, beside what runs in its place (None: nothing does).

    An agent for which the plan has no sanitizer sends its readings raw, dithered and less their offset.
    """

    network: Network
    planned: Mapping[str, Sanitizer]
    deployed: Mapping[str, Mechanism | None]
    repeatable: set[str] = field(default_factory=set)  # agents whose answers say that they were simulated

    def forgets(self, agent: str) -> bool:
        """Whether what an agent sends depends on the reading of the same row alone, by plan and as deployed.

        Of a function that is deployed for a plan with memory nothing is known, so it is taken to remember.
        """
        mechanism = self.deployed[agent]
        kept = mechanism.memory if isinstance(mechanism, Sanitizer) else None
        return self.planned[agent].memory is None and kept is None

    def release(self, agent: str, readings: Array, places: Integers | None = None) -> Array:
        """What the deployed mechanism answers to a block (T, N_i), as (T, sent) plain numbers.

        With a memory, a block is a stream of its own from its first row on; ``places`` as in :meth:`release_all`.
        """
        mechanism = self.deployed[agent]
        planned = self.planned[agent]
        if mechanism is None:
            raise Misbehaves("nothing is deployed")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # no grid: the grid check says so
                answer = _answer(mechanism, readings, None if self.forgets(agent) else places)
            if isinstance(answer, NotPrivate):
                self.repeatable.add(agent)
            numbers = np.array(answer, dtype=np.float64)
        except Exception as error:
            raise Misbehaves(f"it refused credible readings ({type(error).__name__}: {error})") from error
        expected = (len(readings), planned.sent)
        if numbers.shape != expected:
            raise Misbehaves(f"it answered shape {numbers.shape}, the plan says {expected}")
        if not np.all(np.isfinite(numbers)):
            raise Misbehaves("it answered with something that is not a number")
        return numbers

    def release_all(self, readings: Array, places: Integers | None = None) -> dict[str, Array]:
        """Messages of all agents for stacked readings (T, N).

        places: (T,) the number of each row in its log: an agent with memory begins anew after rows that it missed.
        """
        return {
            agent: self.release(
                agent, np.ascontiguousarray(readings[:, self.network.blocks.rows(place)]), places
            )
            for place, agent in enumerate(self.network.agents)
        }

    def release_streams(self, readings: Array) -> Array:
        """What is sent (streams, rows, sent) for readings (streams, rows, N), agents side by side.

        Every stream is a new one, from its first row on: a sanitizer with memory begins anew with each.
        """
        count, rows, _ = readings.shape
        parts = []
        for place, agent in enumerate(self.network.agents):
            own = np.ascontiguousarray(readings[:, :, self.network.blocks.rows(place)])
            if self.forgets(agent):
                parts.append(self.release(agent, own.reshape(count * rows, -1)).reshape(count, rows, -1))
            else:
                parts.append(np.stack([self.release(agent, stream) for stream in own]))
        return np.concatenate(parts, axis=2)


def _answer(mechanism: Mechanism, readings: Array, places: Integers | None) -> Any:
    at = np.arange(len(readings)) if places is None else places - places[0]
    if not isinstance(mechanism, Sanitizer):  # that rows were missed it is shown by beginning anew
        runs = np.split(readings, np.flatnonzero(np.diff(at) > 1) + 1)
        return (
            np.concatenate([np.asarray(mechanism(run.copy())) for run in runs])
            if len(runs) > 1
            else mechanism(readings.copy())
        )
    if mechanism.memory is None:
        return mechanism.sanitize(readings)
    filled = np.full((at[-1] + 1, readings.shape[1]), np.nan)
    filled[at] = readings
    return mechanism.stream().sanitize(filled)[at]


def member_messages(plan: Plan, group: str, readings: Array) -> dict[str, NDArray[np.uint64]]:
    """member -> what it sends of readings (T, N) of the whole network: (T, m), whole numbers modulo 2^k."""
    network = plan.network
    members, mine = network.members[group], readings[:, network.blocks.rows(network.position[group])]
    found = {}
    for place, agent in enumerate(members.agents):
        member = plan.members[agent]
        assert member.summed is not None
        assert member.grid is not None
        own = np.ascontiguousarray(mine[:, members.blocks.rows(place)])
        bare = member.replace(summed=None, dither=member.dither)  # what is masked in service
        sent = _answer(bare, own, None)
        found[agent] = member.summed.residues(member.summed.whole(np.asarray(sent), member.grid))
    return found


def with_opened_sums(running: Deployment, plan: Plan) -> Deployment:
    """The same, where each group sends what the centre opens: the sum modulo 2^k of what its members send."""

    def opened(group: str) -> Callable[[Array], Array]:
        first = plan.members[plan.network.members[group].agents[0]]
        assert first.summed is not None
        assert first.grid is not None
        grid = first.grid
        whole, rows = first.summed, plan.network.blocks.rows(plan.network.position[group])

        def send(own: Array) -> Array:
            readings = np.zeros((len(own), plan.network.N))
            readings[:, rows] = own
            parts = member_messages(plan, group, readings).values()
            return whole.opened(np.sum(list(parts), axis=0, dtype=np.uint64), grid)

        return send

    return replace(
        running, deployed={**running.deployed, **{name: opened(name) for name in plan.network.members}}
    )


def deployment(plan: Plan, sanitizers: Mapping[str, Mechanism] | None) -> Deployment:
    """Pair what the plan says with what is deployed (the plan itself, when nothing is given)."""
    network = plan.network
    planned = dict(plan.sanitizers)
    if sanitizers is None:
        return Deployment(network, planned, dict(planned))
    if not isinstance(sanitizers, Mapping):
        raise InvalidRequest(
            "sanitizers: expected agent -> Sanitizer or function (what is deployed), "
            f"found {type(sanitizers).__name__}"
        )
    refuse_unknown(sanitizers, network.agents, "sanitizers", error=InvalidRequest)
    for agent, mechanism in sanitizers.items():
        if not isinstance(mechanism, Sanitizer) and not callable(mechanism):
            raise InvalidRequest(
                f"sanitizers[{agent!r}]: expected a Sanitizer or a function from readings (T, N_i) to what "
                f"is sent (T, rows), found {type(mechanism).__name__}"
            )
    return Deployment(network, planned, {agent: sanitizers.get(agent) for agent in network.agents})
