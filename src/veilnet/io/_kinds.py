"""Kinds of values in sealed files: each says how a value is written as JSON, and how it is read and checked.

A file is a ``Table`` of named kinds, which is all there is to say of its shape: what is not in it is refused, what is
missing is refused unless it is a ``Maybe``, which is left out where there is nothing to say.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.durations import duration_in_words
from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest
from veilnet._core.types import Array
from veilnet.io._json import plain, with_infinities
from veilnet.io._numbers import open_edges, read_edges

_LONGEST = 10**8  # of a dimension of an array
_IN_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_IN_WORDS |= {"array": "a list", "object": "a table", "null": "nothing"}
_AGAIN = "copy it again, or save the plan again"


class Kind:
    """A value of a type of Python's.

    form:  the type, as msgspec knows it.
    write: what makes JSON of a value.
    made:  what makes a value of what was read.
    """

    def __init__(
        self,
        form: Any,
        write: Callable[[Any], Any] = lambda value: value,
        made: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        self._form, self._written, self._made = form, write, made

    def write(self, value: Any) -> Any:
        """The value as JSON has it."""
        return self._written(value)

    def read(self, value: Any, where: str) -> Any:
        """The value of a piece of JSON; InvalidNetwork names the place where it is none."""
        try:
            return self._made(msgspec.convert(value, self._form, strict=True))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            words = " ".join(str(error).split())[:200].replace(", got ", ", found ")
            words = re.sub("`([a-z]+)`", lambda kind: _IN_WORDS.get(kind[1], kind[0]), words)
            raise InvalidNetwork(f"{where}: {words[:1].lower()}{words[1:]}") from error


class Maybe:
    """A kind that is left out where there is nothing to say: None."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind


class ListOf(Kind):
    """A list of one kind."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(list)
        self._kind = kind

    def write(self, value: Any) -> Any:
        return [self._kind.write(each) for each in value]

    def read(self, value: Any, where: str) -> Any:
        found = super().read(value, where)
        return tuple(self._kind.read(each, f"{where}[{place}]") for place, each in enumerate(found))


class ByName(Kind):
    """name -> one kind."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(dict[str, Any])
        self._kind = kind

    def write(self, value: Any) -> Any:
        return {name: self._kind.write(each) for name, each in value.items()}

    def read(self, value: Any, where: str) -> Any:
        found = super().read(value, where)
        return {name: self._kind.read(each, f"{where}.{name[:40]}") for name, each in found.items()}


class Table(Kind):
    """name -> kind, one for each name."""

    def __init__(self, **kinds: Kind | Maybe) -> None:
        super().__init__(dict[str, Any])
        self.kinds: dict[str, Kind] = {
            name: each.kind if isinstance(each, Maybe) else each for name, each in kinds.items()
        }
        self.needed = [name for name, each in kinds.items() if not isinstance(each, Maybe)]

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: kind.write(value[name]) for name, kind in self.kinds.items() if value.get(name) is not None
        }

    def read(self, value: Any, where: str = "") -> dict[str, Any]:
        found, prefix = super().read(value, where), f"{where}." if where else ""
        for name in found:
            if name not in self.kinds:
                raise InvalidNetwork(f"{prefix}{name[:40]}: no such key")
        for name in self.needed:
            if name not in found:
                raise InvalidNetwork(f"{prefix}{name}: missing")
        return {
            name: kind.read(found[name], prefix + name) if name in found else None
            for name, kind in self.kinds.items()
        }

    def document(self, form: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """The document of a file."""
        return {"format": form} | self.write(value)

    def values(self, document: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """The values of a file's document; InvalidPlan names the file and the place."""
        with file_errors(path):
            return self.read({name: each for name, each in document.items() if name != "format"})


class ObjectOf(Table):
    """Objects of a class, by some of their attributes; those that are left out are the class's own choice."""

    def __init__(self, made: Callable[..., Any], **kinds: Kind | Maybe) -> None:
        super().__init__(**kinds)
        self._class = made

    def write(self, value: Any) -> dict[str, Any]:
        return super().write({name: getattr(value, name) for name in self.kinds})

    def read(self, value: Any, where: str = "") -> Any:
        found = super().read(value, where)
        return self._class(**{name: each for name, each in found.items() if each is not None})


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """What is wrong with values of a file is raised as an InvalidPlan that names the file."""
    try:
        yield
    except (InvalidNetwork, InvalidRequest, np.linalg.LinAlgError) as error:
        raise InvalidPlan(f"{path}: {error}; the file was changed: {_AGAIN}") from error


def matrix(array: Array, rows: int, columns: int, name: str) -> Array:
    """The matrix, checked to have so many rows and columns; JSON does not tell the columns of no rows."""
    if array.shape != (rows, columns) and (rows or array.size):
        raise InvalidNetwork(f"{name}: expected {rows} rows of {columns} numbers, found shape {array.shape}")
    return array.reshape(rows, columns)


def _packed(array: Any) -> dict[str, Any]:
    content = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return {"shape": list(array.shape), "data": base64.b64encode(content).decode("ascii")}


def _unpacked(found: dict[str, Any]) -> Array:
    shape, data = (msgspec.convert(found.get(name), form) for name, form in _PACKED.items())
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected base64") from None
    if set(found) != set(_PACKED) or not all(0 <= length <= _LONGEST for length in shape):
        raise ValueError(f"expected numbers of shape {shape[:8]}, found {len(content)} bytes")
    return _array(np.frombuffer(content, dtype="<f8").reshape(shape))


_PACKED = {"shape": list[int], "data": str}


def _figure(found: float | str) -> float:
    number = with_infinities(found)
    if isinstance(number, str):
        raise ValueError("expected a number, found text")
    return float(number)


def _array(found: Any) -> Array:
    array = np.array(found, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("expected finite numbers")
    return array


class _Edges(Kind):
    """Lowest and highest of something; "none" is an open side."""

    def write(self, value: Any) -> Any:
        return [open_edges(each) for each in value]

    def read(self, value: Any, where: str) -> Any:
        return read_edges(value, where)


TEXT, WHOLE, NUMBER, YES, WORDS = Kind(str), Kind(int), Kind(float), Kind(bool), Kind(list[str], list)
VECTOR = Kind(list[float], lambda array: array.tolist(), _array)
MATRIX = Kind(list[list[float]], lambda array: array.tolist(), _array)
# large ones: base64 of float64, lowest byte first, row after row
PACKED = Kind(dict[str, Any], _packed, _unpacked)
STEP = Kind(str, duration_in_words)
EDGES = _Edges(list)
FIGURE = Kind(float | str, plain, _figure)  # not finite: "inf", "-inf" or "nan"
FIGURES = Kind(
    dict[str, float | str], plain, lambda found: {name: _figure(each) for name, each in found.items()}
)
NUMBERS = Kind(dict[str, float], dict)
ANYTHING = Kind(dict[str, Any], plain, with_infinities)
