"""Agents alike in what they read, send and keep, as a few arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from veilnet._core.frozen import Frozen, make_read_only
from veilnet._core.linalg import positive_root
from veilnet._core.types import Array, Integers
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer


@dataclass(frozen=True, eq=False)
class SanitizerStack(Frozen):
    """Agents that have as many readings, send as many numbers and keep as many.

    They send C_i (y_i - offset_i) + ξ_i; with a memory s_i = F_i s_i + K_i (y_i - offset_i), on streams,
    C_i (s_i, y_i - offset_i) + ξ_i.

    places:      of the agents in sending order, ascending, (count,).
    compression: C_i, (count, k, n); (count, k, order + n) with a memory.
    variances:   of ξ_i, (count, k), each 0 or 1; None where nothing is added.
    grid:        step of each number sent, (count, k); None before it was chosen.
    transition:  F_i, (count, order, order); None without a memory.
    gain:        K_i, (count, order, n); None without a memory.
    start:       covariance of the s_i that is drawn where a stream begins, (count, order, order); None without.
    covariance:  of ξ_i, (count, k, k), where agents are not in normal form; None where they are: then the rows of C_i
                 are independent of one another, and ``variances`` says all of the noise.
    """

    places: Integers
    compression: Array
    variances: Array | None = None
    grid: Array | None = None
    transition: Array | None = None
    gain: Array | None = None
    start: Array | None = None
    covariance: Array | None = None

    def __post_init__(self) -> None:
        make_read_only(self._arrays())

    def _arrays(self) -> tuple[Any, ...]:
        return tuple(getattr(self, each.name) for each in fields(self))

    @property
    def count(self) -> int:
        """How many agents."""
        return len(self.places)

    @property
    def sent(self) -> int:
        """How many numbers each of them sends."""
        return int(self.compression.shape[1])

    @property
    def readings(self) -> int:
        """How many readings each of them has."""
        return int(self.compression.shape[2]) - self.order

    @property
    def order(self) -> int:
        """How many numbers each of them keeps from row to row; 0 without a memory."""
        return 0 if self.transition is None else int(self.transition.shape[1])

    @property
    def noise(self) -> Array | None:
        """Θ_i, (count, k, k); None where nothing is added."""
        if self.covariance is not None or self.variances is None:
            return self.covariance
        return self.variances[:, :, None] * np.eye(self.sent)

    @property
    def noise_root(self) -> Array | None:
        """B_i with Θ_i = B_i'B_i, (count, k, k); None where nothing is added."""
        if self.covariance is None:
            return self.noise
        roots = np.zeros(self.covariance.shape)
        for root, noise in zip(roots, self.covariance, strict=True):
            found = positive_root(noise)
            root[: len(found)] = found
        return roots

    def take(self, part: slice) -> SanitizerStack:
        """Some of the agents."""
        chosen: list[Any] = [None if array is None else array[part] for array in self._arrays()]
        return SanitizerStack(*chosen)

    def sanitizer(self, within: int, offset: Array) -> Sanitizer:
        """The sanitizer of one agent of the stack, which subtracts an offset from its readings."""
        _, compression, variances, grid, transition, gain, start, covariance = (
            None if array is None else array[within] for array in self._arrays()
        )
        noise = variances if covariance is None else covariance
        if noise is None and transition is None:
            made = Sanitizer.exact(np.array(compression), offset=offset)
            return made if grid is None else made.with_grid(grid)
        memory = None if transition is None or gain is None else Memory(transition, gain, start)
        return Sanitizer(compression, noise, offset=offset, grid=grid, memory=memory)


@dataclass(frozen=True, eq=False)
class StackPart:
    """Some agents of a stack, few enough to be worked on at once.

    number:      of the stack among the stacks.
    part:        which of the stack's agents.
    stack:       what those agents send.
    observe:     H_i, (count, n, L), of the network.
    group:       the network's group of agents of this size, by its place among the groups.
    within:      where the agents are in the group's stacks.
    """

    number: int
    part: slice
    stack: SanitizerStack
    observe: Array
    group: int
    within: slice | Integers


def in_stacks(agents: Iterable[tuple[int, Sanitizer]]) -> list[SanitizerStack]:
    """Agents, by their places in sending order, put into stacks of agents alike."""
    kinds: dict[tuple[int, int, int, bool, bool, bool], list[tuple[int, Sanitizer]]] = {}
    for place, each in agents:
        drawn = each.memory is not None and each.memory.start is not None
        kind = (each.readings, each.sent, each.order, drawn, each.is_normal, each.grid is None)
        kinds.setdefault(kind, []).append((place, each))
    return [_stack(kinds[kind]) for kind in sorted(kinds)]


def _stack(members: Sequence[tuple[int, Sanitizer]]) -> SanitizerStack:
    every = [each for _, each in members]
    memories = [each.memory for each in every if each.memory is not None]
    noise, normal = np.stack([each.noise for each in every]), every[0].is_normal
    variances = np.array(np.diagonal(noise, axis1=1, axis2=2)) if normal and np.any(noise) else None

    def joined(arrays: list[Array | None]) -> Array | None:
        there = [array for array in arrays if array is not None]
        return np.stack(there) if there else None

    return SanitizerStack(
        np.array([place for place, _ in members], dtype=np.intp),
        np.stack([each.compression for each in every]),
        variances,
        joined([each.grid for each in every]),
        joined([each.transition for each in memories]),
        joined([each.gain for each in memories]),
        joined([each.start for each in memories]),
        None if normal else noise,
    )
