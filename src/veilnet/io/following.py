"""A file that grows, and a named pipe that one program after another writes to: lines as they are completed."""

from __future__ import annotations

import io
import os
import stat
import time
from pathlib import Path

from veilnet._core.errors import InvalidReading

_LOOK = 0.2  # seconds between two looks at a file that had nothing new


class Following(io.RawIOBase):
    """Lines of a file from its first on, without an end: it waits for more.

    path:  where it is. A file that took its place (a log that was rotated), or that was emptied, is read from its
           first line on, when the one before is read.
    again: whether such a file has to begin as the one before did, as a table with a header does; that line is then
           left out. Another one is an error, since nobody knows what its columns are.
    """

    def __init__(self, path: Path, *, again: bool) -> None:
        self._path, self._again = path, again
        self._file = path.open("rb")
        self._begun = b""  # the part of a line that is there
        self._first: bytes | None = None  # line of the file
        self._is_next_first = True

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line, or ``size`` bytes of a longer one; waits for it."""
        most = -1 if size is None else size
        while True:
            piece = self._file.readline(most if most < 0 else most - len(self._begun))
            self._begun += piece
            if self._begun.endswith(b"\n") or 0 <= most <= len(self._begun):
                line = self._taken()
                if not self._is_repeated(line):
                    return line
            elif not piece:
                if not self._was_replaced():
                    time.sleep(_LOOK)
                elif self._begun:
                    return self._taken()  # without its end, which its reader refuses

    def close(self) -> None:
        """Read no more."""
        self._file.close()
        super().close()

    def _taken(self) -> bytes:
        line, self._begun = self._begun, b""
        return line

    def _is_repeated(self, line: bytes) -> bool:
        """Whether it is the first line of a file that took another's place, and the same as there."""
        is_first, self._is_next_first = self._is_next_first, False
        if self._first is None:
            self._first = line
        elif is_first and self._again:
            if line != self._first:
                raise InvalidReading(
                    f"{self._path}: it was replaced, and its first line is not the one from before, so its columns "
                    "are not known; nothing more is sent: start the agent anew, with a header that stays the same"
                )
            return True
        return False

    def _was_replaced(self) -> bool:
        """Whether there is another file in its place, or nothing left in it; that is then read from its start."""
        there = os.fstat(self._file.fileno())
        if not stat.S_ISREG(there.st_mode):
            return False
        try:
            named = self._path.stat()
        except FileNotFoundError:  # between two files
            return False
        if os.path.samestat(there, named) and named.st_size >= self._file.tell():
            return False
        self._file.close()
        self._file = self._path.open("rb")
        self._is_next_first = True
        return True
