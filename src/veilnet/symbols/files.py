"""A plan of symbols as a folder: one file per agent, one for the centre, one for the whole.

    plan/<agent>.json   what that agent needs
    plan/center.json    what fusion needs
    plan/plan.json      everything, with the counts that the promises follow from

The plan's id, a digest of plan.json, ties the files together. See docs/reference/formats.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet.io import _formats
from veilnet.io._kinds import NUMBER, PACKED, TEXT, VECTOR, WHOLE, ByName, Kind, ListOf, Maybe, ObjectOf
from veilnet.io._sealed import digest, open_sealed, sealed_bytes
from veilnet.io.plan_files import CENTRE as CENTRE_FILE
from veilnet.io.plan_files import WHOLE as WHOLE_FILE
from veilnet.io.plan_files import file_names, write_folder
from veilnet.io.plan_folder import reading
from veilnet.symbols.agent_files import AGENT, is_symbol_file, of_plan, sealed
from veilnet.symbols.centre import SymbolCentre
from veilnet.symbols.certificate import SymbolCertificate


class _Counts(Kind):
    """Whole numbers, packed as others are."""

    def read(self, value: Any, where: str) -> Any:
        return np.asarray(np.rint(PACKED.read(value, where)), np.intp)


_COUNTS = _Counts(dict, PACKED.write)
_CLASSES = Kind(list[str | int | float | bool], list, tuple)
CENTRE = ObjectOf(
    SymbolCentre,
    public=TEXT,
    classes=_CLASSES,
    agents=ByName(WHOLE),
    seen=ByName(VECTOR),
    alike=WHOLE,
    wider=NUMBER,
    cells=_COUNTS,
    table=PACKED,
    strength=NUMBER,
    exponent=NUMBER,
)
_CERTIFICATE = ObjectOf(
    SymbolCertificate,
    name=TEXT,
    classes=_CLASSES,
    edges=Kind(tuple[float, float], list),
    confidence=NUMBER,
    counts=PACKED,
    blocks_of=_COUNTS,
    many=_COUNTS,
    leak=NUMBER,
)


class _OfAll(ListOf):
    """name -> object, as a list of objects that know their names."""

    def write(self, value: Any) -> Any:
        return super().write(value.values())

    def read(self, value: Any, where: str) -> Any:
        return {getattr(each, "name", None) or each.agent: each for each in super().read(value, where)}


PLAN = ObjectOf(
    partial(dict, calibration=None),
    score=NUMBER,
    raw_score=NUMBER,
    calibration=Maybe(NUMBER),
    confidence=NUMBER,
    cells=_COUNTS,
    curve=PACKED,
    certificate=_OfAll(_CERTIFICATE),
    agents=_OfAll(AGENT),
    centre=CENTRE,
)


def write_plan(plan: Any, folder: str | PathLike[str]) -> None:
    """Write a plan, the whole old one or the whole new one whenever it is interrupted."""
    target = Path(folder)
    plan_id, contents = _contents(plan)
    whole = target / WHOLE_FILE
    if whole.exists() and not is_symbol_file(whole.read_bytes()):
        raise InvalidPlan(f"{target}: holds another plan, whose files would be lost; choose another folder")
    write_folder(target, plan_id, contents)


def read_plan(folder: str | PathLike[str]) -> dict[str, Any]:
    """The attributes of a saved plan; whether its promises follow from its counts is for the plan to say."""
    target = Path(folder)
    if not target.is_dir():
        raise InvalidPlan(f"{target}: no such folder; give the folder that a plan was saved to")
    with reading(target) as place_of:
        path = place_of(WHOLE_FILE)
        document = open_sealed(path, _formats.SYMBOL_PLAN)
    found: dict[str, Any] = of_plan(document, PLAN, path)[0]
    return found


def read_centre(path: str | PathLike[str]) -> tuple[SymbolCentre, str]:
    """The centre of a file, and the plan's id; a changed, truncated or foreign file is refused."""
    return centre_of_bytes(sealed_bytes(Path(path)), Path(path))


def centre_of_bytes(content: bytes, path: Path) -> tuple[SymbolCentre, str]:
    """The same from the bytes of a file; ``path`` only names the file in errors."""
    return of_plan(open_sealed(path, _formats.SYMBOL_CENTRE, content), CENTRE, path)


def other_files(plan: Any, folder: Path) -> list[str]:
    """Names of files that are missing in the folder, or not what a plan has there."""
    return [
        name
        for name, content in _contents(plan)[1].items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]


def _contents(plan: Any) -> tuple[str, Mapping[str, bytes]]:
    """The id of a plan, and the bytes of each of its files."""
    plan_id = digest(PLAN.write(plan))[:32]
    contents = {
        name: sealed(_formats.SYMBOL_AGENT, AGENT, plan.agents[agent], plan_id)
        for agent, name in file_names(list(plan.agents)).items()
    }
    contents[CENTRE_FILE] = sealed(_formats.SYMBOL_CENTRE, CENTRE, plan.centre, plan_id)
    contents[WHOLE_FILE] = sealed(_formats.SYMBOL_PLAN, PLAN, plan, plan_id)
    return plan_id, contents
