"""Tables in files: text, packed or not, is read by us; Parquet, Feather and Excel by pandas, an extra.

Whoever gives a file decides how long it is, packed files how long they become: lines, unpacked bytes and cells are
counted before they are in memory.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from veilnet._core.errors import InvalidNetwork
from veilnet._core.extras import missing_extra
from veilnet.io._reading import ARRAY_LIMIT, TEXT_LIMIT, refuse_oversized

__all__ = ["TableFile", "is_text_table", "lines_of", "open_text", "read_frame"]

_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".feather": "read_feather",
    ".arrow": "read_feather",
    ".xlsx": "read_excel",
}
_NEEDED = {"read_parquet": "pyarrow", "read_feather": "pyarrow", "read_excel": "openpyxl"}
_LONGEST_LINE = 4 * 2**20  # characters
_PACKED = 30  # times its own size a packed file may become; TEXT_LIMIT it may become anyway
_SHEET_CELLS = 5_000_000  # of an Excel file, each an object of Python


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or in the bytes of one that is on no disk.

    name:    its path; without a file, a name whose ending says what it is.
    content: its bytes, None where they are in the file.
    """

    name: str
    content: bytes | None = None

    @property
    def ending(self) -> str:
        """``.csv`` of a.csv, ``.gz`` of a.csv.gz."""
        return Path(self.name).suffix.lower()

    def opened(self) -> IO[bytes]:
        """The bytes, from the first on."""
        return Path(self.name).open("rb") if self.content is None else io.BytesIO(self.content)

    @property
    def size(self) -> int:
        """How many bytes there are, packed."""
        return Path(self.name).stat().st_size if self.content is None else len(self.content)

    def __str__(self) -> str:
        return self.name


def is_text_table(file: TableFile) -> bool:
    """Whether a file's name says nothing else than text."""
    return file.ending not in _READERS


def open_text(file: TableFile) -> IO[str]:
    """A table's text, unpacked where its name ends in .gz."""
    content: Any = file.opened()
    if file.ending == ".gz":
        content = io.BufferedReader(_Unpacking(file, content))
    return io.TextIOWrapper(content, encoding="utf-8-sig", newline="")


def lines_of(text: IO[str], file: TableFile) -> Iterator[str]:
    """The lines of a text, each refused before it is whole where it is too long."""
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise InvalidNetwork(
                f"{file}: expected lines of at most {_LONGEST_LINE:,} characters, found a longer one; is it a table?"
            )
        yield line


class _Unpacking(io.RawIOBase):
    """The bytes of a packed file, refused where they become too many."""

    def __init__(self, file: TableFile, content: IO[bytes]) -> None:
        self._file, self._content = file, content
        self._unpacked = gzip.GzipFile(fileobj=content)
        self._most = _most_unpacked(file)

    def readable(self) -> bool:
        """They can be read, and read again from the first on."""
        return True

    def seekable(self) -> bool:
        """Likewise."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        return self._unpacked.seek(offset, whence)

    def readinto(self, into: Any) -> int:
        """The next bytes."""
        found = self._unpacked.read(len(into))
        if self._unpacked.tell() > self._most:
            raise _too_large(self._file, self._most)
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Let go of the file."""
        self._unpacked.close()
        self._content.close()
        super().close()


def _most_unpacked(file: TableFile) -> int:
    return min(max(TEXT_LIMIT, _PACKED * file.size), ARRAY_LIMIT)


def _too_large(file: TableFile, most: int) -> InvalidNetwork:
    return InvalidNetwork(
        f"{file}: oversized, more than {most:,} bytes once it is unpacked; if it is the right file, give it as .csv "
        "or .parquet"
    )


def read_frame(file: TableFile) -> Any:
    """The first table of such a file, as pandas reads it."""
    reader = _READERS[file.ending]
    try:
        pandas = import_module("pandas")
        import_module(_NEEDED[reader])
    except ImportError:
        raise missing_extra(
            f"{file}: {file.ending} files need pandas and {_NEEDED[reader]}", "tables"
        ) from None
    refuse_oversized(Path(file.name), file.size, ARRAY_LIMIT)
    try:
        if reader == "read_excel":
            _refuse_large_sheet(file)
        elif reader == "read_parquet":
            _refuse_large_parquet(file)
        with file.opened() as content:
            return getattr(pandas, reader)(content)
    except InvalidNetwork:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidNetwork(f"{file}: not readable as {file.ending}: {reason}") from error


def _refuse_large_sheet(file: TableFile) -> None:
    """A few bytes can be a sheet of 17 billion empty cells: each row is counted as it comes."""
    most = _most_unpacked(file)
    with file.opened() as content:
        with zipfile.ZipFile(content) as packed:
            if sum(each.file_size for each in packed.infolist()) > most:
                raise _too_large(file, most)
        rows, widest = 0, 0
        book = import_module("openpyxl").load_workbook(content, read_only=True)
        for row in book.worksheets[0].iter_rows(values_only=True):
            rows, widest = rows + 1, max(widest, len(row))
            if rows * widest > _SHEET_CELLS:
                raise InvalidNetwork(
                    f"{file}: oversized, more than {_SHEET_CELLS:,} cells, empty ones counted; save it as .csv or "
                    ".parquet"
                )


def _refuse_large_parquet(file: TableFile) -> None:
    """A column that repeats one number is a few bytes, whatever its length."""
    with file.opened() as content:
        found = import_module("pyarrow.parquet").read_metadata(content)
    cells = found.num_rows * found.num_columns
    if 8 * cells > ARRAY_LIMIT:
        raise InvalidNetwork(f"{file}: oversized, {cells:,} cells; leave out columns that are not needed")
