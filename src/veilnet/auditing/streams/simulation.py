"""Streams drawn from the model: x row after row, and the readings that sensors would give."""

from __future__ import annotations

import numpy as np

from veilnet._core.linalg import positive_root
from veilnet._core.types import Array
from veilnet.auditing.streams.window import Noises, first_row, means_over_rows
from veilnet.auditing.world import Streams
from veilnet.model.network import Network
from veilnet.model.readings import dither_variance


def draw_streams(network: Network, count: int, rows: int, rng: np.random.Generator) -> Streams:
    """Streams of the model; x has settled when they begin.

    Readings with a resolution are rounded to their lattice where the white part of their noise has room for what
    rounding adds (step²/12); elsewhere they are left as they are, so that the covariance stays the network's.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    mean, covariance = first_row(network, settled=True)
    away = _walk(dynamics.transition, covariance, dynamics.noise, (count, rows), rng)
    x = means_over_rows(dynamics.transition, dynamics.mean, mean, rows) + away
    noises = Noises.of(network, dither=False)
    readings = x @ network.H.T + network.offset
    if network.colour is not None:
        readings = readings + _walk(noises.memory, noises.carried, noises.innovation, (count, rows), rng)
    before_rounding = noises.floor - np.diag(dither_variance(network.steps))
    if np.linalg.eigvalsh(before_rounding)[0] < 0:
        return Streams(x, readings + _draw(noises.floor, (count, rows), rng))
    readings = readings + _draw(before_rounding, (count, rows), rng)
    coarse = network.steps > 0
    steps = np.where(coarse, network.steps, 1.0)
    return Streams(x, np.where(coarse, steps * np.rint(readings / steps), readings))


def _walk(
    transition: Array, first: Array, new: Array, shape: tuple[int, int], rng: np.random.Generator
) -> Array:
    """Draws (streams, rows, n) of v_{t+1} = A v_t + w_t, v_0 ~ N(0, first)."""
    count, rows = shape
    found = np.empty((count, rows, len(transition)))
    fresh = _draw(new, shape, rng)
    current = _draw(first, (count, 1), rng)[:, 0]
    for row in range(rows):
        found[:, row] = current
        current = current @ transition.T + fresh[:, row]
    return found


def _draw(covariance: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    root = positive_root(covariance)
    return np.asarray(rng.standard_normal((*shape, len(root))) @ root)
