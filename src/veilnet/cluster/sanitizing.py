"""Readings of a network in parts, sanitized part by part: for simulations, and wherever parts are gateways of agents.

An agent in service runs its own file (``veilnet parts extract``); what happens to a reading here is what happens
there: offset, dither, combination, noise, rounding to the grid, and nothing at all of a reading in doubt
(:mod:`veilnet.agent.release`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.types import Array
from veilnet.agent.mechanisms import SanitizerStack
from veilnet.agent.randomness import NoiseSource, SeededNoise, SystemNoise
from veilnet.agent.recipe import prepare
from veilnet.agent.release import release_stack
from veilnet.cluster.files import read_arrays, write_arrays
from veilnet.cluster.messages import Messages, as_numbers, begun, finish
from veilnet.cluster.parts import PartFile, Parts, opened
from veilnet.cluster.plans import plan_name, senders_of, sent_by, silent_in
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import Summed, joined_by
from veilnet.designs.questions import read_count
from veilnet.model.network import Network

__all__ = ["Sanitized", "sanitize"]


@dataclass(frozen=True)
class Sanitized:
    """What was sanitized.

    messages: where it is.
    sent:     how many messages, of an agent in a row, were sent.
    refused:  how many were not, since their readings were missing or in doubt.
    """

    messages: Messages
    sent: int
    refused: int


def sanitize(
    parts: Parts | str | PathLike[str],
    readings: str | PathLike[str],
    messages: str | PathLike[str],
    *,
    seed: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Sanitized:
    """What all agents of a network in parts send of their readings.

    parts:    the network, or its folder; it was designed.
    readings: a folder with ``part-00000.npz`` and so on: ``readings`` (T, s, n) of the agents of that part. An agent
              whose readings in a row are not all finite, or are too large to be credible, sends nothing of it, and
              so do all agents of a part that is not there.
    messages: the folder to write messages to, refused if it holds some already. Of a run that was cut off, parts that
              are finished are kept: no noise is drawn twice for a reading.
    seed:     makes a simulation repeatable: its messages are marked as not private. Left out, noise comes from the
              entropy of the operating system.

    The other arguments are those of :func:`veilnet.cluster.check`.
    """
    network = opened(parts)
    chosen = None if seed is None else read_count(seed, "seed", least=0)
    source = Path(readings).resolve()
    if not source.is_dir():
        raise InvalidReading(
            f"readings: expected a folder of parts, found none at {source}; nothing was sent"
        )
    target, plan = begun(messages), plan_name(network.folder)
    found: _Done = over_parts(
        sanitized_part, network, source, target, plan, chosen, client=client, progress=progress, what="sanitizing"
    )  # fmt: skip
    if not found.rows:
        raise InvalidReading(f"{source}: holds readings of no part of {network.folder}; nothing was sent")
    made = Messages(target, plan, found.rows[0][0], private=chosen is None)
    return Sanitized(finish(made), found.sent, found.refused)


def _as_many_rows(one: tuple[tuple[int, str], ...], other: tuple[tuple[int, str], ...]) -> Any:
    if one and other and one[0][0] != other[0][0]:
        raise InvalidReading(
            f"readings: {one[0][1]} has {one[0][0]} rows, {other[0][1]} has {other[0][0]}; fill rows that were not "
            "read with nan"
        )
    return one or other


@dataclass(frozen=True)
class _Done(Summed):
    """How many rows there are and the first part that has them, if any; messages that were sent, and refused."""

    rows: tuple[tuple[int, str], ...] = field(default=(), metadata=joined_by(_as_many_rows))
    sent: int = 0
    refused: int = 0


def sanitized_part(part: PartFile, readings: Path, messages: Path, plan: str, seed: int | None) -> _Done:
    """A task: sanitize the readings of a part, and write them as a part of the messages."""
    sent, path, source = sent_by(part), messages / part.name, readings / part.name
    found = read_arrays(source, InvalidReading, "write it again, or remove it: its agents then send nothing")
    if found is None:
        return _Done()
    given = as_numbers(found.get("readings"), f"{source}: readings", 3)
    expected = part.network.stacked.shape[:2]
    if given.shape[1:] != expected:
        raise InvalidReading(
            f"{source}: readings: expected shape (T, {expected[0]}, {expected[1]}), found {given.shape}; nothing was "
            "sent"
        )
    released = _before(path, source, plan, (len(given), sent.blocks.total), seed)
    if released is None:
        noise = SystemNoise() if seed is None else SeededNoise(part_generator(part.name, seed, 0))
        released = np.full((len(given), sent.blocks.total), np.nan)
        for stack in sent.stacks:
            for some in some_at_a_time(stack.count, len(given), stack.readings):
                few = stack.take(some)
                made = release_of(part.network, few, given[:, few.places], noise)
                released[:, sent.numbers(few).reshape(-1)] = made.reshape(len(given), -1)
        marks = {"plan": np.array(plan), "seed": np.array(-1 if seed is None else seed)}
        write_arrays(path, {"sent": released, **marks})
    silent = int(np.sum(silent_in(sent, released)))
    return _Done(((len(given), part.name),), len(given) * len(senders_of(sent)) - silent, silent)


def part_generator(name: str, seed: int, purpose: int) -> np.random.Generator:
    """What a seed stands for in a part, for a purpose: the same whoever works on the part, and of no other part."""
    return np.random.default_rng([seed, purpose, int(name.removeprefix("part-").removesuffix(".npz"))])


def _before(path: Path, readings: Path, plan: str, shape: tuple[int, int], seed: int | None) -> Array | None:
    """What a run that was cut off sanitized of the same part; refused where it was something else."""
    found = read_arrays(path, InvalidReading, "write it again, or remove it: it is drawn anew then")
    if found is None:
        return None
    same = str(found.get("plan")) == plan and str(found.get("seed")) == str(-1 if seed is None else seed)
    same = same and "sent" in found and found["sent"].shape == shape
    if not same or readings.stat().st_mtime_ns > path.stat().st_mtime_ns:
        raise InvalidRequest(
            f"{path}: messages of other readings, of another plan or with another seed than these; choose another "
            "folder, or remove it first"
        )
    return as_numbers(found["sent"], f"{path}: sent", 2)


def release_of(network: Network, stack: SanitizerStack, readings: Array, source: NoiseSource) -> Array:
    """What may leave of the readings (T, count, n) of some agents that send as many numbers, (T, count, k)."""
    assert stack.grid is not None  # a part of a plan always has one
    offset, steps, draws = (
        network.blocks.take(each, stack.places) for each in (network.offset, network.steps, network.draws)
    )
    noise = np.zeros((stack.count, stack.sent, stack.sent)) if stack.noise is None else stack.noise
    recipe = prepare(
        agent="", compression=stack.compression, noise=noise, noise_root=noise, offset=offset, grid_step=stack.grid,
        limits=(np.full(offset.shape, -np.inf), np.full(offset.shape, np.inf)), steps=steps, draws=draws, names=(),
        memory=None,
    )  # fmt: skip
    return release_stack(recipe, readings, source)
