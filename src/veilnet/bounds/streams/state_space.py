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
from functools import cached_property

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet.agent.mechanisms import check_sanitizers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network
from veilnet.model.stream_size import refuse_too_large

__all__ = ["StateSpace", "message_model"]


@dataclass(frozen=True, eq=False)
class StateSpace:
    """X_t = transition X_{t-1} + N(0, noise), z_t = observe X_t + N(0, floor).

    transition: (n, n).
    noise:      (n, n), often singular.
    observe:    (m, n), one row per number sent.
    floor:      (m, m), singular or zero where numbers are sent without noise of their own.
    x:          where x is in the state.
    start:      covariance of the state at the first row, memories having begun anew before it; None where nothing
                is known of the first x; ``start_mean`` its mean.
    drift:      (n,) and ``shift`` (m,): X_t moves by drift and z_t by shift besides, where an agent subtracts another
                offset than its readings have at the mean of x. Both are zero for plans that veilnet designs.
    agents:     names in sending order, and ``blocks`` how the m numbers fall to them.
    memories:   agent -> where its memory is in the state, for those that have one; ``starts`` the covariance of that
                memory where it begins anew, zero for one that begins empty.
    """

    transition: Array
    noise: Array
    observe: Array
    floor: Array
    x: slice
    start: Array | None
    start_mean: Array
    drift: Array
    shift: Array
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
                drawn[mine, mine] = self.starts[agent]
        return kept, drawn


@dataclass(frozen=True, eq=False)
class _Agent:
    """One agent's part of the state: memory s = F s + K y, message C (s, y)."""

    name: str
    readings: slice
    transition: Array
    gain: Array
    from_memory: Array
    from_reading: Array
    noise: Array
    offset: Array
    start: Array

    @property
    def order(self) -> int:
        return len(self.transition)

    @property
    def shows_readings(self) -> bool:
        return bool(np.any(self.from_reading))


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the state is built of."""

    network: Network
    agents: tuple[_Agent, ...]
    in_state: Array  # combinations (rows, N) of the readings' white noise that are in the state

    @property
    def base(self) -> int:
        """Numbers of the state before the memories."""
        coloured = 0 if self.network.colour is None else self.network.N
        return int(self.network.L) + coloured + len(self.in_state)

    @cached_property
    def expected(self) -> Array:
        """What agents see of their readings at the mean of x, after the offset that they subtract, (N,)."""
        network = self.network
        assert network.dynamics is not None
        at_mean = network.offset + network.H @ network.dynamics.mean
        return np.asarray(at_mean - np.concatenate([agent.offset for agent in self.agents]))

    def entered(self, readings: Array) -> Array:
        """What a row of readings (N,) adds to the state, by the memories."""
        places = self.memories()
        added = np.zeros(self.base + sum(agent.order for agent in self.agents))
        for agent in self.agents:
            if agent.order:
                added[places[agent.name]] = agent.gain @ readings[agent.readings]
        return added

    def memories(self) -> dict[str, slice]:
        places, end = {}, self.base
        for agent in self.agents:
            if agent.order:
                start, end = end, end + agent.order
                places[agent.name] = slice(start, end)
        return places

    def step(self) -> tuple[Array, Array]:
        """(transition, noise) of one row."""
        network, places = self.network, self.memories()
        transition, enter = self._base_step()
        reads = self._readings(transition, enter)
        for agent in self.agents:
            if not agent.order:
                continue
            mine = places[agent.name]
            transition[mine, mine] = agent.transition
            transition[mine] += agent.gain @ reads[0][agent.readings]
            enter[mine] += agent.gain @ reads[1][agent.readings]
        noise = enter @ _sources(network) @ enter.T
        return transition, (noise + noise.T) / 2

    def _base_step(self) -> tuple[Array, Array]:
        """Transition of (x, n, v), and how the sources (w, e, v) of a row enter it; memories are left empty."""
        network = self.network
        size = self.base + sum(agent.order for agent in self.agents)
        L, N = network.L, network.N
        assert network.dynamics is not None
        transition = np.zeros((size, size))
        enter = np.zeros((size, L + 2 * N))
        transition[:L, :L] = network.dynamics.transition
        enter[:L, :L] = np.eye(L)
        end = L
        if network.colour is not None:
            end = L + N
            transition[L:end, L:end] = network.colour.memory
            enter[L:end, L : L + N] = np.eye(N)
        enter[end : end + len(self.in_state), L + N :] = self.in_state
        return transition, enter

    def _readings(self, transition: Array, enter: Array) -> tuple[Array, Array]:
        """The readings of a row by the state before it and by the sources of the row."""
        network = self.network
        L, N = network.L, network.N
        before = network.H @ transition[:L]
        sources = network.H @ enter[:L]
        if network.colour is not None:
            before = before + transition[L : L + N]
            sources = sources + enter[L : L + N]
        sources[np.arange(N), L + N + np.arange(N)] += 1.0
        return before, sources

    def messages(self) -> tuple[Array, Array]:
        """(observe, floor) of everything that is sent."""
        network, places = self.network, self.memories()
        L, N, base = network.L, network.N, self.base
        size = base + sum(agent.order for agent in self.agents)
        reading = np.zeros((N, size))
        reading[:, :L] = network.H
        if network.colour is not None:
            reading[:, L : L + N] = np.eye(N)
        reading[:, base - len(self.in_state) : base] = self.in_state.T
        covered = np.any(self.in_state, axis=0)
        beside = white_floor(network).copy()
        beside[covered] = 0.0
        beside[:, covered] = 0.0
        rows, floors = [np.zeros((0, size))], [np.zeros((0, N))]
        for agent in self.agents:
            row = agent.from_reading @ reading[agent.readings]
            if agent.order:
                row[:, places[agent.name]] += agent.from_memory
            rows.append(row)
            shown = np.zeros((len(row), N))
            shown[:, agent.readings] = agent.from_reading
            floors.append(shown)
        shown = np.concatenate(floors)
        floor = shown @ beside @ shown.T
        end = 0
        for agent in self.agents:
            start, end = end, end + len(agent.noise)
            floor[start:end, start:end] += agent.noise
        return np.concatenate(rows), (floor + floor.T) / 2


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
    agents = tuple(_agent(network, place, name, given.get(name)) for place, name in enumerate(network.agents))
    parts = _Parts(network, agents, _white_in_state(network, agents))
    kept = parts.base + sum(agent.order for agent in agents)
    refuse_too_large(network, kept, "x and all that agents keep")
    transition, noise = parts.step()
    observe, floor = parts.messages()
    expected = parts.expected
    return StateSpace(
        transition=transition,
        noise=noise,
        observe=observe,
        floor=floor,
        x=slice(0, network.L),
        start=_start(parts, first),
        start_mean=_start_mean(parts),
        drift=parts.entered(expected),
        shift=np.concatenate(
            [np.zeros(0), *(agent.from_reading @ expected[agent.readings] for agent in agents)]
        ),
        agents=tuple(network.agents),
        blocks=Blocks([len(agent.noise) for agent in agents]),
        memories=parts.memories(),
        starts={agent.name: agent.start for agent in agents if agent.order},
    )


def white_floor(network: Network) -> Array:
    """The white part of the readings' noise, dither included, N x N."""
    if network.colour is None:
        return network.R.matrix()
    return network.colour.floor + (network.R.matrix() - network.sensor_noise.matrix())


def _agent(network: Network, place: int, name: str, sanitizer: Sanitizer | None) -> _Agent:
    rows = network.blocks.rows(place)
    count = rows.stop - rows.start
    if sanitizer is None:
        sanitizer = Sanitizer.raw(count)
    memory = getattr(sanitizer, "memory", None)
    order = 0 if memory is None else len(memory.transition)
    return _Agent(
        name=name,
        readings=rows,
        transition=np.zeros((0, 0)) if memory is None else memory.transition,
        gain=np.zeros((0, count)) if memory is None else memory.gain,
        from_memory=sanitizer.compression[:, :order],
        from_reading=sanitizer.compression[:, order:],
        noise=sanitizer.noise,
        offset=sanitizer.offset,
        start=np.zeros((order, order)) if memory is None or memory.start is None else memory.start,
    )


def _white_in_state(network: Network, agents: tuple[_Agent, ...]) -> Array:
    """Which combinations of the white noise belong into the state: a memory sees them and, beside it, a message.

    Only the combinations that a message shows count: an orthonormal basis of each such agent's rows.
    """
    white = white_floor(network)
    found = [np.zeros((0, network.N))]
    if any(agent.order for agent in agents) and np.any(white):
        joint = bool(np.any(white[network.blocks.same_agent() == 0]))
        for agent in agents:
            if agent.shows_readings and (joint or agent.order) and np.any(white[agent.readings]):
                _, singular, rows = np.linalg.svd(agent.from_reading, full_matrices=False)
                rows = rows[singular > 1e3 * EPS * singular[0]]
                wide = np.zeros((len(rows), network.N))
                wide[:, agent.readings] = rows
                found.append(wide)
    return np.concatenate(found)


def _sources(network: Network) -> Array:
    """Covariance of what is new in a row: (w, e, v)."""
    L, N = network.L, network.N
    assert network.dynamics is not None
    sources = np.zeros((L + 2 * N, L + 2 * N))
    sources[:L, :L] = network.dynamics.noise
    if network.colour is not None:
        sources[L : L + N, L : L + N] = network.colour.innovation
    sources[L + N :, L + N :] = white_floor(network)
    return sources


def _start(parts: _Parts, first: Array | None) -> Array | None:
    """Covariance of the state at the first row: x and n as before any row, memories after taking in the first one."""
    network = parts.network
    if first is None and network.first is not None:
        first = network.first.covariance
    if first is None:
        return None
    L, N = network.L, network.N
    transition, enter = parts._base_step()
    transition[:L, :L] = 0.0
    sources = _sources(network)
    sources[:L, :L] = first
    if network.colour is not None:
        transition[L : L + N, L : L + N] = 0.0
        sources[L : L + N, L : L + N] = network.colour.carried
    reads = parts._readings(transition, enter)[1]
    places = parts.memories()
    for agent in parts.agents:
        if agent.order:
            enter[places[agent.name]] = agent.gain @ reads[agent.readings]
    start = enter @ sources @ enter.T
    for agent in parts.agents:
        if agent.order:
            mine = places[agent.name]
            start[mine, mine] += agent.transition @ agent.start @ agent.transition.T
    return np.asarray((start + start.T) / 2)


def _start_mean(parts: _Parts) -> Array:
    network = parts.network
    assert network.dynamics is not None
    mean = np.zeros(network.L) if network.first is None else network.first.mean - network.dynamics.mean
    start = parts.entered(parts.expected + network.H @ mean)
    start[: network.L] = mean
    return start
