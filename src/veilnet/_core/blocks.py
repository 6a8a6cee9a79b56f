"""Stacked readings cut into agents, so that agents of one size are worked on together.

A network of S agents with N_i readings keeps its readings stacked, N = sum N_i rows in sending order.
Numerical code asks for the groups of equal size and runs once per size, batched, instead of once per agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.types import Array, Integers


@dataclass(frozen=True, eq=False)
class Group:
    """The agents that have the same number of readings.

    ``agents`` are their positions in sending order, ``rows[k]`` the stacked rows of the k-th of them.
    """

    size: int
    agents: Integers
    rows: Integers

    @property
    def count(self) -> int:
        return int(self.agents.size)

    def take(self, stacked: Array) -> Array:
        """Rows of a stacked (N, ...) array as (count, size, ...)."""
        if self.rows.size == stacked.shape[0]:
            return stacked.reshape(self.count, self.size, *stacked.shape[1:])
        return np.asarray(stacked[self.rows])

    def among(self, places: Integers) -> slice | Integers:
        """Where some of the group's agents, ascending, are in its stacks: a slice where they follow one another."""
        first, last = (int(np.searchsorted(self.agents, place)) for place in (places[0], places[-1]))
        if last - first == len(places) - 1:
            return slice(first, last + 1)
        return np.searchsorted(self.agents, places)

    def put(self, stacked: Array, values: Array) -> None:
        """Write (count, size, ...) values back into their stacked rows."""
        stacked[self.rows.reshape(-1)] = values.reshape(-1, *stacked.shape[1:])

    def diagonal_blocks(self, square: Array) -> Array:
        """Diagonal blocks of an (N, N) matrix as (count, size, size)."""
        return np.asarray(square[self.rows[:, :, None], self.rows[:, None, :]])


class Blocks:
    """How N stacked readings fall to S agents of sizes N_i."""

    def __init__(self, sizes: Sequence[int] | Integers) -> None:
        self.sizes: Integers = np.asarray(sizes, dtype=np.intp)
        self.starts: Integers = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.intp)

    @property
    def count(self) -> int:
        """Number of agents S."""
        return int(self.sizes.size)

    @cached_property
    def total(self) -> int:
        """Number of readings N."""
        return int(self.sizes.sum())

    def rows(self, agent: int) -> slice:
        """Stacked rows of one agent, by position."""
        start = int(self.starts[agent])
        return slice(start, start + int(self.sizes[agent]))

    def take(self, stacked: Array, places: Integers) -> Array:
        """Rows of a stacked (N, ...) array that belong to agents of one size, as (count, size, ...); a view where the
        agents follow one another.

        places: of the agents in sending order, ascending.
        """
        count, size = len(places), int(self.sizes[places[0]])
        first, last = int(self.starts[places[0]]), int(self.starts[places[-1]])
        if last - first == (count - 1) * size:
            return stacked[first : last + size].reshape(count, size, *stacked.shape[1:])
        rows = self.starts[places][:, None] + np.arange(size, dtype=np.intp)
        return np.asarray(stacked[rows])

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Agents grouped by size, smallest first; agents without rows belong to no group."""
        return tuple(
            Group(
                size=int(size),
                agents=(agents := np.flatnonzero(self.sizes == size)),
                rows=self.starts[agents][:, None] + np.arange(size, dtype=np.intp)[None, :],
            )
            for size in np.unique(self.sizes)
            if size > 0
        )

    @cached_property
    def owner(self) -> Integers:
        """For each stacked row, the position of the agent it belongs to."""
        return np.repeat(np.arange(self.count, dtype=np.intp), self.sizes)

    def same_agent(self) -> Array:
        """(N, N) mask, 1 where two readings belong to one agent."""
        return np.asarray(self.owner[:, None] == self.owner[None, :], dtype=np.float64)
