"""The error of u now by a window: the covariances of the last W rows of messages, and one linear solve.

It leaves out older rows, so it finds a little too large an error, less so as W is doubled. Where x wanders off the
state at the window's beginning is unknown altogether.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import AgentFilter, reached, unit_sizes, white_noise

__all__ = ["FIRST_WINDOW", "LARGEST_WINDOW", "SETTLED", "Window", "root_of"]

FIRST_WINDOW = 16
LARGEST_WINDOW = 2600  # numbers in a window: one factorisation of a second
SETTLED = 1e-9
_FAR_BEYOND = 30.0


class Window:
    """Everything of W rows as one Gaussian vector: the error of u now is one linear solve.

    The state is (x, n, s, y): readings are part of it, so that what is sent is exact but for the noise that is added.
    ``memories`` says where those of the agents (by their place) are, with the law that they are drawn from anew.
    """

    def __init__(self, network: Network, filters: list[AgentFilter]) -> None:
        dynamics = network.dynamics
        assert dynamics is not None
        self.sent = sum(each.sent for each in filters)
        L, N = network.L, network.N
        coloured = 0 if network.colour is None else N
        order = sum(each.order for each in filters)
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
        for place, each in enumerate(filters):
            mine = slice(end, end + each.order)
            readings = slice(base + order + each.rows.start, base + order + each.rows.stop)
            if each.memory is not None:
                moves[mine] = each.memory.gain @ moves[readings]
                moves[mine, mine] += each.memory.transition
                enters[mine] = each.memory.gain @ enters[readings]
                empty = np.zeros((each.order, each.order))
                self.memories[place] = mine, empty if each.memory.start is None else each.memory.start
            rows = slice(row, row + each.sent)
            self.observe[rows, mine], self.observe[rows, readings] = each.from_memory, each.from_reading
            self.noise[rows, rows] = each.noise
            end, row = mine.stop, rows.stop
        self.units = unit_sizes(moves, enters @ news @ enters.T)
        self.moves = moves / self.units[:, None] * self.units
        self.news = (enters @ news @ enters.T) / np.outer(self.units, self.units)
        self.observe = self.observe * self.units
        self.size, self.L = size, L
        self._begin(network)

    def _begin(self, network: Network) -> None:
        """The covariance of the state in the window's first row, and its directions of which nothing is known."""
        from scipy.linalg import solve_discrete_lyapunov

        dynamics = network.dynamics
        assert dynamics is not None
        self.unknown, self.settled = np.zeros((self.size, 0)), False
        if dynamics.stable:
            self.first = solve_discrete_lyapunov(self.moves, self.news)
            # Entries have unit size after some rows. Where they grow far beyond, digits would be lost to the size of
            # the first x, on which no late row depends: the window then begins with what some rows reach.
            self.settled = bool(np.max(np.diag(self.first), initial=0.0) <= _FAR_BEYOND)
            if not self.settled:
                self.first = reached(self.moves, self.news)
            return
        # x wanders off: nothing is known of the first x, and memories begin anew before it.
        drawn = np.zeros((self.size, self.size))
        for mine, start in self.memories.values():
            drawn[mine, mine] = start / np.outer(self.units[mine], self.units[mine])
        self.first = self.news + self.moves @ drawn @ self.moves.T
        self.unknown = np.linalg.qr(self.moves[:, : self.L])[0]

    def error(self, rows: Array, window: int) -> float:
        """tr(A P A') of the window's last row."""
        wide = np.zeros((len(rows), self.size))
        wide[:, : self.L] = rows * self.units[: self.L]
        covariance, cross, drift = self._covariances(wide, window)
        last, u_drift = self._last(window), wide
        for _ in range(window - 1):
            u_drift = u_drift @ self.moves
        u_drift = u_drift @ self.unknown
        root = root_of(covariance)
        from scipy.linalg import solve_triangular

        half = solve_triangular(root, cross.T, lower=True)
        error = wide @ last @ wide.T - half.T @ half
        if self.unknown.shape[1]:
            seen = solve_triangular(root, drift, lower=True)
            left = u_drift - half.T @ seen
            error = error + left @ np.linalg.pinv(seen.T @ seen, rcond=1e-12, hermitian=True) @ left.T
        return float(np.trace(error))

    def _last(self, window: int) -> Array:
        covariance = self.first
        for _ in range(0 if self.settled else window - 1):
            covariance = self.moves @ covariance @ self.moves.T + self.news
        return np.asarray(covariance)

    def _covariances(self, wide: Array, window: int) -> tuple[Array, Array, Array]:
        """Of the window's messages with one another, of the last u with them, and how unknown directions enter."""
        m = self.sent
        covariance = np.zeros((window * m, window * m))
        cross = np.zeros((len(wide), window * m))
        drift = np.zeros((window * m, self.unknown.shape[1]))
        state, free = self.first, self.unknown
        for t in range(window):
            here = slice(t * m, (t + 1) * m)
            if t == 0 or not self.settled:
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
            drift[here] = self.observe @ free
            if not self.settled:
                state = self.moves @ state @ self.moves.T + self.news
                free = self.moves @ free
        return covariance, cross, drift


def root_of(covariance: Array) -> Array:
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
