"""What a pass over a network in parts costs per agent, here and by worker processes, and what that predicts.

    python benchmarks/parts.py [--parts 4] [--agents 10000] [--workers 2]

Agents of 4 readings, 32 parameters, 2 public rows. Processor time is that of this process, the passes done here; wall
time is that of the cluster's clock, so that whoever else works on the machine counts there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet import cluster  # noqa: E402
from veilnet._core.types import Array  # noqa: E402

READINGS, PARAMETERS = 4, 32


def stacks(parts: int, agents: int) -> Iterator[tuple[Array, Array]]:
    """One stack after another; none is kept."""
    for number in range(parts):
        rng = np.random.default_rng([7, number])
        root = 0.3 * rng.standard_normal((agents, READINGS, READINGS))
        noise = root @ root.transpose(0, 2, 1) + np.eye(READINGS)
        yield rng.standard_normal((agents, READINGS, PARAMETERS)), noise


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


if __name__ == "__main__":
    main()
