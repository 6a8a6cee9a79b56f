"""Roll-over: a new version of a plan's file is noticed, checked and taken up while agents and centre run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veilnet._core.errors import VeilnetError
from veilnet.io._sealed import sealed_bytes

__all__ = ["PlanWatch"]


class PlanWatch:
    """Looks whether a file was replaced, and hands its bytes to whoever can tell whether they may be run.

    path:    the plan's file.
    accept:  called with the new bytes; raises VeilnetError where they may not be run, and the old plan goes on.
    say:     told of what was refused.
    """

    def __init__(self, path: Path, accept: Callable[[bytes], None], say: Callable[[str], None]) -> None:
        self._path, self._accept, self._say = path, accept, say
        self._seen = self._look()

    def check(self) -> bool:
        """Whether another version was taken up just now."""
        found = self._look()
        if found is None or found == self._seen:
            return False
        self._seen = found
        try:
            self._accept(sealed_bytes(self._path))
        except (VeilnetError, OSError) as error:
            self._say(f"{self._path} was replaced, and is not taken up; the plan before goes on: {error}")
            return False
        return True

    def _look(self) -> tuple[int, ...] | None:
        """What tells one file from another; None while there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        beside = self._path.with_name(self._path.name + ".dsse")
        signed = beside.stat().st_mtime_ns if beside.exists() else 0
        return found.st_ino, found.st_size, found.st_mtime_ns, signed
