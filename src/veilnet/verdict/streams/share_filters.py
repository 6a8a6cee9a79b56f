"""Each agent's share of the centre's running estimate of u, and the least it has to send and to keep.

Let K be the stationary gain of the best filter on raw readings and F = (I - K H) A. The estimate x̂_t = F x̂_{t-1} +
K y_t is linear in y, so it splits: agent i keeps ξ_t = F ξ_{t-1} + K_i y_i,t and sends U ξ_t; the sum over agents
*is* the centre's estimate of u. No decentralised causal mechanism that keeps perfect utility hides more, now or with
hindsight (docs/streams.md has the proof).

An agent whose share tells its readings anyway (as many numbers to send as it has readings, or more) sends the
readings: the same information, without a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower_batch
from veilnet._core.lyapunov import NOT_DYING
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import TOLD, ShareSystem, tells_readings
from veilnet.model.network import Network
from veilnet.verdict.shares import ShareRanks
from veilnet.verdict.streams.minimal import Filters, Reduction

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
            if one.order == 0 or count == 0:
                yield SanitizerStack(places[agents], direct)
                continue
            yield SanitizerStack(
                places[agents],
                np.concatenate([from_memory[others], direct], axis=2),
                transition=one.transition[chosen[others]],
                gain=one.gain[chosen[others]] @ inverse,
            )


def _telling(transition: Array, gain: Array, from_memory: Array, from_reading: Array) -> Booleans:
    """Whose numbers tell every reading anyway, by :func:`veilnet.bounds.streams.share_sums.tells_readings`."""
    direct = from_reading + from_memory @ gain
    singular = np.linalg.svd(direct, compute_uv=False)
    told = np.asarray(singular[:, -1] > TOLD * np.maximum(1.0, singular[:, 0]))
    if transition.shape[1] == 0 or not np.any(told):
        return told
    wrong = transition[told] - gain[told] @ (np.linalg.pinv(direct[told]) @ (from_memory @ transition)[told])
    lasting = np.max(np.abs(np.linalg.eigvals(wrong)), axis=1) >= NOT_DYING
    spare = direct.shape[1] > direct.shape[2]  # numbers to spare may show what lasts
    for place in np.flatnonzero(told)[lasting].tolist():
        told[place] = spare and tells_readings(
            transition[place], gain[place], from_memory[place], from_reading[place]
        )
    return told


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
