"""Messages, and readings, of a network in parts: folders of parts beside those of the network.

    messages/header.json      which plan they were made by, how many rows there are, whether their noise was private
    messages/part-00000.npz   ``sent`` (T, numbers): of each row, the numbers of all agents of that part of the
                              network side by side, agent after agent; not a number where an agent did not send.
                              And ``plan``, the name of the plan
    readings/part-00000.npz   ``readings`` (T, s, n): of each row, the readings of the agents of that part

A part that is not there is one whose agents did not send. The header is written last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array
from veilnet.agent.release import NotPrivate
from veilnet.cluster.files import HEADER, read_arrays, read_header, write_arrays, write_header
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.plans import numbers_sent, plan_name
from veilnet.io._kinds import TEXT, WHOLE, YES, Table

__all__ = ["Messages", "open_messages", "save_messages"]

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
