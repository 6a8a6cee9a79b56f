"""One agent's sanitizer in one file: what that agent needs, and nothing of the others.

format       "veilnet-sanitizer/1"
plan         id of the plan it belongs to, null for one saved on its own
agent        whose it is
readings     how many numbers a reading has; ``names`` of them, empty when unknown
offset       subtracted from a reading first
limits       lowest and highest credible reading, null where there is none: one beyond counts as the limit
usual        mean and deviation of each reading by the model, to judge limits by; left out where it does not say
resolution   step of each reading; 0 for a continuous one, null where unknown
dither       how many uniform draws of its step move each reading first: 0, 1 or 2
compression  rows of the numbers sent
variances    of the noise of each number sent (0 or 1 in normal form), or null and
covariance   the whole noise covariance instead
grid         step of each number sent, null without a grid
step         how long a row takes, such as "15min"; left out where nobody said
memory       ``transition`` F and ``gain`` K of what is kept from row to row, and ``start``, the covariance of the
             draw with which it begins anew; compression then acts on the memory and the readings. Left out where
             nothing is kept
checksum     see :mod:`veilnet.io._sealed`
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.durations import in_words
from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet.agent.grid import round_to_grid
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io._atomic import write_bytes
from veilnet.io._sealed import convert, open_sealed, seal, sealed_bytes

FORMAT = "veilnet-sanitizer/1"


class SanitizerDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a sanitizer file."""

    format: str
    plan: str | None
    agent: str
    readings: int
    names: list[str]
    offset: list[float]
    limits: LimitsDocument | None
    compression: list[list[float]]
    variances: list[float] | None
    covariance: list[list[float]] | None
    grid: list[float] | None
    resolution: list[float] | None
    dither: list[float]
    memory: MemoryDocument | None = None
    step: str | None = None
    usual: UsualDocument | None = None


class UsualDocument(msgspec.Struct, forbid_unknown_fields=True):
    """What readings usually are, by the model."""

    mean: list[float]
    deviation: list[float]


class MemoryDocument(msgspec.Struct, forbid_unknown_fields=True):
    """What is kept from row to row: s = transition s + gain (y - offset)."""

    transition: list[list[float]]
    gain: list[list[float]]
    start: list[list[float]] | None = None


class LimitsDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Lowest and highest credible readings; null is no limit."""

    lowest: list[float | None]
    highest: list[float | None]


def save_sanitizer(sanitizer: Sanitizer, path: str | PathLike[str], plan: str | None = None) -> None:
    """Write one agent's file, whole or not at all."""
    write_bytes(path, seal(to_document(sanitizer, plan)))


def load_sanitizer(path: str | PathLike[str]) -> Sanitizer:
    """Read one agent's file; a changed, truncated or foreign one is refused."""
    return read_sanitizer(Path(path))[0]


def read_sanitizer(path: Path) -> tuple[Sanitizer, str | None]:
    """The sanitizer of a file and the id of the plan it belongs to."""
    return sanitizer_from_bytes(sanitizer_bytes(path), path)


def sanitizer_bytes(path: Path) -> bytes:
    """The bytes of an agent's file, read once: what is checked is then what is run."""
    return sealed_bytes(path)


def sanitizer_from_bytes(content: bytes, path: Path) -> tuple[Sanitizer, str | None]:
    """The sanitizer and plan id in the bytes of a file; ``path`` only names the file in errors."""
    document = open_sealed(path, FORMAT, content)
    return from_document(document, path), document["plan"]


def to_document(sanitizer: Sanitizer, plan: str | None) -> dict[str, Any]:
    """The table of a sanitizer file."""
    variances = np.diag(sanitizer.noise)
    diagonal = not np.any(sanitizer.noise - np.diag(variances))
    limits = None
    if sanitizer.limits is not None:
        limits = {
            name: [float(v) if np.isfinite(v) else None for v in edge]
            for name, edge in zip(("lowest", "highest"), sanitizer.limits, strict=True)
        }
    document = {
        "format": FORMAT,
        "plan": plan,
        "agent": sanitizer.agent,
        "readings": sanitizer.readings,
        "names": list(sanitizer.names),
        "offset": sanitizer.offset.tolist(),
        "limits": limits,
        "resolution": None if sanitizer.resolution is None else sanitizer.resolution.tolist(),
        "dither": sanitizer.dither.tolist(),
        "compression": sanitizer.compression.tolist(),
        "variances": variances.tolist() if diagonal else None,
        "covariance": None if diagonal else sanitizer.noise.tolist(),
        "grid": None if sanitizer.grid is None else sanitizer.grid.tolist(),
    }
    if sanitizer.step is not None:
        document["step"] = in_words(sanitizer.step)
    if sanitizer.usual is not None:
        mean, deviation = sanitizer.usual
        document["usual"] = {"mean": mean.tolist(), "deviation": deviation.tolist()}
    if sanitizer.memory is not None:
        document["memory"] = {
            "transition": sanitizer.memory.transition.tolist(),
            "gain": sanitizer.memory.gain.tolist(),
            **({} if sanitizer.memory.start is None else {"start": sanitizer.memory.start.tolist()}),
        }
    return document


def from_document(document: dict[str, Any], path: Path) -> Sanitizer:
    """The sanitizer of a table; ``path`` names the file in errors."""
    found = convert(document, SanitizerDocument, path)
    if (found.variances is None) == (found.covariance is None):
        raise InvalidPlan(f"{path}: expected either variances or covariance; the file was changed")
    if not 1 <= found.readings <= len(found.offset):
        raise InvalidPlan(f"{path}: expected {len(found.offset)} readings, found {found.readings}")
    try:
        kept = found.memory
        memory = None if kept is None else Memory(kept.transition, kept.gain, kept.start)
        columns = found.readings + (0 if memory is None else memory.order)
        sanitizer = Sanitizer(
            found.compression or np.zeros((0, columns)),
            found.variances if found.covariance is None else found.covariance,
            offset=found.offset,
            grid=found.grid,
            limits=None if found.limits is None else _limits(found.limits),
            resolution=found.resolution,
            dither=found.dither,
            memory=memory,
            agent=found.agent,
            names=found.names,
            step=found.step,
            usual=None if found.usual is None else (found.usual.mean, found.usual.deviation),
        )
        if sanitizer.readings != found.readings:
            raise InvalidNetwork(
                f"compression: expected {columns} columns for {found.readings} readings, found another number"
            )
        if sanitizer.grid is not None:
            round_to_grid(np.zeros(sanitizer.sent), sanitizer.grid)  # refuses steps beyond its range
    except InvalidNetwork as error:
        raise InvalidPlan(f"{path}: {error}") from error
    return sanitizer


def _limits(found: LimitsDocument) -> tuple[list[float], list[float]]:
    return (
        [-np.inf if value is None else value for value in found.lowest],
        [np.inf if value is None else value for value in found.highest],
    )
