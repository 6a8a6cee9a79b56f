"""What fusion of a stream needs, in one file: ``plan/center.json`` of a plan for streams.

The messages' model of :mod:`veilnet.centre.streams.model`. It says how messages follow one another, memories of the
agents included; nothing of any reading is in it, nor the private parameters, which an honest centre has no use for:

    format      "veilnet-stream-center/1"
    plan        id of the plan it belongs to
    public      name, unit, value at the mean and row (of the state) of each public parameter
    state       transition, noise, drive: X' = transition X + drive + noise
    start       covariance and mean of X at row 1; vague: whether nothing is known of the first x
    agents      name -> observe, expected, where its memory is in the state, null without one, and the covariance that
                it is drawn from where it begins anew
    floor       covariance of the noise of all numbers, their rounding included
    step        how long a row takes, such as "15min"; left out where nobody said
    checksum    see :mod:`veilnet.io._sealed`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import in_words, read_step
from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.types import Array
from veilnet._core.validation import as_names, as_vector, semidefinite, symmetric
from veilnet.centre.streams.model import StreamModel
from veilnet.io._sealed import convert

FORMAT = "veilnet-stream-center/1"


class PublicRow(msgspec.Struct, forbid_unknown_fields=True):
    """One public parameter."""

    name: str
    unit: str
    expected: float
    row: list[float]


class StateMoves(msgspec.Struct, forbid_unknown_fields=True):
    """How the state goes on from row to row."""

    transition: list[list[float]]
    noise: list[list[float]]
    drive: list[float]


class Start(msgspec.Struct, forbid_unknown_fields=True):
    """The state at row 1."""

    covariance: list[list[float]]
    mean: list[float]
    vague: bool


class AgentMessages(msgspec.Struct, forbid_unknown_fields=True):
    """The numbers of one agent."""

    observe: list[list[float]]
    expected: list[float]
    memory: tuple[int, int] | None
    start: list[list[float]] | None = None


class StreamCentreDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a centre file of a stream."""

    format: str
    plan: str
    public: list[PublicRow]
    state: StateMoves
    start: Start
    agents: dict[str, AgentMessages]
    floor: list[list[float]]
    step: str | None = None


def stream_centre_document(model: StreamModel) -> dict[str, Any]:
    """The table of a centre file."""
    agents = {}
    for place, name in enumerate(model.agents):
        rows = model.blocks.rows(place)
        memory = model.memories.get(name)
        agents[name] = {
            "observe": model.observe[rows].tolist(),
            "expected": model.expected[rows].tolist(),
            "memory": None if memory is None else list(memory),
            **({"start": model.starts[name].tolist()} if name in model.starts else {}),
        }
    return {
        "format": FORMAT,
        "plan": model.plan,
        "public": [
            {"name": label, "unit": unit, "expected": float(expected), "row": row.tolist()}
            for label, unit, expected, row in zip(
                model.labels, model.units, model.public_expected, model.public, strict=True
            )
        ],
        "state": {
            "transition": model.transition.tolist(),
            "noise": model.noise.tolist(),
            "drive": model.drive.tolist(),
        },
        "start": {
            "covariance": model.start.tolist(),
            "mean": model.start_mean.tolist(),
            "vague": model.vague,
        },
        "agents": agents,
        "floor": model.floor.tolist(),
        **({} if model.step is None else {"step": in_words(model.step)}),
    }


def stream_centre_from_document(document: dict[str, Any], path: Path) -> StreamModel:
    """The model of a table; ``path`` names the file in errors."""
    found = convert(document, StreamCentreDocument, path)
    try:
        return _model(found)
    except InvalidNetwork as error:
        raise InvalidPlan(f"{path}: {error}; the file was changed: save the plan again") from error


def _model(found: StreamCentreDocument) -> StreamModel:
    size = len(found.state.drive)
    if not found.public or not found.agents or not 0 < size < 10**5:
        raise InvalidNetwork("expected public rows, agents and a state")
    sizes = [len(agent.expected) for agent in found.agents.values()]
    return StreamModel(
        agents=as_names(list(found.agents), "agents"),
        blocks=Blocks(sizes),
        transition=_matrix(found.state.transition, size, size, "transition"),
        noise=_covariance(found.state.noise, size, "noise"),
        drive=as_vector(found.state.drive, "drive", size),
        observe=np.concatenate(
            [
                _matrix(agent.observe, count, size, f"observe of {name!r}")
                for (name, agent), count in zip(found.agents.items(), sizes, strict=True)
            ]
        ),
        floor=_covariance(found.floor, sum(sizes), "floor"),
        expected=np.concatenate([np.asarray(agent.expected, float) for agent in found.agents.values()]),
        start=_covariance(found.start.covariance, size, "start covariance"),
        start_mean=as_vector(found.start.mean, "start mean", size),
        vague=found.start.vague,
        memories=_memories(found, size),
        starts=_starts(found),
        public=np.stack([as_vector(p.row, f"public {p.name!r}", size) for p in found.public]),
        public_expected=np.array([p.expected for p in found.public]),
        labels=tuple(p.name for p in found.public),
        units=tuple(p.unit for p in found.public),
        plan=found.plan,
        step=read_step(found.step),
    )


def _memories(found: StreamCentreDocument, size: int) -> dict[str, tuple[int, int]]:
    spans = {name: agent.memory for name, agent in found.agents.items() if agent.memory is not None}
    end = 0
    for name, (first, stop) in sorted(spans.items(), key=lambda entry: entry[1]):
        if not end <= first < stop <= size:
            raise InvalidNetwork(f"memory of {name!r}: expected a part of the state of its own")
        end = stop
    return spans


def _starts(found: StreamCentreDocument) -> dict[str, Array]:
    starts = {}
    for name, agent in found.agents.items():
        if agent.start is not None:
            first, stop = agent.memory or (0, 0)
            starts[name] = _covariance(agent.start, stop - first, f"start of {name!r}")
    return starts


def _covariance(rows: list[list[float]], size: int, name: str) -> Array:
    return semidefinite(symmetric(_matrix(rows, size, size, name), name), name)


def _matrix(rows: list[list[float]], count: int, columns: int, name: str) -> Array:
    if len(rows) != count or any(len(row) != columns for row in rows):
        raise InvalidNetwork(f"{name}: expected {count} rows of {columns} numbers, found another shape")
    return np.asarray(rows, dtype=np.float64).reshape(count, columns)
