"""Writing a file whole or not at all: a failed write leaves what was there before."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | PathLike[str], *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and vanishes otherwise.

    ``mode`` sets the permissions; otherwise they stay as they were, or follow the umask for a new file.
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        if mode is None and target.exists():
            mode = target.stat().st_mode & 0o777
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        error.filename = str(path)  # the user's file, not our temporary one
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(beside)):
            error.filename, error.filename2 = str(path), None
        raise
    _remember_folder(target.parent)


def write_bytes(path: str | PathLike[str], content: bytes, *, mode: int | None = None) -> None:
    """Write bytes whole or not at all."""
    with replacing(path, mode=mode) as file:
        file.write(content)


def write_text(path: str | PathLike[str], content: str, *, mode: int | None = None) -> None:
    """Write UTF-8 text whole or not at all; line ends stay as they are."""
    write_bytes(path, content.encode("utf-8"), mode=mode)


def _remember_folder(folder: Path) -> None:
    # Without this a power cut may undo the renaming; not every system lets a folder be opened.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
