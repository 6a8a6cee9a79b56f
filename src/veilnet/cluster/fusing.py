"""At the centre of a network in parts: estimates of the public parameters from a folder of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.names import NumberedNames
from veilnet._core.progress import Progress
from veilnet._core.stacks import joined_triangle
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.words import counted
from veilnet.centre.estimates import Estimate
from veilnet.cluster.centre import (
    Arrived,
    Solved,
    arrived,
    arrived_together,
    nothing_arrived,
    solved,
    told_by_all,
)
from veilnet.cluster.messages import Messages, messages_of, read_message_part
from veilnet.cluster.parts import LoadedPart, Parts, opened, read_part
from veilnet.cluster.running import over_all_batches, over_all_parts
from veilnet.cluster.sending import PLAN, read_plan_part, read_sending
from veilnet.cluster.tasks import SUMS, finished
from veilnet.model.network import Network

__all__ = ["MissingAgents", "fuse"]

_NUMBERS_AT_ONCE = 2**22  # of the information in rows with gaps, that a task may answer with


def fuse(
    parts: Parts | str | PathLike[str],
    messages: Messages | str | PathLike[str],
    *,
    client: Any = None,
    progress: Progress | None = None,
) -> Estimate:
    """The public parameters in every row of a folder of messages, estimated from whatever arrived.

    parts:    the network, or its folder; it was designed.
    messages: a folder of parts, as :func:`veilnet.cluster.save_messages` or :func:`veilnet.cluster.sanitize` wrote
              it.

    The other arguments are those of :func:`veilnet.cluster.check`. The estimate is that of :class:`veilnet.Fusion`
    for the same network in one piece. ``missing`` has for every row a :class:`MissingAgents`: its length is how many
    did not send, and names are read when somebody asks for them.
    """
    network = opened(parts)
    found = messages_of(network, messages)
    whole = whole_of(network, client)
    at_once = max(1, _NUMBERS_AT_ONCE // network.length**2)
    with one_thread():
        change, mean = whole.in_raw_coordinates(np.eye(network.length)), _mean_of(network)
    blocks = []
    for start in range(0, max(found.rows, 1), at_once):
        sums = over_all_parts(
            arrived_sums,
            network,
            (found, slice(start, start + at_once), change, mean),
            client=client,
            progress=progress,
            what="fusing",
            join=arrived_together,
        )
        with one_thread():
            blocks.append(_Block(start, sums, whole, mean, partial(MissingAgents, network, found)))
    return _together(blocks, whole)


def whole_of(network: Parts, client: Any = None) -> Network:
    """One imaginary agent in place of all, from what the design added up."""
    triangle = over_all_batches(
        raw_triangles,
        network.batches(),
        (network.folder, network.length),
        client=client,
        join=partial(joined_triangle, length=network.length),
    )
    return Network({"all agents": triangle}, 1.0, network.public, network.private, network.prior)


def _mean_of(network: Parts) -> Array:
    """The mean of the prior."""
    return np.zeros(network.length) if network.prior is None else network.prior.mean


def raw_triangles(names: Sequence[str], folder: Path, length: int) -> Array:
    """A task: T with T'T the raw information of some parts, as the design left it beside the plan."""
    with one_thread():
        return joined_triangle((_raw_triangle(folder, name, length) for name in names), length)


def _raw_triangle(folder: Path, name: str, length: int) -> Array:
    path = folder / PLAN / SUMS / name
    found = finished(path, str(read_plan_part(folder, name).get("digest")), {"triangle": (length, length)})
    if found is None:
        raise InvalidPlan(f"{path}: missing, damaged or of another plan; design once more")
    return np.asarray(found["triangle"])


def arrived_sums(
    name: str, part: LoadedPart, folder: Path, messages: Messages, rows: slice, change: Array, mean: Array
) -> Arrived:
    """A task: what the messages of a part tell in some rows."""
    sending = read_sending(folder, name, part)
    numbers = read_message_part(messages, name, sending.numbers)
    if numbers is None:
        count = len(range(*rows.indices(messages.rows)))
        return nothing_arrived(count, len(mean), len(sending.senders))
    return arrived(sending, told_by_all(sending, part, change, mean), numbers[rows])


class _Block:
    """The estimates of some rows that follow one another."""

    def __init__(self, start: int, sums: Arrived, whole: Network, mean: Array, missing: Any) -> None:
        count = len(sums.vectors)
        complete = np.setdiff1d(np.arange(count), sums.gaps)
        self.solutions: list[Solved] = []
        self.missing: list[MissingAgents] = []
        self.set_of_row = np.zeros(count, dtype=np.intp)
        self.public = np.empty((count, len(whole.U)))
        sets = [(complete, sums.information)] if complete.size or not count else []
        sets += [
            (np.array([row]), information)
            for row, information in zip(sums.gaps.tolist(), sums.gap_information, strict=True)
        ]
        for number, (rows, information) in enumerate(sets):
            found = solved(whole, information, whole.U)
            self.solutions.append(found)
            self.public[rows] = whole.U @ mean + sums.vectors[rows] @ found.gain
            self.set_of_row[rows] = number
            row = int(rows[0]) if rows.size else 0
            self.missing.append(missing(start + row, int(sums.missing[row]) if count else 0))


def _together(blocks: list[_Block], whole: Network) -> Estimate:
    starts = np.cumsum([0, *(len(block.solutions) for block in blocks)])
    solutions = [each for block in blocks for each in block.solutions]
    return Estimate(
        public=np.concatenate([block.public for block in blocks]),
        labels=whole.public_rows,
        units=("",) * len(whole.U),
        set_of_row=np.concatenate(
            [block.set_of_row + start for block, start in zip(blocks, starts, strict=False)]
        ),
        set_covariance=np.stack([each.covariance for each in solutions]),
        set_estimable=np.stack([each.estimable for each in solutions]),
        set_missing=tuple(each for block in blocks for each in block.missing),
    )


class MissingAgents(Sequence[str]):
    """The agents that did not send in a row: how many is known, names are read from the folders when asked for.

    ``len(missing)`` costs nothing, ``missing[:10]`` reads as many parts as it takes to name ten.
    """

    def __init__(self, parts: Parts, messages: Messages, row: int, count: int) -> None:
        self._parts, self._messages, self._row, self._count = parts, messages, row, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(()) if not self._count else self._read()

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        wanted = range(self._count)[place]
        if isinstance(wanted, int):
            return next(islice(self, wanted, None))
        named = dict(zip(range(max(wanted, default=-1) + 1), self, strict=False))
        return tuple(named[k] for k in wanted)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MissingAgents | tuple) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it equals the tuple of its names, which are not known without reading

    def __repr__(self) -> str:
        return f"<{counted(self._count, 'agent')} missing>"

    def _read(self) -> Iterator[str]:
        before = 0
        for each in self._parts.parts:
            part = read_part(self._parts.folder / each.name, self._parts.length)
            sending = read_sending(self._parts.folder, each.name, part)
            numbers = read_message_part(self._messages, each.name, sending.numbers)
            silent = sending.senders
            if numbers is not None:
                silent = silent[sending.silent(numbers[self._row : self._row + 1])[0]]
            for place in silent.tolist():
                yield self._numbered[before + place] if part.names is None else part.names[place]
            before += each.agents

    @cached_property
    def _numbered(self) -> NumberedNames:
        return NumberedNames(self._parts.agents)
