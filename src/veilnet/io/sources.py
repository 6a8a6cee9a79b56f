"""Rows of cells, wherever they come from: text, packed or not, JSON lines, Parquet, Feather and Excel.

The giver of a file decides how long it is, packed files how long they become: lines, unpacked bytes and cells are
counted before they are in memory. Rows come one by one, so that standard input is read as it arrives.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from veilnet._core.errors import InvalidNetwork
from veilnet._core.extras import missing_extra
from veilnet.io import _json
from veilnet.io._reading import ARRAY_LIMIT, TEXT_LIMIT, refuse_oversized
from veilnet.io.cells import TYPED, Dialect, dialect_of

LONGEST_LINE = 4 * 2**20  # bytes; a longer line is refused without being held in memory
LIKE_JSON = "the line looks like JSON; give --format jsonl"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKED = 30  # times its own size a packed file may become; TEXT_LIMIT it may become anyway
_SHEET_CELLS = 5_000_000  # of an Excel file, each an object of Python
_AT_ONCE = 4096  # rows of a Parquet file
_FLOATS: msgspec.json.Decoder[list[float]] = msgspec.json.Decoder(list[float])


class Line(NamedTuple):
    """A line of a source.

    number:  counted from 1.
    cells:   a list; a JSON value of JSON lines; None where there is trouble. No cells: the line is empty.
    dialect: how they are written.
    trouble: why the line cannot be read, which never quotes it.
    """

    number: int
    cells: Any
    dialect: Dialect
    trouble: str = ""


@dataclass(frozen=True)
class RowSource:
    """A table in a file, in bytes that are on no disk, or in an open file.

    name:    its path; without one, what errors call it, whose ending says what it is.
    content: its bytes, or the open file; None where they are in the file of that name.
    format:  "csv" or "jsonl", None where the ending tells.
    """

    name: str
    content: bytes | IO[bytes] | None = None
    format: str | None = None

    @property
    def kind(self) -> str:
        """``csv``, ``jsonl``, ``parquet``, ``feather`` or ``xlsx``; text is csv if nothing else is known."""
        return self.format or _KINDS.get(Path(self.name.lower().removesuffix(".gz")).suffix, "csv")

    @property
    def is_regular(self) -> bool:
        """Whether it is no pipe: its rows can be counted again from the first."""
        if isinstance(self.content, bytes):
            return True
        try:
            found = os.stat(self.name) if self.content is None else os.fstat(self.content.fileno())  # noqa: PTH116
        except (OSError, AttributeError):
            return False
        return stat.S_ISREG(found.st_mode)

    @property
    def size(self) -> int:
        """How many bytes there are, packed."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return os.stat(self.name if self.content is None else self.content.fileno()).st_size  # noqa: PTH116

    @property
    def place(self) -> int:
        """How many bytes of an open file were read; 0 of a pipe."""
        opened = self.content
        return 0 if opened is None or isinstance(opened, bytes) or not opened.seekable() else opened.tell()

    def __str__(self) -> str:
        return self.name

    def lines(self, *, whole: bool = False) -> Iterator[Line]:
        """Each line as it comes; of Parquet, Feather and Excel the first has the names of the columns.

        whole: whether the table is known to be all there. Its last line needs no end then, and a quoted cell may
               go on in the next line. Otherwise a line counts once it has its end, and nothing waits for another.
        """
        if self.kind in _READERS:
            return self._typed_lines()
        return self._json_lines(whole) if self.kind == "jsonl" else self._csv_lines(whole)

    # --- text

    def _csv_lines(self, whole: bool) -> Iterator[Line]:
        dialect = Dialect(",")
        decided = False
        for number, raw, trouble in self._raw_lines(whole, joined=whole):
            cells: list[str] | None = None
            try:
                text = raw.decode().rstrip("\r\n")
                start = text.lstrip()[:1]
                if start and not decided and not trouble:
                    dialect, decided = dialect_of(text), True
                if start in ("{", "[") and not whole:
                    trouble = trouble or LIKE_JSON
                elif not trouble:
                    cells = dialect.split(text) if start else []
            except UnicodeDecodeError:
                trouble = "the line is not readable as CSV: it is no text in UTF-8; save it as UTF-8"
            except ValueError:
                trouble = "the line is not readable as CSV: its quotes do not match"
            yield Line(number, cells, dialect, trouble)

    def _json_lines(self, whole: bool) -> Iterator[Line]:
        for number, raw, trouble in self._raw_lines(whole, joined=False):
            value: Any = None
            if not trouble:
                as_list = raw.lstrip().startswith(b"[")
                try:
                    value = (_FLOATS.decode(raw) if as_list else _json.parse(raw)) if raw.strip() else []
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    trouble = "expected a JSON list of numbers" if as_list else "the line is not valid JSON"
            yield Line(number, value, TYPED, trouble)

    def _raw_lines(self, whole: bool, *, joined: bool) -> Iterator[tuple[int, bytes, str]]:
        """(number, line with its end, what is wrong with it); joined: with those in which quoted cells go on."""
        lines = self._bounded_lines()
        number = 0
        for raw in lines:
            first = number = number + 1
            while joined and raw and raw.count(b'"') % 2 and (more := next(lines, b"")) != b"":
                number += 1
                raw = None if more is None or len(raw) + len(more) > LONGEST_LINE else raw + more
            trouble = ""
            if raw is None:
                trouble = f"the line is longer than {LONGEST_LINE:,} bytes; is it a table?"
            elif not whole and not raw.endswith(b"\n") and raw.strip():
                trouble = "the line has no end, so it may have been cut off; end the last line too"
            yield first, raw or b"", trouble

    def _bounded_lines(self) -> Iterator[bytes | None]:
        """The lines of a text, unpacked; None for one that is too long."""
        packed = self.name.lower().endswith(".gz")
        with self._opened() as file:
            text = gzip.GzipFile(fileobj=file) if packed else file
            start, passing_over = _BYTE_ORDER_MARK, False
            try:
                while piece := text.readline(LONGEST_LINE + 1):
                    if packed and text.tell() > self._most_unpacked:
                        raise self._too_large()
                    long = len(piece) > LONGEST_LINE
                    if not passing_over:
                        yield None if long else piece.removeprefix(start)
                    start, passing_over = b"", (long or passing_over) and not piece.endswith(b"\n")
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise InvalidNetwork(f"{self}: not a whole gzip file: {error}; pack it again") from None

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        if self.content is None:
            return Path(self.name).open("rb")
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else nullcontext(self.content)

    # --- files of other programs

    def _typed_lines(self) -> Iterator[Line]:
        needed, read = _READERS[self.kind]
        try:
            import_module(needed)
        except ImportError:
            raise missing_extra(f"{self}: .{self.kind} files need {needed}", "tables") from None
        with self._opened() as file:
            refuse_oversized(Path(self.name), self.size, ARRAY_LIMIT)
            try:
                for number, cells in enumerate(read(self, file), start=1):
                    yield Line(number, cells, TYPED)
            except InvalidNetwork:
                raise
            except Exception as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise InvalidNetwork(f"{self}: not readable as .{self.kind}: {reason}") from error

    def _parquet(self, file: IO[bytes]) -> Iterator[list[Any]]:
        parquet, types = import_module("pyarrow.parquet"), import_module("pyarrow.types")
        found = parquet.read_metadata(file)
        unpacked = sum(found.row_group(k).total_byte_size for k in range(found.num_row_groups))
        schema = found.schema.to_arrow_schema()
        # A long text that repeats is in the file once, and stays there once.
        texts = [field.name for field in schema if types.is_string(field.type) or types.is_binary(field.type)]
        batches = parquet.ParquetFile(file, read_dictionary=texts).iter_batches(_AT_ONCE)
        return self._of_arrow(schema.names, found.num_rows * found.num_columns, unpacked, batches)

    def _feather(self, file: IO[bytes]) -> Iterator[list[Any]]:
        arrow, dataset = import_module("pyarrow"), import_module("pyarrow.dataset")
        rows = dataset.IpcFileFormat().make_fragment(arrow.PythonFile(file)).count_rows()
        file.seek(0)
        found = arrow.ipc.open_file(file)
        names, batches = found.schema.names, map(found.get_batch, range(found.num_record_batches))
        return self._of_arrow(names, rows * len(names), _unpacked(arrow, file), batches)

    def _of_arrow(
        self, names: list[str], cells: int, unpacked: int, batches: Iterable[Any]
    ) -> Iterator[list[Any]]:
        if 8 * cells > ARRAY_LIMIT:  # a column that repeats one number is a few bytes, whatever its length
            raise InvalidNetwork(f"{self}: oversized, {cells:,} cells; leave out columns that are not needed")
        refuse_oversized(Path(self.name), unpacked, ARRAY_LIMIT)
        yield names
        for batch in batches:
            yield from map(list, zip(*map(_plain_cells, batch.columns), strict=True))

    def _xlsx(self, file: IO[bytes]) -> Iterator[list[Any]]:
        """The first sheet. A few bytes can be one of 17 billion empty cells: they are counted as they come."""
        with import_module("zipfile").ZipFile(file) as packed:
            if sum(each.file_size for each in packed.infolist()) > self._most_unpacked:
                raise self._too_large()
        book = import_module("openpyxl").load_workbook(file, read_only=True, data_only=True)
        rows = widest = 0
        for row in book.worksheets[0].iter_rows(values_only=True):
            rows, widest = rows + 1, max(widest, len(row))
            if rows * widest > _SHEET_CELLS:
                raise InvalidNetwork(
                    f"{self}: oversized, more than {_SHEET_CELLS:,} cells, empty ones counted; save it as .csv or "
                    ".parquet"
                )
            yield [*map(_plain_cell, row), *[None] * (widest - len(row))]

    @property
    def _most_unpacked(self) -> int:
        return min(max(TEXT_LIMIT, _PACKED * self.size), ARRAY_LIMIT)

    def _too_large(self) -> InvalidNetwork:
        return InvalidNetwork(
            f"{self}: oversized, more than {self._most_unpacked:,} bytes once it is unpacked; if it is the right "
            "file, give it as .csv or .parquet"
        )


def _unpacked(arrow: Any, file: IO[bytes]) -> int:
    """The bytes that the arrays of a Feather file have once they are unpacked: a packed one begins with that number.

    The messages in the file say where arrays are, in FlatBuffers: a table begins with how far before it its list of
    fields is, and each entry of that with how far into the table the field is.
    """
    file.seek(8)  # behind the name of the format
    total = 0
    for message in arrow.ipc.MessageReader.open_stream(file):
        if message.type not in ("record batch", "dictionary"):
            continue
        text, body = message.metadata.to_pybytes(), memoryview(message.body)

        def number(at: int, form: str = "<I", text: bytes | memoryview = text) -> int:
            return int(struct.unpack_from(form, text, at)[0])

        def field(table: int, place: int) -> int:
            """Where the table has this field, 0 for nowhere."""
            fields = table - number(table, "<i")
            into = number(fields + 4 + 2 * place, "<H") if number(fields, "<H") > 4 + 2 * place else 0
            return table + into if into else 0

        def named(at: int) -> int:
            return at + number(at)

        batch = named(field(named(0), 2))
        if message.type == "dictionary":
            batch = named(field(batch, 1))
        arrays, packed = named(field(batch, 2)), field(batch, 3)
        for k in range(number(arrays)):
            start, length = number(arrays + 4 + 16 * k, "<q"), number(arrays + 12 + 16 * k, "<q")
            size = number(start, "<q", body) if packed and length else length
            total += length if size < 0 else size
    return total


_READERS: dict[str, tuple[str, Callable[[RowSource, IO[bytes]], Iterator[list[Any]]]]] = {
    "parquet": ("pyarrow", RowSource._parquet),
    "feather": ("pyarrow", RowSource._feather),
    "xlsx": ("openpyxl", RowSource._xlsx),
}
_KINDS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
    ".feather": "feather", ".arrow": "feather", ".xlsx": "xlsx",
}  # fmt: skip


def _plain_cells(column: Any) -> list[Any]:
    """A column of Arrow as numbers, texts and None."""
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        values = _plain_cells(column.dictionary)
        return [None if place is None else values[place] for place in column.indices.to_pylist()]
    if types.is_boolean(column.type):
        column = column.cast(arrow.int8())
    if types.is_timestamp(column.type):  # nanoseconds would need pandas
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    cells: list[Any] = column.to_pylist()
    return list(map(_plain_cell, cells)) if types.is_temporal(column.type) else cells


def _plain_cell(cell: Any) -> Any:
    """A time as text, a truth as 0 or 1, anything else as it is."""
    if isinstance(cell, bool):
        return int(cell)
    return str(cell) if hasattr(cell, "isoformat") else cell
