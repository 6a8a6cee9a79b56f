"""Steady states by doubling: every round covers twice as many rows of the stream as the one before.

The filter and the smoother of one stream are a pair of dual Riccati equations, and the structured doubling algorithm
(Chu, Fan, Lin and Wang, 2004) solves both at once. Their derivatives are Stein equations, doubled likewise.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgesv

from veilnet._core.types import Array

_ROUNDS = 40
_SETTLED = 1e-14
_DIVERGED = 1e200


def filter_and_smoother(transition: Array, noise: Array, information: Array) -> tuple[Array, Array] | None:
    """Σ and Y of the steady state, None where there is none.

    ``transition`` A, ``noise`` Q and ``information`` J per row: Σ = A (Σ^-1 + J)^-1 A' + Q is the error covariance of
    the state before its row has come, Y = J + A'(Y^-1 + Q)^-1 A what its row and all later ones tell of it.
    """
    step: Array = transition.T
    ahead, behind = information, noise
    size = len(step)
    for _ in range(_ROUNDS):
        system = ahead @ behind
        system.flat[:: size + 1] += 1.0
        _, _, solved, failed = dgesv(system, np.hstack([step, ahead]), overwrite_a=1, overwrite_b=1)
        if failed:
            return None
        onward, gathered = solved[:, :size], solved[:, size:]
        more_ahead = step @ gathered @ step.T
        more_behind = step.T @ (behind @ onward)
        step = step @ onward
        ahead = ahead + (more_ahead + more_ahead.T) / 2
        behind = behind + (more_behind + more_behind.T) / 2
        largest = max(float(np.abs(ahead).max()), float(np.abs(behind).max()))
        if not largest < _DIVERGED:
            return None
        if _small(more_ahead, ahead) and _small(more_behind, behind):
            return behind, ahead
    return None


def stein(step: Array, source: Array) -> Array:
    """Λ = step' Λ step + source, for a step whose powers vanish."""
    total = source
    for _ in range(_ROUNDS):
        more = step.T @ total @ step
        total = total + more
        if not np.isfinite(more[0, 0]) or _small(more, total):
            break
        step = step @ step
    return np.asarray((total + total.T) / 2)


def _small(change: Array, whole: Array) -> bool:
    return bool(np.abs(change).max() <= _SETTLED * np.abs(whole).max())
