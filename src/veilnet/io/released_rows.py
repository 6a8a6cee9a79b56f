"""Which readings an agent has released already, kept beside its messages where there is no ledger.

Noise protects a reading once: whoever has it under 300 draws averages them away. ``veilnet sanitize --out`` therefore
keeps hashes of what it read, in ``<agent>.released`` in the folder of its messages, and refuses to read it again. A
hash is of a run of rows that their own numbers cut out (:mod:`veilnet.model.fitted_rows`), so that rows are known
again in a file that has grown, was cut or is a part of another. One more is of all rows together, with their numbers
or times. Runs of a few rows that repeat are left out: a room at night looks like the same room the night before.

Rows are hashed before their messages are in the file. Where few rows, or coarse ones, could be guessed their hash
tells whether the guess is right, so only the owner may read the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.model.fitted_rows import all_marks

__all__ = ["ReleasedRows"]

_DISTINCT = 8  # rows of a run that differ
_FIRST = "veilnet-released/1"


class ReleasedRows:
    """The rows that an agent released into a folder.

    path:  of the file, made with the first of them.
    again: whether rows that are known are let through.
    """

    def __init__(self, path: Path, *, again: bool) -> None:
        self._path, self._again = path, again
        lines = path.read_text("ascii").splitlines() if path.exists() else [_FIRST]
        if lines[:1] != [_FIRST]:
            raise InvalidRequest(
                f"{path}: expected what sanitize released, found something else; move it away"
            )
        self._known = set(lines[1:])
        self._new: list[str] = []
        self._whole = hashlib.sha256()

    def look(self, rows: Sequence[int], readings: Array) -> None:
        """Take note of readings (T, N_i) that are about to be released; an error where they were before.

        rows: their numbers or times.
        """
        self._whole.update(repr(rows).encode() + (readings + 0.0).tobytes())
        self._take(all_marks(readings, distinct=_DISTINCT))

    def look_at_all(self) -> None:
        """Likewise of all rows together, once there are no more."""
        self._take([f"all {self._whole.hexdigest()}"])

    def keep(self) -> None:
        """Write down what was taken note of, on the disk, before any of it leaves."""
        if not self._new:
            return
        lines = ([] if self._path.exists() else [_FIRST]) + self._new
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, "".join(f"{line}\n" for line in lines).encode("ascii"))
            os.fsync(handle)
        finally:
            os.close(handle)
        self._known.update(self._new)
        self._new = []

    def _take(self, marks: list[str]) -> None:
        if not self._again and not self._known.isdisjoint(marks):
            raise InvalidRequest(
                f"readings among these were released before ({self._path}), and are not sent: with fresh noise each "
                "time, enough releases of one reading tell it. --append goes on after the last row of a file, "
                "--ledger keeps count; --again releases them once more, if those before never left this machine"
            )
        self._new += marks
