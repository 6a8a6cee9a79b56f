"""The errors that very many agents of a stream leave, in the steady state, from L x L sums at frequencies.

With hindsight the error of x is the mean over frequencies of (D*Q^-1 D + J̃)^-1, D = I - A e^{-iω}; where Q is
singular, Q = qq', of Φ q (I + q'Φ*J̃Φq)^-1 q'Φ*, Φ = D^-1. A mean over M equally spaced frequencies is off by the
error's covariance M rows apart, which falls geometrically: it is extrapolated from those up to M/2 rows apart, and M
doubled until nothing counts any more.

Now, the centre's estimate of u is the sum of the shares; what it is off by beyond the estimate from raw readings is
the power of what the messages miss of those, a sum of what is positive: the two are uncorrelated with the error from
raw readings. The error now of anything else would take the memories of all agents in one state: it is not computed,
and is at least that with hindsight.

At the frequency ω agent i sends h_i(ω) y + noise, h_i = C_s (I - F_i e^{-iω})^-1 K_i + C_y. With readings of unit
noise, L_i^-1 y_i, and orthonormal rows q_i(ω) that span what it sends (its own noise beside it), all agents tell

    J̃(ω) = Σ_i (q_i L_i^-1 H_i)* (q_i L_i^-1 H_i)

of x. Beside it, how far the weighed sum of what is sent is from the centre's estimate from raw readings, as a filter
of the readings (:mod:`veilnet.bounds.streams.share_sums`): E_i(ω) = s_i - W_i h_i, as Σ E_i H_i and Σ E_i R_i E_i*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import positive_root, solve_lower_batch, triangle
from veilnet._core.lyapunov import lasting_directions, spectral_radius, unseen_directions
from veilnet._core.stacks import parts, sent_triangle
from veilnet._core.types import Array, Booleans
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.memory import response
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.streams.share_sums import ShareSystem, sends_all, share_weights
from veilnet.bounds.streams.steady import ErrorsApart, Steady, bounded_rows

_FEWEST, _MOST = 32, 1 << 14
_ENOUGH = 1e-12  # of an error: a growth below this counts as rounding (bounds/streams/knowledge)
_SURELY_ENOUGH = 1e-15  # of a sample of the agents, so that all of them have enough, too
# Frequencies to begin with, times how fast the filter of raw readings forgets: enough to see its sharpest peak.
_RESOLVED = 8.0
# at the most frequencies: a hundredth of what a certificate allows two routes to differ by
_ACCEPTABLE = 1e-8
_REGULAR = 1e-10  # the least eigenvalue of Q, units removed, for which solving with Q keeps six digits
# A loss up to this is one of share filters; more, and the sum of what is sent need not be the best estimate.
_NO_LOSS = 1e-6
_MOST_DOUBLINGS = 40
_SAMPLE = 256  # agents that decide how many frequencies are tried; all of them confirm it


class SteadyOfStacks:
    """What :class:`veilnet.bounds.streams.steady.Steady` gives for few agents, for very many.

    sanitizers: what all of them send.
    raw:        the steady state of the best filter on raw readings.
    """

    def __init__(self, sanitizers: Mechanisms, raw: Steady) -> None:
        self._sanitizers, self._raw = sanitizers, raw
        self._network = sanitizers.network
        self._system = ShareSystem.of(self._network, raw)
        self.basis: Array = np.eye(self._network.L)

    @cached_property
    def unbounded(self) -> Array:
        """Directions of x that no message ever bounds, (L, k)."""
        dynamics = self._network.dynamics
        assert dynamics is not None
        lasting = lasting_directions(dynamics.transition)
        if lasting.shape[1] == 0:
            return lasting
        moves = lasting.T @ dynamics.transition @ lasting
        seen = np.zeros((0, lasting.shape[1]))
        for rows in _lasting_messages(self._sanitizers, lasting, moves):
            seen = triangle(np.concatenate([seen, rows]))
        scale = np.linalg.norm(seen)
        _, sizes, directions = np.linalg.svd(seen)
        strong = directions[sizes > 1e-9 * scale] if scale > 0 else directions[:0]
        return np.asarray(lasting @ unseen_directions(moves, strong))

    def bounded(self, rows: Array) -> Booleans:
        """Which rows of x have a finite error."""
        return bounded_rows(rows, self.unbounded)

    def error(self, rows: Array, *, hindsight: bool) -> Array:
        """Error covariance of rows of x that are bounded; now, of combinations of the public rows alone."""
        if not hindsight:
            return self._error_now(rows)
        turns, sums = self._settled
        found = np.mean(_errors(self._network_dynamics, rows, turns, sums.information), axis=0)
        return np.asarray((found + found.T) / 2)

    def errors_apart(self, rows: Array, count: int) -> ErrorsApart:
        """As :meth:`veilnet.bounds.streams.steady.Steady.errors_apart`, of rows of x."""
        turns, sums = self._settled
        wandering = self.unbounded if not np.all(self.bounded(rows)) else np.zeros((len(rows.T), 0))
        moves = wandering.T @ self._network_dynamics[0] @ wandering
        bounded = rows - (rows @ wandering) @ wandering.T
        steps = (np.eye(len(moves)) - turns[:, None, None] * moves) @ wandering.T
        both = np.concatenate([np.broadcast_to(bounded, (len(turns), *rows.shape)), steps], axis=1)
        found = _spectrum(self._network_dynamics, both, turns, sums.information)
        later = turns ** np.arange(count)[:, None]
        apart = np.asarray(np.tensordot(later, found, 1).real / len(turns))
        return ErrorsApart(apart, rows @ wandering, moves)

    def _error_now(self, rows: Array) -> Array:
        combined, *_ = np.linalg.lstsq(self._network.U.T, rows.T, rcond=None)
        if not np.allclose(combined.T @ self._network.U, rows, rtol=0, atol=1e-9 * np.max(np.abs(rows))):
            raise InvalidRequest(
                f"when: the error now is not computed for {self._network.S} agents, whose memories would all be in "
                "one state; it is at least the error with hindsight: ask for that (when='hindsight')"
            )
        beyond = self._off
        if np.trace(beyond) > _NO_LOSS * len(beyond):
            raise InvalidRequest(
                f"sanitizers: utility of {self._network.S} agents of a stream is computed where they send their "
                "shares, whose sum is the centre's estimate; these send something else: use fewer agents"
            )
        half = combined.T @ self._system.root
        found = self._raw.error(rows, hindsight=False) + half @ beyond @ half.T
        return np.asarray((found + found.T) / 2)

    @property
    def _network_dynamics(self) -> tuple[Array, Array]:
        dynamics = self._network.dynamics
        assert dynamics is not None
        return dynamics.transition, dynamics.noise

    @cached_property
    def _off(self) -> Array:
        """Covariance of what the sum of shares as sent is off by, in deviations of the public error, (r, r)."""
        turns, sums = self._settled
        moves, noise = self._network_dynamics
        root = positive_root(noise).T
        identity = np.eye(len(moves))
        driven = sums.off @ np.linalg.solve(identity - turns[:, None, None] * moves, root.astype(complex))
        found = np.mean(driven @ np.conj(np.swapaxes(driven, 1, 2)) + sums.noise, axis=0).real
        return np.asarray((found + found.T) / 2)

    @cached_property
    def _settled(self) -> tuple[ComplexArray, Sums]:
        """Turns e^{-iω} at as many frequencies as it takes, half of the circle, and the sums there."""
        rows = np.concatenate([np.eye(self._network.L), self._network.U, *self._network.private.values()])
        rows = rows[self.bounded(rows)]
        forgets = -np.log(max(spectral_radius(self._system.transition), 1e-12))
        count = _FEWEST
        while count < min(_MOST, _RESOLVED / forgets):
            count *= 2
        thinned, each = _thinned(self._sanitizers)
        while True:
            turns = np.exp(-1j * (np.arange(count // 2) + 0.5) * (2 * np.pi / count))
            if thinned is not None:
                information = each * sums_at(thinned, self._system, turns).information
                if (
                    _left_out(self._network_dynamics, rows, turns, information) > _SURELY_ENOUGH
                    and 2 * count <= _MOST
                ):
                    count *= 2
                    continue
            sums = sums_at(self._sanitizers, self._system, turns)
            left = _left_out(self._network_dynamics, rows, turns, sums.information)
            if left <= _ENOUGH or (2 * count > _MOST and left <= _ACCEPTABLE):
                return turns, sums
            if 2 * count > _MOST:
                raise InvalidRequest(
                    f"dynamics: the steady state of what {self._network.S} agents send cannot be computed. Either x "
                    "changes too slowly from row to row, or rounding of some sharp readings hides the others; take "
                    "longer rows, or give x or the sharpest readings more noise"
                )
            count *= 2


def _thinned(sanitizers: Mechanisms) -> tuple[Mechanisms | None, float]:
    """Some of the agents, each counted as often as it stands for others: they tell how many frequencies it takes."""
    total = sanitizers.network.S
    if total < 4 * _SAMPLE:
        return None, 1.0
    stacks = [stack.take(slice(None, None, total // _SAMPLE)) for stack in sanitizers.stacks]
    return Mechanisms(sanitizers.network, stacks), total / sum(stack.count for stack in stacks)


def _errors(
    dynamics: tuple[Array, Array], rows: Array, turns: ComplexArray, information: ComplexArray
) -> Array:
    """Real part of A P(ω) A', (f, rows, rows): that of ω and of -ω."""
    return np.asarray(_spectrum(dynamics, rows, turns, information).real)


def _spectrum(
    dynamics: tuple[Array, Array], rows: Array, turns: ComplexArray, information: ComplexArray
) -> ComplexArray:
    """A P(ω) A*, (f, rows, rows), of rows A, which may differ from frequency to frequency."""
    moves, noise = dynamics
    step = np.eye(len(moves)) - turns[:, None, None] * moves
    sizes = np.sqrt(np.diag(noise))
    sizes = np.where(sizes > 0, sizes, 1.0)
    values = np.linalg.eigvalsh(noise / np.outer(sizes, sizes))
    if values[0] > _REGULAR:
        known = np.conj(np.swapaxes(step, 1, 2)) @ np.linalg.solve(noise, step) + information
        units = 1.0 / np.sqrt(np.diagonal(known, axis1=1, axis2=2).real)
        half = rows * units[:, None, :]
        turned = np.conj(np.swapaxes(half, 1, 2)) + 0j
        solved = np.linalg.solve(known * units[:, :, None] * units[:, None, :], turned)
        return np.asarray(half @ solved)
    spread = np.linalg.solve(step, positive_root(noise).T + 0j)
    adjoint = np.conj(np.swapaxes(spread, 1, 2))
    known = np.eye(spread.shape[2]) + adjoint @ information @ spread
    half = rows @ spread
    return np.asarray(half @ np.linalg.solve(known, np.conj(np.swapaxes(half, 1, 2))))


def _left_out(
    dynamics: tuple[Array, Array], rows: Array, turns: ComplexArray, information: ComplexArray
) -> float:
    """How much a mean over these frequencies is off, as a part of itself, extrapolated from nearer rows."""
    if not len(rows):
        return 0.0
    found = np.diagonal(_errors(dynamics, rows, turns, information), axis1=1, axis2=2)
    half = len(turns)
    angles = -np.angle(turns)

    def envelope(first: int, last: int) -> Array:
        apart = np.cos(np.arange(first, last)[:, None] * angles)
        return np.asarray(np.max(np.abs(apart @ found), axis=0) / np.sum(found, axis=0))

    early, late = envelope(half // 4, 3 * half // 8), envelope(3 * half // 4, 7 * half // 8)
    ratio = np.minimum(late / np.maximum(early, np.finfo(float).tiny), 1.0)
    return float(np.max(late * ratio**2))


def _lasting_messages(sanitizers: Mechanisms, lasting: Array, moves: Array) -> list[Array]:
    """What agents send of directions that last, once their memories follow: rows of unit noise, some at a time.

    x = V a, a' = A_u a, makes memories X_i a with X_i = F_i X_i A_u^-1 + K_i H_i V.
    """
    found = []
    for stack, observe, roots in agents_of(sanitizers, lasting.size * 8):
        if not stack.sent:
            continue
        seen = observe @ lasting
        order = stack.order
        direct, own = stack.compression[:, :, order:], stack.compression[:, :, order:] @ roots
        rows = direct @ seen
        if stack.transition is not None and stack.gain is not None:
            memory, power = stack.gain @ seen, stack.transition
            back = np.linalg.inv(moves)
            for _ in range(_MOST_DOUBLINGS):
                more = power @ memory @ back
                memory = memory + more
                if np.max(np.abs(more)) <= 1e-17 * np.max(np.abs(memory)):
                    break
                power, back = power @ power, back @ back
            from_memory = stack.compression[:, :, :order]
            rows = rows + from_memory @ memory
            own = np.concatenate([own, from_memory @ stack.gain @ roots], axis=2)
        sizes = np.linalg.norm(own, axis=2)
        if stack.variances is not None:
            sizes = sizes + stack.variances
        sizes = np.where(sizes > 0, sizes, 1.0)
        found.append((rows / sizes[:, :, None]).reshape(-1, lasting.shape[1]))
    return found


ComplexArray = NDArray[Any]

# What is left of a row beside the rows before it counts as none below this part.
_REPEATED = 1e-8


@dataclass(frozen=True, eq=False)
class Sums:
    """At each of the frequencies: information J̃, (f, L, L), and what the estimate is off by.

    off:   Σ E_i H_i, (f, r, L).
    noise: Σ E_i R_i E_i*, (f, r, r).
    """

    information: ComplexArray
    off: ComplexArray
    noise: ComplexArray


def agents_of(sanitizers: Mechanisms, numbers: int) -> Iterator[tuple[SanitizerStack, Array, Array]]:
    """(stack, H_i, roots of R_i) of all agents, as many at a time as fit with so many numbers each."""
    roots = sanitizers.network.R.own_roots()
    for each in sanitizers.parts():
        own = roots[each.group][each.within]
        for part in parts(each.stack.count, max(1, numbers)):
            yield each.stack.take(part), each.observe[part], own[part]


def sums_at(sanitizers: Mechanisms, system: ShareSystem, turns: ComplexArray) -> Sums:
    """The sums at turns e^{-iω}, (f,)."""
    size, rows = len(system.transition), len(system.rows)
    count = len(turns)
    information = np.zeros((count, size, size), complex)
    off, noise = np.zeros((count, rows, size), complex), np.zeros((count, rows, rows), complex)
    moves = np.eye(size) - turns[:, None, None] * system.transition
    carried = system.rows @ np.linalg.inv(moves)
    for stack, observe, roots in agents_of(sanitizers, count * size * size):
        gains = system.gains(observe, roots)
        white = solve_lower_batch(roots, observe)
        if sends_all(stack):
            flat = white.reshape(-1, size)
            information += flat.T @ flat
            continue
        sent = response(stack.compression, stack.transition, stack.gain, turns)
        if stack.sent:
            information += _information_of(stack, sent, roots, white, count)
        missing = carried @ gains[:, None]
        if stack.sent:
            missing = missing - share_weights(system, stack, gains, roots)[:, None] @ sent
        wide = _side_by_side(missing @ roots[:, None])
        off += wide @ white.reshape(-1, size)
        noise += wide @ np.conj(np.swapaxes(wide, 1, 2))
    return Sums(information, off, noise)


def _information_of(
    stack: SanitizerStack, sent: ComplexArray, roots: Array, white: Array, count: int
) -> ComplexArray:
    """J̃ of some agents, (f, L, L)."""
    if stack.order == 0:
        upper = sent_triangle(np.ascontiguousarray(roots @ white), roots, stack.compression, stack.variances)
        return np.broadcast_to((upper.T @ upper).astype(complex), (count, *upper.shape))
    whitened = sent @ roots[:, None]
    if stack.variances is not None:
        own = np.sqrt(stack.variances)[:, None, :, None] * np.eye(stack.sent)
        whitened = np.concatenate([whitened, np.broadcast_to(own, (*whitened.shape[:3], stack.sent))], axis=3)
    spanning = _orthonormal(whitened)[..., : stack.readings]
    seen = spanning @ white[:, None]
    flat = np.swapaxes(seen, 0, 1).reshape(count, -1, white.shape[2])
    return np.asarray(np.conj(np.swapaxes(flat, 1, 2)) @ flat)


def _side_by_side(matrices: ComplexArray) -> ComplexArray:
    """(count, f, r, n) as (f, r, count n)."""
    turned = np.moveaxis(matrices, 0, 2)
    return turned.reshape(*turned.shape[:2], -1)


def _orthonormal(rows: ComplexArray) -> ComplexArray:
    """Orthonormal rows, (..., k, n), that span the same; zero in place of one that repeats those before it."""
    found = np.zeros(rows.shape, complex)
    for place in range(rows.shape[-2]):
        row = rows[..., place, :]
        size = np.linalg.norm(row, axis=-1, keepdims=True)
        for _ in range(2):  # once more, for what rounding left
            for earlier in range(place):
                other = found[..., earlier, :]
                row = row - np.sum(row * np.conj(other), axis=-1, keepdims=True) * other
        left = np.linalg.norm(row, axis=-1, keepdims=True)
        fresh = left > _REPEATED * size
        found[..., place, :] = np.where(fresh, row / np.where(fresh, left, 1.0), 0.0)
    return found
