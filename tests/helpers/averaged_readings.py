"""Readings as loggers write them: the mean of a minute, of a sensor that shows whole steps."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

SAMPLES = 12  # a minute


def averaged(rng: np.random.Generator, values: np.ndarray, step: float, restless: float = 0.25) -> np.ndarray:
    """Means of twelve readings of each value in whole steps, which flicker by such a part of a step."""
    flicker = restless * rng.standard_normal((*values.shape, SAMPLES))
    return np.asarray(step * np.mean(np.rint(values[..., None] / step + flicker), axis=-1))


def minutes(rng: np.random.Generator, rows: int, step: float, spread: float = 40.0) -> np.ndarray:
    """Averaged readings of something slow, which strays by so many steps."""
    memory = 0.999
    moves = lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.standard_normal(rows))
    return averaged(rng, step * spread * moves, step)
