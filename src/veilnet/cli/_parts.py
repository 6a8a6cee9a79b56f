"""check, design and verify for a folder of parts, here or on a cluster, and the demo that starts one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidRequest

if TYPE_CHECKING:
    import numpy as np

    from veilnet.auditing.report import AuditReport
    from veilnet.cluster.results import PartsPlan
    from veilnet.plans.certificate import Certificate, Finding

CLUSTER_HELP = (
    "The scheduler of a Dask cluster, tcp://host:8786, tls://host:8786, or local to start one here. "
    "For a folder of parts."
)
_QUICK_ROWS = 200
_DEMO_PARTS, _DEMO_AGENTS, _DEMO_READINGS, _DEMO_PARAMETERS = 40, 5000, 4, 16


def is_parts(path: Path) -> bool:
    """Whether a path is a folder of parts."""
    return (path / "header.json").is_file()


def refuse_parts(path: Path, what: str) -> None:
    """Refuse a folder of parts where networks in parts have none of what was asked for."""
    if is_parts(path):
        raise InvalidRequest(
            f"{path}: is a network in parts, which has no {what} (docs/cluster.md says what there is); for one, "
            "make a network of some of its agents"
        )


def refuse_options(options: Mapping[str, Any], cluster: str | None, path: Path) -> None:
    """Refuse what a network in parts does not offer, and a cluster for what is no folder of parts."""
    if not is_parts(path):
        raise InvalidRequest(
            f"--cluster {cluster}: goes with a folder of parts (veilnet.cluster.save_parts), and {path} is none; "
            "leave it out, or write the network as parts"
        )
    given = [name for name, value in options.items() if value]
    if given:
        raise InvalidRequest(
            f"{given[0]}: not for a network in parts, whose plan is beside its parts; leave it out (docs/cluster.md "
            "says what there is)"
        )


def design_parts(folder: Path, cluster: str | None, request: Mapping[str, Any], *, json: bool) -> None:
    """``veilnet design`` of a folder of parts."""
    from veilnet.cli._shared import console, print_json
    from veilnet.cluster import design

    plan: PartsPlan = with_client(partial(design, **request), folder, cluster)
    if json:
        print_json(_as_document(plan))
        return
    console.print(str(plan))
    if plan.replaced:
        console.print("The plan that was there is replaced: messages made by it can no longer be fused.")
    console.print(
        f"{len(plan.computed)} of {len(plan.parts.parts)} parts were worked on; the others were finished."
    )
    console.print("Every promise was recomputed from the network and the sanitizers alone, and confirmed.")
    if len(plan.computed) < len(plan.parts.parts):
        console.print(
            "For finished parts that was done when they were made; 'veilnet verify' does it for all anew."
        )


def check_parts(folder: Path, cluster: str | None, *, json: bool) -> None:
    """``veilnet check`` of a folder of parts."""
    from veilnet.cli._shared import console, print_json
    from veilnet.cluster import check

    verdict = with_client(check, folder, cluster)
    if json:
        print_json(
            {
                "achievable": verdict.achievable,
                "ceiling": verdict.ceiling,
                "limit": verdict.limit,
                "agents": verdict.agents,
                "numbers_to_send": verdict.numbers,
            }
        )
        return
    console.print(str(verdict))


def verify_parts(folder: Path, cluster: str | None, *, json: bool) -> None:
    """``veilnet verify`` of a folder of parts; exit code 1 where a promise is not confirmed."""
    from veilnet._core.words import join_names
    from veilnet.cli._shared import console, print_json, table
    from veilnet.cluster import open_parts, verify

    found: Certificate = with_client(verify, folder, cluster)
    if json:
        print_json({"ok": found.ok, "findings": found.findings})
    else:
        public = join_names(list(open_parts(folder).public))
        rows = [_in_words(each, public) for each in found.findings]
        console.print(table(["what", "promised", "found", "confirmed"], rows))
        console.print("Every promise is confirmed." if found.ok else "NOT confirmed: do not use this plan.")
    if not found.ok:
        _truthful_no()


def _in_words(found: Finding, public: str) -> list[object]:
    """One promise as ``veilnet verify`` tells it of a plan in one piece, but for the agents, which are counted."""
    from veilnet.cluster.calls import AGENTS
    from veilnet.plans.in_words import finding_in_words, growth_in_words

    figures = (found.promised, found.found)
    if found.what == AGENTS:
        return ["agents in all parts", *(f"{each:,.0f}" for each in figures), found.ok]
    return [
        finding_in_words(found.what, public),
        *(growth_in_words(found.what, each) for each in figures),
        found.ok,
    ]


def audit_parts(folder: Path, cluster: str | None, seed: int, *, quick: bool) -> AuditReport:
    """``veilnet audit`` of a folder of parts."""
    from veilnet.cluster import audit

    request: dict[str, Any] = {"seed": seed} | ({"rows": _QUICK_ROWS} if quick else {})
    report: AuditReport = with_client(partial(audit, **request), folder, cluster)
    return report


def play_on_cluster(cluster: str, *, json: bool) -> None:
    """``veilnet demo --cluster``: 200,000 agents in parts, designed and verified by worker processes."""
    import time

    import veilnet as vn
    from veilnet.cli._shared import console, print_json
    from veilnet.cluster import connect, design, save_parts, verify

    with tempfile.TemporaryDirectory(prefix="veilnet-demo-") as place, connect(cluster) as client:
        address = client.dashboard_link
        if not json:
            workers = len(client.scheduler_info()["workers"])
            console.print(f"{workers} worker processes. Watch them work: {address}{_without_pictures()}")
        rng = _generator()
        rows = rng.standard_normal((3, _DEMO_PARAMETERS))
        with _bar("writing parts") as tell:
            parts = save_parts(
                Path(place) / "network", _demo_stacks(tell), rows[:1], {"first": rows[1], "second": rows[2]},
                vn.Prior(4.0 * _eye()),
            )  # fmt: skip
        start = time.monotonic()
        with _bar("designing") as tell:
            plan = design(parts, client=client, progress=tell)
        designed = time.monotonic() - start
        with _bar("verifying") as tell:
            found = verify(parts, client=client, progress=tell)
        seconds = time.monotonic() - start
        if json:
            print_json({**_as_document(plan), "verified": found.ok, "dashboard": address, "seconds": seconds})
        else:
            console.print(str(plan.verdict))
            console.print(
                f"Designed in {designed:.1f} s, verified by other formulas in {seconds - designed:.1f} s: "
                f"{'every promise confirmed' if found.ok else 'NOT confirmed'}."
            )
            console.print(
                "Your own: veilnet.cluster.save_parts(...), then veilnet design folder/ --cluster tcp://host:8786"
            )
        if not found.ok:
            _truthful_no()


def _truthful_no() -> None:
    raise SystemExit(1)


def with_client(call: Callable[..., Any], folder: Path, cluster: str | None) -> Any:
    from veilnet.cluster import connect

    with _bar("working") as tell:
        if cluster is None:
            return call(folder, progress=tell)
        with connect(cluster) as client:
            return call(folder, client=client, progress=tell)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[str, float], None]]:
    from veilnet.cli._shared import progress

    with progress(what, total=1.0) as steps:
        yield lambda _what, part: steps.update(part)


def _as_document(plan: PartsPlan) -> dict[str, Any]:
    return {
        "utility": plan.utility,
        "privacy": plan.privacy,
        "targets": plan.targets,
        "details": plan.details,
        "limit": plan.verdict.limit,
        "agents": plan.verdict.agents,
        "numbers_sent": plan.verdict.numbers,
        "parts": len(plan.parts.parts),
        "parts_worked_on": len(plan.computed),
        "certificate": {"ok": plan.certificate.ok, "findings": plan.certificate.findings},
        "folder": plan.parts.folder,
        "replaced": plan.replaced,
    }


def _demo_stacks(tell: Callable[[str, float], None]) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    for number in range(_DEMO_PARTS):
        rng = np.random.default_rng([1, number])
        observe = rng.standard_normal((_DEMO_AGENTS, _DEMO_READINGS, _DEMO_PARAMETERS))
        root = 0.3 * rng.standard_normal((_DEMO_AGENTS, _DEMO_READINGS, _DEMO_READINGS))
        yield observe, root @ root.transpose(0, 2, 1) + np.eye(_DEMO_READINGS)
        tell("", (number + 1) / _DEMO_PARTS)


def _generator() -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(1)


def _eye() -> np.ndarray[Any, np.dtype[np.float64]]:
    import numpy as np

    return np.eye(_DEMO_PARAMETERS)


def _without_pictures() -> str:
    from importlib.util import find_spec

    return "" if find_spec("bokeh") else " (its pictures need bokeh: pip install bokeh)"
