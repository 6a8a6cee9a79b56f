"""Each agent's share of the centre's running estimate of u, and the least it has to send and to keep.

Let K be the stationary gain of the best filter on raw readings and F = (I - K H) A. The estimate x̂_t = F x̂_{t-1} +
K y_t is linear in y, so it splits: agent i keeps ξ_t = F ξ_{t-1} + K_i y_i,t and sends U ξ_t; the sum over agents
*is* the centre's estimate of u. No decentralised causal mechanism that keeps perfect utility hides more, now or with
hindsight (docs/streams.md has the proof).

An agent whose share tells its readings anyway (as many numbers to send as it has readings, or more) sends the
readings: the same information, without a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.lyapunov import stationary_root
from veilnet._core.types import Array
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import numbers_kept, offset_of
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import regular
from veilnet.bounds.streams.state_space import message_model
from veilnet.bounds.streams.telling import tells_readings
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.verdict.shares import Shares
from veilnet.verdict.streams.filter_stacks import stacked_filters
from veilnet.verdict.streams.minimal import Filter, minimal_filter

__all__ = ["ShareFilters", "share_filters"]

# Parts of the share below this, in deviations of the public estimate's error for one deviation of a reading, are left
# out: that costs their square in utility.
_SMALLEST_PART = 1e-9


@dataclass(frozen=True, eq=False)
class ShareFilters(Shares):
    """The shares of a stream's agents. ``ranks`` are the numbers each sends in a row.

    sanitizers: agent -> what it runs.
    orders:     agent -> how many numbers it keeps from row to row.
    """

    sanitizers: Mapping[str, Sanitizer]

    @property
    def orders(self) -> Mapping[str, int]:
        return numbers_kept(self.network, self.sanitizers)

    def needed(self) -> None:  # type: ignore[override]
        raise InvalidRequest("shares: those of a stream are filters, not rows of readings; see sanitizers")

    def free(self) -> None:  # type: ignore[override]
        raise InvalidRequest("shares: those of a stream are filters, not rows of readings; see sanitizers")


def share_filters(network: Network) -> ShareFilters:
    """The share filters of a stream network, each of minimal order."""
    if by_stacks(network):
        many = stacked_filters(network, _SMALLEST_PART)
        sent = many.sanitizers.sent
        return ShareFilters(network, sent, many.kept, many.dropped, _SMALLEST_PART, (), many.sanitizers)
    model = message_model(network)
    steady = raw_stream(network)
    gain = steady.basis @ steady.gain
    transition = model.transition - gain @ (model.observe @ model.transition)
    public = np.zeros((len(network.U), model.size))
    public[:, : network.L] = network.U
    # Rows in which the error of the public estimate is white: then every number counts alike.
    rows = solve_lower(cholesky(regular(steady.error(public, hindsight=False))), public)
    ranks = np.zeros(network.S, dtype=np.intp)
    found: dict[str, Sanitizer] = {}
    kept, dropped = np.inf, 0.0
    for place, agent in enumerate(network.agents):
        mine = network.blocks.rows(place)
        root = cholesky(_spread(network, place))
        one = _share(transition, gain[:, mine] @ root, rows)
        found[agent] = _sanitizer(network, place, one, root)
        ranks[place] = found[agent].sent
        kept, dropped = min(kept, one.kept), max(dropped, one.dropped)
    return ShareFilters(network, ranks, kept, dropped, _SMALLEST_PART, (), found)


def _share(transition: Array, gain: Array, rows: Array) -> Filter:
    """One agent's share as a filter of minimal order, sending only combinations that ever carry something."""
    one = minimal_filter(transition, gain, rows, tolerance=_SMALLEST_PART)
    parts = [one.from_reading + one.from_memory @ one.gain]
    if one.order:
        parts.append(one.from_memory @ one.transition @ stationary_root(one.transition, one.gain))
    left, singular, _ = np.linalg.svd(np.concatenate(parts, axis=1), full_matrices=False)
    carrying = left[:, singular > _SMALLEST_PART].T
    return Filter(
        one.transition,
        one.gain,
        carrying @ one.from_memory,
        carrying @ one.from_reading,
        one.kept,
        one.dropped,
    )


def _sanitizer(network: Network, place: int, one: Filter, root: Array) -> Sanitizer:
    """The sanitizer that sends the share of one agent, its filter counted in deviations of the readings."""
    agent = network.agents[place]
    offset = offset_of(network, place)
    count = len(root)
    if len(one.from_memory) >= count and tells_readings(
        one.transition, one.gain, one.from_memory, one.from_reading
    ):
        return Sanitizer.exact(np.eye(count), offset=offset, agent=agent)
    to_readings = solve_lower(root, np.eye(count))
    from_reading = one.from_reading @ to_readings
    if one.order == 0 or len(one.from_memory) == 0:
        return Sanitizer.exact(from_reading, offset=offset, agent=agent)
    return Sanitizer(
        compression=np.concatenate([one.from_memory, from_reading], axis=1),
        memory=Memory(transition=one.transition, gain=one.gain @ to_readings),
        offset=offset,
        agent=agent,
    )


def _spread(network: Network, place: int) -> Array:
    """The covariance of one agent's readings in a row, or of their noise where x wanders off."""
    mine = network.blocks.rows(place)
    noise = network.R.block(place)
    assert network.dynamics is not None
    stationary = network.dynamics.stationary
    if stationary is None:
        return np.asarray(noise)
    return np.asarray(noise + network.H[mine] @ stationary @ network.H[mine].T)
