"""The least memory with which agents can compute their shares: balanced reduction of linear filters, a stack at once.

A filter h_k = c F^k B (k = 0, 1, ...: what a reading of k rows ago counts in the number sent now) needs as many
numbers of memory as its Hankel matrix [h_{j+k}] has rank. Singular values of that matrix below ``tolerance`` are
left out: they change what is sent by no more than twice their sum, in deviations, whatever the readings are (Glover
1984, Enns 1984). All agents share F and c: what can be seen of a state is common, what readings reach is each one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.lyapunov import stationary_root
from veilnet._core.types import Array, Booleans, Integers

# A feed-through needs F^-1 of the reduced filter; beyond this condition the longer memory is kept instead.
_WELL_CONDITIONED = 1e5


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of one order: s_t = transition s_{t-1} + gain y_t, sending from_memory s_t + from_reading y_t.

    members: which of the agents that were asked about, (count,); the other arrays have one entry for each of them.
    spread:  (count, order), the variances of the memory's numbers, which are uncorrelated.
    kept:    the smallest Hankel singular value that counts, inf where none does.
    dropped: the largest one that does not, 0 where all do.
    """

    members: Integers
    transition: Array
    gain: Array
    from_memory: Array
    from_reading: Array
    spread: Array
    kept: float
    dropped: float

    @property
    def order(self) -> int:
        return int(self.transition.shape[1])


@dataclass(frozen=True, eq=False)
class Reduction:
    """What is sent by agents that keep s = F s + K_i y_i and send rows s.

    transition: F, stable.
    rows:       what is sent of s, in deviations that count.
    tolerance:  Hankel singular values up to this are left out.
    """

    transition: Array
    rows: Array
    tolerance: float

    def minimal(self, gain: Array) -> Iterator[Filters]:
        """The filters with the fewest numbers kept, by their order: today's reading goes straight into what is sent
        where that shortens the memory.

        gain: K_i, (agents, n, readings), its columns one deviation of a reading each.
        """
        reach = stationary_root(self.transition, gain)
        whole = _Balance.of(self._seen, reach, self.tolerance)
        past = _Balance.of(self._seen_past, reach, self.tolerance)
        none, same = past.orders == 0, past.orders == whole.orders
        for members in _by_order(past.orders, ~none & ~same):
            short = past.truncated(members, self.transition, gain, self.rows @ self.transition)
            well = np.linalg.cond(short.transition) <= _WELL_CONDITIONED
            same[members[~well]] = True
            if np.any(well):
                short = past.truncated(members[well], self.transition, gain, self.rows @ self.transition)
                yield _with_feed_through(short, self.rows @ gain[members[well]])
        for members in _by_order(whole.orders, ~none & same):
            yield whole.truncated(members, self.transition, gain, self.rows)
        for members in _by_order(past.orders, none):
            direct = past.truncated(members, self.transition, gain, self.rows)
            yield replace(direct, from_reading=self.rows @ gain[members])

    def remembered(self, gain: Array) -> Iterator[Filters]:
        """The filters with the fewest numbers kept when what is sent is to be had from the memory alone."""
        whole = _Balance.of(self._seen, stationary_root(self.transition, gain), self.tolerance)
        for members in _by_order(whole.orders, np.ones(len(gain), bool)):
            yield whole.truncated(members, self.transition, gain, self.rows)

    @cached_property
    def _seen(self) -> Array:
        return stationary_root(self.transition.T, self.rows.T)

    @cached_property
    def _seen_past(self) -> Array:
        """The same of past readings alone: what remains when today's goes straight into the number sent."""
        return stationary_root(self.transition.T, (self.rows @ self.transition).T)


@dataclass(frozen=True, eq=False)
class _Balance:
    """What the readings of each agent reach of a common state, against what is seen of it: roots of both Gramians,
    which keep the small singular values.
    """

    seen: Array
    reach: Array
    left: Array
    singular: Array
    right: Array
    orders: Integers

    @classmethod
    def of(cls, seen: Array, reach: Array, tolerance: float) -> _Balance:
        left, singular, right = np.linalg.svd(seen.T @ reach, full_matrices=False)
        return cls(seen, reach, left, singular, right, np.sum(singular > tolerance, axis=1))

    def truncated(self, members: Integers, transition: Array, gain: Array, rows: Array) -> Filters:
        """Square-root balanced truncation of some agents, all of one order."""
        order = int(self.orders[members[0]])
        values = self.singular[members]
        roots = np.sqrt(values[:, :order])
        into = np.swapaxes(self.seen @ self.left[members][:, :, :order] / roots[:, None, :], 1, 2)
        out = self.reach[members] @ np.swapaxes(self.right[members, :order], 1, 2) / roots[:, None, :]
        return Filters(
            members,
            into @ transition @ out,
            into @ gain[members],
            rows @ out,
            np.zeros((len(members), len(rows), gain.shape[2])),
            roots**2,
            kept=float(np.min(values[:, :order], initial=np.inf)),
            dropped=float(np.max(values[:, order:], initial=0.0)),
        )


def _by_order(orders: Integers, chosen: Booleans) -> Iterator[Integers]:
    """Places of those chosen, all of one order at a time."""
    for order in np.unique(orders[chosen]).tolist():
        yield np.flatnonzero(chosen & (orders == order))


def _with_feed_through(short: Filters, rows: Array) -> Filters:
    """The filters of past readings, sending what they count for beside today's reading."""
    turned = np.linalg.solve(np.swapaxes(short.transition, 1, 2), np.swapaxes(short.from_memory, 1, 2))
    from_memory = np.ascontiguousarray(np.swapaxes(turned, 1, 2))
    return replace(short, from_memory=from_memory, from_reading=rows - from_memory @ short.gain)
