"""Attackers with memory against the promise of stream plans, and other protections beside it, on random streams.

    python benchmarks/stream_attackers.py [--plans 20] [--first 0] [--rows 20000]

Streams with white, correlated, coloured and dithered noise, and random walks; share filters with and without noise.
Each is attacked by the best linear estimator with memory (now, and with hindsight) and by ridge regression on the
messages of many rows. Printed for each: the window that was needed, mean square errors over what was promised (the
public one now, the private one with hindsight and now), how close ridge regression came to its bound, and the utility
that the plan, noise on every reading and a trusted aggregator cost at the plan's privacy.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from aggregate_design import trusted_aggregate
from helpers.stream_plans import Kind, noisy_stream_plan, stream_network
from veilnet._core.threads import one_thread
from veilnet.auditing.attack.attackers import attacker_rows, choose_attackers
from veilnet.auditing.baselines import EVERY_READING, baselines
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.promise import simulation_rows
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, part_of
from veilnet.auditing.worlds import world_of

KINDS: tuple[Kind, ...] = ("white", "joint", "coloured", "dithered", "walk")


def main() -> None:
    """Every plan, and a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=20_000)
    asked = parser.parse_args()
    close, costs = [], []
    alarms = 0
    with one_thread():
        for seed in range(asked.first, asked.first + asked.plans):
            began = time.perf_counter()
            kind = KINDS[seed % len(KINDS)]
            plan = noisy_stream_plan(stream_network(seed, kind), noise=(0.0, 0.3)[seed // len(KINDS) % 2])
            running, world = deployment(plan, None), world_of(plan.network)
            chance = part_of(Section.PROMISE, FALSE_ALARM)
            solved = world.second_route(running.planned)
            judged = simulation_rows(world, running, chance, seed, asked.rows, _quiet)
            learned = attacker_rows(
                world,
                running,
                choose_attackers(["ridge"], quick=False),
                asked.rows,
                seed,
                part_of(Section.ATTACKERS, FALSE_ALARM),
                _quiet,
            )
            alarms += sum(row.verdict == "fail" for row in [*solved, *judged, *learned])
            parts = [float(row.found) / float(row.promised) for row in judged]  # type: ignore[arg-type]
            ridge = float(learned[0].found) / float(learned[0].promised)  # type: ignore[arg-type]
            close.append(ridge)
            window = solved[0].figures["window"]
            words = ", ".join(f"{part:.3f}" for part in parts)
            line = f"{seed:3d} {kind:9s} window {window:3d}  found/promised {words}  ridge/bound {ridge:.3f}"
            each = next(each for each in baselines(plan) if each.name == EVERY_READING)
            points = [baseline.at_equal_privacy for baseline in (each, trusted_aggregate(plan))]
            losses = [np.nan if point is None else point.loss for point in points]
            costs.append((-plan.utility, *losses))
            line += (
                f"  loss: plan {-plan.utility:.3g}, each reading {losses[0]:.3g}, aggregate {losses[1]:.3g}"
            )
            print(f"{line}  {time.perf_counter() - began:.1f} s", flush=True)
    print(
        f"\n{asked.plans} plans: {alarms} alarms; ridge came to {min(close):.3f} .. {max(close):.3f} of its bound."
    )
    own, each, central = np.nanmedian(np.array(costs), axis=0)
    print(
        f"Median utility loss at the plan's privacy: plan {own:.3g}, noise on every reading {each:.3g}, ",
        end="",
    )
    print(f"a trusted aggregator {central:.3g}.")


def _quiet(_: float) -> None:
    """No progress is shown."""


if __name__ == "__main__":
    main()
