"""What a worker does in a search among all agents: let the agents of its parts answer, and add the answers up.

Prices come, L x L sums go; nothing of any one agent is kept but its readings, which a worker remembers from pass to
pass as long as there is room. What a task answers is a function of files and prices alone, so that it may be done
again by anybody.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import joined_triangle, parts, sent_triangle
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.cluster.parts import LoadedPart, loaded, read_part, written
from veilnet.cluster.sending import PLAN
from veilnet.cluster.tasks import (
    Sums,
    exposed,
    finished,
    grids,
    information,
    joined,
    tells_what_it_says,
)
from veilnet.designs.many import Recipe, answers, evenly, mixed, pulled
from veilnet.designs.shrink import normal_rows

_REMEMBERED = 2**28  # bytes of readings that a process keeps from pass to pass
_memory: OrderedDict[tuple[str, int, int, bytes], Array] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Added:
    """Arrays that were added up, part by part."""

    arrays: tuple[Array, ...]


def added(several: Sequence[Added]) -> Added:
    """Sums of sums, in the order given."""
    total = [array.copy() for array in several[0].arrays]
    for each in several[1:]:
        for mine, other in zip(total, each.arrays, strict=True):
            mine += other
    return Added(tuple(total))


def answer_sums(
    names: Sequence[str], folder: Path, length: int, change: Array, recipe: Recipe, wanted: Array
) -> Added:
    """(Σ H_i'X_i H_i, Σ H_i'(I - X_i)H_i A) when all answer by a recipe.

    change: T^-1 of the raw information T'T of all agents and the prior: their readings are taken in its coordinates.
    """
    with one_thread():
        return added(
            [
                Added(answers(recipe, stack, wanted))
                for name in names
                for stack in _stacks(folder / name, length, change)
            ]
        )


def pull_sums(
    names: Sequence[str],
    folder: Path,
    length: int,
    change: Array,
    recipe: Recipe,
    estimate: Array,
    worths: Array,
) -> Added:
    """The derivatives of :func:`veilnet.designs.many.pulled`."""
    with one_thread():
        return added(
            [
                Added((pulled(recipe, stack, estimate, worths),))
                for name in names
                for stack in _stacks(folder / name, length, change)
            ]
        )


@dataclass(frozen=True, eq=False)
class Chosen:
    """Agents that stand for others: their readings, (s, n, L), and for how many each of a stack stands."""

    stacks: tuple[Array, ...]
    stand_for: tuple[float, ...]


def chosen_together(several: Sequence[Chosen]) -> Chosen:
    """The agents chosen from several batches."""
    return Chosen(
        tuple(stack for each in several for stack in each.stacks),
        tuple(each_stands for each in several for each_stands in each.stand_for),
    )


def chosen_agents(names: Sequence[str], folder: Path, length: int, change: Array, part: float) -> Chosen:
    """A part of the agents of each file, evenly spread, at least one."""
    with one_thread():
        stacks = [_white(folder / name, length, change) for name in names]
        picked = [evenly(len(stack), part) for stack in stacks]
    return Chosen(
        tuple(stack[places] for stack, places in zip(stacks, picked, strict=True)),
        tuple(len(stack) / len(places) for stack, places in zip(stacks, picked, strict=True)),
    )


def mixture_sums(
    names: Sequence[str],
    folder: Path,
    length: int,
    change: Array,
    recipes: Sequence[Recipe],
    weights: Array,
) -> Sums:
    """The last pass: what every agent of these parts sends in a mixture, written as parts of the plan."""
    with one_thread():
        return joined(
            [
                _mixture(name, part, folder, change, recipes, weights)
                for name, part in loaded(folder, names, length)
            ]
        )


def _mixture(
    name: str, part: LoadedPart, folder: Path, change: Array, recipes: Sequence[Recipe], weights: Array
) -> Sums:
    count, size, length = part.observe.shape
    key = key_of(part.digest, change, weights, *recipes)
    path = folder / PLAN / name
    shapes: dict[str, tuple[int, ...]] = {"compression": (count, size, size), "sent": (count,)}
    shapes |= {"grid": (count, size), "variances": (count, size)}
    shapes |= dict.fromkeys(("triangle", "raw", "left"), (length, length))
    found = finished(path, key, shapes)
    if found is not None and not tells_what_it_says(part, found, size):
        found = None
    fresh = found is None
    if found is None:
        made = _sending(part, change, recipes, weights)
        found = {"key": np.array(key), "digest": np.array(part.digest), **made}
        written(path, found)
    return Sums(
        found["triangle"], found["raw"], found["left"],
        agents=count, readings=count * size, numbers=int(found["sent"].sum()), condition=part.condition,
        computed=(name,) if fresh else (), exposed=exposed(part, found["sent"], found["variances"]),
    )  # fmt: skip


def _sending(part: LoadedPart, change: Array, recipes: Sequence[Recipe], weights: Array) -> dict[str, Any]:
    count, size, length = part.observe.shape
    shrink = np.empty((count, size, size))
    for some in parts(count, size, length):
        shrink[some] = mixed(recipes, weights, _in_coordinates(part.observe[some], part.roots[some], change))
    rows, variances, sent = normal_rows(shrink, part.roots)
    unsent = np.arange(size) >= sent[:, None]
    rows[unsent], variances[unsent] = 0.0, 0.0
    triangles = []
    for number in np.unique(sent[sent > 0]).tolist():
        mine = np.flatnonzero(sent == number)
        triangles.append(
            sent_triangle(
                part.observe[mine],
                part.roots[mine],
                np.ascontiguousarray(rows[mine, :number]),
                np.ascontiguousarray(variances[mine, :number]),
            )
        )
    raw, left = information(part, rows, sent, variances)
    return {
        "compression": rows,
        "variances": variances,
        "sent": sent,
        "grid": grids(part, rows, sent, variances),
        "triangle": joined_triangle(triangles, length),
        "raw": raw,
        "left": left,
    }


def key_of(*things: Any) -> str:
    """A digest of strings, arrays and recipes."""
    digest = hashlib.sha256()
    for each in things:
        if isinstance(each, Recipe):
            digest.update(key_of(each.kind, each.directions, each.signs, np.array(each.softness)).encode())
        elif isinstance(each, str):
            digest.update(b"s" + each.encode())
        else:
            array = np.ascontiguousarray(each)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _stacks(path: Path, length: int, change: Array) -> Iterator[Array]:
    """The agents of a file, a few thousand at a time: as many for every worker, so that sums are the same."""
    white = _white(path, length, change)
    for some in parts(*white.shape):
        yield white[some]


def _white(path: Path, length: int, change: Array) -> Array:
    """R_i^-½ H_i T^-1 of all agents of a file, (s, n, L), remembered as long as there is room and it is unchanged."""
    try:
        status = path.stat()
        key = (str(path), status.st_mtime_ns, status.st_size, hashlib.sha256(change.tobytes()).digest())
    except OSError:
        key = (str(path), -1, -1, b"")
    if key in _memory:
        _memory.move_to_end(key)
        return _memory[key]
    part = read_part(path, length)
    white = np.empty(part.observe.shape)
    for some in parts(*part.observe.shape):
        white[some] = _in_coordinates(part.observe[some], part.roots[some], change)
    _memory[key] = white
    while len(_memory) > 1 and sum(each.nbytes for each in _memory.values()) > _REMEMBERED:
        _memory.popitem(last=False)
    return white


def _in_coordinates(observe: Array, roots: Array, change: Array) -> Array:
    return np.asarray(solve_lower_batch(roots, observe) @ change)
