"""What a careful attacker gets out of scores: power with few false alarms, and when he knows enough to stop.

*Power* at a rate α of false alarms: how many of the rows with a value score higher than all but α of those without.
Its interval is a block bootstrap: contiguous blocks, as many as the rows are worth independent ones, are drawn with
replacement, and the threshold is set anew in each draw.

*Stopping.* An attacker looks at one pair of rows after the other, one with the value and one without, and bets that
the first scores higher (b = 1, 1/2 for equal scores, else 0) more often than the promised AUC a says. His capital is

    K_t = Π_{s <= t} (1 + λ_s (b_s - a)),   0 <= λ_s < 1/a known before pair s.

Where rows are independent and the promise holds, E[b_s | past] <= a, so K is a nonnegative supermartingale, and
Ville's inequality says P(K_t >= 1/α for some t) <= α: he may stop whenever he likes (Ville, 1939; Waudby-Smith and
Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024, whose bets λ are used). The mean of
several attackers' capitals on the same pairs is one, too. Scores of a stretch of time are learned from the other
stretches, so every stretch is a game of its own, at an equal share of α.

Where rows depend on one another nothing of that is exact. Two rows of one moment share what is slow, and are known
apart more often than any two: rows are therefore paired at random within their stretch, no more pairs than rows are
worth independent ones. Even so pairs share slow parts, and a stop is then an indication, no proof (:func:`alone`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.calibration.dependence import independent_rows
from veilnet.calibration.stretches import Stretch

_DRAWS = 200
_SEED = 10  # fixed, so that one log has one report
_FEWEST_BLOCKS, _MOST_BLOCKS = 8, 200
_MOST_LOG = 700.0  # of a capital: beyond any chance, and still a number
_ALONE = 0.7  # of the rows: so many independent ones are found, at least, where none depends on another
_BOLDEST = 0.75  # of 1/a, the bet that could lose everything


@dataclass(frozen=True)
class MeasuredPower:
    """How many rows with a value are seen at a rate of false alarms.

    value:     the part of them.
    low, high: its 95 % interval.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f})"


def power_at(rate: float, present: Booleans, score: Array, worth: float) -> MeasuredPower | None:
    """Power of scores (T,) at a rate of false alarms; None where fewer than one false alarm is allowed.

    present: (T,) the rows with the value; worth: how many independent rows they are worth.
    """
    if rate * np.count_nonzero(~present) < 1 or not np.any(present):
        return None
    order = np.argsort(-score, kind="stable")
    blocks = int(np.clip(worth, _FEWEST_BLOCKS, min(_MOST_BLOCKS, len(score))))
    mine = (np.arange(len(score)) * blocks // len(score))[order]
    counts = np.random.default_rng(_SEED).multinomial(blocks, np.full(blocks, 1 / blocks), size=_DRAWS)
    inside = present[order]
    drawn = [_power(rate, inside, each[mine].astype(np.float64), score[order]) for each in counts]
    value = _power(rate, inside, np.ones(len(score)), score[order])
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return MeasuredPower(value, min(value, float(low)), max(value, float(high)))


def _power(rate: float, present: Booleans, weights: Array, score: Array) -> float:
    """Of rows in the order of falling scores, the weight with the value above the threshold that allows so many."""
    alarms = np.cumsum(weights * ~present)
    whole = float(np.sum(weights * present))
    if whole == 0 or alarms[-1] == 0:
        return np.nan
    beyond = np.flatnonzero(alarms > rate * alarms[-1])
    above = score > score[beyond[0]]  # the row that would be one false alarm too many sets the threshold
    return float(np.sum((weights * present)[above])) / whole


def pairs_of(present: Booleans, stretches: Sequence[Stretch], worth: float) -> list[Integers]:
    """Of each stretch (pairs, 2) rows with and without the value, paired and ordered at random.

    worth: how many independent rows there are; no more pairs than half of them are taken.
    """
    found, rng = [], np.random.default_rng(_SEED)
    for stretch in stretches:
        with_it, without = stretch.judged[present[stretch.judged]], stretch.judged[~present[stretch.judged]]
        allowed = int(max(1.0, worth * len(stretch.judged) / len(present) / 2))
        count = min(len(with_it), len(without), allowed)
        found.append(np.stack([rng.permutation(each)[:count] for each in (with_it, without)], axis=1))
    return found


def alone(scores: Sequence[Array]) -> bool:
    """Whether rows look independent of one another by every attacker's scores (T,): only then is a stop a proof."""
    return all(independent_rows(each) >= _ALONE * len(each) for each in scores)


def capital(wins: Array, promised: float) -> Array:
    """K_t (pairs,) of an attacker who bets on b (pairs,) against a promised AUC.

    λ_t is about the bet under which capital grows fastest if pairs go on as they began: (m - a) / (v + (m - a)²) with
    mean m and variance v of the pairs so far, not negative and at most three quarters of 1/a.
    """
    before = np.arange(len(wins)) + 1.0  # one pair of mean 1/2 and variance 1/4 is taken as seen
    mean = (0.5 + np.concatenate([[0.0], np.cumsum(wins)[:-1]])) / before
    square = (0.5 + np.concatenate([[0.0], np.cumsum(wins**2)[:-1]])) / before
    gain = mean - promised
    variance = np.maximum(square - mean**2, 1e-3)
    bet = np.clip(gain / (variance + gain**2), 0.0, _BOLDEST / promised)
    return np.asarray(np.exp(np.minimum(np.cumsum(np.log1p(bet * (wins - promised))), _MOST_LOG)))


def knows_after(
    scores: Sequence[Array], pairs: Sequence[Integers], promised: float, chance: float
) -> int | None:
    """After how many pairs attackers know that more is revealed than promised; None for never.

    scores: (T,) of each attacker; pairs: of each stretch; chance: that they believe it although the promise holds.
    """
    found = []
    for each in pairs:
        together = np.mean([capital(_wins(score, each), promised) for score in scores], axis=0)
        enough = np.flatnonzero(together >= len(pairs) / chance)
        found += [int(enough[0]) + 1] if enough.size else []
    return min(found, default=None)


def _wins(score: Array, pairs: Integers) -> Array:
    first, second = score[pairs[:, 0]], score[pairs[:, 1]]
    return np.asarray((first > second) + 0.5 * (first == second))
