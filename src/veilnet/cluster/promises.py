"""What the plan of a network in parts promises, kept in one file beside its parts; and how one replaces another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.cluster.parts import Parts, read_header
from veilnet.cluster.sending import PLAN, PROMISES
from veilnet.cluster.tasks import BEGUN, BatchSums
from veilnet.io._atomic import remember_folder, write_text
from veilnet.plans.certificate import Promise

FORMAT = "veilnet-parts-plan/1"


def put_in_service(
    parts: Parts, promise: Promise, limit: Mapping[str, float], readings: int, sums: BatchSums
) -> bool:
    """Let a plan that was confirmed take the place of the one before; whether that promised something else.

    limit:    name -> what the prior allows at most.
    readings: how many the agents have in all.
    sums:     of all parts of the plan.
    """
    folder = parts.folder / PLAN
    path = folder / PROMISES
    before = path.read_bytes() if path.exists() else None
    promised = _document(parts, promise, limit, readings, sums.numbers)
    if sums.waiting or before != promised.encode():
        try:
            (folder / BEGUN).mkdir(exist_ok=True)
            # All that needs room on the disk comes before anything is taken away.
            write_text(folder / BEGUN / PROMISES, promised)
            path.unlink(missing_ok=True)  # parts of two plans, should this be cut off, must not pass for one
            for name in (*sums.waiting, PROMISES):
                (folder / BEGUN / name).replace(folder / name)
            remember_folder(folder)
        except OSError as error:
            raise InvalidRequest(
                f"{folder}: the new plan cannot take its place there ({error.strerror}); the same call goes on from "
                "there once it can"
            ) from error
    forget_begun(parts)
    return before is not None and before != promised.encode()


def forget_begun(parts: Parts) -> None:
    """Remove parts of a plan that will not be in service."""
    shutil.rmtree(parts.folder / PLAN / BEGUN, ignore_errors=True)


def _document(parts: Parts, promise: Promise, limit: Mapping[str, float], readings: int, numbers: int) -> str:
    document: dict[str, Any] = {
        "format": FORMAT,
        "agents": parts.agents,
        "readings": readings,
        "numbers_sent": numbers,
        "utility": repr(promise.utility),
        "privacy": _kept(promise.privacy),
        "limit": _kept(limit),
        "targets": _kept({name: value for name, value in promise.targets.items() if value > 0}),
        "floors": _kept(promise.floors),
        "most_loss": None if promise.most_loss is None else repr(promise.most_loss),
    }
    if promise.power:
        same = len(set(promise.power.values())) == 1
        document["power"] = repr(next(iter(promise.power.values()))) if same else _kept(promise.power)
    return json.dumps(document, indent=2) + "\n"


def promise_of(parts: Parts) -> Promise:
    """What the saved plan of a network in parts promises."""
    path: Path = parts.folder / PLAN / PROMISES
    document = read_header(path, FORMAT, InvalidPlan, "design first", "design once more")
    try:
        if list(document["privacy"]) != list(parts.private):
            raise InvalidPlan(
                f"{path}: not a plan for the private parameters of {parts.folder}; design once more"
            )
        privacy = {name: float(value) for name, value in document["privacy"].items()}
        targets, floors = (
            {name: float(value) for name, value in document.get(what, {}).items()}
            for what in ("targets", "floors")
        )
        allowed = document.get("most_loss", "0.0")
        most_loss = None if allowed is None else float(allowed)
        power = _power(parts, document.get("power"))
        return Promise(float(document["utility"]), privacy, targets, most_loss, {}, floors, power)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidPlan):
            raise
        raise InvalidPlan(f"{path}: {error}; the plan was changed, design once more") from error


def _kept(values: Mapping[str, float]) -> dict[str, str]:
    return {name: repr(value) for name, value in values.items()}


def _power(parts: Parts, kept: Any) -> dict[str, float]:
    """The noise power allowed to any agent of each part; empty where nothing limits it."""
    names = [part.name for part in parts.parts]
    if kept is None:
        return {}
    found = (
        dict.fromkeys(names, float(kept)) if isinstance(kept, str) else {n: float(v) for n, v in kept.items()}
    )
    if set(found) != set(names) or not all(np.isfinite(each) and each >= 0 for each in found.values()):
        raise ValueError("power: expected a finite number of at least 0 for each part")
    return found
