"""How fast agents with a memory sanitize and a centre filters, as ratios to bare NumPy filters in the same run.

    OMP_NUM_THREADS=1 python benchmarks/filters.py

The bare line at an agent: ``s = F @ s + K @ y; z = U @ s`` for each row; where numbers carry noise, all of it drawn
beforehand from the same secure source and added at once. At the centre, of complete rows: ``x = A @ x + G @ z`` with
the gain known. A ratio of 1 is the speed of the bare line; target 0.5. Then the commands, from file to file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import veilnet as vn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from streams import ratio, timed
from veilnet.agent.randomness import SystemNoise
from veilnet.io.sanitizer_files import save_sanitizer

ROWS = 20_000
TARGET = 0.5


def sanitizer(readings: int, order: int, sent: int, noise: float) -> vn.Sanitizer:
    """A share filter of random numbers, with noise where asked."""
    rng = np.random.default_rng(order)
    transition = rng.normal(size=(order, order))
    transition *= 0.9 / np.max(np.abs(np.linalg.eigvals(transition)))
    compression = np.concatenate([rng.normal(size=(sent, order)), np.zeros((sent, readings))], axis=1)
    return vn.Sanitizer(
        compression,
        noise * np.eye(sent),
        memory=vn.Memory(transition, rng.normal(size=(order, readings))),
        grid=2.0**-10,
        offset=rng.normal(size=readings),
        agent="kitchen",
    )


def sanitizing(readings: int, order: int, sent: int, noise: float) -> float:
    """One agent's block of readings; the ratio."""
    agent = sanitizer(readings, order, sent, noise)
    memory = agent.memory
    assert memory is not None
    F, K, U = memory.transition, memory.gain, np.ascontiguousarray(agent.compression[:, :order])
    block = np.random.default_rng(0).standard_normal((ROWS, readings))

    def bare() -> object:
        s, z = np.zeros(order), np.empty((ROWS, sent))
        for t, y in enumerate(block):
            s = F @ s + K @ y
            z[t] = U @ s
        return z + np.sqrt(noise) * SystemNoise().normal((ROWS, sent)) if noise else z

    found = ratio(bare, lambda: agent.stream().sanitize(block))
    kind = "noisy" if noise else "exact"
    print(
        f"sanitize {readings:2d} readings, {order:2d} kept -> {sent} {kind} numbers: {found:6.2f}", flush=True
    )
    return found


def fusing(network: vn.Network, what: str) -> float:
    """All agents' messages; the ratio of complete rows."""
    plan = vn.design(network)
    fusion = vn.Fusion(plan)
    stacked = np.random.default_rng(1).standard_normal((ROWS, fusion.model.blocks.total))
    size = fusion.model.size
    A, G, U = 0.5 * np.eye(size), np.ones((size, stacked.shape[1])), fusion.model.public

    def bare() -> object:
        x, u = np.zeros(size), np.empty((ROWS, len(U)))
        for t, z in enumerate(stacked):
            x = A @ x + G @ z
            u[t] = U @ x
        return u

    fusion.estimate(stacked[:500])
    found = ratio(bare, lambda: fusion.estimate(stacked))
    gappy = stacked[:2000].copy()
    first = fusion.model.blocks.rows(0)
    gappy[::50, first] = np.nan
    seldom = ratio(bare, lambda: fusion.estimate(gappy)) / 10
    gappy[np.random.default_rng(2).random(len(gappy)) < 0.3, first] = np.nan
    often = ratio(bare, lambda: fusion.estimate(gappy)) / 10
    lagged = ratio(bare, lambda: fusion.smooth(stacked, lag=10))
    print(
        f"fuse {what}, {size} numbers of state: {found:6.2f} complete, {seldom:.3f} with a message lost in every "
        f"50th row, {often:.3f} lost at random in 3 of 10, {lagged:.3f} complete with a lag of 10",
        flush=True,
    )
    return found


def commands(rows: int, flushed: int) -> None:
    """``sanitize`` from file to file, the memory safely on the disk before every block that is sent."""
    agent = sanitizer(4, 4, 2, 0.0)
    readings = np.random.default_rng(0).standard_normal((rows, 4))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_sanitizer(agent, folder / "kitchen.json", "5eed" * 16)
        lines = [f"{k + 1},{','.join(map(repr, y))}\n" for k, y in enumerate(readings.tolist())]
        (folder / "all.csv").write_text("row,a,b,c,d\n" + "".join(lines))
        (folder / "few.csv").write_text("row,a,b,c,d\n" + "".join(lines[:flushed]))
        out, store = folder / "sent.csv", folder / "kitchen.sqlite"
        begin = ["sanitize", folder / "kitchen.json", "--out", out, "--store", store, "--again", "--in"]
        timed(*begin, folder / "few.csv")  # imports
        print(f"by the command, {rows} rows ({flushed} with --flush): rows a second by the clock, of one CPU")
        for what, count, arguments in (
            ("sanitize --store, with a memory", rows, [*begin, folder / "all.csv"]),
            ("sanitize --store --flush, with a memory", flushed, [*begin, folder / "few.csv", "--flush"]),
        ):
            out.unlink(missing_ok=True)
            store.unlink()
            clock, cpu = timed(*arguments)
            print(f"  {what:42s} {count / clock:10,.0f} {count / cpu:10,.0f}", flush=True)


def stream(agents: int, readings: int, parameters: int) -> vn.Network:
    """A random stable stream."""
    rng = np.random.default_rng(agents)
    transition = rng.normal(size=(parameters, parameters))
    transition *= 0.9 / np.max(np.abs(np.linalg.eigvals(transition)))
    return vn.Network(
        observe={f"a{k}": rng.normal(size=(readings, parameters)) for k in range(agents)},
        noise=np.ones(agents * readings),
        public=rng.normal(size=(1, parameters)),
        private={"g": rng.normal(size=(1, parameters))},
        dynamics=vn.Dynamics(transition, np.eye(parameters)),
    )


def main() -> int:
    """Print every ratio; the exit code says whether agents meet the target."""
    found = [
        sanitizing(readings, order, sent, noise)
        for noise in (1.0, 0.0)
        for readings, order, sent in ((2, 2, 1), (4, 4, 2), (6, 12, 3))
    ]
    fusing(stream(3, 2, 3), "3 agents")
    fusing(stream(6, 3, 4), "6 agents")
    commands(100_000, 1000)
    return 0 if min(found) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
