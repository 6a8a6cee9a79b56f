"""Does a saved plan keep what it promises, on a network that the user trusts?

Nothing in the folder is believed: the network must equal the given one to the last bit, every promise is
recomputed on the given one from the sanitizers that the agents' files hold, the grids and the centre's file
are derived again. A checksum only tells accidents from intact files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.information import check_sanitizers
from veilnet.io import _document
from veilnet.io._sealed import plain, read_sealed
from veilnet.io.plan_files import (
    CENTRE,
    FORMAT,
    WHOLE,
    WholePlan,
    agent_complaint,
    centre_complaint,
    certify_promise,
    file_names,
    plan_id_of,
    whole_from_document,
)
from veilnet.io.sanitizer_files import to_document
from veilnet.model.network import Network
from veilnet.plans.release_grid import with_release_grid

__all__ = ["Check", "verify_plan"]


@dataclass(frozen=True)
class Check:
    """One thing that was verified: what was promised, what was found."""

    what: str
    ok: bool
    promised: float | None = None
    found: float | None = None
    note: str = ""


def verify_plan(folder: str | PathLike[str], network: Network | None = None) -> list[Check]:
    """Re-derive every promise of a plan folder; without a network, on the plan's own, taken on trust.

    Raises InvalidPlan where plan.json cannot be read as a plan at all.
    """
    target = Path(folder)
    path = target / WHOLE
    document, intact = read_sealed(path, FORMAT)
    whole = whole_from_document(document, path)
    same_id = plan_id_of(document) == whole.plan
    checks = [
        Check(WHOLE, intact and same_id, note="" if intact and same_id else "changed since it was saved")
    ]
    trusted = whole.network
    if network is not None:
        trusted = network
        difference = _first_difference(plain(_document.to_document(network)), whole.network_document, "")
        checks.append(Check("network is the given one", not difference, note=difference))
    try:
        check_sanitizers(trusted, whole.sanitizers)
    except InvalidNetwork as error:
        return [*checks, Check("sanitizers fit the network", False, note=str(error))]
    checks += _files(target, trusted, whole)
    checks += _grids(trusted, whole)
    checks += _promises(trusted, whole)
    return checks


def _files(folder: Path, network: Network, whole: WholePlan) -> list[Check]:
    names = file_names(list(whole.sanitizers))
    checks = []
    for agent, sanitizer in whole.sanitizers.items():
        complaint = agent_complaint(folder / names[agent], sanitizer, whole.plan)
        checks.append(Check(names[agent], not complaint, note=complaint))
    complaint = centre_complaint(folder / CENTRE, network, whole.sanitizers, whole.plan)
    return [*checks, Check(CENTRE, not complaint, note=complaint)]


def _grids(network: Network, whole: WholePlan) -> list[Check]:
    """A grid finer than the plan's would let low bits through, a coarser one cost utility."""
    try:
        expected = with_release_grid(network, whole.sanitizers)
    except InvalidNetwork as error:
        return [Check("grids", False, note=str(error))]
    wrong = [agent for agent, s in whole.sanitizers.items() if not _same_grid(s.grid, expected[agent].grid)]
    note = f"not the grid that the noise calls for: {', '.join(wrong[:5])}" if wrong else ""
    loose = [agent for agent, s in whole.sanitizers.items() if not _same_facts(s, expected[agent])]
    also = f"not those of the network: {', '.join(loose[:5])}" if loose else ""
    return [
        Check("grids", not wrong, note=note),
        Check("names and limits of readings", not loose, note=also),
    ]


def _same_facts(found: Sanitizer, expected: Sanitizer) -> bool:
    mine, theirs = to_document(found, None), to_document(expected, None)
    return all(mine[name] == theirs[name] for name in ("agent", "names", "limits"))


def _same_grid(found: Any, expected: Any) -> bool:
    # On another machine, a deviation on the edge may round to the neighbouring power of two.
    return (
        found is not None
        and found.shape == expected.shape
        and bool(np.all((found <= 2 * expected) & (expected <= 2 * found)))
    )


def _promises(network: Network, whole: WholePlan) -> list[Check]:
    if set(whole.promise.privacy) != set(network.private):
        return [Check("promises", False, note="the plan promises other private parameters")]
    try:
        certificate = certify_promise(network, whole.sanitizers, whole.promise)
    except InvalidPlan as error:
        return [Check("promises", False, note=str(error))]
    return [Check(f.what, bool(f.ok), f.promised, f.found) for f in certificate.findings]


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
