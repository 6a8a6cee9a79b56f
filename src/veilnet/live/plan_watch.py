"""Roll-over: a new version of a plan's file is noticed, checked and taken up while agents and centre run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veilnet._core.errors import VeilnetError
from veilnet.io._sealed import sealed_bytes
from veilnet.io.acceptance import PlanFile

_Mark = tuple[int, int, int]


class PlanWatch:
    """Looks whether a file was replaced, and hands its bytes to the judge of whether they may be run.

    file:    the plan's. One that was refused is tried again when what was agreed to, or its pins, change: its owner
             has read it, and agreed.
    accept:  called with the new bytes; raises VeilnetError where they may not be run, and the old plan goes on.
    say:     called with what was refused.
    """

    def __init__(self, file: PlanFile, accept: Callable[[bytes], None], say: Callable[[str], None]) -> None:
        self._path, self._accept, self._say, self._agreed = file.path, accept, say, file.agreed
        self._seen = self._look()
        self._refused: tuple[_Mark | None, ...] | None = None  # what was agreed to when a file was refused

    def check(self) -> bool:
        """Whether another version was taken up just now."""
        found = self._look()
        if found is None:
            return False
        agreed = tuple(_mark(each) for each in self._agreed)
        if found == self._seen and self._refused in (None, agreed):
            return False
        self._seen, self._refused = found, None
        try:
            self._accept(sealed_bytes(self._path))
        except (VeilnetError, OSError) as error:
            self._refused = agreed
            self._say(f"{self._path} was replaced, but is not used; the previous plan continues: {error}")
            return False
        return True

    def _look(self) -> tuple[_Mark, _Mark | None] | None:
        """What tells one file, with its signature, from another; None while there is none."""
        found = _mark(self._path)
        return None if found is None else (found, _mark(self._path.with_name(self._path.name + ".dsse")))


def _mark(path: Path) -> _Mark | None:
    """What tells a file from another of its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
