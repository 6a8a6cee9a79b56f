"""What an audit asks of the world that a network describes, whether its rows follow one another or not.

How large errors are, what simulated agents send, what stays exposed. A row by itself is a stream of one row, so that
whatever is drawn has the shape (draws, rows, numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

When = Literal["now", "hindsight"]
Sanitizers = Mapping[str, Sanitizer]


@dataclass(frozen=True, eq=False)
class EstimatedRows:
    """Rows of x that somebody estimates from what is sent: the centre's public ones, or private ones.

    when: of a stream, from messages up to now or with hindsight.
    """

    what: str
    name: str
    rows: Array
    public: bool
    when: When = "hindsight"


@dataclass(frozen=True, eq=False)
class Streams:
    """Streams that have nothing to do with one another: x (streams, rows, L) and readings (streams, rows, N)."""

    x: Array
    readings: Array

    def __len__(self) -> int:
        return len(self.x)


Growth = Callable[[Array, When], float]
"""By how much the error of rows A x exceeds that from raw readings of all agents, relative to it; 0 is no more."""


class KnownWorld:
    """What messages reveal about a network's parameters; agents without a sanitizer send their readings raw."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def known(self, sanitizers: Sanitizers, within: Network | None = None) -> Growth:
        """The growths of errors when messages come from ``within``, the network or a variant of it."""
        raise NotImplementedError

    def loss(self, sanitizers: Sanitizers, within: Network | None = None) -> float:
        """Utility loss, from messages up to now; inf when u is lost."""
        return self.known(sanitizers, within)(self.network.measured, "now")

    def privacies(self, sanitizers: Sanitizers, within: Network | None = None) -> dict[str, float]:
        """p_j of every private parameter, from all messages."""
        known = self.known(sanitizers, within)
        return {name: known(rows, "hindsight") for name, rows in self.network.private.items()}


def asked_now(network: Network, when: str = "") -> list[EstimatedRows]:
    """The public estimates, from messages up to now; ``when`` says so."""
    return [
        EstimatedRows(f"public estimate of {name}{when}", name, rows, public=True, when="now")
        for name, rows in network.public.items()
    ]
