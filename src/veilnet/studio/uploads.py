"""What is dropped on the page: networks and tables, read as the command line reads them.

A table is kept in memory alone: a file would stay behind where the studio is killed. A network is put in a private
folder to be read, where it finds none of the further files that it may refer to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet.io.sources import RowSource
from veilnet.io.tables import first_rows
from veilnet.model.network import Network

MOST_BYTES = 50_000_000
_NETWORKS = (".toml", ".json", ".npz")
_TABLES = (".csv", ".csv.gz", ".txt", ".tsv", ".jsonl", ".parquet", ".feather", ".xlsx")
_SHOWN, _CHARACTERS = 5, 24  # rows, and characters of a cell, that are shown


@dataclass(frozen=True)
class UploadedTable:
    """A table that waits for its columns to be given roles.

    name:    as it came.
    file:    what it holds.
    columns: their names, in order.
    first:   the first rows, as text.
    """

    name: str
    file: RowSource
    columns: tuple[str, ...]
    first: tuple[tuple[str, ...], ...]


def network_of(name: str, content: bytes) -> Network:
    """The network in a file, or in text that was pasted (then the name has no ending)."""
    if "." not in name:
        name += ".json" if content.lstrip()[:1] == b"{" else ".toml"
    with TemporaryDirectory(prefix="veilnet-studio-") as folder:
        kept = Path(folder) / f"given{_ending(name, _NETWORKS)}"
        kept.write_bytes(content)
        try:
            return Network.load(kept)
        except InvalidNetwork as error:  # about the file by the name the page knows it by
            raise type(error)(str(error).replace(str(kept), name)) from error


def table_of(name: str, content: bytes) -> UploadedTable:
    """The columns of a table and their first values."""
    _ending(name, _TABLES)
    file = RowSource(name, content)
    names, rows = first_rows(file, _SHOWN)
    return UploadedTable(name, file, tuple(names), tuple(tuple(map(_short, row)) for row in rows))


def _ending(name: str, endings: tuple[str, ...]) -> str:
    """What the name ends in; one whose ending says nothing is refused."""
    ending = next((each for each in endings if name.lower().endswith(each)), None)
    if ending is None:
        raise InvalidRequest(f"{name[:60]!r}: expected a file that ends in {', '.join(endings)}")
    return ending


def _short(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
