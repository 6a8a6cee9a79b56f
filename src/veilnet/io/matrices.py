"""A matrix from a file: .npy, .csv or .mat. Numbers only; nothing is ever unpickled or run."""

from __future__ import annotations

import io
import math
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from veilnet._core.errors import InvalidNetwork
from veilnet.io import _reading
from veilnet.io._mat import read_variable


def read_matrix(path: Path, variable: str | None = None) -> NDArray[Any]:
    """The array in a .npy, .csv or .mat file; ``variable`` names the one wanted in a .mat file."""
    suffix = path.suffix.lower()
    if suffix == ".mat":
        return read_variable(path, variable)
    if suffix not in (".npy", ".csv"):
        raise InvalidNetwork(
            f"{path}: expected a matrix in a .npy, .csv or .mat file, found the suffix {path.suffix!r}"
        )
    if variable is not None:
        raise InvalidNetwork(f"{path}: 'variable' is for .mat files; leave it out for {suffix}")
    return _read_npy_file(path) if suffix == ".npy" else _read_csv(path)


def confined(reference: str, folder: Path) -> Path:
    """The path of a file named inside another file: relative, and inside the folder of that file."""
    inside = folder.resolve()
    try:
        path = (inside / reference).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null character, a loop of links
        raise InvalidNetwork(f"file {reference!r} is not a file name") from error
    named = PurePosixPath(reference)
    if (
        named.is_absolute() or ".." in named.parts or not path.is_relative_to(inside)
    ):  # the last through a link
        raise InvalidNetwork(
            f"file {reference!r} leads outside the folder of the network file; "
            "put the matrix beside it and give a relative path without '..'"
        )
    return path


def read_npy(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """The array of a .npy stream of ``size`` bytes; what it claims is checked before memory is taken.

    Plain numbers and text only: an array of Python objects would have to be unpickled.
    """
    content = io.BytesIO(stream.read(size))
    if content.getbuffer().nbytes != size:
        raise InvalidNetwork(f"{name}: truncated; write or copy it again")
    try:
        version = npy_format.read_magic(content)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format is for arrays with named fields")
        read_header = (
            npy_format.read_array_header_1_0 if version == (1, 0) else (npy_format.read_array_header_2_0)
        )
        shape, column_major, dtype = read_header(content)
    except Exception as error:  # the header is Python text, and damaged text fails in many ways
        raise InvalidNetwork(
            f"{name}: not an array as numpy.save(..., allow_pickle=False) writes it ({error}); write it again"
        ) from error
    if dtype.hasobject:
        raise InvalidNetwork(
            f"{name}: expected numbers, found Python objects, which are never unpickled; "
            "save it as a plain array with numpy.save(..., allow_pickle=False)"
        )
    if dtype.kind not in "fiucU":
        raise InvalidNetwork(f"{name}: expected numbers, found the type {dtype}; convert it to float first")
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise InvalidNetwork(f"{name}: expected numbers of at most 64 bits, found {dtype}")
    count = math.prod(shape)
    left = size - content.tell()
    if min(shape, default=0) < 0 or count * dtype.itemsize != left:
        raise InvalidNetwork(
            f"{name}: truncated or damaged, shape {shape} needs {count * dtype.itemsize} bytes, "
            f"found {left}; write or copy it again"
        )
    values = np.frombuffer(content.getbuffer(), dtype=dtype, count=count, offset=content.tell())
    return values.reshape(shape, order="F" if column_major else "C")


def _read_npy_file(path: Path) -> NDArray[Any]:
    size = _reading.size_of(path, _reading.ARRAY_LIMIT)
    with path.open("rb") as file:
        array = read_npy(file, size, str(path))
    if array.dtype.kind == "U":
        raise InvalidNetwork(f"{path}: expected numbers, found text; convert it to float first")
    return array


def _read_csv(path: Path) -> NDArray[Any]:
    text = _reading.read_text(path)
    rows = [line for line in text.splitlines() if line.split("#", 1)[0].strip()]
    if not rows:
        raise InvalidNetwork(f"{path}: expected rows of numbers, found none")
    try:
        return np.loadtxt(rows, delimiter=",", comments="#", ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise InvalidNetwork(
            f"{path}: expected rows of numbers separated by commas, equally long and without a header "
            f"(lines after # are skipped); {error}"
        ) from error
