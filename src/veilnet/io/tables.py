"""Columns of numbers from whatever a person has: a dict, a data frame, a structured array, a table in a file.

Files are read by :mod:`veilnet.io.sources`, as agents read them; a frame already knows how to hand out its columns.

Missing values come out as NaN. A column of texts alone is a category: ``heating`` with the texts off and on becomes
0 and 1. Of ``weather`` with rain, snow and sun there is no such column, since no number is between them:
``weather:rain`` is 1 where it rains and 0 elsewhere, and so is ``day:7`` of a column of numbers. What agents read is
named so in any case, ``heating:on``, and they read it so. Everything else that is not a number is an error naming the
column and the row, not quoting the cell.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from os import PathLike, fspath
from sys import intern
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.spelling import did_you_mean
from veilnet._core.types import Array
from veilnet.io.cells import TYPED, Dialect, NoNumber, column_of, is_missing, is_number
from veilnet.io.row_keys import as_seconds
from veilnet.io.sources import Line, RowSource

_MOST_TEXTS = 20  # different ones of a category


def read_columns(
    table: Any,
    wanted: Sequence[str],
    notes: list[str] | None = None,
    *,
    time: str | None = None,
    readings: Collection[str] = (),
) -> dict[str, Array]:
    """The wanted columns as float64 vectors of one length, NaN where a value is missing.

    table: name -> values, a pandas or polars frame, a numpy structured array, a source of rows, or the path of a file
           that is read as one, whose first line names the columns.
    notes: gets a sentence for each thing that was not plain numbers and how it was read.
    time:  a further column, of times, which comes as seconds.
    readings: those of the wanted that agents read, line by line: they cannot tell which of two texts counts as 1, so
           their names must (``heating:on``).
    """
    source = _source(table)
    read = _from_memory if source is None else _from_file
    columns = read(
        table if source is None else source, wanted, [] if notes is None else notes, time, readings
    )
    first = next(iter(columns), "")
    for name, values in columns.items():
        if values.size != columns[first].size:
            raise InvalidNetwork(
                f"table: column {name!r} has {values.size} rows, {first!r} has {columns[first].size}; every column "
                "needs the same number of rows"
            )
    return columns


def column_names(table: Any) -> list[str]:
    """The names of a table's columns, in order."""
    return first_rows(table, 0)[0]


def first_rows(table: Any, count: int) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the first rows as text: for someone who is to say what they are."""
    source = _source(table)
    if source is not None:
        with _opened(source) as (names, lines):
            return names, [_shown(line.cells, len(names)) for line in islice(lines, count)]
    names = _names_in_memory(table)
    if not count:
        return names, []
    columns = [[str(value) for value in islice(table[name], count)] for name in names]
    return names, [list(row) for row in zip(*columns, strict=True)]


def class_columns(table: Any, column: str) -> list[str]:
    """The columns that tell which of its few values a column has: one for each but the last, ``weather:rain``."""
    names, rows = first_rows(table, sys.maxsize)
    _refuse_unknown([column], names)
    cells = {row[names.index(column)].strip() for row in rows}
    found = {f"{float(cell):.15g}" if is_number(cell) else cell for cell in cells if not is_missing(cell)}
    if not 2 <= len(found) <= _MOST_TEXTS:
        raise InvalidNetwork(
            f"table: column {column!r}: expected 2 to {_MOST_TEXTS} classes, found {len(found)} different values"
        )
    in_order = sorted(found, key=lambda text: (float(text) if is_number(text) else np.inf, text))
    return [f"{column}:{text}" for text in in_order[:-1]]


def _source(table: Any) -> RowSource | None:
    if isinstance(table, str | PathLike):
        return RowSource(str(fspath(table)))
    return table if isinstance(table, RowSource) else None


def _shown(cells: Sequence[Any], columns: int) -> list[str]:
    texts = ["" if cell is None else str(cell) for cell in cells]
    return (texts + [""] * columns)[:columns]


# --- tables in memory


def _from_memory(
    table: Any, wanted: Sequence[str], notes: list[str], time: str | None, readings: Collection[str]
) -> dict[str, Array]:
    known = _names_in_memory(table)
    _refuse_unknown([*wanted, *([] if time is None else [time])], known)
    found = {
        name: _in_memory(table[column_of(name, known)[0]], name, known, notes, name in readings)
        for name in wanted
    }
    return found if time is None else found | {time: as_seconds(table[time], f"table: column {time!r}")}


def _names_in_memory(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        names = list(table)
    elif getattr(getattr(table, "dtype", None), "names", None):
        names = list(table.dtype.names)
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = list(table.columns)
    else:
        raise InvalidNetwork(
            "table: expected name -> column, a pandas or polars frame, a structured array or the path of a "
            f"CSV file, found {type(table).__name__}; a plain matrix needs names: dict(zip(names, matrix.T))"
        )
    return _refuse_repeated([str(name) for name in names], "table")


def _in_memory(values: Any, name: str, known: Sequence[str], notes: list[str], is_read: bool) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    cells = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    if cells.ndim != 1:
        raise InvalidNetwork(f"table: column {name!r}: expected one value per row, found shape {cells.shape}")
    if cells.dtype.kind in "biuf":
        return _as_numbers(cells.astype(np.float64), name, known, "table", first_row=1)
    if cells.dtype.kind not in "OUT":
        raise InvalidNetwork(
            f"table: column {name!r}: expected numbers, found {cells.dtype}; convert it first"
        )
    column = _Column(name, TYPED, lambda row: f"table: column {name!r}, row {row}")
    for row, cell in enumerate(cells.tolist(), start=1):
        column.take(int(cell) if isinstance(cell, bool) else cell, row)
    return column.values(known, "table", notes, first_row=1, is_read=is_read)


# --- tables in files


@contextmanager
def _opened(source: RowSource) -> Iterator[tuple[list[str], Iterator[Line]]]:
    """(column names, the lines below them that hold anything)."""
    with closing(source.lines(whole=True)) as lines:  # type: ignore[type-var]
        first = next(lines, None)
        if first is None or not first.cells or first.trouble:
            trouble = first.trouble if first is not None and first.trouble else "found none"
            raise InvalidNetwork(f"{source}: expected a first line that names the columns, but {trouble}")
        by_key = isinstance(first.cells, dict)
        names = _header(source, list(first.cells))
        yield names, _below(source, names, chain([first], lines) if by_key else lines)


def _below(source: RowSource, names: Sequence[str], lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        cells = line.cells
        if line.trouble:
            raise InvalidNetwork(f"{source}, line {line.number}: {line.trouble}")
        if isinstance(cells, dict):
            yield line._replace(cells=[cells.get(name) for name in names])
            continue
        if all(cell is None or (isinstance(cell, str) and not cell.strip()) for cell in cells):
            continue  # an empty line, usually the last one
        if len(cells) == len(names) + 1 and line.number == 2:
            raise InvalidNetwork(
                f"{source}: the first line has one cell fewer than the rows, as R writes row names; put a name for "
                "them before the others, write the file with row.names=FALSE, or give pandas.read_csv of it in Python"
            )
        if len(cells) != len(names):
            raise InvalidNetwork(
                f"{source}, line {line.number}: expected {len(names)} cells, found {len(cells)}"
            )
        yield line


def _header(source: RowSource, cells: list[Any]) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    if not any(names):
        raise InvalidNetwork(f"{source}: expected a first line that names the columns, found none")
    if any("\0" in name for name in names):
        raise InvalidNetwork(f"{source}: expected a CSV file, found binary content")
    if any("\r" in name.replace("\r\n", "") for name in names):
        raise InvalidNetwork(
            f"{source}: lines end as those of old Macs do; save it with the line ends of today"
        )
    if all(map(is_number, names)):
        raise InvalidNetwork(
            f"{source}: expected a first line that names the columns, found numbers; put the names above them"
        )
    return _refuse_repeated(names, str(source))


def _from_file(
    source: RowSource, wanted: Sequence[str], notes: list[str], time: str | None, readings: Collection[str]
) -> dict[str, Array]:
    times: list[Any] = []
    with _opened(source) as (names, lines):
        _refuse_unknown([*wanted, *([] if time is None else [time])], names)
        columns: list[tuple[int, _Column]] = []
        moment = None if time is None else names.index(time)
        for line in lines:
            if not columns:
                columns = [_column(source, name, names, line.dialect) for name in wanted]
            for place, column in columns:
                column.take(line.cells[place], line.number)
            if moment is not None:
                times.append(line.cells[moment])
    columns = columns or [_column(source, name, names, TYPED) for name in wanted]
    found = {
        column.name: column.values(names, str(source), notes, first_row=2, is_read=column.name in readings)
        for _, column in columns
    }
    commas = [repr(column.name) for _, column in columns if column.commas]
    if commas:
        notes.append(f"{', '.join(commas)}: numbers are written with decimal commas")
    return found if time is None else found | {time: as_seconds(times, f"table: column {time!r}")}


def _column(source: RowSource, name: str, names: Sequence[str], dialect: Dialect) -> tuple[int, _Column]:
    place = names.index(column_of(name, names)[0])
    return place, _Column(name, dialect, lambda line: f"{source}, line {line}, column {name!r}")


class _Column:
    """One column as it is read; its first cell that is not missing says whether it holds numbers or texts."""

    def __init__(self, name: str, dialect: Dialect, where: Callable[[int], str]) -> None:
        self.name, self._dialect, self._where = name, dialect, where
        self.commas = False
        self._numbers = array("d")
        self._texts: list[str | None] | None = None
        self._words: dict[int, str] = {}  # those that are no number, and may be texts
        self._started = False

    def take(self, cell: Any, line: int) -> None:
        """Add a cell."""
        if self._texts is not None:
            self._take_text(cell, line)
            return
        try:
            number = self._dialect.number(cell)
        except NoNumber as error:
            if self._started or not error.text:
                raise InvalidNetwork(f"{self._where(line)}: expected a number, found {error}") from None
            self._texts = [self._words.get(place) for place in range(len(self._numbers))]
            self._take_text(cell, line)
            return
        if number == number:
            self._started = True
            if not self.commas and isinstance(cell, str):
                self.commas = "," in cell
        elif not self._started and not is_missing(cell, among_texts=True):
            self._words[len(self._numbers)] = cell.strip()
        self._numbers.append(number)

    def _take_text(self, cell: Any, line: int) -> None:
        missing = is_missing(cell, among_texts=True)
        if not missing and (not isinstance(cell, str) or is_number(cell)):
            raise InvalidNetwork(
                f"{self._where(line)}: expected a text as in the rows above, found a number; mend one of them"
            )
        if self._texts is not None:
            self._texts.append(None if missing else intern(cell.strip()))

    def values(
        self, known: Sequence[str], where: str, notes: list[str], *, first_row: int, is_read: bool
    ) -> Array:
        """The column as numbers; first_row: what its first row is called in errors; is_read: by an agent."""
        if self._texts is not None:
            return _as_category(self._texts, self.name, known, where, notes, is_read)
        return _as_numbers(np.array(self._numbers, np.float64), self.name, known, where, first_row=first_row)


def _as_numbers(numbers: Array, name: str, known: Sequence[str], where: str, *, first_row: int) -> Array:
    """The numbers, all finite; of ``day:7`` 1 where the day is 7, 0 elsewhere, and NaN where it is missing."""
    column, one = column_of(name, known)
    if column != name:
        if not is_number(one) or not np.any(numbers == float(one)):
            raise InvalidNetwork(f"{where}: column {column!r} has no value {one!r}")
        return np.where(np.isnan(numbers), np.nan, (numbers == float(one)).astype(np.float64))
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise InvalidNetwork(
            f"{where}: column {name!r}, row {int(infinite[0]) + first_row}: expected a finite number, found "
            f"{numbers[infinite[0]]}"
        )
    return numbers


def _as_category(
    texts: Sequence[str | None], name: str, known: Sequence[str], where: str, notes: list[str], is_read: bool
) -> Array:
    """A column of texts as numbers, NaN where one is missing; the note says which text is which."""
    found = sorted({text for text in texts if text is not None})
    column, one = column_of(name, known)
    if len(found) > _MOST_TEXTS:
        raise InvalidNetwork(
            f"{where}: column {column!r}: expected numbers, or at most {_MOST_TEXTS} different texts, found "
            f"{len(found)}"
        )
    if column != name:
        if one not in found:
            raise InvalidNetwork(f"{where}: column {column!r} has no text {one!r}; it has {', '.join(found)}")
        notes.append(f"{name!r} is 1 where {column} is {one!r} and 0 elsewhere")
    elif len(found) == 2 and is_read:
        raise InvalidNetwork(
            f"{where}: column {name!r}: expected numbers in what an agent reads, found the texts {found[0]!r} and "
            f"{found[1]!r}; say which counts as 1, as {name}:{found[1]}, and agents read it so, too"
        )
    elif len(found) == 2:
        one = found[1]
        notes.append(f"{name!r} is a category: {found[0]!r} counts as 0, {found[1]!r} as 1")
    else:
        names = ", ".join(f"{name}:{text}" for text in found[1:])
        advice = f"name those that matter, one fewer than there are: {names}" if names else "it tells nothing"
        raise InvalidNetwork(
            f"{where}: column {name!r}: expected numbers or two texts, found {len(found)}: {', '.join(found)}; "
            f"{advice}"
        )
    return np.array([np.nan if text is None else float(text == one) for text in texts], dtype=np.float64)


def _refuse_repeated(names: list[str], where: str) -> list[str]:
    seen: set[str] = set()
    for name in filter(None, names):
        if name in seen:
            raise InvalidNetwork(f"{where}: the column {name!r} appears twice; rename one of them")
        seen.add(name)
    return names


def _refuse_unknown(wanted: Sequence[str], known: Sequence[str]) -> None:
    there = set(known)
    strangers = [name for name in wanted if name not in there and column_of(name, known)[0] not in there]
    if strangers:
        shown = ", ".join(repr(name) for name in known[:12]) + (", ..." if len(known) > 12 else "")
        meant = did_you_mean(strangers[0], known)
        raise InvalidRequest(f"table: no column {strangers[0]!r}{meant}; its columns are {shown}")
