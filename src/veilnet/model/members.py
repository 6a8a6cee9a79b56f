"""Agents that are groups: whose messages are added up before anybody sees them (:mod:`veilnet.sums`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.names import places_of
from veilnet._core.validation import as_names, refuse_unknown


@dataclass(frozen=True)
class Members:
    """The members of one group, which is one agent of the network.

    agents:    their names, in the order of their readings.
    readings:  how many readings each of them has.
    threshold: how many of them must be there for a sum to be opened.
    spare:     c: noise that is wanted is in the sum even without that of c members, who may drop out or collude.
    """

    agents: tuple[str, ...]
    readings: tuple[int, ...]
    threshold: int
    spare: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "agents", as_names(self.agents, "members"))
        object.__setattr__(self, "readings", tuple(self.readings))
        count = len(self.agents)
        whole = (*self.readings, self.threshold, self.spare)
        if any(type(each) is not int for each in whole) or len(self.readings) != count:
            raise InvalidNetwork("members: expected one number of readings for each agent, all of them whole")
        if count < 2:
            raise InvalidNetwork(f"members: expected at least two agents, found {list(self.agents)}")
        if min(self.readings) < 1:
            raise InvalidNetwork("members: expected at least one reading of each agent")
        if not 2 <= self.threshold <= count:
            raise InvalidNetwork(
                f"threshold: expected 2 to {count}, the number of members, found {self.threshold}; with fewer than "
                "two, a sum would be one agent's own message"
            )
        if not 0 <= self.spare <= count - 2:
            raise InvalidNetwork(f"spare: expected 0 to {count - 2}, found {self.spare}")

    @property
    def blocks(self) -> Blocks:
        """How the group's readings fall to its members."""
        return Blocks(self.readings)


def read_members(
    members: Mapping[str, Any] | None, names: Sequence[str], blocks: Blocks
) -> Mapping[str, Members]:
    """group -> Members, checked against the network's agents and their readings."""
    if not members:
        return MappingProxyType({})
    found, agents = dict(members), places_of(names)
    refuse_unknown(found, agents, "members")
    alone = {name for name in agents if name not in found}
    seen: set[str] = set()
    for group, each in found.items():
        if not isinstance(each, Members):
            raise InvalidNetwork(
                f"members of {group!r}: expected a Members, found {type(each).__name__}; use design(summed=...)"
            )
        size = int(blocks.sizes[agents[group]])
        if sum(each.readings) != size:
            raise InvalidNetwork(
                f"members of {group!r}: expected {size} readings in all, found {sum(each.readings)}"
            )
        twice = [name for name in each.agents if name in seen or name in alone]
        if twice:
            raise InvalidNetwork(
                f"members of {group!r}: {twice[0]!r} is in another group too, or an agent by itself"
            )
        seen |= set(each.agents)
    return MappingProxyType(found)
