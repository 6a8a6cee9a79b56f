"""A linear filter over a block of rows, without a loop over rows.

s_t = F s_{t-1} + b_t by doubling: if every row holds the sum of the last m terms F^j b_{t-j}, then adding F^m times
the row m before makes it the last 2m. Within short pieces first, then from piece to piece, so that most of the work
is done a few times for each row. The sums are those of the loop up to rounding, in another order.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array

__all__ = ["Filter"]

_PIECE = 8
_FEW = 4  # rows for which a loop costs less


class Filter:
    """The states s_t = F s_{t-1} + K y_t over blocks of rows, the powers of F worked out once.

    transition: F, stable.
    gain:       K.
    """

    def __init__(self, transition: Array, gain: Array) -> None:
        self._gain = np.ascontiguousarray(gain.T)
        self._transition = np.ascontiguousarray(transition.T)
        powers = [np.eye(len(transition))]
        for _ in range(_PIECE):
            powers.append(powers[-1] @ self._transition)
        self._within = np.concatenate(powers[1:], axis=1)  # F^1 ... F^piece side by side
        self._doubled = [powers[1], powers[2], powers[4], powers[8]]

    def run(self, state: Array, inputs: Array) -> Array:
        """s after each row (T, k), from the state before and the rows (T, n) that enter; zeros for one missed."""
        driven = inputs @ self._gain
        if len(driven) <= _FEW:
            for place, row in enumerate(driven):
                row += state @ self._transition
                state = driven[place]
            return np.asarray(driven)
        whole = len(driven) - len(driven) % _PIECE
        states = np.empty(driven.shape)
        if whole:
            states[:whole] = self._pieces(state, driven[:whole])
            state = states[whole - 1]
        for place in range(whole, len(driven)):
            state = states[place] = driven[place] + state @ self._transition
        return states

    def _pieces(self, state: Array, driven: Array) -> Array:
        order = driven.shape[1]
        local = driven.reshape(-1, _PIECE, order)
        for level, length in enumerate((1, 2, 4)):
            local[:, length:] += local[:, :-length] @ self._doubled[level]
        ends = local[:, -1].copy()
        ends[0] += state @ self._doubled[3]
        self._across(ends)
        before = np.concatenate([state[None, :], ends[:-1]])
        local += (before @ self._within).reshape(-1, _PIECE, order)
        return np.asarray(local.reshape(-1, order))

    def _across(self, ends: Array) -> None:
        """The same from piece to piece, in place."""
        level, length = 3, 1
        while length < len(ends):
            if level == len(self._doubled):
                self._doubled.append(self._doubled[-1] @ self._doubled[-1])
            ends[length:] += ends[:-length] @ self._doubled[level]
            level, length = level + 1, 2 * length
