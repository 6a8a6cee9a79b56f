"""How far a count can lie below what it counts: bounds that hold for every law.

**Theorem.** z takes values in a finite set, g too. There are n rows in m independent blocks of at most b rows each,
none of which chose the mechanism. A is the chance that the best rule f* names g from z, averaged over these rows:
the chance in service, where service has their base rates. Let Â = Σ_z max_g n(z, g) / n. With probability at least
1 - α no rule whatsoever, learned or not, is right more often than the largest a that is not refuted:

- rows (b = 1):    refuted is a with P(Bin(n, a) <= nÂ) <= α, the bound of Clopper and Pearson;
- blocks (b > 1):  refuted is a with E(t - B)+ / (t - nÂ/b) <= α for some t > nÂ/b, B ~ Bin(m, na/(mb)).

*Proof.* Let W be the number of rows in which f* is right. f* is one rule, fixed by the law, so E W = nA. The count
nÂ is the best of all rules on the same rows, so nÂ >= W, and P(nÂ <= s) <= P(W <= s).
Rows: W is a sum of n independent yes-or-no draws of mean chance A. Hoeffding (1956): its lower tail is at most that
of Bin(n, A), up to nA - 1. If P(Bin(n, A) <= k) <= α < 1/4, k is below nA - 1 but for k = n - 1, where 1 is returned.
Blocks: W = Σ_k W_k with W_k in [0, b]. A convex function of W_k has its largest mean, at a given mean of W_k, where
W_k is 0 or b; of independent draws from {0, b} its mean is largest where all have one chance (Hoeffding 1956, again).
So E φ(W) <= E φ(bB) for convex φ and a = A. Take φ(w) = (bt - w)+, at least b(t - s/b) where w <= s: Markov. ∎

Nothing is assumed of the law, and symbols that were never seen are covered. Many cells for few rows make Â large,
never wrong. For Â = 0.14 of 3,040 rows the bound is 0.151; McDiarmid's inequality gives 0.162, and that for
self-bounding functions 0.158.

The same holds for any figure in [0, 1] whose mean over rows the best rule makes largest; where it is not yes or no,
a row counts as a block (b = 1 in the second form).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

_HALVINGS = 50
_ROUNDING = 1e-9  # of totals, and of probabilities that are compared


@dataclass(frozen=True)
class Tally:
    """What a bound needs to know of the rows that were counted.

    rows:    n.
    blocks:  m, how many of them are independent of each other.
    largest: b, rows of the largest block.
    yes_no:  whether each row counts as 0 or 1.
    """

    rows: int
    blocks: int
    largest: int
    yes_no: bool

    @property
    def exact(self) -> bool:
        """Whether the binomial law itself bounds the tail."""
        return self.yes_no and self.largest == 1


def highest_mean(total: float, sample: Tally, level: float) -> float:
    """The largest mean over rows that is not refuted by a total over rows, at a false-refutation rate.

    total:  nÂ, the best of all rules.
    sample: of how many rows and blocks.
    level:  α.
    """
    if sample.exact:
        count = round(total)
        if count >= sample.rows - 1:
            return 1.0
        return float(betaincinv(count + 1, sample.rows - count, 1 - level))
    low, high = total / sample.rows, 1.0
    if low >= 1 - _ROUNDING or _hinge(total, high, sample) > level:
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _hinge(total, middle, sample) > level else (low, middle)
    return high


def is_refuted(total: float, mean: float, sample: Tally, level: float) -> bool:
    """Whether a mean is refuted by a total: the same question by another route, sums in plain Python.

    A mean above a refuted one is refuted too, so a bound is right if it is refuted itself.
    """
    if mean >= 1 or mean <= 0:
        return mean >= 1  # nobody is right more often than always, or less often than never
    trials = sample.rows if sample.exact else sample.blocks
    step = 1 if sample.exact else sample.largest
    chance = sample.rows * mean / (trials * step)
    reached = total / step
    below = above = 0.0  # P(B <= j) and E(j + 1 - B)+
    for j in range(trials):
        below += math.exp(_log_binomial(trials, j, chance))
        above += below
        if sample.exact and j == round(reached):
            return below <= level * (1 + _ROUNDING) and j < trials - 1
        if not sample.exact and j + 1 > reached and above / (j + 1 - reached) <= level * (1 + _ROUNDING):
            return True
    return False


def _hinge(total: float, mean: float, sample: Tally) -> float:
    """The least E(t - B)+ / (t - nÂ/b) over whole t: in between the quotient is monotone."""
    trials, reached = sample.blocks, total / sample.largest
    chance = sample.rows * mean / (trials * sample.largest)
    first = math.floor(reached + _ROUNDING) + 1
    if first > trials or chance <= 0:
        return 1.0
    from scipy.stats import binom  # which takes a second to load: a report of numbers does without

    law = binom.pmf(np.arange(trials), trials, min(1.0, chance))
    beyond = np.cumsum(np.cumsum(law))  # E(t - B)+ at t = 1, 2, ...
    later = np.arange(first, trials + 1)
    return float(np.min(beyond[first - 1 : trials] / (later - reached)))


def _log_binomial(trials: int, j: int, chance: float) -> float:
    ways = math.lgamma(trials + 1) - math.lgamma(j + 1) - math.lgamma(trials - j + 1)
    return ways + j * math.log(chance) + (trials - j) * math.log1p(-chance)
