"""The least memory with which an agent can compute its share: balanced reduction of one linear filter.

A filter h_k = c F^k B (k = 0, 1, ...: what a reading of k rows ago counts in the number sent now) needs as many
numbers of memory as its Hankel matrix [h_{j+k}] has rank. Singular values of that matrix below ``tolerance`` are
left out: they change what is sent by no more than twice their sum, in deviations, whatever the readings are (Glover
1984, Enns 1984).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.lyapunov import stationary_root
from veilnet._core.types import Array

__all__ = ["WELL_CONDITIONED", "Filter", "minimal_filter", "remembered_filter"]

# A feed-through needs F^-1 of the reduced filter; beyond this condition the longer memory is kept instead.
WELL_CONDITIONED = 1e5


@dataclass(frozen=True, eq=False)
class Filter:
    """s_t = transition s_{t-1} + gain y_t, sending from_memory s_t + from_reading y_t.

    kept:    the smallest Hankel singular value that counts, inf where none does.
    dropped: the largest one that does not, 0 where all do.
    """

    transition: Array
    gain: Array
    from_memory: Array
    from_reading: Array
    kept: float
    dropped: float

    @property
    def order(self) -> int:
        return len(self.transition)


def minimal_filter(transition: Array, gain: Array, rows: Array, *, tolerance: float) -> Filter:
    """The filter rows·s, s = F s + K y, with the fewest numbers kept; F stable.

    transition: F.
    gain:       K, its columns one deviation of a reading each.
    rows:       what is sent of s, in deviations that count.
    tolerance:  Hankel singular values up to this are left out.
    """
    reach = stationary_root(transition, gain)
    whole = _balanced(transition, gain, rows, reach, tolerance)
    # Past readings alone: what remains when today's reading goes straight into the number sent.
    past = _balanced(transition, gain, rows @ transition, reach, tolerance)
    if past.order == whole.order or past.order == 0:
        if past.order:
            return whole
        return Filter(past.transition, past.gain, past.from_memory, rows @ gain, past.kept, past.dropped)
    if np.linalg.cond(past.transition) > WELL_CONDITIONED:
        return whole
    from_memory = np.ascontiguousarray(np.linalg.solve(past.transition.T, past.from_memory.T).T)
    return Filter(
        past.transition,
        past.gain,
        from_memory,
        rows @ gain - from_memory @ past.gain,
        past.kept,
        past.dropped,
    )


def remembered_filter(transition: Array, gain: Array, rows: Array, *, tolerance: float) -> Filter:
    """The same filter with the fewest numbers kept when what is sent is to be had from the memory alone."""
    return _balanced(transition, gain, rows, stationary_root(transition, gain), tolerance)


def _balanced(transition: Array, gain: Array, rows: Array, reach: Array, tolerance: float) -> Filter:
    """Square-root balanced truncation: from factors of both Gramians, which keep the small singular values."""
    seen = stationary_root(transition.T, rows.T)
    left, singular, right = np.linalg.svd(seen.T @ reach, full_matrices=False)
    count = int(np.sum(singular > tolerance))
    roots = np.sqrt(singular[:count])
    into = (seen @ left[:, :count] / roots).T
    out = reach @ right[:count].T / roots
    return Filter(
        transition=into @ transition @ out,
        gain=into @ gain,
        from_memory=rows @ out,
        from_reading=np.zeros((len(rows), gain.shape[1])),
        kept=float(np.min(singular[:count], initial=np.inf)),
        dropped=float(np.max(singular[count:], initial=0.0)),
    )
