"""``veilnet parts``: networks in a folder of parts, worked on here or by the workers of a Dask cluster."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet.cli import extract
from veilnet.cli._command_line import (
    JSON,
    PRIVACY,
    PRIVATE_ERROR,
    PUBLIC_ERROR,
    UTILITY_LOSS,
    argument,
    option,
)
from veilnet.cli._shared import amounts, asked_for, check_file, print_json, progress, show, table, tell

if TYPE_CHECKING:
    from veilnet.centre.estimates import Estimate
    from veilnet.cluster import PartsPlan, Sanitized
    from veilnet.plans.certificate import Certificate, Finding

FOLDER = argument("A network in parts, as veilnet.cluster.save_parts wrote it.")
CLUSTER = option(
    "--cluster",
    "The scheduler of a Dask cluster, tcp://host:8786 or tls://host:8786, or local to start one here; without it, "
    "one part after another.",
    metavar="ADDRESS",
)
_QUICK_ROWS = 200
_DEMO_PARTS, _DEMO_AGENTS, _DEMO_READINGS, _DEMO_PARAMETERS = 40, 5000, 4, 16


def check(folder: Path = FOLDER, cluster: str | None = CLUSTER, json: bool = JSON) -> None:
    """Say how much privacy is free; nothing is written."""
    from veilnet.cluster import check

    verdict = _called(check, folder, cluster)
    if json:
        found = {name: getattr(verdict, name) for name in ("achievable", "ceiling", "limit", "agents")}
        print_json({**found, "numbers_to_send": verdict.numbers})
    else:
        tell(verdict)


def design(
    folder: Path = FOLDER,
    private_error: list[str] | None = PRIVATE_ERROR,
    public_error: str | None = PUBLIC_ERROR,
    privacy: list[str] | None = PRIVACY,
    utility_loss: str | None = UTILITY_LOSS,
    give_up: list[str] | None = option(
        "--give-up", "Let this be protected less than it would be for free (repeat).", metavar="NAME"
    ),
    power: list[str] | None = option(
        "--power", "Largest noise power: 1e4, or part-00017.npz=1e4 (repeat). Noise only."
    ),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> None:
    """Find what each agent should send, and write it beside the parts; without a target, the most that is free."""
    from veilnet.cluster import design

    request: dict[str, Any] = {
        **asked_for(privacy, private_error, utility_loss, public_error),
        "give_up": tuple(give_up or ()),
        "power": amounts(power, "--power"),
    }
    plan: PartsPlan = _called(partial(design, **request), folder, cluster)
    if json:
        print_json(_as_document(plan))
        return
    tell(plan)
    if plan.replaced:
        tell("The plan that was there is replaced: messages made by it can no longer be fused.")
    tell(f"{len(plan.computed)} of {len(plan.parts.parts)} parts were worked on; the others were finished.")
    tell("Every promise was recomputed from the network and the sanitizers alone, and confirmed.")


def verify(folder: Path = FOLDER, cluster: str | None = CLUSTER, json: bool = JSON) -> int:
    """Recompute every promise of the plan, from the files alone; exit code 1 where one is not confirmed."""
    from veilnet._core.words import join_names
    from veilnet.cluster import open_parts, verify

    found: Certificate = _called(verify, folder, cluster)
    if json:
        print_json({"ok": found.ok, "findings": found.findings})
    else:
        public = join_names(list(open_parts(folder).public))
        rows = [_in_words(each, public) for each in found.findings]
        show(table(["what", "promised", "found", "confirmed"], rows))
        tell("Every promise is confirmed." if found.ok else "NOT confirmed: do not use this plan.")
    return 0 if found.ok else 1


def audit(
    folder: Path = FOLDER,
    quick: bool = option("--quick", "Fewer rows."),
    seed: int = option("--seed", "Simulation seed.", at_least=0, default=0),
    out: Path | None = option("--out", "Write every figure as JSON to this file too, for report --audit."),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> int:
    """Recompute every promise, and simulate all agents: their noise, and the errors of attacker and centre."""
    from veilnet.cli.audit import tell_report
    from veilnet.cluster import audit

    check_file(out)
    request: dict[str, Any] = {"seed": seed} | ({"rows": _QUICK_ROWS} if quick else {})
    return tell_report(_called(partial(audit, **request), folder, cluster), out, whole=True, json=json)


def sanitize(
    folder: Path = FOLDER,
    readings: Path = argument("A folder with a part of readings for each part."),
    messages: Path = argument("The folder to write messages to."),
    seed: int | None = option("--seed", "Repeatable noise: NOT private.", at_least=0),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> int:
    """Sanitize the readings of all agents at once, to simulate; exit code 1 where something was not sent.

    Agents in service run files of their own ('veilnet parts extract').
    """
    from veilnet.cluster import sanitize

    if seed is not None:
        _say("sanitize: --seed was given: the output is a simulation, NOT private")
    call = partial(sanitize, readings=readings, messages=messages, seed=seed)
    found: Sanitized = _called(call, folder, cluster)
    made = found.messages
    if json:
        counts = {"rows": made.rows, "sent": found.sent, "refused": found.refused}
        print_json({**counts, "private": made.private, "plan": made.plan, "written": made.folder})
    else:
        sys.stdout.write(f"Wrote {messages}: {made.rows} rows, {found.sent} messages of single agents.\n")
    if found.refused:
        _say(
            f"sanitize: {found.refused} messages were not sent, since readings were missing or in doubt; the centre "
            "sees that they are missing"
        )
    return 1 if found.refused else 0


def fuse(
    folder: Path = FOLDER,
    messages: Path = argument("A folder of messages."),
    out: Path | None = option(
        "--out", "Output file, .csv or .jsonl, written atomically; standard output if left out."
    ),
    cluster: str | None = CLUSTER,
    json: bool = option("--json", "JSON lines, or with --out a JSON summary."),
) -> None:
    """Estimate the public parameters in every row; estimates say how many agents are missing in it."""
    from veilnet.cluster import fuse, open_messages
    from veilnet.io._atomic import replacing
    from veilnet.io.estimate_files import write_estimate_header, write_estimates
    from veilnet.io.streams import format_for

    kind = format_for(out, given="jsonl" if json and out is None else None)
    given = open_messages(messages)
    if not given.private:
        _say("fuse: the messages were made with --seed: NOT private")
    estimate: Estimate = _called(partial(fuse, messages=given), folder, cluster)
    with ExitStack() as stack:
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        write_estimate_header(target, kind, estimate.labels)
        write_estimates(target, kind, range(1, given.rows + 1), estimate, counted=True)
        target.flush()
    rows, gaps = given.rows, sum(map(bool, estimate.missing))
    unknown = int((~estimate.estimable).any(axis=1).sum())
    if out is not None and json:
        print_json({"rows": rows, "with_missing_agents": gaps, "not_estimable": unknown, "written": out})
    elif out is not None:
        words = f"{rows} rows, {gaps} with missing agents, {unknown} where something is not estimable."
        sys.stdout.write(f"Wrote {out}: {words}\n")


def demo(
    cluster: str = option(
        "--cluster", "A scheduler, or local to start one here.", metavar="ADDRESS", default="local"
    ),
    json: bool = JSON,
) -> int:
    """Play on 200,000 agents in parts, designed and verified by worker processes; watch them in the browser."""
    import time
    from importlib.util import find_spec

    import numpy as np

    from veilnet.cluster import connect, design, save_parts, verify

    with tempfile.TemporaryDirectory(prefix="veilnet-demo-") as place, connect(cluster) as client:
        address = client.dashboard_link
        if not json:
            pictures = "" if find_spec("bokeh") else " (its pictures need bokeh: pip install bokeh)"
            workers = len(client.scheduler_info()["workers"])
            tell(f"{workers} worker processes. Watch them work: {address}{pictures}")
        rows = np.random.default_rng(1).standard_normal((3, _DEMO_PARAMETERS))
        with _telling("writing parts") as report:
            parts = save_parts(
                Path(place) / "network", _demo_stacks(report), rows[:1], {"first": rows[1], "second": rows[2]},
                vn.Prior(4.0 * np.eye(_DEMO_PARAMETERS)),
            )  # fmt: skip
        start = time.monotonic()
        with _telling("designing") as report:
            plan = design(parts, client=client, progress=report)
        designed = time.monotonic() - start
        with _telling("verifying") as report:
            found = verify(parts, client=client, progress=report)
        seconds = time.monotonic() - start
        if json:
            print_json({**_as_document(plan), "verified": found.ok, "dashboard": address, "seconds": seconds})
        else:
            took = f"Designed in {designed:.1f} s, verified by other formulas in {seconds - designed:.1f} s"
            yours = (
                "veilnet.cluster.save_parts(...), then veilnet parts design folder/ --cluster tcp://host:8786"
            )
            confirmed = "every promise confirmed" if found.ok else "NOT confirmed"
            tell(f"{plan.verdict}\n{took}: {confirmed}.\nYour own: {yours}")
        return 0 if found.ok else 1


commands: dict[str, Callable[..., int | None]] = {
    "check": check,
    "design": design,
    "verify": verify,
    "audit": audit,
    "extract": extract.command,
    "sanitize": sanitize,
    "fuse": fuse,
    "demo": demo,
}


def _called(call: Callable[..., Any], folder: Path, cluster: str | None) -> Any:
    """A call of :mod:`veilnet.cluster` for a folder, here or on a cluster."""
    from veilnet.cluster import connect

    with _telling("working") as report:
        if cluster is None:
            return call(folder, progress=report)
        with connect(cluster) as client:
            return call(folder, client=client, progress=report)


@contextmanager
def _telling(what: str) -> Iterator[Callable[[str, float], None]]:
    """The progress of a long run: a bar on a terminal, and a line wherever it runs when workers are lost."""
    from veilnet.cluster.running import LOST

    said: set[str] = set()
    with progress(what, total=1.0) as steps:

        def report(words: str, part: float) -> None:
            if words.endswith(LOST) and words not in said:
                said.add(words)
                _say(words)
            steps.update(part, what=words or what)

        yield report


def _say(words: str) -> None:
    sys.stderr.write(f"veilnet parts {words}\n")


def _in_words(found: Finding, public: str) -> list[object]:
    """One promise as ``veilnet verify`` tells it of a plan in one piece, but for the agents, which are counted."""
    from veilnet.cli._views import check_rows
    from veilnet.cluster.calls import AGENTS

    if found.what == AGENTS:
        return ["agents in all parts", f"{found.promised:,.0f}", f"{found.found:,.0f}", found.ok]
    return check_rows([found], public)[0]


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


def _demo_stacks(report: Callable[[str, float], None]) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    for number in range(_DEMO_PARTS):
        rng = np.random.default_rng([1, number])
        observe = rng.standard_normal((_DEMO_AGENTS, _DEMO_READINGS, _DEMO_PARAMETERS))
        root = 0.3 * rng.standard_normal((_DEMO_AGENTS, _DEMO_READINGS, _DEMO_READINGS))
        yield observe, root @ root.transpose(0, 2, 1) + np.eye(_DEMO_READINGS)
        report("", (number + 1) / _DEMO_PARTS)
