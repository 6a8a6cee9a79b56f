"""A file of messages that is added to and survives being killed: no torn, doubled or foreign line.

What is added is on the disk before the next block is read. A line that was being written when the run was
killed has no line end: it is no message, and is cut off. The file must be one of the same agent and plan, and
only one run adds to it at a time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.io._atomic import remember_folder
from veilnet.io._chain import write_all
from veilnet.io._locking import lock
from veilnet.io.message_streams import MessageMark, MessageReader, message_header
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
        if not lock(file.fileno(), wait=False):
            raise InvalidRequest(f"{path}: another run is adding to this file; wait until it has ended")
        size = file.seek(0, os.SEEK_END)
        last, end = _last_line(file, size)
        os.ftruncate(file.fileno(), end)
        found = AppendedFile(file.fileno(), path, 0, end, size - end)
        if end == 0:
            found.write(message_header(format, columns, mark))
            remember_folder(path.parent)
        else:
            found.last_row = _last_row(file, last, path, format, columns, mark)
        yield found


def _last_line(file: IO[bytes], size: int) -> tuple[bytes, int]:
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
    file: IO[bytes], last: bytes, path: Path, format: Format, columns: int, mark: MessageMark
) -> int:
    """The row of the last message; an error where the file is not one of this agent and plan."""
    file.seek(0)
    first = file.readline() if format == "csv" else b""
    if format == "csv" and first != message_header(format, columns, mark):
        raise InvalidReading(
            f"{path}: expected the messages of {mark.agent!r}{'' if mark.private else ' made with --seed'} to add "
            "to, but its header is another; choose another file"
        )
    if format == "csv" and first == last:
        return 0
    reader = MessageReader(io.BytesIO(first + last), format, columns, mark=mark, label=str(path))
    blocks = list(reader.blocks(2))
    if not blocks or blocks[-1].refused:
        raise InvalidReading(f"{path}: its last line is no message to continue; choose another file")
    return reader.last_row
