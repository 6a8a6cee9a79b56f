"""What a recheck of a stream is told: each agent's filter, the white part of the noise, and units to count in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

__all__ = ["AgentFilter", "reached", "unit_sizes", "white_noise"]

_ROWS = 16


class AgentFilter:
    """What one agent does: z = C_s s + C_y y + ξ, s = F s + K y."""

    def __init__(self, network: Network, place: int, sanitizers: Mapping[str, Sanitizer]) -> None:
        sanitizer = sanitizers.get(network.agents[place])
        self.rows = network.blocks.rows(place)
        count = self.rows.stop - self.rows.start
        self.count = count
        if sanitizer is None:
            self.sent, self.order = count, 0
            compression, self.noise = np.eye(count), np.zeros((count, count))
        else:
            self.sent, self.order = sanitizer.compression.shape[0], sanitizer.order
            compression, self.noise = sanitizer.compression, sanitizer.noise
        self.memory = None if sanitizer is None else sanitizer.memory
        self.from_memory, self.from_reading = compression[:, : self.order], compression[:, self.order :]


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
