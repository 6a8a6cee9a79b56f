"""What a recheck of a stream is told: each agent's filter, the white part of the noise, and units to count in."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

__all__ = ["AgentFilter", "agent_filters", "reached", "unit_sizes", "white_noise"]

_ROWS = 16


class AgentFilter:
    """What one agent does: z = C_s s + C_y y + ξ, s = F s + K y."""

    def __init__(self, rows: slice, sanitizer: Sanitizer) -> None:
        self.rows, self.count = rows, rows.stop - rows.start
        self.sent, self.order = sanitizer.compression.shape[0], sanitizer.order
        self.noise, self.memory = sanitizer.noise, sanitizer.memory
        self.from_memory = sanitizer.compression[:, : self.order]
        self.from_reading = sanitizer.compression[:, self.order :]


def agent_filters(network: Network, sanitizers: Sanitizers) -> list[AgentFilter]:
    """What every agent does, in sending order; those without a sanitizer send their readings raw."""
    sent = mechanisms(network, sanitizers)
    return [AgentFilter(network.blocks.rows(place), each) for place, each in enumerate(sent.values())]


def white_noise(network: Network) -> Array:
    """The white part of the readings' noise, dither included."""
    if network.colour is None:
        return network.R.matrix()
    return np.asarray(network.colour.floor + np.diag(network.draws * network.steps**2 / 12))


def unit_sizes(moves: Array, news: Array) -> Array:
    """Deviations that the state reaches within some rows: units in which its entries are of one size."""
    sizes = np.sqrt(np.maximum(np.diag(reached(moves, news)), 0.0))
    return np.asarray(np.where(sizes > 0, sizes, 1.0))


def reached(moves: Array, news: Array) -> Array:
    """The covariance of the state some rows after it was zero; as if it did not grow by itself where it does."""
    reached, moves = news, moves / max(1.0, np.max(np.abs(np.linalg.eigvals(moves))))
    for _ in range(_ROWS):
        reached = moves @ reached @ moves.T + news
    return reached
