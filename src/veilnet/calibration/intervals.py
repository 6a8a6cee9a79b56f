"""An interval for each promise: what the ceiling of privacy might be, given that the network was fitted to few rows.

Block bootstrap. The rows are cut into n contiguous blocks, long enough that one block tells little about the next, or
into their groups where they have some;
blocks are drawn with replacement, and H, R and the prior are fitted to what was drawn. All of them are functions of
the second moments of (1, x, y), so a draw is a weighted sum of n small matrices, whatever the number of rows. A draw
that lacks a value of x which few blocks have says nothing about it: where rows are sorted by class, draws are
repeated until every class is among them.
Nothing is shrunk in a draw: shrinking is a bias, and an interval that shares it misses the truth (0.77 instead of
0.92 of 60 networks were covered).

The interval for log(1 + p) lies between the 2.5 % and the 97.5 % quantile of the draws, stretched about their
median by t √(n / f) / 1.96: n blocks have f = n - N - L - 1 degrees of freedom left, and t is Student's quantile
for them. Coverage on simulated truth: ``./veilnet bench calibration``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.words import times
from veilnet.calibration.stream_model import FittedStream

LEVEL = 0.95
_DRAWS = 400
_SEED = 357  # fixed, so that one table has one report
_MOST_BLOCKS = 2000
_FEWEST_BLOCKS = 16
_TRIES = 20  # times as many draws as are needed
_UNDETERMINED = 1e-9  # of the information on x, units removed: less than that is rounding


@dataclass(frozen=True)
class Interval:
    """Where a privacy p lies, at a level of confidence.

    low, high: its ends.
    level:     how often such intervals hold the truth.
    """

    low: float
    high: float
    level: float = LEVEL

    def __str__(self) -> str:
        return (
            f"{100 * self.level:.0f} % interval {np.sqrt(1 + self.low):.3g}x to {np.sqrt(1 + self.high):.3g}x"
        )


@dataclass(frozen=True)
class FreePrivacy:
    """How much privacy is free: p of a plan that loses no utility.

    ceiling:  as the network promises it.
    interval: where it may be, given that the network was fitted to few rows; None where that is not known.
    unknown:  why it is not, in words.
    """

    ceiling: float
    interval: Interval | None
    unknown: str = ""

    def __str__(self) -> str:
        shown = f"grows {times(1 + self.ceiling)} for free"
        if self.interval is None:
            return f"{shown} (no interval: {self.unknown})" if self.unknown else shown
        return f"{shown} ({self.interval})"


def block_length(rows: int, stream: FittedStream) -> int:
    """Rows of a block: long enough for noise that carries over, and half as long as slow squares of x would ask for.

    Künsch (1989): (6 r² / (1 - r²)²)^(1/3) T^(1/3) is best for a mean whose correlations fall like r^k. H and R
    depend on the noise, r = b; the prior depends on squares of x, r = a², and promises depend on it less.
    At least sixteen blocks.
    """
    of_noise = _best_length(rows, float(np.max(stream.noise.memory)))
    of_x = _best_length(rows, float(np.max(np.clip(np.diag(stream.transition), 0.0, 1.0))) ** 2) / 2
    shortest, longest = max(1, -(-rows // _MOST_BLOCKS)), max(1, rows // _FEWEST_BLOCKS)
    return int(np.clip(np.ceil(max(of_noise, of_x)), shortest, longest))


def _best_length(rows: int, persistence: float) -> float:
    return float((6.0 * rows) ** (1 / 3) * (persistence / (1.0 - persistence**2)) ** (2 / 3))


def ceiling_intervals(
    readings: Array,
    parameters: Array,
    blocks: Sequence[Integers],
    sizes: Sequence[int],
    public: Array,
    private: Mapping[str, Array],
    joint: Booleans,
    *,
    prior: bool = True,
) -> dict[str, Interval]:
    """private name -> interval of the privacy that is free (the ceiling); none where a draw leaves it without bound.

    readings, parameters: (T, N), (T, L); blocks: rows that tell little of one another, of time or whole groups;
    sizes: readings of each agent; public: U; joint: (N, N), which pairs of readings may share noise.
    """
    observe, noise, covariance = drawn_models(readings, parameters, blocks)
    if len(observe) < _DRAWS:  # values come in too few blocks
        return {}
    grown = growth_in_doubt(
        observe,
        np.where(joint, noise, 0.0),
        covariance if prior else None,
        sizes,
        public,
        list(private.values()),
    )
    lost = readings.shape[1] + parameters.shape[1] + 1
    return {
        name: interval_of(grown[:, k], len(blocks), lost)
        for k, name in enumerate(private)
        if np.all(np.isfinite(grown[:, k]))
    }


def interval_of(grown: Array, blocks: int, lost: int) -> Interval:
    """The interval from draws of log(1 + p): n blocks, of whose degrees of freedom some are lost to the fit."""
    freedom = max(blocks - lost, blocks / 4, 2.0)
    tail = (1.0 - LEVEL) / 2
    stretch = float(stdtrit(freedom, 1 - tail) / ndtri(1 - tail)) * np.sqrt(blocks / freedom)
    low, middle, high = np.quantile(grown, [tail, 0.5, 1 - tail])
    ends = [middle + stretch * (end - middle) for end in (low, high)]
    return Interval(*(float(np.expm1(max(end, 0.0))) for end in ends))


def growth_in_doubt(
    observe: Array,
    noise: Array,
    covariance: Array | None,
    sizes: Sequence[int],
    public: Array,
    private: Sequence[Array],
) -> Array:
    """(draws, private parameters) log(1 + p*): every agent sends its share of the public estimate and nothing else.

    observe, noise, covariance: (draws, ...) H, R, P0, None without a prior. The mathematics' section 3, of many
    networks at once; :func:`veilnet.check` is the careful one. Infinite where, without a prior, what is sent does not
    determine x.
    """
    prior = np.zeros((1, 1, 1)) if covariance is None else np.linalg.inv(covariance)
    weighted = np.linalg.solve(noise, observe).transpose(0, 2, 1)
    error = np.linalg.inv(prior + weighted @ observe)
    estimate = public @ error @ weighted
    owner = np.repeat(np.arange(len(sizes)), sizes)
    mine = np.arange(len(sizes))[:, None] == owner[None, :]
    shares = (estimate[:, None] * mine[:, None, :]).reshape(len(observe), -1, len(owner))
    sizes_of_shares = np.sqrt(np.sum((shares @ noise) * shares, axis=2, keepdims=True))
    shares = shares / np.maximum(sizes_of_shares, 1e-300)
    seen = shares @ observe
    across = np.linalg.pinv(shares @ noise @ shares.transpose(0, 2, 1), rcond=1e-10, hermitian=True)
    left = prior + seen.transpose(0, 2, 1) @ across @ seen
    scale = np.sqrt(np.maximum(np.einsum("dii->di", left), 1e-300))
    least = np.linalg.eigvalsh(left / (scale[:, :, None] * scale[:, None, :]))[:, 0]
    determined = least > _UNDETERMINED
    after = np.linalg.inv(np.where(determined[:, None, None], left, np.eye(left.shape[1])))
    ratios = [
        np.einsum("ki,dij,kj->d", g, after, g) / np.einsum("ki,dij,kj->d", g, error, g) for g in private
    ]
    return np.where(determined[:, None], np.log(np.stack(ratios, axis=1)), np.inf)


def drawn_models(
    readings: Array, parameters: Array, blocks: Sequence[Integers], draws: int = _DRAWS
) -> tuple[Array, Array, Array]:
    """(H, R, P0), each (draws, ...), fitted to blocks drawn with replacement; fewer where hardly any has all of x."""
    x_scale, y_scale = np.std(parameters, axis=0), np.std(readings, axis=0)
    x = (parameters - np.mean(parameters, axis=0)) / x_scale
    y = (readings - np.mean(readings, axis=0)) / y_scale
    together = np.concatenate([np.ones((len(x), 1)), x, y], axis=1)
    moments = np.stack([part.T @ part for part in (together[each] for each in blocks)])
    count, rng = x.shape[1], np.random.default_rng(_SEED)
    drawn = np.zeros((0, *moments.shape[1:]))
    for _ in range(_TRIES):
        counts = rng.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=draws)
        more = np.einsum("dn,nij->dij", counts, moments)
        whole = np.linalg.eigvalsh(_covariances(more)[:, :count, :count])[:, 0] > _UNDETERMINED
        drawn = np.concatenate([drawn, more[whole]])[:draws]
        if len(drawn) == draws:
            break
    rows, second = drawn[:, 0, 0], _covariances(drawn)
    of_x, across, of_y = second[:, :count, :count], second[:, count:, :count], second[:, count:, count:]
    observe = np.linalg.solve(of_x, across.transpose(0, 2, 1)).transpose(0, 2, 1)
    left = of_y - observe @ across.transpose(0, 2, 1)
    freedom = rows / np.maximum(rows - count - 1, 1)
    return (
        observe * y_scale[:, None] / x_scale,
        left * freedom[:, None, None] * np.outer(y_scale, y_scale),
        of_x * np.outer(x_scale, x_scale),
    )


def _covariances(moments: Array) -> Array:
    """The covariances in sums (draws, 1 + k, 1 + k) over rows of (1, x, y)."""
    rows = moments[:, :1, :1]
    mean = moments[:, :1, 1:] / rows
    return np.asarray(moments[:, 1:, 1:] / rows - mean.transpose(0, 2, 1) * mean)
