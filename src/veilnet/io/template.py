"""The bundled house: the network of the demo, and the commented file that ``veilnet init`` writes."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from os import PathLike
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.io._atomic import write_text
from veilnet.io._document import from_document
from veilnet.model.network import Network


def template_text() -> str:
    """The commented network file to start from."""
    return files("veilnet.data").joinpath("house.toml").read_text(encoding="utf-8")


def house() -> Network:
    """The small house of the demo."""
    return from_document(tomllib.loads(template_text()), Path())


def write_template(path: str | PathLike[str], *, force: bool = False) -> Path:
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
    write_text(target, template_text())
    return target
