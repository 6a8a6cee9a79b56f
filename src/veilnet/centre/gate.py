"""Messages that contradict the model, found before they spoil an estimate.

Every row is tested jointly, and every agent against the prior and what the others sent (chi-square tests,
:mod:`veilnet.centre.redundancy`). The joint test has half of the false-alarm rate, the agents share the other half
equally: a row that the model made is doubted with at most that chance, whatever agents it has. Where a test says
no, the agent whose absence explains most is left out, and the rest is tested again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from veilnet._core.chi_square import log_tail, threshold
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.grouping import by_who_sent
from veilnet.centre.messages import CentreModel
from veilnet.centre.redundancy import Redundancy, redundancy

__all__ = ["Contradiction", "Gate", "silent_agents"]

_ROWS_AT_ONCE = 8192
_SETS_KEPT = 256
_FARTHEST = 1e140  # what is farther off cannot be squared
_CERTAIN = -700.0  # logarithms of chances below are all told as this


@dataclass(frozen=True)
class Contradiction:
    """A message that the model does not explain.

    row:      place among the rows given, from 0.
    agent:    who sent it.
    distance: root mean square deviation from what the prior and the other messages say, in units of its own.
    chance:   that a message made by the model is as far off, in this test alone.
    joint:    whether only all messages of the row together were implausible, and this agent fits worst.
    """

    row: int
    agent: str
    distance: float
    chance: float
    joint: bool

    def __str__(self) -> str:
        chance = "less than 1e-300" if self.chance < 1e-300 else f"{self.chance:.1g}"
        if self.joint:
            return (
                f"the messages do not agree with each other, and {self.agent} fits worst ({self.distance:.1f} "
                f"deviations from the rest, which happens with a chance of {chance})"
            )
        return (
            f"{self.agent} is {self.distance:.1f} deviations from what the prior and the others say, which happens "
            f"with a chance of {chance}"
        )


@dataclass(frozen=True, eq=False)
class _Tests:
    """A redundancy with the limits of its tests."""

    found: Redundancy
    joint_limit: float
    limits: Array

    @property
    def least(self) -> float:
        """No agent's distance exceeds the joint one, so below this nothing needs to be looked at."""
        return float(min(self.joint_limit, np.min(self.limits, initial=math.inf)))


class Gate:
    """Tests rows of messages at a false-alarm rate.

    model: of the messages.
    rate:  chance that anything in a row made by the model is doubted.
    """

    def __init__(self, model: CentreModel, rate: float) -> None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate < 1.0:
            raise InvalidRequest(f"gate: expected a false-alarm rate per row such as 1e-6, found {rate!r}")
        self.model = model
        self.rate = float(rate)
        self._tests_of: dict[bytes, _Tests] = {}

    @property
    def untested(self) -> tuple[str, ...]:
        """Agents that cannot be tested even when all others send: nothing else tells what they do."""
        freedom = self._tests(np.zeros(len(self.model.agents), bool)).found.freedom
        sending = self.model.blocks.sizes > 0
        return tuple(
            a for a, f, sends in zip(self.model.agents, freedom, sending, strict=True) if sends and not f
        )

    def doubts(self, stacked: Array) -> list[Contradiction]:
        """What contradicts the model in rows (T, M); numbers that are not finite did not arrive."""
        doubts: list[Contradiction] = []
        for start in range(0, len(stacked), _ROWS_AT_ONCE):
            block = stacked[start : start + _ROWS_AT_ONCE]
            rows = np.arange(len(block))
            silent = silent_agents(self.model, block)
            while rows.size:
                rows, found = self._look(block, rows, silent, start)
                doubts += found
        return sorted(doubts, key=lambda doubt: doubt.row)

    def _look(
        self, block: Array, rows: Integers, silent: Booleans, start: int
    ) -> tuple[Integers, list[Contradiction]]:
        """Silence the worst agent of every row that fails a test; these rows, and who it was."""
        doubts: list[Contradiction] = []
        order, groups = by_who_sent(silent[:, rows])
        for pattern, members in groups:
            tests = self._tests(pattern)
            mine = rows[order[members]]
            arrived = block if len(mine) == len(block) and len(groups) == 1 else block[mine]
            deviations = arrived - self.model.expected
            if pattern.any():
                deviations[:, np.repeat(pattern, self.model.blocks.sizes)] = 0.0
            with np.errstate(over="ignore", invalid="ignore"):
                joint = tests.found.distances(deviations)
            far = np.flatnonzero(~(joint <= tests.least))
            deviations = np.clip(deviations[far], -_FARTHEST, _FARTHEST)
            single = tests.found.agent_distances(deviations)
            alone = np.any(single > tests.limits, axis=1)
            together = tests.found.distances(deviations) > tests.joint_limit
            bad = alone | (together & bool(np.any(tests.found.freedom)))  # or there is nobody to leave out
            for place in np.flatnonzero(bad):
                row = int(mine[far[place]])
                doubts.append(self._worst(tests, single[place], start + row, joint=not alone[place]))
                silent[self.model.agents.index(doubts[-1].agent), row] = True
        return np.array([doubt.row - start for doubt in doubts], dtype=np.intp), doubts

    def _worst(self, tests: _Tests, single: Array, row: int, *, joint: bool) -> Contradiction:
        """The agent to leave out of a row."""
        freedom = tests.found.freedom
        tails = [
            (log_tail(float(d), int(f)), -float(d) / int(f), place)
            for place, (d, f) in enumerate(zip(single, freedom, strict=True))
            if f
        ]
        tail, _, place = min(tails)
        return Contradiction(
            row=row,
            agent=self.model.agents[place],
            distance=float(np.sqrt(single[place] / freedom[place])),
            chance=math.exp(max(tail, _CERTAIN)) if tail > _CERTAIN else 0.0,
            joint=joint,
        )

    def _tests(self, silent: Booleans) -> _Tests:
        key = np.packbits(silent).tobytes()
        made = self._tests_of.get(key)
        if made is None:
            while len(self._tests_of) >= _SETS_KEPT:
                self._tests_of.pop(next(iter(self._tests_of)), None)
            found = redundancy(self.model, silent)
            tested = max(1, int(np.sum(found.freedom > 0)))
            limits = np.array([threshold(self.rate / 2 / tested, int(f)) for f in found.freedom])
            made = _Tests(found, threshold(self.rate / 2, len(found.joint)), limits)
            self._tests_of[key] = made
        return made


def silent_agents(model: CentreModel, stacked: Array) -> Booleans:
    """(agents, rows): who did not send all its numbers."""
    sizes = model.blocks.sizes
    silent = np.zeros((len(sizes), len(stacked)), bool)
    if np.isfinite(np.vdot(stacked, stacked)):
        return silent
    for owner, column in zip(np.repeat(np.arange(len(sizes)), sizes), stacked.T, strict=True):
        silent[owner] |= ~np.isfinite(column)
    return silent
