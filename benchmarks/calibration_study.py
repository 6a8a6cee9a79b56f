"""Calibration on simulated truth: do stated errors hold on unseen rows, do intervals cover, what do limits refuse?

    python benchmarks/calibration_study.py [--networks 200]

Random networks of two agents with 2 and 3 readings and three parameters. Logs of independent rows, and logs in
which x and the noise carry over from row to row. Printed for each kind of log: the error variance that a centre
really has on unseen rows over the one that the fitted network states, without and with the predictive covariance (1
is right); how often the 95 % interval of the report holds the privacy that is truly free, and how wide it is. Then,
for laws of readings, the part of good readings that the proposed limits refuse.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import veilnet as vn
from helpers.calibration_truth import random_truth
from veilnet._core.threads import one_thread
from veilnet.calibration.limits import credible_limits

# rows, memory of x, memory of the noise
LOGS = (
    (40, 0.0, 0.0),
    (100, 0.0, 0.0),
    (400, 0.9, 0.9),
    (400, 0.0, 0.95),
    (400, 0.95, 0.5),
    (1000, 0.97, 0.97),
)
LAWS = {
    "normal": stats.norm(),
    "exponential": stats.expon(),
    "Student's t, 3 degrees": stats.t(3),
    "Student's t, 2 degrees": stats.t(2),
    "lognormal, σ = 1": stats.lognorm(1.0),
    "uniform": stats.uniform(),
}


def uncertainty(networks: int) -> None:
    """Stated errors and intervals."""
    print("rows   x    noise   true/stated: plain  predictive   covered (95 %)  width  below   seconds each")
    for rows, x_memory, noise_memory in LOGS:
        true: dict[bool, list[float]] = {False: [], True: []}
        stated: dict[bool, list[float]] = {False: [], True: []}
        covered, below, widths = [], [], []
        begun = time.perf_counter()
        for seed in range(networks):
            truth = random_truth(seed, x_memory=x_memory, noise_memory=noise_memory)
            best = np.diag(vn.crlb(truth.network()))
            for predictive, model in enumerate(truth.plain_and_predictive(rows, seed)):
                errors = truth.errors(model)
                true[bool(predictive)].append(float(np.mean(errors[0] / best)))
                stated[bool(predictive)].append(float(np.mean(errors[1] / best)))
            interval = truth.fitted(rows, seed).report.promises["g"].interval
            if interval is None:
                continue
            network = truth.network()
            everything = vn.Network(
                dict(network.observe), truth.noise, np.eye(3)[:-1], dict(network.private), network.prior,
                resolution=0.0,
            )  # fmt: skip
            free = vn.check(everything).ceiling["g"]
            covered.append(interval.low <= free <= interval.high)
            below.append(free < interval.low)
            widths.append((1 + interval.high) / (1 + interval.low))
        ratio = {which: np.mean(true[which]) / np.mean(stated[which]) for which in true}
        print(
            f"{rows:5d}  {x_memory:.2f}  {noise_memory:.2f}  {ratio[False]:18.3f}  {ratio[True]:10.3f}"
            f"  {np.mean(covered):14.3f}  {np.median(widths):6.2f}  {np.mean(below):5.3f}"
            f"  {(time.perf_counter() - begun) / networks:12.2f}",
            flush=True,
        )


def limits(draws: int) -> None:
    """What the proposed limits refuse of good readings."""
    print("\nlaw of the readings       refused after 100 rows   after 1000")
    for name, law in LAWS.items():
        rng = np.random.default_rng(0)
        rates = []
        for rows in (100, 1000):
            edges = [credible_limits(law.rvs(rows, random_state=rng)) for _ in range(draws)]
            rates.append(np.mean([law.cdf(low) + law.sf(high) for low, high in edges]))
        print(f"{name:24}  {rates[0]:22.1e}  {rates[1]:11.1e}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=200)
    arguments = parser.parse_args()
    with one_thread():
        limits(arguments.networks)
        uncertainty(arguments.networks)
