"""What a centre knows of a stream with hindsight, frequency by frequency (Wiener), apart from :mod:`veilnet.bounds`.

At the frequency ω agent i sends z_i = h_i y_i + noise with

    h_i(ω) = C_s (I - F e^{-iω})^{-1} K + C_y,

and tells J = H*h*(h S_n h* + Θ)^+ hH of x. The error of x given *all* messages is the mean over ω of
(D*Q^-1 D + J)^-1, D = I - A e^{-iω}. Means over equally spaced frequencies converge geometrically; their number is
doubled until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import unit_sizes
from veilnet.recheck.stream_window import SETTLED

__all__ = [
    "STILL_GROWING",
    "ComplexArray",
    "Hindsight",
    "adjoint",
    "errors_at",
    "information_at",
    "responses",
    "turns_of",
    "unit_combinations",
]

ComplexArray = NDArray[Any]

STILL_GROWING = 1.5
"""An error without bound grows like the number of frequencies, by more than so many times when that is doubled."""

_FEWEST, _MOST = 64, 1 << 15
_AT_ONCE = 512
# Combinations of an agent's numbers with less than this part of the largest variance repeat others.
_UNSEEN = 1e-13


@dataclass(frozen=True, eq=False)
class Hindsight:
    """The error with hindsight from messages that tell ``information``, J(ω), (f, L, L), at turns e^{-iω}, (f,)."""

    network: Network
    information: Callable[[ComplexArray], ComplexArray]

    def error(self, rows: Array, *, without_bound: bool = False) -> Array:
        """A P A', with as many frequencies as it takes; inf where it grows with their number."""
        count, found = _FEWEST, self._mean(rows, _FEWEST)
        while True:
            count *= 2
            previous, found = found, self._mean(rows, count)
            if np.max(np.abs(found - previous)) <= SETTLED * np.trace(found):
                return found
            if count >= _MOST or (without_bound and count >= 16 * _FEWEST):
                growing = np.trace(found) > STILL_GROWING * np.trace(previous)
                return np.full(found.shape, np.inf) if growing else found

    def errors_apart(self, rows: Array, count: int) -> Array:
        """Cov(A e_t, A e_{t+k}) of the errors, k = 0, 1, ..., (count, r, r)."""
        finest, found = (
            max(_FEWEST, 2 ** int(np.ceil(np.log2(8 * count)))),
            np.zeros((count, *(len(rows),) * 2)),
        )
        while True:
            turns = turns_of(finest)
            parts = [turns[start : start + _AT_ONCE] for start in range(0, len(turns), _AT_ONCE)]
            power = np.concatenate(
                [spectrum_at(self.network, rows, part, self.information(part)) for part in parts]
            )
            later = turns ** np.arange(count)[:, None]
            previous, found = found, np.tensordot(later, power, 1).real / len(turns)
            if np.max(np.abs(found - previous)) <= SETTLED * np.trace(found[0]) or finest >= _MOST:
                return np.asarray(found)
            finest *= 2

    def _mean(self, rows: Array, count: int) -> Array:
        turns, total = turns_of(count), np.zeros((len(rows), len(rows)))
        for start in range(0, len(turns), _AT_ONCE):
            some = turns[start : start + _AT_ONCE]
            total += np.sum(errors_at(self.network, rows, some, self.information(some)), axis=0)
        return np.asarray((total + total.T) / (2 * len(turns)))


def turns_of(count: int) -> ComplexArray:
    """e^{-iω} at the middles of ``count`` equal parts of the circle, on its upper half."""
    return np.asarray(np.exp(-1j * (np.arange(count // 2) + 0.5) * (2 * np.pi / count)))


def errors_at(network: Network, rows: Array, turns: ComplexArray, information: ComplexArray) -> Array:
    """Real part of A P(ω) A', (f, rows, rows), that of ω and of -ω."""
    return np.asarray(spectrum_at(network, rows, turns, information).real)


def spectrum_at(
    network: Network, rows: Array, turns: ComplexArray, information: ComplexArray
) -> ComplexArray:
    """A P(ω) A', (f, rows, rows), by [[Q, D], [D*, -J]]: Q may be singular."""
    dynamics, size = network.dynamics, network.L
    assert dynamics is not None
    system = np.zeros((len(turns), 2 * size, 2 * size), complex)
    moves = np.eye(size) - turns[:, None, None] * dynamics.transition
    system[:, :size, :size] = dynamics.noise
    system[:, :size, size:] = moves
    system[:, size:, :size] = adjoint(moves)
    system[:, size:, size:] = -information
    sizes = unit_sizes(dynamics.transition, dynamics.noise)
    units = np.concatenate([1.0 / sizes, sizes])
    right = np.zeros((2 * size, len(rows)), complex)
    right[size:] = rows.T
    solved = np.linalg.solve(system * np.outer(units, units), right * units[:, None])[:, size:]
    return np.asarray(-((rows * sizes) @ solved))


def responses(
    turns: ComplexArray,
    from_memory: Array,
    from_reading: Array,
    transition: Array | None,
    gain: Array | None,
) -> ComplexArray:
    """h(ω) of agents, (count, f, sent, readings); one for all frequencies without a memory.

    from_memory, from_reading: C_s and C_y, transition: F, gain: K, each with one entry an agent.
    """
    direct = from_reading[:, None]
    if transition is None or gain is None:
        return direct
    moves = np.eye(transition.shape[1]) - turns[:, None, None] * transition[:, None]
    return np.asarray(direct + from_memory[:, None] @ np.linalg.solve(moves, gain[:, None] + 0j))


def information_at(
    response: ComplexArray, observe: Array, spectrum: ComplexArray, noise: Array | None
) -> ComplexArray:
    """Σ H*h*(h S h* + Θ)^+ hH over agents whose readings' noises are independent, (f, L, L).

    response: h, (count, f, k, n), with f = 1 where all frequencies are alike.
    observe:  H, (count, n, L).
    spectrum: S, (count, f, n, n) likewise.
    noise:    Θ, (count, k, k); none when left out.
    """
    added = 0.0 if noise is None else noise[:, None]
    mix = unit_combinations(response @ spectrum @ adjoint(response) + added)
    # Formed anew in combinations of unit size, the covariance has its digits again; those left out count as noise.
    mixed = mix @ response
    covariance = mixed @ spectrum @ adjoint(mixed) + (
        mix @ added @ adjoint(mix) if noise is not None else 0.0
    )
    covariance = covariance + np.eye(mix.shape[-1]) * ~np.any(mix, axis=-1)[..., None]
    half = np.linalg.solve(np.linalg.cholesky(covariance), mixed @ observe[:, None])
    flat = np.swapaxes(half, 0, 1).reshape(half.shape[1], -1, half.shape[3])
    return adjoint(flat) @ flat


def unit_combinations(covariance: ComplexArray) -> ComplexArray:
    """Combinations of numbers, (..., f, k, k), in which each has unit variance; zero in place of those that repeat.

    As many count as carry something at most frequencies: the rank of a filter is the same at almost all of them.
    """
    values, vectors = np.linalg.eigh((covariance + adjoint(covariance)) / 2)
    carrying = np.sum(values > _UNSEEN * values[..., -1:], axis=-1)
    ranks = np.median(carrying, axis=-1).astype(int)
    kept = np.arange(values.shape[-1]) >= values.shape[-1] - ranks[..., None, None]
    scale = np.where(kept, 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    return np.asarray(adjoint(vectors) * scale[..., None])


def adjoint(matrices: NDArray[Any]) -> NDArray[Any]:
    """Conjugate transposes of the last two axes."""
    return np.asarray(np.conj(np.swapaxes(matrices, -1, -2)))
