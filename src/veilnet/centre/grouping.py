"""Rows in which the same agents sent, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array, Booleans, Integers

__all__ = ["by_who_sent", "silent_agents"]

_SMALL = 16  # agents that fit into a code for which sorting takes one pass


def by_who_sent(silent: Booleans) -> tuple[Integers, list[tuple[Booleans, slice]]]:
    """An order of rows that puts equal ones together, and each pattern with where it then stands.

    silent: (agents, rows), who did not send.
    """
    agents, rows = silent.shape
    if not silent.any():
        return np.arange(rows), [(silent[:, 0], slice(0, rows))] if rows else []
    code: np.ndarray[Any, Any]
    if agents <= _SMALL:
        code = np.zeros(rows, np.uint16)
        for place, mine in enumerate(silent):
            code |= mine.astype(np.uint16) << np.uint16(place)
    else:
        packed = np.ascontiguousarray(np.packbits(silent, axis=0).T)
        whole = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
        code = np.unique(whole, return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    ends = [*starts[1:], rows]
    return order, [
        (silent[:, order[start]], slice(start, end)) for start, end in zip(starts, ends, strict=True)
    ]


def silent_agents(blocks: Blocks, stacked: Array) -> Booleans:
    """(agents, rows): who did not send all its numbers; ``blocks`` says how the columns fall to agents."""
    silent = np.zeros((blocks.count, len(stacked)), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        # a sum of squares is finite only if every number is: the cheapest look at all of them
        if np.isfinite(np.vdot(stacked, stacked)):
            return silent
    for owner, column in zip(blocks.owner, stacked.T, strict=True):
        silent[owner] |= ~np.isfinite(column)
    return silent
