"""The benchmarks by name: which script of the folder ``benchmarks``, what it compares, its quick form."""

from __future__ import annotations

from typing import NamedTuple


class Benchmark(NamedTuple):
    """``script`` in the folder of the benchmarks; ``quick`` are the arguments of a form of a minute or two."""

    script: str
    compares: str
    quick: tuple[str, ...] = ()

    @property
    def is_always_quick(self) -> bool:
        """Whether there is only one form, a quick one."""
        return not self.quick


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
    "bounds": Benchmark("foundation.py", "bounds with bare NumPy lines"),
    "perfect": Benchmark("perfect.py", "the closed form with CVXPY", ("--quick",)),
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
        "gap.py", "trade-offs with what is proved to be the least loss", ("--small", "3", "--paper", "0")
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
    "stream-speed": Benchmark("stream_speed.py", "steady states of streams with eigenvalue decompositions"),
    "stream-tradeoffs": Benchmark(
        "stream_tradeoffs.py",
        "trade-offs on streams with memoryless ones and with another optimiser",
        ("--models", "1", "--only", "memory"),
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
LIST = "; ".join(f"{name}: {each.compares}" for name, each in BENCHMARKS.items())
