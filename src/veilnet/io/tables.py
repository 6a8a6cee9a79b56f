"""Columns of numbers from whatever a person has: a dict, a data frame, a structured array, a CSV file.

Missing values (an empty cell, None, NaN, NA, a masked entry) come out as NaN; everything else that is not a
number is an error naming the column and the row, never quoting the cell. pandas and polars are never imported
here: a frame already knows how to hand out its columns.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.types import Array

_MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
_DELIMITERS = (",", ";", "\t")


def read_columns(table: Any, wanted: Sequence[str]) -> dict[str, Array]:
    """The wanted columns as float64 vectors of one length, NaN where a value is missing.

    table: name -> values, a pandas or polars frame, a numpy structured array, or the path of a CSV file
    whose first line names the columns.
    """
    if isinstance(table, str | PathLike):
        columns = _from_csv(Path(fspath(table)), wanted)
    else:
        columns = _from_memory(table, wanted)
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
    if isinstance(table, str | PathLike):
        path = Path(fspath(table))
        with _opened(path) as (names, _):
            return names
    return _names_in_memory(table)


def read_cells(table: Any, name: str) -> Any:
    """One column as it stands in the table: text where it is a file, whatever it holds otherwise."""
    if not isinstance(table, str | PathLike):
        _refuse_unknown([name], _names_in_memory(table))
        return table[name]
    with _opened(Path(fspath(table))) as (names, rows):
        _refuse_unknown([name], names)
        place = names.index(name)
        return [row[place] if place < len(row) else "" for row in rows if any(cell.strip() for cell in row)]


def _from_memory(table: Any, wanted: Sequence[str]) -> dict[str, Array]:
    known = _names_in_memory(table)
    _refuse_unknown(wanted, known)
    return {name: as_numbers(table[name], name) for name in wanted}


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
def _opened(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """(column names, rows below them) of a CSV file; whatever is wrong with it becomes one clear error."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = max(_DELIMITERS, key=file.readline().count)
            file.seek(0)
            rows = csv.reader(file, delimiter=delimiter)
            yield _header(path, next(rows, [])), rows
    except UnicodeDecodeError as error:
        raise InvalidNetwork(
            f"{path}: expected text in UTF-8, found another byte at {error.start}; save it as UTF-8"
        ) from None
    except csv.Error as error:
        raise InvalidNetwork(f"{path}: not a table of comma-separated values: {error}") from error


def _from_csv(path: Path, wanted: Sequence[str]) -> dict[str, Array]:
    with _opened(path) as (names, rows):
        _refuse_unknown(wanted, names)
        return _cells(path, rows, names, wanted)


def _header(path: Path, cells: list[str]) -> list[str]:
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
    path: Path, rows: Iterator[list[str]], names: Sequence[str], wanted: Sequence[str]
) -> dict[str, Array]:
    places = [(name, names.index(name)) for name in wanted]
    kept: list[list[float]] = [[] for _ in wanted]
    for line, row in enumerate(rows, start=2):
        if not any(cell.strip() for cell in row):
            continue  # a blank line, usually the last one
        if len(row) != len(names):
            raise InvalidNetwork(f"{path}, line {line}: expected {len(names)} cells, found {len(row)}")
        for column, (name, place) in zip(kept, places, strict=True):
            try:
                column.append(float(row[place]))
            except ValueError:
                column.append(_missing_or_refused(row[place], path, line, name))
    columns = {name: np.array(column, np.float64) for name, column in zip(wanted, kept, strict=True)}
    for name, numbers in columns.items():
        _refuse_infinite(numbers, f"{path}: column {name!r}", first_row=2)
    return columns


def _missing_or_refused(cell: str, path: Path, line: int, name: str) -> float:
    if cell.strip().lower() in _MISSING_WORDS:
        return math.nan
    decimal = _reads_as_number(cell.replace(",", "."))
    found = "a decimal comma; write decimals with a point" if decimal else "text; mend that cell"
    raise InvalidNetwork(f"{path}, line {line}, column {name!r}: expected a number, found {found}")


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
    strangers = [name for name in wanted if name not in set(known)]
    if strangers:
        shown = ", ".join(repr(name) for name in known[:12]) + (", ..." if len(known) > 12 else "")
        raise InvalidRequest(f"table: no column {strangers[0]!r}; its columns are {shown}")
