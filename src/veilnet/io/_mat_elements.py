"""The elements of a MATLAB file, version 5 (-v6 and -v7): what each variable is, and its value when asked for.

Written here because scipy's reader, being compiled, ends the whole program on some damaged files. Every length that a
file states is compared with what is there before anything is taken, a packed variable unfolds to no more than its
share of the limit, and no more elements are taken than need about twice that limit of memory.

An element is a tag (kind and number of bytes) and its bytes, filled up to eight. A variable is an element of kind
``_MATRIX`` whose own elements are flags with its class, dimensions, name and content; cells and structs contain
further such elements.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["DamagedMat", "Variable", "variables_of"]

_HEADER = 128
_MATRIX, _PACKED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CODECS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
_KINDS = {
    1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single", 8: "int8", 9: "uint8",
    10: "int16", 11: "uint16", 12: "int32", 13: "uint32", 14: "int64", 15: "uint64", 16: "function", 17: "opaque",
}  # fmt: skip
_DEEPEST = 8  # cells within cells
_MOST_DIMENSIONS = 32  # of an array, in every version of NumPy
_MOST_ELEMENTS = 2**24  # of a file: an empty one takes eight bytes in it, and some 250 here


class DamagedMat(Exception):
    """What is wrong with a file."""


class _Room:
    """How many more elements of one file are taken."""

    def __init__(self) -> None:
        self.left = _MOST_ELEMENTS

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise DamagedMat(f"it has more than the {_MOST_ELEMENTS:,} elements that are read")


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable, not decoded yet.

    name:  of the variable, empty within cells and structs.
    kind:  its class, in MATLAB's words.
    shape: its dimensions.
    parts: (kind, bytes) of the elements that hold its content.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parts: tuple[tuple[int, memoryview], ...]
    order: str
    imaginary: bool
    depth: int
    room: _Room

    def value(self) -> Any:
        """Numbers as an array, char as text or a list of texts, cells as a list, a struct of one as a dict."""
        if self.kind == "char":
            return self._text()
        if self.kind == "cell":
            if len(self.shape) != 2 or min(self.shape) > 1:
                raise DamagedMat(f"expected a row or column of cells, found shape {self.shape}")
            return [each.value() for each in self._within(self.parts, math.prod(self.shape))]
        if self.kind == "struct":
            return self._table()
        if self.kind not in _DTYPES:
            raise DamagedMat(
                f"expected numbers, char, cells or a struct, found {self.kind}; use full, double, char or cellstr"
            )
        numbers = self._numbers(0)
        if not self.imaginary:
            return numbers
        both = numbers.astype(np.complex128)
        both.imag = self._numbers(1)
        return both

    def _numbers(self, part: int) -> np.ndarray[Any, Any]:
        kind, content = self._part(part)
        if kind not in _NUMBERS:
            raise DamagedMat(f"expected numbers, found an element of kind {kind}")
        stored = np.dtype(self.order + _NUMBERS[kind])
        if len(content) != math.prod(self.shape) * stored.itemsize:
            raise DamagedMat(f"shape {self.shape} does not go with {len(content)} bytes")
        array = np.frombuffer(content, dtype=stored)
        if _DTYPES[self.kind].kind in "iu" and array.dtype.kind == "f":
            raise DamagedMat(f"expected {self.kind}, found fractions")
        with np.errstate(over="ignore"):
            found = array.astype(_DTYPES[self.kind])
        if _DTYPES[self.kind].kind in "iu" and not np.array_equal(found, array):
            raise DamagedMat(f"expected {self.kind}, found numbers that are none")
        try:
            return found.reshape(self.shape, order="F")
        except ValueError as error:  # nothing, along dimensions that are too long
            raise DamagedMat(f"a variable of shape {self.shape}") from error

    def _text(self) -> str | list[str]:
        if math.prod(self.shape) == 0:
            return ""
        kind, content = self._part(0)
        if kind not in _CODECS and kind not in (1, 2, 4):
            raise DamagedMat(f"expected text, found an element of kind {kind}")
        wide = {"<": "le", ">": "be"}[self.order]
        codec = _CODECS.get(kind, "utf-16" if kind == 4 else "utf-8")
        try:
            text = bytes(content).decode(codec if codec == "utf-8" else f"{codec}-{wide}")
        except UnicodeDecodeError as error:
            raise DamagedMat("text that cannot be decoded") from error
        if self.shape[0] == 1:
            return text
        if len(self.shape) != 2 or len(text) != math.prod(self.shape):
            raise DamagedMat(f"shape {self.shape} does not go with {len(text)} characters")
        return [text[row :: self.shape[0]].rstrip() for row in range(self.shape[0])]  # rows are padded

    def _table(self) -> dict[str, Any]:
        if math.prod(self.shape) != 1:
            raise DamagedMat(f"expected a struct of one element, found {math.prod(self.shape)}")
        _, width = self._part(0)
        _, names = self._part(1)
        size = struct.unpack(f"{self.order}i", width)[0] if len(width) == 4 else 0
        if size < 1 or len(names) % size:
            raise DamagedMat("the names of a struct are cut off")
        try:
            fields = [
                bytes(names[start : start + size]).partition(b"\0")[0].decode("utf-8")
                for start in range(0, len(names), size)
            ]
        except UnicodeDecodeError as error:
            raise DamagedMat("names that cannot be decoded") from error
        if len(set(fields)) != len(fields):
            raise DamagedMat("a struct has a name twice")
        values = self._within(self.parts[2:], len(fields))
        return {name: each.value() for name, each in zip(fields, values, strict=True)}

    def _within(self, parts: tuple[tuple[int, memoryview], ...], count: int) -> list[Variable]:
        if len(parts) != count or any(kind != _MATRIX for kind, _ in parts):
            raise DamagedMat(f"expected {count} elements within, found {len(parts)}")
        if self.depth >= _DEEPEST:
            raise DamagedMat("cells lie too deep within one another")
        return [_variable(content, self.order, self.depth + 1, self.room) for _, content in parts]

    def _part(self, number: int) -> tuple[int, memoryview]:
        if number >= len(self.parts):
            raise DamagedMat("its content is missing")
        return self.parts[number]


_DTYPES: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def variables_of(content: bytes, limit: int) -> dict[str, Variable]:
    """The variables of a version 5 file, in order; DamagedMat where it is cut off or makes no sense.

    limit: how many bytes all of them may take unpacked.
    """
    if len(content) < _HEADER or (order := {b"IM": "<", b"MI": ">"}.get(content[126:128])) is None:
        raise DamagedMat("it does not begin as a MATLAB file")
    found: dict[str, Variable] = {}
    room = _Room()
    for kind, each in _elements(memoryview(content)[_HEADER:], order, room):
        unpacked, left = each, limit
        if kind == _PACKED:
            unpacked = _unpacked(each, left)
            inner = list(_elements(unpacked, order, room))
            if len(inner) != 1:
                raise DamagedMat("a packed variable is cut off")
            kind, unpacked = inner[0]
        limit -= len(unpacked)
        if limit < 0:
            raise DamagedMat("it unfolds to more than is read")
        if kind != _MATRIX:
            continue  # what MATLAB keeps beside variables
        variable = _variable(unpacked, order, 0, room)
        if variable.name in found:
            raise DamagedMat(f"two variables are called {variable.name!r}")
        if variable.name:
            found[variable.name] = variable
    return found


def _variable(content: memoryview, order: str, depth: int, room: _Room) -> Variable:
    if not len(content):  # MATLAB's way to write an empty matrix within a cell
        return Variable("", "double", (0, 0), ((9, memoryview(b"")),), order, False, depth, room)
    parts = tuple(_elements(content, order, room))
    if len(parts) < 3 or len(parts[0][1]) != 8 or parts[1][0] != 5 or len(parts[1][1]) % 4:
        raise DamagedMat("the description of a variable is cut off")
    flags = struct.unpack(f"{order}II", parts[0][1])[0]
    kind = _KINDS.get(flags & 0xFF, f"class {flags & 0xFF}")
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    if len(shape) < 2 or min(shape) < 0:
        raise DamagedMat(f"a variable of shape {shape}")
    if len(shape) > _MOST_DIMENSIONS:
        raise DamagedMat(f"a variable of {len(shape)} dimensions")
    name = bytes(parts[2][1]).decode("utf-8", "replace")
    return Variable(name, kind, shape, parts[3:], order, bool(flags & 0x800), depth, room)


def _elements(content: memoryview, order: str, room: _Room) -> Iterator[tuple[int, memoryview]]:
    """(kind, bytes) of one element after another."""
    start = 0
    while start < len(content):
        room.take()
        if start + 8 > len(content):
            raise DamagedMat("cut off")
        kind, size = struct.unpack(f"{order}II", content[start : start + 8])
        if kind >> 16:  # a small one, kind and bytes in one tag
            kind, size, start = kind & 0xFFFF, kind >> 16, start + 4
            end = start + 4
            if size > 4:
                raise DamagedMat("a small element that is too large")
        else:
            start += 8
            end = start + size + (0 if kind == _PACKED else -size % 8)
        if start + size > len(content):
            raise DamagedMat("cut off")
        yield kind, content[start : start + size]
        start = end


def _unpacked(packed: memoryview, limit: int) -> memoryview:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed, max(limit, 0) + 1)
    except zlib.error as error:
        raise DamagedMat(f"a packed variable cannot be unfolded ({error})") from error
    if len(content) > limit:
        raise DamagedMat("it unfolds to more than is read")
    if not stream.eof:
        raise DamagedMat("a packed variable is cut off")
    return memoryview(content)
