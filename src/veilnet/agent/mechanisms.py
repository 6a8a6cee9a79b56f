"""What all agents of a network run, as a few arrays: the one form of sanitizers inside.

:func:`mechanisms` is the door: it takes any ``{agent: Sanitizer}``, or a plan, checks that they fit the network and
puts agents alike into stacks. A network of four agents is a stack or two; so is one of a million. Asking for one
agent by its name gives its :class:`veilnet.Sanitizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidRequest
from veilnet._core.frozen import Frozen, MadeOnDemand
from veilnet._core.names import ByAgent
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet._core.validation import refuse_unknown
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack, StackPart, in_stacks
from veilnet.model.network import Network

Found = TypeVar("Found")
_KEPT = 1024  # sanitizers that were asked for and are kept, with what they prepared for sanitizing


@runtime_checkable
class Planned(Protocol):
    """Something that has a sanitizer for each agent: a :class:`veilnet.Plan`."""

    @property
    def sanitizers(self) -> Mapping[str, Sanitizer]:
        """agent -> Sanitizer."""


Sanitizers = Mapping[str, Sanitizer] | Planned | None
"""What functions take: agent -> Sanitizer, or a plan. Agents that are not named send their readings raw."""


class Mechanisms(Frozen, MadeOnDemand, Mapping[str, Sanitizer]):
    """agent -> Sanitizer for all agents of a network, kept as stacks.

    network: whose agents they are.
    stacks:  what they send; every agent is in exactly one of them.
    given:   agent -> Sanitizer where somebody made them one by one, with offsets, names, limits and resolution of
             their own; None where those are the source's.
    source:  the network they were made for, with the same agents; ``network`` itself when left out.

    What computes with all of them takes ``stacks``; asking for one by name makes it.
    """

    _left_behind = frozenset({"_made", "_where", "blocks", "normal", "_found"})

    def __init__(
        self,
        network: Network,
        stacks: Sequence[SanitizerStack],
        given: Mapping[str, Sanitizer] | None = None,
        source: Network | None = None,
    ) -> None:
        self.network = network
        self.stacks = tuple(stacks)
        self.given = given
        self.source = network if source is None else source
        self._freeze()

    def __getitem__(self, name: str) -> Sanitizer:
        if self.given is not None and name in self.given:
            return self.given[name]
        made = self._made.get(name)
        if made is None:
            if name not in self.network.position:
                raise KeyError(
                    f"{name!r} is no agent of the network; its agents are {_some(self.network.agents)}"
                )
            place = self.network.position[name]
            which, within = (int(each[place]) for each in self._where)
            stack = self.stacks[which]
            offset = self.source.offset_at_mean[self.network.blocks.rows(place)]
            made = stack.sanitizer(within, offset).for_agent(name, self.source)
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
        # of many, not each is kept and the same when asked again
        return self is other or Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __or__(self, other: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
        return {**other, **self}

    def __repr__(self) -> str:
        return f"<sanitizers of {_some(self.network.agents)}>"

    @cached_property
    def blocks(self) -> Blocks:
        """How the numbers that all agents send fall to them, in sending order."""
        return Blocks(self._of_stacks([stack.sent for stack in self.stacks]))

    @property
    def kept(self) -> Integers:
        """How many numbers each agent keeps from row to row, in sending order."""
        return self._of_stacks([stack.order for stack in self.stacks])

    def _of_stacks(self, numbers: Sequence[int]) -> Integers:
        """Of each agent, in sending order, the number of its stack."""
        found = np.zeros(self.network.S, dtype=np.intp)
        for stack, number in zip(self.stacks, numbers, strict=True):
            found[stack.places] = number
        return found

    @property
    def numbers_sent(self) -> Mapping[str, int]:
        """agent -> how many numbers it sends (in a row of a stream)."""
        return self._by_agent(self.blocks.sizes)

    @property
    def numbers_kept(self) -> Mapping[str, int]:
        """agent -> how many numbers it keeps from row to row."""
        return self._by_agent(self.kept)

    def _by_agent(self, counts: Integers) -> Mapping[str, int]:
        return ByAgent(self.network.agents, self.network.position, lambda place: int(counts[place]))

    @property
    def offset(self) -> Array:
        """What agents subtract from their readings, (N,)."""
        return (
            self.source.offset_at_mean if self.given is None else self._by_reading(lambda each: each.offset)
        )

    @property
    def dither(self) -> Array:
        """By how many draws agents move each reading, (N,); not a number where nobody decided."""
        nobody = np.full(self.network.N, np.nan)
        if self.given is None:
            return nobody if self.source.dither is None else self.source.dither
        return self._by_reading(
            lambda each: np.full(each.readings, np.nan) if each.resolution is None else each.dither
        )

    @property
    def dither_width(self) -> Array:
        """How wide the dither of each reading is, from end to end, (N,)."""
        if self.given is None:
            return self.source.draws * self.source.steps
        return self._by_reading(lambda each: each.dither_width)

    def _by_reading(self, of: Callable[[Sanitizer], Array]) -> Array:
        return np.concatenate([of(self[agent]) for agent in self.network.agents])

    @property
    def grid(self) -> Array:
        """The step of every number sent, in sending order; not a number where there is none."""
        found = np.full(self.blocks.total, np.nan)
        for stack in self.stacks:
            if stack.grid is not None:
                found[self.numbers(stack)] = stack.grid
        return found

    @cached_property
    def normal(self) -> Mechanisms:
        """The same information in normal form: rows carry noise of variance 0 or 1, none is redundant."""
        if all(stack.covariance is None for stack in self.stacks):
            return self
        others = [stack.places for stack in self.stacks if stack.covariance is not None]
        places = np.concatenate(others).tolist()
        made = in_stacks((place, self[self.network.agents[place]].normalized()) for place in places)
        already = [stack for stack in self.stacks if stack.covariance is None]
        return Mechanisms(self.network, [*already, *made], self.given, self.source)

    def once(self, what: str, find: Callable[[], Found]) -> Found:
        """What somebody finds of all of them, found once: a bound that several ask for."""
        if what not in self._found:
            self._found[what] = find()
        found: Found = self._found[what]
        return found

    @cached_property
    def _found(self) -> dict[str, Any]:
        return {}

    def numbers(self, stack: SanitizerStack) -> Integers:
        """Where the numbers of a stack's agents are among those of all agents, (count, k)."""
        return self.blocks.starts[stack.places][:, None] + np.arange(stack.sent, dtype=np.intp)

    def compressed(self, stacked: Array) -> Array:
        """C times stacked rows (N, ...), in sending order; the block diagonal C is never formed whole."""
        found = np.empty((self.blocks.total, *stacked.shape[1:]))
        for stack in self.stacks:
            mine = stack.compression @ self.network.blocks.take(stacked, stack.places)
            found[self.numbers(stack).reshape(-1)] = mine.reshape(
                stack.count * stack.sent, *stacked.shape[1:]
            )
        return found

    def with_grids(self, grids: Sequence[Array]) -> Mechanisms:
        """The same for the network's own readings, releasing on grids, (count, k) for each stack."""
        stacks = [replace(stack, grid=grid) for stack, grid in zip(self.stacks, grids, strict=True)]
        if self.given is None and np.array_equal(self.offset, self.network.offset_at_mean):
            made = Mechanisms(self.network, stacks)
            if self.source is self.network:
                made._found.update(self._found)  # a grid changes nothing that the bounds tell
            return made
        given = {
            agent: self[agent].with_grid(stack.grid[within]).for_agent(agent, self.network)
            for stack in stacks
            if stack.grid is not None
            for within, agent in enumerate(map(self.network.agents.__getitem__, stack.places.tolist()))
        }
        return Mechanisms(self.network, stacks, given)

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


def mechanisms(network: Network, sanitizers: Sanitizers) -> Mechanisms:
    """The mechanisms of a network from what somebody gave; refused where it does not fit.

    Each agent is taken as it is, its noise as it was given. Those that are not named send their readings raw.
    """
    given: Any = sanitizers
    if not isinstance(given, Mapping) and isinstance(given, Planned):
        given = given.sanitizers
    if isinstance(given, Mechanisms) and given.network is network:
        return given
    named = {} if given is None else given
    check_sanitizers(network, named)
    if isinstance(named, Mechanisms) and _same_agents(named.network, network):
        return Mechanisms(network, named.stacks, named.given, named.source)
    raw = {size: Sanitizer.raw(size) for size in np.unique(network.blocks.sizes).tolist()}
    sizes = zip(network.agents, network.blocks.sizes.tolist(), strict=True)
    everybody = {name: named[name] if name in named else raw[size] for name, size in sizes}
    return Mechanisms(network, in_stacks(enumerate(everybody.values())), everybody)


def sends_raw(sanitizers: Sanitizers) -> bool:
    """Whether nobody is named, so that every agent sends its readings raw."""
    return sanitizers is None or (isinstance(sanitizers, Mapping) and not sanitizers)


def _same_agents(one: Network, other: Network) -> bool:
    """Whether two networks have the same agents, with as many readings each, in the same order."""
    return one is other or (
        np.array_equal(one.blocks.sizes, other.blocks.sizes) and one.agents == other.agents
    )


def check_sanitizers(network: Network, sanitizers: Any) -> None:
    """Refuse names that are no agents and sanitizers made for another number of readings."""
    if isinstance(sanitizers, Mechanisms) and _same_agents(sanitizers.network, network):
        if not network.is_stream and np.any(sanitizers.kept):
            raise _no_stream(network.agents[int(np.argmax(sanitizers.kept))])
        return
    if not isinstance(sanitizers, Mapping):
        raise InvalidRequest(
            f"sanitizers: expected agent -> Sanitizer, found {type(sanitizers).__name__}; use plan.sanitizers"
        )
    refuse_unknown(sanitizers, network.position, "sanitizers", error=InvalidRequest)
    for name, sanitizer in sanitizers.items():
        if not isinstance(sanitizer, Sanitizer):
            raise InvalidRequest(
                f"sanitizers[{name!r}]: expected a Sanitizer, found {type(sanitizer).__name__}; "
                "write vn.Sanitizer(compression=C, noise=Theta)"
            )
        if sanitizer.memory is not None and not network.is_stream:
            raise _no_stream(name)
        expected = int(network.blocks.sizes[network.position[name]])
        if sanitizer.readings != expected:
            raise InvalidRequest(
                f"sanitizers[{name!r}]: expected {expected} readings, found {sanitizer.readings}; "
                "it was made for another agent or network"
            )


def _no_stream(agent: str) -> InvalidRequest:
    return InvalidRequest(
        f"sanitizers[{agent!r}]: it keeps a memory of earlier rows, and the network has no dynamics; "
        "give dynamics=, or a sanitizer without memory"
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown}, ... ({len(names)} in all)"


def as_rounded(network: Network, sanitizers: Sanitizers) -> dict[str, Sanitizer]:
    """What agents send as a linear centre sees it: rounding is noise, of variance q²/6 with dither and q²/12 without.

    network:    whose agents they are.
    sanitizers: what they send; an agent without a grid rounds nothing.
    """
    return {agent: _with_rounding(each) for agent, each in mechanisms(network, sanitizers).items()}


def _with_rounding(sanitizer: Sanitizer) -> Sanitizer:
    if sanitizer.grid is None:
        return sanitizer
    blurred = np.sqrt(np.diag(sanitizer.noise)) >= sanitizer.grid
    added = sanitizer.grid**2 / np.where(blurred, 12.0, 6.0)
    return sanitizer.replace(noise=sanitizer.noise + np.diag(added))
