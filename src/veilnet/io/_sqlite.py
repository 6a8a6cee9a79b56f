"""SQLite files that survive kills: opened by one process, durable at every commit, refused when damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Self

from veilnet._core.errors import InvalidPlan, InvalidRequest, Unwritable, VeilnetError
from veilnet.io._atomic import create, remember_folder
from veilnet.io._formats import check_format
from veilnet.io._locking import require_lock

_PATIENCE = 60.0  # seconds that a connection waits for another one of the same process


class Lock:
    """Keeps other runs away from a file until it is closed, or the process ends: a lock on ``<file>.lock``.

    path: the file; ``use`` says what another run would be doing with it.
    """

    def __init__(self, path: Path, use: str) -> None:
        # not on the database itself: closing any handle of it would drop the locks of SQLite's own
        beside = path.with_name(path.name + ".lock")
        self._handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            require_lock(self._handle, path, use)
        except BaseException:
            os.close(self._handle)
            raise

    def close(self) -> None:
        """Let others in."""
        os.close(self._handle)


class Opened:
    """Files that are open until their one owner closes them, by ``with`` or by :meth:`close`."""

    def __init__(self, files: ExitStack) -> None:
        self._files = files

    def close(self) -> None:
        """Let others open them."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_database(
    path: Path,
    kind: str,
    schema: str,
    fill: Callable[[sqlite3.Connection], object] = lambda _: None,
    *,
    mode: int = 0o600,
    page: int = 4096,
) -> None:
    """A new file with these tables, readable by its owner alone; nothing of it is there if this is interrupted.

    kind: what it is, kept inside; FileExistsError where there is a file of that name.
    fill: writes what the tables begin with.
    mode: other permissions, less what the umask takes.
    page: bytes of a page, which is what a change of one row writes.
    """
    with closing(connect(None)) as database:
        database.execute(f"PRAGMA page_size = {page}")
        fill_database(database, kind, schema, fill)
        content = database.serialize()
    create(path, content, mode=mode)


def fill_database(
    database: sqlite3.Connection, kind: str, schema: str, fill: Callable[[sqlite3.Connection], object]
) -> None:
    """The tables of a new database, and what they begin with."""
    with transaction(database):
        for statement in schema.split(";"):
            database.execute(statement)
        database.execute("CREATE TABLE kind (kind TEXT NOT NULL)")
        database.execute("INSERT INTO kind VALUES (?)", (kind,))
        fill(database)


def copy_database(database: sqlite3.Connection, path: Path) -> None:
    """A copy in a new file, on the disk and readable by its owner alone; InvalidRequest where there is one."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidRequest(
            f"{path}: exists already, and nothing is put over it; choose another name"
        ) from None
    try:
        database.execute("VACUUM INTO ?", (str(path),))
        os.fsync(handle)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise VeilnetError(
                f"{path}: the copy could not be written ({error}); nothing was changed"
            ) from error
        raise
    finally:
        os.close(handle)
    remember_folder(path.absolute().parent)


def open_database(
    path: Path, kind: str, *, what: str, journal: str = "WAL", mend: str = "bring back a whole one"
) -> sqlite3.Connection:
    """A connection to an existing file of this kind whose pages are whole; each commit is on the disk.

    what:    names its content in errors, which ``mend`` says what to do about.
    journal: "DELETE" where those who may only read should read it too, and the one file has to be all of it.
    """
    if not path.is_file():
        raise InvalidRequest(f"{path}: no such file; it should be {what}")
    with ExitStack() as files:
        try:
            database = files.enter_context(closing(connect(path)))
            database.execute(f"PRAGMA journal_mode = {journal}")
            found = database.execute("SELECT kind FROM kind").fetchone()
            whole = database.execute("PRAGMA quick_check").fetchone()
        except sqlite3.Error as error:
            raise InvalidPlan(
                f"{path}: expected {what}, found a file that cannot be read ({error}); {mend}"
            ) from None
        try:
            check_format(None if found is None else found[0], kind)
        except InvalidPlan as error:
            raise InvalidPlan(f"{path}: expected {what}; {error}") from None
        if whole[0] != "ok":
            raise InvalidPlan(f"{path}: {what} is damaged ({whole[0]}); {mend}")
        files.pop_all()  # the caller's from here on
    return database


def connect(path: Path | None, *, durable: bool = True, read_only: bool = False) -> sqlite3.Connection:
    """A connection, its caller's to close, without hidden transactions.

    path:    None for a database in memory.
    durable: False where a crash of the machine may undo commits.
    """
    database = sqlite3.connect(
        ":memory:" if path is None else f"{path.absolute().as_uri()}{'?mode=ro' if read_only else ''}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    try:  # EXTRA: without a write-ahead log a power cut may undo the last commit where it is FULL
        database.execute(f"PRAGMA synchronous = {'EXTRA' if durable else 'NORMAL'}")
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    try:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("COMMIT")
    except BaseException as error:
        if database.in_transaction:
            database.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise Unwritable(
                f"the store could not be written ({error}); nothing of it was changed"
            ) from error
        raise
