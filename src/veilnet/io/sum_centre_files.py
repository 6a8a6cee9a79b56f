"""What fusion of a stream of very many agents needs, in one file: ``center.json`` of such a plan.

The model of :mod:`veilnet.centre.streams.sum_model`: how the sum of all shares goes on, and what each agent is of it.
Nothing of any reading is in it, nor the private parameters. Numbers are kept as base64 of 64-bit floats, lowest byte
first, row after row; a JSON list of so many would be twice as long and slow to read:

    format      "veilnet-sum-center/1"
    plan        id of the plan it belongs to
    public      name, unit and value at the mean of each public parameter
    agents      names in sending order, or how many there are where they are numbered
    numbers     how many each sends: {"shape": [S], "data": base64}
    vague       whether nothing is known of the first x
    sums        name -> {"shape": ..., "data": base64}: see the model
    stacks      agents alike: telling, and places, weights, gains, seen likewise
    step        how long a row takes, such as "15min"; left out where nobody said
    checksum    see :mod:`veilnet.io._sealed`
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import in_words, read_step
from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.lyapunov import spectral_radius
from veilnet._core.names import NumberedNames
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_names, semidefinite, symmetric
from veilnet.centre.streams.sum_model import SharesOfStack, SumModel
from veilnet.io._sealed import convert

FORMAT = "veilnet-sum-center/1"
_MOST_AGENTS = 10**8
_SUMS = (
    *("transition", "noise", "follow", "observe", "entering", "rows", "root", "floor", "start"),
    "start_mean",
)
_OF_STACK = ("weights", "gains", "seen")


class PackedNumbers(msgspec.Struct, forbid_unknown_fields=True):
    """An array."""

    shape: list[int]
    data: str


class PublicRow(msgspec.Struct, forbid_unknown_fields=True):
    """One public parameter."""

    name: str
    unit: str
    expected: float


class StackDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Agents alike."""

    telling: bool
    places: PackedNumbers
    weights: PackedNumbers
    gains: PackedNumbers
    seen: PackedNumbers


class SumCentreDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of the file."""

    format: str
    plan: str
    public: list[PublicRow]
    agents: list[str] | int
    numbers: PackedNumbers
    vague: bool
    sums: dict[str, PackedNumbers]
    stacks: list[StackDocument]
    step: str | None = None


def sum_centre_document(model: SumModel) -> dict[str, Any]:
    """The table of a centre file."""
    numbered = isinstance(model.agents, NumberedNames)
    return {
        "format": FORMAT,
        "plan": model.plan,
        "public": [
            {"name": label, "unit": unit, "expected": float(expected)}
            for label, unit, expected in zip(model.labels, model.units, model.public_expected, strict=True)
        ],
        "agents": len(model.agents) if numbered else list(model.agents),
        "numbers": _packed(model.blocks.sizes),
        "vague": model.vague,
        "sums": {name: _packed(getattr(model, name)) for name in _SUMS},
        "stacks": [
            {
                "telling": stack.telling,
                "places": _packed(stack.places),
                **{name: _packed(getattr(stack, name)) for name in _OF_STACK},
            }
            for stack in model.stacks
        ],
        **({} if model.step is None else {"step": in_words(model.step)}),
    }


def sum_centre_from_document(document: dict[str, Any], path: Path) -> SumModel:
    """The model of a table; ``path`` names the file in errors."""
    found = convert(document, SumCentreDocument, path)
    try:
        return _model(found)
    except InvalidNetwork as error:
        raise InvalidPlan(f"{path}: {error}; the file was changed: save the plan again") from error


def _model(found: SumCentreDocument) -> SumModel:
    if not found.public or set(found.sums) != set(_SUMS):
        raise InvalidNetwork("expected public rows and the sums of all agents")
    agents = _agents(found.agents)
    sums = {name: _numbers(packed, name) for name, packed in found.sums.items()}
    size, rows = sums["start_mean"].size, len(found.public)
    shapes = dict[str, tuple[int, ...]].fromkeys(_SUMS, (size, size)) | {
        "rows": (rows, size), "root": (rows, rows), "floor": (rows, rows), "start_mean": (size,),
    }  # fmt: skip
    for name, array in sums.items():
        if array.shape != shapes[name]:
            raise InvalidNetwork(f"{name}: expected shape {shapes[name]}, found {array.shape}")
    for name in ("noise", "entering", "floor", "start"):
        sums[name] = semidefinite(symmetric(sums[name], name), name)
    if not size or spectral_radius(sums["follow"]) >= 1.0:
        raise InvalidNetwork("follow: expected shares that forget")
    blocks = Blocks(_whole(found.numbers, "numbers", _MOST_AGENTS))
    if blocks.count != len(agents):
        raise InvalidNetwork(f"numbers: expected one for each of {len(agents)} agents, found {blocks.count}")
    stacks = tuple(_stack(each, blocks, size, rows) for each in found.stacks)
    places = np.concatenate([np.zeros(0, np.intp), *(stack.places for stack in stacks)])
    if places.size != len(agents) or not np.array_equal(np.sort(places), np.arange(len(agents))):
        raise InvalidNetwork("stacks: expected every agent once")
    return SumModel(
        agents=agents,
        blocks=blocks,
        **sums,
        vague=found.vague,
        stacks=stacks,
        public_expected=np.array([row.expected for row in found.public]),
        labels=tuple(row.name for row in found.public),
        units=tuple(row.unit for row in found.public),
        plan=found.plan,
        step=read_step(found.step),
    )


def _agents(given: list[str] | int) -> Any:
    if isinstance(given, list):
        return as_names(given, "agents")
    if not 0 < given <= _MOST_AGENTS:
        raise InvalidNetwork(f"agents: expected a number of agents, found {given}")
    return NumberedNames(given)


def _stack(found: StackDocument, blocks: Blocks, size: int, rows: int) -> SharesOfStack:
    places = _whole(found.places, "places", blocks.count - 1)
    weights, gains, seen = (_numbers(getattr(found, name), name) for name in _OF_STACK)
    count = len(places)
    sent = set(blocks.sizes[places].tolist())
    fits = (
        weights.ndim == gains.ndim == seen.ndim == 3
        and len(sent) == 1
        and weights.shape == (count, size if found.telling else rows, *sent)
        and gains.shape == (count, size, seen.shape[1])
        and seen.shape == (count, gains.shape[2], size)
    )
    if not fits:
        raise InvalidNetwork("stacks: expected weights, gains and seen of the same agents")
    return SharesOfStack(places, weights, gains, seen, found.telling)


def _packed(array: Array | Integers) -> dict[str, Any]:
    content = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return {"shape": list(array.shape), "data": base64.b64encode(content).decode("ascii")}


def _numbers(packed: PackedNumbers, name: str) -> Array:
    try:
        content = base64.b64decode(packed.data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidNetwork(f"{name}: expected base64") from None
    count = 1
    for length in packed.shape:
        count *= length if 0 <= length <= _MOST_AGENTS else -1
    if len(packed.shape) > 3 or count < 0 or len(content) != 8 * count:
        raise InvalidNetwork(f"{name}: expected numbers of shape {packed.shape}, found {len(content)} bytes")
    array = np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(packed.shape)
    if not np.all(np.isfinite(array)):
        raise InvalidNetwork(f"{name}: expected finite numbers")
    return array


def _whole(packed: PackedNumbers, name: str, most: int) -> Integers:
    array = _numbers(packed, name)
    if array.ndim != 1 or np.any((array < 0) | (array > most) | (array != np.round(array))):
        raise InvalidNetwork(f"{name}: expected whole numbers from 0 to {most}")
    return array.astype(np.intp)
