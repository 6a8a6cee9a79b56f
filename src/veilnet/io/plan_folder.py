"""Replacing the files of a plan folder so that, whenever the writer is killed, all old or all new ones are there.

The new files are written to a folder of their own inside, which is then renamed to ``.veilnet-ready``: that
one step decides. Before it the old plan stands, untouched; after it the new one counts, and what is left is to
move each file to its place. A save that was killed is finished, and what others left half-written removed, by
the next who saves or reads; a reader who may not write finds each file where it is. Writers and readers exclude
each other by a lock on the folder, which ends with its holder.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from veilnet.io._atomic import remember_folder
from veilnet.io._locking import lock

_OURS = ".veilnet-"
_READY = ".veilnet-ready"
_REMOVED = ".removed"  # in the ready folder: names of older files that the new ones do not replace


@contextmanager
def saving(folder: Path) -> Iterator[Callable[[Mapping[str, bytes], Sequence[str]], None]]:
    """A function (files, names to remove) that replaces the folder's files, which are nobody else's meanwhile."""
    with _locked(folder, shared=False):
        _finish(folder)
        yield lambda files, removed: _replace(folder, files, removed)


@contextmanager
def reading(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Where each file is to be read; nobody replaces them meanwhile."""
    unfinished = any(path.name.startswith(_OURS) for path in folder.iterdir())
    with _locked(folder, shared=not unfinished) as alone:
        if unfinished and alone:
            with suppress(OSError):  # a reader need not be allowed to write
                _finish(folder)
        ready = folder / _READY
        yield lambda name: ready / name if (ready / name).exists() else folder / name


def _replace(folder: Path, files: Mapping[str, bytes], removed: Sequence[str]) -> None:
    staging = folder / f"{_OURS}{secrets.token_hex(6)}"
    staging.mkdir()
    try:
        for name, content in {**files, _REMOVED: json.dumps(list(removed)).encode()}.items():
            _write(staging / name, content)
        remember_folder(staging)
        staging.replace(folder / _READY)
    except BaseException:
        _remove(staging)
        raise
    remember_folder(folder)
    _finish(folder)


def _finish(folder: Path) -> None:
    """Bring a save that was decided to its end, and remove what others began."""
    ready = folder / _READY
    if ready.is_dir():
        listed = ready / _REMOVED
        if listed.exists():
            for name in json.loads(listed.read_bytes()):
                if Path(name).name == name:
                    (folder / name).unlink(missing_ok=True)
        for path in list(ready.iterdir()):
            if path != listed:
                path.replace(folder / path.name)
        remember_folder(folder)
        listed.unlink(missing_ok=True)
        ready.rmdir()
    for left in folder.glob(f"{_OURS}*"):
        _remove(left)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(staging: Path) -> None:
    with suppress(OSError):
        for path in staging.iterdir():
            path.unlink()
        staging.rmdir()


@contextmanager
def _locked(folder: Path, *, shared: bool) -> Iterator[bool]:
    """Whether the folder is locked; some systems cannot lock one."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield lock(handle, shared=shared) and not shared
    finally:
        os.close(handle)
