"""Shares against sums at perfect utility, in the paper's setting and in the house; how long exact trade-offs take.

    python benchmarks/sum_groups.py            20 draws of the paper's section VII with a prior
    python benchmarks/sum_groups.py --quick    3 draws

Privacies are p_j, medians over draws; one agent helps: the worst one, in one sum of all.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import veilnet as vn
from veilnet.io.template import house
from veilnet.paper.settings import PRIVATE, Settings, draw, network_of
from veilnet.sums.merging import SumGroups, merged

sys.path.insert(0, str(Path(__file__).resolve().parent))

from timing import markdown

CASES = ((1, 12), (3, 12), (3, 18), (3, 24))


def paper_rows(draws: int) -> list[list[str]]:
    """U, S, then the medians of shares, of one sum, with the worst agent helping, and of silence."""
    rows = []
    for public, agents in CASES:
        found = []
        for number in range(draws):
            network = network_of(draw(Settings(), number), agents, public, prior=True)
            plan = vn.design(network, summed=True)
            shares = vn.check(network).ceiling[PRIVATE]
            limit = vn.privacy_limit(network)[PRIVATE]
            found.append([shares, plan.privacy[PRIVATE], plan.colluding[PRIVATE], limit])
        medians = np.median(found, axis=0)
        rows.append([str(public), str(agents), *(f"{each:.4g}" for each in medians)])
        if (public, agents) == (3, 18):
            print(f"figure shares: {medians[0]:.2g}")
            print(f"figure sum: {medians[1]:.4g}")
            print(f"figure helped: {medians[2]:.2g}")
    return rows


def group_rows(draws: int) -> list[list[str]]:
    """Agents in a group of 24, and the median privacy of the sums of such groups; of the first draws it differs."""
    rows = []
    for size in (1, 2, 4, 12, 24):
        found = []
        for number in range(draws):
            network = network_of(draw(Settings(), number), 24, 3, prior=True)
            if size > 1:
                names = list(network.agents)
                groups = [names[start : start + size] for start in range(0, 24, size)]
                network = merged(network, SumGroups(groups))
            found.append(vn.check(network).ceiling[PRIVATE])
        rows.append([str(size), *(f"{np.median(found[:first]):.4g}" for first in (draws, 10))])
    return rows


def tradeoff_rows() -> list[list[str]]:
    """What was asked, its least loss, the gap that its multipliers leave, and how long the design took."""
    rows = []
    for part in (0.25, 0.5, 0.9):
        verdict = vn.check(merged(house()))
        asked = {
            "cooking": verdict.ceiling["cooking"]
            + part * (verdict.limit["cooking"] - verdict.ceiling["cooking"])
        }
        began = time.process_time()
        plan = vn.design(house(), privacy=asked, summed=True)
        took = time.process_time() - began
        rows.append(
            [
                f"cooking {1 + asked['cooking']:.2f}-fold",
                f"{-plan.utility:.4g}",
                f"{plan.gap:g}",
                f"{took:.2f} s",
            ]
        )
    return rows


def main() -> None:
    draws = 3 if "--quick" in sys.argv else 20
    print(f"The paper's setting, {draws} draws, medians of privacy at perfect utility\n")
    heads = ["public rows", "agents", "shares", "one sum of all", "the worst agent helps", "nothing sent"]
    print(markdown(heads, paper_rows(draws)))
    print("\nGroups of 24 agents, three public rows\n")
    print(markdown(["agents in a group", "privacy", "of the first 10 draws"], group_rows(draws)))
    print("\nTrade-offs of one sum in the house, processor time\n")
    print(markdown(["asked", "loss", "gap", "design"], tradeoff_rows()))


if __name__ == "__main__":
    main()
