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


class _Damaged(Exception):
    """What is wrong with a file."""


Parts = list[tuple[int, memoryview]]


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
        order, found = _variables_of(content, _reading.ARRAY_LIMIT)
    except _Damaged as error:
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
        return _numbers(found[wanted], order)
    except _Damaged as error:
        raise InvalidNetwork(f"{path}: {wanted!r}: {error}") from error


def _variables_of(content: bytes, limit: int) -> tuple[str, dict[str, Parts]]:
    """(byte order, name -> flags, dimensions, name, numbers and their imaginary part, none of them decoded).

    limit: how many bytes all of them may take unpacked.
    """
    if len(content) < _HEADER or (order := {b"IM": "<", b"MI": ">"}.get(content[126:128])) is None:
        raise _Damaged("it does not begin as a MATLAB file")
    found: dict[str, Parts] = {}
    for count, (kind, each) in enumerate(_elements(memoryview(content)[_HEADER:], order)):
        if count == _MOST_VARIABLES:
            raise _Damaged(f"it has more than the {_MOST_VARIABLES:,} variables that are read")
        if kind == _PACKED:
            kind, each = next(_elements(_unpacked(each, limit), order), (0, memoryview(b"")))
        limit -= len(each)
        if kind != _MATRIX:
            continue  # what MATLAB keeps beside variables
        parts = list(
            itertools.islice(_elements(each, order), 5)
        )  # of cells and structs, the rest is never looked at
        if len(parts) < 3 or len(parts[0][1]) != 8 or parts[1][0] != 5 or len(parts[1][1]) % 4:
            raise _Damaged("the description of a variable is cut off")
        name = bytes(parts[2][1]).decode("utf-8", "replace")
        if name in found:
            raise _Damaged(f"two variables are called {name!r}")
        if name:
            found[name] = parts
    return order, found


def _numbers(parts: Parts, order: str) -> np.ndarray[Any, Any]:
    """The array of a variable."""
    flags = struct.unpack(f"{order}II", parts[0][1])[0]
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    kind = flags & 0xFF
    if not 2 <= len(shape) <= _MOST_DIMENSIONS:
        raise _Damaged(f"a variable of {len(shape)} dimensions")
    if min(shape) < 0:
        raise _Damaged(f"a variable of shape {shape}")
    if kind not in _NUMBERS:
        other = _OTHERS.get(kind, f"class {kind}")
        raise _Damaged(
            f"expected a full matrix of numbers, found {other}; in MATLAB or Octave, save full(double(...))"
        )
    found = _part(parts[3:4], shape, order, _NUMBERS[kind])
    if flags & 0x800:
        found = found.astype(np.complex128)
        found.imag = _part(parts[4:], shape, order, _NUMBERS[kind])
    return found


def _part(parts: Parts, shape: tuple[int, ...], order: str, kind: str) -> np.ndarray[Any, Any]:
    if not parts or parts[0][0] not in _STORED:
        raise _Damaged("its numbers are missing")
    stored, content = np.dtype(order + _STORED[parts[0][0]]), parts[0][1]
    if len(content) != math.prod(shape) * stored.itemsize:
        raise _Damaged(f"shape {shape} does not go with {len(content)} bytes")
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.frombuffer(content, dtype=stored)
        found = array.astype(kind)
    if found.dtype.kind in "iu" and not np.array_equal(found, array):
        raise _Damaged(f"expected {found.dtype}, found numbers that are none")
    try:
        return found.reshape(shape, order="F")
    except ValueError as error:  # nothing, along dimensions that are too long
        raise _Damaged(f"a variable of shape {shape}") from error


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """(kind, bytes) of one element after another."""
    start = 0
    while start < len(content):
        if start + 8 > len(content):
            raise _Damaged("cut off")
        kind, size = struct.unpack(f"{order}II", content[start : start + 8])
        if kind >> 16:  # a small one, kind and bytes in one tag
            kind, size, start = kind & 0xFFFF, kind >> 16, start + 4
            end = start + 4
            if size > 4:
                raise _Damaged("a small element that is too large")
        else:
            start += 8
            end = start + size + (0 if kind == _PACKED else -size % 8)
        if start + size > len(content):
            raise _Damaged("cut off")
        yield kind, content[start : start + size]
        start = end


def _unpacked(packed: memoryview, limit: int) -> memoryview:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed, max(limit, 0) + 1)
    except zlib.error as error:
        raise _Damaged(f"a packed variable cannot be unfolded ({error})") from error
    if len(content) > limit:
        raise _Damaged("it unfolds to more than is read")
    if not stream.eof:
        raise _Damaged("a packed variable is cut off")
    return memoryview(content)
