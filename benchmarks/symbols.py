"""Symbols: the theorem by simulation, and what assuming nothing costs on a Gaussian network.

python benchmarks/symbols.py [--quick] [--only theorem]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import veilnet as vn
from veilnet.symbols.deviation import Tally, highest_mean

ALPHA = 0.05
UNITS = ("torso", "right_arm", "left_arm", "right_leg", "left_leg")


def theorem(laws: int) -> None:
    """Random laws with known truth: independent rows, and blocks of identical rows, the worst case."""
    rng = np.random.default_rng(0)
    print(f"theorem: {laws} random laws, 2 to 500 cells, 2 to 10 values, 100 to 5,000 rows, confidence 0.95")
    for size in (1, 2, 5, 20):
        found = []
        for _ in range(laws):
            cells, values = int(np.exp(rng.uniform(np.log(2), np.log(500)))), int(rng.integers(2, 11))
            law = rng.dirichlet(np.full(cells * values, 10 ** rng.uniform(-1.5, 2))).reshape(cells, values)
            blocks = max(20, int(np.exp(rng.uniform(np.log(100), np.log(5000)))) // size)
            counts = rng.multinomial(blocks, law.reshape(-1)).reshape(law.shape)
            counted = counts.max(axis=1).sum() / blocks
            tally = Tally(size * blocks, blocks, size, yes_no=True)
            bound = highest_mean(size * counts.max(axis=1).sum(), tally, ALPHA)
            mcdiarmid = counted + np.sqrt(np.log(1 / ALPHA) / (2 * blocks))
            part = np.log(1 / ALPHA) / blocks
            bounding = ((np.sqrt(2 * part) + np.sqrt(2 * part + 4 * counted)) / 2) ** 2
            found.append((law.max(axis=1).sum(), counted, bound, min(1, mcdiarmid), min(1, bounding)))
        truth, counted, bound, mcdiarmid, bounding = np.array(found).T
        worst = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / laws)
        print(f"figure fails_{size}: {np.mean(bound < truth):.3f}")
        print(
            f"  blocks of {size:2d}: fails {np.mean(bound < truth):.4f} (at most {worst:.3f}); median above the "
            f"truth {np.median(bound - truth):.4f}, above the count {np.median(bound - counted):.4f} (McDiarmid "
            f"{np.median(mcdiarmid - counted):.4f}, self-bounding {np.median(bounding - counted):.4f})"
        )
    for size in (1, 5):
        tally = Tally(1000 * size, 1000, size, yes_no=True)
        totals, many = np.unique(rng.binomial(1000, 0.15, size=20_000), return_counts=True)
        failed = sum(
            n for k, n in zip(totals, many, strict=True) if highest_mean(size * k, tally, ALPHA) < 0.15
        )
        print(
            f"  one cell, chance 0.15, 1,000 blocks of {size}: fails {failed / 20_000:.4f} of 0.05, so tight it is"
        )


def planted(rows: int) -> None:
    """A Gaussian network where the linear plan is optimal: what symbols lose against it."""
    rng = np.random.default_rng(4)
    observe = {f"a{k}": rng.normal(size=(3, 3)) for k in range(4)}
    network = vn.Network(
        observe=observe, noise=0.25, resolution=0, public={"u": [1, 0, 0]}, private={"g": [0, 1, 0]},
        prior=vn.Prior(covariance=np.eye(3), mean=np.zeros(3)),
    )  # fmt: skip
    x = rng.normal(size=(rows, 3))
    table: dict[str, Any] = {"u": x[:, 0], "g": x[:, 1]}
    agents = {}
    for name, rows_of in observe.items():
        read = x @ rows_of.T + 0.5 * rng.normal(size=(rows, 3))
        agents[name] = [f"{name}_{k}" for k in range(3)]
        table |= dict(zip(agents[name], read.T, strict=True))
    print(f"planted Gaussian network: 4 agents of 3 readings, {rows} rows; raw R² of u "
          f"{1 - vn.crlb(network)[0, 0]:.3f}, raw error of g {vn.crlb(network)[1, 1] ** 0.5:.3f} of 1")  # fmt: skip
    for error in (0.5, 0.6, 0.7, 0.8):
        wanted = error**2 / vn.crlb(network)[1, 1] - 1
        try:
            linear = f"{1 - vn.crlb(network, vn.design(network, privacy=wanted))[0, 0]:.3f}"
        except vn.Infeasible as no:
            linear = str(no)[:60]
        score = "–"
        try:
            plan = vn.learn_symbols(table, agents, "u", ["g"], guessed={"g": error})
            promise, score = plan.certificate["g"], f"{plan.score:.3f}"
            sizes = [agent.symbols for agent in plan.agents.values()]
            said = f"{score} with {sizes} symbols, certified {promise.error:.3f}"
        except vn.Infeasible as no:
            said = str(no)
        print(f"figure planted_{round(10 * error)}: {score}")
        print(f"figure linear_{round(10 * error)}: {linear}")
        print(f"  error of g at least {error}: R² of u: linear {linear}, symbols {said}", flush=True)


def speed(rows: int) -> None:
    """Learning, sending, and the size of a file, for five agents of 18 readings and 19 classes."""
    rng = np.random.default_rng(5)
    activity, person = rng.integers(19, size=rows), rng.integers(8, size=rows)
    table: dict[str, Any] = {"activity": activity, "person": person}
    agents = {}
    for unit in UNITS:
        read = rng.normal(size=(19, 18))[activity] + 0.3 * rng.normal(size=(8, 18))[person]
        agents[unit] = [f"{unit}_{k}" for k in range(18)]
        table |= dict(zip(agents[unit], (read + rng.normal(size=read.shape)).T, strict=True))
    wall, cpu = time.perf_counter(), time.process_time()
    plan = vn.learn_symbols(table, agents, "activity", ["person"], guessed=0.2)
    print(f"figure learn_s: {time.process_time() - cpu:.0f}")
    print(f"speed: learning {rows} rows took {time.perf_counter() - wall:.0f} s on the clock")
    agent = plan.agents["torso"]
    block = np.tile(np.stack([table[name] for name in agent.names], axis=1), (3, 1))
    sent = []
    for _ in range(5):
        cpu = time.process_time()
        agent.send(block)
        sent.append((time.process_time() - cpu) / len(block) * 1e6)
    with tempfile.TemporaryDirectory() as folder:
        plan.save(folder)
        size = (Path(folder) / "torso.json").stat().st_size
    print(f"figure send_us: {np.median(sent):.2f}\nfigure agent_kb: {size / 1000:.1f}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("theorem", "planted", "speed"))
    asked = parser.parse_args()
    wanted = {asked.only} if asked.only else {"theorem", "planted", "speed"}
    if "theorem" in wanted:
        theorem(60 if asked.quick else 1000)
    if "speed" in wanted:
        speed(1500 if asked.quick else 6000)
    if "planted" in wanted:
        planted(1500 if asked.quick else 6000)


if __name__ == "__main__":
    main()
