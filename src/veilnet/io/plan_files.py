"""A plan as a folder: one file per agent, one for the centre, one for the whole (docs/reference/formats.md).

    plan/<agent>.json   what that agent needs (:mod:`veilnet.io.sanitizer_files`)
    plan/center.json    what fusion needs (:mod:`veilnet.io.centre_files`)
    plan/plan.json      everything: the network, all sanitizers, the promises and how they were reached
    plan/proof.json     where a gap was proved: the multipliers that prove it (:mod:`veilnet.io.proof_files`)

The plan's id, a digest of all that it is (:mod:`veilnet.io.plan_arrays`), ties the files together.
:mod:`veilnet.io.plan_reading` reads them back, :mod:`veilnet.plans.verification` decides whether they are to be
believed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io import _formats, sanitizer_files
from veilnet.io._json import plain
from veilnet.io._kinds import ANYTHING, FIGURE, FIGURES, TEXT, YES, ByName, Kind, ListOf, Maybe, Table
from veilnet.io._sealed import format_of, seal
from veilnet.io.centre_files import centre_document
from veilnet.io.network_schema import to_document
from veilnet.io.plan_archives import Archive, is_archive, write_archive
from veilnet.io.plan_arrays import arrays_id, plan_arrays
from veilnet.io.plan_folder import saving
from veilnet.io.proof_files import STATEMENT, proof_content, proof_document, statement_of
from veilnet.io.sanitizer_files import SANITIZER
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.sums.handing_out import handed_out, members_of

WHOLE, CENTRE, PROOF = "plan.json", "center.json", "proof.json"

_PROMISES: dict[str, Any] = {
    "method": TEXT,
    "utility": FIGURE,
    "privacy": FIGURES,
    "targets": FIGURES,
    "worst_targets": FIGURES,
    "floors": FIGURES,
    "seen": FIGURES,
    "most_loss": Maybe(FIGURE),
    "certificate": ListOf(Table(what=TEXT, promised=FIGURE, found=FIGURE, ok=YES)),
    "details": ANYTHING,
    "privacy_with_gaps": Maybe(FIGURES),  # for streams
    "proof": Maybe(STATEMENT),
}
PROMISES = Table(**_PROMISES)
PLAN = Table(plan=TEXT, **_PROMISES, sanitizers=ByName(SANITIZER), network=Kind(dict))

_LONGEST_NAME = 120  # bytes; file systems allow 255 with suffix and temporary marks


def save_plan(plan: Plan, folder: str | PathLike[str]) -> None:
    """Write a plan folder, or one file where the name ends in .npz.

    An older plan in the folder is replaced, its agents' files included; files of others are left alone, and
    one that is in the way is an error.
    """
    target, promises = Path(folder), promises_of(plan)
    if is_archive(target):
        proof = None if plan.proof is None else proof_content(plan.proof)
        write_archive(target, promises, plan.network, plan.sanitizers, proof)
        return
    plan_id = plan_id_of(promises, plan.network, plan.sanitizers)
    said = {agent: sanitizer_files.values_of(each) for agent, each in plan.sanitizers.items()}
    names = file_names(members_of(plan.network))
    contents = {
        names[agent]: seal(sanitizer_files.to_document(each, plan_id))
        for agent, each in handed_out(plan.network, plan.sanitizers).items()
    }
    contents[CENTRE] = seal(centre_document(replace(plan.messages, plan=plan_id)))
    if plan.proof is not None:
        contents[PROOF] = seal(proof_document(plan.proof, plan_id))
    contents[WHOLE] = seal(
        {
            "format": _formats.PLAN,
            "plan": plan_id,
            **promises,
            "sanitizers": {agent: SANITIZER.write(each) for agent, each in said.items()},
            "network": plain(to_document(plan.network)),
        }
    )
    write_folder(target, plan_id, contents)


def write_folder(folder: Path, plan_id: str, contents: Mapping[str, bytes]) -> None:
    """Write the files of a plan: all old ones or all new ones are there, whenever it is interrupted."""
    if folder.exists() and not folder.is_dir():
        raise InvalidPlan(f"{folder}: expected a folder, found a file; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    with saving(folder) as replace_files:
        replace_files(contents, look_around(folder, plan_id, list(contents)))


def plan_id_of(promises: Mapping[str, Any], network: Network, sanitizers: Mapping[str, Sanitizer]) -> str:
    """The id of a plan, by its promises as they are written."""
    return arrays_id(plan_arrays(promises, network, sanitizers))


def centre_file(archive: Path) -> bytes:
    """The content of the centre's file, from a plan that is one file; its promises are recomputed first."""
    plan = Plan.load(archive)
    return seal(centre_document(replace(plan.messages, plan=Archive.read(archive).plan)))


def promises_of(plan: Plan) -> dict[str, Any]:
    """What a plan promises and how that was reached, as it is written."""
    said = {name: getattr(plan, name) for name in PROMISES.kinds}
    said["certificate"] = [
        {"what": each.what, "promised": each.promised, "found": each.found, "ok": bool(each.ok)}
        for each in plan.certificate.findings
    ]
    said["privacy_with_gaps"] = plan.privacy_with_gaps or None
    said["proof"] = None if plan.proof is None else statement_of(plan.proof)
    return PROMISES.write(said)


def file_names(agents: Sequence[str]) -> dict[str, str]:
    """agent -> a file name that every file system can hold, different for each.

    Names stay as they are where they can; others (forbidden characters, too long, equal to another but for case or
    accents' encoding) get a digest of the name.
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
        and agent.strip(" .") == agent
        and _folded(agent) not in ("plan", "center", "proof")
    )


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def look_around(folder: Path, plan_id: str, new: Sequence[str]) -> list[str]:
    """Files of agents and parts that an older plan left; an error if a foreign file is in the way."""
    stale = []
    taken = {_folded(name) for name in new}
    for path in folder.glob("*.json"):
        kind, belongs_to = format_of(path)
        ours = _formats.base(kind) in _OURS
        if _folded(path.name) in taken:
            if not ours and not _damaged_plan_file(path):
                raise InvalidPlan(
                    f"{path}: is in the way and was not written by veilnet; choose another folder, or move it"
                )
        elif _formats.base(kind) in _REPLACED and belongs_to is not None and belongs_to != plan_id:
            stale.append(path.name)
    return stale


def _damaged_plan_file(path: Path) -> bool:
    """Whether a file that cannot be opened began as one of ours, so that it may be replaced."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError:
        return False
    return any(f'"{kind}/'.encode() in start for kind in _OURS)


_REPLACED = {
    _formats.base(form)
    for form in (_formats.SANITIZER, _formats.PROOF, _formats.SYMBOL_AGENT, _formats.CENTRE)
}
_OURS = {
    *_REPLACED,
    *map(_formats.base, (_formats.PLAN, _formats.SYMBOL_PLAN, _formats.SYMBOL_CENTRE)),
    *_formats.NAMES_BEFORE[_formats.CENTRE],
}
