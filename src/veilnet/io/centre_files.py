"""What fusion needs, in one file: ``plan/center.json``; of a stream as in :mod:`veilnet.io.stream_centre_files`, of
one of very many agents as in :mod:`veilnet.io.sum_centre_files`.

The messages' model of :mod:`veilnet.centre.messages`, neither the agents' readings models nor their noise, nor the
private parameters, which an honest centre has no use for:

    format       "veilnet-center/1"
    plan         id of the plan it belongs to
    public       name, unit, value expected before any message and row of each public parameter
    prior        rows whose Gram matrix is the prior information
    agents       name -> whiten, expected, observe: whiten (z - expected) = observe x + unit noise
    correlation  of the whitened noise between all numbers, null where agents are independent
    least_share  what is known to a smaller share of the raw deviation counts as unknown
    step         how long a row takes, such as "15min"; left out where nobody said
    basis        a digest of the coordinates of x: plans of one network have the same, and can be fused together
    checksum     see :mod:`veilnet.io._sealed`
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import in_words, read_step
from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.types import Array
from veilnet._core.validation import as_names, as_vector
from veilnet.centre.messages import CentreModel
from veilnet.centre.models import Messages
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.whitening import WhiteningStacks
from veilnet.io._sealed import convert, open_sealed, sealed_bytes
from veilnet.io.stream_centre_files import FORMAT as STREAM_FORMAT
from veilnet.io.stream_centre_files import stream_centre_document, stream_centre_from_document
from veilnet.io.sum_centre_files import FORMAT as SUM_FORMAT
from veilnet.io.sum_centre_files import sum_centre_document, sum_centre_from_document

FORMAT = "veilnet-center/1"
_BEGINNING = 100  # bytes within which a file tells its format


class PublicRow(msgspec.Struct, forbid_unknown_fields=True):
    """One public parameter."""

    name: str
    unit: str
    expected: float
    row: list[float]


class AgentModel(msgspec.Struct, forbid_unknown_fields=True):
    """The message of one agent."""

    whiten: list[list[float]]
    expected: list[float]
    observe: list[list[float]]


class CentreDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a centre file."""

    format: str
    plan: str
    parameters: int
    public: list[PublicRow]
    prior: list[list[float]]
    agents: dict[str, AgentModel]
    correlation: list[list[float]] | None
    least_share: float
    basis: str
    step: str | None = None


def load_centre(path: str | PathLike[str]) -> Messages:
    """Read a centre file; a changed, truncated or foreign one is refused."""
    return centre_from_bytes(sealed_bytes(Path(path)), Path(path))


def centre_from_bytes(content: bytes, path: Path) -> Messages:
    """The model in the bytes of a centre file; ``path`` only names the file in errors."""
    if SUM_FORMAT.encode() in content[:_BEGINNING]:
        return sum_centre_from_document(open_sealed(path, SUM_FORMAT, content), path)
    if STREAM_FORMAT.encode() in content[:_BEGINNING]:
        return stream_centre_from_document(open_sealed(path, STREAM_FORMAT, content), path)
    return centre_from_document(open_sealed(path, FORMAT, content), path)


def centre_document(model: Messages) -> dict[str, Any]:
    """The table of a centre file."""
    if isinstance(model, SumModel):
        return sum_centre_document(model)
    if isinstance(model, StreamModel):
        return stream_centre_document(model)
    agents = {}
    for place, name in enumerate(model.agents):
        rows = model.blocks.rows(place)
        agents[name] = {
            "whiten": model.whiten[place].tolist(),
            "expected": model.expected[rows].tolist(),
            "observe": model.observe[rows].tolist(),
        }
    return {
        "format": FORMAT,
        "plan": model.plan,
        "parameters": int(model.public.shape[1]),
        "public": [
            {"name": label, "unit": unit, "expected": float(expected), "row": row.tolist()}
            for label, unit, expected, row in zip(
                model.labels, model.units, model.public_expected, model.public, strict=True
            )
        ],
        "prior": model.prior.tolist(),
        "agents": agents,
        "correlation": None if model.correlation is None else model.correlation.tolist(),
        "least_share": float(model.least_sharpness),
        "basis": model.basis,
        **({} if model.step is None else {"step": in_words(model.step)}),
    }


def centre_from_document(document: dict[str, Any], path: Path) -> CentreModel:
    """The model of a table; ``path`` names the file in errors."""
    found = convert(document, CentreDocument, path)
    try:
        with np.errstate(all="ignore"):
            return _model(found)
    except (InvalidNetwork, np.linalg.LinAlgError) as error:
        raise InvalidPlan(f"{path}: {error}; the file was changed: save the plan again") from error


def _model(found: CentreDocument) -> CentreModel:
    length = found.parameters
    if not found.public or not found.agents or not 0 < length < 10**6 or not 0 < found.least_share < 1:
        raise InvalidNetwork("expected public rows, agents, parameters and a share between 0 and 1")
    sizes = [len(agent.expected) for agent in found.agents.values()]
    correlation = None
    if found.correlation is not None:
        correlation = _matrix(found.correlation, sum(sizes), sum(sizes), "correlation")
        np.linalg.cholesky(correlation)  # refuses what is no correlation
    model = CentreModel(
        agents=as_names(list(found.agents), "agents"),
        blocks=Blocks(sizes),
        whiten=WhiteningStacks.of_agents(
            Blocks(sizes),
            [
                _matrix(agent.whiten, size, size, f"whiten of {name!r}")
                for (name, agent), size in zip(found.agents.items(), sizes, strict=True)
            ],
        ),
        observe=np.concatenate(
            [
                _matrix(agent.observe, size, length, f"observe of {name!r}")
                for (name, agent), size in zip(found.agents.items(), sizes, strict=True)
            ]
        ),
        expected=np.concatenate([np.asarray(agent.expected, float) for agent in found.agents.values()]),
        correlation=correlation,
        prior=_matrix(found.prior, len(found.prior), length, "prior"),
        public=np.stack([as_vector(p.row, f"public {p.name!r}", length) for p in found.public]),
        public_expected=np.array([p.expected for p in found.public]),
        labels=tuple(p.name for p in found.public),
        units=tuple(p.unit for p in found.public),
        least_sharpness=found.least_share,
        plan=found.plan,
        step=read_step(found.step),
        basis=found.basis,
    )
    model.complete  # noqa: B018 - computed here, so that a model that cannot be is refused here
    return model


def _matrix(rows: list[list[float]], count: int, columns: int, name: str) -> Array:
    if len(rows) != count or any(len(row) != columns for row in rows):
        raise InvalidNetwork(f"{name}: expected {count} rows of {columns} numbers, found another shape")
    return np.asarray(rows, dtype=np.float64).reshape(count, columns)
