"""What nobody can guess: the promise of a plan of symbols about each private quantity, from counts alone.

The counts are of rows that chose nothing. What is stored is enough to compute every figure anew: what was counted of
each tuple of symbols that occurred, and of each independent block.
An agent that refuses a reading sends nothing; that silence is counted as one more symbol.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_number
from veilnet._core.words import at_most, three_digits
from veilnet.symbols.deviation import Tally, highest_mean, is_refuted
from veilnet.symbols.quantity import Quantity, leak_of

_DRAWS = 4000  # simulated windows of several rows
_ROUNDING = 1e-9
_LEAST_CONFIDENCE = 0.75  # a premise of the theorem


class Unconfirmed(InvalidPlan):
    """A plan that was read whole, and whose promises do not follow from its counts."""


@dataclass(frozen=True, eq=False)
class SymbolCertificate:
    """How often anybody can be right about a private class, or how far off everybody is about a private number.

    name:       the private quantity, and ``classes`` its values; none for a number.
    edges:      (low, high) of a number: a value beyond counts as the edge, which only lowers the error (clipping is a
                contraction). They come from rows that learned, not from those counted.
    confidence: with which the promise holds.
    counts:     (cells, classes) n(z, g); of a number (cells, 3): rows, sum and sum of squares of
                (g - low) / (high - low).
    blocks_of:  (kinds of blocks, classes) how many rows of each value such a block has, of a number (kinds, 1) how
                many rows, and
    many:       how many blocks of each kind there are.
    leak:       the promise: no rule learns more (:func:`veilnet.symbols.quantity.leak_of`), with that confidence.

    It holds for rows with the base rates of these (:meth:`at` for others) and for one row at a time
    (:meth:`over_rows` for several). ``leak``, :meth:`at`, ``auc`` and ``total_variation`` each hold by themselves
    with that confidence, not all together.
    """

    name: str
    classes: tuple[Any, ...]
    edges: tuple[float, float]
    confidence: float
    counts: Array
    blocks_of: Integers
    many: Integers
    leak: float

    @classmethod
    def of(
        cls,
        private: Quantity,
        edges: tuple[float, float],
        cells: Integers,
        blocks: Integers,
        confidence: float,
    ) -> SymbolCertificate:
        """Count, bound, and confirm by the second route.

        cells, blocks: of each row, its tuple of symbols and its block, as whole numbers from 0.
        """
        private = private.within(edges)
        counts = private.counted(cells, int(cells.max()) + 1)
        of_blocks = private.counted(blocks, int(blocks.max()) + 1).astype(np.intp)
        kinds, many = np.unique(
            of_blocks if private.classes else of_blocks[:, :1], axis=0, return_counts=True
        )
        made = cls(private.name, private.classes, edges, confidence, counts, kinds, many, math.nan)
        leak = highest_mean(made.rows * made.counted, made.sample, 1 - confidence)
        made = replace(made, leak=leak)
        made.confirm()
        return made

    @property
    def guessed(self) -> float | None:
        """The largest share of rows in which any rule is right about a class; None of a number."""
        return self.leak if self.classes else None

    @property
    def error(self) -> float | None:
        """The least root mean square error of any rule about a number; None of a class."""
        return None if self.classes else self._error(1 - self.leak)

    @property
    def promise(self) -> float:
        """``guessed`` of a class, ``error`` of a number."""
        return self.leak if self.classes else self._error(1 - self.leak)

    @property
    def chance(self) -> float:
        """What guessing without any message gives: how often it is right, or its root mean square error."""
        alone = leak_of(self.counts.sum(axis=0, keepdims=True), bool(self.classes))
        return alone if self.classes else self._error(1 - alone)

    @property
    def counted(self) -> float:
        """Â: the leak of the best rule for these very rows."""
        return leak_of(self.counts, bool(self.classes))

    @property
    def rows_of_cells(self) -> Array:
        """(cells,) how many rows each has."""
        return np.asarray(self.counts.sum(axis=1) if self.classes else self.counts[:, 0])

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return round(float(self.rows_of_cells.sum()))

    @property
    def cells(self) -> int:
        """How many tuples of symbols occurred."""
        return len(self.counts)

    @property
    def blocks(self) -> int:
        """How many blocks are independent of each other."""
        return int(self.many.sum())

    @property
    def sample(self) -> Tally:
        """What the bound knows of the rows."""
        return Tally(self.rows, self.blocks, int(self.blocks_of.sum(axis=1).max()), bool(self.classes))

    def confirm(self) -> None:
        """Recompute the promise by another route; Unconfirmed where it does not follow from the counts."""
        width = len(self.classes)
        self._require(
            self.counts.ndim == 2 and self.counts.shape[1] == (width or 3) and len(self.counts) > 0,
            self.blocks_of.ndim == 2 and self.blocks_of.shape[1] == (width or 1),
            self.many.shape == (len(self.blocks_of),) and min(self.many, default=0) > 0,
            bool(np.isfinite(self.counts).all()),
            0 <= self.leak <= 1,
            0 < self.edges[1] - self.edges[0] < math.inf,
            _LEAST_CONFIDENCE < self.confidence < 1,
        )
        counts, blocks = self.counts.tolist(), self.blocks_of.tolist()
        for row in blocks:
            self._require(min(row) >= 0, sum(row) > 0)
        best = 0.0
        for row in counts:
            if width:
                self._require(min(row) >= 0, sum(row) > 0, all(each % 1 == 0 for each in row))
                best += max(row)
            else:
                n, s, q = row  # of n parts of an interval
                off = _ROUNDING * self.rows
                self._require(n >= 1, n % 1 == 0, s * s <= n * (q + off), q <= s + off, s <= n + off)
                best += n - (q - s * s / n)
        in_blocks = [
            sum(int(k) * each for k, each in zip(self.many, column, strict=True))
            for column in zip(*blocks, strict=True)
        ]
        self._require(
            in_blocks == [round(sum(each)) for each in list(zip(*counts, strict=True))[: width or 1]]
        )
        if not is_refuted(best, self.leak + _ROUNDING, self.sample, 1 - self.confidence):
            raise Unconfirmed(f"{self}: the counts do not support that; the plan was changed: learn it again")

    def _require(self, *right: bool) -> None:
        if not all(right):
            raise Unconfirmed(
                f"{self.name}: its figures cannot all be counts of rows; the plan was changed: learn it again"
            )

    def expected(self, counted: float) -> float:
        """What would be promised, ``guessed`` or ``error``, had so much been counted on these rows."""
        leak = highest_mean(self.rows * counted, self.sample, 1 - self.confidence)
        return leak if self.classes else self._error(1 - leak)

    def _error(self, square: float) -> float:
        return (self.edges[1] - self.edges[0]) * math.sqrt(max(0.0, square))

    # --- of classes: other base rates, two values, several rows

    def at(self, base_rates: Mapping[Any, float] | str) -> float:
        """The promise where the values have other base rates than in the log.

        base_rates: value -> share, adding up to 1, or "even".

        With shares π_g the best rule for the counted rows is right in Σ_z max_g π_g n(z, g)/n_g. Another block in
        place of block k moves that by at most c_k = Σ_g π_g b_kg/n_g; its mean, given how often each value occurs, is
        at least that of the best rule. McDiarmid: add sqrt(ln(1/α) Σ c_k² / 2).
        """
        shares = self._shares(base_rates)
        best = float(np.max(self._given * shares, axis=1).sum() + shares[self._totals == 0].sum())
        return min(1.0, best + self._deviation(shares))

    @property
    def total_variation(self) -> float | None:
        """Of the laws of the messages given each of two values, at most; None for more values.

        1 where a value does not occur in the counted rows: nothing is known of its messages.
        """
        if len(self.classes) != 2 or not self._totals.all():
            return 1.0 if len(self.classes) == 2 else None
        apart = float(np.abs(self._given[:, 0] - self._given[:, 1]).sum() / 2)
        return min(1.0, apart + self._deviation(np.ones(2)))

    @property
    def auc(self) -> float | None:
        """Of the best detector of one of two values, at most; None for more values.

        The area is the share of pairs, a row of each value, that an order of the cells puts right. For the best order
        its count is right on average but for pairs within one block, whose rows depend on each other: they are
        Σ_k b_k0 b_k1/(n_0 n_1) of all pairs, and that much is added. The counted best order has a larger count.
        A block moves it by at most b_k0/n_0 + b_k1/n_1: McDiarmid, as in :meth:`at`.
        It is 1 where a value does not occur in the counted rows.
        """
        if len(self.classes) != 2 or not self._totals.all():
            return 1.0 if len(self.classes) == 2 else None
        order = np.argsort(self._given[:, 1] / np.maximum(self._given.sum(axis=1), _ROUNDING**9))
        no, yes = self._given[order].T
        area = float(yes @ (np.cumsum(no) - no / 2))
        within = float(self.many @ self.blocks_of.prod(axis=1) / self._totals.prod())
        return min(1.0, area + within + self._deviation(np.ones(2)))

    def over_rows(self, rows: Sequence[int] = (1, 5, 20, 60, 200), seed: int = 0) -> dict[int, float]:
        """How often an attacker is right who sees several rows of one value, at even base rates.

        rows: how many, each a whole number.

        An assumption and an estimate, no promise: rows are drawn independently given the value, and the attacker
        knows the counted law exactly and adds up log-likelihoods. Rows of one person that follow each other tell
        less each, rows of very different days more.
        """
        if not whole_from_one(rows):
            raise InvalidRequest(f"rows: expected whole numbers from 1 on, such as (1, 5), found {rows!r}")
        self._classes_only()
        rng = np.random.default_rng(seed)
        with np.errstate(divide="ignore"):
            evidence = np.maximum(np.log(self._given), -1e3)
        found = {}
        for count in rows:
            right = 0.0
            for place in range(len(self.classes)):
                seen = rng.multinomial(count, self._given[:, place], size=_DRAWS // len(self.classes) + 1)
                likely = seen @ evidence
                best = likely >= likely.max(axis=1, keepdims=True) - _ROUNDING
                right += float(np.mean(best[:, place] / best.sum(axis=1)))
            found[int(count)] = right / len(self.classes)
        return found

    def __str__(self) -> str:
        unit = "rows" if self.blocks == self.rows else f"rows in {self.blocks} blocks"
        sure = f"({self.confidence:.3g} sure, from {self.rows} {unit}, {self.cells} cells)"
        if self.classes:
            most = f"nobody is right in more than {at_most(self.leak)} of rows"
            two = "" if self.auc is None else f"; no detector has an AUC above {at_most(self.auc)}"
            return f"{self.name}: {most} {sure}; guessing without messages {self.chance:.3f}{two}"
        least, alone = three_digits(self._error(1 - self.leak)), three_digits(self.chance)
        return f"{self.name}: everybody is off by at least ±{least} {sure}; without messages ±{alone}"

    @cached_property
    def _given(self) -> Array:
        """(cells, classes) the counted P(z | g)."""
        return np.asarray(self.counts / np.maximum(self._totals, 1))

    @property
    def _totals(self) -> Array:
        return np.asarray(self.counts.sum(axis=0))

    def _deviation(self, shares: Array) -> float:
        moved = float(self.many @ (self.blocks_of @ (shares / np.maximum(self._totals, 1))) ** 2)
        return math.sqrt(-math.log(1 - self.confidence) * moved / 2)

    def _shares(self, base_rates: Mapping[Any, float] | str) -> Array:
        self._classes_only()
        if base_rates == "even":
            return np.full(len(self.classes), 1 / len(self.classes))
        if not isinstance(base_rates, Mapping) or set(base_rates) != set(self.classes):
            raise InvalidRequest(
                f'base_rates: expected "even" or a share for each of {", ".join(map(repr, self.classes))}'
            )
        shares = np.array(
            [as_number(base_rates[g], f"base_rates[{g!r}]", error=InvalidRequest) for g in self.classes]
        )
        if np.any(shares < 0) or abs(shares.sum() - 1) > 1e-6:
            raise InvalidRequest(f"base_rates: expected shares that add up to 1, found {shares.sum():.6g}")
        return shares

    def _classes_only(self) -> None:
        if not self.classes:
            raise InvalidRequest(f"{self.name}: it is a number; base rates and several rows are for classes")


def whole_from_one(given: Any) -> bool:
    """Whether something is a sequence of whole numbers from 1 on."""
    listed = isinstance(given, Sequence | np.ndarray)
    return listed and all(isinstance(k, int | np.integer) and k is not True and k >= 1 for k in given)
