"""MATLAB files as plain Python: numbers, texts, lists (cells) and tables (structs of one element).

Written as version 5 (what MATLAB calls -v7 without compression, and Octave -6), which everything reads. Reading runs
nothing; what a packed file would unfold to is counted before memory is taken.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet.io import _reading
from veilnet.io.matrices import damaged_mat, hdf5_mat

_HEADER, _TAG = 128, 8
_DESCRIPTION = b"MATLAB 5.0 MAT-file, written by veilnet".ljust(116)
_PACKED = 15  # the kind of an element that is compressed
_CHUNK = 2**20


def write_variables(file: IO[bytes], variables: Mapping[str, Any]) -> None:
    """Write variables: numbers, texts, lists as cells and mappings as structs."""
    from scipy.io import savemat

    start = file.tell()
    savemat(file, {name: _as_matlab(value) for name, value in variables.items()}, long_field_names=True)
    end = file.tell()
    file.seek(start)
    file.write(_DESCRIPTION)  # without the time of day, so that the same content is the same file
    file.seek(end)


def read_variables(path: Path) -> dict[str, Any]:
    """Every variable of a file; InvalidNetwork where it is none of MATLAB's, cut off, or holds something else."""
    from scipy.io import loadmat

    _reading.size_of(path, _reading.ARRAY_LIMIT)
    _reading.refuse_oversized(path, _unfolded(path), _reading.ARRAY_LIMIT)
    try:
        contents = loadmat(str(path), appendmat=False)
    except NotImplementedError as error:
        raise hdf5_mat(path) from error
    except Exception as error:  # a damaged file fails anywhere in the reader
        raise damaged_mat(path, error) from error
    return {
        name: _as_python(value, f"{path}: {name}")
        for name, value in contents.items()
        if not name.startswith("__")
    }


def _as_matlab(value: Any) -> Any:
    """Vectors become columns, a list of texts or arrays a column of cells."""
    if isinstance(value, Mapping):
        return {name: _as_matlab(each) for name, each in value.items()}
    if isinstance(value, list):
        cells = np.empty((len(value), 1), dtype=object)
        for place, each in enumerate(value):
            cells[place, 0] = _as_matlab(each)
        return cells
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value[:, None]
    return value


def _as_python(value: Any, where: str) -> Any:
    if not isinstance(value, np.ndarray):
        raise InvalidNetwork(
            f"{where}: expected a full matrix, found {type(value).__name__}; save full(double(...))"
        )
    if value.dtype.names is not None:
        return _table(value, where)
    if value.dtype.kind == "O":
        if value.ndim != 2 or min(value.shape, default=0) > 1:
            raise InvalidNetwork(f"{where}: expected a row or column of cells, found shape {value.shape}")
        return [_as_python(each, f"{where}{{{k + 1}}}") for k, each in enumerate(value.reshape(-1))]
    if value.dtype.kind == "U":
        texts = [str(each) for each in value.reshape(-1)]
        return (
            [each.rstrip() for each in texts] if len(texts) > 1 else "".join(texts)
        )  # rows of a char matrix are padded
    if value.dtype.kind not in "fiuc" or value.dtype.itemsize > 16:
        raise InvalidNetwork(f"{where}: expected numbers or text, found {value.dtype}; save double(...)")
    return value


def _table(value: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
    from scipy.io.matlab import MatlabFunction, MatlabObject, MatlabOpaque

    if isinstance(value, MatlabObject | MatlabOpaque | MatlabFunction):
        raise InvalidNetwork(
            f"{where}: expected numbers, char, cells or a struct, found an object of MATLAB (a string array, a "
            "table, a function); use char, cellstr or double"
        )
    if value.size != 1:
        raise InvalidNetwork(f"{where}: expected a struct of one element, found {value.size}")
    record = value.reshape(-1)[0]
    return {str(name): _as_python(record[name], f"{where}.{name}") for name in value.dtype.names or ()}


def _unfolded(path: Path) -> int:
    """How many bytes the elements of a version 5 file take unpacked; 0 for other versions, which pack nothing."""
    total = 0
    try:
        with path.open("rb") as file:
            order = {b"IM": "<", b"MI": ">"}.get(file.read(_HEADER)[-2:])
            while order is not None and len(tag := file.read(_TAG)) == _TAG:
                kind, size = struct.unpack(f"{order}II", tag)
                if kind == _PACKED:
                    total += _unpacked(file, size)
                else:
                    total += size
                    file.seek(size, 1)
                if total > _reading.ARRAY_LIMIT:
                    break
    except (OSError, zlib.error) as error:
        raise damaged_mat(path, error) from error
    return total


def _unpacked(file: IO[bytes], size: int) -> int:
    """How many bytes a packed element of ``size`` bytes has, without keeping them."""
    stream, total = zlib.decompressobj(), 0
    while size > 0 and not stream.eof and total <= _reading.ARRAY_LIMIT:
        packed = file.read(min(size, _CHUNK))
        if not packed:
            break
        size -= len(packed)
        while packed:
            total += len(stream.decompress(packed, _CHUNK))
            packed = stream.unconsumed_tail
            if total > _reading.ARRAY_LIMIT:
                break
    file.seek(size, 1)
    return total
