"""What each member does of a group's sanitizer: its columns, its part of the noise, the same grid.

z = C (y - offset) + ξ of the group is Σ_i (C_i (y_i - offset_i) + ξ_i): C_i has the columns of member i's readings,
and ξ_i, one S-th of the noise's covariance, is drawn by each for itself. With a memory s = F s + K y every member
keeps one, s_i = F s_i + K_i y_i, and s = Σ_i s_i by linearity; a draw at a start is divided like the noise.

Each member rounds to the grid by itself, which adds S rounding errors to a sum: the grid of a group is finer than
that of an agent by a power of two of at least √S (:mod:`veilnet.plans.release_grid`).

The modulus is such that no sum can leave it: a member's readings count as their limits beyond these, and never as
more than its grid reaches; draws of noise are within 12 deviations (:mod:`veilnet.agent.recipe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet.agent.membership import Membership
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.members import Members
from veilnet.model.network import Network

_MOST_DEVIATIONS = 12.0  # no draw is larger
_EXACT_BITS = 54  # sums below 2^53 steps, which doubles hold exactly
_ROUNDED = 2.0  # steps: dither of one, and rounding


def handed_out(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
    """agent -> what it does: members of groups their part, others what the plan says.

    network:    whose agents are groups, some or all of them.
    sanitizers: of its agents, with grids.
    """
    found: dict[str, Sanitizer] = {}
    for name in network.agents:
        group = network.members.get(name)
        found |= {name: sanitizers[name]} if group is None else parts_of(sanitizers[name], name, group)
    return found


def members_of(network: Network) -> tuple[str, ...]:
    """The agents themselves, group after group."""
    groups = network.members
    return tuple(
        agent for name in network.agents for agent in (groups[name].agents if name in groups else (name,))
    )


def sparing(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer] | None:
    """The same with S/(S - c) times the noise in each group, of which c members may be spared; None where none is."""
    changed = {}
    for name, group in network.members.items():
        if group.spare and np.any(sanitizers[name].noise):
            count = len(group.agents)
            more = sanitizers[name].noise * (count / (count - group.spare))
            changed[name] = sanitizers[name].replace(noise=more, dither=sanitizers[name].dither)
    return {**sanitizers, **changed} if changed else None


def parts_of(sanitizer: Sanitizer, name: str, group: Members) -> dict[str, Sanitizer]:
    """member -> its part of the sanitizer of a group."""
    if sanitizer.grid is None:
        raise InvalidNetwork(f"{name}: expected a grid, on which members' numbers are whole; found none")
    bare = [_part(sanitizer, group, place) for place in range(len(group.agents))]
    bits = _bits(bare, name)
    summed = Membership(name, group.agents, group.threshold, bits)
    return {each.agent: each.replace(summed=summed, dither=each.dither) for each in bare}


def _part(sanitizer: Sanitizer, group: Members, place: int) -> Sanitizer:
    agent, mine, count = group.agents[place], group.blocks.rows(place), len(group.agents)
    order = sanitizer.order
    memory = sanitizer.memory
    if memory is not None:
        start = None if memory.start is None else memory.start / count
        memory = Memory(memory.transition, memory.gain[:, mine], start)
    from_memory, from_readings = sanitizer.compression[:, :order], sanitizer.compression[:, order:]
    names = [each.removeprefix(f"{agent}: ") for each in sanitizer.names[mine]]
    unnamed = [f"reading {k + 1}" for k in range(group.readings[place])]
    return Sanitizer(
        np.concatenate([from_memory, from_readings[:, mine]], axis=1),
        sanitizer.noise / count,
        offset=sanitizer.offset[mine],
        grid=sanitizer.grid,
        limits=_sliced(sanitizer.limits, mine),
        resolution=None if sanitizer.resolution is None else sanitizer.resolution[mine],
        dither=sanitizer.dither[mine],
        memory=memory,
        agent=agent,
        names=() if names == unnamed else names,
        step=sanitizer.step,
        usual=_sliced(sanitizer.usual, mine),
    )


def _sliced(both: tuple[Array, Array] | None, mine: slice) -> tuple[Array, Array] | None:
    return None if both is None else (both[0][mine], both[1][mine])


def _bits(members: list[Sanitizer], name: str) -> int:
    """k with every sum of these members' numbers below 2^(k-1) steps in size."""
    most = float(np.max(sum(_most_steps(each) for each in members), initial=1.0))
    bits = 1 + ceil(log2(most + 1)) if np.isfinite(most) else _EXACT_BITS + 1
    if bits > _EXACT_BITS:
        raise InvalidNetwork(
            f"summed: sums of {name!r} may need {bits} bits, and {_EXACT_BITS} is the most; state limits of the "
            "readings (limits=), or make smaller groups"
        )
    return bits


def _most_steps(member: Sanitizer) -> Array:
    """How many steps of its grid each number of a member can be at most, (m,)."""
    low, high = member.reach
    largest = np.maximum(np.abs(low - member.offset), np.abs(high - member.offset)) + member.dither_width
    felt = np.abs(member.compression[:, member.order :])
    drawn = _MOST_DEVIATIONS * np.sqrt(np.diag(member.noise))
    if member.memory is not None:
        through = member.compression[:, : member.order]
        felt = felt + np.abs(through) @ member.memory.held
        if member.memory.start is not None:
            started = _MOST_DEVIATIONS * np.sqrt(np.diag(member.memory.start))
            drawn = drawn + np.abs(through) @ member.memory.reached(started)
    assert member.grid is not None
    # a reading that nothing depends on may be as far away as it likes
    sizes = np.sum(np.where(felt > 0, felt * largest, 0.0), axis=1)
    return np.asarray((sizes + drawn) / member.grid + _ROUNDED)
