"""How probable rows are under a model, each given those before it in its segment (natural logarithms)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from veilnet._core.lyapunov import stationary_covariance
from veilnet._core.types import Array, Integers

_SETTLED = 1e-10  # relative change below which the filter's gain is taken to be steady


def row_likelihood(centred: Array, covariance: Array) -> Array:
    """(T,) of rows that know nothing of each other."""
    root = np.linalg.cholesky(covariance)
    unit = np.linalg.solve(root, centred.T)
    return np.asarray(-0.5 * np.sum(unit**2 + np.log(2 * np.pi), axis=0) - np.sum(np.log(np.diag(root))))


def transition_likelihood(
    centred: Array, segments: Integers, transition: Array, renewed: Array, covariance: Array
) -> Array:
    """(T,) of x_{t+1} = A x_t + w; the first row of a segment has the covariance of x in the long run."""
    follows = np.concatenate([[False], np.diff(segments) == 0])
    found = row_likelihood(centred, covariance)
    before = np.flatnonzero(follows) - 1
    found[follows] = row_likelihood(centred[before + 1] - centred[before] @ transition.T, renewed)
    return found


def noise_likelihood(
    residuals: Array, segments: Integers, memory: Array, innovation: Array, floor: Array
) -> Array:
    """(T,) of n_t = s_t + f_t with s_{t+1} = diag(b) s_t + e_t, each segment from the long run."""
    carried = stationary_covariance(np.diag(memory), innovation)
    found = np.empty(len(residuals))
    edges = np.concatenate([[0], np.flatnonzero(np.diff(segments) != 0) + 1, [len(residuals)]])
    for start, end in pairwise(edges.tolist()):
        found[start:end] = _of_segment(residuals[start:end], memory, innovation, floor, carried)
    return found


def _of_segment(residuals: Array, memory: Array, innovation: Array, floor: Array, carried: Array) -> Array:
    error, state = carried, np.zeros(len(memory))
    surprises = np.empty_like(residuals)
    logarithms = np.empty(len(residuals))
    steady = False
    for t, seen in enumerate(residuals):
        if not steady:
            root = np.linalg.cholesky(error + floor)
            gain = np.linalg.solve(root.T, np.linalg.solve(root, error)).T
            whiten = np.linalg.inv(root)
            logarithm = float(np.sum(np.log(np.diag(root))))
            updated = memory[:, None] * (error - gain @ error) * memory + innovation
            updated = (updated + updated.T) / 2
            steady = bool(np.max(np.abs(updated - error)) <= _SETTLED * np.max(np.abs(error)))
            error = updated
        surprise = seen - state
        surprises[t] = whiten @ surprise
        logarithms[t] = logarithm
        state = memory * (state + gain @ surprise)
    return np.asarray(-0.5 * np.sum(surprises**2 + np.log(2 * np.pi), axis=1) - logarithms)
