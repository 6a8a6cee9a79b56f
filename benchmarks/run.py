"""All benchmarks by one command: the paper's way against veilnet, and how both grow.

    python benchmarks/run.py [--quick] [--problem perfect] [--limit 60] [--out benchmarks/last.md]

Every row of a table was measured in the same run, on the same instance. The paper's way gets ``--limit`` seconds a
solve; what it has by then counts, and its status says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

try:
    from paper_way import PROBLEMS, Instance, Measurement
except ModuleNotFoundError as missing:
    if missing.name not in ("cvxpy", "clarabel", "scs"):
        raise
    sys.exit('benchmarks need the solvers of the paper: pip install ".[paper]" in the folder of its source')

BASE = Instance()
GROWTH: dict[str, tuple[Instance, ...]] = {
    "N": tuple(BASE._replace(readings=n) for n in (24, 36, 54, 72)),
    "L": tuple(BASE._replace(parameters=n) for n in (3, 6, 9, 12)),
    "S": tuple(BASE._replace(agents=n) for n in (3, 6, 12, 18)),
    "private": tuple(BASE._replace(private=n) for n in (1, 2, 4, 8)),
}
PAPER = Instance(readings=72, parameters=12, agents=12, public_rows=3)


def measurements(problems: Sequence[str], limit: float, *, quick: bool) -> Iterator[tuple[str, Measurement]]:
    """(what varies, measurement), as they come."""
    families = {"smallest of each": [BASE]} if quick else {**GROWTH, "the paper's size": (PAPER,)}
    seen: dict[tuple[str, Instance], list[Measurement]] = {}
    for family, instances in families.items():
        for instance in instances:
            for problem in problems:
                key = (problem, instance)
                if key in seen:
                    yield from ((family, each) for each in seen[key])
                    continue
                seen[key] = []
                for each in PROBLEMS[problem](instance, limit):
                    seen[key].append(each)
                    yield family, each


def row(family: str, each: Measurement) -> str:
    """One line of the table."""
    i = each.instance
    size = f"N={i.readings} L={i.parameters} S={i.agents} U={i.public_rows} J={i.private}"
    objective = "" if np.isnan(each.objective) else f"{each.objective:.6g}"
    seconds = "" if np.isnan(each.seconds) else f"{each.seconds:.3g}"
    return f"| {family} | {size} | {each.problem} | {each.way} | {seconds} | {objective} | {each.status} |"


def header() -> list[str]:
    """What the columns are, and where this was measured."""
    packages = []
    for name in ("veilnet", "numpy", "scipy", "cvxpy", "clarabel", "scs"):
        module = __import__(name)
        packages.append(f"{name} {getattr(module, '__version__', '?')}")
    return [
        f"Python {platform.python_version()}, {', '.join(packages)}, {platform.machine()}, one thread.",
        "Objective: total privacy for perfect utility and limited power (more is better), utility loss for "
        "Algorithm 3 and least loss (less is better); recomputed from what each way returns.",
        "",
        "| growing | instance | problem | way | seconds | objective | status |",
        "|---|---|---|---|---|---|---|",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small instance of each problem")
    parser.add_argument("--problem", action="append", choices=sorted(PROBLEMS), help="only this one (repeat)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each solve of the paper's way")
    parser.add_argument("--out", type=Path, help="Markdown file to write the table to")
    options = parser.parse_args(arguments)
    lines = header()
    print("\n".join(lines), flush=True)
    for family, each in measurements(options.problem or list(PROBLEMS), options.limit, quick=options.quick):
        lines.append(row(family, each))
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
