"""The messages of a stream as one linear system, memories of the agents included.

The state is X_t = (x_t, n_t, v_t, s_t): x counted from the mean of the dynamics, the coloured noise n (where there
is some), the white noise v of agents whose message shows a reading beside a memory that has seen it too (as far as
it is shown), and the memories s *after* the row was taken in. With y_t = H x_t + n_t + v_t (dither included in v,
offset left out):

    s_i,t = F_i s_i,t-1 + K_i y_i,t,        z_i,t = C_i (s_i,t, y_i,t) + ξ_i,t,   ξ_i ~ N(0, Θ_i),

so that X_t = transition X_{t-1} + noise and z_t = observe X_t + floor, both noises white and independent of each
other. The messages are those that are sent (C_i as it is, not its normal form), so that a centre can filter them as
they come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet.agent.mechanisms import check_sanitizers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.steady import MessageSystem
from veilnet.model.network import Network
from veilnet.model.stream_size import refuse_too_large


@dataclass(frozen=True, eq=False)
class StateSpace(MessageSystem):
    """X_t = transition X_{t-1} + N(0, noise), z_t = observe X_t + N(0, floor).

    transition: (n, n).
    noise:      (n, n), often singular.
    observe:    (m, n), one row per number sent.
    floor:      (m, m), singular or zero where numbers are sent without noise of their own.
    start:      covariance of the state at the first row, memories having begun anew before it; None where nothing
                is known of the first x; ``start_mean`` its mean.
    drive:      (n,) and ``expected`` (m,): X_t moves by drive and z_t by expected besides, where an agent subtracts
                another offset than its readings have at the mean of x. Both are zero for plans that veilnet designs.
    agents:     names in sending order, and ``blocks`` how the m numbers fall to them.
    memories:   agent -> where its memory is in the state, for those that have one; ``starts`` the covariance that it
                is drawn from where it begins anew, of agents who draw it: others begin empty.
    """

    start: Array | None
    start_mean: Array
    drive: Array
    expected: Array
    agents: tuple[str, ...]
    blocks: Blocks
    memories: Mapping[str, slice]
    starts: Mapping[str, Array]

    @property
    def size(self) -> int:
        """How many numbers the state has."""
        return len(self.transition)

    def anew(self, agents: Collection[str]) -> tuple[Array, Array]:
        """(kept, drawn): the state X becomes kept X + N(0, drawn) where these agents' memories begin anew.

        agents: names; those without a memory change nothing, and those whose memory begins at zero forget it.
        """
        refuse_unknown(agents, self.agents, "agents", error=InvalidRequest)
        kept, drawn = np.eye(self.size), np.zeros((self.size, self.size))
        for agent in agents:
            if agent in self.memories:
                mine = self.memories[agent]
                kept[mine] = 0.0
                drawn[mine, mine] = self.starts.get(agent, 0.0)
        return kept, drawn


@dataclass(frozen=True, eq=False)
class _Agents:
    """All agents at once, in sending order: s = transition s + gain y, z = from_memory s + from_reading y + ξ.

    noise:  covariance of ξ.
    start:  covariance of the memories where they begin anew.
    offset: what agents subtract from their readings, (N,).
    orders: how the numbers that are kept fall to the agents, and ``sent`` how those do that are sent.
    """

    transition: Array
    gain: Array
    from_memory: Array
    from_reading: Array
    noise: Array
    start: Array
    offset: Array
    orders: Blocks
    sent: Blocks

    @classmethod
    def of(cls, network: Network, sanitizers: Mapping[str, Sanitizer]) -> _Agents:
        from scipy.linalg import block_diag  # takes longer to load than a centre's other work

        sizes = zip(network.agents, network.blocks.sizes.tolist(), strict=True)
        every = [sanitizers[name] if name in sanitizers else Sanitizer.raw(size) for name, size in sizes]
        transitions, gains, starts = zip(*map(_memory, every), strict=True)
        return cls(
            transition=block_diag(*transitions),
            gain=block_diag(*gains),
            from_memory=block_diag(*(each.compression[:, : each.order] for each in every)),
            from_reading=block_diag(*(each.compression[:, each.order :] for each in every)),
            noise=block_diag(*(each.noise for each in every)),
            start=block_diag(*starts),
            offset=np.concatenate([each.offset for each in every]),
            orders=Blocks([each.order for each in every]),
            sent=Blocks([each.sent for each in every]),
        )


def _memory(sanitizer: Sanitizer) -> tuple[Array, Array, Array]:
    """(transition, gain, start), empty without a memory; one that begins at zero has no spread there."""
    memory, order = sanitizer.memory, sanitizer.order
    empty = np.zeros((order, order))
    if memory is None:
        return empty, np.zeros((0, sanitizer.readings)), empty
    return memory.transition, memory.gain, empty if memory.start is None else memory.start


def message_model(
    network: Network, sanitizers: Mapping[str, Sanitizer] | None = None, first: Array | None = None
) -> StateSpace:
    """The messages of a stream network; agents without a sanitizer send their readings raw.

    network:    the model, with dynamics.
    sanitizers: agent -> Sanitizer, with or without memory.
    first:      covariance of the first x; the network's when left out.
    """
    if network.dynamics is None:
        raise InvalidRequest("network: expected a stream, found a network without dynamics; give dynamics=")
    given = {} if sanitizers is None else sanitizers
    check_sanitizers(network, given)
    refuse_too_large(network, network.N, "all readings")
    agents = _Agents.of(network, given)
    white = white_floor(network)
    shown = _shown_noise(network, agents, white)
    L, N = network.L, network.N
    coloured = L if network.colour is None else L + N
    base = coloured + len(shown)
    refuse_too_large(network, base + agents.orders.total, "x and all that agents keep")
    # (x, n, v): how it moves, how the sources (w, e, v) of a row enter it, and what readings see of x and n.
    moves, enter, seen = np.zeros((base, base)), np.zeros((base, L + 2 * N)), np.zeros((N, base))
    moves[:L, :L], enter[:L, :L], seen[:, :L] = network.dynamics.transition, np.eye(L), network.H
    if network.colour is not None:
        moves[L:coloured, L:coloured] = network.colour.memory
        enter[L:coloured, L : L + N] = seen[:, L:coloured] = np.eye(N)
    enter[coloured:, L + N :] = shown
    reading = seen @ enter
    reading[:, L + N :] += np.eye(N)
    transition = np.block(
        [[moves, np.zeros((base, agents.orders.total))], [agents.gain @ (seen @ moves), agents.transition]]
    )
    enter = np.concatenate([enter, agents.gain @ reading])
    seen[:, coloured:] = shown.T
    covered = np.any(shown, axis=0)
    beside = np.where(covered | covered[:, None], 0.0, white)
    floor = agents.from_reading @ beside @ agents.from_reading.T + agents.noise
    mean = np.zeros(L) if network.first is None else network.first.mean - network.dynamics.mean
    expected = network.offset + network.H @ network.dynamics.mean - agents.offset
    kept = np.zeros(base)
    spans = ((name, agents.orders.rows(place)) for place, name in enumerate(network.agents))
    memories = {
        name: slice(base + span.start, base + span.stop) for name, span in spans if span.stop > span.start
    }
    if first is None and network.first is not None:
        first = network.first.covariance
    start = None
    if first is not None:
        carried = None if network.colour is None else network.colour.carried
        start = enter @ _sources(white, first, carried) @ enter.T
        start[base:, base:] += agents.transition @ agents.start @ agents.transition.T
        start = (start + start.T) / 2
    news = None if network.colour is None else network.colour.innovation
    noise = enter @ _sources(white, network.dynamics.noise, news) @ enter.T
    return StateSpace(
        transition=transition,
        noise=(noise + noise.T) / 2,
        observe=np.concatenate([agents.from_reading @ seen, agents.from_memory], axis=1),
        floor=(floor + floor.T) / 2,
        start=start,
        start_mean=np.concatenate([mean, kept[L:], agents.gain @ (expected + network.H @ mean)]),
        drive=np.concatenate([kept, agents.gain @ expected]),
        expected=agents.from_reading @ expected,
        agents=tuple(network.agents),
        blocks=agents.sent,
        memories=memories,
        starts={
            name: each.memory.start
            for name, each in given.items()
            if each.memory is not None and each.memory.start is not None
        },
    )


def white_floor(network: Network) -> Array:
    """The white part of the readings' noise, dither included, N x N."""
    if network.colour is None:
        return network.R.matrix()
    return network.colour.floor + (network.R.matrix() - network.sensor_noise.matrix())


def _shown_noise(network: Network, agents: _Agents, white: Array) -> Array:
    """Which combinations (rows, N) of the white noise belong into the state: a memory sees them and, beside it, a
    message.

    Only the combinations that a message shows count: an orthonormal basis of each such agent's rows.
    """
    found = [np.zeros((0, network.N))]
    if agents.orders.total and np.any(white):
        joint = bool(np.any(white[network.blocks.same_agent() == 0]))
        for place in range(network.S):
            mine, own = network.blocks.rows(place), agents.from_reading[agents.sent.rows(place)]
            if np.any(own) and (joint or agents.orders.sizes[place]) and np.any(white[mine]):
                _, singular, rows = np.linalg.svd(own[:, mine], full_matrices=False)
                rows = rows[singular > 1e3 * EPS * singular[0]]
                wide = np.zeros((len(rows), network.N))
                wide[:, mine] = rows
                found.append(wide)
    return np.concatenate(found)


def _sources(white: Array, of_x: Array, of_noise: Array | None) -> Array:
    """Covariance of what is new in a row: (w, e, v)."""
    from scipy.linalg import block_diag  # takes longer to load than a centre's other work

    return np.asarray(block_diag(of_x, np.zeros(white.shape) if of_noise is None else of_noise, white))
