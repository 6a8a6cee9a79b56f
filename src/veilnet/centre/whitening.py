"""What makes the noise of messages white, for one agent or a stack of agents alike."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array

_REPEATS = 1e-13  # a number that keeps less than this part of its deviation repeats others


def whitening(compression: Array, roots: Array, added_roots: Array | None = None) -> tuple[Array, Array]:
    """(W_i, whether all numbers of agent i differ) with W_i (C_i R_i C_i' + Θ_i) W_i' = I, lower triangular.

    From square roots: noise many orders above the readings' costs no digits.

    compression: C_i, (S, k, n).
    roots:       L_i with L_i L_i' = R_i, (S, n, n).
    added_roots: B_i with B_i'B_i = Θ_i, (S, rows, k); no noise is added when left out.
    """
    count, sent, _ = compression.shape
    if sent == 0:
        return np.zeros((count, 0, 0)), np.ones(count, bool)
    factor = np.swapaxes(compression @ roots, 1, 2)
    if added_roots is not None:
        factor = np.concatenate([factor, added_roots], axis=1)
    if factor.shape[1] < sent:  # more numbers than readings: some of them repeat others
        return np.zeros((count, sent, sent)), np.zeros(count, bool)
    upper = np.asarray(np.linalg.qr(factor, mode="r"))
    diagonal = np.diagonal(upper, axis1=1, axis2=2)
    upper = np.asarray(upper * np.where(diagonal < 0, -1.0, 1.0)[:, :, None])
    differ = np.all(np.abs(diagonal) > _REPEATS * np.linalg.norm(upper, axis=1), axis=1)
    lower = np.swapaxes(np.where(differ[:, None, None], upper, np.eye(sent)), 1, 2)
    return np.asarray(np.linalg.solve(lower, np.broadcast_to(np.eye(sent), lower.shape))), differ
