"""What messages tell of a network's parameters: of rows by themselves, or of rows that follow one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.measures import growth, privacies
from veilnet.bounds.information import message_factor
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.model.network import Network


class World(Protocol):
    """Errors from messages against those from raw readings of all agents; agents without a sanitizer send raw."""

    network: Network

    def loss(self, sanitizers: Mapping[str, Sanitizer]) -> float:
        """Utility loss; inf when u is lost."""

    def privacies(self, sanitizers: Mapping[str, Sanitizer], within: Network) -> dict[str, float]:
        """p_j of every private parameter when messages come from ``within``, the network or a variant of it."""


class RowWorld:
    """Each row by itself."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def loss(self, sanitizers: Mapping[str, Sanitizer]) -> float:
        """Of the estimate from one row of messages."""
        return growth(knowledge(self.network, sanitizers), self.network.U)

    def privacies(self, sanitizers: Mapping[str, Sanitizer], within: Network) -> dict[str, float]:
        """From one row of messages."""
        return privacies(knowledge_of_factor(self.network, message_factor(within, sanitizers)))


def world_of(network: Network) -> World:
    """The world a network describes: a stream where it has dynamics."""
    if not network.is_stream:
        return RowWorld(network)
    from veilnet.auditing.streams.steady import StreamWorld

    return StreamWorld(network)
