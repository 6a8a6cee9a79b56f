"""Power-limited design against CVXPY with Clarabel, instance by instance, in one run.

    python benchmarks/power_instances.py [--count 12] [--form reduced|paper]

Each row gives our value, certified upper bound, gap and time; Clarabel's objective, its status and time, and
the privacy its noise really delivers once it is projected onto the constraints (objectives of the paper's
form overshoot by the solver's tolerance, because its feasible set has no interior).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.paper_networks import PaperArrays, paper_arrays
from helpers.sdp_oracle import geometry, prior_root, privacy_sum, solve_paper_form, solve_reduced_form
from veilnet._core.types import Array
from veilnet.designs.power.dense import DenseNoise, free_noise_problem, maximize_privacy


class Instance(NamedTuple):
    """One draw of the paper's setting: seed, agents S, rows of U, prior, private parameters, power."""

    seed: int
    agents: int
    public_rows: int
    prior: bool
    private: int
    power: float


class Row(NamedTuple):
    """One instance, both solvers."""

    instance: Instance
    value: float
    upper_bound: float
    gap: float
    seconds: float
    oracle_objective: float
    oracle_delivered: float
    oracle_status: str
    oracle_seconds: float

    @property
    def shortfall(self) -> float:
        """How far, relatively, our value lies below what Clarabel's noise delivers (negative: above)."""
        return (self.oracle_delivered - self.value) / self.value

    @property
    def speedup(self) -> float:
        """Clarabel's time over ours."""
        return self.oracle_seconds / self.seconds


INSTANCES = (
    Instance(0, 1, 1, False, 1, 1e2),
    Instance(0, 1, 2, True, 5, 1e2),
    Instance(1, 2, 1, False, 3, 1e4),
    Instance(1, 2, 3, True, 1, 1.0),
    Instance(2, 3, 2, False, 5, 1e2),
    Instance(2, 3, 1, True, 2, 1e2),
    Instance(3, 6, 1, False, 4, 1e2),
    Instance(3, 6, 2, True, 4, 1e4),
    Instance(4, 9, 1, False, 2, 1e4),
    Instance(4, 9, 3, True, 5, 1.0),
    Instance(5, 12, 1, False, 5, 1e2),
    Instance(5, 12, 2, True, 3, 1e4),
    Instance(6, 18, 2, False, 1, 1e4),
    Instance(6, 24, 1, True, 2, 1e2),
)


def solve_ours(arrays: PaperArrays, power: float, relative_gap: float = 1e-7) -> tuple[DenseNoise, float]:
    """From bare arrays, reduction included, with the seconds it took."""
    start = time.perf_counter()
    bases = geometry(arrays).bases
    noise_root = np.linalg.cholesky(arrays.noise)
    root, gain = free_noise_problem(arrays.observe, noise_root, prior_root(arrays), arrays.private, bases)
    sizes = [basis.shape[1] for basis in bases]
    result = maximize_privacy(root, gain, sizes, np.full(len(sizes), power), wanted_gap=relative_gap)
    return result, time.perf_counter() - start


def make_feasible(arrays: PaperArrays, noise: list[Array], power: float) -> list[Array]:
    """The nearest thing to a solver's Θ that meets every constraint exactly."""
    repaired = []
    for basis, theta in zip(geometry(arrays).bases, noise, strict=True):
        values, vectors = np.linalg.eigh(basis.T @ theta @ basis)
        values = np.maximum(values, 0)
        values *= min(1.0, power / max(float(values.sum()), np.finfo(float).tiny))
        directions = basis @ vectors
        repaired.append((directions * values) @ directions.T)
    return repaired


def compare(instance: Instance, form: str = "reduced", readings: int = 72, parameters: int = 12) -> Row:
    """Both solvers on one instance."""
    arrays = paper_arrays(*instance[:5], readings=readings, parameters=parameters)
    result, seconds = solve_ours(arrays, instance.power)
    solve = solve_reduced_form if form == "reduced" else solve_paper_form
    oracle = solve(arrays, np.array(instance.power))
    delivered = privacy_sum(arrays, make_feasible(arrays, oracle.noise, instance.power))
    return Row(
        instance,
        result.value,
        result.upper_bound,
        result.relative_gap,
        seconds,
        oracle.objective,
        delivered,
        oracle.status,
        oracle.seconds,
    )


def run(count: int = len(INSTANCES), form: str = "reduced") -> Iterator[Row]:
    """Rows as they are finished."""
    for instance in INSTANCES[:count]:
        yield compare(instance, form)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=len(INSTANCES))
    parser.add_argument("--form", choices=("reduced", "paper"), default="reduced")
    options = parser.parse_args()
    print("seed S U prior J power | value gap ms | Clarabel delivered status s | shortfall times faster")
    for row in run(options.count, options.form):
        i = row.instance
        print(
            f"{i.seed:4} {i.agents:2} {i.public_rows:2} {i.prior!s:5} {i.private} {i.power:6.0e} | "
            f"{row.value:.6g} {row.gap:8.1e} {1e3 * row.seconds:6.1f} | {row.oracle_objective:.6g} "
            f"{row.oracle_delivered:.6g} {row.oracle_status} {row.oracle_seconds:6.1f} | "
            f"{row.shortfall:9.1e} {row.speedup:7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
