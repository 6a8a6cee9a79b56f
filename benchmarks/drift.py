"""How often the watch for drift cries wolf, and how soon it notices a change; the gate's rates beside it.

    OMP_NUM_THREADS=1 python benchmarks/drift.py            all of it
    OMP_NUM_THREADS=1 python benchmarks/drift.py --quick    few logs, independent rows

Rows are drawn from the bundled house's own model, independent or with an x that persists (x[t] = r x[t-1] + ...).
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.signal import lfilter

import veilnet as vn
from veilnet.centre.drift import Change
from veilnet.centre.gate import redundancy
from veilnet.io.template import house

ROWS = 400_000
BLOCK = 4096
MEMORIES = (0.0, 0.9, 0.99, 0.999, 0.9999)


def carried(rng: np.random.Generator, rows: int, columns: int, memory: float) -> np.ndarray:
    """Series of variance one that keep so much of themselves from row to row."""
    steps = rng.standard_normal((rows, columns))
    steps[1:] *= np.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], steps, axis=0))


def drawn(plan: vn.Plan, rows: int, seed: int, of_x: float = 0.0, of_noise: float = 0.0) -> np.ndarray:
    """Messages of rows of the model, in which x and the readings' noise have these memories."""
    network = plan.network
    rng = np.random.default_rng(seed)
    x = carried(rng, rows, network.L, of_x) @ np.linalg.cholesky(network.prior.covariance).T  # type: ignore[union-attr]
    noise = carried(rng, rows, network.N, of_noise) @ np.linalg.cholesky(network.sensor_noise.matrix()).T
    readings = (x + network.prior.mean) @ network.H.T + network.offset + noise  # type: ignore[union-attr]
    return np.concatenate(
        [
            plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng)
            for place, agent in enumerate(network.agents)
        ],
        axis=1,
    )


def watched(plan: vn.Plan, messages: np.ndarray, per_rows: float = 1e6, block: int = BLOCK) -> list[Change]:
    """All alarms."""
    drift = vn.Drift(vn.Fusion(plan), per_rows)
    return [
        change
        for first in range(0, len(messages), block)
        for change in drift.look(messages[first : first + block])
    ]


def false_alarms(plan: vn.Plan, logs: int = 20, rows: int = 20_000, per_rows: float = 1e6) -> None:
    """Logs of the model with an alarm in them: a slow x may begin a log far from its mean."""
    allowed = logs * rows / per_rows
    for which, memories in (("x", MEMORIES), ("noise", MEMORIES[1:])):
        for memory in memories:
            kinds: list[set[str]] = []
            for log in range(logs):
                of_x, of_noise = memory * (which == "x"), memory * (which == "noise")
                messages = drawn(plan, rows, 5000 + log, of_x, of_noise)
                kinds.append({change.kind for change in watched(plan, messages, per_rows)})
            shown = ", ".join(
                f"{kind} in {sum(kind in found for found in kinds)}" for kind in ("bias", "scatter")
            )
            print(
                f"memory {memory} of {which}: alarms in {sum(map(bool, kinds))} of {logs} logs of {rows} rows "
                f"({allowed:.1f} allowed); {shown}",
                flush=True,
            )


def cost(plan: vn.Plan) -> None:
    """Time a row."""
    messages = drawn(plan, ROWS, 1)
    start = time.process_time()
    watched(plan, messages)
    print(f"{(time.process_time() - start) / ROWS * 1e6:.1f} microseconds a row")


def delays(
    plan: vn.Plan, size: float, of_x: float = 0.0, of_noise: float = 0.0, runs: int = 20, history: int = 6000
) -> None:
    """Rows until a lasting change of one agent's messages is noticed."""
    model = plan.messages
    tests = redundancy(model, np.zeros(len(model.agents), bool))
    own = model.blocks.rows(1)
    _, strength, directions = np.linalg.svd(tests.agents[tests.owner == 1][:, own])
    found = []
    for run in range(runs):
        messages = drawn(plan, 2 * history, 7000 + run, of_x, of_noise)
        messages[history:, own] += size * directions[0] / strength[0]
        after = [c.until - history for c in watched(plan, messages, block=256) if c.until >= history]
        found.append(min(after, default=np.inf))
    quartiles = np.sort(found)[[runs // 2, 9 * runs // 10]]
    print(
        f"{size} deviations, memory {of_x} of x, {of_noise} of noise, after {history} rows: noticed after "
        f"{quartiles[0]:.0f} rows (median), {quartiles[1]:.0f} (nine of ten); "
        f"missed: {sum(np.isinf(found))} of {runs}",
        flush=True,
    )


def main(*, quick: bool) -> None:
    """Print all figures, or the quick ones."""
    plan = vn.design(house())
    cost(plan)
    if quick:
        false_alarms(plan, logs=3)
        delays(plan, 2.0, runs=4)
        return
    false_alarms(plan)
    for size in (1.0, 0.5, 2.0):
        for of_x, of_noise in ((0.0, 0.0), (0.9, 0.0), (0.99, 0.0), (0.0, 0.9)):
            delays(plan, size, of_x, of_noise)
    for of_x in (0.9, 0.99):
        delays(plan, 1.0, of_x, runs=10, history=50_000)
    messages = drawn(plan, ROWS, 2)
    for rate in (1e-2, 1e-3, 1e-4):
        doubted = {doubt.row for doubt in vn.Fusion(plan, gate=rate).estimate(messages).contradictions}
        print(f"gate {rate:g}: {len(doubted) / ROWS:.2g} of rows doubted")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
