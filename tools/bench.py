"""Measures every figure of the documentation, as ratios in one run; ``./veilnet bench`` runs this in a clone.

    python tools/bench.py [NAME] [--quick] [--update-docs] [--limit SECONDS] [--data FOLDER] [--out FILE]

Each benchmark is a script of the folder ``benchmarks``, named in a table here with its quick form.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ON_DATA = {
    "office": "examples/office.py",
    "logs": "benchmarks/logs.py",
    "wearables": "benchmarks/wearables.py",
}
"""The benchmarks that need --data, and what says where to get it."""
ROOT = Path(__file__).resolve().parents[1]
QUIET = 2.0  # the load above which times say more of the other programs than of veilnet


class Benchmark(NamedTuple):
    """``script`` in the folder of the benchmarks; ``quick`` are the arguments of a form of a minute or two."""

    script: str
    compares: str
    quick: tuple[str, ...] = ()


BENCHMARKS = {
    "paper": Benchmark(
        "run.py",
        "the same instances the paper's way (CVXPY with Clarabel and SCS) and ours",
        ("--quick",),
    ),
    "house": Benchmark("house.py", "what the demo's house tells before and after"),
    "office": Benchmark(
        "../examples/office.py", "attackers on a real log with attackers on what is sent of it"
    ),
    "logs": Benchmark(
        "logs.py", "what the model says of real logs with what detectors learn from them", ("--quick",)
    ),
    "bounds": Benchmark("foundation.py", "bounds with bare NumPy lines"),
    "perfect": Benchmark("perfect.py", "the closed form with CVXPY", ("--quick",)),
    "sum-privacy": Benchmark("sum_groups.py", "shares with sums of groups of agents", ("--quick",)),
    "power": Benchmark("power_instances.py", "the power-limited design with CVXPY", ("--count", "2")),
    "tradeoff": Benchmark(
        "tradeoff.py",
        "trade-offs with Algorithm 3 and random starts",
        ("--networks", "20", "--only", "quality"),
    ),
    "structured": Benchmark(
        "structured.py",
        "trade-offs on 200 networks as people write them with another optimiser",
        ("--networks", "3", "--starts", "8", "--grid", "5"),
    ),
    "gap": Benchmark(
        "gap.py",
        "trade-offs with what is proved to be the least loss",
        (
            "--small",
            "10",
            "--paper",
            "1",
            "--structured",
            "6",
            "--seconds",
            "10",
            "--digits",
            "15",
            "--starts",
            "4",
        ),
    ),
    "streams": Benchmark("streams.py", "sanitize and fuse with bare products"),
    "filters": Benchmark("filters.py", "agents with a memory and the centre's filter with bare filters"),
    "stream-models": Benchmark(
        "stream_models.py",
        "share filters on 50 random streams by two evaluations, simulated rows and other mechanisms",
        ("--quick",),
    ),
    "gaps": Benchmark(
        "gaps.py", "what gaps leave of the promise of stream plans with what they state", ("--models", "6")
    ),
    "stream-house": Benchmark(
        "stream_house.py",
        "a stream as large as a real house with a bare Kalman filter, and what the gate costs on honest rows",
        ("--quick", "--only", "filter,gate"),
    ),
    "stream-speed": Benchmark("stream_speed.py", "steady states of streams with eigenvalue decompositions"),
    "stream-tradeoffs": Benchmark(
        "stream_tradeoffs.py",
        "trade-offs on streams with memoryless ones and with another optimiser",
        ("--models", "1", "--only", "memory"),
    ),
    "symbols": Benchmark(
        "symbols.py",
        "the bound on what symbols tell with known laws, and symbols with a linear plan where that is best",
        ("--quick",),
    ),
    "sums": Benchmark(
        "sums.py",
        "sums under masks with plain messages, and with plain sums while agents drop out",
        ("--quick",),
    ),
    "wearables": Benchmark(
        "wearables.py",
        "symbols of body-worn units with six attackers, and with persons left out",
        ("--quick",),
    ),
    "devices": Benchmark(
        "devices.py",
        "exported agents with veilnet's own, number by number, and their size",
        ("--rows", "2000"),
    ),
    "attackers": Benchmark(
        "attackers.py", "learned attackers with the bound", ("--plans", "4", "--rows", "10000")
    ),
    "memory": Benchmark(
        "stream_attackers.py",
        "attackers with memory with the promise of stream plans",
        ("--plans", "2", "--rows", "10000"),
    ),
    "start": Benchmark("start.py", "the start of the command with that of NumPy"),
    "pages": Benchmark("pages.py", "reports of 5, 50 and 500 agents: making, size, and opening in a browser"),
    "drag": Benchmark(
        "drag.py",
        "the studio's answers to someone who drags with designs from scratch",
        ("--steps", "6"),
    ),
    "attacks": Benchmark(
        "attacks.py",
        "what is left of files and streams that are killed, starved of room and swapped",
        ("--quick",),
    ),
    "parts": Benchmark(
        "parts.py",
        "what networks in parts cost per agent, here and by worker processes of a cluster",
        ("--parts", "2", "--agents", "5000"),
    ),
    "nasty": Benchmark(
        "nasty_networks.py",
        "promises on networks that are hard on floating point with 120 digits",
        ("--networks", "20"),
    ),
    "calibration": Benchmark(
        "calibration_study.py",
        "what fitted networks state with what is true on simulated rows",
        ("--networks", "10"),
    ),
    "drift": Benchmark(
        "drift.py",
        "the gate's and the drift alarm's false alarms, and how soon a change is noticed",
        ("--quick",),
    ),
    "audit": Benchmark(
        "audit_power.py",
        "the audit's verdicts on data with planted leaks, and its false alarms where promises hold",
        ("--alarms", "8", "--seeds", "1"),
    ),
    "many": Benchmark(
        "many_agents.py",
        "a thousand to a million agents with a bare batched NumPy script",
        ("--sizes", "1000", "100000", "--tradeoff", "1000", "--power", "10000"),
    ),
    "many-streams": Benchmark(
        "many_streams.py",
        "streams of a thousand to a hundred thousand agents, from arrays to estimates, with a filter of raw readings",
        ("--sizes", "1000", "10000"),
    ),
    "live-kills": Benchmark(
        "live_kills.py",
        "a live network whose agent, broker and centre are killed at every step",
        ("--kills", "12"),
    ),
    "sum-kills": Benchmark(
        "sum_kills.py",
        "sums over a broker with the plain sums, while rooms, broker and centre are killed at every step",
        ("--kills", "8"),
    ),
    "live-standby": Benchmark(
        "live_standby.py",
        "a centre, its standby and the broker killed in turn while readings come",
        ("--kills", "6"),
    ),
    "partial-sums": Benchmark(
        "partial_sums.py",
        "sums of parts of the agents, in a loop and on Bytewax, with the live centre",
        ("--agents", "50", "--epochs", "50"),
    ),
    "live-load": Benchmark(
        "live_load.py",
        "messages a second at the centre of a live network with a bare subscriber",
        ("--messages", "20000"),
    ),
    "lattice": Benchmark(
        "lattice.py",
        "attacks on readings on a lattice, without and with dither",
        ("--networks", "1", "--rows", "200"),
    ),
}


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; the exit code of the first benchmark that fails, or 1 if figures were not updated."""
    given = _read(words)
    # one thread for everyone, said before numpy is loaded
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
    failed = []
    for name in BENCHMARKS if given.which == "all" else (given.which,):
        if name in ON_DATA and given.data is None:
            print(
                f"{name}: left out, for want of --data FOLDER; what was measured earlier stays",
                file=sys.stderr,
            )
            continue
        if given.which == "all":
            print(f"\n== {name}: {BENCHMARKS[name].compares}", flush=True)
        code = subprocess.run(_command(name, given), check=False, env=environment).returncode
        if code and not (given.update_docs and given.which == "all"):
            return code
        if code:
            failed.append(name)
    if given.update_docs:
        subprocess.run([sys.executable, str(ROOT / "tools" / "figures.py"), "render"], check=True)
    if failed:
        print(f"not updated, since they failed or took too long: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _read(words: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for; an option that would have no effect is refused."""
    compared = "\n".join(f"  {name:<17} {each.compares}" for name, each in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="./veilnet bench",
        description="Measure veilnet against other ways to do the same, as ratios in one run.",
        epilog=f"benchmarks:\n{compared}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("which", nargs="?", default="paper", choices=("all", *BENCHMARKS), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="the form of a minute or two")
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="keep what is found in docs/figures and write it into README and documentation; with all: quick forms",
    )
    parser.add_argument(
        "--limit",
        type=float,
        help="seconds: with paper, for each solve (60); with --update-docs, for each run (900)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="with office: the folder of training.csv, test2.csv; with others: of their logs",
    )
    parser.add_argument("--out", type=Path, help="with paper: Markdown file to write the table to")
    given = parser.parse_args(words)
    if given.update_docs and (load := os.getloadavg()[0]) > QUIET:
        parser.error(
            f"--update-docs: figures are published from a quiet machine, and the load is {load:.1f} (at most "
            f"{QUIET:g}); wait until other programs have ended, or leave it out"
        )
    effective = {
        "quick": {name for name, each in BENCHMARKS.items() if each.quick},
        "limit": set(BENCHMARKS) if given.update_docs else {"paper"},
        "data": set(ON_DATA),
        "out": {"paper"},
    }
    for option, names in effective.items():
        if getattr(given, option) and given.which not in names | {"all"}:
            parser.error(f"--{option}: has no effect with {given.which}; leave it out")
    if given.which in ON_DATA and given.data is None:
        parser.error(
            f"--data: expected the folder of {given.which}; {ON_DATA[given.which]} says where to get it"
        )
    return given


def _command(name: str, given: argparse.Namespace) -> list[str]:
    """What runs a benchmark in a process of its own: numpy must see the number of threads before it is loaded."""
    quick = BENCHMARKS[name].quick if given.quick or (given.which == "all" and given.update_docs) else ()
    arguments = [sys.executable, str(ROOT / "benchmarks" / BENCHMARKS[name].script)]
    if name == "paper":
        limit = None if given.update_docs else given.limit
        arguments += ["--limit", repr((20.0 if quick else 60.0) if limit is None else limit)]
        arguments += [] if given.out is None else ["--out", str(given.out)]
    if name in ON_DATA:
        arguments.append(str(given.data))
    arguments += quick
    if not given.update_docs:
        return arguments
    told = f"./veilnet bench {name}" + " --quick" * bool(quick) + " --data FOLDER" * (name in ON_DATA)
    seconds = repr(900.0 if given.limit is None else given.limit)
    return [
        sys.executable,
        str(ROOT / "tools" / "figures.py"),
        "measure",
        name,
        told,
        seconds,
        "--",
        *arguments,
    ]


if __name__ == "__main__":
    sys.exit(main())
