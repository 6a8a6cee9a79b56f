"""What very many agents tell of a stream at each frequency, as L x L sums.

At the frequency ω agent i sends h_i(ω) y + noise, h_i = C_s (I - F_i e^{-iω})^-1 K_i + C_y. With readings of unit
noise, L_i^-1 y_i, and orthonormal rows q_i(ω) that span what it sends (its own noise beside it), all agents tell

    J̃(ω) = Σ_i (q_i L_i^-1 H_i)* (q_i L_i^-1 H_i)

of x. Beside it, how far the weighed sum of what is sent is from the centre's estimate from raw readings, as a filter
of the readings (:mod:`veilnet.bounds.streams.share_sums`): E_i(ω) = s_i - W_i h_i, as Σ E_i H_i and Σ E_i R_i E_i*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts, sent_triangle
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack
from veilnet.agent.memory import response
from veilnet.bounds.streams.share_sums import ShareSystem, share_weights, tells_all

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
        if tells_all(stack):
            flat = white.reshape(-1, size)
            information += flat.T @ flat
            continue
        sent = response(stack.compression, stack.transition, stack.gain, turns)
        if stack.sent:
            information += _told(stack, sent, roots, white, count)
        missing = carried @ gains[:, None]
        if stack.sent:
            missing = missing - share_weights(system, stack, gains, roots)[:, None] @ sent
        wide = _side_by_side(missing @ roots[:, None])
        off += wide @ white.reshape(-1, size)
        noise += wide @ np.conj(np.swapaxes(wide, 1, 2))
    return Sums(information, off, noise)


def _told(stack: SanitizerStack, sent: ComplexArray, roots: Array, white: Array, count: int) -> ComplexArray:
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
