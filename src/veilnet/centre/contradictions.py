"""Chi-square tests of messages at a false-alarm rate, and what they say of one that fails.

A row is tested jointly, and every agent against all else that is known of its message: the prior, and the other
messages. The joint test has half of the false-alarm rate, the agents share the other half equally: a row that the
model made is doubted with at most that chance, whatever agents it has. Of a row that fails, the agent whose absence
explains most is doubted.

Messages and prior together say, in the coordinates of :mod:`veilnet.centre.messages`, F x = b + unit noise, with
F the prior's rows above the observed ones and b zeros above the whitened messages. What x cannot explain, the part
of b outside the range of F, is noise alone: with N an orthonormal basis of that complement, q = N'b is standard
normal, of as many degrees of freedom as there is redundancy. With a prior for all of x that is every number
sent, and |q|² is the squared Mahalanobis distance of the row; without a prior it is what agents see in common.

Leaving agent i out lowers |q|² by |a_i|², a_i standard normal too: how far its messages are from what the prior
and all others say they should be. An agent whose messages nothing else says anything about has no a_i and
cannot be tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from veilnet._core.chi_square import log_tail, threshold
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Integers

_FARTHEST = 1e140  # what is farther off cannot be squared
_MANY = 1e6  # deviations that are shown by their order
_CERTAIN = -700.0  # logarithms of chances below all count as this


@dataclass(frozen=True)
class Contradiction:
    """A message that the model does not explain.

    row:      place among the rows given, from 0.
    agent:    who sent it.
    distance: root mean square deviation from what the prior and the other messages say, in units of its own.
    chance:   that a message made by the model is as far off, in this test alone.
    joint:    whether only all messages of the row together were implausible, and this agent fits worst.
    past:     whether the rows before, of a stream, stand where else the prior does.
    sudden:   whether it was used all the same, as what a sudden change of a stream makes of it, which no other agent
              contradicts.
    """

    row: int
    agent: str
    distance: float
    chance: float
    joint: bool
    past: bool = False
    sudden: bool = False

    def __str__(self) -> str:
        chance = "less than 1e-300" if self.chance < 1e-300 else f"{self.chance:.1g}"
        far = f"{self.distance:.1f}" if self.distance < _MANY else f"{self.distance:.1e}"
        if self.joint and not self.sudden:
            rest = "the rows before" if self.past else "each other"
            return (
                f"the messages do not agree with {rest}, and {self.agent} fits worst ({far} "
                f"deviations from the rest, which happens with a chance of {chance})"
            )
        if self.sudden:
            return (
                f"{self.agent} is {far} deviations from what the rows before say (a chance of {chance}), as after a "
                "sudden change, which the others do not contradict"
            )
        known = "the rows before" if self.past else "the prior"
        return (
            f"{self.agent} is {far} deviations from what {known} and the others say, which happens "
            f"with a chance of {chance}"
        )


@dataclass(frozen=True)
class DoubtedMessage:
    """Whose message of a row is doubted, by its place in sending order; the rest as in :class:`Contradiction`."""

    place: int
    distance: float
    chance: float
    joint: bool
    sudden: bool = False


class Measured(Protocol):
    """How far messages are from what the model says: a :class:`Redundancy`, or residuals."""

    @property
    def numbers(self) -> int:
        """Degrees of freedom of all messages together."""

    @property
    def freedom(self) -> Integers:
        """And of every agent's, 0 for those that are silent or cannot be tested."""

    def distances(self, deviations: Array) -> Array:
        """|q|² of each row, for z - expected (rows, M); 0 stands for what is not sent."""

    def agent_distances(self, deviations: Array) -> Array:
        """|a_i|² of each row and agent, likewise."""


@dataclass(frozen=True, eq=False)
class Tests:
    """A redundancy with the limits of its tests."""

    found: Measured
    joint_limit: float
    limits: Array

    @classmethod
    def at(cls, rate: float, found: Measured) -> Tests:
        """The tests at a false-alarm rate."""
        return cls(found, *_limits(rate, found.freedom, found.numbers))

    def failing(self, deviations: Array) -> list[tuple[int, DoubtedMessage]]:
        """(place, whom to doubt) of the rows that fail a test.

        deviations: (rows, numbers) from what is expected; 0 stands for what is not sent.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            joint = self.found.distances(deviations)
        # no agent's distance exceeds the joint one
        far = np.flatnonzero(~(joint <= min(self.joint_limit, np.min(self.limits, initial=math.inf))))
        if not far.size:
            return []
        deviations = np.clip(deviations[far], -_FARTHEST, _FARTHEST)
        single = self.found.agent_distances(deviations)
        alone = np.any(single > self.limits, axis=1)
        together = self.found.distances(deviations) > self.joint_limit
        bad = alone | (together & bool(np.any(self.found.freedom)))  # or there is nobody to leave out
        return [
            (int(far[place]), self._worst(single[place], joint=not alone[place]))
            for place in np.flatnonzero(bad)
        ]

    def _worst(self, single: Array, *, joint: bool) -> DoubtedMessage:
        """The agent to leave out of a row."""
        freedom = self.found.freedom
        tails = [
            (log_tail(float(d), int(f)), -float(d) / int(f), place)
            for place, (d, f) in enumerate(zip(single, freedom, strict=True))
            if f
        ]
        tail, _, place = min(tails)
        return DoubtedMessage(
            place=place,
            distance=float(np.sqrt(single[place] / freedom[place])),
            chance=math.exp(max(tail, _CERTAIN)) if tail > _CERTAIN else 0.0,
            joint=joint,
        )


def least_limit(rate: float, freedom: Integers, numbers: int) -> float:
    """Of the squared distance of a row: below it nothing needs to be looked at.

    rate: of false alarms; freedom: of every agent; numbers: of the row.
    """
    joint, limits = _limits(rate, freedom, numbers)
    return float(min(joint, np.min(limits, initial=math.inf)))


def _limits(rate: float, freedom: Integers, numbers: int) -> tuple[float, Array]:
    """Of the joint test, and of that of each agent."""
    tested = max(1, int(np.sum(freedom > 0)))
    sizes, which = np.unique(freedom, return_inverse=True)
    return limit_of(rate / 2, numbers), np.array([limit_of(rate / 2 / tested, f) for f in sizes.tolist()])[
        which
    ]


@lru_cache(maxsize=4096)
def limit_of(chance: float, freedom: int) -> float:
    """What a squared distance exceeds with this chance; the same for sets of agents of one size, and a search."""
    return threshold(chance, freedom)


def read_rate(rate: object) -> float:
    """A false-alarm rate; InvalidRequest where it is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate < 1.0:
        raise InvalidRequest(f"gate: expected a false-alarm rate per row such as 1e-6, found {rate!r}")
    return float(rate)


SEEN = 1e-12  # of the sharpest direction: less than this of x is not seen at all
LEAST_STRENGTH = 1e-6  # of an agent's noise in what others say about it; without any, rounding leaves 1e-16


@dataclass(frozen=True, eq=False)
class Redundancy:
    """Tests of the messages z of one set of agents.

    joint:   (f, M), q = joint (z - expected).
    agents:  (sum of f_i, M), all a_i one after another; ``owner`` says whose each row is.
    freedom: f_i of every agent, 0 for those that are silent or cannot be tested.
    """

    joint: Array
    agents: Array
    owner: np.ndarray[tuple[int], np.dtype[np.intp]]
    freedom: np.ndarray[tuple[int], np.dtype[np.intp]]

    @property
    def numbers(self) -> int:
        """Degrees of freedom of the joint test."""
        return len(self.joint)

    def distances(self, deviations: Array) -> Array:
        """|q|² of each row, for z - expected (rows, M); 0 stands for what is not sent."""
        joint = deviations @ self.joint.T
        return np.asarray(np.einsum("ij,ij->i", joint, joint))

    def agent_distances(self, deviations: Array) -> Array:
        """|a_i|² of each row and agent, likewise."""
        single = self.agents @ deviations.T
        single *= single
        sums = np.zeros((len(self.freedom), len(deviations)))
        for place, squares in zip(self.owner, single, strict=True):
            sums[place] += squares
        return sums.T
