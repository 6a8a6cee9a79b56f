"""MATLAB files as plain Python: numbers, texts, lists (cells) and tables (structs of one element).

Written as version 5 without packing, which MATLAB, Octave and everything else read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet.io import _reading
from veilnet.io._mat_elements import DamagedMat, Variable, variables_of

__all__ = ["open_mat", "read_variables", "value_of", "write_variables"]

_DESCRIPTION = b"MATLAB 5.0 MAT-file, written by veilnet".ljust(116)


def write_variables(file: IO[bytes], variables: Mapping[str, Any]) -> None:
    """Write variables: numbers, texts, lists as cells and mappings as structs."""
    from scipy.io import savemat

    start = file.tell()
    made = {name: _as_matlab(value) for name, value in variables.items()}
    savemat(file, made, long_field_names=True)  # type: ignore[arg-type]  # a file will do, whatever the stubs say
    end = file.tell()
    file.seek(start)
    file.write(_DESCRIPTION)  # without the time of day, so that the same content is the same file
    file.seek(end)


def read_variables(path: Path) -> dict[str, Any]:
    """Every variable of a file; InvalidNetwork where it is none of MATLAB's, cut off, or holds something else."""
    return {name: value_of(path, variable) for name, variable in open_mat(path).items()}


def open_mat(path: Path) -> dict[str, Variable]:
    """The variables of a file, none of them decoded yet."""
    content = _reading.read_bytes(path, _reading.ARRAY_LIMIT)
    if content[124:128] in (b"\x00\x02IM", b"\x02\x00MI"):
        raise InvalidNetwork(
            f"{path}: a MATLAB 7.3 (HDF5) file, which is not read; save it with the option -v7"
        )
    try:
        return variables_of(content, _reading.ARRAY_LIMIT)
    except DamagedMat as error:
        raise InvalidNetwork(
            f"{path}: not readable as a .mat file ({error}); save it with the option -v7, or copy it again"
        ) from error


def value_of(path: Path, variable: Variable) -> Any:
    """The value of a variable of a file."""
    try:
        return variable.value()
    except DamagedMat as error:
        raise InvalidNetwork(f"{path}: {variable.name}: {error}") from error


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
