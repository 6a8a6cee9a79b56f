"""Symbols: the theorem by simulation, the wearables, and what assuming nothing costs on a Gaussian network.

    python benchmarks/symbols.py [--quick] [--wearables segments_1_to_40.csv.gz] [--left-out] [--only theorem]

The wearables' log is not part of the repository: Daily and Sports Activities of the UCI repository, id 256.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import veilnet as vn
from veilnet.symbols.attackers import attack
from veilnet.symbols.deviation import Tally, highest_mean
from veilnet.symbols.learning import SymbolLearner

ALPHA = 0.05
GUESSED = (0.16, 0.18, 0.20, 0.22, 0.25, 0.30)
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


def wearables(path: Path, guessed: tuple[float, ...], left_out: bool) -> None:
    """What was asked against activity, certificate, attackers and persons left out."""
    import pandas as pd

    frame = pd.read_csv(path)
    for column in frame.filter(like="_std"):
        frame[column] = np.log(frame[column] + 0.001)
    agents = {unit: list(frame.filter(regex=f"^{unit}_")) for unit in UNITS}
    labels = np.unique(
        (frame.activity * 100 + frame.person) * 100 + (frame.segment - 1) // 5, return_inverse=True
    )[1]
    print(
        "wearables: asked | activity (raw) | person: at most, counted, cells | attackers | symbols | calibration"
    )
    for what, blocks in (("rows", None), ("blocks", labels)):
        started = time.process_time()
        learner = SymbolLearner(frame, agents, "activity", ["person"], blocks=blocks)
        for most in guessed:
            try:
                plan = learner.under(most)
            except vn.Infeasible as no:
                print(f"  {what} {most:.2f} | {no}", flush=True)
                continue
            promise = plan.certificate["person"]
            sizes = " ".join(str(agent.symbols) for agent in plan.agents.values())
            keeps = [agent.keep for agent in plan.agents.values() if agent.keep < 1]
            print(
                f"  {what} {most:.2f} | {plan.score:.4f} ({plan.raw_score:.4f}) | {promise.guessed:.4f}, "
                f"{promise.counted:.4f}, {promise.cells} | {best_attacker(plan, frame)} | {sizes} {keeps or ''} "
                f"| {plan.calibration:.4f} | {time.process_time() - started:.0f} s so far",
                flush=True,
            )
            if most == 0.2:
                print(f"    several rows of one person: {promise.over_rows()}", flush=True)
    if left_out:
        scores = []
        for person in sorted(frame.person.unique()):
            others = (frame.person != person).to_numpy()
            rest = frame[others].reset_index(drop=True)
            plan = vn.learn_symbols(rest, agents, "activity", ["person"], guessed=0.22, blocks=labels[others])
            fresh = frame[~others].reset_index(drop=True)
            told = plan.estimate(plan.send(fresh)).public
            scores.append(float(np.mean(told == fresh.activity.to_numpy())))
            print(f"  without person {person}: activity {scores[-1]:.3f} on that person", flush=True)
        print(f"  persons left out in turn: activity {np.mean(scores):.3f} on average")


def best_attacker(plan: vn.SymbolPlan, frame: Any) -> str:
    """The best of six that learn who it is from the tuple, tried on segments later than those they learned from."""
    found = attack(plan, frame.sort_values("segment").reset_index(drop=True), windows=(1,))
    best = max(found, key=lambda each: each.right)
    return f"{best.attacker} {best.right:.3f} of {len(found)}"


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
        try:
            plan = vn.learn_symbols(table, agents, "u", ["g"], guessed={"g": error})
            promise = plan.certificate["g"]
            sizes = [agent.symbols for agent in plan.agents.values()]
            said = f"{plan.score:.3f} with {sizes} symbols, certified {promise.error:.3f}"
        except vn.Infeasible as no:
            said = str(no)[:110]
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
    print(f"speed: learning {rows} rows: {time.process_time() - cpu:.0f} s of one processor, "
          f"{time.perf_counter() - wall:.0f} s on the clock")  # fmt: skip
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
    parser.add_argument("--wearables", type=Path)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--only", choices=("theorem", "wearables", "planted", "speed"))
    asked = parser.parse_args()
    wanted = {asked.only} if asked.only else {"theorem", "wearables", "planted", "speed"}
    if "theorem" in wanted:
        theorem(60 if asked.quick else 1000)
    if "speed" in wanted:
        speed(1500 if asked.quick else 6000)
    if "planted" in wanted:
        planted(1500 if asked.quick else 6000)
    if "wearables" in wanted and asked.wearables is not None:
        wearables(asked.wearables, GUESSED[2:3] if asked.quick else GUESSED, asked.left_out)


if __name__ == "__main__":
    main()
