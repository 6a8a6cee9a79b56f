"""Limited noise power in a network in parts: an estimate goes to all parts, L x L sums come back.

The search is that for very many agents in one piece (:mod:`veilnet.designs.power`), in coordinates in which the
raw information of all is the identity. As with trade-offs, it takes the same steps with any number of workers, and
what was answered is kept in ``plan/search`` until the plan is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.bounds.knowledge import knowledge_of_factor
from veilnet.cluster.answering import Added, added, key_of
from veilnet.cluster.asking import Asking
from veilnet.cluster.parts import LoadedPart, Parts, read_part
from veilnet.cluster.remembering import remembered
from veilnet.cluster.tasks import BatchSums, sent_sums, told_triangle
from veilnet.designs.power import (
    Agents,
    Ascent,
    AscentSearch,
    FreeStack,
    left_open_by,
    relative_gap,
    wanted_columns,
    withheld_by,
)
from veilnet.designs.questions import read_amounts
from veilnet.model.network import Network
from veilnet.verdict.share_stacks import share_stack, share_tolerance, share_weights


@dataclass(frozen=True, eq=False)
class Where:
    """What workers have to know to find the agents that may add noise.

    folder, length: of the parts.
    change:    T^-1, (L, L), with T'T the raw information of all.
    weights, tolerance: of the shares (:func:`veilnet.verdict.share_stacks.share_stack`).
    power:     largest noise power of an agent, by the name of its part.
    """

    folder: Path
    length: int
    change: Array
    weights: Array
    tolerance: float
    power: Mapping[str, float]

    def agents(self, name: str, part: LoadedPart) -> Agents:
        """The agents of a part, with their shares and powers."""
        found = share_stack(part.observe, part.roots, self.weights, self.tolerance)
        power = np.full(len(part.observe), self.power[name])
        return Agents(part.observe, part.roots, np.asarray(found.rows), found.ranks, power)

    def free(self, name: str) -> list[FreeStack]:
        """Where the agents of a part may add noise, remembered from pass to pass."""

        def make() -> tuple[Array, ...]:
            part = read_part(self.folder / name, self.length)
            stacks = self.agents(name, part).free(self.change)
            return tuple(each for stack in stacks for each in (stack.told, stack.stretch, stack.unstretch))

        arrays = remembered(self.folder / name, self.key, make)
        return [FreeStack(*arrays[place : place + 3]) for place in range(0, len(arrays), 3)]

    @property
    def key(self) -> str:
        """A digest of all that what an agent may add depends on, beside its part."""
        return key_of(self.change, self.weights, np.array(self.tolerance), json.dumps(dict(self.power)))


def share_triangles(name: str, part: LoadedPart, _folder: Path, where: Where) -> BatchSums:
    """What is known from the shares of a part alone, which is what noise without limit would leave."""
    nothing = np.zeros((where.length, where.length))
    found = where.agents(name, part)
    return BatchSums(told_triangle(part, found.rows, found.ranks), nothing, nothing, agents=len(found.ranks))


def withheld_sums(names: Sequence[str], where: Where, estimate: Array) -> Added:
    """Δ, (L, L), when all agents of these parts answer an estimate."""
    with one_thread():
        return added([Added((withheld_by(where.free(name), estimate),)) for name in names])


def open_sums(names: Sequence[str], where: Where, asked: Array, estimate: Array) -> Added:
    """What the best and what the present noise of these parts adds to the error to first order."""
    with one_thread():
        return added([Added((left_open_by(where.free(name), asked, estimate),)) for name in names])


def noise_sums(name: str, part: LoadedPart, folder: Path, where: Where, estimate: Array) -> BatchSums:
    """The last pass: what every agent of a part sends whose noise answers an estimate, written as in the plan."""

    def make() -> tuple[Array, Array, Integers]:
        rows, variances, _ = where.agents(name, part).sending(where.change, estimate)
        return rows, variances, np.full(len(rows), rows.shape[1], dtype=np.intp)

    return sent_sums(name, part, folder, key_of(part.digest, where.key, estimate), make)


class PartsPowerCrowd:
    """All agents of a network in parts, as :class:`veilnet.designs.power.PowerCrowd`."""

    def __init__(self, asking: Asking, where: Where) -> None:
        self._asking, self._where = asking, (where,)

    def withheld(self, estimate: Array) -> Array:
        """As :meth:`veilnet.designs.power.PowerCrowd.withheld`."""
        return self._asking.answered(withheld_sums, self._where, (estimate,))[0]

    def left_open(self, asked: Array, estimate: Array) -> Array:
        """As :meth:`veilnet.designs.power.PowerCrowd.left_open`."""
        return self._asking.answered(open_sums, self._where, (asked, estimate))[0]


class PowerSearch:
    """The designs of limited noise power of a network in parts.

    parts:  the network.
    whole:  one imaginary agent that tells what all agents tell.
    first:  the sums of the first pass.
    power:  largest noise power of an agent, by the name of its part.
    """

    def __init__(
        self, parts: Parts, whole: Network, first: BatchSums, power: Mapping[str, float], client: Any,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self._parts, self._whole, self._client, self._progress = parts, whole, client, progress
        self.power = power
        with one_thread():
            tolerance = share_tolerance(max(whole.conditioning, first.condition), first.readings)
            self._where = Where(
                parts.folder, parts.length, whole.in_raw_coordinates(np.eye(parts.length)),
                share_weights(whole.raw_triangle, whole.U), tolerance, self.power,
            )  # fmt: skip
            self._wanted = wanted_columns(
                whole.in_raw_coordinates(whole.U), map(whole.in_raw_coordinates, whole.private.values())
            )
        self._asking = self._asking_about(self._where)
        shares = self._asking.over(share_triangles, arguments=(self._where,))
        with one_thread():
            self.ceiling = self._grown(shares)
        self._upper = float("inf")

    def answer(self, part_of_power: float) -> tuple[BatchSums, dict[str, Any]]:
        """The noise found within a part of the power, written by all parts; its sums, and how it was found."""
        powers = {name: part_of_power * each for name, each in self.power.items()}
        where = replace(self._where, power=powers)
        asking = self._asking_about(where)
        with one_thread():
            found: Ascent = AscentSearch(PartsPowerCrowd(asking, where), self._wanted, self._progress).run()
        self._upper = found.upper_bound if part_of_power == 1.0 else self._upper
        sums: BatchSums = asking.over(
            noise_sums, arguments=(where, found.estimate), progress=self._progress, what="writing the plan"
        )
        with one_thread():
            total = sum(self._grown(sums).values())
        given = set(self.power.values())
        return sums, {
            "total_privacy": total,
            "upper_bound": self._upper,
            "relative_gap": relative_gap(total, self._upper),
            "iterations": found.passes,
            "interrupted": found.interrupted,
            "power_allowed": given.pop() if len(given) == 1 else dict(self.power),
        }

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        self._asking.forget()

    def _grown(self, sums: BatchSums) -> dict[str, float]:
        """Name -> p_j where no more is known than sums tell."""
        known = knowledge_of_factor(self._whole, sums.triangle)
        return {name: known.growth(rows) for name, rows in self._whole.private.items()}

    def _asking_about(self, where: Where) -> Asking:
        return Asking(self._parts, self._client, key_of(where.key, self._wanted))


def read_power_of_parts(parts: Parts, power: Any) -> dict[str, float]:
    """The noise power allowed to every agent of a part, by its name; 0 where a mapping leaves one out."""
    names = [part.name for part in parts.parts]
    if np.iterable(power) and not isinstance(power, str | Mapping):
        raise InvalidRequest(
            f"power: expected one number for all agents, or the name of a part -> number ({names[0]!r}: 1e4), found "
            f"{type(power).__name__}; agents of different powers go to different parts"
        )
    return dict.fromkeys(names, 0.0) | read_amounts(power, names, "power")
