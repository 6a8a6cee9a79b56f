"""The proof of a plan's gap as one sealed file, proof.json: the statement and what proves it.

plan.json holds the same statement and a digest of this file, so the plan's id covers both. A plan in one file has the
same content as one of its arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan
from veilnet.io._formats import PROOF as FORMAT
from veilnet.io._kinds import (
    NUMBER,
    NUMBERS,
    PACKED,
    TEXT,
    ByName,
    ListOf,
    Maybe,
    ObjectOf,
    Table,
    file_errors,
)
from veilnet.io._sealed import digest, open_sealed
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.rapidity import Rapidities
from veilnet.plans.lower_bound.theorem import Multipliers

_MULTIPLIERS = ObjectOf(
    Multipliers,
    weight=NUMBER,
    root=PACKED,
    public=PACKED,
    turn=PACKED,
    turns=ListOf(PACKED),
    heard=ListOf(PACKED),
    links=ListOf(PACKED),
)
_RAPIDITIES = ObjectOf(
    Rapidities, half=PACKED, proportions=PACKED, cuts=PACKED, children=PACKED, weights=PACKED
)
PROOF = Table(
    plan=Maybe(TEXT),
    loss=NUMBER,
    privacy=NUMBERS,
    common=Maybe(PACKED),
    mixed=Maybe(ByName(PACKED)),
    multipliers=Maybe(ListOf(_MULTIPLIERS)),
    rapidities=Maybe(_RAPIDITIES),
)
STATEMENT = Table(loss=NUMBER, privacy=NUMBERS, digest=TEXT)


def proof_document(proof: Proof, plan_id: str) -> dict[str, Any]:
    """proof.json before it is sealed."""
    return PROOF.document(FORMAT, _values(proof) | {"plan": plan_id})


def statement_of(proof: Proof) -> dict[str, Any]:
    """What plan.json keeps of a proof."""
    return {"loss": proof.loss, "privacy": proof.privacy, "digest": digest(proof_content(proof))}


def proof_content(proof: Proof) -> dict[str, Any]:
    """What proof.json holds beside its format and the plan's id."""
    return PROOF.write(_values(proof))


def read_proof(path: Path, statement: Mapping[str, Any], plan_id: str) -> Proof:
    """The proof that a plan's statement names; InvalidPlan where the file is missing, changed or another's."""
    document = open_sealed(path, FORMAT)
    if document.get("plan") != plan_id:
        raise InvalidPlan(f"{path}: belongs to another plan; save the plan again, or copy the right file")
    content = {name: value for name, value in document.items() if name not in ("format", "plan")}
    return proof_of(content, path, statement)


def proof_of(content: Mapping[str, Any], path: Path, statement: Mapping[str, Any]) -> Proof:
    """The proof that a plan's statement names, from what was written of it."""
    if digest(content) != statement["digest"]:
        raise InvalidPlan(f"{path}: is not the proof that the plan was saved with; save the plan again")
    with file_errors(path):
        found = PROOF.read(content)
    several, rapidities = found["multipliers"], found["rapidities"]
    if (several is None) == (rapidities is None):
        raise InvalidPlan(f"{path}: expected either multipliers or rapidities; save the plan again")
    given = rapidities if several is None else several
    # The statement of plan.json is the one that counts: it is what the reader of the plan sees.
    return Proof(statement["loss"], statement["privacy"], given, found["common"], found["mixed"] or {})


def _values(proof: Proof) -> dict[str, Any]:
    given, mixed = proof.multipliers, proof.mixed or None
    said = {"loss": proof.loss, "privacy": proof.privacy, "common": proof.common, "mixed": mixed}
    return said | {"rapidities" if isinstance(given, Rapidities) else "multipliers": given}
