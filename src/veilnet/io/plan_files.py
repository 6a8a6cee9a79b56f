"""A plan as a folder: one file per agent, one for the centre, one for the whole.

    plan/<agent>.json   what that agent needs (:mod:`veilnet.io.sanitizer_files`)
    plan/center.json    what fusion needs (:mod:`veilnet.io.centre_files`)
    plan/plan.json      everything: the network, all sanitizers, the promises and how they were reached
    plan/proof.json     where a gap was proved: the multipliers that prove it (:mod:`veilnet.io.proof_files`)

The plan's id, a digest of what plan.json promises, ties the files together. :mod:`veilnet.io.plan_reading` reads
them back, :mod:`veilnet.plans.verification` decides whether they are to be believed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from veilnet._core.errors import InvalidPlan
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io import _document, sanitizer_files
from veilnet.io._json import plain
from veilnet.io._sealed import digest, format_of, seal
from veilnet.io.centre_files import FORMAT as CENTRE_FORMAT
from veilnet.io.centre_files import centre_document
from veilnet.io.plan_archives import Archive, is_archive, write_archive
from veilnet.io.plan_arrays import arrays_id, plan_arrays
from veilnet.io.plan_folder import saving
from veilnet.io.proof_files import FORMAT as PROOF_FORMAT
from veilnet.io.proof_files import StatementDocument, proof_document, statement_document
from veilnet.io.stream_centre_files import FORMAT as STREAM_FORMAT
from veilnet.io.sum_centre_files import FORMAT as SUM_FORMAT
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

FORMAT = "veilnet-plan/1"
WHOLE, CENTRE, PROOF = "plan.json", "center.json", "proof.json"

_LONGEST_NAME = 120  # bytes; file systems allow 255 with suffix and temporary marks
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{k}" for k in range(1, 10)), *(f"lpt{k}" for k in range(1, 10))}
)


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of plan.json."""

    format: str
    plan: str
    method: str
    utility: float | str
    privacy: dict[str, float | str]
    targets: dict[str, float | str]
    worst_targets: dict[str, float | str]
    floors: dict[str, float | str]
    most_loss: float | str | None
    certificate: list[FindingDocument]
    details: dict[str, Any]
    sanitizers: dict[str, dict[str, Any]]
    network: dict[str, Any]
    proof: StatementDocument | None = None
    privacy_with_gaps: dict[str, float | str] = {}  # of streams


class FindingDocument(msgspec.Struct, forbid_unknown_fields=True):
    """One promise as it was confirmed when the plan was made."""

    what: str
    promised: float | str
    found: float | str
    ok: bool


def save_plan(plan: Plan, folder: str | PathLike[str]) -> None:
    """Write a plan folder, or one file where the name ends in .npz. Whenever it is interrupted, the whole old
    plan or the whole new one is there.

    An older plan in the folder is replaced, its agents' files included; files of others are left alone, and
    one that is in the way is an error.
    """
    target = Path(folder)
    if is_archive(target):
        write_archive(target, _promises(plan), plan.network, plan.sanitizers)
        return
    whole = _whole_document(plan)
    plan_id = whole["plan"]
    names = file_names(list(plan.sanitizers))
    contents = {
        names[agent]: seal(sanitizer_files.to_document(sanitizer, plan_id))
        for agent, sanitizer in plan.sanitizers.items()
    }
    contents[CENTRE] = seal(centre_document(replace(plan.messages, plan=plan_id)))
    if plan.proof is not None:
        contents[PROOF] = seal(proof_document(plan.proof, plan_id))
    contents[WHOLE] = seal(whole)
    if target.exists() and not target.is_dir():
        raise InvalidPlan(f"{target}: expected a folder, found a file; choose another name")
    target.mkdir(parents=True, exist_ok=True)
    with saving(target) as replace_files:
        replace_files(contents, look_around(target, plan_id, list(contents)))


def centre_file(archive: Path) -> bytes:
    """The content of the centre's file, from a plan that is one file; its promises are recomputed first."""
    plan = Plan.load(archive)
    return seal(centre_document(replace(plan.messages, plan=Archive.read(archive).plan)))


def file_names(agents: Sequence[str]) -> dict[str, str]:
    """agent -> a file name that every file system can hold, different for each.

    Names stay as they are where they can; others (a device of Windows, forbidden characters, too long, equal
    to another but for case or accents' encoding) get a digest of the name.
    """
    folded = [_folded(agent) for agent in agents]
    counts: dict[str, int] = {}
    for key in folded:
        counts[key] = counts.get(key, 0) + 1
    names = {}
    for agent, key in zip(agents, folded, strict=True):
        stem = agent
        if counts[key] > 1 or not _harmless(agent):
            kept = "".join(c if c.isascii() and (c.isalnum() or c in " -_") else "_" for c in agent)
            stem = f"{kept[:40].strip()}~{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
        names[agent] = f"{stem}.json"
    return names


def _harmless(agent: str) -> bool:
    return (
        len(agent.encode()) <= _LONGEST_NAME
        and not any(mark in agent for mark in '<>:"|?*~/\\')
        and agent.partition(".")[0].strip().casefold() not in _DEVICES
        and agent.strip(" .") == agent
        and _folded(agent) not in ("plan", "center", "proof")
    )


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _whole_document(plan: Plan) -> dict[str, Any]:
    promises = _promises(plan)
    proof = {"proof": promises.pop("proof")} if "proof" in promises else {}
    document = {
        "format": FORMAT,
        "plan": "",
        **promises,
        "sanitizers": {agent: sanitizer_files.to_document(s, None) for agent, s in plan.sanitizers.items()},
        "network": plain(_document.to_document(plan.network)),
        **proof,
    }
    return document | {"plan": array_or_text_id(document, plan.network, plan.sanitizers)}


def _promises(plan: Plan) -> dict[str, Any]:
    """What plan.json holds beside the network and the sanitizers."""
    document = {
        "method": plan.method,
        "utility": plain(plan.utility),
        "privacy": plain(plan.privacy),
        "targets": plain(plan.targets),
        "worst_targets": plain(plan.worst_targets),
        "floors": plain(plan.floors),
        "most_loss": None if plan.most_loss is None else plain(plan.most_loss),
        "certificate": [
            {"what": f.what, "promised": plain(f.promised), "found": plain(f.found), "ok": bool(f.ok)}
            for f in plan.certificate.findings
        ],
        "details": plain(plan.details),
    }
    if plan.privacy_with_gaps:
        document["privacy_with_gaps"] = plain(plan.privacy_with_gaps)
    if plan.proof is not None:
        document["proof"] = statement_document(plan.proof)
    return document


def array_or_text_id(
    document: Mapping[str, Any], network: Network, sanitizers: Mapping[str, Sanitizer]
) -> str:
    """The id of the plan that plan.json holds: the same as that of plan.npz, where it can be saved so."""
    arrays = plan_arrays(document, network, sanitizers)
    return plan_id_of(document) if arrays is None else arrays_id(arrays)


def plan_id_of(document: Mapping[str, Any]) -> str:
    """The id that the text of plan.json stands for: of plans that are not kept as arrays."""
    return digest({name: value for name, value in document.items() if name != "plan"})[:32]


def look_around(folder: Path, plan_id: str, new: Sequence[str]) -> list[str]:
    """Agents' files of older plans that the new one does not replace; an error if a foreign file is in the way."""
    stale = []
    taken = {_folded(name) for name in new}
    for path in folder.glob("*.json"):
        kind, belongs_to = format_of(path)
        ours = kind.partition("/")[0] in {form.partition("/")[0] for form in _FORMATS}
        if _folded(path.name) in taken:
            if not ours and not _damaged_plan_file(path):
                raise InvalidPlan(
                    f"{path}: is in the way and was not written by veilnet; choose another folder, or move it"
                )
        elif (
            kind in (sanitizer_files.FORMAT, PROOF_FORMAT)
            and belongs_to is not None
            and belongs_to != plan_id
        ):
            stale.append(path.name)
    return stale


def _damaged_plan_file(path: Path) -> bool:
    """Whether a file that cannot be opened began as one of ours, so that it may be replaced."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError:
        return False
    return any(f'"{kind.partition("/")[0]}/'.encode() in start for kind in _FORMATS)


_FORMATS = (FORMAT, CENTRE_FORMAT, STREAM_FORMAT, SUM_FORMAT, PROOF_FORMAT, sanitizer_files.FORMAT)
