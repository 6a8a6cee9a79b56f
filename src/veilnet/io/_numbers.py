"""Numbers, names and tables of a document, checked: inline, or matrices in files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_array, unknown
from veilnet.io._toml import dotted
from veilnet.io.matrices import confined, read_matrix

_KINDS = {
    bool: "true or false",
    str: "text",
    dict: "a table",
    list: "a list",
    int: "a number",
    float: "a number",
}


class Numbers:
    """Matrices of a document: inline, in files of its folder, or among the arrays of its archive."""

    def __init__(self, source: Path | Mapping[str, NDArray[Any]]) -> None:
        self._source = source

    def named(self, value: Any, where: str, *, plain: bool = False) -> Any:
        """name -> rows; where a plain matrix will do, also rows without a name."""
        if plain and (not isinstance(value, dict) or is_reference(value)):
            return self.read(value, where)
        return {name: self.read(rows, where, name) for name, rows in as_table(value, where).items()}

    def read(self, value: Any, *path: str) -> Any:
        """Numbers as they stand in the document, checked to be numbers, or the array of a file."""
        if not isinstance(value, dict):
            _check_numbers(value, dotted(*path))
            return value
        where = dotted(*path)
        if not isinstance(self._source, Path):
            name = str(value.get("array"))
            if set(value) != {"array"} or name not in self._source or self._source[name].dtype.kind == "U":
                raise InvalidNetwork(f"{where}: expected numbers, or the name of an array of numbers")
            return as_array(self._source[name], where)
        if not is_reference(value):
            raise InvalidNetwork(f'{where}: expected numbers or {{ file = "..." }}, found a table')
        check_keys(value, ("file", "variable"), ("file",), where)
        variable = value.get("variable")
        if variable is not None and not isinstance(variable, str):
            raise InvalidNetwork(f"{where}.variable: expected text, found {kind_of(variable)}")
        try:
            return read_matrix(confined(value["file"], self._source), variable)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{where}: {error}") from error


def is_reference(value: Mapping[str, Any]) -> bool:
    """Whether a table stands for a file, or for an array of an archive."""
    return isinstance(value.get("file", value.get("array")), str)


def _check_numbers(value: Any, where: str) -> None:
    kind = type(value)
    if kind is float:
        return
    if kind is list:
        for place, item in enumerate(value):
            if type(item) is not float:
                _check_numbers(item, f"{where}[{place}]")
        return
    if kind is not int:
        raise InvalidNetwork(f"{where}: expected numbers, found {kind_of(value)}")
    if value.bit_length() > 1023:
        raise InvalidNetwork(f"{where}: the number has {value.bit_length()} bits, too many for a float")


def check_keys(table: dict[str, Any], known: Sequence[str], required: Sequence[str], where: str) -> None:
    """Refuse keys that are not known, and a table that lacks one it needs."""
    strangers = [name for name in table if name not in known]
    if strangers:
        raise unknown(strangers, known, f"{where}: keys" if where else "keys")
    missing = [name for name in required if name not in table]
    if missing:
        raise InvalidNetwork(
            f"{where + ': ' if where else ''}the key {missing[0]!r} is missing; "
            "add it, or copy the file again if it was cut off"
        )


def as_texts(value: Any, where: str) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list):
        raise InvalidNetwork(f"{where}: expected a list of names, found {kind_of(value)}")
    for place, item in enumerate(value):
        if not isinstance(item, str):
            raise InvalidNetwork(f"{where}[{place}]: expected text, found {kind_of(item)}")
    return value


def as_table(value: Any, where: str) -> dict[str, Any]:
    """A table."""
    if not isinstance(value, dict):
        raise InvalidNetwork(f"{where}: expected a table, found {kind_of(value)}")
    return value


def flat(value: Any) -> Any:
    """A vector that a .csv or .mat file could only hold as one row or column."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and 1 in value.shape and value.size > 1:
        return value.reshape(-1)
    return value


def open_edges(edges: Array) -> list[float | str]:
    """Limits as documents have them: JSON has no infinity, so that an open side is a word."""
    return [edge if np.isfinite(edge) else ("none" if edge > 0 else "-none") for edge in edges.tolist()]


def read_edges(value: Any, where: str) -> list[Any]:
    """[lowest, highest], each a number or one per reading; "none" is an open side."""
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidNetwork(f"{where}: expected [lowest, highest], found {kind_of(value)}")
    open_sides = {"none": np.inf, "-none": -np.inf}
    sides = [side if isinstance(side, list) else [side] for side in value]
    for edge in (edge for side in sides for edge in side):
        if isinstance(edge, list) or (isinstance(edge, str) and edge not in open_sides):
            raise InvalidNetwork(f'{where}: expected numbers or "none", found {kind_of(edge)}')
        if not isinstance(edge, str):
            _check_numbers(edge, where)
    read = [[open_sides[edge] if isinstance(edge, str) else edge for edge in side] for side in sides]
    return [side if isinstance(given, list) else side[0] for side, given in zip(read, value, strict=True)]


def kind_of(value: Any) -> str:
    """What a value of a document is, in words."""
    return _KINDS.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")
