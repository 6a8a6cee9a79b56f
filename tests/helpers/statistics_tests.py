"""Tests of simulated errors with a fixed false-alarm rate."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from veilnet._core.types import Array

FALSE_ALARM = 1e-6


def law_is_off(sample: Array, covariance: Array, rate: float = FALSE_ALARM) -> bool:
    """Whether rows do not look normal with mean zero and the given covariance.

    Half of the false-alarm rate goes to the likelihood ratio of the covariance, half to the mean.
    """
    count, size = sample.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), sample.T)
    found = white @ white.T / count
    spread = count * (np.trace(found) - np.linalg.slogdet(found)[1] - size)
    bias = count * float(np.sum(np.mean(white, axis=1) ** 2))
    return bool(spread > chi2.isf(rate / 2, size * (size + 1) // 2) or bias > chi2.isf(rate / 2, size))
