"""What a worker does with a batch of parts: read it, add it up, write its part of the plan, answer with L x L sums.

Each function is a plain function of a folder and the names of some parts. What it finds for a part it writes to
``plan/begun/`` beside the inputs, whole or not at all, under a key of everything it depends on; a later call with the
same key reads that instead of computing it. A task that ran twice, because a worker died or a run was repeated,
therefore answers with the same bits. What is in service stays as it is until the new plan is confirmed
(:mod:`veilnet.cluster.promises`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.stacks import joined_triangle, raw_triangle, sent_triangle
from veilnet._core.types import Array, Integers
from veilnet.agent.grid import grid_steps
from veilnet.agent.recipe import reach
from veilnet.bounds.message_noise import own_covariances
from veilnet.cluster.parts import DAMAGED, LoadedPart, arrays_of, written
from veilnet.cluster.sending import PLAN, read_sending, stacks_of
from veilnet.plans.release_grid import beyond_reach
from veilnet.recheck.noise_power import noise_power
from veilnet.recheck.sums import raw_information, sent_information
from veilnet.verdict.share_stacks import share_stack

SUMS = "sums"
BEGUN = "begun"
"""In the folder of the plan: parts of one that is not in service yet."""
_SAME_TRIANGLE = 1e-9  # of the information: what two formulas for it may differ by


@dataclass(frozen=True, eq=False)
class BatchSums:
    """What a batch, or several of them together, add up to; L x L each, and a few numbers.

    triangle: T with T'T the information, of raw readings in the first pass and of what is sent in the second.
    raw:      Σ H'R^-1 H, and
    left:     Σ H'C'(C R C' + Θ)^+ C H, by the formulas of the certificate.
    exposed:  how many agents send some exact numbers and not everything, though nothing is said of the resolution of
              their readings.
    noisiest: of every part its name, and of the agent in it that adds most noise to its readings the place and tr Θ.
    computed: names of the parts worked on.
    waiting:  names of the parts of the plan that are not in service yet.
    """

    triangle: Array
    raw: Array
    left: Array
    agents: int = 0
    readings: int = 0
    numbers: int = 0
    condition: float = 1.0
    exposed: int = 0
    computed: tuple[str, ...] = field(default=())
    noisiest: tuple[tuple[str, int, float], ...] = field(default=())
    waiting: tuple[str, ...] = field(default=())


def joined(several: Sequence[BatchSums]) -> BatchSums:
    """The sums of batches together, in the order given."""
    length = several[0].triangle.shape[1]
    triangle = joined_triangle((each.triangle for each in several), length)
    raw, left = np.zeros((length, length)), np.zeros((length, length))
    for each in several:
        raw += each.raw
        left += each.left
    return BatchSums(
        triangle,
        raw,
        left,
        agents=sum(each.agents for each in several),
        readings=sum(each.readings for each in several),
        numbers=sum(each.numbers for each in several),
        condition=max(each.condition for each in several),
        exposed=sum(each.exposed for each in several),
        computed=tuple(name for each in several for name in each.computed),
        noisiest=tuple(part for each in several for part in each.noisiest),
        waiting=tuple(name for each in several for name in each.waiting),
    )


Making = Callable[[], tuple[Array, Array | None, Integers]]
"""Makes rows of raw readings, (s, most, n), variances of their noise, (s, most), 0 or 1, or None where nothing is
added, and how many are sent, (s,)."""


def sent_sums(
    name: str, part: LoadedPart, folder: Path, key: str, make: Making, *, share: int | None = None, keep: bool = True
) -> BatchSums:  # fmt: skip
    """The sums of a part of the plan: in service or begun by an earlier run under the same key; otherwise made now.

    key:   a digest of everything that what is sent depends on.
    share: how many rows a share has at most, which carries no noise; None where rows carry noise.
    keep:  whether what is made is written down.
    """
    count, size, length = part.observe.shape
    most = size if share is None else share
    shapes: dict[str, tuple[int, ...]] = {"compression": (count, most, size), "sent": (count,)}
    shapes |= dict.fromkeys(("grid",) if share is not None else ("grid", "variances"), (count, most))
    shapes |= dict.fromkeys(("triangle", "raw", "left"), (length, length))
    begun = folder / PLAN / BEGUN / name
    for path in (folder / PLAN / name, begun):
        found = finished(path, key, shapes)
        if found is not None and _tells_what_it_says(part, found):
            fresh, waiting = False, path == begun
            break
    else:
        found = {"key": np.array(key), "digest": np.array(part.digest), **_told(part, *make())}
        fresh, waiting = True, keep
        if keep:
            written(begun, found)
    sent, variances = found["sent"], found.get("variances")
    return BatchSums(
        found["triangle"], found["raw"], found["left"],
        agents=count, readings=count * size, numbers=int(sent.sum()), condition=part.condition,
        exposed=exposed(part, sent, variances), computed=(name,) if fresh else (), waiting=(name,) if waiting else (),
        noisiest=() if variances is None else noisiest(name, found["compression"], sent, variances),
    )  # fmt: skip


def _told(part: LoadedPart, rows: Array, variances: Array | None, sent: Integers) -> dict[str, Any]:
    unsent = np.arange(rows.shape[1]) >= sent[:, None]
    rows[unsent] = 0.0
    if variances is not None:
        variances[unsent] = 0.0
    raw, left = information(part, rows, sent, variances)
    return {
        "compression": rows,
        **({} if variances is None else {"variances": variances}),
        "sent": sent,
        "grid": grids(part, rows, sent, variances),
        "triangle": told_triangle(part, rows, sent, variances),
        "raw": raw,
        "left": left,
    }


def told_triangle(part: LoadedPart, rows: Array, sent: Integers, variances: Array | None = None) -> Array:
    """T with T'T the information of what the agents of a part send, (L, L)."""
    return joined_triangle(
        (
            sent_triangle(
                part.observe[each.places], part.roots[each.places], each.compression, each.variances
            )
            for each in stacks_of(rows, sent, variances)
            if each.sent
        ),
        part.observe.shape[2],
    )


def raw_sums(name: str, part: LoadedPart, folder: Path, keep: bool) -> BatchSums:
    """The first pass: what the raw readings of a part tell.

    keep: whether it is written down for later calls.
    """
    path = folder / PLAN / SUMS / name
    count, size, length = part.observe.shape
    before = finished(path, part.digest, {"triangle": (length, length)})
    triangle = raw_triangle(part.observe, part.roots) if before is None else before["triangle"]
    if before is None and keep:
        written(path, {"key": np.array(part.digest), "triangle": triangle})
    nothing = np.zeros((length, length))
    return BatchSums(
        triangle, nothing, nothing,
        agents=count, readings=count * size, condition=part.condition, computed=() if before else (name,),
    )  # fmt: skip


def share_sums(
    name: str, part: LoadedPart, folder: Path, weights: Array, tolerance: float, keep: bool
) -> BatchSums:
    """The second pass: what every agent of a part has to send.

    weights, tolerance: of :func:`veilnet.verdict.share_stacks.share_stack`, the same for all agents.
    keep:               whether it is written as a part of a plan.
    """
    key = hashlib.sha256(
        part.digest.encode() + weights.tobytes() + np.float64(tolerance).tobytes()
    ).hexdigest()

    def make() -> tuple[Array, None, Integers]:
        found = share_stack(part.observe, part.roots, weights, tolerance)
        return np.array(found.rows), None, found.ranks

    most = min(part.observe.shape[1], weights.shape[1])
    return sent_sums(name, part, folder, key, make, share=most, keep=keep)


def exposed(part: LoadedPart, sent: Any, variances: Array | None = None) -> int:
    """How many agents withhold something by exact numbers, of readings that may lie on a lattice nobody knows."""
    if part.resolution is not None:
        return 0
    exact = sent if variances is None else sent - np.sum(variances, axis=1)
    return int(np.sum((exact > 0) & (exact < part.observe.shape[1])))


def noisiest(
    name: str, rows: Array, sent: Any, variances: Array | None
) -> tuple[tuple[str, int, float], ...]:
    """The name of a part, and the place and noise power of the agent in it that adds most to its readings."""
    found = np.empty(len(rows))
    for stack in stacks_of(rows, sent, variances):
        found[stack.places] = noise_power(stack.compression, stack.noise)
    most = int(np.argmax(found))
    return ((name, most, float(found[most])),)


def _tells_what_it_says(part: LoadedPart, found: Mapping[str, Any]) -> bool:
    """Whether rows of a finished part still tell what was written beside them, to the last bit, on their grids."""
    rows, sent, variances = found["compression"], found["sent"], found.get("variances")
    if not np.all((sent >= 0) & (sent <= rows.shape[1])):
        return False
    raw, left = information(part, rows, sent, variances)
    apart = np.abs(found["triangle"].T @ found["triangle"] - left)
    return (
        np.array_equal(raw, found["raw"])
        and np.array_equal(left, found["left"])
        and bool(np.all(apart <= _SAME_TRIANGLE * np.trace(left)))
        and np.array_equal(grids(part, rows, sent, variances), found["grid"])
    )


def grids(part: LoadedPart, rows: Array, sent: Any, variances: Array | None = None) -> Array:
    """The grid for each number sent, (s, k); 0 where there is none. One that reaches less far than readings go by the
    model is refused.
    """
    grid = np.zeros(rows.shape[:2])
    for stack in stacks_of(rows, sent, variances):
        mine, number = stack.places, stack.sent
        if not number:
            continue
        try:
            grid[mine, :number] = grid_steps(
                own_covariances(stack.compression, part.noise[mine], stack.noise)
            )
        except InvalidNetwork:  # numbers that repeat others: no grid is right
            grid[mine, :number] = np.nan
            continue
        if part.farthest is not None:
            worst = np.max(part.farthest[mine] / reach(stack.compression, grid[mine, :number], None), axis=1)
            if np.any(worst > 1):
                agent = int(mine[np.argmax(worst)])
                raise beyond_reach(
                    part.names[agent] if part.names else f"agent {agent} of the part", worst.max()
                )
    return grid


def _same_grid(found: Array, expected: Array) -> bool:
    # On another machine, a deviation on the edge may round to the neighbouring power of two.
    return bool(np.all((found <= 2 * expected) & (expected <= 2 * found)))


def information(
    part: LoadedPart, rows: Array, sent: Any, variances: Array | None = None
) -> tuple[Array, Array]:
    """(Σ H'R^-1 H, Σ H'C'(C R C' + Θ)^+ C H), by the certificate's own formulas."""
    length = part.observe.shape[2]
    left = np.zeros((length, length))
    for stack in stacks_of(rows, sent, variances):
        mine = stack.places
        left += sent_information(part.observe[mine], part.noise[mine], stack.compression, stack.noise)
    return raw_information(part.observe, part.noise), left


def certificate_sums(name: str, part: LoadedPart, folder: Path) -> BatchSums:
    """The sums of the certificate from a part as it is on disk, network and plan, and nothing else."""
    sending = read_sending(folder, name, part)
    rows, sent, variances = sending.compression, sending.sent, sending.variances
    count, size, length = part.observe.shape
    if not _same_grid(sending.grid, grids(part, rows, sent, variances)):
        raise InvalidPlan(f"{folder / PLAN / name}: not the grid that the noise calls for; design once more")
    raw, left = information(part, rows, sent, variances)
    return BatchSums(
        np.zeros((length, length)), raw, left,
        agents=count, readings=count * size, numbers=int(sent.sum()), condition=part.condition, computed=(name,),
        noisiest=noisiest(name, rows, sent, variances),
    )  # fmt: skip


def finished(path: Path, key: str, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any] | None:
    """What an earlier run left for the same inputs; None where it left nothing, or nothing that can be read."""
    try:
        with path.open("rb") as file:
            found = arrays_of(file)
    except DAMAGED:
        return None
    as_written = all(
        name in found
        and found[name].shape == shape
        and found[name].dtype.kind == ("i" if name == "sent" else "f")
        and np.all(np.isfinite(found[name]))
        for name, shape in shapes.items()
    )
    return found if as_written and str(found.get("key")) == key else None
