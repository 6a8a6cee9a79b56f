"""Groups as larger agents: the merged network, and the way back.

The readings of a group are those of its members side by side, in the order of the network. Nothing else changes:
x, prior, dynamics and the noise of the readings are the same, so that every bound, design and certificate of the
merged network is one of the sums. Noise stays per group, as matrices of all its readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_names, expect, refuse_unknown
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import CommonNoise, SharedNoise
from veilnet.model.members import Members
from veilnet.model.network import Network

EVERYBODY = "everybody"
_MOST_READINGS = 5000  # of a group: its noise is one matrix
_MOST_NAME = 60  # of a group called after its members


@dataclass(frozen=True)
class SumGroups:
    """Who adds up messages with whom, and how many must be there.

    groups:    lists of agents, or name -> agents; an agent in none of them sends its own message. All agents are one
               group when left out.
    threshold: the part of a group that must be there for its sum to be opened, more than this part: two thirds when
               left out: two sets of survivors then have an honest agent in both, if fewer than a third collude. On a
               stream, and where members' noises go together, a sum that lacks somebody is of no use: all must be.
    spare:     c: where noise is added, it is enough even without that of c members of each group.
    """

    groups: Sequence[Sequence[str]] | Mapping[str, Sequence[str]] | None = None
    threshold: float = 2 / 3
    spare: int = 0

    def __post_init__(self) -> None:
        part = self.threshold
        if not isinstance(part, int | float) or isinstance(part, bool) or not 0.5 <= part < 1:
            raise InvalidRequest(
                f"threshold: expected a part of the members from 0.5 to below 1, found {part!r}"
            )
        if type(self.spare) is not int or self.spare < 0:
            raise InvalidRequest(f"spare: expected a whole number of members from 0 on, found {self.spare!r}")

    def needed(self, count: int) -> int:
        """How many members of a group must be there.

        count: how many it has.
        """
        return min(count, max(2, int(np.floor(self.threshold * count + 1e-9)) + 1))


def read_summed(summed: Any) -> SumGroups | None:
    """The ``summed`` argument of a design; None where nothing is summed."""
    if summed is None or summed is False:
        return None
    if summed is True:
        return SumGroups()
    if isinstance(summed, SumGroups):
        return summed
    if isinstance(summed, Mapping | list | tuple) and summed:
        return SumGroups(summed)
    raise InvalidRequest(
        "summed: expected True, lists of agents such as [['kitchen', 'hall'], ['bath', 'study']], or a SumGroups, "
        f"found {summed!r}"
    )


def merged(network: Network, summed: SumGroups | None = None) -> Network:
    """The network in which each group is one agent; as it is where it has groups and nothing else is asked."""
    expect(network, Network, "network")
    if network.members:
        if summed is None:
            return network
        raise InvalidRequest("summed: the network's agents are groups already; leave it out")
    chosen = SumGroups() if summed is None else summed
    groups = _groups(network, chosen)
    taken = {agent: group for group, members in groups.items() for agent in members}
    names: dict[str, tuple[str, ...]] = {}
    for agent in network.agents:
        group = taken.get(agent)
        names[agent if group is None else group] = (agent,) if group is None else groups[group]
    places = [[network.position[agent] for agent in agents] for agents in names.values()]
    sizes = network.blocks.sizes
    order = np.concatenate([np.r_[network.blocks.rows(k)] for each in places for k in each]).astype(np.intp)
    cut = dict(
        zip(names, np.split(order, np.cumsum([sizes[each].sum() for each in places])[:-1]), strict=True)
    )
    members = {
        group: Members(
            names[group],
            tuple(int(sizes[network.position[agent]]) for agent in names[group]),
            chosen.needed(len(names[group])),
            chosen.spare,
        )
        for group in groups
    }
    for group, each in members.items():
        if sum(each.readings) > _MOST_READINGS:
            raise InvalidRequest(
                f"summed: a group has at most {_MOST_READINGS} readings, found {sum(each.readings)} in {group!r}; "
                "make smaller groups"
            )
    found = _rearranged(network, cut, order, members, _named(network, names, members))
    whole = {
        group: replace(each, threshold=len(each.agents))
        for group, each in members.items()
        if each.threshold < len(each.agents) and not useful_in_part(found, group, each)
    }
    return found.replace(members=members | whole) if whole else found


def useful_in_part(network: Network, name: str, group: Members) -> bool:
    """Whether a sum that lacks members of a group is of use: rows alone, whose noise is each member's own."""
    noise = network.sensor_noise
    noise = noise.own if isinstance(noise, SharedNoise) else noise
    if network.is_stream or not noise.independent:
        return False
    together = np.array(noise.block(network.position[name]))
    for place in range(len(group.agents)):
        own = group.blocks.rows(place)
        together[own, own] = 0.0
    return not np.any(together)


def merged_like(network: Network, other: Network) -> Network:
    """The network with the groups of another one, where it has none itself and has their members as agents."""
    agents = {agent for group in other.members.values() for agent in group.agents}
    if network.members or not agents or not agents <= set(network.position):
        return network
    found = merged(network, SumGroups({name: group.agents for name, group in other.members.items()}))
    return found.replace(members=other.members) if list(found.agents) == list(other.agents) else network


def _groups(network: Network, summed: SumGroups) -> dict[str, tuple[str, ...]]:
    """group -> its members in the order of the network."""
    given = summed.groups
    if given is None:
        if network.S < 2:
            raise InvalidRequest("summed: one agent has nobody to add its messages up with; leave it out")
        given = {EVERYBODY: tuple(network.agents)}
    if not isinstance(given, Mapping):
        lists = [as_names(each, "summed", error=InvalidRequest) for each in given]
        called = [(each, "+".join(each)) for each in lists]
        given = {
            name if len(name) <= _MOST_NAME else f"group {place + 1}": each
            for place, (each, name) in enumerate(called)
        }
        if len(given) < len(lists):
            raise InvalidRequest("summed: the same group was given twice")
    found: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for group, agents in given.items():
        agents = as_names(agents, f"summed {group!r}", error=InvalidRequest)
        refuse_unknown(agents, network.position, f"summed {group!r}", error=InvalidRequest)
        if len(agents) < 2:
            raise InvalidRequest(
                f"summed: expected at least two agents in {group!r}, found {list(agents)}; an agent in no group "
                "sends its own message"
            )
        twice = [agent for agent in agents if agent in seen]
        if twice:
            raise InvalidRequest(f"summed: {twice[0]!r} is in two groups; an agent adds up with one of them")
        seen |= set(agents)
        found[group] = tuple(sorted(agents, key=network.position.__getitem__))
    clash = [group for group in found if group in network.position and group not in found[group]]
    if clash:
        raise InvalidRequest(f"summed: {clash[0]!r} is an agent; call the group something else")
    return found


def _named(
    network: Network, names: Mapping[str, Sequence[str]], members: Mapping[str, Members]
) -> dict[str, list[str]]:
    """group -> names of its readings, each with its member's before it; none where no member has names."""
    found: dict[str, list[str]] = {}
    for name, agents in names.items():
        if not any(agent in network.reading_names for agent in agents):
            continue
        if name not in members:
            found[name] = list(network.reading_names[name])
            continue
        sizes = zip(agents, members[name].readings, strict=True)
        found[name] = [
            _reading(agent, each)
            for agent, size in sizes
            for each in network.reading_names.get(agent) or _unnamed(size)
        ]
    return found


def _reading(agent: str, name: str) -> str:
    return f"{agent}: {name}"


def _unnamed(size: int) -> list[str]:
    return [f"reading {k + 1}" for k in range(size)]


def _rearranged(
    network: Network,
    cut: Mapping[str, Integers],
    order: Integers,
    members: Mapping[str, Members],
    named: Mapping[str, Sequence[str]],
) -> Network:
    """The same readings in another order, cut into other agents: name -> which readings."""
    low, high = network.stacked_limits
    said = network.resolution
    return network.replace(
        observe={name: network.H[rows] for name, rows in cut.items()},
        noise=_noise(network, cut, order),
        offset=network.offset[order],
        reading_names=named,
        limits={
            name: (low[rows], high[rows])
            for name, rows in cut.items()
            if np.any(np.isfinite(low[rows])) or np.any(np.isfinite(high[rows]))
        },
        resolution={name: network.steps[rows] for name, rows in cut.items()} if len(said) else None,
        dither=None if network.dither is None else network.dither[order],
        members=members,
    )


def _noise(network: Network, cut: Mapping[str, Integers], order: Integers) -> Any:
    """The noise of rearranged readings, kept by agent where agents are independent."""
    noise = network.noise
    both = np.ix_(order, order)
    if isinstance(noise, ColouredNoise):
        return ColouredNoise(*(getattr(noise, part)[both] for part in ("memory", "innovation", "floor")))
    shared = noise if isinstance(noise, SharedNoise) else None
    own = noise if shared is None else shared.own
    if not own.independent:
        return own.matrix()[both]
    blocks: dict[str, Array] = {}
    place_of, within = (
        network.blocks.owner,
        np.arange(network.N) - network.blocks.starts[network.blocks.owner],
    )
    for name, rows in cut.items():
        blocks[name] = np.zeros((len(rows), len(rows)))
        for place in np.unique(place_of[rows]):
            mine = np.flatnonzero(place_of[rows] == place)
            inside = within[rows[mine]]
            blocks[name][np.ix_(mine, mine)] = own.block(int(place))[np.ix_(inside, inside)]
    split = _split_noise(network, blocks, order) if network.members else blocks
    return split if shared is None else CommonNoise(split, shared.loadings[order], shared.common)


def _split_noise(network: Network, blocks: dict[str, Array], order: Integers) -> Any:
    """The noise of members apart: one matrix of all where noises of members of a group go together."""
    own = network.noise.own if isinstance(network.noise, SharedNoise) else network.noise
    assert not isinstance(own, ColouredNoise)
    together = sum(np.count_nonzero(own.block(place)) for place in range(network.S))
    if sum(np.count_nonzero(each) for each in blocks.values()) == together:
        return blocks
    if isinstance(network.noise, SharedNoise):
        raise InvalidNetwork(
            "noise: members of a group whose own noises go together cannot be looked at one by one beside common "
            "disturbances; give one covariance of all readings"
        )
    return own.matrix()[np.ix_(order, order)]


def apart(network: Network, alone: Sequence[str] | None = None) -> Network:
    """The network of some members as agents of their own, the rest still in their groups; of all when left out.

    alone: names of members. A group of which one member is left is that member.
    """
    if not network.members:
        return network
    cut: dict[str, Integers] = {}
    members: dict[str, Members] = {}
    named: dict[str, Sequence[str]] = {}
    for place, name in enumerate(network.agents):
        rows = np.r_[network.blocks.rows(place)].astype(np.intp)
        names = network.reading_names.get(name)
        if name not in network.members:
            cut[name] = rows
            named |= {} if names is None else {name: names}
            continue
        group = network.members[name]
        own = np.split(rows, group.blocks.starts[1:])
        left = [k for k, agent in enumerate(group.agents) if alone is not None and agent not in alone]
        if len(left) < 2:
            left = []
        for k, agent in enumerate(group.agents):
            if k not in left:
                cut[agent] = own[k]
                bare = (
                    []
                    if names is None
                    else [names[row - rows[0]].removeprefix(f"{agent}: ") for row in own[k]]
                )
                named |= {agent: bare} if bare and bare != _unnamed(len(bare)) else {}
        if left:
            cut[name] = np.concatenate([own[k] for k in left])
            members[name] = Members(
                tuple(group.agents[k] for k in left),
                tuple(group.readings[k] for k in left),
                min(group.threshold, len(left)),
            )
            named |= {} if names is None else {name: [names[row - rows[0]] for row in cut[name]]}
    return _rearranged(network, cut, np.concatenate(list(cut.values())), members, named)
