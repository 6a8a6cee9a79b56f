"""How fast readings are sanitized and messages fused, as ratios to the bare NumPy line in the same run.

    OMP_NUM_THREADS=1 python benchmarks/streams.py

A ratio of 1 is the speed of the bare line, 0.5 half of it. The bare line for noisy rows draws from the same
secure source: ``y @ C.T + SystemNoise().normal(...)``. Rows without noise are dithered before rounding, so their line
is ``y @ C.T + step * SystemNoise().uniform(...)``; beside it the product alone, which protects nothing.

The last lines are of the commands, from file to file: rows a second, and what durability costs. With ``--store``
each block is on the disk before the next is read; with ``--flush`` a block is one row.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

import veilnet as vn
from veilnet import cli
from veilnet.agent.grid import grid_steps
from veilnet.agent.randomness import SystemNoise
from veilnet.io.template import house

ROWS = 200_000
REPEATS = 9


def ratio(bare: Callable[[], object], ours: Callable[[], object]) -> float:
    """Best CPU time of the bare line over ours, taken in turns so that a busy machine hurts both."""
    best = [np.inf, np.inf]
    for _ in range(REPEATS):
        for place, work in enumerate((bare, ours)):
            start = time.process_time()
            work()
            best[place] = min(best[place], time.process_time() - start)
    return float(best[0] / best[1])


def sanitizing(sent: int, readings: int, noisy: bool) -> None:
    """One agent's block of readings."""
    rng = np.random.default_rng(0)
    compression = rng.standard_normal((sent, readings))
    noise = np.ones(sent) if noisy else np.zeros(sent)
    step = grid_steps(compression @ compression.T + np.diag(noise))
    agent = vn.Sanitizer(compression, noise, grid=step, offset=rng.standard_normal(readings))
    block = rng.standard_normal((ROWS, readings))
    size = (ROWS, sent)

    def ours() -> object:
        return agent.sanitize(block)

    what = f"sanitize {readings:2d} readings -> {sent} {'noisy' if noisy else 'exact'} numbers"
    if noisy:
        print(f"{what}: {ratio(lambda: block @ compression.T + SystemNoise().normal(size), ours):5.2f}")
        return
    dithered = ratio(lambda: block @ compression.T + step * SystemNoise().uniform(size), ours)
    print(f"{what}: {dithered:5.2f}   (product alone: {ratio(lambda: block @ compression.T, ours):.3f})")


def fusing(name: str, network: vn.Network) -> None:
    """All agents' messages, complete and with gaps."""
    fusion = vn.Fusion(vn.design(network))
    rng = np.random.default_rng(0)
    stacked = rng.standard_normal((ROWS, fusion.model.blocks.total))
    gain = np.ascontiguousarray(fusion.model.complete.gain.T)
    cuts = np.cumsum(list(fusion.sent.values()))[:-1]
    parts = {
        a: np.ascontiguousarray(z) for a, z in zip(fusion.agents, np.split(stacked, cuts, 1), strict=True)
    }
    gains = dict(zip(fusion.agents, np.split(gain, cuts), strict=True))
    side_by_side = ratio(lambda: stacked @ gain, lambda: fusion.estimate(stacked))
    by_agent = ratio(lambda: sum(parts[a] @ gains[a] for a in parts), lambda: fusion.estimate(parts))
    print(f"fuse {name}: {side_by_side:5.2f} from one array, {by_agent:5.2f} from one per agent")
    one = stacked.copy()
    one[::10, : cuts[0]] = np.nan
    various = {agent: values.copy() for agent, values in parts.items()}
    for place, values in enumerate(various.values()):
        values[10 * place :: 10 * len(parts)] = np.nan
    print(
        f"  every tenth row with gaps: {ratio(lambda: stacked @ gain, lambda: fusion.estimate(one)):5.2f} from one "
        "array, the same agent missing; each agent in turn, from one per agent: "
        f"{ratio(lambda: sum(parts[a] @ gains[a] for a in parts), lambda: fusion.estimate(various)):5.2f}, and "
        f"{ratio(lambda: stacked @ gain, lambda: fusion.estimate(various)):5.2f} of the product of one array"
    )


def small_network() -> vn.Network:
    """Two agents of two readings each, whose shares are one number each."""
    return vn.Network(
        observe={"left": [[1.0, 0.6], [0.2, 1.0]], "right": [[1.0, -0.7], [0.1, 0.8]]},
        noise=0.3,
        public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.diag([9.0, 1.0])),
    )


def paper_network(agents: int) -> vn.Network:
    """A random network of the paper's size: 72 readings, 12 parameters, correlated noise."""
    rng = np.random.default_rng(1)
    root = rng.uniform(-0.5, 0.5, (72, 72))
    known = rng.uniform(-10, 10, (12, 12))
    rows = rng.uniform(-0.5, 0.5, (agents, 72 // agents, 12))
    return vn.Network(
        observe={f"a{k}": one for k, one in enumerate(rows)},
        noise=root @ root.T,
        public=rng.uniform(-0.5, 0.5, (3, 12)),
        private={"g": rng.uniform(-0.5, 0.5, (3, 12))},
        prior=vn.Prior(covariance=known @ known.T),
    )


def timed(*arguments: object, codes: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """Seconds of one command, which ends with one of these codes: by the clock, and of this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
        code = cli.run([str(argument) for argument in arguments])
    if code not in codes:
        sys.exit(f"{arguments[0]}: exit code {code}")
    return time.perf_counter() - clock, time.process_time() - cpu


def commands(rows: int, flushed: int) -> None:
    """``sanitize`` and ``fuse`` from file to file."""
    network = house()
    place = network.blocks.rows(network.position["kitchen"])
    centre = network.offset[place] + network.H[place] @ network.prior.mean  # type: ignore[union-attr]
    readings = centre + 0.01 * np.random.default_rng(0).standard_normal((rows, len(centre)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vn.design(network).save(folder / "plan")
        lines = [
            ",".join(network.reading_names["kitchen"]),
            *(",".join(map(repr, y)) for y in readings.tolist()),
        ]
        (folder / "all.csv").write_text("\n".join(lines) + "\n")
        (folder / "few.csv").write_text("\n".join(lines[: flushed + 1]) + "\n")
        sanitize = ["sanitize", folder / "plan/kitchen.json", "--in"]
        out, store = folder / "messages.csv", folder / "store"
        in_service = ["--out", out, "--store", store, "--again"]
        ways = {
            "sanitize --out": (rows, [*sanitize, folder / "all.csv", "--out", out, "--again"]),
            "fuse --out": (
                rows,
                ["fuse", folder / "plan/center.json", f"kitchen={out}", "--out", folder / "e.csv", "--json"],
            ),
            "sanitize --store": (rows, [*sanitize, folder / "all.csv", *in_service]),
            "  restarted, nothing new": (rows, [*sanitize, folder / "all.csv", *in_service]),
            "sanitize --store --flush": (flushed, [*sanitize, folder / "few.csv", *in_service, "--flush"]),
        }
        timed(*sanitize, folder / "few.csv", "--out", out)  # imports
        print(f"by the command, {rows} rows ({flushed} with --flush): rows a second by the clock, of one CPU")
        for what, (count, arguments) in ways.items():
            if not what.startswith(("fuse", " ")):
                out.unlink(missing_ok=True)
                store.unlink(missing_ok=True)
            clock, cpu = timed(*arguments)
            print(f"  {what:36s} {count / clock:10,.0f} {count / cpu:10,.0f}", flush=True)


def main() -> None:
    """Print every ratio."""
    for noisy in (True, False):
        for sent, readings in ((2, 4), (3, 6), (6, 12)):
            sanitizing(sent, readings, noisy)
    fusing("two rooms, 2 numbers -> 1", small_network())
    fusing("a house, 10 numbers -> 2", house())
    fusing("72 readings, 36 numbers -> 3", paper_network(12))
    commands(100_000, 2000)


if __name__ == "__main__":
    main()
