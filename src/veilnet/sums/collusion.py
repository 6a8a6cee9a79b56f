"""What the centre knows with agents on its side: a sum protects nobody from those who are in it.

A colluding member hands over its readings and its draws, so that the centre can take its part out of the sum. What
is left is the sum of the others, with their part of the noise and of every memory, beside raw readings. That is more
than the centre has when the same members drop out, whose readings it then lacks: every figure here covers that too.

Dither that does not serve for what is left is not counted: of a reading that the centre then has whole, rounding
takes it off again (:mod:`veilnet.agent.dither`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet.agent.dither import dither_for
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import crlb, privacy
from veilnet.model.members import Members
from veilnet.model.network import Network
from veilnet.sums.handing_out import members_of
from veilnet.sums.merging import apart

_MOST_SETS, _MOST_SETS_OF_STREAM = (
    500,
    30,
)  # looked at one by one; beyond that the worst set grows agent by agent


@dataclass(frozen=True)
class Collusion:
    """The agents who help the centre most on one private parameter, and what is left of its privacy.

    privacy: p_j.
    agents:  who they are.
    exact:   whether every set of so many was looked at.
    """

    privacy: float
    agents: tuple[str, ...]
    exact: bool


def privacy_with(
    network: Network, sanitizers: Mapping[str, Sanitizer], colluding: Sequence[str]
) -> dict[str, float]:
    """p_j when these agents hand the centre their readings and draws, or drop out.

    Errors are compared with those from raw readings of the network as it is, dither included.
    """
    split = apart(network, colluding) if network.members else network
    left: dict[str, Sanitizer] = {}
    for name in split.agents:
        if name in colluding:
            left[name] = Sanitizer.raw(int(split.blocks.sizes[split.position[name]]))
        else:
            whose = name if name in sanitizers else _group_of(network, name)
            left[name] = _without(sanitizers[whose], network.members.get(whose), colluding)
    draws = split.draws
    needed = dither_for(split, left)
    counted = split.replace(dither=np.where((needed > 0) & (draws >= needed), draws, 0.0))
    grown = privacy(counted, left)
    before, after = (crlb(each, when="hindsight" if each.is_stream else None) for each in (network, counted))
    return {
        name: float(
            (1 + grown[name]) * np.trace(rows @ after @ rows.T) / np.trace(rows @ before @ rows.T) - 1
        )
        for name, rows in network.private.items()
    }


def _group_of(network: Network, agent: str) -> str:
    return next(name for name, group in network.members.items() if agent in group.agents)


def _without(sanitizer: Sanitizer, group: Members | None, colluding: Sequence[str]) -> Sanitizer:
    """What is left of a group's sanitizer when the centre takes these members' parts out of the sum."""
    if group is None or not set(group.agents) & set(colluding):
        return sanitizer
    honest = [place for place, agent in enumerate(group.agents) if agent not in colluding]
    mine = np.concatenate([np.r_[group.blocks.rows(place)] for place in honest])
    order, memory = sanitizer.order, sanitizer.memory
    return Sanitizer(
        np.concatenate([sanitizer.compression[:, :order], sanitizer.compression[:, order:][:, mine]], axis=1),
        sanitizer.noise * (len(honest) / len(group.agents)),
        offset=sanitizer.offset[mine],
        memory=None if memory is None else Memory(memory.transition, memory.gain[:, mine]),
    )


def worst_collusion(
    network: Network, sanitizers: Mapping[str, Sanitizer], count: int
) -> dict[str, Collusion]:
    """The worst set of so many agents for each private parameter."""
    agents = members_of(network)
    if not 1 <= count < len(agents):
        raise InvalidRequest(f"count: expected 1 to {len(agents) - 1} agents, found {count!r}")
    most = _MOST_SETS_OF_STREAM if network.is_stream else _MOST_SETS
    if comb(len(agents), count) <= most:
        found = {who: privacy_with(network, sanitizers, who) for who in combinations(agents, count)}
        return _worst(network, found, exact=True)
    fewer = worst_collusion(network, sanitizers, count - 1) if count > 1 else {}
    begun = {each.agents for each in fewer.values()} or {()}
    sets = {
        tuple(sorted({*some, agent}, key=agents.index))
        for some in begun
        for agent in agents
        if agent not in some
    }
    return _worst(network, {who: privacy_with(network, sanitizers, who) for who in sets}, exact=count == 1)


def _worst(
    network: Network, found: Mapping[tuple[str, ...], Mapping[str, float]], *, exact: bool
) -> dict[str, Collusion]:
    worst = {name: min(found, key=lambda who: found[who][name]) for name in network.private}
    return {name: Collusion(found[who][name], who, exact) for name, who in worst.items()}
