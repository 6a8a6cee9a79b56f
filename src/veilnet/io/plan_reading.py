"""A plan folder read back: every file as the objects it holds, with nothing decided about them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest, NotObservable
from veilnet.agent.mechanisms import check_sanitizers
from veilnet.io import sanitizer_files
from veilnet.io._formats import NETWORK
from veilnet.io._formats import PLAN as FORMAT
from veilnet.io._kinds import NUMBERS, file_errors
from veilnet.io._reading import refuse_parts
from veilnet.io._sealed import read_sealed
from veilnet.io.centre_files import load_centre
from veilnet.io.network_schema import from_document, network_difference
from veilnet.io.plan_archives import Archive, is_archive
from veilnet.io.plan_files import CENTRE, PLAN, PROMISES, PROOF, WHOLE, file_names, look_around, plan_id_of
from veilnet.io.plan_folder import reading
from veilnet.io.proof_files import read_proof
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.plans.certificate import Promise
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.rounding import read_bits
from veilnet.plans.verification import SavedPlan
from veilnet.sums.handing_out import members_of

T = TypeVar("T")

# of which somebody expects one file, not a folder
_FILES = (".npy", ".json", ".toml", ".csv", ".zip", ".html")


def read_plan_folder(folder: str | PathLike[str]) -> SavedPlan:
    """What the files of a plan folder, or a plan in one file, hold; InvalidPlan where that is no plan at all."""
    target = Path(folder)
    if is_archive(target):
        return _read_archive(target)
    if not target.is_dir():
        raise InvalidPlan(f"{folder}: no such folder; give the folder that plan.save() or design --out wrote")
    refuse_parts(target)
    with reading(target) as place:
        return _read(target, place)


def check_destination(folder: Path, network: Network, *, force: bool) -> None:
    """An error, before anything is computed, where a plan of this network could not or should not be saved.

    force: replace the plan of another network, or one that cannot be read.
    """
    if not is_archive(folder):
        _check_folder(folder, network)
    elif not folder.absolute().parent.is_dir():
        raise InvalidPlan(
            f"{folder.absolute().parent}: no such folder; make it first, or choose another place"
        )
    if force:
        return
    try:
        saved = _saved_network(folder)
    except InvalidPlan as error:
        raise InvalidPlan(
            f"{folder}: is in the way and not readable as a plan ({error}); choose another name, or give force=True "
            "(--force) to replace it"
        ) from error
    difference = "" if saved is None else network_difference(network, saved)
    if difference:
        raise InvalidPlan(
            f"{folder}: holds the plan of another network ({difference}); choose another name, or give force=True "
            "(--force) to replace that plan"
        )


def _check_folder(folder: Path, network: Network) -> None:
    if folder.suffix in _FILES and not folder.exists():
        raise InvalidPlan(
            f"{folder}: expected the name of a folder, or one that ends in .npz for a plan in one file; "
            f"found {folder.suffix}"
        )
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not existing.is_dir():
        raise InvalidPlan(f"{existing}: expected a folder, found a file; choose another name")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InvalidPlan(f"{existing}: may not be written to; choose another folder")
    if existing == folder:
        look_around(folder, "", [*file_names(members_of(network)).values(), CENTRE, WHOLE])


def _saved_network(folder: Path) -> Network | None:
    if not folder.exists():
        return None
    if is_archive(folder):
        return Archive.read(folder).network()
    with reading(folder) as place:
        if not place(WHOLE).exists():
            return None
        document, _ = read_sealed(place(WHOLE), FORMAT)
        return _network(document.get("network"), place(WHOLE))


def _read(target: Path, place: Callable[[str], Path]) -> SavedPlan:
    if not place(WHOLE).exists():
        raise InvalidPlan(f"{target}: holds no plan.json; save the plan there first")
    path = place(WHOLE)
    document, intact = read_sealed(path, FORMAT)
    found = PLAN.values(document, path)
    sanitizers = {
        agent: sanitizer_files.from_values(values, path) for agent, values in found["sanitizers"].items()
    }
    network = _network(document["network"], path)
    try:
        check_sanitizers(network, sanitizers)
    except InvalidRequest as error:
        raise InvalidPlan(f"{path}: {error}") from error
    trouble = ""
    if not intact:
        trouble = "the checksum does not match, so the file was changed or damaged; save the plan again"
    elif found["plan"] != plan_id_of(_written(document), network, sanitizers):
        trouble = "the plan's id does not match its content; save the plan again"
        if (before := document["network"].get("format")) != NETWORK:  # which the id covers
            trouble = (
                f"made by an earlier veilnet (its network is {str(before)[:40]!r}, known is {NETWORK!r}): design the "
                "plan again with this one"
            )
    proof = partial(read_proof, place(PROOF), found["proof"], found["plan"])
    return SavedPlan(
        **_promised(found, network, path, target / PROOF, proof),
        trouble=trouble,
        plan_id=found["plan"],
        sanitizers=sanitizers,
        agent_files={
            str(target / name): (agent, _or_complaint(partial(sanitizer_files.read_sanitizer, place(name))))
            for agent, name in file_names(members_of(network)).items()
        },
        centre_file=(str(target / CENTRE), _or_complaint(partial(load_centre, place(CENTRE)))),
    )


def _promised(
    found: Mapping[str, Any], network: Network, path: Path, proof_file: Path, proof: Callable[[], Proof]
) -> dict[str, Any]:
    """What any shape of a plan says beside what agents send. proof: reads it, where there is one."""
    return {
        "where": str(path),
        "network": network,
        "method": found["method"],
        "promise": _promise(found, network, path),
        "details": found["details"],
        "difference": partial(network_difference, other=network),
        "proof_file": None if found["proof"] is None else (str(proof_file), _or_complaint(proof)),
    }


def _written(document: Mapping[str, Any]) -> dict[str, Any]:
    """The promises of plan.json as they stand there."""
    return {name: document[name] for name in PROMISES.kinds if name in document}


def _read_archive(path: Path) -> SavedPlan:
    archive = Archive.read(path)
    network = archive.network()
    with file_errors(path):
        found = PROMISES.read(archive.promises())
    return SavedPlan(
        **_promised(found, network, path, path, partial(archive.proof, found["proof"])),
        trouble="",
        plan_id=archive.plan,
        sanitizers=archive.sanitizers(network),
        agent_files={},
        centre_file=None,
    )


def _network(document: Any, path: Path) -> Network:
    try:
        return from_document(document, path.parent)
    except (InvalidNetwork, NotObservable) as error:
        raise InvalidPlan(f"{path}: network: {error}") from error


def _promise(found: Mapping[str, Any], network: Network, path: Path) -> Promise:
    if not set(found["seen"]) <= set(network.secrets):
        raise InvalidPlan(f"{path}: seen: expected names of secrets of the network, those with a change")
    asked = {*found["targets"], *found["worst_targets"], *found["floors"]}
    if set(found["privacy"]) != set(network.private) or not asked <= set(network.private):
        raise InvalidPlan(f"{path}: privacy: expected exactly the network's private parameters")
    promised = network.is_stream and not by_stacks(network)
    with_gaps = found["privacy_with_gaps"] or {}
    if set(with_gaps) != (set(network.private) if promised else set()):
        raise InvalidPlan(
            f"{path}: privacy_with_gaps: expected one for each private parameter of a stream; design the plan again"
        )
    return Promise(
        **{name: found[name] for name in ("utility", "privacy", "targets", "most_loss", "floors", "seen")},
        worst=found["worst_targets"],
        power=_power(found["details"].get("power_allowed"), network, path),
        rounding=_rounding(found["details"].get("rounding_allowed"), network, path),
        with_gaps=with_gaps,
    )


def _rounding(allowed: Any, network: Network, path: Path) -> float | None:
    """What coarser grids may cost, which stands among the details; None where nothing was allowed."""
    try:
        return None if allowed is None else read_bits(allowed, network)
    except InvalidRequest as error:
        raise InvalidPlan(f"{path}: details.rounding_allowed: {error}") from error


def _power(allowed: Any, network: Network, path: Path) -> dict[str, float]:
    """The noise power allowed to every agent, which stands among the details; empty where nothing limits it."""
    if allowed is None:
        return {}
    with file_errors(path):
        found: dict[str, float] = NUMBERS.read(allowed, "details.power_allowed")
        if set(found) != set(network.agents) or not all(0 <= each < math.inf for each in found.values()):
            raise InvalidNetwork(
                "details.power_allowed: expected a finite number of at least 0 for each agent"
            )
    return found


def _or_complaint(read: Callable[[], T]) -> T | str:
    """What is read, or the complaint of who tried."""
    try:
        return read()
    except InvalidPlan as error:
        return str(error)
