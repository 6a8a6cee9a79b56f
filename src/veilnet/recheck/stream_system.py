"""The messages of a stream as one linear system, once more: built apart from :mod:`veilnet.bounds`."""

from __future__ import annotations

from copy import copy

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.network import Network

SETTLED = 1e-9  # of an error: a thousandth of what a certificate allows
_ROWS = 16  # after which the sizes of a state tell what units to count it in


class RowSystem:
    """How the state of all agents moves from row to row, and what a row of messages shows of it.

    The state is (x, n, s, y): readings are part of it, so that what is sent is exact but for the noise that is added.
    ``memories`` says where those of the agents (by their place) are, with the law that they are drawn from anew.
    """

    def __init__(self, network: Network, sanitizers: Sanitizers) -> None:
        dynamics = network.dynamics
        assert dynamics is not None
        sent = mechanisms(network, sanitizers)
        self.sent = sent.blocks.total
        L, N = network.L, network.N
        coloured = 0 if network.colour is None else N
        order = int(sum(sent.kept))
        base = L + coloured
        size = base + order + N
        moves, enters = np.zeros((size, size)), np.zeros((size, base + N))
        moves[:L, :L] = dynamics.transition
        enters[:base, :base] = np.eye(base)
        news = np.zeros((base + N, base + N))
        news[:L, :L] = dynamics.noise
        if network.colour is not None:
            moves[L:base, L:base] = network.colour.memory
            news[L:base, L:base] = network.colour.innovation
        news[base:, base:] = white_noise(network)
        read = np.concatenate([network.H, np.eye(N)[:, :coloured]], axis=1)
        moves[base + order :, :base] = read @ moves[:base, :base]
        enters[base + order :] = np.concatenate([read, np.eye(N)], axis=1)
        self.observe, end, row = np.zeros((self.sent, size)), base, 0
        self.noise = np.zeros((self.sent, self.sent))
        self.memories: dict[int, tuple[slice, Array]] = {}
        for place, each in enumerate(sent.values()):
            mine = slice(end, end + each.order)
            own = network.blocks.rows(place)
            readings = slice(base + order + own.start, base + order + own.stop)
            if each.memory is not None:
                moves[mine] = each.memory.gain @ moves[readings]
                moves[mine, mine] += each.memory.transition
                enters[mine] = each.memory.gain @ enters[readings]
                empty = np.zeros((each.order, each.order))
                self.memories[place] = mine, empty if each.memory.start is None else each.memory.start
            rows = slice(row, row + each.sent)
            self.observe[rows, mine] = each.compression[:, : each.order]
            self.observe[rows, readings] = each.compression[:, each.order :]
            self.noise[rows, rows] = each.noise
            end, row = mine.stop, rows.stop
        self.units = unit_sizes(moves, enters @ news @ enters.T)
        self.moves = moves / self.units[:, None] * self.units
        self.news = (enters @ news @ enters.T) / np.outer(self.units, self.units)
        self.observe = self.observe * self.units
        sizes = np.sqrt(np.sum(self.observe**2, axis=1) + np.diag(self.noise))
        sizes = np.where(sizes > 0, sizes, 1.0)
        self.observe, self.noise = self.observe / sizes[:, None], self.noise / np.outer(sizes, sizes)
        self.size, self.L = size, L

    def part(self, basis: Array) -> RowSystem:
        """The system of what the state has beside directions that stay among themselves, in an orthonormal basis."""
        part = copy(self)
        part.moves, part.news = basis.T @ self.moves @ basis, basis.T @ self.news @ basis
        part.observe, part.size = self.observe @ basis, basis.shape[1]
        return part

    def wide(self, rows: Array) -> Array:
        """Rows of x as rows of the state."""
        wide = np.zeros((len(rows), self.size))
        wide[:, : self.L] = rows * self.units[: self.L]
        return wide


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
