"""The share filters of very many agents at once: all share F and what is sent of it, so that stacks are reduced.

The decisions are those of :mod:`veilnet.verdict.streams.minimal` and :mod:`veilnet.verdict.streams.share_filters`,
agent by agent, each by small batched factorisations: what a reading's past can be seen of (common to all), what each
agent's readings reach, and a singular value decomposition of their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower_batch
from veilnet._core.lyapunov import NOT_DYING, stationary_root
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.sanitizer_stacks import SanitizerStack, StackedSanitizers
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import ShareSystem
from veilnet.bounds.streams.telling import TOLD, tells_readings
from veilnet.model.network import Network
from veilnet.verdict.streams.minimal import WELL_CONDITIONED

__all__ = ["StackedFilters", "stacked_filters"]


@dataclass(frozen=True, eq=False)
class StackedFilters:
    """What all agents of a network run, as stacks.

    kept, dropped: the smallest Hankel singular value that counts, and the largest that does not, over all agents.
    """

    sanitizers: StackedSanitizers
    kept: float
    dropped: float


@dataclass(frozen=True, eq=False)
class _Filters:
    """Filters of one order: s = transition s + gain y, sending from_memory s + from_reading y, y in deviations.

    members: which agents of the part.
    spread:  (count, order), the variances of the memory's numbers, which are uncorrelated.
    """

    members: Integers
    transition: Array
    gain: Array
    from_memory: Array
    from_reading: Array
    spread: Array


@dataclass(frozen=True, eq=False)
class _Reach:
    """What the readings of each agent reach of a common state, against what is seen of it."""

    seen: Array
    reach: Array
    left: Array
    singular: Array
    right: Array
    orders: Integers

    @classmethod
    def of(cls, seen: Array, reach: Array, tolerance: float) -> _Reach:
        left, singular, right = np.linalg.svd(seen.T @ reach, full_matrices=False)
        return cls(seen, reach, left, singular, right, np.sum(singular > tolerance, axis=1))

    def balanced(
        self, members: Integers, order: int, transition: Array, gain: Array, rows: Array
    ) -> _Filters:
        """Square-root balanced truncation of some agents to one order."""
        roots = np.sqrt(self.singular[members, :order])
        into = np.swapaxes(self.seen @ self.left[members][:, :, :order] / roots[:, None, :], 1, 2)
        out = self.reach[members] @ np.swapaxes(self.right[members, :order], 1, 2) / roots[:, None, :]
        mine = gain[members]
        return _Filters(
            members,
            into @ transition @ out,
            into @ mine,
            rows @ out,
            np.zeros((len(members), len(rows), mine.shape[2])),
            roots**2,
        )


def stacked_filters(network: Network, tolerance: float) -> StackedFilters:
    """The share filters of a stream with white noise independent between agents, each of minimal order.

    tolerance: Hankel singular values, and numbers to send, up to this are left out.
    """
    system = ShareSystem.of(network, raw_stream(network))
    seen = stationary_root(system.transition.T, system.rows.T)
    seen_past = stationary_root(system.transition.T, (system.rows @ system.transition).T)
    found: dict[tuple[int, int, int], list[SanitizerStack]] = {}
    kept, dropped = np.inf, 0.0
    for places, observe, noise, roots in _agents(network):
        root = cholesky(_spread(network, observe, noise))
        gain = system.gains(observe, roots) @ root
        reach = stationary_root(system.transition, gain)
        whole = _Reach.of(seen, reach, tolerance)
        past = _Reach.of(seen_past, reach, tolerance)
        for one, chosen in _minimal(system, gain, whole, past):
            values, count = chosen.singular[one.members], one.transition.shape[1]
            kept = min(kept, float(np.min(values[:, :count], initial=np.inf)))
            dropped = max(dropped, float(np.max(values[:, count:], initial=0.0)))
            for stack in _sent(one, places, root, tolerance):
                found.setdefault((stack.readings, stack.sent, stack.order), []).append(stack)
    stacks = [_joined(found[key]) for key in sorted(found)]
    return StackedFilters(StackedSanitizers(network, stacks), kept, dropped)


def _agents(network: Network) -> Iterator[tuple[Integers, Array, Array, Array]]:
    """(places, H_i, R_i, root of R_i), some agents of one size at a time."""
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        noise = network.R.stack(group)
        for part in parts(group.count, network.L, 4 * network.L):
            places = group.agents[part]
            yield places, network.blocks.take(network.H, places), noise[part], roots[part]


def _spread(network: Network, observe: Array, noise: Array) -> Array:
    """The covariance of each agent's readings in a row, or of their noise where x wanders off."""
    assert network.dynamics is not None
    stationary = network.dynamics.stationary
    return noise if stationary is None else noise + observe @ stationary @ np.swapaxes(observe, 1, 2)


def _minimal(
    system: ShareSystem, gain: Array, whole: _Reach, past: _Reach
) -> Iterator[tuple[_Filters, _Reach]]:
    """Each agent's share with the fewest numbers kept: today's reading goes straight into what is sent where that
    shortens the memory.
    """
    nothing, same = past.orders == 0, past.orders == whole.orders
    for order in np.unique(past.orders[~nothing & ~same]).tolist():
        members = np.flatnonzero(~nothing & ~same & (past.orders == order))
        short = past.balanced(members, order, system.transition, gain, system.rows @ system.transition)
        well = np.linalg.cond(short.transition) <= WELL_CONDITIONED
        same[members[~well]] = True
        if np.any(well):
            yield _with_feed_through(short, well, system.rows @ gain[members[well]]), past
    for order in np.unique(whole.orders[~nothing & same]).tolist():
        members = np.flatnonzero(~nothing & same & (whole.orders == order))
        yield whole.balanced(members, order, system.transition, gain, system.rows), whole
    if np.any(nothing):
        members = np.flatnonzero(nothing)
        direct = past.balanced(members, 0, system.transition, gain, system.rows)
        yield (
            _Filters(
                members,
                direct.transition,
                direct.gain,
                direct.from_memory,
                system.rows @ gain[members],
                direct.spread,
            ),
            past,
        )


def _with_feed_through(short: _Filters, well: Booleans, rows: Array) -> _Filters:
    """The filter of past readings, sending what they count for beside today's reading."""
    transition, gain = short.transition[well], short.gain[well]
    turned = np.linalg.solve(np.swapaxes(transition, 1, 2), np.swapaxes(short.from_memory[well], 1, 2))
    from_memory = np.swapaxes(turned, 1, 2)
    return _Filters(
        short.members[well], transition, gain, from_memory, rows - from_memory @ gain, short.spread[well]
    )


def _sent(one: _Filters, places: Integers, root: Array, tolerance: float) -> Iterator[SanitizerStack]:
    """What these agents send, by how many numbers: combinations that ever carry something, or their readings."""
    carried = one.from_memory @ one.transition * np.sqrt(one.spread)[:, None, :]
    left, singular, _ = np.linalg.svd(
        np.concatenate([one.from_reading + one.from_memory @ one.gain, carried], axis=2), full_matrices=False
    )
    counts = np.sum(singular > tolerance, axis=1)
    size = root.shape[1]
    for count in np.unique(counts).tolist():
        chosen = np.flatnonzero(counts == count)
        carrying = np.swapaxes(left[chosen][:, :, :count], 1, 2)
        from_memory, from_reading = carrying @ one.from_memory[chosen], carrying @ one.from_reading[chosen]
        telling = np.zeros(len(chosen), bool)
        if count >= size:
            telling = _telling(one.transition[chosen], one.gain[chosen], from_memory, from_reading)
        if np.any(telling):
            mine = places[one.members[chosen[telling]]]
            yield SanitizerStack(mine, np.tile(np.eye(size), (len(mine), 1, 1)))
        others = ~telling
        if np.any(others):
            agents = one.members[chosen[others]]
            inverse = solve_lower_batch(root[agents], np.tile(np.eye(size), (len(agents), 1, 1)))
            direct = from_reading[others] @ inverse
            if one.transition.shape[1] == 0 or count == 0:
                yield SanitizerStack(places[agents], direct)
                continue
            yield SanitizerStack(
                places[agents],
                np.concatenate([from_memory[others], direct], axis=2),
                transition=one.transition[chosen[others]],
                gain=one.gain[chosen[others]] @ inverse,
            )


def _telling(transition: Array, gain: Array, from_memory: Array, from_reading: Array) -> Booleans:
    """Whose numbers tell every reading anyway, as :func:`veilnet.bounds.streams.telling.tells_readings` decides."""
    direct = from_reading + from_memory @ gain
    singular = np.linalg.svd(direct, compute_uv=False)
    told = singular[:, -1] > TOLD * np.maximum(1.0, singular[:, 0])
    if transition.shape[1] == 0 or not np.any(told):
        return np.asarray(told)
    wrong = transition[told] - gain[told] @ (np.linalg.pinv(direct[told]) @ (from_memory @ transition)[told])
    lasting = np.max(np.abs(np.linalg.eigvals(wrong)), axis=1) >= NOT_DYING
    if direct.shape[1] > direct.shape[2]:  # numbers to spare may show what lasts
        for place in np.flatnonzero(told)[lasting].tolist():
            told[place] = tells_readings(
                transition[place], gain[place], from_memory[place], from_reading[place]
            )
    else:
        told[np.flatnonzero(told)[lasting]] = False
    return np.asarray(told)


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
