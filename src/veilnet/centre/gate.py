"""Messages that contradict the model, found before they spoil an estimate.

Every row is tested jointly, and every agent against the prior and what the others sent
(:mod:`veilnet.centre.contradictions`). Where a test says no, the agent whose absence explains most is left out, and
the rest is tested again. Rows of a stream: :mod:`veilnet.centre.streams.tracking`.

The tests of one of very many sets of agents need no M x M matrix. In the notation of contradictions, with Q an
orthonormal basis of the range of F: q has the length of r = b - Q Q'b, and a_i that of S^-1 V' r_i, where
I - Q_i Q_i' = V S² V' belongs to agent i. So a set of agents costs M L² to begin and M L to keep (M numbers sent, L
parameters), where tests as matrices (:func:`redundancy`) take M³ and M². Where noise is correlated, X
whitens all messages, and one that is silent is a free parameter of its own: its column of X is projected out of
everything. That updates X by the rank of what is silent instead of factoring anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.bounded import Bounded
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.contradictions import LEAST_STRENGTH, SEEN, Contradiction, Redundancy, Tests, read_rate
from veilnet.centre.messages import CentreModel


@dataclass(frozen=True, eq=False)
class Residuals:
    """Tests of the messages of one set of agents; ``distances`` and ``agent_distances`` as of a Redundancy.

    numbers: degrees of freedom of the joint test; ``freedom`` those of each agent's.
    prior:   (r, rank) and ``basis`` (M, rank), Q in the prior's rows and in the messages'.
    silent:  (M, numbers that are silent), what is projected out; None where noise is independent.
    units:   per group of agents of one size, (count, k, k), S^-1 V'.
    """

    model: CentreModel
    numbers: int
    freedom: Integers
    prior: Array
    basis: Array
    silent: Array | None
    units: tuple[Array, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        arrays = (self.prior, self.basis, self.freedom, *self.units)
        return sum(each.nbytes for each in arrays) + (0 if self.silent is None else self.silent.nbytes)

    def distances(self, deviations: Array) -> Array:
        """|q|² of each row, for z - expected (rows, M); 0 stands for what is not sent."""
        above, rest = self._rest(deviations)
        return np.asarray(np.einsum("ij,ij->j", above, above) + np.einsum("ij,ij->j", rest, rest))

    def agent_distances(self, deviations: Array) -> Array:
        """|a_i|² of each row and agent, likewise."""
        found = np.zeros((len(self.freedom), len(deviations)))
        for agents, single in self.of_agents(self._rest(deviations)[1]):
            found[agents] = np.einsum("ijk,ijk->ik", single, single)
        return found.T

    def of_agents(self, rest: Array) -> Iterator[tuple[Integers, Array]]:
        """(agents of one size, their a_i, (count, k, rows)) from r in the messages' rows."""
        if self.silent is not None:
            rest = self.model.unmixing.T @ rest
        for group, unit in zip(self.model.blocks.groups, self.units, strict=True):
            yield group.agents, unit @ group.take(rest)

    def _rest(self, deviations: Array) -> tuple[Array, Array]:
        return self.unexplained(self.model.whiten.of(deviations.T))

    def unexplained(self, white: Array) -> tuple[Array, Array]:
        """r of whitened messages (M, rows), in the prior's rows and in the messages': what x does not explain."""
        if self.silent is not None:
            white = self.model.unmixing @ white
            white -= self.silent @ (self.silent.T @ white)
        explained = self.basis.T @ white
        return -self.prior @ explained, white - self.basis @ explained


def residuals(model: CentreModel, silent: Booleans) -> Residuals:
    """The tests of the agents that are not silent."""
    absent = np.repeat(silent, model.blocks.sizes)
    free: Array | None = None
    mixed = np.zeros((0, 0))
    if model.correlation is None:
        factor = np.where(absent[:, None], 0.0, model.observe)
    else:
        free = np.asarray(np.linalg.qr(model.unmixing[:, absent])[0])
        mixed = model.unmixing - free @ (free.T @ model.unmixing)
        factor = mixed @ model.observe
        factor -= free @ (free.T @ factor)
    left, sharpness, _ = np.linalg.svd(np.concatenate([model.prior, factor]), full_matrices=False)
    rank = _rank(sharpness)
    prior, basis = left[: len(model.prior), :rank], left[len(model.prior) :, :rank]
    freedom, units = np.zeros(len(model.agents), dtype=np.intp), []
    if free is not None:
        shares = basis.T @ mixed
        above, mixed = prior @ shares, mixed - basis @ shares
    for group in model.blocks.groups:
        if free is None:
            mine = group.take(basis)
            gram = np.eye(group.size) - mine @ mine.swapaxes(1, 2)
        else:
            left_over = np.concatenate([mixed, above])[:, group.rows].transpose(1, 2, 0)
            gram = left_over @ left_over.swapaxes(1, 2)
        squares, directions = np.linalg.eigh(gram)
        tested = (squares > LEAST_STRENGTH**2) & ~silent[group.agents][:, None]
        freedom[group.agents] = tested.sum(axis=1)
        scale = np.where(tested, 1.0 / np.sqrt(np.where(tested, squares, 1.0)), 0.0)
        units.append(scale[:, :, None] * directions.swapaxes(1, 2))
    of_prior = _rank(np.asarray(np.linalg.svd(model.prior, compute_uv=False))) if len(model.prior) else 0
    numbers = of_prior + int(np.sum(~absent)) - rank
    return Residuals(model, numbers, freedom, prior, np.ascontiguousarray(basis), free, tuple(units))


def redundancy(model: CentreModel, silent: Booleans) -> Redundancy:
    """The same tests as matrices, for those who follow what is tested from row to row."""
    found = residuals(model, silent)
    above, rest = found.unexplained(np.diag(np.repeat(~silent, model.blocks.sizes).astype(float)))
    whole = np.concatenate([above, rest])
    # r lies in a space of so many dimensions as there are degrees of freedom, and is standard normal there.
    basis = np.linalg.svd(whole, full_matrices=False)[0][:, : found.numbers]
    agents = [np.zeros((0, model.blocks.total))] * len(model.agents)
    for places, single in found.of_agents(rest):
        for place, rows in zip(places.tolist(), single, strict=True):
            agents[place] = rows[len(rows) - found.freedom[place] :]
    tests = model.whiten.applied(np.concatenate([basis.T @ whole, *agents]))
    owner = np.repeat(np.arange(len(agents), dtype=np.intp), found.freedom)
    return Redundancy(tests[: found.numbers], tests[found.numbers :], owner, found.freedom)


def _rank(sharpness: Array) -> int:
    return int(np.sum(sharpness > SEEN * max(1.0, float(np.max(sharpness, initial=0.0)))))


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
