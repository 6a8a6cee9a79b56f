"""A part of the plan: what its agents send, with or without noise, and what is known from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.stacks import joined_triangle, sent_triangle
from veilnet._core.types import Array, Integers
from veilnet.cluster.parts import LoadedPart
from veilnet.cluster.tasks import BatchSums, exposed, grids, information, noisiest, part_of_plan

Making = Callable[[], tuple[Array, Array, Integers]]
"""Makes rows of raw readings, (s, n, n), variances of their noise, (s, n), 0 or 1, and how many are sent, (s,)."""


def sent_sums(name: str, part: LoadedPart, folder: Path, key: str, make: Making) -> BatchSums:
    """The sums of a part of the plan: that which an earlier run finished under the same key, or made and written now.

    key: a digest of everything that what is sent depends on.
    """
    count, size, length = part.observe.shape
    shapes: dict[str, tuple[int, ...]] = {"compression": (count, size, size), "sent": (count,)}
    shapes |= {"grid": (count, size), "variances": (count, size)}
    shapes |= dict.fromkeys(("triangle", "raw", "left"), (length, length))
    made = part_of_plan(folder, name, part, key, shapes, lambda: _told(part, *make()))
    found = made.arrays
    return BatchSums(
        found["triangle"], found["raw"], found["left"],
        agents=count, readings=count * size, numbers=int(found["sent"].sum()), condition=part.condition,
        computed=(name,) if made.fresh else (), waiting=(name,) if made.waiting else (),
        exposed=exposed(part, found["sent"], found["variances"]),
        noisiest=noisiest(name, found["compression"], found["sent"], found["variances"]),
    )  # fmt: skip


def _told(part: LoadedPart, rows: Array, variances: Array, sent: Integers) -> dict[str, Any]:
    unsent = np.arange(rows.shape[1]) >= sent[:, None]
    rows[unsent], variances[unsent] = 0.0, 0.0
    raw, left = information(part, rows, sent, variances)
    return {
        "compression": rows,
        "variances": variances,
        "sent": sent,
        "grid": grids(part, rows, sent, variances),
        "triangle": told_triangle(part, rows, sent, variances),
        "raw": raw,
        "left": left,
    }


def told_triangle(part: LoadedPart, rows: Array, sent: Integers, variances: Array | None = None) -> Array:
    """T with T'T the information of what the agents of a part send, (L, L)."""
    triangles = []
    for number in np.unique(sent[sent > 0]).tolist():
        mine = np.flatnonzero(sent == number)
        triangles.append(
            sent_triangle(
                part.observe[mine],
                part.roots[mine],
                np.ascontiguousarray(rows[mine, :number]),
                None if variances is None else np.ascontiguousarray(variances[mine, :number]),
            )
        )
    return joined_triangle(triangles, part.observe.shape[2])
