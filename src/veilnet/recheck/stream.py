"""The errors of a stream once more, by a route that shares nothing with :mod:`veilnet.bounds`.

With hindsight, by spectra (Wiener): at each frequency the messages are z = h y + noise with the agents' filters

    h_i(ω) = C_s (I - F e^{-iω})^{-1} K + C_y,

and the error of g given *all* messages is the mean over ω of S_gg - S_gz S_zz^{-1} S_zg. Means over equally spaced
frequencies converge geometrically; their number is doubled until nothing changes.

Now, by a window: the covariances of the last W rows of messages with one another and with u, and one linear solve. It
leaves out older rows, so it finds a little too large an error, less so as W is doubled. Where no window is long
enough, by a witness: a filter and its own error (:mod:`veilnet.recheck.stream_witness`).

Streams whose x wanders off have no spectra: there a long window is taken both ways, with the state at its beginning
unknown altogether.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import AgentFilter, ComplexArray, unit_sizes, white_noise
from veilnet.recheck.stream_gaps import least_errors_with_gaps
from veilnet.recheck.stream_raw import error_of_raw_filter
from veilnet.recheck.stream_window import FIRST_WINDOW, LARGEST_WINDOW, SETTLED, Window
from veilnet.recheck.stream_witness import error_of_witness

__all__ = ["StreamRecheck"]

_FEWEST_FREQUENCIES = 64
_MOST_FREQUENCIES = 1 << 15
_AT_ONCE = 512
# Combinations of an agent's numbers with less than this part of the largest variance repeat others.
_UNSEEN = 1e-13
_STILL_GROWING = 1.5  # an error without bound grows like the number of frequencies


class StreamRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network = network
        self._filters = [AgentFilter(network, place, sanitizers) for place in range(network.S)]
        self._raw = [AgentFilter(network, place, {}) for place in range(network.S)]

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

    def growths_with_gaps(self, names: Collection[str]) -> dict[str, float]:
        """The least growth with hindsight over memories that begin anew, of private parameters with bounded errors; a
        little too large rather than too small, and never larger than far from where they begin.
        """
        groups = [self.network.private[name] for name in names]
        usual = np.array([self.growth(rows, 0.0) for rows in groups])
        window = Window(self.network, self._filters)
        if window.memories and groups:
            raw = _Smoothed(self.network, self._raw)
            best = np.array([float(np.trace(raw.error(rows))) for rows in groups])
            usual = np.minimum(usual, least_errors_with_gaps(window, groups) / best - 1.0)
        return dict(zip(names, usual.tolist(), strict=True))

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now; a little too large rather than too small where ``claimed`` is not reached."""
        best = error_of_raw_filter(self.network, rows)
        window, found = FIRST_WINDOW, np.inf
        filtered = Window(self.network, self._filters)
        while True:
            previous, found = found, filtered.error(rows, window) / best - 1.0
            agrees = abs(found - claimed) <= 1e-8 * (1.0 + claimed)
            settled = abs(previous - found) <= SETTLED * (1.0 + found)
            if agrees or settled:
                return float(found)
            window *= 2
            if window * max(1, filtered.sent) > LARGEST_WINDOW:
                witness = error_of_witness(filtered, rows)
                return float(witness / best - 1.0) if np.isfinite(witness) else float(found)


class _Smoothed:
    """The error with hindsight, as a mean over frequencies of (D*Q^-1 D + J)^-1, D = I - A e^{-iω}."""

    def __init__(self, network: Network, filters: list[AgentFilter]) -> None:
        self._network = network
        self._filters = [each for each in filters if each.sent]
        assert network.dynamics is not None
        self._units = unit_sizes(network.dynamics.transition, network.dynamics.noise)

    def error(self, rows: Array, *, without_bound: bool = False) -> Array:
        """A P A', with as many frequencies as it takes; inf where it grows with their number."""
        count, found = _FEWEST_FREQUENCIES, self._mean(rows, _FEWEST_FREQUENCIES)
        while True:
            count *= 2
            previous, found = found, self._mean(rows, count)
            if np.max(np.abs(found - previous)) <= SETTLED * np.trace(found):
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
            if network.R.independent:
                total += _adjoint(observed) @ np.linalg.solve(
                    response @ mine @ _adjoint(response) + noise, observed
                )
            else:
                seen.append(response)
                noises.append(noise)
        if network.R.independent or not seen:
            return total
        return _joint_information(network, self._filters, seen, noises, spectrum)


def _without_repetition(
    each: AgentFilter, response: ComplexArray, spectrum: ComplexArray
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
    filters: list[AgentFilter],
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
        white = network.R.matrix().astype(complex)
        return np.broadcast_to(white, (len(turns), *white.shape))
    carry = np.linalg.inv(np.eye(network.N) - turns[:, None, None] * network.colour.memory)
    return np.asarray(carry @ network.colour.innovation @ _adjoint(carry) + white_noise(network))


def _adjoint(matrices: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.conj(np.swapaxes(matrices, 1, 2)))
