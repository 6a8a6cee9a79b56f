"""How sure is a mean of rows that depend on one another?

Rows of a log follow one another, and neighbours are alike: ten thousand minutes may be worth thirty independent ones.
The mean is therefore judged by its long-run variance. Of the values v_1 .. v_T the projections on slow cosines
Λ_j = √(2/T) Σ_t v_t cos(πj(t - ½)/T), j = 1 .. q, are nearly independent, with the long-run variance as their
variance wherever the spectrum is flat up to the frequency q/2T; so mean / √(Σ Λ_j²/q/T) is about Student's t with q
degrees of freedom (Lazarus, Lewis, Stock and Watson, HAR Inference, JBES 36, 2018). The slower the values change, the
smaller q has to be: it is taken from how many independent rows they are worth. Squares are skewed, and their mean and
their variance are low together; for these, half as many degrees are counted to make up for it. Below twenty
independent rows nothing is decided. ``benchmarks/audit_power.py`` measures how often that errs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from veilnet._core.types import Array

_FEWEST, _MOST = 4, 40  # projections
_ROWS_PER_PROJECTION = 4.0  # independent rows for each: slower cosines see a flat spectrum
_ROWS_IF_SKEWED = 6.0  # the same, for squares
DECIDED_BY = 20.0  # independent rows; fewer decide nothing


@dataclass(frozen=True)
class Mean:
    """A mean of dependent values.

    value:     the mean.
    error:     its standard error.
    degrees:   degrees of freedom of that error.
    effective: how many independent rows the values are worth.
    """

    value: float
    error: float
    degrees: float
    effective: float

    def chance_below(self, limit: float) -> float:
        """p-value against a true mean of ``limit`` or more: how often the mean would come out so small."""
        return self._tail(self._score(limit))

    def chance_above(self, limit: float) -> float:
        """p-value against a true mean of ``limit`` or less."""
        return self._tail(-self._score(limit))

    def reach(self, chance: float) -> float:
        """How far off the true mean has to be for four in five such tests to find it at this chance."""
        if self.effective < DECIDED_BY:
            return np.inf
        return self.error * float(stdtrit(self.degrees, 0.8) - stdtrit(self.degrees, chance))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Confidence interval of the true mean."""
        width = -float(stdtrit(self.degrees, (1.0 - confidence) / 2.0)) * self.error
        return self.value - width, self.value + width

    def _tail(self, score: float) -> float:
        return float(stdtr(self.degrees, score)) if self.effective >= DECIDED_BY else 1.0

    def _score(self, limit: float) -> float:
        if self.error > 0:
            return (self.value - limit) / self.error
        return float(np.sign(self.value - limit)) * np.inf if self.value != limit else 0.0


class Ratio(Mean):
    """A ratio of two mean squares; ``error`` is that of its logarithm.

    Cube roots of mean squares are nearly normal (Wilson and Hilferty, 1931), so these are compared.
    """

    def reach(self, chance: float) -> float:
        """By which part of itself a limit has to be missed for four in five such tests to find it."""
        return float(1.0 - (1.0 + super().reach(chance) / 3.0) ** -3.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Confidence interval of the true ratio."""
        width = -float(stdtrit(self.degrees, (1.0 - confidence) / 2.0)) * self.error
        return self.value * max(0.0, 1.0 - width / 3.0) ** 3, self.value * (1.0 + width / 3.0) ** 3

    def _score(self, limit: float) -> float:
        if self.error <= 0 or self.value <= 0 or limit <= 0:
            return super()._score(limit)
        return 3.0 * (1.0 - float(np.cbrt(limit / self.value))) / self.error


def mean_of(values: Array, *, skewed: bool = False, worth: float = np.inf) -> Mean:
    """The mean of values in the order of their rows, with its error.

    skewed: whether they are squares, or other values with one long tail.
    worth:  how many independent rows there are at most, where something else they depend on is known to be slower.
    """
    effective = min(independent_rows(values), worth)
    each = _ROWS_IF_SKEWED if skewed else _ROWS_PER_PROJECTION
    count = len(values)
    projections = int(np.clip(effective / each, _FEWEST, min(_MOST, count - 1)))
    places = np.pi * (np.arange(count) + 0.5) / count
    slow = np.cos(np.arange(1, projections + 1)[:, None] * places) @ (values - np.mean(values))
    variance = float(np.mean(2.0 / count * slow**2))
    degrees = projections / 2.0 if skewed else float(projections)
    return Mean(float(np.mean(values)), float(np.sqrt(variance / count)), degrees, effective)


def ratio_of(squares: Array, others: Array) -> Ratio:
    """mean(squares) / mean(others), whose rows belong together; the denominator may have been linearised."""
    above, below = float(np.mean(squares)), float(np.mean(others))
    if below <= 0:
        return Ratio(np.inf, 0.0, 1.0, 1.0)
    if above <= 0:  # never an error: as sure as the others are many
        return Ratio(0.0, 0.0, 1.0, independent_rows(others))
    logarithm = mean_of(squares / above - others / below, skewed=True)
    return Ratio(above / below, logarithm.error, logarithm.degrees, logarithm.effective)


def independent_rows(values: Array) -> float:
    """T / (1 + 2 Σ ρ_k), with autocorrelations ρ_k summed while sums of pairs stay positive (Geyer, 1992)."""
    count = len(values)
    moved = values - np.mean(values)
    if not np.any(moved):
        return float(count)
    spectrum = np.fft.rfft(moved, 2 * count)
    correlations = np.fft.irfft(spectrum * spectrum.conj())[:count]
    correlations = correlations / correlations[0]
    pairs = correlations[0 : count - count % 2 : 2] + correlations[1::2]
    negative = np.flatnonzero(pairs <= 0)
    kept = pairs[: int(negative[0])] if negative.size else pairs
    return float(np.clip(count / max(1.0, 2.0 * float(np.sum(kept)) - 1.0), 1.0, count))
