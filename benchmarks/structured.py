"""Trade-offs on structured networks against an independent many-start optimiser: never silly, monotone, inverse.

    python benchmarks/structured.py [--networks 200] [--starts 25] [--grid 25] [--jobs 2] [--first 0]

The networks (few agents of one to three readings, ones and halves, repeated rows, one to three private parameters,
every kind of prior, correlated noise) and the optimiser (SLSQP on angles and levels) live with the tests. Losses of
`design` are compared at three levels, with ``give_up=`` everything, since the optimiser keeps nothing that is free;
then every point of a grid from the ceiling to the limit is asked for, each as `design` answers it, and the loss of
its middle is given back as ``utility_loss=``. With ``--starts 0`` nothing is compared, which leaves the grid and the
question turned round, in a fraction of the time.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

import veilnet as vn
from veilnet.designs.joint import SearchOptions
from veilnet.designs.tradeoff import RowTradeoff
from veilnet.plans.asked import Asked

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.reference_optimiser import best_loss
from helpers.structured_networks import grid_of_levels, structured_network
from timing import markdown

COMPARED = (0.16, 0.45, 0.74)  # parts of the grid where the losses are compared
ROUNDING = 1e-6  # a loss that falls by less, relative, has not fallen


class Outcome(NamedTuple):
    """What one network showed.

    ratios:   loss of the design over the least loss of the reference, at the levels compared; none without starts.
    fall:     the largest relative fall of the loss from one level of the grid to the next, 0 when monotone.
    inverse:  privacy that ``utility_loss=`` buys over the privacy that costs as much.
    errors:   requests that were refused or failed.
    """

    number: int
    ratios: list[float]
    fall: float
    inverse: float
    seconds: float
    errors: list[str]


def study(number: int, starts: int, points: int) -> Outcome:
    """One network: against the reference, over the grid, and the question turned round."""
    network = structured_network(number)
    levels = grid_of_levels(network, points)
    tradeoff = RowTradeoff(vn.check(network), SearchOptions())
    begin = time.process_time()
    curve = tradeoff.curve(np.ones(len(network.private)), {})
    losses, errors = [], []
    for level in levels:
        targets = dict.fromkeys(network.private, level)
        try:
            losses.append(-tradeoff.least_loss(Asked(targets), curve).utility)
        except vn.VeilnetError as error:
            losses.append(np.nan)
            errors.append(f"privacy={level:.6g}: {error}")
    seconds = (time.process_time() - begin) / points
    falls = [(a - b) / a for a, b in pairwise(losses) if a > 1e-12]
    middle = points // 2
    inverse = np.nan
    try:
        bought = vn.design(network, utility_loss=losses[middle], give_up=network.private)
        inverse = min(min(bought.privacy.values()) / levels[middle], 1.0)
    except vn.VeilnetError as error:
        errors.append(f"utility_loss={losses[middle]:.6g}: {error}")
    chosen = [int(part * points) for part in COMPARED] if starts else []
    ratios = [
        (losses[place] + 1e-9) / (best_loss(network, levels[place], starts=starts) + 1e-9) for place in chosen
    ]
    return Outcome(number, ratios, max([0.0, *falls]), inverse, seconds, errors)


def compared(outcomes: list[Outcome]) -> list[list[str]]:
    """The part of the table that speaks of the reference."""
    worst = np.array([max(outcome.ratios) for outcome in outcomes])
    ratios = np.concatenate([outcome.ratios for outcome in outcomes])
    within = int(np.sum(worst <= 1.01))
    return [
        ["losses compared", str(ratios.size)],
        ["networks within 1 % of the reference at every level", f"{within} of {len(outcomes)}"],
        ["largest loss over the reference's", f"{worst.max():.4f}"],
        ["losses more than 1 % below the reference's", f"{int(np.sum(ratios < 0.99))} of {ratios.size}"],
    ]


def rows(outcomes: list[Outcome]) -> list[list[str]]:
    """The table: how many networks kept each promise, and the worst that was seen."""
    falls = np.array([outcome.fall for outcome in outcomes])
    inverse = np.array([outcome.inverse for outcome in outcomes])
    count = len(outcomes)
    return [
        ["networks", str(count)],
        *(compared(outcomes) if any(outcome.ratios for outcome in outcomes) else []),
        ["monotone on the whole grid", f"{int(np.sum(falls <= ROUNDING))} of {count}, at most {falls.max():.2g}"],
        ["the other question within 1 %",
         f"{int(np.sum(inverse >= 0.99))} of {count}, least {np.nanmin(inverse):.4f}"],
        ["CPU seconds a point of the grid: median, worst",
         f"{np.median([o.seconds for o in outcomes]):.2f}, {max(o.seconds for o in outcomes):.2f}"],
        ["requests refused", str(sum(len(outcome.errors) for outcome in outcomes))],
    ]  # fmt: skip


def main() -> None:
    """Study all networks, print what was not kept, then the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--starts", type=int, default=25)
    parser.add_argument("--grid", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.networks)
    outcomes: list[Outcome] = []
    parallel = Parallel(n_jobs=chosen.jobs, return_as="generator")
    for outcome in parallel(delayed(study)(number, chosen.starts, chosen.grid) for number in numbers):
        outcomes.append(outcome)
        kept = (
            max(outcome.ratios, default=1.0) <= 1.01 and outcome.fall <= ROUNDING and outcome.inverse >= 0.99
        )
        if not kept or outcome.errors:
            shown = ", ".join(f"{ratio:.4f}" for ratio in outcome.ratios)
            print(
                f"network {outcome.number}: ratios {shown}; fall {outcome.fall:.2g}; inverse {outcome.inverse:.4f}",
                *outcome.errors,
                flush=True,
            )
    print(markdown(["what", "measured"], rows(outcomes)))


if __name__ == "__main__":
    main()
