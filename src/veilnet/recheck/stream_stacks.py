"""The errors of a stream of very many agents once more, from sums over stacks and by formulas of its own.

With hindsight, by spectra as for few agents (:mod:`veilnet.recheck.stream_spectra`), but summed a few hundred agents
at a time, at other frequencies than those of :mod:`veilnet.bounds`.

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

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import unit_sizes
from veilnet.recheck.stream_spectra import (
    STILL_GROWING,
    ComplexArray,
    Hindsight,
    adjoint,
    errors_at,
    information_at,
    responses,
    turns_of,
)
from veilnet.recheck.stream_window import SETTLED
from veilnet.recheck.sums import raw_information

__all__ = ["StreamStacksRecheck"]

_FEWEST, _MOST = 48, 1 << 14
_AGREES = 1e-8
_UNSEEN = 1e-13
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
        best = float(np.trace(self._raw.error(rows)))

        def measure(count: int) -> float:
            return float(np.trace(self._mean(rows, count))) / best - 1.0

        return self._until_settled(measure, claimed)

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth with hindsight over all directions of A x, for independent rows."""
        root = np.linalg.cholesky(self._raw.error(rows))

        def measure(count: int) -> float:
            sent_error = self._mean(rows, count)
            half = np.linalg.solve(root, np.linalg.solve(root, sent_error).T)
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
            power = driven @ adjoint(driven) + spectra.noise
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
                return np.inf if 1.0 + found > STILL_GROWING * (1.0 + previous) else float(found)

    def _mean(self, rows: Array, count: int) -> Array:
        """A P A' with hindsight, from so many frequencies."""
        spectra = self._spectra(count)
        found = np.mean(errors_at(self.network, rows, spectra.turns, spectra.information), axis=0)
        return np.asarray((found + found.T) / 2)

    def _spectra(self, count: int) -> _Spectra:
        if count not in self._found:
            self._found.clear()  # of one number of frequencies at a time: they take memory
            self._found[count] = self._summed(turns_of(count))
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
            covariance = sent @ own[:, None] @ adjoint(sent)
            if stack.noise is not None:
                covariance = covariance + stack.noise[:, None]
            information += information_at(sent, observe, own[:, None], stack.noise)
            weights = self._weights(stack, observe, own, shares)
            counted = weights @ sent
            estimated += np.sum(counted @ observe[:, None], axis=0)
            power = weights @ covariance @ adjoint(weights)
            noise += np.sum(power, axis=0)
        return _Spectra(turns, information, estimated, noise)

    def _weights(
        self, stack: SanitizerStack, observe: Array, own: Array, shares: ComplexArray
    ) -> ComplexArray:
        """W_i: constants, or where a row tells all readings, what their part of the estimate makes of them."""
        gains = self._filter.error @ np.swapaxes(np.linalg.solve(own, observe), 1, 2)
        if stack.order == 0 and stack.sent == stack.readings:
            return np.asarray((shares @ gains[:, None]) @ np.linalg.inv(stack.compression)[:, None])
        turns = turns_of(_COMPARED)
        wanted = self._filter.seen(self.network.U, turns) @ gains[:, None]
        responses = np.broadcast_to(
            _responses(stack, turns), (stack.count, len(turns), stack.sent, stack.readings)
        )
        sizes = np.sqrt(np.mean(np.abs(responses) ** 2, axis=(1, 3)))
        responses = responses / np.where(sizes > 0, sizes, 1.0)[:, None, :, None]
        left = np.sum(responses @ own[:, None] @ adjoint(responses), axis=1).real
        right = np.sum(wanted @ own[:, None] @ adjoint(responses), axis=1).real
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
    def _raw(self) -> Hindsight:
        return Hindsight(self.network, lambda _turns: self._raw_information)

    @cached_property
    def _raw_information(self) -> Array:
        total = np.zeros((self.network.L, self.network.L))
        for group in self.network.blocks.groups:
            observe = self.network.blocks.take(self.network.H, group.agents)
            total += raw_information(observe, self.network.R.stack(group))
        return total


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


def _responses(stack: SanitizerStack, turns: ComplexArray) -> ComplexArray:
    through, direct = stack.compression[:, :, : stack.order], stack.compression[:, :, stack.order :]
    return responses(turns, through, direct, stack.transition, stack.gain)


def _half(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
