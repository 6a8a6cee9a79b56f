"""What nobody can guess: the promise of a plan of symbols about each private quantity, from counts alone.

The counts are of rows that chose nothing. What is stored is enough to compute every figure anew: n(z, g) for each
tuple of symbols that occurred, and how many rows of each value each independent block has.
An agent that refuses a reading sends nothing; that silence is counted as one more symbol.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_number
from veilnet._core.words import three_digits
from veilnet.symbols.deviation import Tally, highest_mean, is_refuted

__all__ = ["ClassCertificate", "NumberCertificate", "SymbolCertificate", "Unconfirmed"]

_DRAWS = 4000  # simulated windows of several rows
_ROUNDING = 1e-9
_LEAST_CONFIDENCE = 0.75  # a premise of the theorem


class Unconfirmed(InvalidPlan):
    """A plan that was read whole, and whose promises do not follow from its counts."""


@dataclass(frozen=True, eq=False)
class ClassCertificate:
    """How often anybody can be right about a private class.

    name:       the private quantity, and ``classes`` its values.
    confidence: with which ``guessed`` holds.
    counts:     (cells, classes) n(z, g).
    blocks_of:  (kinds of blocks, classes) how many rows of each value such a block has, and
    many:       how many blocks of each kind there are.
    guessed:    the promise: with that confidence no rule is right in a larger share of rows.

    It holds for rows with the base rates of these (:meth:`at` for others) and for one row at a time
    (:meth:`over_rows` for several). ``guessed``, :meth:`at`, ``auc`` and ``total_variation`` each hold by themselves
    with that confidence, not all together.
    """

    name: str
    classes: tuple[Any, ...]
    confidence: float
    counts: Integers
    blocks_of: Integers
    many: Integers
    guessed: float

    error = None

    @classmethod
    def of(
        cls,
        name: str,
        classes: tuple[Any, ...],
        values: Integers,
        cells: Integers,
        blocks: Integers,
        confidence: float,
    ) -> ClassCertificate:
        """Count, bound, and confirm by the second route.

        values, cells, blocks: of each row, its private class, its tuple of symbols and its block, as whole numbers.
        """
        counts = _table(cells, values, len(classes))
        kinds, many = np.unique(_table(blocks, values, len(classes)), axis=0, return_counts=True)
        made = cls(name, classes, confidence, counts, kinds, many, math.nan)
        guessed = highest_mean(float(counts.max(axis=1).sum()), made.sample, 1 - confidence)
        done = cls(name, classes, confidence, counts, kinds, many, guessed)
        done.confirm()
        return done

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return int(self.counts.sum())

    @property
    def cells(self) -> int:
        """How many tuples of symbols occurred."""
        return len(self.counts)

    @property
    def rows_of_cells(self) -> Integers:
        """(cells,) how many rows each has."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def blocks(self) -> int:
        """How many blocks are independent of each other."""
        return int(self.many.sum())

    @property
    def sample(self) -> Tally:
        """What the bound knows of the rows."""
        return Tally(self.rows, self.blocks, int(self.blocks_of.sum(axis=1).max()), yes_no=True)

    @property
    def counted(self) -> float:
        """Â: how often the best rule for these very rows is right."""
        return float(self.counts.max(axis=1).sum() / self.rows)

    @property
    def chance(self) -> float:
        """How often the most common value is right, without any message."""
        return float(self.counts.sum(axis=0).max() / self.rows)

    def confirm(self) -> None:
        """Recompute the promise by another route; Unconfirmed where it does not follow from the counts."""
        width = len(self.classes)
        _require_figures(
            self.name,
            all(table.ndim == 2 and table.shape[1] == width for table in (self.counts, self.blocks_of)),
            self.many.shape == (len(self.blocks_of),),
            0 <= self.guessed <= 1,
            _LEAST_CONFIDENCE < self.confidence < 1,
        )
        for row in [*self.counts.tolist(), *self.blocks_of.tolist()]:
            _require_figures(self.name, min(row) >= 0, sum(row) > 0)
        _require_figures(self.name, self.cells > 0, min(self.many, default=0) > 0)
        best = sum(max(row) for row in self.counts.tolist())
        composed = [
            sum(int(k) * row[place] for k, row in zip(self.many, self.blocks_of.tolist(), strict=True))
            for place in range(len(self.classes))
        ]
        if composed != [
            sum(row[place] for row in self.counts.tolist()) for place in range(len(self.classes))
        ]:
            raise Unconfirmed(
                f"{self.name}: the blocks do not add up to the counted rows; the plan was changed"
            )
        if not is_refuted(best, self.guessed + _ROUNDING, self.sample, 1 - self.confidence):
            raise Unconfirmed(
                f"{self.name}: the counts do not support that nobody is right in more than {self.guessed:.4f} of "
                "rows; the plan was changed: learn it again"
            )

    # --- other base rates, two values, several rows

    def at(self, base_rates: Mapping[Any, float] | str) -> float:
        """The promise where the values have other base rates than in the log.

        base_rates: value -> share, adding up to 1, or "even".

        With shares π_g the best rule for the counted rows is right in Σ_z max_g π_g n(z, g)/n_g. Another block in
        place of block k moves that by at most c_k = Σ_g π_g b_kg/n_g; its mean, given how often each value occurs, is
        at least that of the best rule. McDiarmid: add sqrt(ln(1/α) Σ c_k² / 2).
        """
        shares = self._shares(base_rates)
        best = float(np.max(self._given * shares, axis=1).sum() + shares[self._totals == 0].sum())
        moved = float(self.many @ (self.blocks_of @ (shares / np.maximum(self._totals, 1))) ** 2)
        return min(1.0, best + self._deviation(moved))

    @property
    def total_variation(self) -> float | None:
        """Of the laws of the messages given each of two values, at most; None for more values.

        1 where a value does not occur in the counted rows: nothing is known of its messages.
        """
        if len(self.classes) != 2:
            return None
        if not self._totals.all():
            return 1.0
        apart = float(np.abs(self._given[:, 0] - self._given[:, 1]).sum() / 2)
        return min(1.0, apart + self._deviation(self._moved_by_two))

    @property
    def auc(self) -> float | None:
        """Of the best detector of one of two values, at most; None for more values.

        The area is the share of pairs, a row of each value, that an order of the cells puts right. For the best order
        its count is right on average but for pairs within one block, whose rows depend on each other: they are
        Σ_k b_k0 b_k1/(n_0 n_1) of all pairs, and that much is added. The counted best order has a larger count.
        A block moves it by at most b_k0/n_0 + b_k1/n_1: McDiarmid, as in :meth:`at`.
        It is 1 where a value does not occur in the counted rows.
        """
        if len(self.classes) != 2:
            return None
        if not self._totals.all():
            return 1.0
        order = np.argsort(self._given[:, 1] / np.maximum(self._given.sum(axis=1), _ROUNDING**9))
        no, yes = self._given[order].T
        area = float(yes @ (np.cumsum(no) - no / 2))
        within = float(self.many @ self.blocks_of.prod(axis=1) / self._totals.prod())
        return min(1.0, area + within + self._deviation(self._moved_by_two))

    def over_rows(self, rows: Sequence[int] = (1, 5, 20, 60, 200), seed: int = 0) -> dict[int, float]:
        """How often an attacker is right who sees several rows of one value, at even base rates.

        rows: how many, each a whole number.

        An assumption and an estimate, no promise: rows are drawn independently given the value, and the attacker
        knows the counted law exactly and adds up log-likelihoods. Rows of one person that follow each other tell
        less each, rows of very different days more.
        """
        if not whole_from_one(rows):
            raise InvalidRequest(f"rows: expected whole numbers from 1 on, such as (1, 5), found {rows!r}")
        rng = np.random.default_rng(seed)
        with np.errstate(divide="ignore"):
            evidence = np.maximum(np.log(self._given), -1e3)
        found = {}
        for count in rows:
            right = 0.0
            for place in range(len(self.classes)):
                seen = rng.multinomial(count, self._given[:, place], size=_DRAWS // len(self.classes) + 1)
                told = seen @ evidence
                best = told >= told.max(axis=1, keepdims=True) - _ROUNDING
                right += float(np.mean(best[:, place] / best.sum(axis=1)))
            found[int(count)] = right / len(self.classes)
        return found

    def __str__(self) -> str:
        unit = "rows" if self.blocks == self.rows else f"rows in {self.blocks} blocks"
        return (
            f"{self.name}: nobody is right in more than {self.guessed:.3f} of rows ({self.confidence:.3g} sure, from "
            f"{self.rows} {unit}, {self.cells} cells); guessing without messages {self.chance:.3f}"
        )

    @cached_property
    def _given(self) -> Array:
        """(cells, classes) the counted P(z | g)."""
        return np.asarray(self.counts / np.maximum(self._totals, 1))

    @property
    def _totals(self) -> Integers:
        return np.asarray(self.counts.sum(axis=0))

    @property
    def _moved_by_two(self) -> float:
        return float(self.many @ (self.blocks_of @ (1 / np.maximum(self._totals, 1))) ** 2)

    def _deviation(self, moved: float) -> float:
        return math.sqrt(-math.log(1 - self.confidence) * moved / 2)

    def _shares(self, base_rates: Mapping[Any, float] | str) -> Array:
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


@dataclass(frozen=True, eq=False)
class NumberCertificate:
    """How far off everybody must be about a private number.

    name:       the private quantity.
    confidence: with which ``error`` holds.
    edges:      (low, high); a value beyond counts as the edge, which only lowers the bound. They come from rows that
                learned, not from those counted.
    sums:       (cells, 3) rows of a cell, sum and sum of squares of (g - low) / (high - low).
    sizes:      (kinds of blocks,) how many rows such a block has, and ``many`` how many of them there are.
    error:      the promise: with that confidence no rule has a smaller root mean square error.

    It holds for rows with the distribution of those counted.
    The mean square within cells is the least of all rules on the same rows, so at most that of the best rule f*.
    Clipping is a contraction, so a clipped rule on clipped values errs less than the rule itself.
    """

    name: str
    confidence: float
    edges: tuple[float, float]
    sums: Array
    sizes: Integers
    many: Integers
    error: float

    guessed = None

    @classmethod
    def of(
        cls,
        name: str,
        edges: tuple[float, float],
        values: Array,
        cells: Integers,
        blocks: Integers,
        confidence: float,
    ) -> NumberCertificate:
        """Count, bound, and confirm by the second route; ``values`` as they are in the table."""
        scaled = scaled_to(edges, values)
        sums = np.stack([np.bincount(cells, scaled**power).astype(float) for power in range(3)], axis=1)
        sizes, many = np.unique(np.bincount(blocks), return_counts=True)
        made = cls(name, confidence, edges, sums, sizes, many, math.nan)
        highest = highest_mean(made.rows * made.leak, made.sample, 1 - confidence)
        error = (edges[1] - edges[0]) * math.sqrt(max(0.0, 1 - highest))
        done = cls(name, confidence, edges, sums, sizes, many, error)
        done.confirm()
        return done

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return round(float(self.sums[:, 0].sum()))

    @property
    def cells(self) -> int:
        """How many tuples of symbols occurred."""
        return len(self.sums)

    @property
    def rows_of_cells(self) -> Integers:
        """(cells,) how many rows each has."""
        return np.asarray(np.rint(self.sums[:, 0]), np.intp)

    @property
    def blocks(self) -> int:
        """How many blocks are independent of each other."""
        return int(self.many.sum())

    @property
    def sample(self) -> Tally:
        """What the bound knows of the rows."""
        return Tally(self.rows, self.blocks, int(self.sizes.max()), yes_no=False)

    @property
    def leak(self) -> float:
        """1 less the mean square within cells, in units of the interval."""
        count, total, squares = self.sums.T
        return float(1 - (squares - total**2 / count).sum() / self.rows)

    @property
    def chance(self) -> float:
        """The root mean square error of guessing the mean, without any message."""
        count, total, squares = self.sums.sum(axis=0)
        return float(
            (self.edges[1] - self.edges[0]) * math.sqrt(max(0.0, squares / count - (total / count) ** 2))
        )

    def confirm(self) -> None:
        """Recompute the promise by another route; Unconfirmed where it does not follow from the sums."""
        width = self.edges[1] - self.edges[0]
        _require_figures(
            self.name,
            self.sums.ndim == 2 and self.sums.shape[1:] == (3,) and len(self.sums) > 0,
            self.sizes.shape == self.many.shape == (self.sizes.size,) and self.sizes.size > 0,
            0 < width < math.inf,
            0 <= self.error <= width,
            _LEAST_CONFIDENCE < self.confidence < 1,
        )
        off = _ROUNDING * self.rows
        for n, s, q in self.sums.tolist():  # of n parts of an interval
            _require_figures(
                self.name, n >= 1, n == round(n), s * s <= n * (q + off), q <= s + off, s <= n + off
            )
        _require_figures(
            self.name, min([*self.sizes, *self.many]) > 0, int(self.sizes @ self.many) == self.rows
        )
        within = math.fsum(q - s * s / n for n, s, q in self.sums.tolist())
        highest = 1 - (self.error / width) ** 2 + _ROUNDING
        if not is_refuted(self.rows - within, highest, self.sample, 1 - self.confidence):
            raise Unconfirmed(
                f"{self.name}: the counts do not support an error of {self.error:.4g}; the plan was changed: "
                "learn it again"
            )

    def __str__(self) -> str:
        unit = "rows" if self.blocks == self.rows else f"rows in {self.blocks} blocks"
        return (
            f"{self.name}: everybody is off by at least ±{three_digits(self.error)} ({self.confidence:.3g} sure, "
            f"from {self.rows} {unit}, {self.cells} cells); without messages ±{three_digits(self.chance)}"
        )


SymbolCertificate = ClassCertificate | NumberCertificate


def _require_figures(name: str, *right: bool) -> None:
    if not all(right):
        raise Unconfirmed(
            f"{name}: its figures cannot all be counts of rows; the plan was changed: learn it again"
        )


def whole_from_one(given: Any) -> bool:
    """Whether something is a sequence of whole numbers from 1 on."""
    whole = int | np.integer
    return isinstance(given, Sequence | np.ndarray) and all(
        isinstance(k, whole) and not isinstance(k, bool) and k >= 1 for k in given
    )


def scaled_to(edges: tuple[float, float], values: Array) -> Array:
    """Values as parts of an interval, clipped to it."""
    return np.asarray(np.clip((values - edges[0]) / (edges[1] - edges[0]), 0.0, 1.0))


def _table(rows: Integers, columns: Integers, width: int) -> Integers:
    height = int(rows.max()) + 1
    return np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)
