"""Matrices of a MATLAB file, version 5 (-v6 and -v7), without a compiled reader.

SciPy's ends the whole program on some damaged files (scipy 1.17.1: 38 of 3,000 with one to three bytes changed). Here
every length that a file states is compared with what is there before anything is taken, and a packed variable unfolds
to no more than its share of the limit.

An element is a tag (kind and number of bytes) and its bytes, filled up to eight. A variable is an element of kind
``_MATRIX`` whose own elements are flags with its class, dimensions, name and numbers.
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet.io import _reading

_HEADER = 128
_MATRIX, _PACKED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
_MOST_DIMENSIONS = 32  # of an array, in every version of NumPy
_MOST_VARIABLES = 2**16


class DamagedMat(Exception):
    """What is wrong with a file."""


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable, not decoded yet.

    name:  of the variable.
    kind:  its class, by MATLAB's number.
    shape: its dimensions.
    parts: (kind, bytes) of the elements that hold its numbers, real and imaginary.
    """

    name: str
    kind: int
    shape: tuple[int, ...]
    parts: tuple[tuple[int, memoryview], ...]
    order: str
    imaginary: bool

    def numbers(self) -> np.ndarray[Any, Any]:
        """The array; DamagedMat where its bytes are none."""
        if self.kind not in _NUMBERS:
            other = _OTHERS.get(self.kind, f"class {self.kind}")
            raise DamagedMat(
                f"expected a full matrix of numbers, found {other}; in MATLAB or Octave, save full(double(...))"
            )
        found = self._part(0)
        if self.imaginary:
            found = found.astype(np.complex128)
            found.imag = self._part(1)
        return found

    def _part(self, number: int) -> np.ndarray[Any, Any]:
        if number >= len(self.parts) or self.parts[number][0] not in _STORED:
            raise DamagedMat("its numbers are missing")
        kind, content = self.parts[number]
        stored = np.dtype(self.order + _STORED[kind])
        if len(content) != math.prod(self.shape) * stored.itemsize:
            raise DamagedMat(f"shape {self.shape} does not go with {len(content)} bytes")
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.frombuffer(content, dtype=stored)
            found = array.astype(_NUMBERS[self.kind])
        if found.dtype.kind in "iu" and not np.array_equal(found, array):
            raise DamagedMat(f"expected {found.dtype}, found numbers that are none")
        try:
            return found.reshape(self.shape, order="F")
        except ValueError as error:  # nothing, along dimensions that are too long
            raise DamagedMat(f"a variable of shape {self.shape}") from error


def read_variable(path: Path, wanted: str | None) -> np.ndarray[Any, Any]:
    """The matrix that a file has by that name; InvalidNetwork for a file that is damaged or has none.

    Nothing but the variable asked for is decoded.
    """
    content = _reading.read_bytes(path, _reading.ARRAY_LIMIT)
    if content[124:128] in (b"\x00\x02IM", b"\x02\x00MI"):
        raise InvalidNetwork(
            f"{path}: a MATLAB 7.3 (HDF5) file, which is not read; save it with the option -v7"
        )
    try:
        found = variables_of(content, _reading.ARRAY_LIMIT)
    except DamagedMat as error:
        raise InvalidNetwork(
            f"{path}: not readable as a .mat file ({error}); save it with the option -v7, or copy it again"
        ) from error
    shown = ", ".join(repr(name) for name in itertools.islice(found, 8)) or "none"
    if wanted is None:
        raise InvalidNetwork(
            f"{path}: say which variable of the .mat file is meant: "
            f'{{ file = "{path.name}", variable = "..." }}; there are {shown}'
        )
    if wanted not in found:
        raise InvalidNetwork(f"{path}: no variable {wanted!r} in the file; there are {shown}")
    try:
        return found[wanted].numbers()
    except DamagedMat as error:
        raise InvalidNetwork(f"{path}: {wanted!r}: {error}") from error


def variables_of(content: bytes, limit: int) -> dict[str, Variable]:
    """The variables of a version 5 file, in order; DamagedMat where it is cut off or makes no sense.

    limit: how many bytes all of them may take unpacked.
    """
    if len(content) < _HEADER or (order := {b"IM": "<", b"MI": ">"}.get(content[126:128])) is None:
        raise DamagedMat("it does not begin as a MATLAB file")
    found: dict[str, Variable] = {}
    for count, (kind, each) in enumerate(_elements(memoryview(content)[_HEADER:], order)):
        if count == _MOST_VARIABLES:
            raise DamagedMat(f"it has more than the {_MOST_VARIABLES:,} variables that are read")
        unpacked = each
        if kind == _PACKED:
            inner = next(_elements(_unpacked(each, limit), order), None)
            if inner is None:
                raise DamagedMat("a packed variable is cut off")
            kind, unpacked = inner
        limit -= len(unpacked)
        if kind != _MATRIX:
            continue  # what MATLAB keeps beside variables
        variable = _variable(unpacked, order)
        if variable.name in found:
            raise DamagedMat(f"two variables are called {variable.name!r}")
        if variable.name:
            found[variable.name] = variable
    return found


def _variable(content: memoryview, order: str) -> Variable:
    # Flags, dimensions, name, numbers and their imaginary part: of cells and structs, the rest is never looked at.
    parts = tuple(itertools.islice(_elements(content, order), 5))
    if len(parts) < 3 or len(parts[0][1]) != 8 or parts[1][0] != 5 or len(parts[1][1]) % 4:
        raise DamagedMat("the description of a variable is cut off")
    flags = struct.unpack(f"{order}II", parts[0][1])[0]
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    if not 2 <= len(shape) <= _MOST_DIMENSIONS:
        raise DamagedMat(f"a variable of {len(shape)} dimensions")
    if min(shape) < 0:
        raise DamagedMat(f"a variable of shape {shape}")
    name = bytes(parts[2][1]).decode("utf-8", "replace")
    return Variable(name, flags & 0xFF, shape, parts[3:], order, bool(flags & 0x800))


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """(kind, bytes) of one element after another."""
    start = 0
    while start < len(content):
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
