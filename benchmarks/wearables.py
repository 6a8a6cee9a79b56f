"""Symbols on five body-worn units: what was asked against activity, certificate, attackers and persons left out.

    python benchmarks/wearables.py FOLDER

FOLDER has segments_1_to_40.csv.gz, made from Daily and Sports Activities (B. Barshan, K. Altun; UCI Machine Learning
Repository, id 256), which is not part of the repository: a row for each segment of five seconds, segments 1 to 40 of
each person and activity, with activity, person, segment and for each unit and axis mean and standard deviation,
``torso_xacc_mean`` and so on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import veilnet as vn
from veilnet.report.words import at_most
from veilnet.symbols.attackers import attack
from veilnet.symbols.learning import SymbolLearner

GUESSED = (0.16, 0.18, 0.20, 0.22, 0.25, 0.30)
UNITS = ("torso", "right_arm", "left_arm", "right_leg", "left_leg")


def table(frame: Any, agents: dict[str, list[str]], labels: Any) -> None:
    """A plan for each figure that is asked for, rows taken as independent and blocks of five segments."""
    print("asked | activity (raw) | person: at most, counted, cells | best attacker | symbols | calibration")
    for what, blocks in (("rows", None), ("blocks", labels)):
        started = time.process_time()
        learner = SymbolLearner(frame, agents, "activity", ["person"], blocks=blocks)
        for most in GUESSED:
            key = f"{what}_{round(100 * most)}"
            try:
                plan = learner.under(most)
            except vn.Infeasible as no:
                print(f"  {what} {most:.2f} | {no}", flush=True)
                for part in ("activity", "promised", "attacker"):
                    print(f"figure {key}_{part}: –")
                continue
            promise = plan.certificate["person"]
            sizes = " ".join(str(agent.symbols) for agent in plan.agents.values())
            name, right = best_attacker(plan, frame)
            print(f"figure {key}_activity: {plan.score:.3f}")
            print(f"figure {key}_promised: {at_most(promise.promise)}")
            print(f"figure {key}_attacker: {right:.3f}")
            print(
                f"  {what} {most:.2f} | {plan.score:.4f} ({plan.raw_score:.4f}) | {promise.guessed:.4f}, "
                f"{promise.counted:.4f}, {promise.cells} | {name} {right:.3f} | {sizes} | {plan.calibration:.4f} | "
                f"{time.process_time() - started:.0f} s so far",
                flush=True,
            )
            if key == "rows_20":
                several = promise.over_rows((5, 20, 60))
                print(f"figure over_rows: {', '.join(f'{right:.2f}' for right in several.values())}")


def best_attacker(plan: vn.SymbolPlan, frame: Any) -> tuple[str, float]:
    """The best of six that learn who it is from the tuple, tried on segments later than those they learned from."""
    later = frame.sort_values("segment").reset_index(drop=True)
    found = attack(plan, later, windows=(1,), stretch=len(later) // 2)
    best = max(found, key=lambda each: each.right or 0.0)
    return best.attacker, best.right or 0.0


def left_out(frame: Any, agents: dict[str, list[str]], labels: Any) -> None:
    """The activity of each person in turn, learned from the others."""
    scores = []
    for person in sorted(frame.person.unique()):
        others = (frame.person != person).to_numpy()
        rest = frame[others].reset_index(drop=True)
        plan = vn.learn_symbols(rest, agents, "activity", ["person"], guessed=0.22, blocks=labels[others])
        fresh = frame[~others].reset_index(drop=True)
        told = plan.estimate(plan.send(fresh)).public
        scores.append(float(np.mean(told == fresh.activity.to_numpy())))
        print(f"  without person {person}: activity {scores[-1]:.3f} on that person", flush=True)
    print(f"figure left_out: {np.mean(scores):.3f}")
    print(f"figure left_out_range: {min(scores):.2f} to {max(scores):.2f}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    frame = pd.read_csv(asked.folder / "segments_1_to_40.csv.gz")
    for column in frame.filter(like="_std"):
        frame[column] = np.log(frame[column] + 0.001)
    agents = {unit: list(map(str, frame.filter(regex=f"^{unit}_"))) for unit in UNITS}
    block = (frame.activity * 100 + frame.person) * 100 + (frame.segment - 1) // 5
    labels = np.unique(block, return_inverse=True)[1]
    table(frame, agents, labels)
    left_out(frame, agents, labels)


if __name__ == "__main__":
    main()
