"""How much of a trade-off's loss is proved to be needed: small networks of every kind, and the paper's size.

    python benchmarks/gap.py [--small 60] [--paper 4] [--gap 0.01]

Small: L in 3..5, S in 2..5 agents of 1 to 3 readings, one or two public rows, one private parameter of one or
two rows or two of one, no, singular or full prior, noise independent or correlated between agents. The paper's
size: L = 12, N = 72, drawn as in its section VII with each agent's noise independent of the others', S in {6,
12, 18}, one or three public rows, one private row, privacy a quarter, a half or three quarters of the way from the
ceiling to its limit (p = 3.5, 6 or 8.5 times 1 + ceiling where there is none). A gap of 1 % says that the loss is
at most 1 % above the least possible; inf says that nothing was proved. Times are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet.designs.proved import proved_plan  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.networks import random_network  # noqa: E402
from helpers.paper_networks import as_network, paper_arrays  # noqa: E402


class Instance(NamedTuple):
    """A network, what it is, and the privacy asked of it."""

    family: str
    words: str
    network: vn.Network
    target: float


class Outcome(NamedTuple):
    """What was measured on one instance."""

    instance: Instance
    loss: float
    gap: float
    design_seconds: float
    proof_seconds: float


def small(count: int) -> Iterator[Instance]:
    """Networks whose privacy is not free, ``count`` with independent noise and half as many with correlated."""
    for noise, wanted in (("per agent", count), ("joint", count // 2)):
        found, seed = 0, 0
        while found < wanted:
            seed += 1
            rng = np.random.default_rng([seed, 12])
            parameters = int(rng.integers(3, 6))
            sizes = [int(size) for size in rng.integers(1, 4, int(rng.integers(2, 6)))]
            prior = ("none", "singular", "covariance")[int(rng.integers(3))]
            private = ((1,), (1,), (2,), (1, 1))[int(rng.integers(4))]
            try:
                network = random_network(
                    seed,
                    noise=noise,
                    prior=prior,
                    sizes=sizes,
                    parameters=parameters,
                    public_rows=int(rng.integers(1, 3)),
                    private_rows=private,
                )
            except vn.NotObservable:
                continue
            target = costly(network, float(rng.uniform(0.1, 0.9)))
            if target is not None:
                found += 1
                words = f"L={parameters} n={sizes} U={len(network.U)} G={list(private)} prior {prior}"
                family = "small, independent" if noise == "per agent" else "small, correlated"
                yield Instance(family, words, network, target)


def paper_size(count: int) -> Iterator[Instance]:
    """The paper's size with independent noise and one private row."""
    for seed in range(count):
        for agents, public_rows, prior in (
            (6, 1, True),
            (12, 1, True),
            (12, 3, True),
            (18, 1, False),
            (18, 3, False),
        ):
            arrays = paper_arrays(seed, agents, public_rows, prior, independent=True)
            network = as_network(arrays._replace(private=tuple(rows[:1] for rows in arrays.private)))
            part = (0.25, 0.5, 0.75)[seed % 3]
            target = costly(network, part)
            if target is not None:
                words = f"S={agents} U={public_rows} prior {'full' if prior else 'none'} part {part:g}"
                yield Instance("paper's size", words, network, target)


def costly(network: vn.Network, part: float) -> float | None:
    """A privacy that is not free: between ceiling and limit, or above the ceiling; None where all privacy is free."""
    verdict = vn.check(network)
    ceiling, limit = max(verdict.ceiling.values()), min(verdict.limit.values())
    if not np.isfinite(ceiling) or limit < ceiling * (1 + 1e-6):
        return None
    return float(
        ceiling + part * (limit - ceiling) if np.isfinite(limit) else (1 + ceiling) * (1 + 10 * part)
    )


def measure(instance: Instance, gap: float) -> Outcome:
    """Design, then prove."""
    begun = time.process_time()
    plan = vn.design(instance.network, privacy=instance.target)
    designed = time.process_time()
    plan = proved_plan(plan, gap)
    return Outcome(instance, -plan.utility, plan.gap, designed - begun, time.process_time() - designed)


def summary(outcomes: list[Outcome], gap: float) -> list[str]:
    """One line per family: how much was proved, and in what time."""
    lines = [
        "",
        f"| family | networks | gap <= {100 * gap:g} % | <= 5 % | <= 25 % | nothing proved | median gap "
        "| median CPU s to design | to prove | most |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(each.instance.family for each in outcomes):
        mine = [each for each in outcomes if each.instance.family == family]
        gaps = np.array([each.gap for each in mine])
        shares = [f"{100 * np.mean(gaps <= level):.0f} %" for level in (gap * (1 + 1e-9), 0.05, 0.25)]
        nothing = f"{100 * np.mean(np.isinf(gaps)):.0f} %"
        proving = [each.proof_seconds for each in mine]
        lines.append(
            f"| {family} | {len(mine)} | {' | '.join(shares)} | {nothing} | {100 * np.median(gaps):.2g} % "
            f"| {np.median([each.design_seconds for each in mine]):.2g} "
            f"| {np.median(proving):.2g} | {max(proving):.2g} |"
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", type=int, default=60, help="small networks with independent noise")
    parser.add_argument("--paper", type=int, default=4, help="draws of the paper's size")
    parser.add_argument("--gap", type=float, default=0.01, help="the gap to prove")
    options = parser.parse_args()
    outcomes = []
    print(
        "| family | network | loss | gap (%) | design (CPU s) | proof (CPU s) |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for instance in (*small(options.small), *paper_size(options.paper)):
        each = measure(instance, options.gap)
        outcomes.append(each)
        print(
            f"| {instance.family} | {instance.words} | {each.loss:.4g} | {100 * each.gap:.3g} "
            f"| {each.design_seconds:.2g} | {each.proof_seconds:.2g} |",
            flush=True,
        )
    print("\n".join(summary(outcomes, options.gap)))


if __name__ == "__main__":
    main()
