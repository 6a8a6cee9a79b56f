"""What a pass over a network in parts costs per agent, here and by worker processes, and what that predicts.

    python benchmarks/parts.py [--parts 4] [--agents 10000] [--workers 2]

Agents of 4 readings, 32 parameters, 2 public rows. Processor time is that of this process, the passes done here; wall
time is that of the cluster's clock, so that whoever else works on the machine counts there. Messages are fused twice,
in FEW rows and in MANY: the difference is what a row costs, and what is left is what a call costs once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet import cluster  # noqa: E402
from veilnet._core.types import Array  # noqa: E402

READINGS, PARAMETERS = 4, 32
FEW, MANY = 4, 64
MISSING = 0.01  # of the messages in rows with gaps


def stacks(parts: int, agents: int) -> Iterator[tuple[Array, Array]]:
    """One stack after another; none is kept."""
    for number in range(parts):
        rng = np.random.default_rng([7, number])
        root = 0.3 * rng.standard_normal((agents, READINGS, READINGS))
        noise = root @ root.transpose(0, 2, 1) + np.eye(READINGS)
        yield rng.standard_normal((agents, READINGS, PARAMETERS)), noise


def running_costs(network: cluster.Parts, place: Path) -> list[tuple[str, float, float]]:
    """What it costs to sanitize, fuse and audit: processor microseconds an agent, and an agent and row."""
    folders = {rows: place / f"messages-{rows}" for rows in (FEW, MANY)}
    gaps = {rows: place / f"gaps-{rows}" for rows in (FEW, MANY)}
    calls: list[tuple[str, Callable[[int], object]]] = [
        ("sanitize", lambda rows: cluster.sanitize(network, readings(network, place, rows), folders[rows])),
        ("fuse", lambda rows: cluster.fuse(network, folders[rows])),
        ("fuse, 1 % missing", lambda rows: cluster.fuse(network, gaps[rows])),
        ("audit", lambda rows: cluster.audit(network, rows=rows)),
    ]
    found = []
    for what, call in calls:
        used = []
        for rows in (FEW, MANY):
            if what.endswith("missing"):
                with_gaps(folders[rows], gaps[rows])
            elif what == "sanitize":
                readings(network, place, rows)
            begun = time.process_time()
            call(rows)
            used.append(1e6 * (time.process_time() - begun) / network.agents)
        each = (used[1] - used[0]) / (MANY - FEW)
        found.append((what, used[0] - FEW * each, each))
    return found


def readings(network: cluster.Parts, place: Path, rows: int) -> Path:
    """A folder of readings of all agents; written once."""
    folder = place / f"readings-{rows}"
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(network.parts):
        if not (folder / part.name).exists():
            drawn = np.random.default_rng([9, number]).standard_normal((rows, part.agents, READINGS))
            np.savez(folder / part.name, readings=drawn)
    return folder


def with_gaps(messages: Path, gaps: Path) -> None:
    """The same messages, some of them missing."""
    shutil.copytree(messages, gaps)
    for number, path in enumerate(sorted(gaps.glob("part-*.npz"))):
        with np.load(path) as archive:
            sent, plan = archive["sent"], archive["plan"]
        sent[np.random.default_rng([10, number]).random(sent.shape) < MISSING / 2] = (
            np.nan
        )  # of two numbers each
        np.savez(path, sent=sent, plan=plan)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--agents", type=int, default=10_000, help="in each part")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    rows = np.random.default_rng(8).standard_normal((3, PARAMETERS))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "network"
        network = cluster.save_parts(
            folder, stacks(asked.parts, asked.agents), rows[:2], {"g": rows[2]}, vn.Prior(np.eye(PARAMETERS))
        )
        table = []
        for what, call in (
            ("design", cluster.design),
            ("design again", cluster.design),
            ("verify", cluster.verify),
        ):
            begun, started = time.process_time(), time.monotonic()
            call(network)
            table.append((f"{what}, here", time.process_time() - begun, time.monotonic() - started))
        alone = cluster.design(network).privacy
        per_row = running_costs(network, Path(place))
        with cluster.local_cluster(asked.workers) as client:
            shutil.rmtree(folder / "plan")
            started = time.monotonic()
            plan = cluster.design(network, client=client)
            table.append((f"design, {asked.workers} workers", float("nan"), time.monotonic() - started))
            started = time.monotonic()
            cluster.verify(network, client=client)
            table.append((f"verify, {asked.workers} workers", float("nan"), time.monotonic() - started))
        same = plan.privacy == alone
        size = sum(path.stat().st_size for path in folder.glob("part-*.npz"))
        written = sum(path.stat().st_size for path in (folder / "plan").rglob("*.npz"))
    print(f"{network.agents} agents in {asked.parts} parts, {size / network.agents:.0f} bytes each, "
          f"{written / network.agents:.0f} written; same bits on the cluster: {same}")  # fmt: skip
    print(f"{'':24}{'processor s':>12}{'us an agent':>13}{'wall s':>9}")
    for what, used, wall in table:
        print(f"{what:24}{used:12.2f}{1e6 * used / network.agents:13.2f}{wall:9.2f}")
    print(f"{'processor us, here':24}{'an agent':>12}{'and row':>13}")
    for what, once, each in per_row:
        print(f"{what:24}{once:12.2f}{each:13.3f}")


if __name__ == "__main__":
    main()
