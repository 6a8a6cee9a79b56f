"""The bundled house: the network of the demo, and the commented file that ``veilnet init`` writes."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from os import PathLike
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.io._atomic import write_text
from veilnet.io.network_schema import from_document
from veilnet.model.network import Network

# In the house's file, what dynamics take the place of lies between these two headings.
_PRIOR = "# ---------------------------------------------------------------- what is known before any reading"
_ROOMS = "# ---------------------------------------------------------------- the rooms, in sending order"


def template_text(*, stream: bool = False) -> str:
    """The commented network file to start from; with ``stream``, of rows that follow one another."""
    text = _data("house.toml")
    if not stream:
        return text
    before, rest = text.split(_PRIOR)
    return before + _data("house_stream.toml") + _ROOMS + rest.split(_ROOMS)[1]


def _data(name: str) -> str:
    return files("veilnet.data").joinpath(name).read_text(encoding="utf-8")


def house(*, stream: bool = False) -> Network:
    """The small house of the demo; with ``stream``, quarter of an hour after quarter of an hour."""
    return from_document(tomllib.loads(template_text(stream=stream)), Path())


def write_template(path: str | PathLike[str], *, force: bool = False, stream: bool = False) -> Path:
    """Write the template; an existing file is only replaced with ``force``."""
    target = Path(path)
    if target.suffix.lower() != ".toml":
        raise InvalidRequest(
            f"{target}: expected a file name ending in .toml, since the template has comments"
        )
    if target.is_dir():
        raise InvalidRequest(f"{target}: a folder has that name; choose another")
    if target.exists() and not force:
        raise InvalidRequest(f"{target}: exists already; choose another name, or --force to replace it")
    write_text(target, template_text(stream=stream))
    return target
