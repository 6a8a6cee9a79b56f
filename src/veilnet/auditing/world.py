"""What an audit asks of the world that a network describes, whether its rows follow one another or not.

How large errors are, what simulated agents send, what stays exposed. A row by itself is a stream of one row, so that
whatever is drawn has the shape (draws, rows, numbers).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.row import Row
from veilnet.auditing.statistics import SquareSum
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


@dataclass(frozen=True)
class Beside:
    """What a measured error is seen beside: typical errors by guessing and from raw readings, in a unit.

    outputs: how many rows the parameter has, over which a mean square error is summed.
    """

    guessing: float
    raw: float
    unit: str
    outputs: int

    def typical(self, total: float) -> float:
        """The root mean square over the rows, of a mean square summed over them."""
        return float(np.sqrt(max(total, 0.0) / self.outputs))


@dataclass(frozen=True, eq=False)
class Streams:
    """Streams that have nothing to do with one another: x (streams, rows, L) and readings (streams, rows, N)."""

    x: Array
    readings: Array

    def __len__(self) -> int:
        return len(self.x)


class Trial(Protocol):
    """Draws from the model, and what the best linear estimator makes of their messages.

    at:      the rows of each draw that are judged.
    at_once: so many draws are made at a time.
    """

    at: Integers
    at_once: int

    def draw(self, count: int, rng: np.random.Generator) -> Streams:
        """So many draws."""

    def squares(self, drawn: Streams, messages: Array, each: EstimatedRows) -> float:
        """The squared errors, summed over draws, of which the mean over judged rows is taken."""

    def law(self, each: EstimatedRows, count: int) -> SquareSum:
        """The law of their mean over so many draws; its mean is infinite where nothing determines the rows."""

    def features(self, values: Array) -> Array:
        """(draws * judged rows, k): what an attacker is shown of messages or readings (draws, rows, numbers)."""


Growth = Callable[[Array, When], float]
"""By how much the error of rows A x exceeds that from raw readings of all agents, relative to it; 0 is no more."""


class World(ABC):
    """What messages reveal about a network's parameters; agents without a sanitizer send their readings raw.

    late: when attackers estimate, in words.
    """

    late = ""

    def __init__(self, network: Network) -> None:
        self.network = network

    @property
    def learnable(self) -> World:
        """The world with a full prior, which attackers need who learn."""
        return self

    @abstractmethod
    def known(self, sanitizers: Sanitizers, within: Network | None = None) -> Growth:
        """The growths of errors when messages come from ``within``, the network or a variant of it."""

    def loss(self, sanitizers: Sanitizers, within: Network | None = None) -> float:
        """Utility loss, from messages up to now; inf when u is lost."""
        return self.known(sanitizers, within)(self.network.measured, "now")

    def privacies(self, sanitizers: Sanitizers, within: Network | None = None) -> dict[str, float]:
        """p_j of every private parameter, from all messages."""
        known = self.known(sanitizers, within)
        return {name: known(rows, "hindsight") for name, rows in self.network.private.items()}

    @abstractmethod
    def raw_error(self, each: EstimatedRows) -> float:
        """The mean square error that raw readings leave, by the model."""

    @abstractmethod
    def asked(self) -> list[EstimatedRows]:
        """What the plan promises an error of."""

    @abstractmethod
    def beside(self, each: EstimatedRows) -> Beside:
        """What raw readings and guessing leave of it."""

    @abstractmethod
    def trial(self, sanitizers: Sanitizers) -> Trial:
        """Draws, and the best estimator from what these sanitizers send."""

    def second_route(self, sanitizers: Sanitizers) -> list[Row]:  # noqa: ARG002
        """What is promised, found by another route than the certificate's where there is one."""
        return []

    @abstractmethod
    def exposed(self, sanitizers: Sanitizers, name: str) -> tuple[float, str]:
        """By how much the error variance grows along the most exposed direction of a parameter, and that in words."""

    @abstractmethod
    def bits(self, sanitizers: Sanitizers) -> dict[str, float]:
        """Bits that messages reveal of each private parameter, in each row; none where nothing is known before."""


def asked_now(network: Network, when: str = "") -> list[EstimatedRows]:
    """The public estimates, from messages up to now; ``when`` says so."""
    return [
        EstimatedRows(f"public estimate of {name}{when}", name, rows, public=True, when="now")
        for name, rows in network.public.items()
    ]
