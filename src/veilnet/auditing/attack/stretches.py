"""Rows to learn from and rows to be judged on, in contiguous stretches of time; and what attackers remember.

Neighbouring rows are alike. An attacker who has learned from the row before and the row after knows the one between
without any message, so rows are never dealt out at random: each of four stretches is judged by an attacker who
learned from the other three, less the rows next to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from veilnet._core.types import Array, Integers

STRETCHES = 4
_LAGS = (1, 2, 3, 4, 5, 6, 12, 24, 48)
_MOST_FEATURES = 120


@dataclass(frozen=True, eq=False)
class Stretch:
    """Places of rows: to learn from, and to be judged on."""

    learned: Integers
    judged: Integers


def stretches_of(count: int, apart: int) -> list[Stretch]:
    """Four stretches of ``count`` rows, each at least ``apart`` rows away from those that are learned from for it."""
    edges = np.linspace(0, count, STRETCHES + 1).astype(int)
    places = np.arange(count)
    apart = max(apart, count // 100)
    return [
        Stretch(places[(places < first - apart) | (places >= last + apart)], places[first:last])
        for first, last in pairwise(edges)
    ]


def lags_for(count: int, numbers: int) -> tuple[int, ...]:
    """The past rows an attacker with memory is shown: as many as there are rows and readings for."""
    most = max(1, _MOST_FEATURES // max(1, numbers) - 1)
    return tuple(lag for lag in _LAGS if lag <= count // 40)[:most]


def remembered(values: Array, places: Integers, lags: tuple[int, ...]) -> tuple[Array, Integers]:
    """(features, rows): each row beside those ``lags`` before it, and which rows have all of them.

    places: the number of each row in the log; a lag that falls into a gap leaves the row out.
    """
    position = np.full(int(places[-1]) + 1, -1)
    position[places] = np.arange(len(places))
    past = np.stack([position[np.maximum(places - lag, 0)] for lag in (0, *lags)], axis=1)
    whole = np.flatnonzero(np.all(past >= 0, axis=1) & (places >= max(lags, default=0)))
    features = values[past[whole]].reshape(len(whole), -1)
    return np.asarray(features), whole
