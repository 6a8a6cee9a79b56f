"""Which readings an agent has released already, whatever store and file they went to: kept beside the agent's file.

Noise protects a reading once: 300 draws of it average out. ``sanitize`` and ``agent`` therefore
keep hashes of what they read, in ``<agent>.released`` beside the agent's file, and refuse to read it again. A hash is
of a run of rows that their own numbers cut out (:mod:`veilnet.model.fitted`), so that rows are known again in a
file that has grown, was cut or is a part of another. One more is of all rows together, with their numbers or times.
Runs of a few rows that repeat are left out: a room at night looks like the same room the night before.

A hash is on the disk before the last row of its run is sent. Where few rows, or coarse ones, could be guessed their
hash tells whether the guess is right, so only the owner may read the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array
from veilnet.io._formats import check_format
from veilnet.io._locking import lock
from veilnet.io.streams import Block
from veilnet.model.fitted import marks_of_run, runs_of

_DISTINCT = 8  # rows of a run that differ
_LONGEST = 2048  # rows of a run
_FIRST = "veilnet-released/1"


def released_beside(
    file: Path, readings: int, accepted: Path | None = None, *, again: bool = False
) -> ReleasedRows:
    """What the agent of a file released, so many readings in a row.

    accepted: where it is kept which plan was agreed to, if that is not beside the file; this is then there too.
    again: whether it may be released once more.
    """
    return ReleasedRows((accepted or file).with_name(f"{file.stem}.released"), readings, again=again)


class ReleasedRows:
    """The rows that an agent released.

    path:     of the file, made with the first of them.
    readings: how many a row has.
    again:    whether rows that are known are let through.
    """

    def __init__(self, path: Path, readings: int, *, again: bool) -> None:
        self._path, self._again = path, again
        if not os.access(path if path.exists() else path.absolute().parent, os.R_OK | os.W_OK):
            raise InvalidRequest(
                f"{path}: what is released is noted there, and it cannot be read and written; nothing was sent: keep "
                "the agent's file, or what --accepted names, in a folder that this user may write to"
            )
        self._known: set[str] = set() if not path.exists() else self._read(path.read_bytes())
        self._new: list[str] = []
        self._own: set[str] = set()  # of this run, which may well come again in it
        self._whole = hashlib.sha256()
        self._run = np.zeros((0, readings))  # rows since the last run ended

    def refuse(self, readings: Array) -> None:
        """An error where some of these readings (T, N_i) were released before; nothing is taken note of."""
        self._refuse(runs_of(np.concatenate([self._run, readings]), distinct=_DISTINCT)[0])

    def look(self, rows: Sequence[int], readings: Array) -> None:
        """Take note of readings (T, N_i) that are about to be released; an error where they were before.

        rows: their numbers or times.
        """
        numbers = np.array(rows, dtype="<i8").view("<f8")
        self._whole.update(np.column_stack([numbers, readings + 0.0]).tobytes())
        marks, self._run = runs_of(np.concatenate([self._run, readings]), distinct=_DISTINCT)
        if len(self._run) >= _LONGEST:
            self._end_run(marks)
        self._refuse([*marks, self._all_rows])
        self._new += marks

    def look_at_all(self, *, sent: bool) -> None:
        """Likewise of all rows together, once there are no more. sent: whether they were sent already."""
        marks = [self._all_rows]
        self._end_run(marks)
        if sent:
            self._own |= set(marks)
        self._refuse(marks)
        self._new += marks

    def keep(self) -> None:
        """Write down what was taken note of, on the disk, before any of it leaves."""
        if not self._new:
            return
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "r+b") as file:
            lock(handle)
            there = file.read()
            self._known |= self._read(there) if there else set()  # another run may have come before
            self._refuse(self._new)
            begun = "" if there.endswith(b"\n") else "\n" if there else f"{_FIRST}\n"
            file.write((begun + "".join(f"{line}\n" for line in self._new)).encode("ascii"))
            file.flush()
            os.fsync(handle)
        self._own |= set(self._new)
        self._new = []

    @property
    def _all_rows(self) -> str:
        return f"all {self._whole.hexdigest()}"

    def _end_run(self, marks: list[str]) -> None:
        marks += marks_of_run(self._run, distinct=_DISTINCT)
        self._run = self._run[:0]

    def _read(self, content: bytes) -> set[str]:
        first, *lines = content.decode("ascii", "replace").splitlines() or [""]
        try:
            check_format(first, _FIRST)
        except InvalidPlan as error:
            raise InvalidRequest(
                f"{self._path}: expected what was released, and nothing is sent without it; {error}"
            ) from None
        return set(lines)

    def _refuse(self, marks: Collection[str]) -> None:
        if not self._again and not self._known.isdisjoint(set(marks) - self._own):
            raise InvalidRequest(
                f"some of these readings were released before ({self._path}), so nothing was sent: repeated releases "
                "with fresh noise reveal a reading. To continue a log, use its --store; if the earlier output never "
                "left this machine, 'sanitize --again' repeats it"
            )


class CountedRows:
    """Whether lines that are counted are those that were counted before: another log has other readings in them.

    last:  the last row that was sent; ``known`` a hash of all up to that one, None where nothing was sent.
    label: names the log in errors.
    """

    def __init__(self, last: int, known: bytes | None, label: str) -> None:
        self._last, self._known, self._label = last, known, label
        self._read = hashlib.sha256()

    def look(self, block: Block) -> dict[int, bytes]:
        """row -> a hash of all rows up to it; InvalidRequest where those that were sent are others now."""
        lines = {row: b"refused" for _, row, _ in block.refused if row is not None}
        lines |= {row: repr(numbers).encode() for row, numbers in zip(block.rows, block.numbers, strict=True)}
        found = {}
        for row in sorted(lines):
            self._read.update(lines[row] + b"\n")
            found[row] = self._read.digest()
            if row == self._last and self._known not in (None, found[row]):
                raise InvalidRequest(
                    f"{self._label}: its first {self._last} rows are not those that this store has released, so it "
                    "is another log, and its lines cannot be counted on from there; nothing was sent: number the "
                    "rows of all logs in a column 'row', give their times, or sanitize this log with another store"
                )
        return found
