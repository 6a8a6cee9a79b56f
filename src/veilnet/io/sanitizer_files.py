"""One agent's sanitizer in one file: what that agent needs, and nothing of the others (docs/reference/formats.md)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest
from veilnet.agent.membership import Membership
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io._atomic import write_bytes
from veilnet.io._formats import SANITIZER as FORMAT
from veilnet.io._kinds import EDGES, MATRIX, STEP, TEXT, VECTOR, WHOLE, WORDS, Maybe, ObjectOf, Table
from veilnet.io._sealed import open_sealed, seal, sealed_bytes

SANITIZER = Table(
    plan=Maybe(TEXT),
    agent=TEXT,
    readings=WHOLE,
    names=WORDS,
    offset=VECTOR,
    limits=Maybe(EDGES),
    usual=Maybe(Table(mean=VECTOR, deviation=VECTOR)),
    resolution=Maybe(VECTOR),
    dither=VECTOR,
    compression=MATRIX,
    variances=Maybe(VECTOR),
    covariance=Maybe(MATRIX),
    grid=Maybe(VECTOR),
    step=Maybe(STEP),
    memory=Maybe(Table(transition=MATRIX, gain=MATRIX, start=Maybe(MATRIX))),
    summed=Maybe(ObjectOf(Membership, group=TEXT, members=WORDS, threshold=WHOLE, bits=WHOLE)),
)


def save_sanitizer(sanitizer: Sanitizer, path: str | PathLike[str], plan: str | None = None) -> None:
    """Write one agent's file, whole or not at all."""
    write_bytes(path, seal(to_document(sanitizer, plan)))


def load_sanitizer(path: str | PathLike[str]) -> Sanitizer:
    """Read one agent's file; a changed, truncated or foreign one is refused."""
    return read_sanitizer(Path(path))[0]


def read_sanitizer(path: Path) -> tuple[Sanitizer, str | None]:
    """The sanitizer of a file and the id of the plan it belongs to."""
    return sanitizer_from_bytes(sealed_bytes(path), path)


def sanitizer_from_bytes(content: bytes, path: Path) -> tuple[Sanitizer, str | None]:
    """The sanitizer and plan id in the bytes of a file; ``path`` only names the file in errors."""
    found = SANITIZER.values(open_sealed(path, FORMAT, content), path)
    return from_values(found, path), found["plan"]


def to_document(sanitizer: Sanitizer, plan: str | None) -> dict[str, Any]:
    """The document of a sanitizer file."""
    return SANITIZER.document(FORMAT, values_of(sanitizer) | {"plan": plan})


def values_of(sanitizer: Sanitizer) -> dict[str, Any]:
    """What is said of a sanitizer."""
    variances = np.diag(sanitizer.noise)
    diagonal = not np.any(sanitizer.noise - np.diag(variances))
    said = {name: getattr(sanitizer, name) for name in SANITIZER.kinds if hasattr(sanitizer, name)}
    said |= {"variances": variances} if diagonal else {"covariance": sanitizer.noise}
    if sanitizer.usual is not None:
        said["usual"] = dict(zip(("mean", "deviation"), sanitizer.usual, strict=True))
    if sanitizer.memory is not None:
        said["memory"] = {name: getattr(sanitizer.memory, name) for name in ("transition", "gain", "start")}
    return said


def from_document(document: Mapping[str, Any], path: Path) -> Sanitizer:
    """The sanitizer of a document; ``path`` names the file in errors."""
    return from_values(SANITIZER.values(document, path), path)


def from_values(found: Mapping[str, Any], path: Path) -> Sanitizer:
    """The sanitizer that values of a file describe; ``path`` names the file in errors."""
    if (found["variances"] is None) == (found["covariance"] is None):
        raise InvalidPlan(f"{path}: expected either variances or covariance; the file was changed")
    readings, usual, kept = found["readings"], found["usual"], found["memory"]
    if not 1 <= readings <= len(found["offset"]):
        raise InvalidPlan(f"{path}: expected {len(found['offset'])} readings, found {readings}")
    as_they_stand = ("offset", "grid", "limits", "resolution", "dither", "agent", "names", "step")
    try:
        memory = None if kept is None else Memory(**kept)
        columns = readings + (0 if memory is None else memory.order)
        sanitizer = Sanitizer(
            found["compression"] if len(found["compression"]) else np.zeros((0, columns)),
            found["variances"] if found["covariance"] is None else found["covariance"],
            **{name: found[name] for name in as_they_stand},
            memory=memory,
            usual=None if usual is None else (usual["mean"], usual["deviation"]),
            summed=found["summed"],
        )
        if sanitizer.readings != readings:
            raise InvalidNetwork(
                f"compression: expected {columns} columns for {readings} readings, found another number"
            )
    except (InvalidNetwork, InvalidRequest) as error:
        raise InvalidPlan(f"{path}: {error}") from error
    return sanitizer
