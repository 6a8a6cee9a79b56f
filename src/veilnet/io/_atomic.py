"""Writing a file whole or not at all: a failed or killed write leaves what was there before.

A file is written beside its place and renamed when it is complete. A run that was killed leaves what it had
written so far beside; the next one that writes the same file removes it. Which of them are dead is shown by a
lock that the writer holds and that ends with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from veilnet.io._locking import lock


@contextmanager
def replacing(path: str | PathLike[str], *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and vanishes otherwise.

    ``mode`` sets the permissions; otherwise they stay as they were, or follow the umask for a new file. What
    is no regular file, a device or a pipe, is written to as it is.
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as file:
            yield file
        return
    with _beside(target, path, 0o666 if mode is None else mode) as (file, beside):  # from its first byte on
        yield file
        if mode is None and target.exists():
            mode = target.stat().st_mode & 0o777
        file.flush()
        os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    remember_folder(target.parent)


def create(path: str | PathLike[str], content: bytes, *, mode: int = 0o666) -> None:
    """A new file with this content: there whole or not at all; FileExistsError where something is already.

    ``mode`` sets the permissions, less what the umask takes.

    File systems without hard links (memory cards) get the file written in its place. It is removed when that
    fails; only a power cut or a kill at that moment leaves a part of it, which readers then refuse.
    """
    target = Path(path)
    with _beside(target, path, mode) as (file, beside):
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(beside, target)  # unlike renaming, this refuses to replace
        except FileExistsError:
            raise
        except OSError:
            _create_in_place(target, content, mode)
    remember_folder(target.parent)


def _create_in_place(target: Path, content: bytes, mode: int) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            lock(handle, wait=False)  # another that opens it meanwhile waits, or hears that it is in use
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def write_bytes(path: str | PathLike[str], content: bytes, *, mode: int | None = None) -> None:
    """Write bytes whole or not at all."""
    with replacing(path, mode=mode) as file:
        file.write(content)


def write_text(path: str | PathLike[str], content: str, *, mode: int | None = None) -> None:
    """Write UTF-8 text whole or not at all; line ends stay as they are."""
    write_bytes(path, content.encode("utf-8"), mode=mode)


def remember_folder(folder: Path) -> None:
    """Make renamings in a folder last; without it a power cut may undo them. Not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _beside(target: Path, path: str | PathLike[str], mode: int = 0o666) -> Iterator[tuple[IO[bytes], Path]]:
    """A locked file beside the target, gone at the end unless it was renamed; errors name ``path``.

    Its name is known before it is there: an interrupt while it is opened would leave it otherwise.
    """
    beside = _name_beside(target)
    try:
        try:
            _remove_dead(target)
            while (handle := _opened(beside, mode)) is None:
                beside = _name_beside(target)
        except OSError as error:
            error.filename, error.filename2 = str(path), None  # the user's file, not our temporary one
            raise
        with os.fdopen(handle, "wb") as file:
            yield file, beside
    except OSError as error:
        if error.filename in (None, str(beside)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):
            beside.unlink()


def _name_beside(target: Path) -> Path:
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp")


def _opened(beside: Path, mode: int) -> int | None:
    """A new file, locked; None where another run took it for a dead one before it was locked."""
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    lock(handle, wait=False)
    if beside.exists():
        return handle
    os.close(handle)
    return None


def _remove_dead(target: Path) -> None:
    """Remove what killed runs left beside the target: nobody holds a lock on it any more."""
    prefix = _prefix(target)
    for name in os.listdir(target.parent):  # noqa: PTH208 - a glob would read the name as a pattern
        if not (name.startswith(prefix) and name.endswith(".tmp") and len(name) == len(prefix) + 16):
            continue
        left = target.with_name(name)
        with suppress(OSError):
            handle = os.open(left, os.O_WRONLY)
            try:
                if lock(handle, wait=False):
                    left.unlink()
            finally:
                os.close(handle)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."
