"""Locks on open files, which end with the process that holds them, however it ends.

A lock belongs to an opened file, so two threads that each open the file exclude each other like two
processes. Not every file system has such locks. Callers that can do without what only a lock makes safe ask
:func:`lock`; those that cannot, since a second writer would do damage, ask :func:`require_lock`.
"""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

from veilnet._core.errors import VeilnetError

_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def _take(handle: int, *, wait: bool, shared: bool = False) -> None:
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)


def lock(handle: int, *, wait: bool = True, shared: bool = False) -> bool:
    """Whether the file is now ours alone (or, shared, free of writers); waits for it unless ``wait`` is False."""
    try:
        _take(handle, wait=wait, shared=shared)
    except OSError:
        return False
    return True


def require_lock(handle: int, path: Path, use: str) -> None:
    """As :func:`lock`, at once, but an error where it is not held; ``use`` says what another run would be doing."""
    try:
        _take(handle, wait=False)
    except OSError as error:
        if error.errno in _TAKEN:
            raise VeilnetError(f"{path}: another run {use}; wait until it has ended") from None
        raise VeilnetError(
            f"{path}: the file could not be locked ({error.strerror}), as on file systems without locks, so nothing "
            "would keep a second run out; nothing was written: keep the file on a local disk"
        ) from error
