"""A plan of symbols as a folder: one file per agent, one for the centre, one for the whole.

    plan/<agent>.json   what that agent needs
    plan/center.json    what fusion needs
    plan/plan.json      everything, with the counts that the promises follow from

The plan's id, a digest of plan.json, ties the files together. See docs/reference/formats.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet._core.types import Array, Integers
from veilnet.io import _formats
from veilnet.io._kinds import (
    NUMBER,
    PACKED,
    TEXT,
    VECTOR,
    WHOLE,
    ByName,
    Kind,
    Maybe,
    Table,
    file_errors,
)
from veilnet.io._sealed import digest, open_sealed, seal
from veilnet.io.plan_files import CENTRE as CENTRE_FILE
from veilnet.io.plan_files import WHOLE as WHOLE_FILE
from veilnet.io.plan_files import file_names, look_around
from veilnet.io.plan_folder import reading, saving
from veilnet.symbols.agent_files import AGENT, FIELDS, agent_of, values_of
from veilnet.symbols.centre import SymbolCentre
from veilnet.symbols.certificate import ClassCertificate, NumberCertificate

__all__ = ["CENTRE", "PLAN", "other_files", "read_centre", "read_plan", "write_plan"]

_CLASSES = Kind(list[str | int | float | bool], list, tuple)
_CENTRE: dict[str, Any] = {
    "public": TEXT,
    "classes": _CLASSES,
    "agents": ByName(WHOLE),
    "seen": ByName(VECTOR),
    "alike": WHOLE,
    "cells": PACKED,
    "table": PACKED,
    "strength": NUMBER,
    "exponent": NUMBER,
}
_COUNTED = Table(
    classes=_CLASSES, confidence=NUMBER, counts=PACKED, blocks_of=PACKED, many=PACKED, guessed=NUMBER
)
_MEASURED = Table(confidence=NUMBER, edges=VECTOR, sums=PACKED, sizes=PACKED, many=PACKED, error=NUMBER)
CENTRE = Table(plan=TEXT, **_CENTRE)
PLAN = Table(
    plan=TEXT,
    score=NUMBER,
    raw_score=NUMBER,
    calibration=Maybe(NUMBER),
    confidence=NUMBER,
    cells=PACKED,
    guesses=ByName(_COUNTED),
    errors=ByName(_MEASURED),
    agents=ByName(Table(**FIELDS)),
    centre=Table(**_CENTRE),
)


def write_plan(plan: Mapping[str, Any], folder: str | PathLike[str]) -> None:
    """Write the attributes of a plan, the whole old plan or the whole new one whenever it is interrupted."""
    target = Path(folder)
    plan_id, contents = _contents(plan)
    if target.exists() and not target.is_dir():
        raise InvalidPlan(f"{target}: expected a folder, found a file; choose another name")
    target.mkdir(parents=True, exist_ok=True)
    with saving(target) as replace_files:
        replace_files(contents, look_around(target, plan_id, list(contents)))


def read_plan(folder: str | PathLike[str]) -> dict[str, Any]:
    """The attributes of a saved plan; whether its promises follow from its counts is for the plan to say."""
    target = Path(folder)
    if not target.is_dir():
        raise InvalidPlan(f"{target}: no such folder; give the folder that a plan was saved to")
    with reading(target) as place_of:
        path = place_of(WHOLE_FILE)
        document = open_sealed(path, _formats.SYMBOL_PLAN)
    found = PLAN.values(document, path)
    with file_errors(path):
        guesses = {name: _guesses(name, each) for name, each in found["guesses"].items()}
        errors = {name: _errors(name, each) for name, each in found["errors"].items()}
        return {
            "agents": {name: agent_of(each) for name, each in found["agents"].items()},
            "centre": _centre(found["centre"]),
            "certificate": {**guesses, **errors},
            "cells": _whole(found["cells"]),
            **{name: found[name] for name in ("confidence", "score", "raw_score", "calibration")},
        }


def read_centre(path: str | PathLike[str]) -> tuple[SymbolCentre, str]:
    """The centre of a file, and the plan's id; a changed, truncated or foreign file is refused."""
    path = Path(path)
    found = CENTRE.values(open_sealed(path, _formats.SYMBOL_CENTRE), path)
    with file_errors(path):
        return _centre(found), found["plan"]


def other_files(plan: Mapping[str, Any], folder: Path) -> list[str]:
    """Names of files that are missing in the folder, or not what a plan with these attributes has there."""
    return [
        name
        for name, content in _contents(plan)[1].items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]


def _contents(plan: Mapping[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The id of a plan, and the bytes of each of its files."""
    said = {agent: values_of(each) for agent, each in plan["agents"].items()}
    centre = {name: getattr(plan["centre"], name) for name in _CENTRE}
    whole = {name: plan.get(name) for name in PLAN.kinds} | {
        "plan": "",
        "guesses": _certificates(plan["certificate"], ClassCertificate, _COUNTED),
        "errors": _certificates(plan["certificate"], NumberCertificate, _MEASURED),
        "agents": said,
        "centre": centre,
    }
    plan_id = digest(PLAN.document(_formats.SYMBOL_PLAN, whole))[:32]
    contents = {
        name: seal(AGENT.document(_formats.SYMBOL_AGENT, said[agent] | {"plan": plan_id}))
        for agent, name in file_names(list(said)).items()
    }
    contents[CENTRE_FILE] = seal(CENTRE.document(_formats.SYMBOL_CENTRE, centre | {"plan": plan_id}))
    contents[WHOLE_FILE] = seal(PLAN.document(_formats.SYMBOL_PLAN, whole | {"plan": plan_id}))
    return plan_id, contents


def _centre(found: Mapping[str, Any]) -> SymbolCentre:
    return SymbolCentre(**{name: found[name] for name in _CENTRE} | {"cells": _whole(found["cells"])})


def _certificates(found: Mapping[str, Any], kind: type, table: Table) -> dict[str, dict[str, Any]]:
    return {
        name: {
            key: np.asarray(value) if key == "edges" else value
            for key in table.kinds
            for value in [getattr(each, key)]
        }
        for name, each in found.items()
        if isinstance(each, kind)
    }


def _guesses(name: str, found: Mapping[str, Any]) -> ClassCertificate:
    counted = {key: _whole(found[key]) for key in ("counts", "blocks_of", "many")}
    return ClassCertificate(name=name, **{**found, **counted})


def _errors(name: str, found: Mapping[str, Any]) -> NumberCertificate:
    if found["edges"].shape != (2,):
        raise InvalidNetwork(f"edges of {name}: expected two numbers")
    counted = {key: _whole(found[key]) for key in ("sizes", "many")}
    return NumberCertificate(name=name, **{**found, **counted, "edges": tuple(found["edges"].tolist())})


def _whole(numbers: Array) -> Integers:
    return np.asarray(np.rint(numbers), np.intp)
