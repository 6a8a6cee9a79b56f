"""The error of u now of very many agents, by a witness: the centre that adds up what they send.

Each agent's numbers are weighed by constants (where an agent sends as many combinations of readings as it has, by a
filter of them). Whatever the weights are, the error of that very sum,

    (U - Σ W_i h_i H_i) S_x (U - Σ W_i h_i H_i)* + Σ W_i h_i R_i h_i* W_i*   (mean over frequencies),

is one that a centre need not exceed; they come from the gains of a filter that SciPy found, compared at some
frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.model.network import Network
from veilnet.recheck.stream_spectra import (
    ComplexArray,
    adjoint,
    agents_at,
    in_pieces,
    raw_spectra,
    responses,
    settled,
    turns_of,
)
from veilnet.recheck.stream_window import unit_sizes

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
    rows = len(network.U)
    estimated, noise = (
        np.zeros((len(turns), rows, network.L), complex),
        np.zeros((len(turns), rows, rows), complex),
    )
    shares = raw.seen(network.U, turns)
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
    wanted = raw.seen(network.U, turns) @ gains[:, None]
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
