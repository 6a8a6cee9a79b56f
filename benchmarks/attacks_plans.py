"""Plans made to carry raw readings, many of each kind: how often inspect raises an alarm, and on plans at random.

    python benchmarks/attacks_plans.py [--times 200]

Readings lie between -1 and 1, and six to twelve of them are mixed into fewer numbers at random. Into these somebody
hides a reading: as it is, turned round among the others, below another one's digits, or under noise that the
difference of two numbers cancels. It fails where one of these passes, or where a plan at random is an alarm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import veilnet as vn
from veilnet._core.types import Array
from veilnet.review.inspection import inspect

sys.path.insert(0, str(Path(__file__).resolve().parent))

from timing import markdown

Made = tuple[Array, Array | None]


def at_random(rng: np.random.Generator) -> Made:
    """Nothing hidden: fewer numbers than readings."""
    readings = int(rng.integers(6, 13))
    return rng.standard_normal((int(rng.integers(1, readings // 2)), readings)), None


def raw(rng: np.random.Generator) -> Made:
    """One reading alone among mixed ones, all turned by a random matrix."""
    rows, _ = at_random(rng)
    one = np.zeros((1, rows.shape[1]))
    one[0, rng.integers(rows.shape[1])] = 1.0
    together = np.concatenate([one, rows])
    return rng.standard_normal((len(together), len(together))) @ together, None


def everything(rng: np.random.Generator) -> Made:
    """As many numbers as readings, whatever they look like."""
    readings = int(rng.integers(6, 13))
    return rng.standard_normal((readings, readings)) * 10.0 ** rng.uniform(-3, 3, (readings, 1)), None


def packed(rng: np.random.Generator) -> Made:
    """One reading in the low digits of another, among mixed numbers, all turned by a random matrix."""
    rows, _ = at_random(rng)
    one = np.zeros((1, rows.shape[1]))
    high, low = rng.choice(rows.shape[1], 2, replace=False)
    one[0, [high, low]] = 1.0, 10.0 ** -rng.uniform(4, 6)
    together = np.concatenate([one, rows])
    return rng.standard_normal((len(together), len(together))) @ together, None


def cancelling(rng: np.random.Generator) -> Made:
    """The same noise on two numbers that differ by one reading."""
    readings = int(rng.integers(6, 13))
    row = rng.standard_normal(readings)
    other = row.copy()
    other[rng.integers(readings)] += rng.uniform(0.5, 2)
    return np.stack([row, other]), np.full((2, 2), rng.uniform(1, 100))


KINDS: dict[str, Callable[[np.random.Generator], Made]] = {
    "mixed at random, nothing hidden": at_random,
    "a raw reading, turned among others": raw,
    "as many numbers as readings": everything,
    "a reading in another one's low digits, turned among others": packed,
    "noise that cancels between two numbers": cancelling,
}


def main(times: int) -> int:
    """The table; exit code 1 where an attack passes or a plan at random is an alarm."""
    rows, code = [], 0
    for number, (kind, make) in enumerate(KINDS.items()):
        alarms = 0
        for time in range(times):
            compression, noise = make(np.random.default_rng([number, time]))
            bounds = np.ones(compression.shape[1])
            alarms += not inspect(vn.Sanitizer(compression, noise, limits=(-bounds, bounds), agent="a")).ok
        rows.append([kind, str(times), str(alarms)])
        code |= alarms > 0 if make is at_random else alarms < times
    print(markdown(["plan", "tried", "alarms"], rows))
    return int(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=200, help="plans of each kind")
    sys.exit(main(parser.parse_args().times))
