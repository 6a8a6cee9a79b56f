"""The error of u now by a window: the covariances of the last W rows of messages, and one linear solve.

It leaves out older rows, so it finds a little too large an error, less so as W is doubled. Where x wanders off there
is no window.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.network import Network

FIRST_WINDOW = 16
LARGEST_WINDOW = 2600  # numbers in a window: one factorisation of a second
SETTLED = 1e-9  # of an error: a thousandth of what a certificate allows
_FAR_BEYOND = 30.0  # of the variance after some rows: from there on sizes of x would cost digits of errors
_ROWS = 16  # after which the sizes of a state tell what units to count it in


class RowWindow:
    """Everything of W rows as one Gaussian vector: the error of u now is one linear solve.

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
        self.size, self.L, self.stable = size, L, dynamics.stable

    @cached_property
    def _first(self) -> tuple[Array, bool]:
        """The covariance of the state in the window's first row, and whether it is that of all its rows.

        Entries have unit size after some rows. Where they grow far beyond, digits would be lost to the size of the
        first x, on which no late row depends: the window then begins with what some rows reach.
        """
        from scipy.linalg import solve_discrete_lyapunov

        first = np.asarray(solve_discrete_lyapunov(self.moves, self.news), np.float64)
        settled = bool(np.max(np.diag(first), initial=0.0) <= _FAR_BEYOND)
        return (first if settled else reached(self.moves, self.news)), settled

    def part(self, basis: Array) -> RowWindow:
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

    def error(self, rows: Array, window: int) -> float:
        """tr(A P A') of the window's last row."""
        from scipy.linalg import solve_triangular

        wide = self.wide(rows)
        covariance, cross = self._covariances(wide, window)
        half = solve_triangular(_root_of(covariance), cross.T, lower=True)
        return float(np.trace(wide @ self._last(window) @ wide.T - half.T @ half))

    def _last(self, window: int) -> Array:
        covariance, settled = self._first
        for _ in range(0 if settled else window - 1):
            covariance = self.moves @ covariance @ self.moves.T + self.news
        return np.asarray(covariance)

    def _covariances(self, wide: Array, window: int) -> tuple[Array, Array]:
        """Of the window's messages with one another, and of the last u with them."""
        m = self.sent
        covariance = np.zeros((window * m, window * m))
        cross = np.zeros((len(wide), window * m))
        state, settled = self._first
        for t in range(window):
            here = slice(t * m, (t + 1) * m)
            if t == 0 or not settled:
                carried = [state @ self.observe.T]
                for _ in range(window - 1 - t):
                    carried.append(self.moves @ carried[-1])
                stacked = [self.observe @ each for each in carried]
            for ahead in range(window - t):
                there = slice((t + ahead) * m, (t + ahead + 1) * m)
                covariance[there, here] = stacked[ahead]
                covariance[here, there] = stacked[ahead].T
            covariance[here, here] = (stacked[0] + stacked[0].T) / 2 + self.noise
            cross[:, here] = wide @ carried[window - 1 - t]
            if not settled:
                state = self.moves @ state @ self.moves.T + self.news
        return covariance, cross


def _root_of(covariance: Array) -> Array:
    """A Cholesky factor; numbers that repeat one another get the least noise of their own that makes one exist."""
    diagonal = np.diag_indices(len(covariance))
    for part in (0.0, 1e-15, 1e-14, 1e-13):
        covariance[diagonal] *= 1.0 + part
        try:
            return np.asarray(np.linalg.cholesky(covariance))
        except np.linalg.LinAlgError:
            continue
    covariance[diagonal] *= 1.0 + 1e-11
    return np.asarray(np.linalg.cholesky(covariance))


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
