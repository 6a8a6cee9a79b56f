"""Who leaves a connection to SQLite open: counted, so that every Python finds it, not only one that warns."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class OpenConnections:
    """The connections that were opened while it counts and not closed, each with the lines that opened it.

    lasting: whether what is opened now may outlast a test, up to the end of its file.
    """

    def __init__(self) -> None:
        self.lasting = False
        self._opened: dict[sqlite3.Connection, tuple[bool, str]] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Every connection that is opened here is counted until it is closed."""
        connect = sqlite3.connect

        def counted(*given: Any, **named: Any) -> sqlite3.Connection:
            made: sqlite3.Connection = connect(*given, **named)
            self._opened[made] = self.lasting, _opened_at()
            return made

        sqlite3.connect = counted  # type: ignore[assignment]
        try:
            yield
        finally:
            sqlite3.connect = connect

    def left_open(self, *, lasting: bool) -> list[str]:
        """The lines whose connections are still open; they are closed, so that each is told of once.

        lasting: whether those count that may outlast a test.
        """
        judged = {each: lines for each, (lasts, lines) in self._opened.items() if lasting or not lasts}
        left = sorted(lines for each, lines in judged.items() if _is_open(each))
        for connection in judged:
            with suppress(sqlite3.ProgrammingError):  # opened by a thread that keeps it to itself
                connection.close()
            del self._opened[connection]
        return left


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def _opened_at() -> str:
    """The innermost lines of this project, but for those here."""
    root = str(Path(__file__).parents[2])
    frames = [each for each in traceback.extract_stack() if each.filename.startswith(root)]
    ours = [each for each in frames if each.filename != __file__ and "/.venv/" not in each.filename]
    return " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(ours[-4:]))
