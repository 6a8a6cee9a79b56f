"""From an agent's outbox to a file or a pipe: each message once in a file, however often a run is killed.

A message leaves the outbox once it is on the disk in its file, or was handed to the pipe. With it the store keeps how
far the file goes and a hash of its end. So the next run knows its file again without reading what stands in it: what
goes beyond is the beginning of what waits in the outbox, left by a run that was killed, and is written anew, the same
bytes. Anything else there is not ours, and stays as it is. What a pipe took cannot be known: the last messages of a
run that was killed are sent once more, the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.io._atomic import remember_folder
from veilnet.io._locking import require_lock
from veilnet.io.agent_store import AgentStore, FileEnd
from veilnet.io.message_streams import SENT_AT_ONCE, MessageMark, message_header, message_lines
from veilnet.io.streams import Format

VERSION = 1  # of messages and receipts; it rises when a field is added
SHORT = 16  # characters of a plan's id that its messages carry
_END = 4096  # bytes of a file's end by which it is known again


class Message(msgspec.Struct, frozen=True, array_like=True, tag=VERSION, forbid_unknown_fields=True):
    """What an agent says about one epoch.

    plan:     the beginning of the plan's id.
    agent:    who sends.
    store:    which store it comes from: a random number, made when that store was begun.
    sequence: counted from 1 in that store.
    epoch:    which one it is about.
    after:    of an agent with a memory, the epoch before which entered it last (0: none): those between were missed.
    private:  False for a simulation with seeded noise.
    values:   the numbers sent, float64 in little-endian order; None says that there was no reading to release.
    """

    plan: str
    agent: str
    store: bytes
    sequence: int
    epoch: int
    after: int = 0
    private: bool = True
    values: bytes | None = None

    def numbers(self) -> Array | None:
        """The numbers as an array; None where the reading was missed."""
        return None if self.values is None else np.frombuffer(self.values, dtype="<f8")


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)


class Unsealed:
    """Messages as they wait for a file or a pipe, where no seal would be looked at."""

    def message(self, message: Message) -> bytes:
        """A message as the outbox has it."""
        return _ENCODER.encode(message)

    def open_message(self, payload: bytes) -> Message:
        """The message in some bytes."""
        return _DECODER.decode(payload)


class Sink:
    """Takes messages from a store's outbox to where they go.

    store:   whose outbox it is.
    mark:    of the messages that go there; those of another plan stay in the outbox.
    columns: how many numbers a message has.
    write:   adds lines, which have arrived when it returns.
    says_missed: whether a line says that a reading was missed; otherwise there is none.
    """

    def __init__(
        self,
        store: AgentStore,
        format: Format,
        columns: int,
        mark: MessageMark,
        write: Callable[[bytes], FileEnd | None],
        *,
        says_missed: bool,
    ) -> None:
        self._store, self._format, self._columns, self._mark = store, format, columns, mark
        self._write, self._says_missed = write, says_missed

    def deliver(self) -> list[int]:
        """Send what waits; its rows."""
        delivered: list[int] = []
        after = 0
        while waiting := self._store.waiting(after, SENT_AT_ONCE):
            after = waiting[-1][0]
            own = [each for each in map(_opened, waiting) if self._mark.plan.startswith(each.plan)]
            if own:
                rows, lines = self._lines(own)
                end = self._write(lines)
                whole = len(own) == len(waiting)
                done = [(waiting[0][0], after)] if whole else [(m.sequence, m.sequence) for m in own]
                self._store.settle(done, file=end)
                delivered += rows
        return delivered

    def of_others(self) -> list[Message]:
        """What waits in the outbox and is of another plan."""
        waiting = self._store.waiting(0, SENT_AT_ONCE)
        return [each for each in map(_opened, waiting) if not self._mark.plan.startswith(each.plan)]

    def waiting_lines(self) -> bytes:
        """What :meth:`deliver` would write now, as far as a run that was killed can have written it."""
        own = map(_opened, self._store.waiting(0, SENT_AT_ONCE))
        return self._lines([each for each in own if self._mark.plan.startswith(each.plan)])[1]

    def _lines(self, messages: list[Message]) -> tuple[list[int], bytes]:
        written = [each for each in messages if self._says_missed or each.values is not None]
        missed = np.full(self._columns, MISSED, dtype="<f8").tobytes()
        numbers = b"".join(missed if each.values is None else each.values for each in written)
        values = np.frombuffer(numbers, dtype="<f8").reshape(len(written), self._columns)
        rows = [each.epoch for each in written]
        return rows, message_lines(self._format, rows, values, self._mark)


def _opened(waiting: tuple[int, bytes]) -> Message:
    try:
        return _DECODER.decode(waiting[1])
    except msgspec.MsgspecError:
        raise InvalidPlan(
            "--store: messages for a broker wait in it; nothing is sent: let 'veilnet agent' send them first"
        ) from None


@contextmanager
def added_to(
    path: Path,
    store: AgentStore,
    format: Format,
    columns: int,
    mark: MessageMark,
    *,
    says_missed: bool,
    first: bytes,
) -> Iterator[Sink]:
    """A sink that adds to a file, which it knows again or begins.

    first: what a new file begins with after its header.

    InvalidRequest where something else stands in the file; it stays as it is.
    """
    if path.exists() and not path.is_file():
        raise InvalidRequest(
            f"{path}: expected a file to add messages to, found a folder, a device or a pipe"
        )
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "rb") as opened:  # noqa: PTH123
        require_lock(opened.fileno(), path, "is adding to this file")
        file = _File(opened.fileno(), path, json.dumps([mark.short_plan, mark.agent, format, columns]))
        sink = Sink(store, format, columns, mark, file.write, says_missed=says_missed)
        begun = message_header(format, columns, mark) + first
        if file.find_end(store.file(), begun, sink.waiting_lines()):
            store.settle([], file=file.write(begun))
        yield sink


class _File:
    """A file of messages: ``messages`` says which."""

    def __init__(self, handle: int, path: Path, messages: str) -> None:
        self._handle, self._path, self._messages = handle, path, messages
        self._length, self._end = 0, b""

    def find_end(self, known: FileEnd | None, begun: bytes, waiting: bytes) -> bool:
        """Cut off what a killed run left beyond the end that the store knows; whether the file is to be begun."""
        size = os.fstat(self._handle).st_size
        if not size:
            remember_folder(self._path.absolute().parent)
        begin = begun + waiting
        if size <= len(begin) and begin.startswith(os.pread(self._handle, size, 0)):
            os.ftruncate(self._handle, 0)  # nothing of it is known to be there, so all of it waits
            return True
        if known is None or not self._is_end(known, size):
            self._refuse()
        if known.messages != self._messages:
            self._refuse_another_plan(known.messages)
        # a power cut may leave zeros where what was written did not come to the disk
        if not waiting.startswith(os.pread(self._handle, size, known.length).rstrip(b"\0")):
            self._refuse()
        self._length = known.length
        os.ftruncate(self._handle, self._length)
        return False

    def _refuse(self) -> NoReturn:
        raise InvalidRequest(
            f"{self._path}: there stands what this store did not write: an older copy, another file, or one that was "
            "changed; it stays as it is, and nothing was sent: give back the file as it was, or name another"
        )

    def _is_end(self, known: FileEnd, size: int) -> bool:
        if size < known.length:
            return False
        start = max(0, known.length - _END)
        self._end = os.pread(self._handle, known.length - start, start)
        return hashlib.sha256(self._end).digest() == known.end

    def _refuse_another_plan(self, found: str) -> NoReturn:
        plan, agent, format, _ = json.loads(found)
        mine = json.loads(self._messages)
        if plan == mine[0]:
            raise InvalidRequest(
                f"{self._path}: its messages are written as {format}, those to add as {mine[2]}; nothing was sent: "
                "keep to one format, or name another file"
            )
        raise InvalidRequest(
            f"{self._path}: it has the messages of {agent!r} by the plan {plan}, and the plan was replaced: it is "
            f"{mine[0]} now. Nothing was sent, and the store goes on: name another file for this plan's messages "
            "(--out), and give it to a centre that has the new plan too"
        )

    def write(self, lines: bytes) -> FileEnd:
        """Add whole lines; they are on the disk when this returns, or the file is as it was."""
        try:
            write_all(self._handle, lines, self._length)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._handle, self._length)
            error.filename = str(self._path)
            raise
        self._length += len(lines)
        self._end = (self._end + lines)[-_END:]
        return FileEnd(self._length, hashlib.sha256(self._end).digest(), self._messages)


def write_all(handle: int, content: bytes, place: int) -> None:
    """Write bytes at a place of a file, past any buffer, until they are on the disk."""
    os.lseek(handle, place, os.SEEK_SET)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)
