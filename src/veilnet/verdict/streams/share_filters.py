"""Each agent's share of the centre's running estimate of u, and the least it has to send and to keep.

Let K be the stationary gain of the best filter on raw readings and F = (I - K H) A. The estimate x̂_t = F x̂_{t-1} +
K y_t is linear in y, so it splits: agent i keeps ξ_t = F ξ_{t-1} + K_i y_i,t and sends U ξ_t; the sum over agents
*is* the centre's estimate of u. No decentralised causal mechanism that keeps perfect utility hides more, now or with
hindsight (docs/explanation/streams.md has the proof).

An agent whose share tells its readings anyway (as many numbers to send as it has readings, or more) sends the
readings: the same information, without a memory.

The least memory with which agents can compute their shares: balanced reduction of linear filters, a stack at once.

A filter h_k = c F^k B (k = 0, 1, ...: what a reading of k rows ago counts in the number sent now) needs as many
numbers of memory as its Hankel matrix [h_{j+k}] has rank. Singular values of that matrix below ``tolerance`` are
left out: they change what is sent by no more than twice their sum, in deviations, whatever the readings are (Glover
1984, Enns 1984). All agents share F and c: what can be seen of a state is common, what readings reach is each one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower_batch
from veilnet._core.lyapunov import NOT_DYING, stationary_root
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import LEAST_DETERMINED, ShareSystem, determines_readings
from veilnet.model.network import Network
from veilnet.verdict.shares import ShareRanks

# Parts of the share below this, in deviations of the public estimate's error for one deviation of a reading, are left
# out: that costs their square in utility.
_SMALLEST_PART = 1e-9


@dataclass(frozen=True, eq=False)
class ShareFilters(ShareRanks):
    """The shares of a stream's agents. ``ranks`` are the numbers each sends in a row.

    sanitizers: agent -> what it runs.
    orders:     agent -> how many numbers it keeps from row to row.
    """

    sanitizers: Mechanisms

    @property
    def orders(self) -> Mapping[str, int]:
        return self.sanitizers.numbers_kept


def share_filters(network: Network) -> ShareFilters:
    """The share filters of a stream network, each of minimal order."""
    system = ShareSystem.of(network, raw_stream(network))
    reduction = Reduction(system.transition, system.rows, _SMALLEST_PART)
    found: dict[tuple[int, int, int], list[SanitizerStack]] = {}
    kept, dropped = np.inf, 0.0
    for places, gain, root in _agents(network, system):
        for one in reduction.minimal(gain @ root):
            kept, dropped = min(kept, one.kept), max(dropped, one.dropped)
            for stack in _sent(one, places, root):
                found.setdefault((stack.readings, stack.sent, stack.order), []).append(stack)
    every = Mechanisms(network, [_joined(found[key]) for key in sorted(found)])
    return ShareFilters(network, every.blocks.sizes, kept, dropped, _SMALLEST_PART, every)


def _agents(network: Network, system: ShareSystem) -> Iterator[tuple[Integers, Array, Array]]:
    """(places, K_i, root of the covariance of readings in a row), some agents of one size at a time.

    Where x wanders off, it is the covariance of their noise.
    """
    assert network.dynamics is not None
    stationary = network.dynamics.stationary
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        spread = network.R.stack(group)
        for part in parts(group.count, network.L, 4 * network.L):
            places = group.agents[part]
            observe = network.blocks.take(network.H, places)
            seen = 0.0 if stationary is None else observe @ stationary @ np.swapaxes(observe, 1, 2)
            if system.gain is None:
                gains = system.gains(observe, roots[part])
            else:
                gains = np.moveaxis(system.gain[:, group.rows[part]], 0, 1)
            yield places, gains, cholesky(spread[part] + seen)


def _sent(one: Filters, places: Integers, root: Array) -> Iterator[SanitizerStack]:
    """What these agents send, by how many numbers: combinations that ever carry something, or their readings."""
    carried = one.from_memory @ one.transition * np.sqrt(one.spread)[:, None, :]
    left, singular, _ = np.linalg.svd(
        np.concatenate([one.from_reading + one.from_memory @ one.gain, carried], axis=2), full_matrices=False
    )
    counts = np.sum(singular > _SMALLEST_PART, axis=1)
    size = root.shape[1]
    for count in np.unique(counts).tolist():
        chosen = np.flatnonzero(counts == count)
        carrying = np.swapaxes(left[chosen][:, :, :count], 1, 2)
        from_memory, from_reading = carrying @ one.from_memory[chosen], carrying @ one.from_reading[chosen]
        determining = np.zeros(len(chosen), bool)
        if count >= size:
            determining = _determining(one.transition[chosen], one.gain[chosen], from_memory, from_reading)
        if np.any(determining):
            mine = places[one.members[chosen[determining]]]
            yield SanitizerStack(mine, np.tile(np.eye(size), (len(mine), 1, 1)))
        others = ~determining
        if np.any(others):
            agents = one.members[chosen[others]]
            inverse = solve_lower_batch(root[agents], np.tile(np.eye(size), (len(agents), 1, 1)))
            direct = from_reading[others] @ inverse
            if one.order == 0 or count == 0:
                yield SanitizerStack(places[agents], direct)
                continue
            yield SanitizerStack(
                places[agents],
                np.concatenate([from_memory[others], direct], axis=2),
                transition=one.transition[chosen[others]],
                gain=one.gain[chosen[others]] @ inverse,
            )


def _determining(transition: Array, gain: Array, from_memory: Array, from_reading: Array) -> Booleans:
    """Whose numbers tell every reading anyway, by :func:`veilnet.bounds.streams.share_sums.determines_readings`."""
    direct = from_reading + from_memory @ gain
    singular = np.linalg.svd(direct, compute_uv=False)
    determined = np.asarray(singular[:, -1] > LEAST_DETERMINED * np.maximum(1.0, singular[:, 0]))
    if transition.shape[1] == 0 or not np.any(determined):
        return determined
    wrong = transition[determined] - gain[determined] @ (
        np.linalg.pinv(direct[determined]) @ (from_memory @ transition)[determined]
    )
    lasting = np.max(np.abs(np.linalg.eigvals(wrong)), axis=1) >= NOT_DYING
    spare = direct.shape[1] > direct.shape[2]  # numbers to spare may show what lasts
    for place in np.flatnonzero(determined)[lasting].tolist():
        determined[place] = spare and determines_readings(
            transition[place], gain[place], from_memory[place], from_reading[place]
        )
    return determined


def _joined(stacks: list[SanitizerStack]) -> SanitizerStack:
    """Stacks of one kind as one, its places ascending."""
    if len(stacks) == 1 and np.all(np.diff(stacks[0].places) > 0):
        return stacks[0]
    places = np.concatenate([stack.places for stack in stacks])
    order = np.argsort(places)

    def joined(name: str) -> Array | None:
        arrays = [getattr(stack, name) for stack in stacks]
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    compression = joined("compression")
    assert compression is not None
    return SanitizerStack(places[order], compression, transition=joined("transition"), gain=joined("gain"))


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
