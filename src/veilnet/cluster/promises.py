"""What the plan of a network in parts promises, kept in one file beside its parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet.cluster.parts import Parts
from veilnet.cluster.sending import PLAN, PROMISES
from veilnet.io._atomic import write_text
from veilnet.plans.certificate import Promise

FORMAT = "veilnet-parts-plan/1"


def save_promise(
    parts: Parts, promise: Promise, limit: Mapping[str, float], readings: int, numbers: int
) -> None:
    """Write what a plan promises.

    limit:    name -> what the prior allows at most.
    readings: how many the agents have in all.
    numbers:  how many they send in all.
    """
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
    write_text(parts.folder / PLAN / PROMISES, json.dumps(document, indent=2) + "\n")


def promise_of(parts: Parts) -> Promise:
    """What the saved plan of a network in parts promises."""
    path: Path = parts.folder / PLAN / PROMISES
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or list(document["privacy"]) != list(parts.private):
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
    except OSError as error:
        raise InvalidPlan(f"{path}: {error.strerror}; design first") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidPlan):
            raise
        raise InvalidPlan(f"{path}: {error}; the plan was changed, design once more") from error


def _kept(values: Mapping[str, float]) -> dict[str, str]:
    return {name: repr(value) for name, value in values.items()}


def _power(parts: Parts, kept: Any) -> dict[str, float]:
    """The noise power allowed to any agent of each part; empty where nothing limits it, as in plans of old."""
    names = [part.name for part in parts.parts]
    if kept is None:
        return {}
    found = (
        dict.fromkeys(names, float(kept)) if isinstance(kept, str) else {n: float(v) for n, v in kept.items()}
    )
    if set(found) != set(names) or not all(np.isfinite(each) and each >= 0 for each in found.values()):
        raise ValueError("power: expected a finite number of at least 0 for each part")
    return found
