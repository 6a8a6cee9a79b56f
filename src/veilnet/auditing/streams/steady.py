"""The steady errors of whoever filters a stream of messages, as ratios to raw streams under the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.streams.window import When
from veilnet.bounds.streams.riccati import MessageSystem, Steady, steady_state
from veilnet.bounds.streams.state_space import message_model
from veilnet.model.network import Network


@dataclass(frozen=True, eq=False)
class Filtered:
    """What a centre knows of x_t in the long run, x being the first L numbers of the state."""

    network: Network
    steady: Steady

    def error(self, rows: Array, when: When) -> float:
        """tr(A P A') now or with hindsight; inf where the messages never bound it."""
        padded = np.zeros((len(rows), len(self.steady.basis)))
        padded[:, : self.network.L] = rows
        if not np.all(self.steady.bounded(padded)):
            return np.inf
        return float(np.trace(self.steady.error(padded, hindsight=when == "hindsight")))


def filtered(network: Network, sanitizers: Mapping[str, Sanitizer] | None = None) -> Filtered:
    """What the messages of these sanitizers tell; agents without one send their readings raw."""
    model = message_model(network, sanitizers)
    return filtered_messages(
        network, MessageSystem(model.transition, model.noise, model.observe, model.floor)
    )


def filtered_messages(network: Network, messages: MessageSystem) -> Filtered:
    """What messages of any kind tell, x being the first numbers of their state."""
    return Filtered(network, steady_state(messages))


class Measured:
    """Utility now and privacy with hindsight, against raw streams."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @cached_property
    def raw(self) -> Filtered:
        """What raw streams tell."""
        return filtered(self.network)

    def growth(self, known: Filtered, rows: Array, when: When) -> float:
        """By how much the error of A x exceeds that from raw streams, relative to it; 0 is no more."""
        return known.error(rows, when) / self.raw.error(rows, when) - 1.0

    def loss(self, known: Filtered) -> float:
        """Utility loss: the public error now against that from raw streams."""
        return self.growth(known, self.network.U, "now")

    def privacies(self, known: Filtered, when: When = "hindsight") -> dict[str, float]:
        """p_j of every private parameter."""
        return {name: self.growth(known, rows, when) for name, rows in self.network.private.items()}


class StreamWorld:
    """The world (:mod:`veilnet.auditing.worlds`) of rows that follow one another: utility now, privacy later."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.measured = Measured(network)

    def loss(self, sanitizers: Mapping[str, Sanitizer]) -> float:
        """Of the estimate from messages up to now."""
        return self.measured.loss(filtered(self.network, sanitizers))

    def privacies(self, sanitizers: Mapping[str, Sanitizer], within: Network) -> dict[str, float]:
        """From all messages, later ones too."""
        return self.measured.privacies(filtered(within, sanitizers))
