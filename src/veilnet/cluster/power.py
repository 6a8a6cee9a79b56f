"""Limited noise power in a network in parts: an estimate goes to all parts, L x L sums come back.

The search is that for very many agents in one piece (:mod:`veilnet.designs.power`), in coordinates in which the
raw information of all is the identity. As with trade-offs, it takes the same steps with any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.bounds.knowledge import knowledge_of_factor
from veilnet.cluster.answering import Asking
from veilnet.cluster.parts import PartFile, Parts
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import PlanSums, key_of, sent_sums, share_sums
from veilnet.designs.power import (
    Agents,
    Ascent,
    AscentSearch,
    FreeStack,
    PowerCrowd,
    relative_gap,
    wanted_columns,
)
from veilnet.designs.questions import read_amounts
from veilnet.model.network import Network
from veilnet.verdict.shares import share_stack


@dataclass(frozen=True, eq=False)
class Free:
    """Where the agents of a part may add noise.

    change:    T^-1, (L, L), with T'T the raw information of all.
    weights, tolerance: of the shares (:func:`veilnet.verdict.shares.share_stack`).
    powers:    largest noise power of an agent of each part, by the ``names`` of the parts; without names, of all.
    """

    change: Array
    weights: Array
    tolerance: float
    names: tuple[str, ...]
    powers: Array

    def agents(self, part: PartFile) -> Agents:
        """The agents of a part, with their shares and powers."""
        observe, roots = part.network.stacked, part.network.roots
        found = share_stack(observe, roots, self.weights, self.tolerance)
        power = np.full(len(observe), self.powers[self.names.index(part.name) if self.names else 0])
        return Agents(observe, roots, np.asarray(found.rows), found.ranks, power)

    def stacks(self, part: PartFile) -> Sequence[FreeStack]:
        """As :meth:`veilnet.cluster.answering.Prepared.stacks`."""
        whole = self.agents(part).free(self.change)
        return [stack.part(some) for stack in whole for some in some_at_a_time(*stack.told.shape)]


def noise_sums(part: PartFile, free: Free, estimate: Array) -> PlanSums:
    """The last pass: what every agent of a part sends whose noise answers an estimate, written as in the plan."""

    def make() -> tuple[Array, Array, Integers]:
        rows, variances, _ = free.agents(part).sending(free.change, estimate)
        return rows, variances, np.full(len(rows), rows.shape[1], dtype=np.intp)

    return sent_sums(part, key_of(part.digest, free, estimate), make)


class PartsPowerCrowd(PowerCrowd):
    """All agents of a network in parts."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def summed(self, answer: Callable[..., Array], *asked: Array) -> tuple[Array, ...]:
        """As :meth:`veilnet.designs.power.PowerCrowd.summed`."""
        return self._asking.answered(answer, *asked)


class PowerSearch:
    """The designs of limited noise power of a network in parts.

    parts:     the network.
    whole:     one imaginary agent that tells what all agents tell.
    weights, tolerance: of the shares.
    power:     largest noise power of an agent, by the name of its part.
    """

    def __init__(
        self, parts: Parts, whole: Network, weights: Array, tolerance: float, power: Mapping[str, float], client: Any,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self._parts, self._whole, self._client, self._progress = parts, whole, client, progress
        with one_thread():
            change = whole.in_raw_coordinates(np.eye(parts.length))
            # One power for all goes to workers as one number, however many parts there are.
            names, powers = tuple(power), tuple(power.values())
            if len(set(powers)) == 1:
                names, powers = (), powers[:1]
            self._free = Free(change, weights, tolerance, names, np.array(powers))
            self._wanted = wanted_columns(
                whole.in_raw_coordinates(whole.U), map(whole.in_raw_coordinates, whole.private.values())
            )
        self._asking = self._asking_about(self._free)
        # Noise without limit would leave the shares alone.
        self.ceiling = self._grown(over_parts(share_sums, parts, weights, tolerance, False, client=client))
        self._upper = float("inf")

    def answer(self, part_of_power: float) -> tuple[PlanSums, dict[str, Any]]:
        """The noise found within a part of the power, written by all parts; its sums, and how it was found."""
        free = replace(self._free, powers=part_of_power * self._free.powers)
        with one_thread():
            crowd = PartsPowerCrowd(self._asking_about(free))
            found: Ascent = AscentSearch(crowd, self._wanted, self._progress).run()
        self._upper = found.upper_bound if part_of_power == 1.0 else self._upper
        sums: PlanSums = over_parts(
            noise_sums, self._parts, free, found.estimate, client=self._client, progress=self._progress,
            what="writing the plan",
        )  # fmt: skip
        total = sum(self._grown(sums).values())
        names, given = self._free.names, self._free.powers.tolist()
        return sums, {
            "total_privacy": total,
            "upper_bound": self._upper,
            "relative_gap": relative_gap(total, self._upper),
            "iterations": found.passes,
            "interrupted": found.interrupted,
            "power_allowed": dict(zip(names, given, strict=True)) if names else given[0],
        }

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        self._asking.forget()

    def _grown(self, sums: PlanSums) -> dict[str, float]:
        """Name -> p_j where no more is known than sums tell."""
        with one_thread():
            known = knowledge_of_factor(self._whole, sums.triangle)
            return {name: known.growth(rows) for name, rows in self._whole.private.items()}

    def _asking_about(self, free: Free) -> Asking:
        return Asking(self._parts, free, self._client, self._wanted)


def read_power_of_parts(parts: Parts, power: Any) -> dict[str, float]:
    """The noise power allowed to every agent of a part, by its name; 0 where a mapping leaves one out."""
    names = list(parts.before)
    if np.iterable(power) and not isinstance(power, str | Mapping):
        raise InvalidRequest(
            f"power: expected one number for all agents, or the name of a part -> number ({names[0]!r}: 1e4), found "
            f"{type(power).__name__}; agents of different powers go to different parts"
        )
    return dict.fromkeys(names, 0.0) | read_amounts(power, names, "power")
