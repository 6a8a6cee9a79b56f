"""The errors of a stream once more, by a route that shares nothing with :mod:`veilnet.bounds`.

With hindsight, by spectra (:mod:`veilnet.recheck.stream_spectra`).

Now, by a window: the covariances of the last W rows of messages with one another and with u, and one linear solve. It
leaves out older rows, so it finds a little too large an error, less so as W is doubled. Where no window is long
enough, or x wanders off, by a witness: a filter and its own error (:mod:`veilnet.recheck.stream_witness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy.linalg import solve_toeplitz

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network
from veilnet.recheck.route import deviations
from veilnet.recheck.stream_agents import AgentFilter, agent_filters, white_noise
from veilnet.recheck.stream_gaps import least_errors_with_gaps
from veilnet.recheck.stream_raw import error_of_raw_filter
from veilnet.recheck.stream_spectra import (
    ComplexArray,
    Hindsight,
    adjoint,
    information_at,
    responses,
    unit_combinations,
)
from veilnet.recheck.stream_window import RowWindow
from veilnet.recheck.stream_witness import error_now

__all__ = ["StreamRecheck"]


class StreamRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network = network
        self._filters = agent_filters(network, sanitizers)
        raw = agent_filters(network, None)
        self._sent = Hindsight(network, partial(_information, network, self._filters))
        self._raw = Hindsight(network, partial(_information, network, raw))

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A') with hindsight; inf where it is without bound."""
        sent_error = self._sent.error(rows, without_bound=bool(np.isinf(claimed)))
        return float(np.trace(sent_error) / np.trace(self._raw.error(rows)) - 1.0)

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth with hindsight over all directions of A x, for independent rows."""
        sent_error = self._sent.error(rows, without_bound=bool(np.isinf(claimed)))
        if not np.all(np.isfinite(sent_error)):
            return np.inf
        root = np.linalg.cholesky(self._raw.error(rows))
        half = np.linalg.solve(root, np.linalg.solve(root, sent_error).T)
        return float(np.linalg.eigvalsh((half + half.T) / 2)[0] - 1.0)

    def growths_with_gaps(self, claimed: Mapping[str, float]) -> dict[str, float]:
        """The least growth with hindsight over memories that begin anew, of private parameters with bounded errors:
        as claimed or more if that can be shown, and otherwise too small rather than too large.
        """
        groups = [self.network.private[name] for name in claimed]
        usual = np.array([self.growth(rows, 0.0) for rows in groups])
        window = RowWindow(self.network, self._filters)
        if window.memories and groups:
            best = np.array([float(np.trace(self._raw.error(rows))) for rows in groups])
            asked = best * (1.0 - 1e-7) * (1.0 + np.array(list(claimed.values())))
            usual = np.minimum(usual, least_errors_with_gaps(window, groups, asked) / best - 1.0)
        return dict(zip(claimed, usual.tolist(), strict=True))

    def deviations(self, rows: Array, change: float | Array, lasts: int) -> float:
        """d' of the best detector of a change of A x that stays for ``lasts`` rows of the stream."""
        dynamics = self.network.dynamics
        assert dynamics is not None
        gained = _of_the_sum(self._sent.errors_apart(rows, lasts))
        if dynamics.stationary is not None:
            before, moved = np.empty((lasts, len(rows), len(rows))), rows @ dynamics.stationary
            for apart in range(lasts):
                before[apart], moved = moved @ rows.T, moved @ dynamics.transition.T
            gained = gained - _of_the_sum(before)
        return deviations(gained, change)

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now; a little too large rather than too small where ``claimed`` is not reached."""
        best = error_of_raw_filter(self.network, rows)
        found = error_now(RowWindow(self.network, self._filters), rows, best * (1.0 + claimed))
        return found / best - 1.0


def _of_the_sum(apart: Array) -> Array:
    """The information on g that stays the same, (r, r), from covariances of errors 0, 1, ... rows apart."""
    count, size, _ = apart.shape
    if size == 1:
        return np.atleast_2d(np.sum(solve_toeplitz(apart[:, 0, 0], np.ones(count))))
    joint = np.block(
        [[apart[j - i] if j >= i else apart[i - j].T for j in range(count)] for i in range(count)]
    )
    ones = np.tile(np.eye(size), (count, 1))
    return np.asarray(ones.T @ np.linalg.solve(joint, ones))


def _information(network: Network, filters: list[AgentFilter], turns: ComplexArray) -> ComplexArray:
    """J(ω) of all messages, (f, L, L)."""
    spectrum = _noise_spectrum(network, turns)
    sent = [(each, _response(each, turns)) for each in filters if each.sent]
    if network.R.independent:
        found = [
            information_at(
                response[None], network.H[each.rows][None], spectrum[None, :, each.rows, each.rows],
                each.noise[None],
            )
            for each, response in sent
        ]  # fmt: skip
        return np.asarray(sum(found, np.zeros((len(turns), network.L, network.L), complex)))
    total = sum(each.sent for each, _ in sent)
    whole = np.zeros((len(turns), total, network.N), complex)
    noise = np.zeros((len(turns), total, total), complex)
    end = 0
    for each, response in sent:
        part, end = slice(end, end + each.sent), end + each.sent
        own = response @ spectrum[:, each.rows, each.rows] @ adjoint(response) + each.noise
        mix = unit_combinations(own)
        whole[:, part, each.rows] = mix @ response
        noise[:, part, part] = mix @ each.noise @ adjoint(mix)
        noise[:, part, part] += np.eye(each.sent) * ~np.any(mix, axis=-1)[..., None]
    observed = whole @ network.H
    return np.asarray(
        adjoint(observed) @ np.linalg.solve(whole @ spectrum @ adjoint(whole) + noise, observed)
    )


def _response(each: AgentFilter, turns: ComplexArray) -> ComplexArray:
    """h(ω), (f, sent, readings), of one agent; f = 1 without a memory."""
    memory = each.memory
    transition, gain = (None, None) if memory is None else (memory.transition[None], memory.gain[None])
    return np.asarray(responses(turns, each.from_memory[None], each.from_reading[None], transition, gain)[0])


def _noise_spectrum(network: Network, turns: ComplexArray) -> ComplexArray:
    """S_n(ω) of the readings' noise, white floor and dither included, (frequencies, N, N)."""
    if network.colour is None:
        white = network.R.matrix().astype(complex)
        return np.broadcast_to(white, (len(turns), *white.shape))
    carry = np.linalg.inv(np.eye(network.N) - turns[:, None, None] * network.colour.memory)
    return np.asarray(carry @ network.colour.innovation @ adjoint(carry) + white_noise(network))
