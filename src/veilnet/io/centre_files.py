"""What fusion needs, in one file: ``plan/center.json`` (docs/reference/formats.md).

It holds the messages' model, neither the agents' readings models nor their noise, nor the private parameters, which
an honest centre has no use for. Which model it is says its ``kind``: ``rows`` that stand by themselves
(:mod:`veilnet.centre.messages`), a ``stream`` (:mod:`veilnet.centre.streams.model`), or the ``sum`` of a stream of
very many agents (:mod:`veilnet.centre.streams.sum_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import read_step
from veilnet._core.errors import InvalidNetwork
from veilnet._core.lyapunov import spectral_radius
from veilnet._core.names import NumberedNames
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_names, as_vector, semidefinite, symmetric
from veilnet.agent.grid import checked_steps
from veilnet.agent.membership import Membership
from veilnet.centre.messages import CentreModel, WhiteningStacks
from veilnet.centre.models import Messages
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SharesOfStack, SumModel
from veilnet.centre.sum_parts import SumParts
from veilnet.io._formats import CENTRE as FORMAT
from veilnet.io._kinds import (
    MATRIX,
    NUMBER,
    PACKED,
    STEP,
    TEXT,
    VECTOR,
    WHOLE,
    WORDS,
    YES,
    ByName,
    Kind,
    ListOf,
    Maybe,
    ObjectOf,
    Table,
    file_errors,
    matrix,
)
from veilnet.io._sealed import open_sealed, sealed_bytes
from veilnet.io.network_schema import HELD_OUT
from veilnet.model.fitted import HeldOut, read_held_out

_MOST_AGENTS = 10**8
_SUMS = (
    *("transition", "noise", "follow", "observe", "entering", "rows", "root", "floor", "start"),
    "start_mean",
)
_COVARIANCES = ("noise", "entering", "floor", "start")
_OF_ALL: dict[str, Any] = {
    "kind": TEXT,
    "plan": TEXT,
    "public": ListOf(
        Table(
            name=TEXT,
            unit=TEXT,
            expected=NUMBER,
            row=Maybe(VECTOR),
            held_out=Maybe(HELD_OUT),
        )
    ),
    "step": Maybe(STEP),
}
_LAWS = {"expected": Maybe(MATRIX), "observe": Maybe(PACKED), "noise": Maybe(PACKED)}
_GROUP = ObjectOf(SumParts, members=WORDS, threshold=WHOLE, bits=WHOLE, grid=VECTOR, **_LAWS)
_GROUPS = Maybe(ByName(_GROUP))
KINDS = {
    "rows": Table(
        **_OF_ALL,
        groups=_GROUPS,
        parameters=WHOLE,
        prior=MATRIX,
        agents=ByName(Table(whiten=MATRIX, expected=VECTOR, observe=MATRIX)),
        correlation=Maybe(MATRIX),
        least_share=NUMBER,
        basis=TEXT,
    ),
    "stream": Table(
        **_OF_ALL,
        groups=_GROUPS,
        state=Table(transition=MATRIX, noise=MATRIX, drive=VECTOR),
        start=Table(covariance=MATRIX, mean=VECTOR, vague=YES),
        agents=ByName(
            Table(
                observe=MATRIX,
                expected=VECTOR,
                memory=Maybe(Kind(tuple[int, int], list)),
                start=Maybe(MATRIX),
            )
        ),
        floor=MATRIX,
    ),
    "sum": Table(
        **_OF_ALL,
        agents=Kind(list[str] | int),
        numbers=PACKED,
        vague=YES,
        sums=Table(**dict.fromkeys(_SUMS, PACKED)),
        stacks=ListOf(Table(telling=YES, places=PACKED, weights=PACKED, gains=PACKED, seen=PACKED)),
    ),
}


def load_centre(path: str | PathLike[str]) -> Messages:
    """Read a centre file; a changed, truncated or foreign one is refused."""
    return centre_from_bytes(sealed_bytes(Path(path)), Path(path))


def centre_from_bytes(content: bytes, path: Path) -> Messages:
    """The model in the bytes of a centre file; ``path`` only names the file in errors."""
    document = open_sealed(path, FORMAT, content)
    with file_errors(path), np.errstate(all="ignore"):
        kind = document.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise InvalidNetwork(f"kind: expected {', '.join(KINDS)}, found {str(kind)[:40]!r}")
        found = KINDS[kind].values(document, path)
        if not found["public"] or not found["agents"]:
            raise InvalidNetwork("expected public rows and agents")
        of_all = {
            "public_expected": np.array([each["expected"] for each in found["public"]]),
            "labels": tuple(each["name"] for each in found["public"]),
            "units": tuple(each["unit"] for each in found["public"]),
            "plan": found["plan"],
            "step": read_step(found["step"]),
            "held_out": _held_out(found["public"]),
        }
        if kind == "sum":
            return _sum_model(found, of_all)
        of_all["sums"] = found["groups"] or {}
        _check_groups(of_all["sums"], found["agents"])
        return (_rows_model if kind == "rows" else _stream_model)(found, of_all)


def centre_document(model: Messages) -> dict[str, Any]:
    """The document of a centre file."""
    rows = [None] * len(model.labels) if isinstance(model, SumModel) else model.public
    said = {
        "plan": model.plan,
        "step": model.step,
        "public": [
            {
                "name": label,
                "unit": unit,
                "expected": float(expected),
                "row": row,
                "held_out": model.held_out.get(label),
            }
            for label, unit, expected, row in zip(
                model.labels, model.units, model.public_expected, rows, strict=True
            )
        ],
    }
    if isinstance(model, SumModel):
        kind, more = "sum", _sum_values(model)
    elif isinstance(model, StreamModel):
        kind, more = "stream", _stream_values(model)
    else:
        kind, more = "rows", _rows_values(model)
    if not isinstance(model, SumModel) and model.sums:
        more["groups"] = model.sums
    return KINDS[kind].document(FORMAT, said | more | {"kind": kind})


def _check_groups(found: dict[str, SumParts], agents: dict[str, Any]) -> None:
    """An error where an array of what the members of groups add has not the right shape."""
    for name, each in found.items():
        if name not in agents:
            raise InvalidNetwork(f"groups.{name[:40]}: expected one of the agents")
        count, numbers = len(each.members), len(agents[name]["expected"])
        Membership(name, tuple(each.members), each.threshold, each.bits)  # refuses what is none
        if checked_steps(each.grid, f"groups.{name}.grid").shape != (numbers,):
            raise InvalidNetwork(f"groups.{name}.grid: expected {numbers} steps")
        laws: list[Any] = [getattr(each, part) for part in _LAWS]
        length = 0 if laws[1] is None or laws[1].ndim != 3 else laws[1].shape[2]
        shapes = [(count, numbers), (count, numbers, length), (count, numbers, numbers)]
        if any(law is not None for law in laws) and [np.shape(law) for law in laws] != shapes:
            raise InvalidNetwork(f"groups.{name}: expected expected, observe and noise of {count} members")


# --- rows that stand by themselves


def _rows_values(model: CentreModel) -> dict[str, Any]:
    cut = [model.blocks.rows(place) for place in range(model.blocks.count)]
    return {
        "parameters": int(model.public.shape[1]),
        "prior": model.prior,
        "agents": {
            name: {"whiten": whiten, "expected": model.expected[mine], "observe": model.observe[mine]}
            for name, whiten, mine in zip(model.agents, model.whiten, cut, strict=True)
        },
        "correlation": model.correlation,
        "least_share": float(model.least_sharpness),
        "basis": model.basis,
    }


def _rows_model(found: dict[str, Any], of_all: dict[str, Any]) -> CentreModel:
    length, agents, correlation = found["parameters"], found["agents"], found["correlation"]
    if not 0 < length < 10**6 or not 0 < found["least_share"] < 1:
        raise InvalidNetwork("expected parameters and a share between 0 and 1")
    sizes = [len(agent["expected"]) for agent in agents.values()]
    if correlation is not None:
        np.linalg.cholesky(matrix(correlation, sum(sizes), sum(sizes), "correlation"))  # refuses what is none
    model = CentreModel(
        agents=as_names(list(agents), "agents"),
        blocks=Blocks(sizes),
        whiten=WhiteningStacks.of_agents(
            Blocks(sizes),
            [
                matrix(agent["whiten"], size, size, f"whiten of {name!r}")
                for (name, agent), size in zip(agents.items(), sizes, strict=True)
            ],
        ),
        observe=_stacked(agents, "observe", length),
        expected=np.concatenate([agent["expected"] for agent in agents.values()]),
        correlation=correlation,
        prior=matrix(found["prior"], len(found["prior"]), length, "prior"),
        public=_public(found, length),
        least_sharpness=found["least_share"],
        basis=found["basis"],
        **of_all,
    )
    model.complete  # noqa: B018 - computed here, so that a model that cannot be is refused here
    return model


# --- streams


def _stream_values(model: StreamModel) -> dict[str, Any]:
    cut = [model.blocks.rows(place) for place in range(model.blocks.count)]
    return {
        "state": {"transition": model.transition, "noise": model.noise, "drive": model.drive},
        "start": {"covariance": model.start, "mean": model.start_mean, "vague": model.vague},
        "agents": {
            name: {
                "observe": model.observe[mine],
                "expected": model.expected[mine],
                "memory": None if (own := model.memories.get(name)) is None else (own.start, own.stop),
                "start": model.starts.get(name),
            }
            for name, mine in zip(model.agents, cut, strict=True)
        },
        "floor": model.floor,
    }


def _stream_model(found: dict[str, Any], of_all: dict[str, Any]) -> StreamModel:
    state, start, agents = found["state"], found["start"], found["agents"]
    size = len(state["drive"])
    if not 0 < size < 10**5:
        raise InvalidNetwork("expected a state")
    memories = {name: agent["memory"] for name, agent in agents.items() if agent["memory"] is not None}
    end = 0
    for name, (first, stop) in sorted(memories.items(), key=lambda entry: entry[1]):
        if not end <= first < stop <= size:
            raise InvalidNetwork(f"memory of {name!r}: expected a part of the state of its own")
        end = stop
    starts = {}
    for name, agent in agents.items():
        if agent["start"] is not None:
            first, stop = memories.get(name, (0, 0))
            starts[name] = _covariance(agent["start"], stop - first, f"start of {name!r}")
    sizes = [len(agent["expected"]) for agent in agents.values()]
    return StreamModel(
        agents=as_names(list(agents), "agents"),
        blocks=Blocks(sizes),
        transition=matrix(state["transition"], size, size, "transition"),
        noise=_covariance(state["noise"], size, "noise"),
        drive=state["drive"],
        observe=_stacked(agents, "observe", size),
        floor=_covariance(found["floor"], sum(sizes), "floor"),
        expected=np.concatenate([agent["expected"] for agent in agents.values()]),
        start=_covariance(start["covariance"], size, "start covariance"),
        start_mean=as_vector(start["mean"], "start mean", size),
        vague=start["vague"],
        memories={name: slice(*span) for name, span in memories.items()},
        starts=starts,
        public=_public(found, size),
        **of_all,
    )


# --- the sum of a stream of very many agents


def _sum_values(model: SumModel) -> dict[str, Any]:
    numbered = isinstance(model.agents, NumberedNames)
    return {
        "agents": len(model.agents) if numbered else list(model.agents),
        "numbers": model.blocks.sizes,
        "vague": model.vague,
        "sums": {name: getattr(model, name) for name in _SUMS},
        "stacks": [vars(stack) for stack in model.stacks],
    }


def _sum_model(found: dict[str, Any], of_all: dict[str, Any]) -> SumModel:
    agents, sums = _agents(found["agents"]), found["sums"]
    size, rows = sums["start_mean"].size, len(found["public"])
    shapes = dict[str, tuple[int, ...]].fromkeys(_SUMS, (size, size)) | {
        "rows": (rows, size), "root": (rows, rows), "floor": (rows, rows), "start_mean": (size,),
    }  # fmt: skip
    for name, array in sums.items():
        if array.shape != shapes[name]:
            raise InvalidNetwork(f"{name}: expected shape {shapes[name]}, found {array.shape}")
    sums |= {name: _covariance(sums[name], len(sums[name]), name) for name in _COVARIANCES}
    if not size or spectral_radius(sums["follow"]) >= 1.0:
        raise InvalidNetwork("follow: expected shares that forget")
    blocks = Blocks(_whole(found["numbers"], "numbers", _MOST_AGENTS))
    if blocks.count != len(agents):
        raise InvalidNetwork(f"numbers: expected one for each of {len(agents)} agents, found {blocks.count}")
    stacks = tuple(_stack(each, blocks, size, rows) for each in found["stacks"])
    places = np.concatenate([np.zeros(0, np.intp), *(stack.places for stack in stacks)])
    if places.size != len(agents) or not np.array_equal(np.sort(places), np.arange(len(agents))):
        raise InvalidNetwork("stacks: expected every agent once")
    return SumModel(agents=agents, blocks=blocks, **sums, vague=found["vague"], stacks=stacks, **of_all)


def _agents(given: list[str] | int) -> Any:
    if isinstance(given, list):
        return as_names(given, "agents")
    if not 0 < given <= _MOST_AGENTS:
        raise InvalidNetwork(f"agents: expected a number of agents, found {given}")
    return NumberedNames(given)


def _stack(found: dict[str, Any], blocks: Blocks, size: int, rows: int) -> SharesOfStack:
    places = _whole(found["places"], "places", blocks.count - 1)
    weights, gains, seen = found["weights"], found["gains"], found["seen"]
    count = len(places)
    sent = set(blocks.sizes[places].tolist())
    fits = (
        weights.ndim == gains.ndim == seen.ndim == 3
        and len(sent) == 1
        and weights.shape == (count, size if found["telling"] else rows, *sent)
        and gains.shape == (count, size, seen.shape[1])
        and seen.shape == (count, gains.shape[2], size)
    )
    if not fits:
        raise InvalidNetwork("stacks: expected weights, gains and seen of the same agents")
    return SharesOfStack(places, weights, gains, seen, found["telling"])


def _whole(array: Array, name: str, most: int) -> Integers:
    if array.ndim != 1 or np.any((array < 0) | (array > most) | (array != np.round(array))):
        raise InvalidNetwork(f"{name}: expected whole numbers from 0 to {most}")
    return array.astype(np.intp)


# --- what all have


def _stacked(agents: dict[str, Any], part: str, columns: int) -> Array:
    """The rows of all agents, as many for each as numbers are expected of it."""
    return np.concatenate(
        [
            matrix(agent[part], len(agent["expected"]), columns, f"{part} of {name!r}")
            for name, agent in agents.items()
        ]
    )


def _public(found: dict[str, Any], length: int) -> Array:
    rows = found["public"]
    return np.stack(
        [as_vector(() if p["row"] is None else p["row"], f"public {p['name']!r}", length) for p in rows]
    )


def _held_out(public: Sequence[dict[str, Any]]) -> dict[str, HeldOut]:
    given = {each["name"]: each["held_out"] for each in public if each["held_out"] is not None}
    return read_held_out(given, list(given))


def _covariance(array: Array, size: int, name: str) -> Array:
    return semidefinite(symmetric(matrix(array, size, size, name), name), name)
