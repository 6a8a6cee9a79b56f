"""Readings on a lattice: what exact numbers give away without dither, and with it.

    python benchmarks/lattice.py [--networks 5] [--rows 1000]

Random networks of two agents, each sending two exact numbers and withholding one to three directions of its readings.
The noise of a reading has deviation one, rounding included; its steps go from 1/100 to 1. The attacker knows the
lattice, the law of the dither and the whole model. Printed: the part of rows in which all readings of an agent were
named, and the mean square error on the private parameter as a part of the linear attacker's, for plans made without a
resolution ("before") and with it ("after"); the public error variance that dither costs; and, for the law of the
dither, the best attack's error where d is uniform, triangular or Gaussian. Then agents that withhold nothing, and
rows that one reading dominates: what rounding leaves of the stated error, by one draw of dither and by the draws that
the plan chose. Last, the bundled house.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import veilnet as vn
from helpers.coarse_networks import (
    attack,
    coarse_network,
    dominated,
    estimate,
    sending,
    thermometers,
    undithered,
)
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.auditing.attack.held_out import simulate
from veilnet.auditing.attack.lattice import Eavesdropper, eavesdropper, inverse, linear_posterior
from veilnet.auditing.attack.lattice_rows import lattice_rows
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.what_if.variants import changed
from veilnet.io.template import house
from veilnet.verdict.notes import dither_cost

STEPS = (1 / 100, 1 / 50, 1 / 30, 1 / 20, 1 / 10, 1 / 5, 1 / 2, 1.0)
NEIGHBOURS = np.arange(-2, 3)


def table(networks: int, rows: int) -> None:
    """Recovery and error against step / noise, before and after."""
    print("withheld  step/noise  named before  after   error before  after   dither costs")
    for withheld in (1, 2, 3):
        for step in STEPS:
            before, after, costs = [], [], []
            for seed in range(networks):
                network = coarse_network(seed, withheld, step)
                before.append(attack(vn.design(undithered(network)), network, rows, seed))
                plan = vn.design(network)
                after.append(attack(plan, network, rows, seed))
                costs.append(dither_cost(plan.network))
            print(
                f"{withheld:8d}  {f'1/{1 / step:.0f}':>10}  {np.mean([o.named for o in before]):12.3f}"
                f"  {np.mean([o.named for o in after]):5.3f}   {np.mean([o.best for o in before]):12.3f}"
                f"  {np.mean([o.best for o in after]):5.3f}   {100 * np.mean(costs):10.2f} %",
                flush=True,
            )


@dataclass(frozen=True)
class Law:
    """A law of dither: its variance, draws and density, for steps of width one."""

    variance: float
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array]
    density: Callable[[Array], Array]


def _normal(variance: float) -> Law:
    deviation = np.sqrt(variance)
    return Law(
        variance,
        lambda rng, shape: deviation * rng.standard_normal(shape),
        lambda t: np.exp(-0.5 * (t / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi)),
    )


LAWS = {
    "uniform, q²/12": Law(
        1 / 12, lambda rng, shape: rng.random(shape) - 0.5, lambda t: (np.abs(t) <= 0.5) * 1.0
    ),
    "triangular, q²/6": Law(
        1 / 6,
        lambda rng, shape: rng.random(shape) - rng.random(shape),
        lambda t: np.maximum(0.0, 1 - np.abs(t)),
    ),
    "Gaussian, q²/12": _normal(1 / 12),
    "Gaussian, q²/6": _normal(1 / 6),
}


def best_attack(
    known: Eavesdropper, messages: Array, law: Law, step: float, rng: np.random.Generator
) -> Array:
    """E[y|z] for any law: v = y + d from the Gaussian posterior, y among the lattice points near v, weighed."""
    more = known.covariance + law.variance * step**2 * np.eye(len(known.mean))
    mean, posterior = linear_posterior(known.undithered(more), messages)
    root = np.linalg.cholesky(posterior)
    smooth, coarse = inverse(more), inverse(known.covariance)
    found = np.empty(mean.shape)
    for start in range(0, len(mean), 64):
        some = mean[start : start + 64]
        half = rng.standard_normal((len(some), 256, len(known.mean))) @ root.T
        v = some[:, None] + np.concatenate([half, -half], axis=1)
        nearest = np.rint(v / step)
        chances = law.density(v[..., None] / step - nearest[..., None] - NEIGHBOURS)
        total = np.sum(chances, axis=-1)
        picked = np.sum(
            rng.random(v.shape)[..., None] * total[..., None] > np.cumsum(chances, axis=-1), axis=-1
        )
        y = step * (nearest + NEIGHBOURS[np.minimum(picked, 4)])
        a, b = v - known.mean, y - known.mean
        logs = 0.5 * (np.sum((a @ smooth) * a, axis=-1) - np.sum((b @ coarse) * b, axis=-1))
        logs += np.sum(np.log(total), axis=-1)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        found[start : start + 64] = np.einsum("tk,tkn->tn", weights / weights.sum(axis=1, keepdims=True), y)
    return found


def laws(networks: int, rows: int) -> None:
    """The best attack's error, as a part of the linear attacker's, for each law and step."""
    print("\nlaw of the dither   " + "".join(f"step/noise {step:g}".rjust(17) for step in (0.5, 1.0, 2.0)))
    for name, law in LAWS.items():
        parts = []
        for step in (0.5, 1.0, 2.0):
            ratios = []
            for seed in range(networks):
                network = coarse_network(seed, 1, step)
                plan = vn.design(undithered(network))
                rng = np.random.default_rng([seed, 11])
                x = draw_x(network, rng, rows)
                readings = draw_readings(network, x, rng)
                moved = readings + step * law.draw(rng, readings.shape)
                messages = np.concatenate(
                    [
                        np.asarray(plan.sanitizers[a].sanitize(moved[:, network.blocks.rows(k)], rng=rng))
                        for k, a in enumerate(network.agents)
                    ],
                    axis=1,
                )
                width = np.full(network.N, step * np.sqrt(12 * law.variance))
                attacker = eavesdropper(network, plan.sanitizers, network.steps)
                known = replace(attacker, dither=width, draws=np.ones(network.N))
                linear, _ = linear_posterior(known, messages)
                best = best_attack(known, messages, law, step, rng)
                truth = x @ network.private["g"].T
                errors = [np.mean((estimate(network, idea) - truth) ** 2) for idea in (best, linear)]
                ratios.append(errors[0] / errors[1])
            parts.append(f"{np.mean(ratios):.3f}".rjust(17))
        print(f"{name:20s}" + "".join(parts), flush=True)


def undone(rows: int) -> None:
    """Readings sent whole, or nearly so: what the best attack leaves of the stated error."""
    print("\nsent                    step/noise  draws  one draw leaves  as planned")
    for step in (0.5, 1.0, 2.0):
        plans = {"5 thermometers, whole": vn.design(thermometers(step))}
        for ratio in (0.02, 0.1, 0.3):
            plans[f"y1 + {ratio:g} y2"] = sending(dominated(ratio, step), [[1.0, ratio]])
        for what, plan in plans.items():
            once = plan.network.replace(dither=1)
            agents = {name: each.for_agent(name, once) for name, each in plan.sanitizers.items()}
            weak = vn.Plan(once, agents, plan.method, plan.utility, plan.privacy, plan.certificate)
            left = [attack(weak, once, rows, 3).best, attack(plan, plan.network, rows, 3).best]
            print(
                f"{what:22s}  {step:10g}  {plan.network.draws[0]:5.0f}  {left[0]:15.3f}  {left[1]:10.3f}",
                flush=True,
            )


def hall(rows: int) -> None:
    """The bundled house with other resolutions: its hall, and gait."""
    print("\nthe house   step/noise  hall named before  after   gait error before  after")
    for step in STEPS:
        deviations = np.sqrt(house().sensor_noise.variances())
        steps = {a: step * deviations[house().blocks.rows(k)] for k, a in enumerate(house().agents)}
        network = changed(house(), resolution=steps)
        parts: list[tuple[float, float]] = []
        for plan in (vn.design(undithered(network)), vn.design(network)):
            samples = simulate(network, rows, 1)
            found = lattice_rows(
                replace(deployment(plan, None), network=network), samples, 1e-6, 1, lambda _: None
            )
            gait = next(row for row in found if row.what.startswith("gait"))
            parts.append(
                (gait.figures["readings named, hall"], gait.figures["of the linear attacker's error"])
            )
        (before, error), (after, left) = parts
        print(
            f"{f'1/{1 / step:.0f}':>22}  {before:17.3f}  {after:5.3f}   {error:17.3f}  {left:5.3f}",
            flush=True,
        )


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args()
    started = time.perf_counter()
    with one_thread():
        table(options.networks, options.rows)
        laws(options.networks, 2 * options.rows)
        undone(4 * options.rows)
        hall(options.rows)
    print(f"\n{options.networks} networks, {options.rows} rows each, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
