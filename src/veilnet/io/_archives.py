"""The arrays of an .npz archive, each taken by name and kind; nothing is ever unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_array
from veilnet.io import _json, _reading
from veilnet.io.matrices import read_npy

Arrays = dict[str, NDArray[Any]]


def open_arrays(path: Path) -> Arrays:
    """All arrays of an archive; no more is read than its size allows."""
    _reading.size_of(path, _reading.ARRAY_LIMIT)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # What is declared is also the most that is read: a small file cannot unfold into a huge one.
            _reading.refuse_oversized(path, sum(one.file_size for one in members), _reading.ARRAY_LIMIT)
            names = [one.filename.removesuffix(".npy") for one in members]
            if len(set(names)) != len(names):
                raise InvalidNetwork("the archive holds two arrays of one name; write it again")
            arrays: Arrays = {}
            for name, one in zip(names, members, strict=True):
                with archive.open(one) as stream:
                    arrays[name] = read_npy(stream, one.file_size, name)
            return arrays
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise InvalidNetwork(
            f"not readable as .npz, truncated or damaged ({error}); copy or write it again"
        ) from error


def take(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """The array of a name."""
    if name not in arrays:
        raise InvalidNetwork(f"the array {name!r} is missing; write the file again")
    return arrays[name]


def words(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    """A list of texts."""
    array = take(arrays, name)
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InvalidNetwork(f"{name}: expected a list of names, found {array.dtype} of shape {array.shape}")
    return [str(item) for item in array.tolist()]


def numbers(arrays: Mapping[str, NDArray[Any]], name: str, dimensions: int) -> Array:
    """Finite numbers in so many dimensions."""
    array = take(arrays, name)
    if array.dtype.kind == "U" or array.ndim != dimensions:
        raise InvalidNetwork(
            f"{name}: expected numbers in {dimensions} dimensions, found {array.dtype} of shape {array.shape}"
        )
    return as_array(array, name)


def each(arrays: Mapping[str, NDArray[Any]], name: str, count: int, *, texts: bool = False) -> NDArray[Any]:
    """So many texts, or numbers, which need not be finite."""
    array = take(arrays, name)
    if array.dtype.kind not in ("U" if texts else "fiu") or array.shape != (count,):
        what = "texts" if texts else "numbers"
        raise InvalidNetwork(f"{name}: expected {count} {what}, found {array.dtype} of shape {array.shape}")
    return array if texts else array.astype(np.float64)


def text(arrays: Mapping[str, NDArray[Any]], name: str) -> str | None:
    """A text; None where there is none."""
    array = arrays.get(name)
    return None if array is None or array.dtype.kind != "U" or array.ndim else str(array)


def table(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, Any]:
    """The table in a JSON text."""
    written = text(arrays, name)
    if written is None:
        raise InvalidNetwork(f"{name}: missing, or no text; write the file again")
    try:
        found = _json.parse(written)
    except ValueError as error:
        raise InvalidNetwork(f"{name}: not readable as JSON ({error}); write the file again") from error
    if not isinstance(found, dict):
        raise InvalidNetwork(f"{name}: expected a table; write the file again")
    return found


def sizes(arrays: Mapping[str, NDArray[Any]], name: str) -> Integers:
    """How many rows each of several things has, at least one."""
    array = take(arrays, name)
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0 or np.any(array < 1):
        raise InvalidNetwork(f"{name}: expected a list of positive whole numbers, found {array.dtype}")
    if np.any(array > _reading.ARRAY_LIMIT):
        raise InvalidNetwork(f"{name}: expected numbers of rows, found {array.max()}")
    return array.astype(np.intp)
