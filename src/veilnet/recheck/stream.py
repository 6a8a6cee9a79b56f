"""The errors of a stream once more, by a route that shares nothing with :mod:`veilnet.bounds`.

With hindsight, by spectra (Wiener): at each frequency the messages are z = h y + noise with the agents' filters

    h_i(ω) = C_s (I - F e^{-iω})^{-1} K + C_y,

and the error of g given *all* messages is the mean over ω of S_gg - S_gz S_zz^{-1} S_zg. Means over equally spaced
frequencies converge geometrically; their number is doubled until nothing changes.

Now, by a window: the covariances of the last W rows of messages with one another and with u, and one linear solve. It
leaves out older rows, so it finds a little too large an error, less so as W is doubled.

Streams whose x wanders off have no spectra: there a long window is taken both ways, with the state at its beginning
unknown altogether.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

__all__ = ["StreamRecheck"]

ComplexArray = NDArray[Any]

_FEWEST_FREQUENCIES = 64
_MOST_FREQUENCIES = 1 << 15
_AT_ONCE = 512
_FIRST_WINDOW = 16
_LARGEST_WINDOW = 2600  # numbers in a window: one factorisation of a second
_SETTLED = 1e-9
_FAR_BEYOND = 30.0
_UNSEEN = (
    1e-13  # combinations of an agent's numbers with less than this part of the largest variance repeat others
)
_STILL_GROWING = 1.5  # an error without bound grows like the number of frequencies


class StreamRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network = network
        self._filters = [_Filter(network, place, sanitizers) for place in range(network.S)]
        self._raw = [_Filter(network, place, {}) for place in range(network.S)]

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A') with hindsight; inf where it is without bound."""
        told = _Smoothed(self.network, self._filters).error(rows, without_bound=bool(np.isinf(claimed)))
        return float(np.trace(told) / np.trace(_Smoothed(self.network, self._raw).error(rows)) - 1.0)

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth with hindsight over all directions of A x, for independent rows."""
        told = _Smoothed(self.network, self._filters).error(rows, without_bound=bool(np.isinf(claimed)))
        if not np.all(np.isfinite(told)):
            return np.inf
        root = np.linalg.cholesky(_Smoothed(self.network, self._raw).error(rows))
        half = np.linalg.solve(root, np.linalg.solve(root, told).T)
        return float(np.linalg.eigvalsh((half + half.T) / 2)[0] - 1.0)

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now; a little too large rather than too small where ``claimed`` is not reached."""
        best = _error_of_raw_filter(self.network, rows)
        window, found = _FIRST_WINDOW, np.inf
        filtered = _Window(self.network, self._filters)
        while True:
            previous, found = found, filtered.error(rows, window) / best - 1.0
            agrees = abs(found - claimed) <= 1e-8 * (1.0 + claimed)
            settled = abs(previous - found) <= _SETTLED * (1.0 + found)
            if agrees or settled or 2 * window * max(1, filtered.sent) > _LARGEST_WINDOW:
                return float(found)
            window *= 2


class _Filter:
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

    def response(self, turns: ComplexArray) -> ComplexArray:
        """h(ω), (frequencies, sent, readings), for turns e^{-iω}."""
        direct = np.broadcast_to(self.from_reading.astype(complex), (len(turns), self.sent, self.count))
        if self.memory is None:
            return np.array(direct)
        identity = np.eye(self.order)
        resolvent = np.linalg.solve(
            identity - turns[:, None, None] * self.memory.transition, self.memory.gain.astype(complex)
        )
        return np.asarray(direct + self.from_memory @ resolvent)


class _Smoothed:
    """The error with hindsight, as a mean over frequencies of (D*Q^-1 D + J)^-1, D = I - A e^{-iω}."""

    def __init__(self, network: Network, filters: list[_Filter]) -> None:
        self._network = network
        self._filters = [each for each in filters if each.sent]
        assert network.dynamics is not None
        self._units = _sizes(network.dynamics.transition, network.dynamics.noise)

    def error(self, rows: Array, *, without_bound: bool = False) -> Array:
        """A P A', with as many frequencies as it takes; inf where it grows with their number."""
        count, found = _FEWEST_FREQUENCIES, self._mean(rows, _FEWEST_FREQUENCIES)
        while True:
            count *= 2
            previous, found = found, self._mean(rows, count)
            if np.max(np.abs(found - previous)) <= _SETTLED * np.trace(found):
                return found
            if count >= _MOST_FREQUENCIES or (without_bound and count >= 16 * _FEWEST_FREQUENCIES):
                growing = np.trace(found) > _STILL_GROWING * np.trace(previous)
                return np.full(found.shape, np.inf) if growing else found

    def _mean(self, rows: Array, count: int) -> Array:
        total = np.zeros((len(rows), len(rows)))
        half = count // 2
        for start in range(0, half, _AT_ONCE):
            angles = (np.arange(start, min(start + _AT_ONCE, half)) + 0.5) * (2 * np.pi / count)
            total += np.sum(self._errors(rows, np.exp(-1j * angles)), axis=0)
        return np.asarray((total + total.T) / (2 * half))

    def _errors(self, rows: Array, turns: ComplexArray) -> Array:
        """A P(ω) A' at each frequency, by [[Q, D], [D*, -J]]: Q may be singular."""
        dynamics, size = self._network.dynamics, self._network.L
        assert dynamics is not None
        system = np.zeros((len(turns), 2 * size, 2 * size), complex)
        moves = np.eye(size) - turns[:, None, None] * dynamics.transition
        system[:, :size, :size] = dynamics.noise
        system[:, :size, size:] = moves
        system[:, size:, :size] = _adjoint(moves)
        system[:, size:, size:] = -self._information(turns)
        right = np.zeros((2 * size, len(rows)))
        right[size:] = rows.T
        units = np.concatenate([1.0 / self._units, self._units])
        system = system * np.outer(units, units)
        solved = np.linalg.solve(system, (right * units[:, None]).astype(complex))[:, size:]
        return np.asarray(-((rows * self._units) @ solved).real)

    def _information(self, turns: ComplexArray) -> ComplexArray:
        """J(ω) = H*h*(h S_n h* + Θ)^-1 h H."""
        network = self._network
        seen, noises = [], []
        total = np.zeros((len(turns), network.L, network.L), complex)
        spectrum = _noise_spectrum(network, turns)
        for each in self._filters:
            mine = spectrum[:, each.rows, each.rows]
            response, noise = _without_repetition(each, each.response(turns), mine)
            observed = response @ network.H[each.rows]
            if network.noise.independent:
                total += _adjoint(observed) @ np.linalg.solve(
                    response @ mine @ _adjoint(response) + noise, observed
                )
            else:
                seen.append(response)
                noises.append(noise)
        if network.noise.independent or not seen:
            return total
        return _joint_information(network, self._filters, seen, noises, spectrum)


def _without_repetition(
    each: _Filter, response: ComplexArray, spectrum: ComplexArray
) -> tuple[ComplexArray, ComplexArray]:
    """(h, Θ) in combinations of the agent's numbers that carry something, each of unit size."""
    size = response @ spectrum @ _adjoint(response) + each.noise
    values, vectors = np.linalg.eigh((size + _adjoint(size)) / 2)
    # As many as carry something at most frequencies: the rank of a filter is the same at almost all of them.
    carrying = values > _UNSEEN * values[:, -1:]
    rank = int(np.median(np.sum(carrying, axis=1)))
    kept = vectors[:, :, each.sent - rank :] / np.sqrt(
        np.maximum(values[:, None, each.sent - rank :], 1e-300)
    )
    mix = _adjoint(kept)
    return np.asarray(mix @ response), np.asarray(mix @ each.noise @ kept)


def _joint_information(
    network: Network,
    filters: list[_Filter],
    responses: list[ComplexArray],
    noises: list[ComplexArray],
    spectrum: ComplexArray,
) -> ComplexArray:
    count = len(spectrum)
    ends = np.cumsum([0, *(response.shape[1] for response in responses)])
    whole = np.zeros((count, int(ends[-1]), network.N), complex)
    noise = np.zeros((count, int(ends[-1]), int(ends[-1])), complex)
    for place, each in enumerate(filters):
        part = slice(int(ends[place]), int(ends[place + 1]))
        whole[:, part, each.rows] = responses[place]
        noise[:, part, part] = noises[place]
    observed = whole @ network.H
    return np.asarray(
        _adjoint(observed) @ np.linalg.solve(whole @ spectrum @ _adjoint(whole) + noise, observed)
    )


def _noise_spectrum(network: Network, turns: ComplexArray) -> ComplexArray:
    """S_n(ω) of the readings' noise, white floor and dither included, (frequencies, N, N)."""
    if network.colour is None:
        white = network.noise.matrix().astype(complex)
        return np.broadcast_to(white, (len(turns), *white.shape))
    carry = np.linalg.inv(np.eye(network.N) - turns[:, None, None] * network.colour.memory)
    return np.asarray(carry @ network.colour.innovation @ _adjoint(carry) + _white(network))


def _white(network: Network) -> Array:
    """The white part of the readings' noise, dither included."""
    if network.colour is None:
        return network.noise.matrix()
    return np.asarray(network.colour.floor + np.diag(network.steps**2 / 12))


def _adjoint(matrices: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.conj(np.swapaxes(matrices, 1, 2)))


def _sizes(moves: Array, news: Array) -> Array:
    """Deviations that the state reaches within some rows: units in which its entries are of one size."""
    sizes = np.sqrt(np.maximum(np.diag(_reached(moves, news)), 0.0))
    return np.asarray(np.where(sizes > 0, sizes, 1.0))


def _reached(moves: Array, news: Array) -> Array:
    """The covariance of the state some rows after it was zero."""
    reached = news
    for _ in range(_FIRST_WINDOW):
        reached = moves @ reached @ moves.T + news
    return reached


class _Window:
    """Everything of W rows as one Gaussian vector: the error of u now is one linear solve.

    The state is (x, n, s, y): readings are part of it, so that what is sent is exact but for the noise that is added.
    """

    def __init__(self, network: Network, filters: list[_Filter]) -> None:
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
        news[base:, base:] = _white(network)
        read = np.concatenate([network.H, np.eye(N)[:, :coloured]], axis=1)
        moves[base + order :, :base] = read @ moves[:base, :base]
        enters[base + order :] = np.concatenate([read, np.eye(N)], axis=1)
        self.observe, end, row = np.zeros((self.sent, size)), base, 0
        self.noise = np.zeros((self.sent, self.sent))
        for each in filters:
            mine = slice(end, end + each.order)
            readings = slice(base + order + each.rows.start, base + order + each.rows.stop)
            if each.memory is not None:
                moves[mine] = each.memory.gain @ moves[readings]
                moves[mine, mine] += each.memory.transition
                enters[mine] = each.memory.gain @ enters[readings]
            rows = slice(row, row + each.sent)
            self.observe[rows, mine], self.observe[rows, readings] = each.from_memory, each.from_reading
            self.noise[rows, rows] = each.noise
            end, row = mine.stop, rows.stop
        self.units = _sizes(moves, enters @ news @ enters.T)
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
                self.first = _reached(self.moves, self.news)
            return
        # x wanders off: nothing is known of the first x, memories begin at zero, as they do.
        self.first = self.news
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
        root = _root(covariance)
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


def _root(covariance: Array) -> Array:
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


def _settled(window: _Window, rows: Array) -> float:
    """tr(A P A') now, of a window so long that its double tells nothing more."""
    length, found = _FIRST_WINDOW, window.error(rows, _FIRST_WINDOW)
    while 2 * length * window.sent <= _LARGEST_WINDOW:
        length *= 2
        previous, found = found, window.error(rows, length)
        if previous - found <= _SETTLED * found:
            break
    return found


def _error_of_raw_filter(network: Network, rows: Array) -> float:
    """tr(A P A') now, from raw readings: by a generalised Schur form where every reading has white noise."""
    from scipy.linalg import solve_discrete_are

    dynamics = network.dynamics
    assert dynamics is not None
    raw = _Window(network, [_Filter(network, place, {}) for place in range(network.S)])
    base = network.L + (0 if network.colour is None else network.N)
    white = _white(network)
    scale = np.sqrt(np.diag(network.noise.matrix()))
    white = white / np.outer(scale, scale)
    if np.linalg.eigvalsh(white)[0] < 1e-9:
        return _settled(raw, rows)
    read = np.concatenate([network.H, np.eye(network.N)[:, : base - network.L]], axis=1)
    read = read * raw.units[:base] / scale[:, None]
    rows = rows * raw.units[: network.L]
    before = solve_discrete_are(raw.moves[:base, :base].T, read.T, raw.news[:base, :base], white)
    half = read @ before[:, : network.L] @ rows.T
    best = rows @ before[: network.L, : network.L] @ rows.T
    return float(np.trace(best - half.T @ np.linalg.solve(read @ before @ read.T + white, half)))
