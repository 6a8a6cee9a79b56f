"""Files of a folder of parts: archives of arrays and JSON headers, each written whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest, VeilnetError
from veilnet.io import _json
from veilnet.io._archives import Arrays, open_arrays
from veilnet.io._atomic import write_bytes, write_text
from veilnet.io._formats import check_format
from veilnet.io._kinds import Table

HEADER = "header.json"


def read_arrays(path: Path, error: type[VeilnetError], again: str) -> Arrays | None:
    """All arrays of an archive; None where there is no file.

    error: raised where it is damaged, and says how to make it ``again``.
    """
    if not path.exists():
        return None
    try:
        return open_arrays(path)
    except InvalidNetwork as problem:
        words = str(problem).removeprefix(f"{path}: ")
        raise error(f"{path}: the part is damaged ({words}); {again}") from problem


def kept_arrays(path: Path) -> Arrays | None:
    """All arrays of an archive that can be made again; None where it is not there, or damaged."""
    try:
        return read_arrays(path, InvalidNetwork, "")
    except InvalidNetwork:
        return None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as one file; a full disk raises an error with the part's name."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, buffer.getvalue())
    except OSError as error:
        raise InvalidRequest(
            f"{path}: cannot be written ({error.strerror}); parts that are finished are kept, and the same call "
            "goes on from there once there is room"
        ) from error


def write_header(path: Path, form: str, table: Table, values: Mapping[str, Any]) -> None:
    """Write values as the JSON document of a format."""
    write_text(path, json.dumps(table.document(form, values), indent=2) + "\n")


def read_header(
    path: Path, form: str, table: Table, error: type[VeilnetError], begin: str, again: str
) -> dict[str, Any]:
    """The values of the JSON document of a format.

    error: raised where there is none; it says how to ``begin`` where there is no file, and how to make it ``again``.
    """
    try:
        document = _json.parse(path.read_bytes())
        if not isinstance(document, dict):
            raise ValueError(f"expected a table, found {type(document).__name__}")
        check_format(document.pop("format", None), form, error)
        return table.read(document)
    except OSError as problem:
        raise error(f"{path}: {problem.strerror}; {begin}") from problem
    except VeilnetError as problem:
        raise error(f"{path}: {problem}; the header was changed, {again}") from problem
    except ValueError as problem:
        raise error(f"{path}: not a JSON object ({problem}); {again}") from problem
