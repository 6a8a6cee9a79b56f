"""Locks on open files, which end with the process that holds them, however it ends.

A lock belongs to an opened file, so two threads that each open the file exclude each other like two
processes. Where the system has no such locks the answer is False, and callers do without what only a lock
makes safe.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":  # pragma: no cover

    def lock(handle: int, *, wait: bool = True, shared: bool = False) -> bool:
        """Whether the file is now ours alone (or, shared, free of writers); waits for it unless told not to."""
        import msvcrt
        import os

        del shared
        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, 2**40, os.SEEK_SET)  # beyond any content: a locked byte cannot be read
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, place, os.SEEK_SET)
        return True

else:

    def lock(handle: int, *, wait: bool = True, shared: bool = False) -> bool:
        """Whether the file is now ours alone (or, shared, free of writers); waits for it unless told not to."""
        import fcntl

        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
