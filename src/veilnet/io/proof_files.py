"""The proof of a plan's gap as one sealed file, proof.json: the statement and the multipliers that prove it.

Arrays are kept as their shape and the bytes of their float64 numbers in base64, so that what is read back is
what was proved, to the last bit. plan.json holds the same statement and a digest of this file, so the plan's id
covers both.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import Array
from veilnet.io._sealed import convert, digest, open_sealed
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.theorem import Multipliers

FORMAT = "veilnet-proof/1"


class ArrayDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An array of float64, little-endian, last index fastest."""

    shape: list[int]
    data: str


class MultipliersDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The multipliers of one private parameter."""

    weight: float
    root: ArrayDocument
    public: ArrayDocument
    turn: ArrayDocument
    turns: list[ArrayDocument]
    heard: list[ArrayDocument]
    links: list[ArrayDocument]


class ProofDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of proof.json."""

    format: str
    plan: str
    loss: float
    privacy: dict[str, float]
    common: ArrayDocument | None
    multipliers: list[MultipliersDocument]


class StatementDocument(msgspec.Struct, forbid_unknown_fields=True):
    """What plan.json says of the proof: no design loses at most ``loss`` and reaches every ``privacy``."""

    loss: float
    privacy: dict[str, float]
    digest: str


def proof_document(proof: Proof, plan_id: str) -> dict[str, Any]:
    """proof.json before it is sealed."""
    return {"format": FORMAT, "plan": plan_id} | _content(proof)


def statement_document(proof: Proof) -> dict[str, Any]:
    """What plan.json keeps of a proof."""
    return {"loss": proof.loss, "privacy": dict(proof.privacy), "digest": digest(_content(proof))}


def read_proof(path: Path, statement: StatementDocument, plan_id: str) -> Proof:
    """The proof that a plan's statement names; InvalidPlan where the file is missing, changed or another's."""
    document = open_sealed(path, FORMAT)
    found = convert(document, ProofDocument, path)
    if found.plan != plan_id:
        raise InvalidPlan(f"{path}: belongs to another plan; save the plan again, or copy the right file")
    content = {name: value for name, value in document.items() if name not in ("format", "plan")}
    if digest(content) != statement.digest:
        raise InvalidPlan(f"{path}: is not the proof that the plan was saved with; save the plan again")
    try:
        multipliers = tuple(
            Multipliers(
                weight=each.weight,
                root=_array(each.root),
                public=_array(each.public),
                turn=_array(each.turn),
                turns=tuple(map(_array, each.turns)),
                heard=tuple(map(_array, each.heard)),
                links=tuple(map(_array, each.links)),
            )
            for each in found.multipliers
        )
        common = None if found.common is None else _array(found.common)
    except (ValueError, binascii.Error) as error:
        raise InvalidPlan(f"{path}: an array in it cannot be read ({error}); save the plan again") from error
    # The statement of plan.json is the one that counts: it is what the reader of the plan is told.
    return Proof(statement.loss, statement.privacy, multipliers, common)


def _content(proof: Proof) -> dict[str, Any]:
    return {
        "loss": proof.loss,
        "privacy": dict(proof.privacy),
        "common": None if proof.common is None else _packed(proof.common),
        "multipliers": [
            {
                "weight": each.weight,
                "root": _packed(each.root),
                "public": _packed(each.public),
                "turn": _packed(each.turn),
                "turns": [_packed(one) for one in each.turns],
                "heard": [_packed(one) for one in each.heard],
                "links": [_packed(one) for one in each.links],
            }
            for each in proof.multipliers
        ],
    }


def _packed(array: Array) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(array.shape), "data": base64.b64encode(little.tobytes()).decode("ascii")}


def _array(document: ArrayDocument) -> Array:
    data = np.frombuffer(base64.b64decode(document.data, validate=True), dtype="<f8")
    if any(size < 0 for size in document.shape):
        raise ValueError(f"a shape of {document.shape}")
    return np.asarray(data.reshape(document.shape), dtype=np.float64).copy()
