"""What the centre knows with agents on its side: a sum protects nobody from those who are in it.

A colluding member hands over its readings and its draws, so that the centre can take its part out of the sum. What
is left is the sum of the others, with their part of the noise and of every memory, beside raw readings. That is more
than the centre has when the same members drop out, whose readings it then lacks: figures of colluders cover that too.
:func:`worst_left_out` has what a centre can know that calls members dropped as it likes.

Dither that does not serve for what is left is not counted: of a reading that the centre then has whole, rounding
takes it off again (:mod:`veilnet.agent.dither`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from math import comb, prod

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

# looked at one by one; beyond that the worst set grows agent by agent
_MOST_SETS, _MOST_SETS_OF_STREAM = 500, 30


@dataclass(frozen=True)
class Collusion:
    """The agents who help the centre most on one private parameter, and what is left of its privacy.

    privacy: p_j.
    agents:  who they are.
    exact:   whether every set of so many was looked at.
    dropped: who is missing in the sums besides.
    """

    privacy: float
    agents: tuple[str, ...]
    exact: bool
    dropped: tuple[str, ...] = ()


def privacy_with(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    colluding: Sequence[str],
    dropped: Sequence[str] = (),
) -> dict[str, float]:
    """p_j when these agents hand the centre their readings and draws, and others send nothing.

    Errors are compared with those from raw readings of the network as it is, dither included.
    """
    counted, left = _seen(network, sanitizers, colluding, dropped)
    grown = privacy(counted, left)
    before, after = (crlb(each, when="hindsight" if each.is_stream else None) for each in (network, counted))
    return {
        name: float(
            (1 + grown[name]) * np.trace(rows @ after @ rows.T) / np.trace(rows @ before @ rows.T) - 1
        )
        for name, rows in network.private.items()
    }


def _seen(
    network: Network, sanitizers: Mapping[str, Sanitizer], colluding: Sequence[str], dropped: Sequence[str]
) -> tuple[Network, dict[str, Sanitizer]]:
    """The network as such a centre sees it, with the dither that serves there, and what it sees of each."""
    gone = (*colluding, *dropped)
    split = apart(network, gone) if network.members else network
    left: dict[str, Sanitizer] = {}
    for name in split.agents:
        if name in gone:
            bare = Sanitizer.raw if name in colluding else Sanitizer.silent
            left[name] = bare(int(split.blocks.sizes[split.position[name]]))
        else:
            whose = name if name in sanitizers else _group_of(network, name)
            left[name] = _without(sanitizers[whose], network.members.get(whose), gone)
    draws = split.draws
    needed = dither_for(split, left)
    return split.replace(dither=np.where((needed > 0) & (draws >= needed), draws, 0.0)), left


def left_by_turns(
    network: Network, sanitizers: Mapping[str, Sanitizer], rows: int, *, whole: bool = False
) -> dict[str, float]:
    """p_j after so many rows of an x that stays as it is, where whole sums and sums that lack one member take turns.

    Sums of two rows that differ in one member show a little of that member's own message. Rows of one x are
    independent given x, so their informations add up: J = J0 + Σ_e (P_e^-1 - J0), P_e the error of x from a row
    of kind e alone.

    whole: all sums are whole.

    Empty where this cannot be said so: on a stream, with a prior that is not full, or of very many members.
    """
    lacking = [
        (agent,)
        for group in network.members.values()
        if group.threshold < len(group.agents)
        for agent in group.agents
    ]
    prior = None if network.prior is None else network.prior.information
    if network.is_stream or len(lacking) >= _MOST_SETS or prior is None:
        return {}
    if np.linalg.matrix_rank(prior) < network.L:
        return {}
    kinds = [(), *([] if whole else lacking)]
    known = [np.linalg.inv(crlb(*_seen(network, sanitizers, (), missing))) - prior for missing in kinds]
    after, before = np.linalg.inv(prior + rows * np.mean(known, axis=0)), crlb(network)
    return {
        name: float(np.trace(own @ after @ own.T) / np.trace(own @ before @ own.T) - 1)
        for name, own in network.private.items()
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
    if comb(len(agents), count) <= _most_sets(network):
        every = combinations(agents, count)
        return _worst(network, sanitizers, [(who, ()) for who in every], exact=True)
    fewer = worst_collusion(network, sanitizers, count - 1) if count > 1 else {}
    begun = {each.agents for each in fewer.values()} or {()}
    sets = {
        tuple(sorted({*some, agent}, key=agents.index))
        for some in begun
        for agent in agents
        if agent not in some
    }
    return _worst(network, sanitizers, [(who, ()) for who in sets], exact=count == 1)


def worst_left_out(
    network: Network, sanitizers: Mapping[str, Sanitizer], helping: int = 0
) -> dict[str, Collusion]:
    """The worst where a centre calls as many members dropped as thresholds allow, and so many others help it.

    Where sets are too many to look at each, those who are left out are counted as if they helped too, and the worst
    set grows agent by agent (``exact`` is then False).
    """
    groups, agents = network.members.values(), members_of(network)
    spare = [range(len(group.agents) - group.threshold + 1) for group in groups]
    both = list(zip(groups, spare, strict=True))
    ways = prod(sum(comb(len(group.agents), count) for count in may) for group, may in both)
    if ways * comb(len(agents), helping) > _most_sets(network):
        most = min(sum(may[-1] for may in spare) + helping, len(agents) - 1)
        found = worst_collusion(network, sanitizers, most)
        return {name: replace(each, exact=False) for name, each in found.items()}
    some = [[who for count in may for who in combinations(group.agents, count)] for group, may in both]
    sets = []
    for each in product(*some):
        dropped = tuple(chain.from_iterable(each))
        rest = [agent for agent in agents if agent not in dropped]
        sets += [(who, dropped) for who in combinations(rest, helping)]
    return _worst(network, sanitizers, sets, exact=True)


def _most_sets(network: Network) -> int:
    return _MOST_SETS_OF_STREAM if network.is_stream else _MOST_SETS


def _worst(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    sets: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    *,
    exact: bool,
) -> dict[str, Collusion]:
    """The worst of some (who helps, who is dropped) for each private parameter."""
    found = {each: privacy_with(network, sanitizers, *each) for each in sets}
    worst = {name: min(sets, key=lambda each: found[each][name]) for name in network.private}
    return {name: Collusion(found[each][name], each[0], exact, each[1]) for name, each in worst.items()}
