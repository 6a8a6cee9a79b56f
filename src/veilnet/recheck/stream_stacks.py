"""The errors of a stream of very many agents once more, from sums over stacks and by formulas of its own.

With hindsight, by spectra as for few agents (:mod:`veilnet.recheck.stream`), but summed a few hundred agents at a
time: each agent's filter is solved from the right, what it tells is weighed by a spectral pseudo-inverse of its
covariance, and the frequencies are others than those of :mod:`veilnet.bounds`.

Now, by a witness: the centre that adds up what agents send, each agent's numbers weighed by constants (where an agent
sends as many combinations of readings as it has, by a filter of them). Whatever the weights are, the error of that
very sum,

    (U - Σ W_i h_i H_i) S_x (U - Σ W_i h_i H_i)* + Σ W_i h_i R_i h_i* W_i*   (mean over frequencies),

is one that a centre need not exceed; they come from the gains of a filter that SciPy found, compared at some
frequencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import unit_sizes
from veilnet.recheck.stream_window import SETTLED
from veilnet.recheck.sums import raw_information

__all__ = ["StreamStacksRecheck"]

ComplexArray = NDArray[Any]

_FEWEST, _MOST = 48, 1 << 14
_AGREES = 1e-8
_UNSEEN = 1e-13
_STILL_GROWING = 1.5  # an error without bound grows like the number of frequencies
_NUMBERS_AT_ONCE = 1 << 18
_COMPARED = 24  # frequencies at which weights are fitted


class StreamStacksRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Mechanisms) -> None:
        assert network.dynamics is not None
        self.network, self._sanitizers = network, sanitizers
        self._moves, self._news = network.dynamics.transition, network.dynamics.noise
        self._units = unit_sizes(self._moves, self._news)
        self._found: dict[int, _Spectra] = {}

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A') with hindsight; inf where it is without bound."""
        best = float(np.trace(self._smoothed_raw(rows)))

        def measure(count: int) -> float:
            told = self._mean(rows, count, self._spectra(count).information)
            return float(np.trace(told)) / best - 1.0

        return self._until_settled(measure, claimed)

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth with hindsight over all directions of A x, for independent rows."""
        root = np.linalg.cholesky(self._smoothed_raw(rows))

        def measure(count: int) -> float:
            told = self._mean(rows, count, self._spectra(count).information)
            half = np.linalg.solve(root, np.linalg.solve(root, told).T)
            return float(np.linalg.eigvalsh((half + half.T) / 2)[0] - 1.0)

        return self._until_settled(measure, claimed)

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now of the centre that adds up; rows are the public ones."""
        best = float(np.trace(rows @ self._filter.error @ rows.T))

        def measure(count: int) -> float:
            spectra = self._spectra(count)
            left = rows - spectra.estimated
            driven = left @ np.linalg.solve(
                np.eye(len(self._moves)) - spectra.turns[:, None, None] * self._moves, _half(self._news) + 0j
            )
            power = driven @ _adjoint(driven) + spectra.noise
            return float(np.mean(np.trace(power, axis1=1, axis2=2).real)) / best - 1.0

        return self._until_settled(measure, claimed)

    def _until_settled(self, measure: Any, claimed: float) -> float:
        """A figure with as many frequencies as it takes, or as confirm what was claimed."""
        count, found = _FEWEST, measure(_FEWEST)
        while True:
            if abs(found - claimed) <= _AGREES * (1.0 + abs(found)):
                return float(found)
            count *= 2
            previous, found = found, measure(count)
            if abs(found - previous) <= SETTLED * (1.0 + abs(found)):
                return float(found)
            if count >= _MOST or (np.isinf(claimed) and count >= 16 * _FEWEST):
                return np.inf if 1.0 + found > _STILL_GROWING * (1.0 + previous) else float(found)

    def _spectra(self, count: int) -> _Spectra:
        if count not in self._found:
            self._found.clear()  # of one number of frequencies at a time: they take memory
            self._found[count] = self._summed(_turns(count))
        return self._found[count]

    def _summed(self, turns: ComplexArray) -> _Spectra:
        size, rows = self.network.L, len(self.network.U)
        information = np.zeros((len(turns), size, size), complex)
        estimated = np.zeros((len(turns), rows, size), complex)
        noise = np.zeros((len(turns), rows, rows), complex)
        shares = self._filter.seen(self.network.U, turns)
        for stack, observe, own in self._agents(len(turns)):
            if not stack.sent:
                continue
            sent = _responses(stack, turns)
            covariance = sent @ own[:, None] @ _adjoint(sent)
            if stack.noise is not None:
                covariance = covariance + stack.noise[:, None]
            information += _weighed(sent @ observe[:, None], covariance, len(turns))
            weights = self._weights(stack, observe, own, shares)
            counted = weights @ sent
            estimated += np.sum(counted @ observe[:, None], axis=0)
            power = weights @ covariance @ _adjoint(weights)
            noise += np.sum(power, axis=0)
        return _Spectra(turns, information, estimated, noise)

    def _weights(
        self, stack: SanitizerStack, observe: Array, own: Array, shares: ComplexArray
    ) -> ComplexArray:
        """W_i: constants, or where a row tells all readings, what their part of the estimate makes of them."""
        gains = self._filter.error @ np.swapaxes(np.linalg.solve(own, observe), 1, 2)
        if stack.order == 0 and stack.sent == stack.readings:
            return np.asarray((shares @ gains[:, None]) @ np.linalg.inv(stack.compression)[:, None])
        turns = _turns(_COMPARED)
        wanted = self._filter.seen(self.network.U, turns) @ gains[:, None]
        told = np.broadcast_to(
            _responses(stack, turns), (stack.count, len(turns), stack.sent, stack.readings)
        )
        sizes = np.sqrt(np.mean(np.abs(told) ** 2, axis=(1, 3)))
        told = told / np.where(sizes > 0, sizes, 1.0)[:, None, :, None]
        left = np.sum(told @ own[:, None] @ _adjoint(told), axis=1).real
        right = np.sum(wanted @ own[:, None] @ _adjoint(told), axis=1).real
        fitted = right @ np.linalg.pinv(left, rcond=1e-12, hermitian=True)
        return np.asarray(fitted / np.where(sizes > 0, sizes, 1.0)[:, None, :])[:, None]

    def _agents(self, frequencies: int) -> Iterator[tuple[SanitizerStack, Array, Array]]:
        """(stack, H_i, R_i), some agents at a time."""
        groups = self.network.blocks.groups
        noises = [self.network.R.stack(group) for group in groups]
        for each in self._sanitizers.parts():
            own = noises[each.group][each.within]
            step = max(1, _NUMBERS_AT_ONCE // (frequencies * max(self.network.L, each.stack.order) ** 2))
            for start in range(0, each.stack.count, step):
                part = slice(start, start + step)
                yield each.stack.take(part), each.observe[part], own[part]

    @cached_property
    def _filter(self) -> _RawFilter:
        return _RawFilter.of(self.network, self._raw_information, self._units)

    @cached_property
    def _raw_information(self) -> Array:
        total = np.zeros((self.network.L, self.network.L))
        for group in self.network.blocks.groups:
            observe = self.network.blocks.take(self.network.H, group.agents)
            total += raw_information(observe, self.network.R.stack(group))
        return total

    def _smoothed_raw(self, rows: Array) -> Array:
        """A P A' of raw readings with hindsight: their information is the same at every frequency."""
        count, found = _FEWEST, self._mean(rows, _FEWEST, self._raw_information)
        while count < _MOST:
            count *= 2
            previous, found = found, self._mean(rows, count, self._raw_information)
            if np.max(np.abs(found - previous)) <= SETTLED * np.trace(found):
                break
        return found

    def _mean(self, rows: Array, count: int, information: ComplexArray) -> Array:
        """The mean of A P(ω) A', by [[Q, D], [D*, -J]]: Q may be singular."""
        turns, size = _turns(count), len(self._moves)
        system = np.zeros((len(turns), 2 * size, 2 * size), complex)
        moves = np.eye(size) - turns[:, None, None] * self._moves
        system[:, :size, :size] = self._news
        system[:, :size, size:] = moves
        system[:, size:, :size] = _adjoint(moves)
        system[:, size:, size:] = -information
        units = np.concatenate([1.0 / self._units, self._units])
        right = np.zeros((2 * size, len(rows)), complex)
        right[size:] = rows.T
        solved = np.linalg.solve(system * np.outer(units, units), right * units[:, None])[:, size:]
        found = np.mean(-((rows * self._units) @ solved).real, axis=0)
        return np.asarray((found + found.T) / 2)


@dataclass(frozen=True, eq=False)
class _Spectra:
    """Sums over all agents at some frequencies.

    information: Σ H*h*(hRh* + Θ)^+ hH, (f, L, L).
    estimated:   Σ W h H, (f, r, L), and noise: Σ W (hRh* + Θ) W*, (f, r, r), of the centre that adds up.
    """

    turns: ComplexArray
    information: ComplexArray
    estimated: ComplexArray
    noise: ComplexArray


@dataclass(frozen=True, eq=False)
class _RawFilter:
    """The best filter on raw readings: the error now, (L, L), and x̂' = transition x̂ + what is new."""

    error: Array
    transition: Array

    @classmethod
    def of(cls, network: Network, information: Array, units: Array) -> _RawFilter:
        from scipy.linalg import solve_discrete_are

        dynamics = network.dynamics
        assert dynamics is not None
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


def _turns(count: int) -> ComplexArray:
    """e^{-iω} at the middles of ``count`` equal parts of the circle, on its upper half."""
    return np.asarray(np.exp(-1j * (np.arange(count // 2) + 0.5) * (2 * np.pi / count)))


def _responses(stack: SanitizerStack, turns: ComplexArray) -> ComplexArray:
    """h_i(ω), (count, f, sent, readings); one for all frequencies without a memory."""
    direct = stack.compression[:, None, :, stack.order :]
    if stack.transition is None or stack.gain is None:
        return direct
    moves = np.eye(stack.order) - turns[:, None, None] * stack.transition[:, None]
    kept = np.linalg.solve(moves, stack.gain[:, None] + 0j)
    return np.asarray(direct + stack.compression[:, None, :, : stack.order] @ kept)


def _weighed(seen: ComplexArray, covariance: ComplexArray, count: int) -> ComplexArray:
    """Σ over agents of B*M^+B, (f, L, L); combinations that repeat others at most frequencies are left out."""
    values, vectors = np.linalg.eigh((covariance + _adjoint(covariance)) / 2)
    carrying = np.sum(values > _UNSEEN * values[..., -1:], axis=2)
    ranks = np.median(carrying, axis=1).astype(int)
    kept = np.arange(values.shape[2]) >= values.shape[2] - ranks[:, None, None]
    half = _adjoint(vectors) @ seen
    half = half * np.where(kept, 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)[..., None]
    flat = np.swapaxes(half, 0, 1).reshape(half.shape[1], -1, half.shape[3])
    return np.broadcast_to(_adjoint(flat) @ flat, (count, half.shape[3], half.shape[3]))


def _half(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _adjoint(matrices: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.conj(np.swapaxes(matrices, -1, -2)))
