"""The sanitizers of very many agents as a few arrays; one is made when somebody asks for it by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.frozen import Frozen, MadeOnDemand, lock
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

__all__ = ["SanitizerStack", "StackPart", "StackedSanitizers", "fitting"]

_KEPT = 1024  # sanitizers that were asked for and are kept, with what they prepared for sanitizing


@dataclass(frozen=True, eq=False)
class SanitizerStack(Frozen):
    """Agents that have as many readings and send as many numbers, C_i (y_i - offset_i) + ξ_i in normal form.

    places:      of the agents in sending order, ascending, (count,).
    compression: C_i, (count, k, n), rows independent of one another.
    variances:   of ξ_i, (count, k), each 0 or 1; None where nothing is added.
    grid:        step of each number sent, (count, k); None before it was chosen.
    """

    places: Integers
    compression: Array
    variances: Array | None = None
    grid: Array | None = None

    def __post_init__(self) -> None:
        lock((self.places, self.compression, self.variances, self.grid))

    @property
    def count(self) -> int:
        """How many agents."""
        return len(self.places)

    @property
    def sent(self) -> int:
        """How many numbers each of them sends."""
        return int(self.compression.shape[1])

    @property
    def readings(self) -> int:
        """How many readings each of them has."""
        return int(self.compression.shape[2])

    @property
    def noise(self) -> Array | None:
        """Θ_i, (count, k, k); None where nothing is added."""
        return None if self.variances is None else self.variances[:, :, None] * np.eye(self.sent)


@dataclass(frozen=True, eq=False)
class StackPart:
    """Some agents of a stack, few enough to be worked on at once.

    number:      of the stack among the stacks.
    part:        which of the stack's agents.
    stack:       what those agents send.
    observe:     H_i, (count, n, L), of the network.
    group:       the network's group of agents of this size, by its place among the groups.
    within:      where the agents are in the group's stacks.
    """

    number: int
    part: slice
    stack: SanitizerStack
    observe: Array
    group: int
    within: slice | Integers


class StackedSanitizers(Frozen, MadeOnDemand, Mapping[str, Sanitizer]):
    """agent -> Sanitizer for all agents of a network, kept as stacks.

    network: whose agents they are; it gives their offsets, names, limits and resolution.
    stacks:  what they send; every agent is in exactly one of them.

    What computes with all of them takes ``stacks``; asking for one by name makes it.
    """

    _left_behind = frozenset({"_made", "_where"})

    def __init__(self, network: Network, stacks: Sequence[SanitizerStack]) -> None:
        self.network = network
        self.stacks = tuple(stacks)
        self._freeze()

    def __getitem__(self, name: str) -> Sanitizer:
        made = self._made.get(name)
        if made is None:
            if name not in self.network.position:
                raise KeyError(
                    f"{name!r} is no agent of the network; its agents are {_some(self.network.agents)}"
                )
            made = self._make(name)
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[name] = made
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self.network.agents)

    def __len__(self) -> int:
        return self.network.S

    def __contains__(self, name: object) -> bool:
        return name in self.network.position

    def __eq__(self, other: object) -> bool:
        return self is other or Mapping.__eq__(
            self, other
        )  # of many, not each is kept and the same when asked again

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __or__(self, other: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
        return {**other, **self}

    def __repr__(self) -> str:
        return f"<sanitizers of {_some(self.network.agents)}>"

    @property
    def sent(self) -> Integers:
        """How many numbers each agent sends, in sending order."""
        found = np.zeros(self.network.S, dtype=np.intp)
        for stack in self.stacks:
            found[stack.places] = stack.sent
        return found

    def with_grids(self, grids: Sequence[Array]) -> StackedSanitizers:
        """The same, releasing on grids: one (count, k) array for each stack."""
        return StackedSanitizers(
            self.network, [replace(stack, grid=grid) for stack, grid in zip(self.stacks, grids, strict=True)]
        )

    def belong_to(self, network: Network) -> bool:
        """Whether they were made for this very network, so that they fit it."""
        return self.network is network

    def parts(self) -> Iterator[StackPart]:
        """All agents, a few thousand at a time, with what the network says of them."""
        network = self.network
        groups = {group.size: place for place, group in enumerate(network.blocks.groups)}
        for number, stack in enumerate(self.stacks):
            place = groups[stack.readings]
            group = network.blocks.groups[place]
            for part in parts(stack.count, stack.readings * network.L):
                places = stack.places[part]
                yield StackPart(
                    number=number,
                    part=part,
                    stack=SanitizerStack(
                        places,
                        stack.compression[part],
                        None if stack.variances is None else stack.variances[part],
                        None if stack.grid is None else stack.grid[part],
                    ),
                    observe=network.blocks.take(network.H, places),
                    group=place,
                    within=group.among(places),
                )

    def _make(self, name: str) -> Sanitizer:
        network = self.network
        place = network.position[name]
        stack, within = self._find(place)
        offset = network.offset[network.blocks.rows(place)]
        grid = None if stack.grid is None else stack.grid[within]
        if stack.variances is None:
            made = Sanitizer.exact(np.array(stack.compression[within]), offset=offset, agent=name)
            made = made if grid is None else made.with_grid(grid)
        else:
            made = Sanitizer(stack.compression[within], stack.variances[within], offset=offset, grid=grid)
        return made.for_agent(name, network)

    def _find(self, place: int) -> tuple[SanitizerStack, int]:
        which, within = self._where
        return self.stacks[int(which[place])], int(within[place])

    @cached_property
    def _where(self) -> tuple[Integers, Integers]:
        """For each agent, which stack it is in, and where in that."""
        which, within = np.empty(self.network.S, dtype=np.intp), np.empty(self.network.S, dtype=np.intp)
        for number, stack in enumerate(self.stacks):
            which[stack.places] = number
            within[stack.places] = np.arange(stack.count)
        return which, within

    @cached_property
    def _made(self) -> dict[str, Sanitizer]:
        return {}


def fitting(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Mapping[str, Sanitizer]:
    """The same sanitizers for another network: stacks as stacks where it has the same agents in the same order, and
    agent by agent otherwise, since stacks go by places.
    """
    if not isinstance(sanitizers, StackedSanitizers) or sanitizers.belong_to(network):
        return sanitizers
    own = sanitizers.network
    alike = (
        np.array_equal(own.blocks.sizes, network.blocks.sizes)
        and own.agents == network.agents
        and np.array_equal(own.offset, network.offset)
    )
    return StackedSanitizers(network, sanitizers.stacks) if alike else dict(sanitizers)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown}, ... ({len(names)} in all)"


def stacks_by_sent(network: Network, compression: Sequence[Array], sent: Integers) -> list[SanitizerStack]:
    """Stacks without noise, of agents alike: from (count, most, n) rows for each size group and how many of them each
    agent sends.
    """
    stacks = []
    for group, rows in zip(network.blocks.groups, compression, strict=True):
        mine = sent[group.agents]
        for number in np.unique(mine).tolist():
            chosen = mine == number
            if chosen.all():
                stacks.append(SanitizerStack(group.agents, rows[:, :number]))
            else:
                stacks.append(SanitizerStack(group.agents[chosen], rows[chosen, :number]))
    if sum(stack.count for stack in stacks) != network.S:
        raise InvalidRequest("network: every agent needs at least one reading")
    return stacks
