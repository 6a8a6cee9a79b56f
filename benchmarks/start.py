"""How long the command takes to start, as ratios to ``python -c "import numpy"`` in the same run.

    python benchmarks/start.py

Each command is a process of its own; all take turns, and the least CPU time (user and system) and wall time of each
count. ``sanitize`` and ``fuse`` do their whole work, on one row. With noise the first draw loads scipy.special; the
last row is what the shell script adds to the same command, checking that the environment is current.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import veilnet as vn
from timing import markdown
from veilnet.io.template import house

TURNS = 9
ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "import numpy"


def commands(folder: Path) -> dict[str, list[str]]:
    """What is started: title -> command."""
    network = house()
    agent = network.agents[0]
    vn.design(network).save(folder / "exact")
    vn.design(network, power=1.0).save(folder / "noisy")
    names = ",".join(network.reading_names[agent])
    row = ",".join(map(repr, network.offset[network.blocks.rows(0)].tolist()))
    (folder / "readings.csv").write_text(f"{names}\n{row}\n", encoding="utf-8")
    veilnet = [sys.executable, "-m", "veilnet"]

    def sanitize(plan: str) -> list[str]:
        readings = str(folder / "readings.csv")
        messages = str(folder / f"{plan}.csv")
        return [
            *veilnet,
            "sanitize",
            str(folder / plan / f"{agent}.json"),
            "--in",
            readings,
            "--out",
            messages,
            "--again",
        ]

    subprocess.run(sanitize("exact"), check=True)
    found = {
        REFERENCE: [sys.executable, "-c", REFERENCE],
        "veilnet --help": [*veilnet, "--help"],
        "veilnet sanitize, exact": sanitize("exact"),
        "veilnet sanitize, with noise": sanitize("noisy"),
        "veilnet fuse": [
            *veilnet, "fuse", str(folder / "exact" / "center.json"), f"{agent}={folder / 'exact.csv'}",
            "--out", str(folder / "estimates.csv"),
        ],
        "veilnet check": [*veilnet, "check", str(folder / "house.toml")],
    }  # fmt: skip
    network.save(folder / "house.toml")
    if any((ROOT / ".venv").glob(".ready-*")):
        found["./veilnet --help"] = [str(ROOT / "veilnet"), "--help"]
    return found


def start(command: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of one process."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begun, os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return spent, wall


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        started = commands(Path(name))
        best = {title: (float("inf"), float("inf")) for title in started}
        for _ in range(TURNS):
            for title, command in started.items():
                spent, wall = start(command)
                best[title] = min(best[title][0], spent), min(best[title][1], wall)
    reference = best[REFERENCE][0]
    rows = [
        [f"`{title}`", f"{spent:.2f}", f"{wall:.2f}", f"{spent / reference:.2f}"]
        for title, (spent, wall) in best.items()
    ]
    print(markdown(["start", "CPU seconds", "wall seconds", "times `import numpy`"], rows))


if __name__ == "__main__":
    main()
