"""Learned attackers against the bound, on 50 random plans.

    python benchmarks/attackers.py [--plans 50] [--first 0] [--rows 30000]

Networks of every kind (with and without a prior, correlated and independent noise), designed in every way. On
each, ridge, nearest neighbours, boosting and a small neural network learn every private parameter from sanitized
messages. Printed: how often one of them beat the bound beyond the false-alarm rate (never, or the bound is
wrong), how close the closest came, and what the same attackers get from raw readings.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import veilnet as vn
from helpers.networks import NOISES, random_network
from veilnet._core.threads import one_thread
from veilnet.auditing.attack.attackers import attacker_rows, choose_attackers
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.statistics import FALSE_ALARM, part_of
from veilnet.auditing.worlds import world_of

PRIORS = ("covariance", "none", "singular")


def random_plan(seed: int) -> vn.Plan:
    """A plan of one of the four kinds for a network of one of the twelve kinds."""
    network = random_network(
        seed,
        noise=NOISES[seed % 4],
        prior=PRIORS[seed % 3],
        sizes=(3, 4, 2, 3),
        parameters=5,
        public_rows=1 + seed % 2,
    )
    ceiling = vn.check(network).ceiling
    limit = vn.privacy_limit(network)
    kind = (seed // 4) % 4
    if kind == 0:
        return vn.design(network)
    if kind == 1:
        return vn.design(network, power=float(10 ** (seed % 3)))
    if kind == 2:
        return vn.design(network, utility_loss=0.3)
    asked = {
        name: min(ceiling[name] + 2.0, 0.5 * (ceiling[name] + limit[name]))
        if np.isfinite(ceiling[name])
        else 10.0
        for name in ceiling
    }
    return vn.design(network, privacy=asked)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=30_000)
    options = parser.parse_args()
    chance = part_of("attackers", FALSE_ALARM) / options.plans
    ratios: dict[str, list[float]] = defaultdict(list)
    raw: dict[str, list[float]] = defaultdict(list)
    closest: list[float] = []
    beaten = 0
    started = time.perf_counter()
    with one_thread():
        for seed in range(options.first, options.first + options.plans):
            try:
                plan = random_plan(seed)
            except vn.VeilnetError as error:
                print(f"plan {seed}: no plan ({error}); the closed form is taken instead", flush=True)
                plan = vn.design(random_network(seed, noise=NOISES[seed % 4], prior=PRIORS[seed % 3]))
            attackers, world = choose_attackers("auto", False), world_of(plan.network)
            running = deployment(plan, None)
            rows = attacker_rows(world, running, attackers, options.rows, seed, chance, lambda _: None)
            beaten += sum(row.verdict == "fail" for row in rows)
            best: dict[str, float] = {}
            for row in rows:
                label, name = row.what.split(" on ")
                ratio = float(row.found or 0.0) / float(row.promised or np.nan)
                ratios[label].append(ratio)
                raw[label].append(row.figures["from raw readings"] / row.figures["raw bound"])
                best[name] = min(best.get(name, np.inf), ratio)
            closest += best.values()
            print(f"plan {seed}: {plan.method}, closest {max(best.values()):.3f} of the bound", flush=True)
    print(f"\n{options.plans} plans, {options.rows} rows each, {time.perf_counter() - started:.0f} s")
    print(f"bound beaten beyond the false-alarm rate ({chance:.0e} a plan): {beaten} times")
    print(f"best attacker, error / bound: {min(closest):.3f} to {max(closest):.3f}")
    print(f"parameters where the best attacker is within 10 %: {np.mean(np.array(closest) < 1.1):.0%}")
    print(f"{'attacker':12} {'least':>8} {'median':>8} {'most':>8} {'from raw':>8}")
    for label, values in ratios.items():
        figures = (min(values), np.median(values), max(values), np.median(raw[label]))
        print(f"{label:12} " + " ".join(f"{figure:8.3f}" for figure in figures))


if __name__ == "__main__":
    main()
