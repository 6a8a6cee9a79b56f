"""Tests whose chance of a false alarm is known, not merely approximate.

Everything the audit decides by chance ends in a p-value that is valid at every sample size: exact for normal
noise, and an upper bound otherwise. They share one false-alarm rate by Bonferroni's inequality; how many
they are depends on the plan alone, never on the draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc

from veilnet._core.types import Array
from veilnet.auditing.sections import Section

FALSE_ALARM = 1e-6
"""Chance, at most, that a sound plan soundly deployed fails a whole audit."""

FALSE_ALARM_ON_DATA = 0.01
"""Chance, about, that data from the world on which every promise holds show a broken one.

Days of a log are worth tens of independent rows, not millions: at one in a million no leak would ever be found.
"""

# How the false-alarm rate is divided between the sections that decide by chance.
_PARTS = {
    Section.DEPLOYED: 0.5,
    Section.PROMISE: 0.25,
    Section.ATTACKERS: 0.15,
    Section.LATTICE: 0.08,
    Section.SUMS: 0.02,
}
_PARTS_ON_DATA = {Section.ATTACKERS: 0.9, Section.LATTICE: 0.1}

CONFIDENCE = 0.99
"""Level of the confidence intervals that are shown."""
CAREFUL = (0.01, 0.001)  # rates of false alarms that a careful attacker allows himself


def part_of(section: Section, total: float, *, on_data: bool = False) -> float:
    """The false-alarm rate that a section may spend, of all on simulated rows or on data from the world."""
    return (_PARTS_ON_DATA if on_data else _PARTS)[section] * total


def subgaussian_p(scores: Array) -> Array:
    """Bounds on the two-sided p-values of scores with E exp(ts) <= exp(t²/2) (Hoeffding, 1963)."""
    return np.asarray(np.minimum(1.0, 2.0 * np.exp(-0.5 * scores**2)))


def chi_square_p(sums: Array, count: int, swelling: Array) -> Array:
    """Two-sided p-values of sums of ``count`` squared draws with variance between 1 and 1 + swelling."""
    low = gammainc(count / 2.0, sums / 2.0)
    high = gammaincc(count / 2.0, sums / (2.0 * (1.0 + swelling)))
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(low, high)))


def subgaussian_square_p(sums: Array, count: int, swelling: Array) -> Array:
    """Bounds on the two-sided p-values of sums of ``count`` squares of draws like those of :func:`chi_square_p`, but
    only sub-Gaussian with their variance as proxy, not normal.

    Such a draw has E exp(ts²) <= (1 - 2t)^-½ and E s⁴ <= 3, as a normal one has. Chernoff's bound gives
    P(sum >= rn) <= exp(-n(r - 1 - log r)/2), and that of sums which cannot be negative
    P(sum <= rn) <= exp(-n(1 - r)²/6) (Boucheron, Lugosi and Massart, 2013, exercise 2.9).
    """
    high = np.maximum(sums / (count * (1.0 + np.sqrt(swelling)) ** 2), 1.0)
    low = np.minimum(sums / count, 1.0)
    above = np.exp(-0.5 * count * (high - 1.0 - np.log(high)))
    below = np.exp(-count * (1.0 - low) ** 2 / 6.0)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(above, below)))


@dataclass(frozen=True)
class SquareSum:
    """The mean of ``count`` draws of |e|², e normal with covariance eigenvalues λ: how far it strays.

    Laurent and Massart (2000), Lemma 1: with Z = Σ λ_k (χ²_k - count), P(Z >= 2|λ|√(count·t) + 2 λ_max t)
    and P(Z <= -2|λ|√(count·t)) are at most exp(-t).
    """

    eigenvalues: Array
    count: int

    @property
    def mean(self) -> float:
        """tr of the covariance: what is expected."""
        return float(np.sum(self.eigenvalues))

    @property
    def effective(self) -> float:
        """So many independent draws of one number have a mean that strays as little: count (Σλ)²/Σλ²."""
        square = float(np.sum(self.eigenvalues**2))
        return self.count * self.mean**2 / square if square > 0 else float(self.count * len(self.eigenvalues))

    def lowest(self, chance: float) -> float:
        """The mean square stays above this but for the given chance."""
        return self.mean - 2.0 * self._spread(np.log(1.0 / chance))

    def highest(self, chance: float) -> float:
        """The mean square stays below this but for the given chance."""
        t = float(np.log(1.0 / chance))
        return self.mean + 2.0 * self._spread(t) + 2.0 * float(np.max(self.eigenvalues)) * t / self.count

    def interval(self, found: float) -> tuple[float, float]:
        """Confidence interval of the true mean square, for errors of this shape and unknown size."""
        tail = (1.0 - CONFIDENCE) / 2.0
        low, high = self.lowest(tail) / self.mean, self.highest(tail) / self.mean
        return found / high, found / low if low > 0 else np.inf

    def _spread(self, t: float) -> float:
        return float(np.linalg.norm(self.eigenvalues) * np.sqrt(t / self.count))
