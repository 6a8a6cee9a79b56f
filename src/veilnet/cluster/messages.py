"""Readings and messages of a network in parts: folders of parts beside those of the network.

    messages/header.json      which plan they were made by, how many rows there are, whether their noise was private
    messages/part-00000.npz   ``sent`` (T, numbers): of each row, the numbers of all agents of that part of the
                              network side by side, agent after agent; not a number where an agent did not send.
                              And ``plan``, the name of the plan
    readings/part-00000.npz   ``readings`` (T, s, n): of each row, the readings of the agents of that part

A part that is not there is one whose agents did not send. The header is written last. Readings are sanitized here for
simulations, and wherever parts are gateways of agents. An agent in service runs its own file (``veilnet parts
extract``); what happens to a reading here is what happens there (:mod:`veilnet.agent.release`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.types import Array
from veilnet.agent.randomness import NoiseSource, SeededNoise, SystemNoise
from veilnet.agent.recipe import prepare
from veilnet.agent.release import NotPrivate, release_valid
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.cluster.files import HEADER, read_arrays, read_header, write_arrays, write_header
from veilnet.cluster.parts import PartFile, Parts, opened
from veilnet.cluster.plans import numbers_sent, plan_name, senders_of, sent_by, silent_in
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import Summed, joined_by
from veilnet.designs.questions import read_count
from veilnet.io._kinds import TEXT, WHOLE, YES, Table
from veilnet.model.network import Network

FORMAT = "veilnet-messages/1"
_FIELDS = Table(plan=TEXT, rows=WHOLE, private=YES)


@dataclass(frozen=True)
class Messages:
    """The messages of a network in parts.

    folder:  where they are.
    plan:    the name of the plan they were made by.
    rows:    how many rows there are.
    private: whether nobody can repeat their noise; messages that were simulated from a seed are not private.
    """

    folder: Path
    plan: str
    rows: int
    private: bool


def save_messages(
    folder: str | PathLike[str],
    parts: Parts | str | PathLike[str],
    sent: Mapping[str, Any] | Iterable[tuple[str, Any]],
) -> Messages:
    """Write messages that arrived as a folder of parts, one part after the other.

    folder: where to; made if there is none, and refused if it holds messages already.
    parts:  the network, or its folder; it was designed.
    sent:   name of a part -> (T, numbers), the numbers of all of its agents side by side, agent after agent
            (:func:`veilnet.cluster.numbers_sent` says how many of each); not a number where an agent did not send.
            Parts that are left out did not send at all.
    """
    network = opened(parts)
    target = begun(folder)
    if any(target.glob("part-*.npz")):
        raise InvalidRequest(
            f"folder: {target} holds parts of messages that were never finished; remove it first, or they would count"
        )
    plan, rows, private = plan_name(network.folder), None, True
    for name, numbers in sent.items() if isinstance(sent, Mapping) else sent:
        array = as_numbers(numbers, f"sent[{name!r}]", 2)
        expected = int(np.sum(numbers_sent(network, name)))
        if array.shape[1] != expected or rows not in (None, len(array)):
            raise InvalidReading(
                f"sent[{name!r}]: expected {'T' if rows is None else rows} rows of {expected} numbers, found shape "
                f"{array.shape}"
            )
        rows = len(array)
        private = private and not isinstance(numbers, NotPrivate)
        write_arrays(target / name, {"sent": array, "plan": np.array(plan)})
    if rows is None:
        raise InvalidRequest("sent: expected the messages of one part at least, found none")
    return finish(Messages(target, plan, rows, private))


def open_messages(folder: str | PathLike[str]) -> Messages:
    """Open a folder of messages; only its header is read.

    folder: where :func:`save_messages` or :func:`veilnet.cluster.sanitize` wrote it.
    """
    target = Path(folder).resolve()
    begin, again = "a folder of messages begins with its header", "write the messages again"
    found = Messages(target, **read_header(target / HEADER, FORMAT, _FIELDS, InvalidReading, begin, again))
    if found.rows < 0:
        raise InvalidReading(f"{target / HEADER}: rows: expected at least 0, found {found.rows}; {again}")
    return found


def messages_of(parts: Parts, messages: Messages | str | PathLike[str]) -> Messages:
    """Messages of the very plan of this network; InvalidReading for those of another one, or of parts it has not."""
    found = messages if isinstance(messages, Messages) else open_messages(messages)
    plan = plan_name(parts.folder)
    if found.plan != plan:
        raise InvalidReading(
            f"{found.folder}: messages of the plan {found.plan or 'nobody named'}, and that of {parts.folder} is "
            f"{plan}; fuse them with the plan they were made by"
        )
    strangers = sorted({each.name for each in found.folder.glob("part-*.npz")} - set(parts.before))
    if strangers:
        raise InvalidReading(f"{found.folder / strangers[0]}: {parts.folder} has no such part; remove it")
    return found


def begun(folder: str | PathLike[str]) -> Path:
    """A folder for messages, refused where it holds finished ones."""
    target = Path(folder).resolve()
    if (target / HEADER).exists():
        raise InvalidRequest(f"folder: {target} holds messages already; choose another, or remove it first")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"folder: {target} cannot be made ({error.strerror}); choose another place"
        ) from error
    return target


def finish(messages: Messages) -> Messages:
    """Write the header: all parts are there."""
    write_header(messages.folder / HEADER, FORMAT, _FIELDS, vars(messages))
    return messages


def read_message_part(messages: Messages, name: str, numbers: int) -> Array | None:
    """What the agents of a part sent, (T, numbers); None where the part is not there."""
    path = messages.folder / name
    again = "write it again, or remove it: its agents then count as missing"
    found = read_arrays(path, InvalidReading, again)
    if found is None:
        return None
    sent = as_numbers(found.get("sent"), f"{path}: sent", 2)
    if str(found.get("plan", "")) != messages.plan:
        raise InvalidReading(
            f"{path}: its plan is {found.get('plan', 'not named')}, that of the others is {messages.plan}; remove "
            "it, or fuse it with its own plan"
        )
    if sent.shape != (messages.rows, numbers):
        raise InvalidReading(
            f"{path}: expected {messages.rows} rows of {numbers} numbers, found shape {sent.shape}; write it again"
        )
    return sent


def as_numbers(value: Any, name: str, dimensions: int) -> Array:
    """Real numbers, finite or not, in so many dimensions; a refusal never quotes them."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.ndim != dimensions:
        raise InvalidReading(
            f"{name}: expected real numbers in {dimensions} dimensions, found {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.float64, copy=False)


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
    """What a seed stands for in a part, for a purpose: the same for every worker, and for no other part."""
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
    offset, steps, draws = (
        network.blocks.take(each, stack.places) for each in (network.offset, network.steps, network.draws)
    )
    noise = np.zeros((stack.count, stack.sent, stack.sent)) if stack.noise is None else stack.noise
    recipe = prepare(
        agent="", compression=stack.compression, noise=noise, noise_root=noise, offset=offset, grid_step=stack.grid,
        limits=(np.full(offset.shape, -np.inf), np.full(offset.shape, np.inf)), steps=steps, draws=draws, names=(),
        memory=None,
    )  # fmt: skip
    sent = release_valid(recipe, readings.reshape(len(readings), -1), source)
    return np.asarray(sent.values).reshape(*readings.shape[:2], stack.sent)
