"""How soon the studio answers someone who drags: the paper's size, the house, and a design from scratch beside them.

    python benchmarks/drag.py [--steps 60]

A hand drags one private parameter from what is free to nine tenths of the way to its limit (in logarithms), then the
public error. An answer is what the server does for it: the plan beside known ones, its recheck, and every picture of
the page. The frontier has been traced before, as it is after the first seconds of a visit; "cold" has none. A loss is
compared with the one of a design from scratch for the same privacy, at every tenth step.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import veilnet as vn  # noqa: E402
from helpers.paper_networks import paper_network  # noqa: E402
from timing import markdown  # noqa: E402
from veilnet.io.template import house  # noqa: E402
from veilnet.studio.views import view  # noqa: E402
from veilnet.studio.workbench import Workbench  # noqa: E402

REACH = 0.9


def dragged(network: vn.Network, steps: int, *, cold: bool) -> list[str]:
    """One row: how long answers take, and how much dearer they are than designs."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder))
        bench.load("network.toml", network)
        if cold:
            bench.cancel("trace")
        else:
            bench.jobs["trace"].wait(600)
        name, verdict = list(network.private)[-1], bench.now.verdict
        low, high = np.log1p(verdict.ceiling[name]), np.log1p(verdict.limit[name])
        levels = np.expm1(low + REACH * np.linspace(0, 1, steps + 1)[1:] * (high - low))
        seconds, dearer, designs = [], [], []
        for place, level in enumerate(levels):
            seconds.append(answered(bench, {"privacy": {name: float(level)}}))
            if place % 10 == 5:
                begun = time.process_time()
                best = vn.design(network, privacy={name: float(level)})
                designs.append(time.process_time() - begun)
                dearer.append(bench.now.plan.utility / best.utility - 1)
        seconds += [answered(bench, {"loss": float(loss)}) for loss in np.geomspace(0.01, 1.0, steps)]
        bench.close()
    middle, late = np.percentile(seconds, [50, 95])
    return [
        f"{1000 * middle:.0f} ms, {1000 * late:.0f} ms",
        f"{np.median(designs):.2f} s",
        f"{late / np.median(designs):.3f}",
        f"{100 * np.median(dearer):.2g} %, {100 * np.max(dearer):.2g} %",
    ]


def answered(bench: Workbench, question: dict[str, object]) -> float:
    """CPU seconds of one answer with everything that is shown."""
    begun = time.process_time()
    bench.ask(question)
    view(bench)
    return time.process_time() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    cases = {
        "the house": (house(), False),
        "paper, S = 9": (paper_network(3, 9, 2, prior=True), False),
        "paper, S = 18": (paper_network(7, 18, 2, prior=True), False),
        "paper, S = 18, cold": (paper_network(7, 18, 2, prior=True), True),
    }
    rows = [[name, *dragged(network, steps, cold=cold)] for name, (network, cold) in cases.items()]
    heads = [
        "network",
        "an answer: median, 95 %",
        "a design",
        "ratio (95 %)",
        "dearer than a design: median, most",
    ]
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
