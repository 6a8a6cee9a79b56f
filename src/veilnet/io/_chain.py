"""Append-only files of chained lines: a crash, a full disk or a second writer leaves no torn or doubled entry.

One JSON object per line; each carries the hash of the line before and of itself. A line counts once its line
end is on the disk: what was being written when the power failed, or the disk was full, is no entry, and the
next writer cuts it off. Whoever appends holds a lock for as long as the file is open, so that threads and
processes take turns. The hashes are not signatures: they tell accidents, and with a *head* (the number of
entries and the last hash) kept elsewhere also whether the file still continues what it was.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet.io import _atomic
from veilnet.io._formats import check_format
from veilnet.io._locking import lock, require_lock

_LONGEST_LINE = 2**28  # bytes
_MOST_DIGITS = 18  # of the number of entries in a head
_OURS = ("previous", "hash")


def read_head(head: str, argument: str) -> tuple[int, str]:
    """(how many entries, the hash of the last) of a head that was kept; InvalidRequest where it is none.

    argument: what the head was given as, for the error.
    """
    place, _, kept = head.partition("-")
    if not (place.isascii() and place.isdigit() and len(place) <= _MOST_DIGITS) or not kept:
        raise InvalidRequest(f"{argument}: expected what the last audit showed, number-hash, found {head!r}")
    return int(place), kept


class Chain:
    """An open chained file. ``lines`` and ``hash`` say where it ends; ``torn`` whether a rest is left over."""

    def __init__(self, file: IO[bytes], path: Path, kind: str) -> None:
        self._file = file
        self._path = path
        self._kind = kind
        self._end = 0
        self.lines = 0
        self.hash = ""
        self.torn = False

    @property
    def head(self) -> str:
        """The number of entries and the hash of the last line."""
        return f"{self.lines - 1}-{self.hash}"

    def read(self) -> Iterator[dict[str, Any]]:
        """The header, then the entries; InvalidPlan names the first line that does not continue the one before."""
        while True:
            raw = self._file.readline(_LONGEST_LINE)
            if len(raw) == _LONGEST_LINE:
                raise InvalidPlan(f"{self._path}: line {self.lines + 1} is no entry: it was changed")
            if not raw.endswith(b"\n"):
                self.torn = bool(raw)
                break
            line = self._checked(raw)
            self.lines += 1
            self.hash = line["hash"]
            self._end += len(raw)
            yield line
        if self.lines == 0:
            raise InvalidPlan(
                f"{self._path}: the ledger is empty; it was not begun by veilnet, or was emptied: "
                "keep it for the auditor and begin another under a new name"
            )

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry that is on the disk when this returns; when it cannot be, the file stays as it was."""
        digest = _digest(entry, self.hash)
        line = (
            json.dumps({**entry, "previous": self.hash, "hash": digest}, separators=(",", ":")).encode()
            + b"\n"
        )
        handle = self._file.fileno()
        try:
            os.ftruncate(handle, self._end)  # what a crash left of a line that never became an entry
            write_all(handle, line, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(handle, self._end)
            why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
            raise VeilnetError(
                f"{self._path}: the entry could not be written ({why}), so nothing may be released; "
                "the ledger is as it was: make room and try again"
            ) from error
        self.lines += 1
        self.hash = digest
        self._end += len(line)
        self.torn = False

    def _checked(self, raw: bytes) -> dict[str, Any]:
        try:
            line = json.loads(raw)
            entry = {key: value for key, value in line.items() if key not in _OURS}
            sound = line["previous"] == self.hash and line["hash"] == _digest(entry, self.hash)
            sound = sound and (
                entry["entry"] == self.lines if self.lines else isinstance(entry["format"], str)
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sound = False
        if not sound:
            raise InvalidPlan(
                f"{self._path}: line {self.lines + 1} does not continue the ledger: it was changed"
            )
        if not self.lines:
            try:
                check_format(line["format"], self._kind, InvalidRequest)
            except InvalidRequest as error:
                raise InvalidRequest(f"{self._path}: {error}") from None
        return dict(line)


def begin_chain(path: str | PathLike[str], header: Mapping[str, Any]) -> None:
    """A new file that holds the header, whole or not at all; an error where a file is already."""
    line = {**header, "previous": "", "hash": _digest(header, "")}
    try:
        _atomic.create(path, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    except FileExistsError:
        raise InvalidRequest(
            f"{path}: a ledger is there already; open it, or choose another name (a new one forgets)"
        ) from None


@contextmanager
def open_chain(path: Path, kind: str, *, write: bool = True, wait: bool = True) -> Iterator[Chain]:
    """The file, locked until the block ends; for others to wait, or to be told that it is in use.

    Nothing is written without a lock: two writers would both continue the same line.
    """
    try:
        file = path.open("r+b" if write else "rb")
    except FileNotFoundError:
        raise InvalidPlan(f"{path}: no such ledger; begin one first") from None
    with file:
        if write or not wait:
            require_lock(file.fileno(), path, "uses this ledger", wait=wait, shared=not write)
        else:
            lock(file.fileno(), shared=True)  # without one, an entry that is being written may look torn
        yield Chain(file, path, kind)


def write_all(handle: int, content: bytes, place: int) -> None:
    """Write bytes at a place of a file, past any buffer, until they are on the disk."""
    os.lseek(handle, place, os.SEEK_SET)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _digest(entry: Mapping[str, Any], previous: str) -> str:
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
