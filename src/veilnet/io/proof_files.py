"""The proof of a plan's gap as one sealed file, proof.json: the statement and the multipliers that prove it.

plan.json holds the same statement and a digest of this file, so the plan's id covers both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan
from veilnet.io._formats import PROOF as FORMAT
from veilnet.io._kinds import NUMBER, NUMBERS, PACKED, TEXT, ListOf, Maybe, Table
from veilnet.io._sealed import digest, open_sealed
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.theorem import Multipliers

_MULTIPLIERS = Table(
    weight=NUMBER,
    root=PACKED,
    public=PACKED,
    turn=PACKED,
    turns=ListOf(PACKED),
    heard=ListOf(PACKED),
    links=ListOf(PACKED),
)
PROOF = Table(
    plan=Maybe(TEXT), loss=NUMBER, privacy=NUMBERS, common=Maybe(PACKED), multipliers=ListOf(_MULTIPLIERS)
)
STATEMENT = Table(loss=NUMBER, privacy=NUMBERS, digest=TEXT)


def proof_document(proof: Proof, plan_id: str) -> dict[str, Any]:
    """proof.json before it is sealed."""
    return PROOF.document(FORMAT, _values(proof) | {"plan": plan_id})


def statement_of(proof: Proof) -> dict[str, Any]:
    """What plan.json keeps of a proof."""
    return {"loss": proof.loss, "privacy": proof.privacy, "digest": digest(PROOF.write(_values(proof)))}


def read_proof(path: Path, statement: Mapping[str, Any], plan_id: str) -> Proof:
    """The proof that a plan's statement names; InvalidPlan where the file is missing, changed or another's."""
    document = open_sealed(path, FORMAT)
    found = PROOF.values(document, path)
    if found["plan"] != plan_id:
        raise InvalidPlan(f"{path}: belongs to another plan; save the plan again, or copy the right file")
    content = {name: value for name, value in document.items() if name not in ("format", "plan")}
    if digest(content) != statement["digest"]:
        raise InvalidPlan(f"{path}: is not the proof that the plan was saved with; save the plan again")
    multipliers = tuple(Multipliers(**one) for one in found["multipliers"])
    # The statement of plan.json is the one that counts: it is what the reader of the plan is told.
    return Proof(statement["loss"], statement["privacy"], multipliers, found["common"])


def _values(proof: Proof) -> dict[str, Any]:
    return {
        "loss": proof.loss,
        "privacy": proof.privacy,
        "common": proof.common,
        "multipliers": [
            {name: getattr(each, name) for name in _MULTIPLIERS.kinds} for each in proof.multipliers
        ],
    }
