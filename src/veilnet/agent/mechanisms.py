"""The sanitizers of very many agents as a few arrays; one is made when somebody asks for it by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.frozen import Frozen, MadeOnDemand, lock
from veilnet._core.names import ByAgent
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

__all__ = [
    "Mechanisms",
    "SanitizerStack",
    "StackPart",
    "fitting",
    "numbers_kept",
    "offset_of",
    "stacks_of",
]

_KEPT = 1024  # sanitizers that were asked for and are kept, with what they prepared for sanitizing


@dataclass(frozen=True, eq=False)
class SanitizerStack(Frozen):
    """Agents that have as many readings, send as many numbers and keep as many, in normal form.

    They send C_i (y_i - offset_i) + ξ_i; with a memory s_i = F_i s_i + K_i (y_i - offset_i), on streams,
    C_i (s_i, y_i - offset_i) + ξ_i.

    places:      of the agents in sending order, ascending, (count,).
    compression: C_i, (count, k, n), rows independent of one another; (count, k, order + n) with a memory.
    variances:   of ξ_i, (count, k), each 0 or 1; None where nothing is added.
    grid:        step of each number sent, (count, k); None before it was chosen.
    transition:  F_i, (count, order, order); None without a memory.
    gain:        K_i, (count, order, n); None without a memory.
    """

    places: Integers
    compression: Array
    variances: Array | None = None
    grid: Array | None = None
    transition: Array | None = None
    gain: Array | None = None

    def __post_init__(self) -> None:
        lock((self.places, self.compression, self.variances, self.grid, self.transition, self.gain))

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
        return int(self.compression.shape[2]) - self.order

    @property
    def order(self) -> int:
        """How many numbers each of them keeps from row to row; 0 without a memory."""
        return 0 if self.transition is None else int(self.transition.shape[1])

    @property
    def noise(self) -> Array | None:
        """Θ_i, (count, k, k); None where nothing is added."""
        return None if self.variances is None else self.variances[:, :, None] * np.eye(self.sent)

    def take(self, part: slice) -> SanitizerStack:
        """Some of the agents."""

        def cut(array: Array | None) -> Array | None:
            return None if array is None else array[part]

        return SanitizerStack(
            self.places[part],
            self.compression[part],
            cut(self.variances),
            cut(self.grid),
            cut(self.transition),
            cut(self.gain),
        )


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


class Mechanisms(Frozen, MadeOnDemand, Mapping[str, Sanitizer]):
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

    @property
    def kept(self) -> Integers:
        """How many numbers each agent keeps from row to row, in sending order."""
        found = np.zeros(self.network.S, dtype=np.intp)
        for stack in self.stacks:
            found[stack.places] = stack.order
        return found

    def with_grids(self, grids: Sequence[Array]) -> Mechanisms:
        """The same, releasing on grids: one (count, k) array for each stack."""
        return Mechanisms(
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
                    stack=stack.take(part),
                    observe=network.blocks.take(network.H, places),
                    group=place,
                    within=group.among(places),
                )

    def _make(self, name: str) -> Sanitizer:
        network = self.network
        place = network.position[name]
        stack, within = self._find(place)
        offset = offset_of(network, place)
        grid = None if stack.grid is None else stack.grid[within]
        if stack.transition is not None and stack.gain is not None:
            noise = None if stack.variances is None else stack.variances[within]
            memory = Memory(stack.transition[within], stack.gain[within])
            made = Sanitizer(stack.compression[within], noise, offset=offset, grid=grid, memory=memory)
        elif stack.variances is None:
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


def numbers_kept(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Mapping[str, int]:
    """agent -> how many numbers it keeps from row to row."""
    if isinstance(sanitizers, Mechanisms):
        kept = sanitizers.kept
        return ByAgent(network.agents, network.position, lambda place: int(kept[place]))
    return {agent: sanitizer.order for agent, sanitizer in sanitizers.items()}


def offset_of(network: Network, place: int) -> Array:
    """What the readings of the agent at a place show where x is zero or, of a stream, at its mean."""
    mine = network.blocks.rows(place)
    if network.dynamics is None:
        return network.offset[mine]
    return np.asarray(network.offset[mine] + network.H[mine] @ network.dynamics.mean)


def fitting(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Mapping[str, Sanitizer]:
    """The same sanitizers for another network: stacks as stacks where it has the same agents in the same order, and
    agent by agent otherwise, since stacks go by places.
    """
    if not isinstance(sanitizers, Mechanisms) or sanitizers.belong_to(network):
        return sanitizers
    own = sanitizers.network
    alike = (
        np.array_equal(own.blocks.sizes, network.blocks.sizes)
        and own.agents == network.agents
        and np.array_equal(own.offset, network.offset)
        and own.is_stream == network.is_stream
        and (not own.is_stream or _same_means(own, network))
    )
    return Mechanisms(network, sanitizers.stacks) if alike else dict(sanitizers)


def _same_means(one: Network, other: Network) -> bool:
    """Whether readings show the same at the means of two streams."""
    assert one.dynamics is not None
    assert other.dynamics is not None
    same = np.array_equal(one.dynamics.mean, other.dynamics.mean)
    return same and (not np.any(one.dynamics.mean) or np.array_equal(one.H, other.H))


def stacks_of(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Mechanisms:
    """Any sanitizers as stacks, each as it is, or in normal form and without its grid where it is not in that yet.

    Agents that are not named send their readings raw. Offsets are the network's: they move what is sent by what
    everybody knows, and no error.
    """
    fitted = fitting(network, sanitizers)
    if isinstance(fitted, Mechanisms):
        return fitted
    kinds: dict[tuple[int, int, int, bool, bool], list[tuple[int, Sanitizer]]] = {}
    for place, name in enumerate(network.agents):
        size = int(network.blocks.sizes[place])
        each = fitted[name] if name in fitted else Sanitizer.raw(size)
        each = each if each.is_normal else each.normalized()
        key = (size, each.sent, each.order, bool(np.any(each.noise)), each.grid is None)
        kinds.setdefault(key, []).append((place, each))
    return Mechanisms(network, [_stack_of(kinds[key]) for key in sorted(kinds)])


def _stack_of(members: Sequence[tuple[int, Sanitizer]]) -> SanitizerStack:
    each = [sanitizer for _, sanitizer in members]
    variances = np.stack([np.diag(sanitizer.noise) for sanitizer in each])
    grids = [sanitizer.grid for sanitizer in each if sanitizer.grid is not None]
    memories = [sanitizer.memory for sanitizer in each if sanitizer.memory is not None]
    return SanitizerStack(
        np.array([place for place, _ in members], dtype=np.intp),
        np.stack([sanitizer.compression for sanitizer in each]),
        variances if np.any(variances) else None,
        np.stack(grids) if grids else None,
        np.stack([memory.transition for memory in memories]) if memories else None,
        np.stack([memory.gain for memory in memories]) if memories else None,
    )


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
