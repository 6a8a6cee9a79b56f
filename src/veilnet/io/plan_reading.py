"""A plan folder read back: every file as the objects it holds, with nothing decided about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest, NotObservable
from veilnet.agent.mechanisms import check_sanitizers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.models import Messages
from veilnet.io import _document, sanitizer_files
from veilnet.io._json import plain, with_infinities
from veilnet.io._sealed import convert, read_sealed
from veilnet.io.centre_files import load_centre
from veilnet.io.plan_archives import (
    Archive,
    check_archive_destination,
    is_archive,
    network_difference,
)
from veilnet.io.plan_files import (
    CENTRE,
    FORMAT,
    PROOF,
    WHOLE,
    PlanDocument,
    array_or_text_id,
    file_names,
    look_around,
    plan_id_of,
)
from veilnet.io.plan_folder import reading
from veilnet.io.proof_files import read_proof
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.plans.certificate import Promise
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.verification import SavedPlan

_FILES = (
    ".npy",
    ".json",
    ".toml",
    ".csv",
    ".zip",
    ".html",
)  # of which somebody expects one file, not a folder


def read_plan_folder(folder: str | PathLike[str]) -> SavedPlan:
    """What the files of a plan folder, or a plan in one file, hold; InvalidPlan where that is no plan at all."""
    target = Path(folder)
    if is_archive(target):
        return _read_archive(target)
    if not target.is_dir():
        raise InvalidPlan(f"{folder}: no such folder; give the folder that plan.save() or design --out wrote")
    with reading(target) as place:
        return _read(target, place)


def check_destination(folder: Path, network: Network, *, force: bool) -> None:
    """An error, before anything is computed, where a plan of this network could not or should not be saved.

    force: replace the plan of another network, or one that cannot be read.
    """
    if is_archive(folder):
        check_archive_destination(folder, network, force=force)
        return
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
    if existing != folder:
        return
    look_around(folder, "", [*file_names(list(network.agents)).values(), CENTRE, WHOLE])
    with reading(folder) as place:
        if force or not place(WHOLE).exists():
            return
        try:
            document, _ = read_sealed(place(WHOLE), FORMAT)
            difference = _difference(network, saved=document.get("network", {}))
        except InvalidPlan:
            difference = "its plan.json cannot be read"
    if difference:
        raise InvalidPlan(
            f"{folder}: holds the plan of another network ({difference}); choose another folder, "
            "or give force=True (--force) to replace that plan"
        )


def _read(target: Path, place: Callable[[str], Path]) -> SavedPlan:
    if not place(WHOLE).exists():
        raise InvalidPlan(f"{target}: holds no plan.json; save the plan there first")
    path = place(WHOLE)
    document, intact = read_sealed(path, FORMAT)
    found = convert(document, PlanDocument, path)
    sanitizers = {
        agent: sanitizer_files.from_document(table, path) for agent, table in found.sanitizers.items()
    }
    network = _network(found, path)
    try:
        check_sanitizers(network, sanitizers)
    except InvalidRequest as error:
        raise InvalidPlan(f"{path}: {error}") from error
    same_id = found.plan in (plan_id_of(document), array_or_text_id(document, network, sanitizers))
    trouble = (
        ""
        if intact
        else "the checksum does not match, so the file was changed or damaged; save the plan again"
    )
    if intact and not same_id:
        trouble = "the plan's id does not match its content; save the plan again"
    return SavedPlan(
        where=str(path),
        trouble=trouble,
        plan_id=found.plan,
        network=network,
        sanitizers=sanitizers,
        method=found.method,
        promise=_promise(found, network, path),
        details=with_infinities(found.details),
        agent_files={
            str(target / name): (agent, _agent_file(place(name)))
            for agent, name in file_names(list(sanitizers)).items()
        },
        centre_file=(str(target / CENTRE), _centre_file(place(CENTRE))),
        difference=partial(_difference, saved=found.network),
        proof_file=None if found.proof is None else (str(target / PROOF), _proof_file(place(PROOF), found)),
    )


def _read_archive(path: Path) -> SavedPlan:
    archive = Archive.read(path)
    network = archive.network()
    document = archive.promises() | {"format": FORMAT, "plan": archive.plan, "sanitizers": {}, "network": {}}
    found = convert(document, PlanDocument, path)
    return SavedPlan(
        where=str(path),
        trouble="",
        plan_id=archive.plan,
        network=network,
        sanitizers=archive.sanitizers(network),
        method=found.method,
        promise=_promise(found, network, path),
        details=with_infinities(found.details),
        agent_files={},
        centre_file=None,
        difference=partial(network_difference, saved=archive.network_arrays()),
    )


def _network(found: PlanDocument, path: Path) -> Network:
    try:
        return _document.from_document(found.network, path.parent)
    except (InvalidNetwork, NotObservable) as error:
        raise InvalidPlan(f"{path}: network: {error}") from error


def _promise(found: PlanDocument, network: Network, path: Path) -> Promise:
    if set(found.privacy) != set(network.private) or not (
        {*found.targets, *found.worst_targets, *found.floors} <= set(network.private)
    ):
        raise InvalidPlan(f"{path}: privacy: expected exactly the network's private parameters")
    promised = network.is_stream and not by_stacks(network)
    if set(found.privacy_with_gaps) != (set(network.private) if promised else set()):
        raise InvalidPlan(
            f"{path}: privacy_with_gaps: expected one for each private parameter of a stream; design the plan again"
        )
    return Promise(
        utility=_number(found.utility, path),
        privacy={name: _number(value, path) for name, value in found.privacy.items()},
        targets={name: _number(value, path) for name, value in found.targets.items()},
        most_loss=None if found.most_loss is None else _number(found.most_loss, path),
        worst_targets={name: _number(value, path) for name, value in found.worst_targets.items()},
        floors={name: _number(value, path) for name, value in found.floors.items()},
        power=_power(found, network, path),
        with_gaps={name: _number(value, path) for name, value in found.privacy_with_gaps.items()},
    )


def _power(found: PlanDocument, network: Network, path: Path) -> dict[str, float]:
    """The noise power allowed to every agent, which stands among the details; empty where nothing limits it."""
    allowed = found.details.get("power_allowed")
    if allowed is None:
        return {}
    if not isinstance(allowed, dict) or set(allowed) != set(network.agents):
        raise InvalidPlan(
            f"{path}: details.power_allowed: expected a number for each agent; save the plan again"
        )
    for agent, each in allowed.items():
        if isinstance(each, bool) or not isinstance(each, int | float) or each < 0:
            raise InvalidPlan(
                f"{path}: details.power_allowed: expected finite numbers of at least 0, found {each!r} for {agent}; "
                "save the plan again"
            )
    return {agent: float(each) for agent, each in allowed.items()}


def _agent_file(path: Path) -> tuple[Sanitizer, str | None] | str:
    try:
        return sanitizer_files.read_sanitizer(path)
    except InvalidPlan as error:
        return str(error)


def _centre_file(path: Path) -> Messages | str:
    try:
        return load_centre(path)
    except InvalidPlan as error:
        return str(error)


def _proof_file(path: Path, found: PlanDocument) -> Proof | str:
    try:
        return "" if found.proof is None else read_proof(path, found.proof, found.plan)
    except InvalidPlan as error:
        return str(error)


def _difference(network: Network, saved: Mapping[str, Any]) -> str:
    """Where the models differ; what is doubted of them, or accepted, the rows they were fitted to and the dither that
    a plan decided on may.
    """
    given, found = (
        {name: value for name, value in document.items() if name not in ("doubts", "fitted_rows", "dither")}
        for document in (plain(_document.to_document(network)), saved)
    )
    return _first_difference(given, found, "")


def _first_difference(given: Any, found: Any, where: str) -> str:
    """Where two documents differ, empty if they do not; numbers must agree to the last bit."""
    if isinstance(given, Mapping) and isinstance(found, Mapping):
        if list(given) != list(found):
            return f"{where or 'the network'}: other keys, or in another order"
        for name in given:
            difference = _first_difference(given[name], found[name], f"{where}.{name}" if where else name)
            if difference:
                return difference
        return ""
    return "" if given == found else f"{where} differs"


def _number(value: float | str, path: Path) -> float:
    number = with_infinities(value)
    if isinstance(number, str):
        raise InvalidPlan(f"{path}: expected a number, found text; save the plan again")
    return float(number)
