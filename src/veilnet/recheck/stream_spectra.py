"""What a centre knows of a stream with hindsight, frequency by frequency (Wiener), apart from :mod:`veilnet.bounds`.

At the frequency ω agent i sends z_i = h_i y_i + noise with

    h_i(ω) = C_s (I - F e^{-iω})^{-1} K + C_y,

and tells J = H*h*(h S_n h* + Θ)^+ hH of x. The error of x given *all* messages is the mean over ω of
(D*Q^-1 D + J)^-1, D = I - A e^{-iω}. Means over equally spaced frequencies converge geometrically; their number is
doubled until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.model.network import Network
from veilnet.recheck import sums
from veilnet.recheck.stream_system import SETTLED, unit_sizes, white_noise

ComplexArray = NDArray[Any]

_FEWEST, _MOST = 48, 48 << 9  # frequencies; other ones than those of the bounds
_AT_ONCE = 512
_NUMBERS_AT_ONCE = 1 << 18  # of some agents at some frequencies: a few megabytes
_MOST_KEPT = 1 << 22  # numbers of the information at all frequencies: 64 megabytes
_AGREES = 1e-8  # of what was claimed: a hundredth of what a certificate allows
# An error without bound grows like the number of frequencies, by more than so many times when that is doubled.
_STILL_GROWING = 1.5
# Combinations of an agent's numbers with less than this part of the largest variance repeat others.
_UNSEEN = 1e-13


def settled(
    measure: Callable[[int], Array], claimed: float | None = None, *, without_bound: bool = False
) -> Array:
    """A covariance from as many frequencies as it takes; inf where it grows with their number.

    measure:       that covariance from so many frequencies.
    claimed:       a trace that ends the search where it is confirmed.
    without_bound: whether it is expected to grow without end: fewer frequencies show that.
    """
    count, found = _FEWEST, measure(_FEWEST)
    while claimed is None or not abs(np.trace(found) - claimed) <= _AGREES * np.trace(found):
        count *= 2
        previous, found = found, measure(count)
        if np.max(np.abs(found - previous)) <= SETTLED * np.trace(found):
            break
        if count >= _MOST or (without_bound and count >= 16 * _FEWEST):
            growing = np.trace(found) > _STILL_GROWING * np.trace(previous)
            return np.full(found.shape, np.inf) if growing else found
    return found


class Hindsight:
    """The error with hindsight from messages that tell ``information``, J(ω), (f, L, L), at turns e^{-iω}, (f,)."""

    def __init__(self, network: Network, information: Callable[[ComplexArray], ComplexArray]) -> None:
        self.network, self.information = network, information
        self._kept: dict[int, list[tuple[ComplexArray, ComplexArray]]] = {}

    def error(self, rows: Array, claimed: float | None = None, *, without_bound: bool = False) -> Array:
        """A P A', as :func:`settled` takes it."""
        return settled(lambda count: self._mean(rows, count), claimed, without_bound=without_bound)

    def errors_apart(self, rows: Array, count: int) -> list[Array]:
        """Cov(A e_t, A e_{t+k}) of the errors, k = 0, 1, ..., (count, r, r).

        Where it still grows with the number of frequencies: from the most of them, a half and a quarter of them.
        """
        finest, found = max(_FEWEST, 8 * count), [np.zeros((count, len(rows), len(rows)))]
        while True:
            power = np.concatenate(list(self._spectrum(rows, finest)))
            later = turns_of(finest) ** np.arange(count)[:, None]
            found = [np.tensordot(later, power, 1).real / len(power), *found[:2]]
            if np.max(np.abs(found[0] - found[1])) <= SETTLED * np.trace(found[0][0]):
                return found[:1]
            if finest >= _MOST:
                growing = np.trace(found[0][0]) > _STILL_GROWING * np.trace(found[1][0])
                return found if growing and np.any(found[-1]) else found[:1]
            finest *= 2

    def _mean(self, rows: Array, count: int) -> Array:
        """A P A' from so many frequencies: those on the lower half of the circle have the conjugate."""
        total = sum(np.sum(some.real, axis=0) for some in self._spectrum(rows, count))
        return np.asarray((total + total.T) / (count // 2 * 2))

    def _spectrum(self, rows: Array, count: int) -> Iterator[ComplexArray]:
        return (spectrum_at(self.network, rows, *piece) for piece in self._pieces(count))

    def _pieces(self, count: int) -> Iterable[tuple[ComplexArray, ComplexArray]]:
        """(turns, J) of so many frequencies, some at a time; kept, where they fit, for the next rows."""
        if count not in self._kept:
            self._kept.clear()
            pieces = ((turns, self.information(turns)) for turns in in_pieces(count))
            if count * self.network.L**2 > _MOST_KEPT:
                return pieces
            self._kept[count] = list(pieces)
        return self._kept[count]


def in_pieces(count: int) -> Iterator[ComplexArray]:
    """The turns of so many frequencies, some at a time."""
    turns = turns_of(count)
    return (turns[start : start + _AT_ONCE] for start in range(0, len(turns), _AT_ONCE))


def turns_of(count: int) -> ComplexArray:
    """e^{-iω} at the middles of ``count`` equal parts of the circle, on its upper half."""
    return np.asarray(np.exp(-1j * (np.arange(count // 2) + 0.5) * (2 * np.pi / count)))


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


def raw_spectra(network: Network, turns: ComplexArray) -> ComplexArray:
    """J(ω) of the readings themselves, (f, L, L); f = 1 where their noise is white."""
    if network.colour is not None or not network.R.independent:
        return np.asarray(network.H.T @ np.linalg.solve(noise_spectrum(network, turns), network.H))
    groups = network.blocks.groups
    rows = (network.blocks.take(network.H, group.agents) for group in groups)
    return np.asarray(
        sum(sums.raw_sum(mine, network.R.stack(group)) for mine, group in zip(rows, groups, strict=True))
    )[None]


def information(network: Network, sent: Mechanisms, turns: ComplexArray) -> ComplexArray:
    """J(ω) of all messages, (f, L, L)."""
    if not network.R.independent:
        return _of_coupled_agents(network, sent, turns)
    total = np.zeros((len(turns), network.L, network.L), complex)
    for stack, observe, spectrum in agents_at(network, sent, turns):
        response = responses(stack, turns)
        added = 0.0 if stack.noise is None else stack.noise[:, None]
        mix = unit_combinations(response @ spectrum @ adjoint(response) + added)
        # Formed anew in combinations of unit size, the covariance has its digits again; those left out are noise.
        mixed = mix @ response
        covariance = mixed @ spectrum @ adjoint(mixed) + np.eye(stack.sent) * ~np.any(mix, axis=-1)[..., None]
        if stack.noise is not None:
            covariance = covariance + mix @ added @ adjoint(mix)
        half = np.linalg.solve(np.linalg.cholesky(covariance), mixed @ observe[:, None])
        flat = np.swapaxes(half, 0, 1).reshape(half.shape[1], -1, half.shape[3])
        total += adjoint(flat) @ flat
    return total


def agents_at(
    network: Network, sent: Mechanisms, turns: ComplexArray
) -> Iterator[tuple[SanitizerStack, Array, ComplexArray]]:
    """(stack, H_i, S_i(ω)) of agents that send something and whose noises are independent, some at a time.

    S_i, (count, f, n, n), is the spectrum of the readings' noise, with f = 1 where it is white.
    """
    whole = None if network.colour is None else noise_spectrum(network, turns)
    noises = [network.R.stack(group) for group in network.blocks.groups]
    for each in sent.parts():
        step = max(1, _NUMBERS_AT_ONCE // (len(turns) * max(network.L, each.stack.order) ** 2))
        for start in range(0, each.stack.count if each.stack.sent else 0, step):
            part = slice(start, start + step)
            stack = each.stack.take(part)
            spectrum: ComplexArray = noises[each.group][each.within][part][:, None]
            if whole is not None:
                rows = network.blocks.starts[stack.places][:, None] + np.arange(stack.readings)
                spectrum = np.moveaxis(whole[:, rows[:, :, None], rows[:, None, :]], 0, 1)
            yield stack, each.observe[part], spectrum


def noise_spectrum(network: Network, turns: ComplexArray) -> ComplexArray:
    """S_n(ω) of the readings' noise, white floor and dither included, (f, N, N); f = 1 where it is white."""
    if network.colour is None:
        return network.R.matrix()[None]
    carry = np.linalg.inv(np.eye(network.N) - turns[:, None, None] * network.colour.memory)
    return np.asarray(carry @ network.colour.innovation @ adjoint(carry) + white_noise(network))


def _of_coupled_agents(network: Network, sent: Mechanisms, turns: ComplexArray) -> ComplexArray:
    """J(ω) where the noise couples agents, each one's numbers combined so that they have unit variance."""
    spectrum, total = noise_spectrum(network, turns), sent.blocks.total
    whole = np.zeros((len(turns), total, network.N), complex)
    noise = np.zeros((len(turns), total, total), complex)
    for stack in sent.stacks:
        for within, place in enumerate(stack.places.tolist()):
            response = responses(stack.take(slice(within, within + 1)), turns)[0]
            rows, part = network.blocks.rows(place), sent.blocks.rows(place)
            added = np.zeros((stack.sent,) * 2) if stack.noise is None else stack.noise[within]
            mix = unit_combinations(response @ spectrum[:, rows, rows] @ adjoint(response) + added)
            whole[:, part, rows] = mix @ response
            noise[:, part, part] = mix @ added @ adjoint(mix)
            noise[:, part, part] += np.eye(stack.sent) * ~np.any(mix, axis=-1)[..., None]
    observed = whole @ network.H
    return np.asarray(
        adjoint(observed) @ np.linalg.solve(whole @ spectrum @ adjoint(whole) + noise, observed)
    )


def responses(stack: SanitizerStack, turns: ComplexArray) -> ComplexArray:
    """h(ω) of a stack's agents, (count, f, sent, readings); f = 1, one for all frequencies, without a memory."""
    through, direct = stack.compression[:, :, : stack.order], stack.compression[:, None, :, stack.order :]
    if stack.transition is None or stack.gain is None:
        return direct
    moves = np.eye(stack.order) - turns[:, None, None] * stack.transition[:, None]
    return np.asarray(direct + through[:, None] @ np.linalg.solve(moves, stack.gain[:, None] + 0j))


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
