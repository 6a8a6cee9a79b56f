"""What the agents of a stream send, as the centre has to know it: one linear system, and nothing of the readings.

    X_t = transition X_{t-1} + drive + N(0, noise),    z_t = expected + observe X_t + N(0, floor),

X the joint state of :mod:`veilnet.bounds.streams.state_space`: x counted from its mean, noises that carry over, and
the agents' memories, which the offsets ``drive``. The floor counts the rounding of every number to its grid: exact
numbers are exact only up to it, and a filter that believed them further would be led astray by their last digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.state_space import StateSpace, message_model
from veilnet.centre.sum_parts import SumParts, sum_parts
from veilnet.model.common import padded
from veilnet.model.fitted import HeldOut
from veilnet.model.network import Network

# Where nothing is known of the first x, its variances are taken for so many times those of a row's noise.
_UNKNOWN = 1e8


@dataclass(frozen=True)
class Pattern:
    """Who is silent in a row, whether its message was lost or its reading missed, and who said that it was missed."""

    silent: bytes
    missed: bytes

    @classmethod
    def of(cls, silent: Booleans, missed: Booleans) -> Pattern:
        """The pattern of two vectors with an entry per agent."""
        return cls(silent.tobytes(), missed.tobytes())

    def without(self, place: int) -> Pattern:
        """The pattern in which one more agent is silent, and what it sent counts as lost."""
        silent = bytearray(self.silent)
        silent[place] = True
        return Pattern(bytes(silent), self.missed)

    @cached_property
    def silent_agents(self) -> Integers:
        """Their places."""
        return np.flatnonzero(np.frombuffer(self.silent, dtype=bool))


@dataclass(frozen=True, eq=False)
class FilterRow:
    """What a pattern makes of a row: how the state moves, and which numbers of it arrive.

    anew: where memories that begin anew are in the state, and the covariance that each is drawn from; None where the
          row moves the state in yet another way than that of a row in which everybody read.
    """

    pattern: Any
    transition: Array
    noise: Array
    drive: Array
    arrived: Integers
    observe: Array
    floor: Array
    expected: Array
    anew: tuple[tuple[slice, Array], ...] | None = ()


@dataclass(frozen=True, eq=False)
class StreamModel(StateSpace):
    """The messages of all agents, stacked in sending order, and how they follow one another.

    Its ``floor`` counts the rounding of numbers to their grids, and its ``start`` is never None: ``vague`` says where
    it stands for nothing that is known of x.

    public: (rows, n); ``public_expected`` its value at the mean.
    labels: one per public row, with ``units``, empty where none was given.
    step:   seconds of a row, None where nobody said.
    sums:   of agents that are groups, who adds up with whom (:mod:`veilnet.centre.sum_parts`).
    held_out: label -> what rows held out of the fit add to stated errors.
    """

    start: Array
    vague: bool
    public: Array
    public_expected: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    plan: str = ""
    step: float | None = None
    sums: Mapping[str, SumParts] = field(default_factory=dict)
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)

    def row(self, pattern: Pattern) -> FilterRow:
        """How the state moves into a row that comes in this pattern, and which numbers of it arrive.

        Of an agent that had no reading a memory that is drawn begins anew; another goes on without one.
        """
        transition, noise, drive = self.transition, self.noise, self.drive
        without = [agent for agent in self._without_reading(pattern) if agent in self.memories]
        if without:
            transition, noise, drive = transition.copy(), noise.copy(), drive.copy()
        for agent in without:
            own = self.memories[agent]
            transition[own], noise[own], noise[:, own], drive[own] = 0.0, 0.0, 0.0, 0.0
            if agent in self.starts:
                noise[own, own] = self.starts[agent]
            else:
                transition[own, own] = self.transition[own, own]
        drawn = tuple((self.memories[agent], self.starts[agent]) for agent in without if agent in self.starts)
        arrived = np.flatnonzero(np.repeat(~np.frombuffer(pattern.silent, dtype=bool), self.blocks.sizes))
        floor = self.floor[np.ix_(arrived, arrived)]
        return FilterRow(
            pattern, transition, noise, drive, arrived, self.observe[arrived], floor, self.expected[arrived],
            drawn if len(drawn) == len(without) else None,
        )  # fmt: skip

    @property
    def remembered(self) -> Integers:
        """Where agents' memories are in the state."""
        return np.concatenate(
            [np.arange(0), *(np.arange(own.start, own.stop) for own in self.memories.values())]
        )

    @property
    def everybody(self) -> Pattern:
        """The pattern of a row in which all agents sent."""
        nobody = bytes(len(self.agents))
        return Pattern(nobody, nobody)

    def first(self, pattern: Pattern) -> tuple[Array, Array]:
        """(mean, covariance) of the state in row 1, before its numbers."""
        kept, drawn = self.anew(self._without_reading(pattern))
        return kept @ self.start_mean, kept @ self.start @ kept + drawn

    def _without_reading(self, pattern: Pattern) -> list[str]:
        return [self.agents[place] for place in np.flatnonzero(np.frombuffer(pattern.missed, dtype=bool))]

    def words(self) -> tuple[object, ...]:
        """What another model of the same messages has to share to the letter."""
        return (
            self.agents, self.labels, self.units, self.vague, self.blocks.sizes.tolist(), dict(self.memories),
            list(self.starts), self.size, [(name, each.words()) for name, each in self.sums.items()],
        )  # fmt: skip

    def numbers(self) -> list[Array]:
        """Everything else in it."""
        sums = (rows for each in self.sums.values() for rows in each.numbers())
        return [*arrays_of(self), *self.starts.values(), *sums]


def arrays_of(model: Any) -> Iterator[Array]:
    """The arrays among the fields of a model, as rows: numbers of a vector count each by its own scale."""
    for each in fields(model):
        value = getattr(model, each.name)
        if isinstance(value, np.ndarray):
            yield value[:, None] if value.ndim == 1 else value


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
    sent = mechanisms(network, sanitizers)
    sums = sum_parts(network, sent)
    grids = np.diag(
        np.concatenate(
            [
                _rounding(mechanism, len(sums[agent].members) if agent in sums else 1)
                for agent, mechanism in sent.items()
            ]
        )
    )
    return StreamModel(
        **(vars(space) | {"floor": space.floor + grids}),
        vague=vague,
        public=padded(network.U, space.size),
        public_expected=network.U @ network.dynamics.mean,
        labels=network.public_rows,
        units=network.public_units,
        plan=plan,
        step=network.step,
        sums=sums,
        held_out=network.held_out,
    )


def _rounding(sanitizer: Sanitizer, members: int) -> Array:
    """Variance of the rounding of each number by so many: step²/12 each, twice that where it is dithered first."""
    if sanitizer.grid is None:
        return np.zeros(sanitizer.sent)
    dithered = np.diag(sanitizer.noise) < members * sanitizer.grid**2
    return np.asarray(members * sanitizer.grid**2 / np.where(dithered, 6.0, 12.0))


def vague_start(network: Network) -> Array:
    """Covariance of a first x that could be anything, as far as floating point allows, where nothing is known."""
    assert network.dynamics is not None
    level = float(np.sum(network.R.variances())) / max(float(np.sum(network.H**2)), np.finfo(float).tiny)
    scale = max(level, float(np.max(np.diag(network.dynamics.noise))))
    information = np.eye(network.L) / (_UNKNOWN * scale)
    if network.first is not None:
        information = information + network.first.information
    return np.asarray(np.linalg.inv(information))
