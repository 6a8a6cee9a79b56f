"""The errors of a stream once more, by a route that shares nothing with :mod:`veilnet.bounds`.

With hindsight, by spectra (:mod:`veilnet.recheck.stream_spectra`).

Now, by a witness: a filter and its own error (:mod:`veilnet.recheck.stream_witness`). Where
agents are very many the witness is the centre that adds up what they send. Each agent's numbers are weighed by
constants (where an agent sends as many combinations of readings as it has, by a filter of them). Whatever the weights
are, the error of that very sum,

    (U - Σ W_i h_i H_i) S_x (U - Σ W_i h_i H_i)* + Σ W_i h_i R_i h_i* W_i*   (mean over frequencies),

is one that a centre need not exceed; they come from the gains of a filter that SciPy found, compared at some
frequencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_toeplitz

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.recheck.route import deviations
from veilnet.recheck.stream_gaps import least_errors_with_gaps
from veilnet.recheck.stream_spectra import (
    ComplexArray,
    Hindsight,
    adjoint,
    agents_at,
    in_pieces,
    information,
    raw_spectra,
    responses,
    settled,
    turns_of,
)
from veilnet.recheck.stream_system import RowSystem, unit_sizes
from veilnet.recheck.stream_witness import UNSEEN, error_of_raw_filter, error_of_witness, hidden_for_good

_UNSEEN = 1e-13  # of what readings tell: less is rounding, and no direction that they see
_COMPARED = 24  # frequencies at which weights are fitted


def growth_of_sum(network: Network, sent: Mechanisms, rows: Array, claimed: float) -> float:
    """The growth now of tr(U P U') of the centre that adds up; rows are the public ones."""
    assert network.dynamics is not None
    moves, raw = network.dynamics.transition, _RawFilter.of(network)
    values, vectors = np.linalg.eigh(network.dynamics.noise)
    new = vectors * np.sqrt(np.maximum(values, 0.0))
    best = float(np.trace(rows @ raw.error @ rows.T))

    def measure(count: int) -> Array:
        total = np.zeros((len(rows), len(rows)))
        for turns in in_pieces(count):
            estimated, noise = _sums(network, sent, raw, turns)
            driven = (rows - estimated) @ np.linalg.solve(
                np.eye(len(moves)) - turns[:, None, None] * moves, new + 0j
            )
            total += np.sum((driven @ adjoint(driven) + noise).real, axis=0)
        return np.asarray(total / (count // 2))

    return float(np.trace(settled(measure, best * (1.0 + claimed)))) / best - 1.0


def _sums(
    network: Network, sent: Mechanisms, raw: _RawFilter, turns: ComplexArray
) -> tuple[ComplexArray, ComplexArray]:
    """(Σ W h H, Σ W (hRh* + Θ) W*), (f, r, L) and (f, r, r), of the centre that adds up."""
    rows = len(network.measured)
    estimated, noise = (
        np.zeros((len(turns), rows, network.L), complex),
        np.zeros((len(turns), rows, rows), complex),
    )
    shares = raw.seen(network.measured, turns)
    for stack, observe, own in agents_at(network, sent, turns):
        response = responses(stack, turns)
        covariance = response @ own @ adjoint(response)
        if stack.noise is not None:
            covariance = covariance + stack.noise[:, None]
        weights = _weights(network, raw, stack, observe, own[:, 0], shares)
        estimated += np.sum(weights @ response @ observe[:, None], axis=0)
        noise += np.sum(weights @ covariance @ adjoint(weights), axis=0)
    return estimated, noise


def _weights(
    network: Network, raw: _RawFilter, stack: SanitizerStack, observe: Array, own: Array, shares: ComplexArray
) -> ComplexArray:
    """W_i: constants, or where a row tells all readings, what their part of the estimate makes of them."""
    gains = raw.error @ np.swapaxes(np.linalg.solve(own, observe), 1, 2)
    if stack.order == 0 and stack.sent == stack.readings:
        return np.asarray((shares @ gains[:, None]) @ np.linalg.inv(stack.compression)[:, None])
    turns = turns_of(_COMPARED)
    wanted = raw.seen(network.measured, turns) @ gains[:, None]
    sent = np.broadcast_to(responses(stack, turns), (stack.count, len(turns), stack.sent, stack.readings))
    sizes = np.sqrt(np.mean(np.abs(sent) ** 2, axis=(1, 3)))
    sent = sent / np.where(sizes > 0, sizes, 1.0)[:, None, :, None]
    left = np.sum(sent @ own[:, None] @ adjoint(sent), axis=1).real
    right = np.sum(wanted @ own[:, None] @ adjoint(sent), axis=1).real
    fitted = right @ np.linalg.pinv(left, rcond=1e-12, hermitian=True)
    return np.asarray(fitted / np.where(sizes > 0, sizes, 1.0)[:, None, :])[:, None]


@dataclass(frozen=True, eq=False)
class _RawFilter:
    """The best filter on raw readings: the error now, (L, L), and x̂' = transition x̂ + what is new."""

    error: Array
    transition: Array

    @classmethod
    def of(cls, network: Network) -> _RawFilter:
        from scipy.linalg import solve_discrete_are

        dynamics = network.dynamics
        assert dynamics is not None
        information = raw_spectra(network, turns_of(2))[0]
        units = unit_sizes(dynamics.transition, dynamics.noise)
        moves = dynamics.transition / units[:, None] * units
        news = dynamics.noise / np.outer(units, units)
        values, vectors = np.linalg.eigh(information * np.outer(units, units))
        some = values > _UNSEEN * values[-1]
        seen = (vectors[:, some] * np.sqrt(values[some])).T
        before = solve_discrete_are(moves.T, seen.T, news, np.eye(len(seen)))
        gain = np.linalg.solve(np.eye(len(seen)) + seen @ before @ seen.T, seen @ before).T
        error = (before - gain @ seen @ before) * np.outer(units, units)
        closed = moves - gain @ seen @ moves
        return cls((error + error.T) / 2, closed * units[:, None] / units)

    def seen(self, rows: Array, turns: ComplexArray) -> ComplexArray:
        """A (I - F e^{-iω})^-1, (f, rows, L)."""
        moves = np.eye(len(self.transition)) - turns[:, None, None] * self.transition
        return np.asarray(rows @ np.linalg.inv(moves))


class StreamRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Sanitizers) -> None:
        self.network, self._mechanisms = network, mechanisms(network, sanitizers)
        self._sent = Hindsight(network, partial(information, network, self._mechanisms))
        self._raw = Hindsight(network, partial(raw_spectra, network))
        self._silent = Hindsight(network, lambda turns: np.zeros((len(turns), network.L, network.L), complex))

    @cached_property
    def _system(self) -> RowSystem:
        return RowSystem(self.network, self._mechanisms)

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A') with hindsight; inf where it is without bound."""
        best = float(np.trace(self._raw.error(rows)))
        endless = bool(np.isinf(claimed))
        expected = None if endless else best * (1.0 + claimed)
        return float(np.trace(self._sent.error(rows, expected, without_bound=endless)) / best - 1.0)

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
        if self._system.memories and groups:
            best = np.array([float(np.trace(self._raw.error(rows))) for rows in groups])
            asked = best * (1.0 - 1e-7) * (1.0 + np.array(list(claimed.values())))
            usual = np.minimum(usual, least_errors_with_gaps(self._system, groups, asked) / best - 1.0)
        # Messages are functions of readings and of draws that nobody knows: no error is below that of raw streams.
        # The bound from below may be, where too few rows are looked at for what they give away at its ends.
        return dict(zip(claimed, np.maximum(usual, 0.0).tolist(), strict=True))

    def shown_anew(self, rows: Array) -> bool:
        """Whether a memory holds what no message ever bounds of A x: one that begins anew shows it."""
        hidden = hidden_for_good(self._system)
        held = [
            np.max(np.abs(hidden[mine]), initial=0.0) > UNSEEN for mine, _ in self._system.memories.values()
        ]
        return any(held) and bool(np.max(np.abs(self._system.wide(rows) @ hidden), initial=0.0) > UNSEEN)

    def deviations(self, rows: Array, change: float | Array, lasts: int) -> float:
        """d' of the best detector of a change of A x that stays for ``lasts`` rows of the stream."""
        dynamics = self.network.dynamics
        assert dynamics is not None
        gained = _on_what_stays(self._sent.errors_apart(rows, lasts))
        # On the unit circle a stream that grows by itself is another, which comes back: no prior is counted of it.
        if np.max(np.abs(np.linalg.eigvals(dynamics.transition))) < 1 + 1e-12:
            gained = gained - _on_what_stays(self._silent.errors_apart(rows, lasts))
        return deviations(gained, change)

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now; a little too large rather than too small where ``claimed`` is not reached."""
        if by_stacks(self.network):
            return growth_of_sum(self.network, self._mechanisms, rows, claimed)
        best = error_of_raw_filter(self.network, rows)
        return error_of_witness(self._system, rows, best * (1.0 + claimed)) / best - 1.0


def _on_what_stays(errors: list[Array]) -> Array:
    """The information on g that stays the same, (r, r), from errors at ever fewer frequencies.

    Errors without bound grow like the number f of frequencies: the parabola in 1/f, taken at 0.
    """
    found, *coarser = map(_of_the_sum, errors)
    return (8 * found - 6 * coarser[0] + coarser[1]) / 3 if len(coarser) == 2 else found


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
