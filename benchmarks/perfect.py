"""Most privacy at perfect utility: the closed form against the paper's program in CVXPY, and how designs grow.

    python benchmarks/perfect.py            the table
    python benchmarks/perfect.py --quick    one instance, small sizes

The program is solved by Clarabel in its facially reduced form, which is kinder to it than the printed one, with large
noise power, so that its value tends to the ceiling. The power-limited comparison is in power_instances.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import veilnet as vn

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.paper_networks import as_network, paper_arrays
from helpers.sdp_oracle import solve_reduced_form
from timing import compare, markdown, once

INSTANCES = [(9, 2, True, 1), (12, 1, False, 1), (6, 3, True, 3), (18, 2, True, 5)]


def closed_form_rows(quick: bool) -> list[list[str]]:
    rows = []
    for agents, public, prior, private in INSTANCES[: 1 if quick else None]:
        arrays = paper_arrays(11, agents, public, prior, private)
        network = as_network(arrays)
        right = np.eye(72)
        result = compare(
            lambda n=network: vn.design(n), lambda r=arrays.noise, b=right: np.linalg.solve(r, b)
        )
        alone = compare(lambda n=network: vn.check(n), lambda r=arrays.noise, b=right: np.linalg.solve(r, b))
        seconds, oracle = once(lambda a=arrays, s=agents: solve_reduced_form(a, np.full(s, 1e6)))
        ceiling = sum(vn.check(network).ceiling.values())
        rows.append(
            [
                f"S = {agents}, U = {public}, {'prior' if prior else 'no prior'}, J = {private}",
                f"{1e3 * alone.subject:.2f} ms",
                f"{1e3 * result.subject:.2f} ms",
                f"{result.ratio:.0f}",
                f"{seconds:.1f} s",
                f"{seconds / alone.subject:,.0f} / {seconds / result.subject:,.0f}",
                f"{ceiling:.6g}",
                f"{oracle.objective:.6g} ({oracle.status})",
            ]
        )
    print(f"figure plan: {rows[0][2]}")
    print(f"figure solver: {rows[0][4]}")
    print(f"figure faster: {rows[0][5].split(' / ')[1]}")
    return rows


def growth_rows(quick: bool) -> list[list[str]]:
    rows = []
    for readings in (72, 200) if quick else (72, 200, 600, 2000):
        arrays = paper_arrays(13, readings // 8, 1, True, 1, readings=readings)
        network = as_network(arrays)
        closed, plan = once(lambda n=network: vn.design(n))
        limited, power = once(lambda n=network: vn.design(n, power=100.0))
        gap = power.details["relative_gap"]
        rows.append(
            [
                str(readings),
                str(readings // 8),
                f"{1e3 * closed:.0f} ms",
                f"{plan.privacy['g1']:.4g}",
                f"{limited:.2f} s",
                f"{gap:.1e}",
            ]
        )
    return rows


def table(quick: bool = False) -> str:
    """The whole table."""
    return "\n\n".join(
        [
            "Most privacy at perfect utility: closed form (with certificate) against the program in CVXPY + Clarabel",
            markdown(
                [
                    "instance (N = 72, L = 12)",
                    "closed form",
                    "certified plan",
                    "plan in 72 x 72 solves",
                    "CVXPY",
                    "times faster: form / plan",
                    "ceiling",
                    "CVXPY at power 1e6",
                ],
                closed_form_rows(quick),
            ),
            "Growth (prior, L = 12, U = 1, eight readings per agent)",
            markdown(
                ["N", "S", "closed form", "ceiling", "power-limited", "certified gap"], growth_rows(quick)
            ),
        ]
    )


if __name__ == "__main__":
    print(table("--quick" in sys.argv))
