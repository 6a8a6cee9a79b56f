"""How large a leak does the audit find on data, with how many rows; and how often does it err where promises hold?

    python benchmarks/audit_power.py [--alarms 200] [--seeds 10]
    python benchmarks/audit_power.py --knows-nothing 600    the AUC alone, of somebody who knows nothing

One agent reads u and g with noise, u may be known and g may not, and the plan sends one combination. What is deployed
sends a little of the reading of g as well: the leak. Rows are independent, or each is like the one before (all
processes with the same memory, so that past messages tell nothing more and the promise holds for every attacker). g
is normal, or has two values. Everything is audited as a user would: `vn.audit(plan, data, sanitizers=deployed)`.

Printed: of so many logs, in how many the audit says *broken*, *cannot tell* throughout, or *holds* at least once and
nothing broken. ``--alarms`` logs without a leak are drawn for the rate of false alarms (a quarter of them for two
values, where attackers take longer).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import veilnet as vn
from veilnet.calibration.classes import classes_of, measured
from veilnet.calibration.dependence import DECIDED_BY
from veilnet.calibration.stretches import stretches_of

RATE = 0.01
CORRELATION = 0.3  # of u and g
NOISE = 0.2  # variance of a reading's noise
LIKE = {"independent rows": 0.0, "rows like the one before (0.95)": 0.95}
ROWS = (500, 2000, 8000)
PARTS = (0.9, 0.75, 0.5)  # of the promised error variance: what is left by the leak


def processes(rows: int, count: int, memory: float, rng: np.random.Generator) -> np.ndarray:
    """(rows, count) normal, variance one, each like the one before it."""
    drawn = rng.standard_normal((rows, count))
    drawn[1:] *= np.sqrt(1 - memory**2)
    for row in range(1, rows):
        drawn[row] += memory * drawn[row - 1]
    return drawn


def network() -> vn.Network:
    """u and g, correlated, each read with noise by the same agent."""
    covariance = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    prior = vn.Prior(covariance=covariance, mean=np.zeros(2))
    return vn.Network(
        observe={"a": np.eye(2)}, noise=NOISE, public={"u": [1, 0]}, private={"g": [0, 1]}, prior=prior
    )


def planned() -> vn.Plan:
    """The free plan: it sends what the centre needs for u."""
    return vn.design(network())


def two_states(rows: int, memory: float, rng: np.random.Generator) -> np.ndarray:
    """A value that is high in a fifth of the rows, with mean zero, variance one and the same memory."""
    share, drawn = 0.2, rng.random(rows)
    high = np.empty(rows, dtype=bool)
    high[0] = drawn[0] < share
    for row in range(1, rows):
        high[row] = drawn[row] < share * (1 - memory) + memory * high[row - 1]
    return (high - share) / np.sqrt(share * (1 - share))


def log(rows: int, memory: float, two_values: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Readings beside the truth."""
    white = processes(rows, 4, memory, rng)
    g = two_states(rows, memory, rng) if two_values else white[:, 0]
    u = CORRELATION * g + np.sqrt(1 - CORRELATION**2) * white[:, 1]
    x = np.column_stack([u, g])
    return {"a": x + np.sqrt(NOISE) * white[:, 2:], "x": x}


def leaking(plan: vn.Plan, part: float) -> Callable[[np.ndarray], Any]:
    """What is deployed: it sends so much of g's reading that its error is this part of what was promised."""
    sanitizer = plan.sanitizers["a"]
    row = np.asarray(sanitizer.compression)[0]
    goal = part * error_of(row)
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if error_of(row + np.array([0.0, middle])) > goal else (low, middle)
    extra = np.array([0.0, low if part < 1 else 0.0])

    def deployed(readings: np.ndarray) -> np.ndarray:
        return readings @ (row + extra)[:, None]

    return deployed


def error_of(row: np.ndarray) -> float:
    """The variance that the best linear estimate of g from row·y leaves."""
    covariance = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    total = row @ (covariance + NOISE * np.eye(2)) @ row
    return float(1.0 - (row @ covariance[1]) ** 2 / total)


def verdict(report: vn.Audit) -> str:
    """One word for a whole audit."""
    found = {row.verdict for row in report.rows if row.figures.get("parameter") == "g"}
    return "broken" if found & {"fail", "not covered"} else "holds" if "ok" in found else "cannot tell"


class LeastSquares:
    """The linear attacker in three lines of NumPy: a study of many logs has no use for more."""

    def fit(self, seen: np.ndarray, truth: np.ndarray) -> None:
        """Learn."""
        self.weights = np.linalg.lstsq(np.column_stack([np.ones(len(seen)), seen]), truth)[0]

    def predict(self, seen: np.ndarray) -> np.ndarray:
        """Guess."""
        return np.column_stack([np.ones(len(seen)), seen]) @ self.weights


def audited(plan: vn.Plan, part: float, rows: int, memory: float, two: bool, seed: int) -> vn.Audit:
    """One log, audited."""
    data = log(rows, memory, two, np.random.default_rng([seed, rows, int(two)]))
    # Two values are also attacked by logistic regression, the counterpart of ridge.
    attackers = ["ridge"] if two else {"least squares": LeastSquares()}
    trials = vn.Trials(attackers=attackers, false_alarm_on_data=RATE)
    return vn.audit(plan, data, sanitizers={"a": leaking(plan, part)}, only=["attackers"], trials=trials)


def knows_nothing(logs: int, rows: int = 2000, memory: float = 0.99) -> str:
    """How often scores that have nothing to do with two values in long spells tell them apart, at 1 in 2000."""
    judged = decided = wrong = 0
    for seed in range(logs):
        rng = np.random.default_rng([seed, 3])
        high = (two_states(rows, memory, rng) > 0).astype(int)
        score = 1 / (1 + np.exp(-processes(rows, 1, memory, rng)[:, 0]))
        classes = classes_of(high[:, None].astype(float))
        if classes is None:  # one value is too rare in this log
            continue
        area = measured(classes, np.stack([1 - score, score], axis=1), stretches_of(rows, 0))["AUC"]
        judged, decided = judged + 1, decided + (area.effective >= DECIDED_BY)
        wrong += area.chance_above(0.5) < 1 / 2000
    stated = judged / 2000
    return f"{judged} logs of {rows} rows, memory {memory}: {wrong} wrong ({stated:.2f} stated), {decided} decided"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--knows-nothing", type=int, metavar="LOGS")
    parser.add_argument("--alarms", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.knows_nothing:
        print(knows_nothing(options.knows_nothing))
        return
    started, plan = time.perf_counter(), planned()
    promised = error_of(np.asarray(plan.sanitizers["a"].compression)[0])
    print(f"promised: {promised:.3f} of the variance of g; raw readings leave {error_of_both():.3f}")
    print(f"\nfalse alarms, stated {RATE:.0%}")
    for two in (False, True):
        for words, memory in LIKE.items():
            for rows in ROWS[:2]:
                count = options.alarms // 4 if two else options.alarms
                reports = [audited(plan, 1.0, rows, memory, two, 1000 + k) for k in range(count)]
                attacked = sum(verdict(report) == "broken" for report in reports)  # with memory or without
                print(
                    f"  {'two values' if two else 'normal':<10}  {words:<32}  {rows:>5} rows  "
                    f"{count} logs: private broken {attacked}, anything broken {sum(not r.ok for r in reports)}",
                    flush=True,
                )
    print(f"\nverdicts of {options.seeds} logs each: broken / cannot tell / holds")
    for two in (False, True):
        for words, memory in LIKE.items():
            print(f"\n| g {'of two values' if two else 'normal'}, {words} | " + " | ".join(
                f"{part:.0%} of the promised variance" for part in PARTS) + " |")  # fmt: skip
            for rows in ROWS:
                cells = []
                for part in PARTS:
                    counts = Counter(
                        verdict(audited(plan, part, rows, memory, two, k)) for k in range(options.seeds)
                    )
                    cells.append(f"{counts['broken']} / {counts['cannot tell']} / {counts['holds']}")
                print(f"| {rows} rows | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


def error_of_both() -> float:
    """The variance that both readings leave of g."""
    covariance = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    gain = np.linalg.solve(covariance + NOISE * np.eye(2), covariance[1])
    return float(1.0 - covariance[1] @ gain)


if __name__ == "__main__":
    main()
