"""What all parts add up to: L x L sums and a few numbers, in a tree of fixed shape.

Each task is a plain function of one part. What it finds for a part of a plan it writes to ``plan/begun/`` beside the
inputs, whole or not at all, under a key of everything it depends on; a later call with the same key reads that
instead of computing it. A task that ran twice, because a worker died or a run was repeated, therefore answers with
the same bits. What is in service stays as it is until the new plan is confirmed (:mod:`veilnet.cluster.plans`).
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.linalg import triangle
from veilnet._core.stacks import raw_triangle
from veilnet._core.types import Array, Integers
from veilnet.agent.mechanisms import Mechanisms
from veilnet.bounds.knowledge import message_factor
from veilnet.cluster.files import kept_arrays, write_arrays
from veilnet.cluster.parts import PartFile
from veilnet.cluster.plans import BEGUN, PLAN, planned, sent_by, stacked
from veilnet.model.network import Network
from veilnet.plans.release_grid import with_release_grid
from veilnet.recheck.sums import information_sums, powers_of
from veilnet.verdict.notes import exposing, unstated
from veilnet.verdict.shares import share_stack

SAME_INFORMATION = 1e-9  # of it: what two formulas may differ by


def joined_by(how: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The metadata of a field of a :class:`Summed` that is not added, but joined by a function of two."""
    return {"join": how}


class Summed:
    """What is added up over parts, in their order, each field of a dataclass by itself."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            *(
                each.metadata.get("join", operator.add)(getattr(self, each.name), getattr(other, each.name))
                for each in fields(self)  # type: ignore[arg-type]  # of dataclasses
            )
        )


def _together(one: Array, other: Array) -> Array:
    return triangle(np.concatenate([one, other]))


@dataclass(frozen=True, eq=False)
class PlanSums(Summed):
    """What parts of a network, and of a plan, add up to.

    triangle:  T with T'T the information, of raw readings in the first pass and of what is sent in the second.
    raw:       Σ H'R^-1 H, and
    left:      Σ H'C'(C R C' + Θ)^+ C H, by the formulas of the certificate.
    exposed:   how many agents send some exact numbers and not everything, though nothing is said of the resolution of
               their readings.
    computed:  names of the parts worked on.
    noisiest:  of every part its name, and of the agent in it that adds most noise to its readings the name and tr Θ.
    waiting:   names of the parts of the plan that are not in service yet.
    """

    triangle: Array = field(metadata=joined_by(_together))
    raw: Array
    left: Array
    agents: int = 0
    readings: int = 0
    numbers: int = 0
    condition: float = field(default=1.0, metadata=joined_by(max))
    exposed: int = 0
    computed: tuple[str, ...] = ()
    noisiest: tuple[tuple[str, str, float], ...] = ()
    waiting: tuple[str, ...] = ()


Making = Callable[[], tuple[Array, Array | None, Integers]]
"""Makes rows of raw readings, (s, most, n), variances of their noise, (s, most), 0 or 1, or None where nothing is
added, and how many are sent, (s,)."""


def raw_sums(part: PartFile) -> PlanSums:
    """The first pass: what the raw readings of a part tell."""
    found = raw_triangle(part.network.stacked, part.network.roots)
    nothing = np.zeros(found.shape)
    return _counted(part, PlanSums(found, nothing, nothing))


def share_sums(part: PartFile, weights: Array, tolerance: float, keep: bool) -> PlanSums:
    """The second pass: what every agent of a part has to send.

    weights, tolerance: of :func:`veilnet.verdict.shares.share_stack`, the same for all agents.
    keep:               whether it is written as a part of a plan.
    """

    def make() -> tuple[Array, None, Integers]:
        found = share_stack(part.network.stacked, part.network.roots, weights, tolerance)
        return np.array(found.rows), None, found.ranks

    return sent_sums(part, key_of(part.digest, weights, np.array(tolerance)), make, keep=keep)


def sent_sums(part: PartFile, key: str, make: Making, *, keep: bool = True) -> PlanSums:
    """The sums of a part of the plan: in service or begun by an earlier run under the same key; otherwise made now.

    key:  a digest of everything that what is sent depends on.
    keep: whether what is made is written down.
    """
    network, begun = part.network, part.folder / PLAN / BEGUN / part.name
    for path in (part.folder / PLAN / part.name, begun):
        arrays = kept_arrays(path) or {}
        if str(arrays.get("key")) == key and str(arrays.get("seal")) == _seal_of(arrays):
            sent = planned(part, arrays, path)
            fresh, waiting = False, path == begun
            break
    else:
        arrays, sent = _made(network, *make())
        fresh, waiting = True, keep
        if keep:
            arrays |= {"key": np.array(key), "digest": np.array(part.digest)}
            write_arrays(begun, {**arrays, "seal": np.array(_seal_of(arrays))})
    found = PlanSums(
        triangle(message_factor(network, sent)), *information_sums(network, sent),
        exposed=len(unstated(network, exposing(sent))), computed=(part.name,) if fresh else (),
        waiting=(part.name,) if waiting else (), noisiest=noisiest(part, sent) if "variances" in arrays else (),
    )  # fmt: skip
    return _counted(part, found, sent)


def _seal_of(arrays: Mapping[str, Any]) -> str:
    """A digest of what a part of a plan says: a part that was changed since it was written is made again."""
    return key_of(*(each for name in sorted(arrays) if name != "seal" for each in (name, arrays[name])))


def certificate_sums(part: PartFile) -> PlanSums:
    """The sums of the certificate from a part as it is on disk, network and plan, and nothing else."""
    sent = sent_by(part)
    try:
        grids = with_release_grid(part.network, sent)
    except InvalidNetwork:  # numbers that repeat others: no grid is right
        grids = None
    # On another machine, a deviation on the edge may round to the neighbouring power of two.
    if grids is None or not all(
        np.all((mine.grid <= 2 * right.grid) & (right.grid <= 2 * mine.grid))  # type: ignore[operator]
        for mine, right in zip(sent.stacks, grids.stacks, strict=True)
    ):
        path = part.folder / PLAN / part.name
        raise InvalidPlan(f"{path}: not the grid that the noise calls for; design once more")
    raw, left = information_sums(part.network, sent)
    found = PlanSums(np.zeros(raw.shape), raw, left, computed=(part.name,), noisiest=noisiest(part, sent))
    return _counted(part, found, sent)


def noisiest(part: PartFile, sent: Mechanisms) -> tuple[tuple[str, str, float], ...]:
    """The name of a part, and the name and noise power of the agent in it that adds most to its readings."""
    powers = powers_of(sent)
    most = int(np.argmax(powers))
    return ((part.name, sent.network.agents[most], float(powers[most])),)


def key_of(*things: Any) -> str:
    """A digest of strings, and of arrays, alone or in dataclasses."""
    digest = hashlib.sha256()
    for each in things:
        if hasattr(each, "__dataclass_fields__"):
            each = key_of(*(getattr(each, name) for name in each.__dataclass_fields__))
        if isinstance(each, str):
            digest.update(b"s" + each.encode())
        else:
            array = np.ascontiguousarray(each)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _counted(part: PartFile, sums: PlanSums, sent: Mechanisms | None = None) -> PlanSums:
    """The sums of one part, with what is counted of it."""
    network = part.network
    counted = {"agents": network.S, "readings": network.N, "condition": network.R.condition()}
    return PlanSums(**(vars(sums) | counted | {"numbers": 0 if sent is None else sent.blocks.total}))


def _made(
    network: Network, rows: Array, variances: Array | None, sent: Integers
) -> tuple[dict[str, Any], Mechanisms]:
    """The arrays of a part of the plan, and what they say."""
    unsent = np.arange(rows.shape[1]) >= sent[:, None]
    rows[unsent] = 0.0
    arrays: dict[str, Any] = {"compression": rows, "sent": sent}
    if variances is not None:
        variances[unsent] = 0.0
        arrays["variances"] = variances
    found = with_release_grid(network, stacked(network, arrays))
    arrays["grid"] = np.zeros(rows.shape[:2])
    for stack in found.stacks:
        arrays["grid"][stack.places, : stack.sent] = stack.grid
    return arrays, found
