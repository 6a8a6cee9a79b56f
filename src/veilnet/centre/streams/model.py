"""What the agents of a stream send, as the centre has to know it: one linear system, and nothing of the readings.

    X_t = transition X_{t-1} + drive + N(0, noise),    z_t = expected + observe X_t + N(0, floor),

X the joint state of :mod:`veilnet.bounds.streams.state_space`: x counted from its mean, noises that carry over, and
the agents' memories, which the offsets ``drive``. The floor counts the rounding of every number to its grid: exact
numbers are exact only up to it, and a filter that believed them further would be led astray by their last digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array, Integers
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.state_space import message_model
from veilnet.model.network import Network

__all__ = ["StreamModel", "stream_model", "vague_start"]

# Where nothing is known of the first x, its variances are taken for so many times those of a row's noise.
_UNKNOWN = 1e8


@dataclass(frozen=True, eq=False)
class StreamModel:
    """The messages of all agents, stacked in sending order, and how they follow one another.

    agents:     names in sending order, ``blocks`` how the M stacked numbers fall to them.
    transition: (n, n), ``noise`` (n, n) and ``drive`` (n,) of the state.
    observe:    (M, n), ``floor`` (M, M) and ``expected`` (M,) of the messages.
    start:      covariance of the state at row 1, ``start_mean`` its mean; ``vague`` where nothing is known of x.
    memories:   agent -> (first, last + 1) of its memory in the state; ``starts`` the covariance that it is drawn from
                at row 1 and after a missed row, of agents who draw it.
    public:     (rows, n); ``public_expected`` its value at the mean.
    labels:     one per public row, with ``units``, empty where none was given.
    step:       seconds of a row, None where nobody said.
    """

    agents: tuple[str, ...]
    blocks: Blocks
    transition: Array
    noise: Array
    drive: Array
    observe: Array
    floor: Array
    expected: Array
    start: Array
    start_mean: Array
    vague: bool
    memories: Mapping[str, tuple[int, int]]
    starts: Mapping[str, Array]
    public: Array
    public_expected: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    plan: str = ""
    step: float | None = None

    @property
    def size(self) -> int:
        """How many numbers the state has."""
        return len(self.transition)

    def missed(self, places: Integers) -> tuple[Array, Array, Array]:
        """(transition, noise, drive) of a row in which some agents, by their places, had no reading.

        A memory that is drawn begins anew; another goes on without a reading.
        """
        transition, noise, drive = self.transition.copy(), self.noise.copy(), self.drive.copy()
        for place in places:
            own = self.memory_of(np.array([place]))
            block, start = np.ix_(own, own), self.starts.get(self.agents[int(place)])
            transition[own], noise[own], noise[:, own], drive[own] = 0.0, 0.0, 0.0, 0.0
            if start is None:
                transition[block] = self.transition[block]
            else:
                noise[block] = start
        return transition, noise, drive

    def memory_of(self, places: Integers) -> Integers:
        """Where in the state the memories of some agents are, given by their places in sending order."""
        spans = [self.memories.get(self.agents[int(place)], (0, 0)) for place in places]
        return np.concatenate([np.arange(0), *(np.arange(*span) for span in spans)]).astype(np.intp)

    def words(self) -> tuple[object, ...]:
        """What another model of the same messages has to share to the letter."""
        return (
            self.agents, self.labels, self.units, self.vague, self.blocks.sizes.tolist(), dict(self.memories),
            list(self.starts), self.size,
        )  # fmt: skip

    def numbers(self) -> list[Array]:
        """Everything else in it."""
        return [
            self.transition, self.noise, self.drive[:, None], self.observe, self.floor, self.expected[:, None],
            self.start, self.start_mean[:, None], self.public, self.public_expected[:, None],
            *self.starts.values(),
        ]  # fmt: skip


def stream_model(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> StreamModel:
    """The messages of these sanitizers on a stream; agents without one send their readings raw.

    network:    the model, with dynamics.
    sanitizers: agent -> Sanitizer, with or without memory.
    plan:       the id of the plan they belong to.
    """
    network = counting_dither(network, sanitizers)
    assert network.dynamics is not None
    vague = network.first is None or network.first.covariance is None
    space = message_model(network, sanitizers, vague_start(network) if vague else None)
    assert space.start is not None
    sent = mechanisms(network, sanitizers)
    public = np.zeros((len(network.U), space.size))
    public[:, space.x] = network.U
    return StreamModel(
        agents=space.agents,
        blocks=space.blocks,
        transition=space.transition,
        noise=space.noise,
        drive=space.drift,
        observe=space.observe,
        floor=space.floor + np.diag(np.concatenate([_rounding(mechanism) for mechanism in sent.values()])),
        expected=space.shift,
        start=space.start,
        start_mean=space.start_mean,
        vague=vague,
        memories={agent: (mine.start, mine.stop) for agent, mine in space.memories.items()},
        starts={
            agent: each.memory.start
            for agent, each in sent.items()
            if each.memory is not None and each.memory.start is not None
        },
        public=public,
        public_expected=network.U @ network.dynamics.mean,
        labels=network.public_rows,
        units=tuple(network.unit(name) for name, rows in network.public.items() for _ in range(len(rows))),
        plan=plan,
        step=network.step,
    )


def _rounding(sanitizer: Sanitizer) -> Array:
    """Variance of the rounding of each number: step²/12, twice that where it is dithered first."""
    if sanitizer.grid is None:
        return np.zeros(sanitizer.sent)
    dithered = np.diag(sanitizer.noise) < sanitizer.grid**2
    return np.asarray(sanitizer.grid**2 / np.where(dithered, 6.0, 12.0))


def vague_start(network: Network) -> Array:
    """Covariance of a first x that could be anything, as far as floating point allows, where nothing is known."""
    assert network.dynamics is not None
    level = float(np.sum(network.R.variances())) / max(float(np.sum(network.H**2)), np.finfo(float).tiny)
    scale = max(level, float(np.max(np.diag(network.dynamics.noise))))
    information = np.eye(network.L) / (_UNKNOWN * scale)
    if network.first is not None:
        information = information + network.first.information
    return np.asarray(np.linalg.inv(information))
