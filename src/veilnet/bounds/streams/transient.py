"""The first rows of a stream, before its filter has settled: errors row by row, now and with hindsight.

Memories begin at zero, which everybody knows, and x at its first distribution. The error before row t follows the
Riccati recursion; with hindsight over T rows it is P_t - P_t Λ_t P_t with Λ_t = Φ_t' Λ_{t+1} Φ_t + C'V_t^+ C (Bryson
and Frazier). V_t, the covariance of what is new in a row of messages, may be singular where exact numbers repeat one
another: directions below rounding are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.bounds.streams.state_space import StateSpace

__all__ = ["FirstRows", "first_rows"]

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class FirstRows:
    """Error covariances of x in each of the first rows.

    now:       (rows, L, L), given the messages up to the row.
    hindsight: (rows, L, L), given those of all the rows.
    """

    now: Array
    hindsight: Array


def first_rows(model: StateSpace, count: int) -> FirstRows:
    """The errors of x in ``count`` rows of a stream that begins with them."""
    if model.start is None:
        raise InvalidRequest(
            "prior: nothing is known of the first x, which does not return to its mean; give prior=, its "
            "distribution"
        )
    before, moves, tells = [model.start], [], []
    now = np.empty((count, model.size, model.size))
    for t in range(count):
        half = before[t] @ model.observe.T
        inverse = _inverse(model.observe @ half + model.floor)
        left = np.eye(model.size) - half @ inverse @ model.observe
        gain = half @ inverse
        now[t] = left @ before[t] @ left.T + gain @ model.floor @ gain.T
        moves.append(model.transition @ left)
        tells.append(model.observe.T @ inverse @ model.observe)
        following = model.transition @ now[t] @ model.transition.T + model.noise
        before.append((following + following.T) / 2)
    later, hindsight = np.zeros((model.size, model.size)), np.empty_like(now)
    for t in range(count - 1, -1, -1):
        later = tells[t] + moves[t].T @ later @ moves[t]
        hindsight[t] = before[t] - before[t] @ later @ before[t]
    return FirstRows(now[:, model.x, model.x], hindsight[:, model.x, model.x])


def _inverse(news: Array) -> Array:
    sizes = np.sqrt(np.maximum(np.diag(news), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    values, vectors = np.linalg.eigh(news / np.outer(sizes, sizes))
    kept = values > _ROUNDING * max(1.0, float(np.max(values, initial=0.0)))
    half = vectors[:, kept] / np.sqrt(values[kept]) / sizes[:, None]
    return np.asarray(half @ half.T)
