"""Means and medians over draws with 95 % confidence bands, by a seeded bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array

_RESAMPLES = 1000
_BAND = (2.5, 97.5)


@dataclass(frozen=True)
class Summary:
    """A sample in few numbers; NaNs (draws for which there is nothing to measure) are left out.

    outliers_rule: the mean lies outside the middle half of the draws, so a few of them decide it.
    """

    count: int
    mean: float
    mean_band: tuple[float, float]
    median: float
    median_band: tuple[float, float]
    outliers_rule: bool


def summarize(sample: Array) -> Summary:
    """Mean and median with bands; infinite values make the mean infinite and its band with it."""
    kept = np.sort(sample[~np.isnan(sample)])
    if kept.size == 0:
        nothing = (float("nan"), float("nan"))
        return Summary(0, float("nan"), nothing, float("nan"), nothing, False)
    rng = np.random.default_rng(0)  # the band belongs to the sample: same sample, same band
    resampled = kept[rng.integers(kept.size, size=(_RESAMPLES, kept.size))]
    middle = np.quantile(kept, [0.25, 0.5, 0.75], method="inverted_cdf")
    mean = float(np.mean(kept))
    return Summary(
        count=int(kept.size),
        mean=mean,
        mean_band=_band(np.mean(resampled, axis=1)),
        median=_median(kept),
        median_band=_band(np.array([_median(each) for each in np.sort(resampled, axis=1)])),
        outliers_rule=bool(not middle[0] <= mean <= middle[2]),
    )


def _band(values: Array) -> tuple[float, float]:
    low, high = np.percentile(values, _BAND, method="inverted_cdf")
    return float(low), float(high)


def _median(ascending: Array) -> float:
    """The median of sorted values; np.median warns of infinite neighbours."""
    low, high = ascending[(ascending.size - 1) // 2], ascending[ascending.size // 2]
    return float(low if low == high else (low + high) / 2)
