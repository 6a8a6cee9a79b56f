"""Chi-square tests of messages at a false-alarm rate, and what they say of one that fails.

A row is tested jointly, and every agent against all else that is known of its message
(:mod:`veilnet.centre.redundancy`). The joint test has half of the false-alarm rate, the agents share the other half
equally: a row that the model made is doubted with at most that chance, whatever agents it has. Of a row that fails,
the agent whose absence explains most is doubted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from veilnet._core.chi_square import log_tail, threshold
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.centre.redundancy import Redundancy

__all__ = ["Contradiction", "DoubtedMessage", "Tests", "read_rate"]

_FARTHEST = 1e140  # what is farther off cannot be squared
_MANY = 1e6  # deviations that are told by their order
_CERTAIN = -700.0  # logarithms of chances below are all told as this


@dataclass(frozen=True)
class Contradiction:
    """A message that the model does not explain.

    row:      place among the rows given, from 0.
    agent:    who sent it.
    distance: root mean square deviation from what the prior and the other messages say, in units of its own.
    chance:   that a message made by the model is as far off, in this test alone.
    joint:    whether only all messages of the row together were implausible, and this agent fits worst.
    past:     whether the rows before, of a stream, stand where else the prior does.
    """

    row: int
    agent: str
    distance: float
    chance: float
    joint: bool
    past: bool = False

    def __str__(self) -> str:
        chance = "less than 1e-300" if self.chance < 1e-300 else f"{self.chance:.1g}"
        far = f"{self.distance:.1f}" if self.distance < _MANY else f"{self.distance:.1e}"
        if self.joint:
            rest = "the rows before" if self.past else "each other"
            return (
                f"the messages do not agree with {rest}, and {self.agent} fits worst ({far} "
                f"deviations from the rest, which happens with a chance of {chance})"
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


@dataclass(frozen=True, eq=False)
class Tests:
    """A redundancy with the limits of its tests."""

    found: Redundancy
    joint_limit: float
    limits: Array

    @classmethod
    def at(cls, rate: float, found: Redundancy) -> Tests:
        """The tests at a false-alarm rate."""
        tested = max(1, int(np.sum(found.freedom > 0)))
        limits = np.array([_limit(rate / 2 / tested, f) for f in found.freedom.tolist()])
        return cls(found, _limit(rate / 2, len(found.joint)), limits)

    @property
    def least(self) -> float:
        """No agent's distance exceeds the joint one, so below this nothing needs to be looked at."""
        return float(min(self.joint_limit, np.min(self.limits, initial=math.inf)))

    def failing(self, deviations: Array) -> list[tuple[int, DoubtedMessage]]:
        """(place, whom to doubt) of the rows that fail a test.

        deviations: (rows, numbers) from what is expected; 0 stands for what is not sent.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            joint = self.found.distances(deviations)
        far = np.flatnonzero(~(joint <= self.least))
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


@lru_cache(maxsize=4096)
def _limit(chance: float, freedom: int) -> float:
    """The same for every set of agents of the same size, and a search."""
    return threshold(chance, freedom)


def read_rate(rate: object) -> float:
    """A false-alarm rate; InvalidRequest where it is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate < 1.0:
        raise InvalidRequest(f"gate: expected a false-alarm rate per row such as 1e-6, found {rate!r}")
    return float(rate)
