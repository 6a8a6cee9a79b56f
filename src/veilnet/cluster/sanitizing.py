"""Readings of a network in parts, sanitized part by part: for simulations, and wherever parts are gateways of agents.

An agent in service runs its own file (``veilnet extract``); what happens to a reading here is what happens there:
offset, dither, combination, noise, rounding to the grid, and nothing at all of a reading in doubt
(:mod:`veilnet.agent.release`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from veilnet.agent.release import release_stack
from veilnet.cluster.messages import Messages, as_numbers, begun, finish, read_arrays, read_reading_part
from veilnet.cluster.parts import LoadedPart, Parts, opened, written
from veilnet.cluster.running import over_all_parts
from veilnet.cluster.sending import Sending, plan_name, read_sending
from veilnet.designs.questions import read_count

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
    target = begun(messages)
    plan = plan_name(network.folder)
    found: _Done = over_all_parts(
        sanitized_part,
        network,
        (source, target, plan, chosen),
        client=client,
        progress=progress,
        what="sanitizing",
        join=done_together,
    )
    if found.rows is None:
        raise InvalidReading(f"{source}: holds readings of no part of {network.folder}; nothing was sent")
    return Sanitized(
        finish(Messages(target, plan, found.rows, private=chosen is None)), found.sent, found.refused
    )


@dataclass(frozen=True)
class _Done:
    """Rows, None where there were no readings; and messages that were sent, and refused."""

    rows: int | None = None
    sent: int = 0
    refused: int = 0
    part: str = ""


def done_together(several: Sequence[_Done]) -> _Done:
    """Several batches together; all have as many rows."""
    with_rows = [each for each in several if each.rows is not None]
    for each in with_rows[1:]:
        if each.rows != with_rows[0].rows:
            raise InvalidReading(
                f"readings: {with_rows[0].part} has {with_rows[0].rows} rows, {each.part} has {each.rows}; fill rows "
                "that were not read with nan"
            )
    first = with_rows[0] if with_rows else _Done()
    return _Done(
        first.rows, sum(each.sent for each in several), sum(each.refused for each in several), first.part
    )


def sanitized_part(
    name: str, part: LoadedPart, folder: Path, readings: Path, messages: Path, plan: str, seed: int | None
) -> _Done:
    """A task: sanitize the readings of a part, and write them as a part of the messages."""
    sending = read_sending(folder, name, part)
    count, size, _ = part.observe.shape
    given = read_reading_part(readings, name, count, size)
    if given is None:
        return _Done()
    released = _before(messages / name, readings / name, plan, (len(given), sending.numbers), seed)
    if released is None:
        released = release(sending, part, given, part_noise(name, seed))
        marks = {"plan": np.array(plan), "seed": np.array(-1 if seed is None else seed)}
        written(messages / name, {"sent": released, **marks})
    silent = int(np.sum(sending.silent(released)))
    return _Done(len(given), len(given) * len(sending.senders) - silent, silent, name)


def part_generator(name: str, seed: int, purpose: int) -> np.random.Generator:
    """What a seed stands for in a part, for a purpose: the same whoever works on the part, and of no other part."""
    return np.random.default_rng([seed, purpose, int(name.removeprefix("part-").removesuffix(".npz"))])


def part_noise(name: str, seed: int | None) -> NoiseSource:
    """The noise of a part: from the operating system's entropy, or its own stream of a seed, whoever draws it."""
    if seed is None:
        return SystemNoise()
    return SeededNoise(part_generator(name, seed, 0))


def _before(path: Path, readings: Path, plan: str, shape: tuple[int, int], seed: int | None) -> Array | None:
    """What a run that was cut off sanitized of the same part; refused where it was something else."""
    found = read_arrays(path, "it is drawn anew then")
    if found is None:
        return None
    mark = -1 if seed is None else seed
    same = str(found.get("plan")) == plan and str(found.get("seed")) == str(mark)
    same = same and "sent" in found and found["sent"].shape == shape
    same = same and readings.stat().st_mtime_ns <= path.stat().st_mtime_ns
    if not same:
        raise InvalidRequest(
            f"{path}: messages of other readings, of another plan or with another seed than these; choose another "
            "folder, or remove it first"
        )
    return as_numbers(found["sent"], f"{path}: sent", 2)


def release(sending: Sending, part: LoadedPart, readings: Array, source: NoiseSource) -> Array:
    """What may leave of readings (T, s, n): (T, numbers), not a number where an agent sends nothing."""
    made = np.full((len(readings), sending.numbers), np.nan)
    for stack in sending.stacks():
        for some in some_at_a_time(stack.count, len(readings), stack.readings):
            few = stack.take(some)
            released = release_of(few, part, readings[:, few.places], source)
            made[:, sending.columns(few)] = released.reshape(len(readings), -1)
    return made


def release_of(stack: SanitizerStack, part: LoadedPart, readings: Array, source: NoiseSource) -> Array:
    """What may leave of the readings (T, count, n) of some agents that send as many numbers, (T, count, k)."""
    resolution = None if part.resolution is None else part.resolution[stack.places]
    assert stack.grid is not None  # a part of a plan always has one
    return release_stack(
        readings, source, compression=stack.compression, grid_step=stack.grid, variances=stack.variances,
        offset=part.offset[stack.places], resolution=resolution,
    )  # fmt: skip
