"""Messages that contradict the model, found before they spoil an estimate.

Every row is tested jointly, and every agent against the prior and what the others sent
(:mod:`veilnet.centre.contradictions`). Where a test says no, the agent whose absence explains most is left out, and
the rest is tested again. Rows of a stream: :mod:`veilnet.centre.streams.tracking`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.bounded import Bounded
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.contradictions import Contradiction, Tests, read_rate
from veilnet.centre.messages import CentreModel
from veilnet.centre.residuals import Residuals, residuals

_ROWS_AT_ONCE = 8192
SETS_BYTES = 32 << 20  # of tests, or of gains, of sets of agents that are kept


class Gate:
    """Tests rows of messages at a false-alarm rate.

    model: of the messages.
    rate:  chance that anything in a row made by the model is doubted.
    """

    def __init__(self, model: CentreModel, rate: float) -> None:
        self.rate = read_rate(rate)
        self.model = model
        self._tests_of = Bounded[tuple[Residuals, Tests]](SETS_BYTES, lambda each: each[0].size)

    @property
    def untested(self) -> tuple[str, ...]:
        """Agents that cannot be tested even when all others send: nothing else tells what they do."""
        freedom = self._tests(np.zeros(len(self.model.agents), bool)).found.freedom
        sending = self.model.blocks.sizes > 0
        return tuple(
            a for a, f, sends in zip(self.model.agents, freedom, sending, strict=True) if sends and not f
        )

    def judges_alone(self, agent: str) -> bool:
        """Whether an agent can be tested when nobody else sends: by the prior, or by its own numbers."""
        silent = np.array([each != agent for each in self.model.agents])
        return bool(self._tests(silent).found.freedom[self.model.agents.index(agent)])

    def doubts(self, stacked: Array) -> list[Contradiction]:
        """What contradicts the model in rows (T, M); numbers that are not finite did not arrive."""
        doubts: list[Contradiction] = []
        for start in range(0, len(stacked), _ROWS_AT_ONCE):
            block = stacked[start : start + _ROWS_AT_ONCE]
            rows = np.arange(len(block))
            silent = silent_agents(self.model.blocks, block)
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
            mine = rows[order[members]]
            arrived = block if len(mine) == len(block) and len(groups) == 1 else block[mine]
            deviations = arrived - self.model.expected
            if pattern.any():
                deviations[:, np.repeat(pattern, self.model.blocks.sizes)] = 0.0
            for place, doubt in self._tests(pattern).failing(deviations):
                row = int(mine[place])
                agent = self.model.agents[doubt.place]
                doubts.append(Contradiction(start + row, agent, doubt.distance, doubt.chance, doubt.joint))
                silent[doubt.place, row] = True
        return np.array([doubt.row - start for doubt in doubts], dtype=np.intp), doubts

    def _tests(self, silent: Booleans) -> Tests:
        def make() -> tuple[Residuals, Tests]:
            found = residuals(self.model, silent)
            return found, Tests.at(self.rate, found)

        return self._tests_of.get(np.packbits(silent).tobytes(), make)[1]


_SMALL = 16  # agents that fit into a code for which sorting takes one pass


def by_who_sent(silent: Booleans) -> tuple[Integers, list[tuple[Booleans, slice]]]:
    """An order of rows that puts equal ones together, and each pattern with where it then stands.

    silent: (agents, rows), who did not send.
    """
    agents, rows = silent.shape
    if not silent.any():
        return np.arange(rows), [(silent[:, 0], slice(0, rows))] if rows else []
    code: np.ndarray[Any, Any]
    if agents <= _SMALL:
        code = np.zeros(rows, np.uint16)
        for place, mine in enumerate(silent):
            code |= mine.astype(np.uint16) << np.uint16(place)
    else:
        packed = np.ascontiguousarray(np.packbits(silent, axis=0).T)
        whole = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
        code = np.unique(whole, return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    ends = [*starts[1:], rows]
    return order, [
        (silent[:, order[start]], slice(start, end)) for start, end in zip(starts, ends, strict=True)
    ]


def silent_agents(blocks: Blocks, stacked: Array) -> Booleans:
    """(agents, rows): who did not send all its numbers; ``blocks`` says how the columns fall to agents."""
    silent = np.zeros((blocks.count, len(stacked)), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        # a sum of squares is finite only if every number is: the cheapest look at all of them
        if np.isfinite(np.vdot(stacked, stacked)):
            return silent
    for owner, column in zip(blocks.owner, stacked.T, strict=True):
        silent[owner] |= ~np.isfinite(column)
    return silent
