"""Sums over agents alike, kept as stacks: plain functions of arrays, so that a part of a network is as good as all.

A stack is (S, n, L) for what S agents of n readings observe, (S, n, n) for the Cholesky roots of their noises and
(S, k, n) for what they send. Agents meet only in L x L sums, kept as upper triangular T with T'T the information,
since forming the information itself would lose half the digits. :func:`raw_triangle` and :func:`sent_triangle` give T
for one stack, :func:`joined_triangle` that of several stacks, or of stacks on several machines, from theirs. With T
at hand, :mod:`veilnet.verdict.shares` says what each agent of a stack has to send,
:func:`veilnet.agent.grid.grid_steps` the grid for it, :mod:`veilnet.recheck.sums` forms the certificate's sums anew
by other formulas, and :func:`veilnet.centre.messages.whitening` is what the centre needs of each. All of them go
through a stack a few thousand agents at a time: what is in between stays small and in cache, and no result depends
on how much memory there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from veilnet._core.linalg import gram_root, solve_lower_batch, triangle
from veilnet._core.types import Array

# Numbers worked on at once: a part of a stack and its workspace stay in the second-level cache, near enough.
_AT_ONCE = 2**18

Summing = Callable[..., tuple[Array, ...]]
"""Called with ``answer``, then with what is asked: Σ answer(stack, *asked) over all stacks of agents, in one pass."""


def fits_at_once(numbers: int) -> bool:
    """Whether so many numbers are few enough to be worked on in one go."""
    return numbers <= _AT_ONCE


def parts(count: int, *shape: int) -> Iterator[slice]:
    """The places 0..count-1 in runs of as many agents as are worked on at once, each with an array of this shape."""
    step = max(1, _AT_ONCE // max(1, prod(shape)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def summed(
    stacks: Iterable[Any], answer: Callable[..., Array | tuple[Array, ...]], *asked: Any
) -> tuple[Array, ...]:
    """Σ answer(stack, *asked) over stacks, array by array, in their order; no array where there is no stack."""
    total: tuple[Array, ...] = ()
    for stack in stacks:
        found = answer(stack, *asked)
        here = found if isinstance(found, tuple) else (found,)
        total = tuple(one + two for one, two in zip(total, here, strict=True)) if total else here
    return total


def raw_triangle(observe: Array, roots: Array) -> Array:
    """T with T'T = Σ H_i'R_i^-1 H_i: what S agents tell who send their readings raw, (L, L).

    observe: H_i, (S, n, L).
    roots:   lower triangular L_i with L_i L_i' = R_i, (S, n, n).
    """
    return _joined_rows(lambda observe, roots: solve_lower_batch(roots, observe), observe, roots)


def sent_triangle(observe: Array, roots: Array, compression: Array, variances: Array | None = None) -> Array:
    """T with T'T = Σ H_i'C_i'(C_i R_i C_i' + Λ_i)^-1 C_i H_i: what S agents tell who send C_i y_i + ξ_i, (L, L).

    observe, roots: as for :func:`raw_triangle`.
    compression:    C_i, (S, k, n), with independent rows.
    variances:      the diagonal of Λ_i, (S, k), each 0 or 1; no noise is added when left out.
    """
    if compression.shape[1] == 0:
        return np.zeros((observe.shape[2], observe.shape[2]))
    return _joined_rows(sent_rows, observe, roots, compression, variances)


def _joined_rows(rows: Callable[..., Array], *stacks: Array | None) -> Array:
    """T of the rows, (count, k, L), that are made of stacks of agents, some at a time."""
    count, size, length = next(each.shape for each in stacks if each is not None)
    made = (
        rows(*(None if each is None else each[part] for each in stacks))
        for part in parts(count, size * length)
    )
    return joined_triangle((triangle(each.reshape(-1, each.shape[2])) for each in made), length)


def sent_rows(observe: Array, roots: Array, compression: Array, variances: Array | None = None) -> Array:
    """M_i^-½ C_i H_i with M_i = C_i R_i C_i' + Λ_i, (S, k, L): one row for each number sent, of unit noise.

    The arguments are those of :func:`sent_triangle`.
    """
    half = compression @ roots
    covariance = half @ np.swapaxes(half, 1, 2)
    if variances is not None:
        diagonal = np.arange(compression.shape[1])
        covariance[:, diagonal, diagonal] += variances

    def factor() -> Array:
        return half if variances is None else with_own_noise(half, variances)

    return solve_lower_batch(gram_root(covariance, factor), compression @ observe)


def with_own_noise(half: Array, variances: Array) -> Array:
    """B with BB' = half half' + diag(variances of 0 or 1), for one message or a stack."""
    return np.concatenate([half, variances[..., :, None] * np.eye(variances.shape[-1])], axis=-1)


def joined_triangle(triangles: Iterable[Array], length: int) -> Array:
    """T with T'T = Σ T_k'T_k, (L, L), joined in the order given; zero where there are none."""
    joined: Array | None = None
    waiting: list[Array] = []
    for each in triangles:
        waiting.append(each)
        if len(waiting) == _JOINED_AT_ONCE:
            joined = _join(joined, waiting)
            waiting = []
    if waiting:
        joined = _join(joined, waiting)
    return np.zeros((length, length)) if joined is None else joined


_JOINED_AT_ONCE = 16


def _join(joined: Array | None, waiting: list[Array]) -> Array:
    several = waiting if joined is None else [joined, *waiting]
    return several[0] if len(several) == 1 else triangle(np.concatenate(several))
