"""Networks in files: .toml for people, .json for programs, .npz for many agents. Exact to the last bit."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, NotObservable
from veilnet.io import _json, _reading
from veilnet.io._archives import open_arrays
from veilnet.io._atomic import replacing, write_bytes
from veilnet.io._sealed import laid_out
from veilnet.io._toml import to_toml
from veilnet.io.network_schema import from_document, network_arrays, network_from_arrays, to_document
from veilnet.model.network import Network

_SUFFIXES = (".toml", ".json", ".npz")


def load_network(path: str | PathLike[str]) -> Network:
    """Read a network from a .toml, .json or .npz file. Nothing is ever unpickled.

    Raises InvalidNetwork (or NotObservable), naming the file and the key at fault.
    """
    source = Path(path)
    if not source.suffix and not source.exists():
        raise InvalidNetwork(f"{source}: no such file; check the name and the folder")
    _reading.refuse_parts(source)
    suffix = _suffix(source)
    try:
        if suffix == ".npz":
            return network_from_arrays(open_arrays(source))
        return from_document(_parsed(_reading.read_text(source), suffix), source.parent)
    except (InvalidNetwork, NotObservable) as error:
        if str(error).startswith(f"{source}: "):
            raise
        raise type(error)(f"{source}: {error}") from error


def save_network(network: Network, path: str | PathLike[str]) -> None:
    """Write a network to a .toml, .json or .npz file, whole or not at all."""
    target = Path(path)
    suffix = _suffix(target)
    if suffix == ".npz":
        with replacing(target) as file:
            np.savez(file, **network_arrays(network))  # type: ignore[arg-type]  # the stubs take names for options
        return
    document = to_document(network)
    write_bytes(target, _within_limit(to_toml(document) if suffix == ".toml" else laid_out(document), target))


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix == ".mat":
        raise InvalidNetwork(
            f"{path}: a .mat file holds matrices, not a network; name them in a network file: "
            f'observe = {{ file = "{path.name}", variable = "..." }}'
        )
    if suffix not in _SUFFIXES:
        raise InvalidNetwork(
            f"{path}: expected a file name ending in .toml, .json or .npz, found {path.suffix or 'no suffix'}"
        )
    return suffix


def _parsed(text: str, suffix: str) -> Any:
    try:
        return tomllib.loads(text) if suffix == ".toml" else _json.parse(text)
    except (ValueError, RecursionError) as error:
        raise InvalidNetwork(
            f"not readable as {suffix[1:].upper()}: {error}; mend that place, or copy the file again if it was cut "
            "off"
        ) from error


def _within_limit(pieces: Iterable[str], target: Path) -> bytes:
    content = bytearray()
    for piece in pieces:
        content += piece.encode("utf-8")
        if len(content) > _reading.TEXT_LIMIT:
            raise InvalidNetwork(
                f"{target}: the network takes more than {_reading.TEXT_LIMIT:,} bytes as text, which would "
                "not be read back; save it as .npz"
            )
    return bytes(content)
