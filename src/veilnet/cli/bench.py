"""``veilnet bench``: every figure of the README, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# name -> (script, what it compares)
SCRIPTS = {
    "paper": ("run.py", "the same instances the paper's way (CVXPY with Clarabel and SCS) and ours"),
    "bounds": ("foundation.py", "bounds with bare NumPy lines"),
    "perfect": ("perfect.py", "the closed form with CVXPY"),
    "power": ("power_instances.py", "the power-limited design with CVXPY"),
    "tradeoff": ("tradeoff.py", "trade-offs with Algorithm 3 and random starts"),
    "structured": ("structured.py", "trade-offs on 200 networks as people write them with another optimiser"),
    "gap": ("gap.py", "trade-offs with what is proved to be the least loss"),
    "streams": ("streams.py", "sanitize and fuse with bare products"),
    "filters": ("filters.py", "agents with a memory and the centre's filter with bare filters"),
    "stream-models": (
        "stream_models.py",
        "share filters on 50 random streams by two evaluations, simulated rows and other mechanisms",
    ),
    "stream-speed": ("stream_speed.py", "steady states of streams with eigenvalue decompositions"),
    "stream-tradeoffs": (
        "stream_tradeoffs.py",
        "trade-offs on streams with memoryless ones and with another optimiser",
    ),
    "attackers": ("attackers.py", "learned attackers with the bound"),
    "memory": ("stream_attackers.py", "attackers with memory with the promise of stream plans"),
    "start": ("start.py", "the start of the command with that of NumPy"),
    "pages": ("pages.py", "reports of 5, 50 and 500 agents: making, size, and opening in a browser"),
    "drag": ("drag.py", "the studio's answers to someone who drags with designs from scratch"),
    "attacks": (
        "attacks.py",
        "what is left of files and streams that are killed, starved of room and swapped",
    ),
    "parts": ("parts.py", "what networks in parts cost per agent, here and by worker processes of a cluster"),
    "nasty": ("nasty_networks.py", "promises on networks that are hard on floating point with 120 digits"),
    "calibration": ("calibration_study.py", "what fitted networks state with what is true on simulated rows"),
    "drift": ("drift.py", "the gate's and the drift alarm's false alarms, and how soon a change is noticed"),
    "audit": (
        "audit_power.py",
        "the audit's verdicts on data with planted leaks, and its false alarms where promises hold",
    ),
    "many": ("many_agents.py", "a thousand to a million agents with a bare batched NumPy script"),
    "live-kills": ("live_kills.py", "a live network whose agent, broker and centre are killed at every step"),
    "live-load": ("live_load.py", "messages a second at the centre of a live network with a bare subscriber"),
    "lattice": ("lattice.py", "attacks on readings on a lattice, without and with dither"),
}
_WITHOUT_SOLVERS = ("start", "live-kills", "live-load")
LIST = "; ".join(f"{name}: {what}" for name, (_, what) in SCRIPTS.items())


def command(
    which: Annotated[
        str,
        typer.Argument(help=f"all, or one of them. {LIST}."),
    ] = "paper",
    quick: Annotated[
        bool, typer.Option("--quick", help="With paper and perfect: one small instance of each problem.")
    ] = False,
    limit: Annotated[
        float | None,
        typer.Option("--limit", help="With paper: seconds for each solve of the paper's way (60)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="With paper: Markdown file to write the table to.")
    ] = None,
) -> None:
    """Measure veilnet against other ways to do the same, as ratios in one run.

    The benchmarks are not part of the installed package; this runs them from the repository it was installed from.
    """
    import subprocess
    import sys
    from importlib.util import find_spec

    import veilnet
    from veilnet._core.errors import InvalidRequest, VeilnetError
    from veilnet._core.extras import missing_extra

    if which != "all" and which not in SCRIPTS:
        raise InvalidRequest(f"bench: expected {', '.join(SCRIPTS)} or all, found {which!r}")
    for option, value, heeding in (("--limit", limit, {"paper"}), ("--out", out, {"paper"}),
                                   ("--quick", quick or None, {"paper", "perfect"})):  # fmt: skip
        if value is not None and which not in heeding | {"all"}:
            raise InvalidRequest(
                f"{option}: goes with {' and '.join(sorted(heeding))} and has no effect with {which!r}; leave it out"
            )
    folder = Path(veilnet.__file__).resolve().parents[2] / "benchmarks"
    if not folder.is_dir():
        raise VeilnetError(
            "bench: the benchmarks are not part of an installed veilnet; get its source repository and run "
            "'./veilnet bench' there"
        )
    if which not in _WITHOUT_SOLVERS and any(
        find_spec(package) is None for package in ("cvxpy", "clarabel", "scs")
    ):
        raise missing_extra("the benchmarks compare with other solvers", "paper")
    for name, (script, _) in SCRIPTS.items():
        if which not in (name, "all"):
            continue
        arguments = [sys.executable, str(folder / script)]
        if name == "paper":
            arguments += ["--limit", repr(60.0 if limit is None else limit)]
            arguments += [] if out is None else ["--out", str(out)]
        if quick and name in ("paper", "perfect"):
            arguments.append("--quick")
        sys.stdout.flush()
        # Its own process: numpy must see the number of threads before it is loaded.
        code = subprocess.run(arguments, check=False).returncode
        if code:
            raise typer.Exit(code)
