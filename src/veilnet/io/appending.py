"""A file of messages that is added to and survives being killed: no torn, doubled or foreign line.

What is added is on the disk before the next block is read. A line that was being written when the run was
killed has no line end: it is no message, and is cut off. The file must be one of the same agent and plan, which
is made sure of before a byte of it is changed, and only one run adds to it at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet.io._atomic import remember_folder
from veilnet.io._chain import write_all
from veilnet.io._locking import require_lock
from veilnet.io.message_streams import MessageMark, MessageReader, message_header, message_lines
from veilnet.io.row_keys import RowKey
from veilnet.io.sources import RowSource
from veilnet.io.streams import Format

__all__ = ["AppendedFile", "appending"]

_TAIL = 2**16  # bytes read at first from the end, to find the last line


class AppendedFile:
    """Messages that end whole: ``last_row`` is the last one in the file, ``cut`` how many bytes were torn."""

    def __init__(self, handle: int, path: Path, last_row: int, end: int, cut: int) -> None:
        self._handle = handle
        self._path = path
        self._end = end
        self.last_row = last_row
        self.cut = cut

    def write(self, lines: bytes) -> None:
        """Add whole lines; they are on the disk when this returns, or the file is as it was."""
        try:
            write_all(self._handle, lines, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._handle, self._end)
            error.filename = str(self._path)
            raise
        self._end += len(lines)


@contextmanager
def appending(path: Path, format: Format, columns: int, mark: MessageMark) -> Iterator[AppendedFile]:
    """The file, with a header where it is new, ready for more messages of the same agent and plan."""
    if path.exists() and not path.is_file():
        raise InvalidRequest(f"{path}: --append needs a regular file, found a folder, a device or a pipe")
    with open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "rb") as file:  # noqa: PTH123
        require_lock(file.fileno(), path, "is adding to this file", wait=False)
        size = file.seek(0, os.SEEK_END)
        last, end = last_line(file, size)
        last_row = _last_row(file, last, end, path, format, columns, mark)
        os.ftruncate(file.fileno(), end)
        found = AppendedFile(file.fileno(), path, last_row, end, size - end)
        if end == 0:
            found.write(message_header(format, columns, mark))
            remember_folder(path.parent)
        yield found


def last_line(file: IO[bytes], size: int) -> tuple[bytes, int]:
    """The last line that has its end, and where it ends."""
    length = min(_TAIL, size)
    while True:
        file.seek(size - length)
        whole, newline, _ = file.read(length).rpartition(b"\n")
        start = whole.rfind(b"\n") + 1
        if newline and (start or length == size):
            return whole[start:] + b"\n", size - length + len(whole) + 1
        if length == size:
            return b"", 0
        length = min(2 * length, size)


def _last_row(
    file: IO[bytes], last: bytes, end: int, path: Path, format: Format, columns: int, mark: MessageMark
) -> int:
    """The row of the last message, 0 where there is none; an error where the file is not of this agent and plan.

    ``last`` is the last line that has its end, at ``end``. What follows is torn. Behind a message of ours it is
    ours, whatever a power cut made of it; otherwise it has to be the beginning of what we would have written.
    """
    header = message_header(format, columns, mark)
    file.seek(end)
    torn = file.read()
    file.seek(0)
    if end < len(header) and (end or not header.startswith(torn)):
        _refuse(path, mark, "it does not begin with their header")
    if end >= len(header) and file.read(len(header)) != header:
        other = message_header(format, columns, replace(mark, private=not mark.private))
        file.seek(0)
        mixed = file.read(len(other)) == other
        _refuse(path, mark, _other_kind(mark) if mixed else "its header is another")
    if end == len(header) and not _begins_message(torn, format, mark):
        _refuse(path, mark, "what stands in it is no message of this agent and plan")
    if end <= len(header):
        return 0
    file.seek(0)
    first = file.readline()
    lines = [first] if len(first) == end else [first, last]
    reader = MessageReader(RowSource(str(path), b"".join(lines), format), columns, mark=mark)
    if sum(len(block.rows) for block in reader.blocks(2)) != len(lines) - (format == "csv"):
        raise InvalidReading(f"{path}: its last line is no message to continue; choose another file")
    if reader.key != mark.key:
        _refuse(path, mark, "its rows are told apart in another way")
    if format == "jsonl" and any(json.loads(line).get("private", True) is not mark.private for line in lines):
        _refuse(path, mark, _other_kind(mark))
    return reader.last_row


def _begins_message(torn: bytes, format: Format, mark: MessageMark) -> bool:
    """Whether a run that was killed while it wrote a message of this agent and plan may have left these bytes."""
    sent = message_lines(format, [1], np.zeros((1, 1)), mark)
    missed = message_lines(format, [1], np.full((1, 1), MISSED), mark)
    samples = ((sent, b"0.0"), (missed, b"missed"))
    return any(_begins(torn, sample[: sample.rindex(end)], mark.key) for sample, end in samples)


def _begins(torn: bytes, sample: bytes, key: RowKey) -> bool:
    """Whether bytes begin as the sample does, up to the row, and go on as a message does."""
    before, _, after = sample.partition(key.text(1).encode())
    if len(torn) <= len(before):
        return before.startswith(torn)
    rest = torn.removeprefix(before).lstrip(key.characters)
    if not torn.startswith(before) or (rest and not torn[len(before) : len(before) + 1].isdigit()):
        return False
    if len(rest) <= len(after):
        return after.startswith(rest)
    return rest.startswith(after) and not rest.removeprefix(after).strip(b'+-.,0123456789e ]}misd":tru')


def _other_kind(mark: MessageMark) -> str:
    made = "were made with --seed and are not private" if mark.private else "are private, made without --seed"
    return f"those in it {made}"


def _refuse(path: Path, mark: MessageMark, found: str) -> NoReturn:
    raise InvalidReading(
        f"{path}: expected the messages of {mark.agent!r}{'' if mark.private else ' made with --seed'} to add to, "
        f"but {found}; nothing in it was changed: choose another file"
    )
