"""What a worker does in a search among all agents: let the agents of its parts answer, and add the answers up.

Prices come, L x L sums go; nothing of any one agent is kept but its readings, which a worker remembers from pass to
pass as long as there is room. What a task answers is a function of files and prices alone, so that it may be done
again by anybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.cluster.parts import LoadedPart, read_part
from veilnet.cluster.remembering import remembered
from veilnet.cluster.tasks import BatchSums, sent_sums
from veilnet.designs.many import Rule, answers, evenly, mixed, pulled
from veilnet.designs.shrink import normal_rows


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
    names: Sequence[str], folder: Path, length: int, change: Array, recipe: Rule, wanted: Array
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
    recipe: Rule,
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
    name: str, part: LoadedPart, folder: Path, change: Array, recipes: Sequence[Rule], weights: Array
) -> BatchSums:
    """The last pass: what every agent of a part sends in a mixture, written as a part of the plan."""

    def make() -> tuple[Array, Array, Integers]:
        count, size, length = part.observe.shape
        shrink = np.empty((count, size, size))
        for some in parts(count, size, length):
            shrink[some] = mixed(
                recipes, weights, _in_coordinates(part.observe[some], part.roots[some], change)
            )
        return normal_rows(shrink, part.roots)

    return sent_sums(name, part, folder, key_of(part.digest, change, weights, *recipes), make)


def key_of(*things: Any) -> str:
    """A digest of strings, arrays and recipes."""
    digest = hashlib.sha256()
    for each in things:
        if isinstance(each, Rule):
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
    """R_i^-½ H_i T^-1 of all agents of a file, (s, n, L)."""

    def make() -> tuple[Array, ...]:
        part = read_part(path, length)
        white = np.empty(part.observe.shape)
        for some in parts(*part.observe.shape):
            white[some] = _in_coordinates(part.observe[some], part.roots[some], change)
        return (white,)

    return remembered(path, key_of(change), make)[0]


def _in_coordinates(observe: Array, roots: Array, change: Array) -> Array:
    return np.asarray(solve_lower_batch(roots, observe) @ change)
