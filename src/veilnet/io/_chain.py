"""Chained entries in an SQLite file: a crash, a full disk or a second writer leaves no torn or doubled one.

Each entry is a JSON object with the hash of the entry before and of itself,

    hash = SHA-256(hash before, line end, JSON),

and the first one, numbered 0, says whose chain it is. The hashes are not signatures: they tell accidents, and with a
*head* (the number of entries and the last hash) kept elsewhere also whether the chain still continues what it was.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io._sqlite import create_database, open_database, transaction

_SCHEMA = "CREATE TABLE entries (place INTEGER PRIMARY KEY, entry TEXT NOT NULL, hash TEXT NOT NULL)"
_MOST_DIGITS = 18  # of the number of entries in a head


def continues(head: str, argument: str, hashes: Sequence[str]) -> list[str]:
    """What is wrong where a chain does not go on from a head that was kept; InvalidRequest where it is none.

    argument: what the head was given as, for the error. hashes: of the chain's entries, from that numbered 0.
    """
    written, _, kept = head.partition("-")
    if not (written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS) or not kept:
        raise InvalidRequest(f"{argument}: expected what the last audit showed, number-hash, found {head!r}")
    place = int(written)
    if place >= len(hashes):
        return [f"it was set back: {place} entries at the last audit, now {len(hashes) - 1}"]
    if hashes[place] != kept:
        which = f"entry {place}" if place else "its beginning"
        return [f"it was rewritten: {which} is not the one of the last audit"]
    return []


class Chain:
    """An open chain; ``hashes`` are those of the entries that were read or added."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path
        self.hashes: list[str] = []

    def read(self) -> Iterator[dict[str, Any]]:
        """Entry after entry; InvalidPlan names the first that does not continue the one before."""
        try:
            rows = self._database.execute("SELECT place, entry, hash FROM entries ORDER BY place").fetchall()
        except sqlite3.Error as error:
            raise InvalidPlan(
                f"{self._path}: the ledger is damaged ({error}); bring back a whole one"
            ) from None
        for number, row in enumerate(rows or [()]):
            try:
                place, text, digest = row
                entry = dict(json.loads(text))
                sound = place == number and digest == self._digest(text)
            except (ValueError, TypeError, AttributeError, RecursionError):
                sound = False
            if not sound:
                raise InvalidPlan(
                    f"{self._path}: entry {number} does not continue the ledger: it was changed"
                )
            self.hashes.append(digest)
            yield entry

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry, which is on the disk when the chain is closed."""
        text = json.dumps(entry, separators=(",", ":"))
        digest = self._digest(text)
        self._database.execute("INSERT INTO entries VALUES (?, ?, ?)", (len(self.hashes), text, digest))
        self.hashes.append(digest)

    def _digest(self, text: str) -> str:
        before = self.hashes[-1] if self.hashes else ""
        return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def begin_chain(path: str | PathLike[str], kind: str, first: Mapping[str, Any]) -> None:
    """A new file that holds the first entry, whole or not at all; an error where a file is already."""
    target = Path(path)
    try:
        create_database(target, kind, _SCHEMA, lambda new: Chain(new, target).append(first), mode=0o666)
    except FileExistsError:
        raise InvalidRequest(
            f"{path}: a ledger is there already; open it, or choose another name (a new one forgets)"
        ) from None


@contextmanager
def open_chain(path: Path, kind: str, *, write: bool = True) -> Iterator[Chain]:
    """The chain; to be written, it is this caller's alone until the block ends, and as it was if that fails."""
    opened = open_database(path, kind, what="a ledger of plans (Ledger.create begins one)", journal="DELETE")
    with closing(opened) as database, transaction(database) if write else nullcontext():
        yield Chain(database, path)
