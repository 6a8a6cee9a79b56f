"""The public quantity from whatever symbols arrived.

The centre keeps one table: for each tuple of symbols that occurred in learning, how often each public value came with
it. For the agents that arrived the table is summed over the others, and what was counted is mixed with what a simple
model says, more of the model where less was counted:

    p(u | z) = (n(z, u) + κ q(u | z)) / (n(z) + κ)        q(u | z) ∝ p(u) Π_i p(z_i | u)^w

The product takes agents for independent given u; the exponent w <= 1 and the counts, which know better, keep it from
counting twice what they share. For a number the model is a sum of a term for each symbol (ridge), mixed likewise.
κ and w are chosen by the likelihood of rows left out in turn; how far probabilities are off is measured on rows that
chose nothing (:func:`calibration_error`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import AnyArray, Array, Booleans, Integers
from veilnet.symbols.quantity import Quantity

_STRENGTHS = (0.5, 1.5, 4.0, 12.0, 40.0)  # κ
_EXPONENTS = (0.4, 0.6, 0.8, 1.0)  # w
_LEAST = 0.1  # added to every count of one agent's symbols
_RIDGE = 1.0  # rows' worth of zero for each term of a number
_BINS = 10


@dataclass(frozen=True, eq=False)
class SymbolEstimate:
    """What the centre makes of the symbols of one row, or of each row of a block.

    public:        the most likely class, or the number.
    probabilities: of the classes, in order, (K,) or (T, K); None for numbers.
    missing:       agents from which nothing arrived: a tuple, or one per row.
    deviation:     of a number, the root mean square error from the agents that arrived: one, or (T,); None for
                   classes.
    """

    public: Any
    probabilities: Array | None
    missing: tuple[Any, ...]
    deviation: Any = None


@dataclass(frozen=True, eq=False)
class SymbolCentre:
    """What fusion of symbols needs.

    public:   its name, and ``classes`` its values (none for numbers).
    agents:   agent -> how many symbols it has.
    cells:    (U, S) tuples of symbols that occurred; one past an agent's last symbol stands for silence.
    table:    (U, K) rows of each class, or of a number (U, 3) rows, sum and sum of squares.
    strength, exponent: κ and w.
    seen:     agent -> how often each of its symbols, and silence, was sent on the rows that certify, and
    alike:    how many rows a block of these has at most: the law that service is compared with.
    wider:    of a number, how far the error of rows that chose nothing is above that of rows that learned, each left
              out in turn: those chose the symbols too. As a ratio, at least 1.
    """

    public: str
    classes: tuple[Any, ...]
    agents: dict[str, int]
    cells: Integers
    table: Array
    strength: float
    exponent: float
    seen: dict[str, Array] = field(default_factory=dict)
    alike: int = 1
    wider: float = 1.0
    _known: dict[tuple[int, ...], tuple[Integers, Array]] = field(default_factory=dict, init=False)

    @classmethod
    def learn(cls, public: Quantity, agents: dict[str, int], symbols: Integers) -> SymbolCentre:
        """From the symbols (n, S) of rows that learn."""
        cells, place = np.unique(symbols, axis=0, return_inverse=True)
        tried = [
            cls.counted(public, agents, cells, place.reshape(-1), strength, exponent)
            for strength in _STRENGTHS
            for exponent in (_EXPONENTS if public.classes else (1.0,))
        ]
        return max(tried, key=lambda each: each.left_out()[1])

    @classmethod
    def counted(
        cls,
        public: Quantity,
        agents: dict[str, int],
        cells: Integers,
        place: Integers,
        strength: float,
        exponent: float,
    ) -> SymbolCentre:
        """From the cells that occurred and which of them each row is in."""
        table = public.counted(place, len(cells))
        return cls(public.name, public.classes, agents, cells, table, strength, exponent)

    def estimate(self, symbols: Mapping[str, Any]) -> SymbolEstimate:
        """The public quantity from agent -> its symbol, or (T,) symbols; see :meth:`veilnet.SymbolPlan.estimate`."""
        names, block = list(self.agents), self.read(symbols)
        if block.ndim == 1:
            one = self.estimate({name: block[None, k] for k, name in enumerate(names)})
            chances = None if one.probabilities is None else one.probabilities[0]
            deviation = None if one.deviation is None else float(one.deviation[0])
            return SymbolEstimate(one.public[0], chances, one.missing[0], deviation)
        arrived = (block >= 0) & (block < list(self.agents.values()))
        answers = np.empty((len(block), max(1, len(self.classes))))
        patterns, pattern = np.unique(arrived, axis=0, return_inverse=True)
        for number, present in enumerate(patterns):
            mine = pattern.reshape(-1) == number
            answers[mine] = self._answers(block[mine], present)
        missing = tuple(tuple(n for n, there in zip(names, row, strict=True) if not there) for row in arrived)
        if not self.classes:
            error = self.wider * np.sqrt([self._square_left_out(present) for present in patterns])
            return SymbolEstimate(answers[:, 0], None, missing, error[pattern.reshape(-1)])
        values = np.empty(len(self.classes), object)
        values[:] = self.classes
        public = values[np.argmax(answers, axis=1)]
        kinds = {type(value) for value in self.classes}
        return SymbolEstimate(public.astype(kinds.pop()) if len(kinds) == 1 else public, answers, missing)

    def left_out(self) -> tuple[float, float]:
        """(score, likelihood) of the rows that learned, each left out in turn.

        Of classes accuracy and mean log-likelihood, of numbers R² twice.
        """
        own, everybody = self.table, np.ones(len(self.agents), bool)
        rows = self._rows(own)
        if not self.classes:
            spread = own[:, 2].sum() / rows.sum() - (own[:, 1].sum() / rows.sum()) ** 2
            explained = float(1 - self._square_left_out(everybody) / spread)
            return explained, explained
        model = self._model(self.cells, everybody)
        weights = own + self.strength * model
        first = np.argmax(weights, axis=1)
        second, largest = np.partition(weights, -2, axis=1)[:, -2:].T
        rival = np.where(np.arange(weights.shape[1]) == first[:, None], second[:, None], largest[:, None])
        right = float(np.sum(own * (weights - 1 > rival)) / rows.sum())
        chance = np.maximum((weights - 1) / (rows[:, None] - 1 + self.strength), 1e-4)
        return right, float(np.sum(own * np.log(chance)) / rows.sum())

    def _square_left_out(self, present: Booleans) -> float:
        """The mean square error of a number from some agents, of the rows that learned, each left out in turn."""
        known, own = self._marginal(present)
        cells = np.zeros((len(known), len(present)), np.intp)
        cells[:, present] = known
        rows, total, squares = own.T
        pull = total + self.strength * self._model(cells, present)[:, 0]
        weight = rows + self.strength
        wrong = weight**2 * squares - 2 * weight * total * pull + rows * pull**2
        return float(np.sum(wrong / (weight - 1) ** 2) / rows.sum())

    def _answers(self, block: Integers, present: Booleans) -> Array:
        """(T, K) probabilities, or (T, 1) numbers, of rows of which the same agents arrived."""
        cells, place = np.unique(block[:, present], axis=0, return_inverse=True)
        known, table = self._marginal(present)
        counts = np.zeros((len(cells), table.shape[1]))
        where = {tuple(row): k for k, row in enumerate(known.tolist())}
        for k, row in enumerate(cells.tolist()):
            if tuple(row) in where:
                counts[k] = table[where[tuple(row)]]
        full = np.zeros((len(cells), len(present)), np.intp)
        full[:, present] = cells
        model, rows = self._model(full, present), self._rows(counts)[:, None]
        weights = counts if self.classes else counts[:, 1:2]
        return np.asarray(((weights + self.strength * model) / (rows + self.strength))[place.reshape(-1)])

    def _marginal(self, present: Booleans) -> tuple[Integers, Array]:
        """The table summed over the agents that did not arrive."""
        key = tuple(np.flatnonzero(present).tolist())
        if key not in self._known:
            cells, place = np.unique(self.cells[:, present], axis=0, return_inverse=True)
            table = np.zeros((len(cells), self.table.shape[1]))
            np.add.at(table, place.reshape(-1), self.table)
            self._known[key] = cells, table
        return self._known[key]

    def _model(self, cells: Integers, present: Booleans) -> Array:
        """q(u | z), or the sum of terms, of cells (U, S)."""
        return self._product(cells, present) if self.classes else self._sum(cells, present)

    def _product(self, cells: Integers, present: Booleans) -> Array:
        weights = np.tile(np.log(self.table.sum(axis=0) + _LEAST), (len(cells), 1))
        for place in np.flatnonzero(present):
            seen = np.zeros((list(self.agents.values())[place] + 1, len(self.classes)))
            np.add.at(seen, self.cells[:, place], self.table)
            seen += _LEAST
            weights += self.exponent * np.log(seen / seen.sum(axis=0))[cells[:, place]]
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _sum(self, cells: Integers, present: Booleans) -> Array:
        rows, totals = self._rows(self.table), self.table[:, 1]
        mean = float(totals.sum() / rows.sum())
        known, wanted = self._terms(self.cells, present), self._terms(cells, present)
        gram = known.T @ (rows[:, None] * known) + _RIDGE * np.eye(known.shape[1])
        terms = np.linalg.solve(gram, known.T @ (totals - mean * rows))
        return np.asarray(mean + wanted @ terms)[:, None]

    def _terms(self, cells: Integers, present: Booleans) -> Array:
        sizes = [many + 1 for many in self.agents.values()]
        shown = [np.eye(sizes[k])[cells[:, k]] for k in np.flatnonzero(present)]
        return np.concatenate([np.zeros((len(cells), 0)), *shown], axis=1)

    def _rows(self, table: Array) -> Array:
        return np.asarray(table.sum(axis=1) if self.classes else table[:, 0])

    def read(self, symbols: Mapping[str, Any]) -> Integers:
        """(S,) or (T, S) symbols, -1 where an agent is missing."""
        if not isinstance(symbols, Mapping) or not symbols:
            raise InvalidRequest("symbols: expected agent -> its symbols, of at least one agent")
        unknown = [name for name in symbols if name not in self.agents]
        if unknown:
            raise InvalidRequest(f"symbols: no agent {unknown[0]!r}; there are {', '.join(self.agents)}")
        given = {name: np.asarray(each) for name, each in symbols.items() if each is not None}
        shapes = {each.shape for each in given.values()} or {()}
        if len(shapes) > 1 or len(next(iter(shapes))) > 1:
            raise InvalidRequest("symbols: expected one symbol, or equally many, of every agent")
        shape = next(iter(shapes))
        block = np.full((*shape, len(self.agents)), -1, np.intp)
        for place, (name, many) in enumerate(self.agents.items()):
            if name in given:
                block[..., place] = _whole(given[name], name, many)
        return block


def calibration_error(probabilities: Array, values: AnyArray) -> float:
    """How far the stated chance of the named class is off: |share right - mean chance|, averaged over ten bins."""
    named, stated = np.argmax(probabilities, axis=1), probabilities.max(axis=1)
    gaps = (named == values) - stated
    return float(
        sum(abs(gaps[rows].sum()) for rows in np.array_split(np.argsort(stated), _BINS)) / len(values)
    )


def _whole(given: AnyArray, agent: str, many: int) -> Integers:
    if given.dtype.kind not in "iu" or np.any(given < -1) or np.any(given >= many):
        raise InvalidRequest(
            f"symbols[{agent!r}]: expected whole numbers from 0 to {many - 1}, or -1 for nothing sent"
        )
    return given.astype(np.intp)
