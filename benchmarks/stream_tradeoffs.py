"""Trade-offs on streams: what memory is worth, another optimiser, and time.

    python benchmarks/stream_tradeoffs.py [--models 6] [--only memory|optimiser|time]

Losses are utility losses, smaller is better; targets are the share filters' privacy (with hindsight) times 1.5.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet.designs.joint import SearchOptions  # noqa: E402
from veilnet.designs.streams.arrays import memories_of  # noqa: E402
from veilnet.designs.streams.tradeoff import StreamTradeoff  # noqa: E402
from veilnet.verdict.streams.exact_test import StreamVerdict, check_stream  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.stream_networks import random_stream  # noqa: E402
from helpers.stream_oracle import best_by_slsqp  # noqa: E402

WITHIN = 1.02
ABOVE = 1.5


def memoryless_loss(verdict: StreamVerdict, target: float) -> float:
    """The least loss that the same search finds over sanitizers without memory."""
    curve = StreamTradeoff(verdict, SearchOptions()).curve(np.ones(1), {})._plain
    shrink = curve._memoryless(curve._least_loss(target))
    assert shrink is not None
    return curve.objective(shrink).loss


def memory(models: int) -> bool:
    """Loss with memory and without, at the share filters' privacy and above it (L = 4, three agents)."""
    print(
        "\n| model | privacy asked | loss with memory | without | seconds |\n|---|---|---|---|---|",
        flush=True,
    )
    good = True
    for seed in range(models):
        network = random_stream(seed, sizes=(2, 2, 2), parameters=4, private_rows=(1,), radius=0.9)
        verdict = check_stream(network)
        for factor in (1.0, ABOVE):
            target = factor * verdict.ceiling["g0"]
            begun = time.process_time()
            plan = vn.design(network, privacy=target)
            spent = time.process_time() - begun
            without = memoryless_loss(verdict, target)
            good &= bool(-plan.utility <= without * (1 + 1e-6))
            print(
                f"| {seed} | {target:.4g} | {-plan.utility:.6f} | {without:.6f} | {spent:.1f} |", flush=True
            )
    return good


def optimiser(models: int) -> bool:
    """Designs beside the best of SLSQP from many starts over any two rows of each agent (L = 3, two agents)."""
    print("\n| model | privacy asked | loss | SLSQP's | ratio |\n|---|---|---|---|---|", flush=True)
    good = True
    for seed in range(models):
        network = random_stream(seed, sizes=(2, 2), parameters=3, private_rows=(1,))
        verdict = check_stream(network)
        target = ABOVE * verdict.ceiling["g0"]
        plan = vn.design(network, privacy=target)
        filters = memories_of(network, verdict.shares)
        memories = {a: vn.Memory(f.transition, f.gain) for a, f in zip(network.agents, filters, strict=True)}
        known = {
            a: np.hstack([f.share, np.zeros((len(f.share), f.gain.shape[1]))])
            for a, f in zip(network.agents, filters, strict=True)
        }
        other = best_by_slsqp(network, memories, target, rows=2, starts=6, seed=seed, known=known)
        ratio = -plan.utility / other
        good &= bool(ratio <= WITHIN)
        print(f"| {seed} | {target:.4g} | {-plan.utility:.6f} | {other:.6f} | {ratio:.4f} |", flush=True)
    return good


def durations() -> bool:
    """Seconds of one design, small and at the paper's size."""
    print("\n| L | agents | readings | seconds | loss | memoryless |\n|---|---|---|---|---|---|", flush=True)
    for length, sizes in ((4, (2,) * 3), (12, (6,) * 12)):
        network = random_stream(0, sizes=sizes, parameters=length, private_rows=(1,), radius=0.9)
        verdict = check_stream(network)
        target = ABOVE * verdict.ceiling["g0"]
        begun = time.process_time()
        plan = vn.design(network, privacy=target)
        spent = time.process_time() - begun
        without = memoryless_loss(verdict, target)
        print(
            f"| {length} | {len(sizes)} | {sum(sizes)} | {spent:.1f} | {-plan.utility:.6f} | {without:.6f} |",
            flush=True,
        )
    return True


def main() -> int:
    """Run what was asked; 1 where a figure misses what is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--only", choices=("memory", "optimiser", "time"))
    asked = parser.parse_args()
    parts = {
        "memory": lambda: memory(asked.models),
        "optimiser": lambda: optimiser(asked.models),
        "time": durations,
    }
    outcomes = [part() for name, part in parts.items() if asked.only in (None, name)]
    print(f"\nNever worse than memoryless, and within 2 % of the other optimiser: {all(outcomes)}")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
