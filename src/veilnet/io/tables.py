"""Columns of numbers from whatever a person has: a dict, a data frame, a structured array, a table in a file.

CSV files are read here, packed or not, with commas, semicolons or tabs between cells and, unless commas separate,
decimal commas; other tables (:mod:`veilnet.io.table_files`) by pandas. A frame already knows how to hand out its
columns.

Missing values (an empty cell, None, NaN, NA, a masked entry) come out as NaN. A column of texts alone is a category
(:mod:`veilnet.io.categories`). Everything else that is not a number is an error naming the column and the row,
never quoting the cell.
"""

from __future__ import annotations

import csv
import gzip
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain, islice
from os import PathLike, fspath
from sys import intern
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.types import Array
from veilnet.io.categories import as_category, column_of, texts_of
from veilnet.io.table_files import TableFile, is_text_table, lines_of, open_text, read_frame

_MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
_DELIMITERS = (",", ";", "\t")


def read_columns(table: Any, wanted: Sequence[str], notes: list[str] | None = None) -> dict[str, Array]:
    """The wanted columns as float64 vectors of one length, NaN where a value is missing.

    table: name -> values, a pandas or polars frame, a numpy structured array, or the path of a CSV file
           whose first line names the columns, or of a Parquet, Feather or Excel file.
    notes: gets a sentence for each thing that was not plain numbers and how it was read.
    """
    told: list[str] = [] if notes is None else notes
    table = opened_once(table)
    read = _from_csv if isinstance(table, TableFile) else _from_memory
    columns = read(table, wanted, told)
    lengths = {name: values.size for name, values in columns.items()}
    first = next(iter(lengths.values()), 0)
    for name, length in lengths.items():
        if length != first:
            raise InvalidNetwork(
                f"table: column {name!r} has {length} rows, {next(iter(lengths))!r} has {first}; "
                "every column needs the same number of rows"
            )
    return columns


def column_names(table: Any) -> list[str]:
    """The names of a table's columns, in order."""
    table = opened_once(table)
    if isinstance(table, TableFile):
        with _opened(table) as (names, *_):
            return names
    return _names_in_memory(table)


def opened_once(table: Any) -> Any:
    """The table, read already where it is a file that cannot be read column by column."""
    if isinstance(table, str | PathLike):
        table = TableFile(str(fspath(table)))
    if isinstance(table, TableFile) and not is_text_table(table):
        return read_frame(table)
    return table


def read_cells(table: Any, name: str) -> Any:
    """One column as it stands in the table: text where it is a file, whatever it holds otherwise."""
    table = opened_once(table)
    if not isinstance(table, TableFile):
        _refuse_unknown([name], _names_in_memory(table))
        return table[name]
    with _opened(table) as (names, rows, _):
        _refuse_unknown([name], names)
        place = names.index(name)
        return [row[place] if place < len(row) else "" for row in rows if any(cell.strip() for cell in row)]


def first_rows(table: Any, count: int) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the first rows as text: for someone who is to say what they are."""
    table = opened_once(table)
    if isinstance(table, TableFile):
        with _opened(table) as (names, rows, _):
            some = islice((row for row in rows if any(cell.strip() for cell in row)), count)
            return names, [(row + [""] * len(names))[: len(names)] for row in some]
    names = _names_in_memory(table)
    columns = [[str(value) for value in islice(table[name], count)] for name in names]
    return names, [list(row) for row in zip(*columns, strict=True)]


def _from_memory(table: Any, wanted: Sequence[str], notes: list[str]) -> dict[str, Array]:
    known = _names_in_memory(table)
    _refuse_unknown(wanted, known)
    return {name: _in_memory(table[column_of(name, known)], name, known, notes) for name in wanted}


def _in_memory(values: Any, name: str, known: Sequence[str], notes: list[str]) -> Array:
    texts = texts_of(values)
    if texts is None:
        return as_numbers(values, name)
    return as_category(texts, name, known, "table", notes)


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


def as_numbers(values: Any, name: str) -> Array:
    """One column as float64, NaN where a value is missing; text, dates and infinities are refused."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidNetwork(f"table: column {name!r}: expected one value per row, found shape {array.shape}")
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
    elif array.dtype.kind == "O":
        numbers = np.array([_as_number(value, name, row) for row, value in enumerate(array)], np.float64)
    else:
        raise InvalidNetwork(
            f"table: column {name!r}: expected numbers, found {array.dtype}; convert it first"
        )
    _refuse_infinite(numbers, f"table: column {name!r}", first_row=1)
    return numbers


def _as_number(value: Any, name: str, row: int) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return math.nan
    if isinstance(value, str | bytes | complex) or not hasattr(value, "__float__"):
        raise InvalidNetwork(
            f"table: column {name!r}, row {row + 1}: expected a number, found {type(value).__name__}; "
            "convert it first"
        )
    return float(value)


@contextmanager
def _opened(path: TableFile) -> Iterator[tuple[list[str], Iterator[list[str]], str]]:
    """(column names, rows below them, what separates cells); whatever is wrong with it becomes one clear error."""
    try:
        with open_text(path) as file:
            lines = lines_of(file, path)
            first = next(lines, "")
            delimiter = max(_DELIMITERS, key=first.count)
            rows = csv.reader(chain([first], lines), delimiter=delimiter)
            yield _header(path, next(rows, [])), rows, delimiter
    except UnicodeDecodeError as error:
        raise InvalidNetwork(
            f"{path}: expected text in UTF-8, found another byte at {error.start}; save it as UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidNetwork(f"{path}: not a whole gzip file: {error}; pack it again") from None
    except csv.Error as error:
        raise InvalidNetwork(f"{path}: not a table of comma-separated values: {error}") from error


def _from_csv(path: TableFile, wanted: Sequence[str], notes: list[str]) -> dict[str, Array]:
    with _opened(path) as (names, rows, delimiter):
        _refuse_unknown(wanted, names)
        return _cells(path, rows, names, wanted, delimiter, notes)


def _header(path: TableFile, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise InvalidNetwork(f"{path}: expected a first line that names the columns, found none")
    if any("\0" in name for name in names):
        raise InvalidNetwork(f"{path}: expected a CSV file, found binary content")
    if all(_reads_as_number(name) for name in names):
        raise InvalidNetwork(
            f"{path}: expected a first line that names the columns, found numbers; put the names above them"
        )
    return _refuse_repeated(names, str(path))


def _cells(
    path: TableFile,
    rows: Iterator[list[str]],
    names: Sequence[str],
    wanted: Sequence[str],
    delimiter: str,
    notes: list[str],
) -> dict[str, Array]:
    columns = [_Column(name, names.index(column_of(name, names)), path, delimiter) for name in wanted]
    for line, row in enumerate(rows, start=2):
        if not any(cell.strip() for cell in row):
            continue  # a blank line, usually the last one
        if len(row) == len(names) + 1 and line == 2:
            raise InvalidNetwork(
                f"{path}: the first line has one cell fewer than the rows, as R writes row names; put a name for "
                "them before the others, write the file with row.names=FALSE, or give pandas.read_csv of it in Python"
            )
        if len(row) != len(names):
            raise InvalidNetwork(f"{path}, line {line}: expected {len(names)} cells, found {len(row)}")
        for column in columns:
            column.take(row[column.place], line)
    found = {}
    for column in columns:
        if column.texts is not None:
            found[column.name] = as_category(column.texts, column.name, names, str(path), notes)
            continue
        found[column.name] = np.array(column.numbers, np.float64)
        _refuse_infinite(found[column.name], f"{path}: column {column.name!r}", first_row=2)
    commas = [repr(column.name) for column in columns if column.commas]
    if commas:
        notes.append(f"{', '.join(commas)}: numbers are written with decimal commas")
    return found


class _Column:
    """One column as it is read; its first cell that is not missing says whether it holds numbers or texts."""

    def __init__(self, name: str, place: int, path: TableFile, delimiter: str) -> None:
        self.name, self.place = name, place
        self.numbers = array("d")
        self.texts: list[str | None] | None = None
        self.commas = 0
        self._path = path
        self._may_have_commas = delimiter != ","
        self._started = False

    def take(self, cell: str, line: int) -> None:
        """Add a cell."""
        if self.texts is not None:
            self._take_text(cell, line)
            return
        try:
            self.numbers.append(float(cell))
        except ValueError:
            self._take_other(cell, line)
        else:
            self._started = True

    def _take_other(self, cell: str, line: int) -> None:
        if cell.strip().lower() in _MISSING_WORDS:
            self.numbers.append(math.nan)
            return
        with_point = cell.replace(",", ".", 1)
        if _reads_as_number(with_point):
            if self._may_have_commas:
                self.numbers.append(float(with_point))
                self.commas += 1
                self._started = True
                return
            self._refuse(
                line, "a number", "a decimal comma; write decimals with a point, or put ; between cells"
            )
        if self._started:
            self._refuse(line, "a number", "text; mend that cell")
        self.texts = [None] * len(self.numbers)
        self._take_text(cell, line)

    def _take_text(self, cell: str, line: int) -> None:
        missing = cell.strip().lower() in _MISSING_WORDS
        if not missing and _reads_as_number(cell):
            self._refuse(line, "a text as in the rows above", "a number; mend one of them")
        if self.texts is not None:
            self.texts.append(None if missing else intern(cell.strip()))

    def _refuse(self, line: int, expected: str, found: str) -> None:
        raise InvalidNetwork(
            f"{self._path}, line {line}, column {self.name!r}: expected {expected}, found {found}"
        )


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_infinite(numbers: Array, where: str, *, first_row: int) -> None:
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise InvalidNetwork(
            f"{where}, row {int(infinite[0]) + first_row}: expected a finite number, found {numbers[infinite[0]]}"
        )


def _refuse_repeated(names: list[str], where: str) -> list[str]:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidNetwork(f"{where}: the column {twice!r} appears twice; rename one of them")
    return names


def _refuse_unknown(wanted: Sequence[str], known: Sequence[str]) -> None:
    strangers = [name for name in wanted if column_of(name, known) not in set(known)]
    if strangers:
        shown = ", ".join(repr(name) for name in known[:12]) + (", ..." if len(known) > 12 else "")
        near = get_close_matches(strangers[0], known, n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise InvalidRequest(f"table: no column {strangers[0]!r}{meant}; its columns are {shown}")
