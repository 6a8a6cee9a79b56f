"""What is dropped on the page: networks and tables, read as the command line reads them.

A file is kept in a private folder under a name of our own; of the name it came with only the ending is used. Networks
that refer to further files find none there. Tables stay until the studio ends: a model that was made from one can be
audited on it after the next was opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet.io.tables import first_rows
from veilnet.model.network import Network

__all__ = ["MOST_BYTES", "Table", "network_of", "stored", "table_of"]

MOST_BYTES = 50_000_000
_NETWORKS = (".toml", ".json", ".npz", ".mat")
_TABLES = (".csv", ".csv.gz", ".txt", ".tsv", ".parquet", ".feather", ".xlsx")
_SHOWN, _CHARACTERS = 5, 24  # rows, and characters of a cell, that are shown


@dataclass(frozen=True)
class Table:
    """A table that waits for its columns to be given roles.

    name:    as it came.
    path:    where it is kept.
    columns: their names, in order.
    first:   the first rows, as text.
    """

    name: str
    path: Path
    columns: tuple[str, ...]
    first: tuple[tuple[str, ...], ...]


def stored(name: str, content: bytes, folder: Path, endings: tuple[str, ...] = _NETWORKS + _TABLES) -> Path:
    """The file as it is kept; one whose ending says nothing is refused."""
    plain = PurePosixPath(name.replace("\\", "/")).name.lower()
    ending = next((each for each in endings if plain.endswith(each)), None)
    if ending is None:
        raise InvalidRequest(f"{name[:60]!r}: expected a file that ends in {', '.join(endings)}")
    with NamedTemporaryFile(prefix="given-", suffix=ending, dir=folder, delete=False) as file:
        file.write(content)
    return Path(file.name)


def network_of(name: str, content: bytes, folder: Path) -> Network:
    """The network in a file, or in text that was pasted (then the name has no ending)."""
    if "." not in name:
        name += ".json" if content.lstrip()[:1] == b"{" else ".toml"
    kept = stored(name, content, folder, _NETWORKS)
    try:
        return Network.load(kept)
    except InvalidNetwork as error:
        raise _by_its_name(error, kept, name) from error
    finally:
        kept.unlink()


def table_of(name: str, content: bytes, folder: Path) -> Table:
    """The columns of a table and their first values."""
    kept = stored(name, content, folder, _TABLES)
    try:
        names, rows = first_rows(kept, _SHOWN)
    except InvalidNetwork as error:
        kept.unlink()
        raise _by_its_name(error, kept, name) from error
    return Table(name, kept, tuple(names), tuple(tuple(map(_short, row)) for row in rows))


def _by_its_name(error: InvalidNetwork, kept: Path, name: str) -> InvalidNetwork:
    """The same error about the file by the name the page knows it by."""
    return type(error)(str(error).replace(str(kept), name))


def _short(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
