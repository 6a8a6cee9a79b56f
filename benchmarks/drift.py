"""How often the watch for drift cries wolf, and how soon it notices a change; the gate's rates beside it.

    OMP_NUM_THREADS=1 python benchmarks/drift.py

Rows are drawn from the bundled house's own model, independent or with an x that persists (x[t] = r x[t-1] + ...).
"""

from __future__ import annotations

import time

import numpy as np

import veilnet as vn
from veilnet.centre.redundancy import redundancy
from veilnet.io.template import house

ROWS = 400_000
BLOCK = 4096


def drawn(plan: vn.Plan, rows: int, seed: int, persistence: float = 0.0) -> np.ndarray:
    """Messages of rows of the model."""
    network = plan.network
    rng = np.random.default_rng(seed)
    along = rng.standard_normal((rows, network.L))
    if persistence:
        for row in range(1, rows):
            along[row] = persistence * along[row - 1] + np.sqrt(1 - persistence**2) * along[row]
    x = network.prior.mean + along @ np.linalg.cholesky(network.prior.covariance).T  # type: ignore[union-attr]
    noise = rng.standard_normal((rows, network.N)) @ np.linalg.cholesky(network.sensor_noise.matrix()).T
    readings = x @ network.H.T + network.offset + noise
    return np.concatenate(
        [
            plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng)
            for place, agent in enumerate(network.agents)
        ],
        axis=1,
    )


def false_alarms(plan: vn.Plan, per_rows: float) -> None:
    """Alarms in rows of the model."""
    for persistence in (0.0, 0.9, 0.99, 0.999):
        messages = drawn(plan, ROWS, 1, persistence)
        drift = vn.Drift(vn.Fusion(plan), per_rows)
        start = time.process_time()
        alarms = [
            change
            for first in range(0, ROWS, BLOCK)
            for change in drift.look(messages[first : first + BLOCK])
        ]
        cost = (time.process_time() - start) / ROWS * 1e6
        distinct = len({(change.kind, change.agent) for change in alarms})
        print(
            f"x persists by {persistence}: {len(alarms)} alarms in {ROWS} rows, {ROWS / per_rows:.0f} allowed; "
            f"told: {distinct}; {cost:.1f} microseconds a row"
        )


def short_logs(plan: vn.Plan, logs: int = 20, rows: int = 20_000) -> None:
    """Logs of the model with an alarm in them: a slow x may begin a log far from its mean."""
    for persistence in (0.0, 0.9, 0.99, 0.999, 0.9999):
        kinds = []
        for log in range(logs):
            messages, drift = drawn(plan, rows, 1000 + log, persistence), vn.Drift(vn.Fusion(plan))
            alarms = [
                c for first in range(0, rows, BLOCK) for c in drift.look(messages[first : first + BLOCK])
            ]
            kinds.append({change.kind for change in alarms})
        shown = ", ".join(
            f"{kind} in {sum(kind in found for found in kinds)}" for kind in ("bias", "scatter")
        )
        print(
            f"x persists by {persistence}: alarms in {sum(map(bool, kinds))} of {logs} logs of {rows} rows; {shown}"
        )


def delays(plan: vn.Plan, size: float, persistence: float, runs: int = 40, history: int = 6000) -> None:
    """Rows until a lasting change of one agent's messages is noticed."""
    model = plan.messages
    tests = redundancy(model, np.zeros(len(model.agents), bool))
    own = model.blocks.rows(1)
    _, strength, directions = np.linalg.svd(tests.agents[tests.owner == 1][:, own])
    found = []
    for run in range(runs):
        messages = drawn(plan, 2 * history, 100 + run, persistence)
        messages[history:, own] += size * directions[0] / strength[0]
        drift = vn.Drift(vn.Fusion(plan))
        alarms = [
            c for first in range(0, 2 * history, 256) for c in drift.look(messages[first : first + 256])
        ]
        after = [change.until - history for change in alarms if change.until >= history]
        found.append(min(after, default=np.inf))
    quartiles = np.sort(found)[[runs // 2, 9 * runs // 10]]
    print(
        f"{size} deviations, x persists by {persistence}: noticed after {quartiles[0]:.0f} rows (median), "
        f"{quartiles[1]:.0f} (nine of ten); not within {history}: {sum(np.isinf(found))} of {runs}"
    )


def main() -> None:
    """Print all figures."""
    plan = vn.design(house())
    false_alarms(plan, 1e5)
    short_logs(plan)
    for persistence in (0.0, 0.9):
        for size in (0.5, 1.0, 2.0):
            delays(plan, size, persistence)
    messages = drawn(plan, ROWS, 2)
    for rate in (1e-2, 1e-3, 1e-4):
        doubted = {doubt.row for doubt in vn.Fusion(plan, gate=rate).estimate(messages).contradictions}
        print(f"gate {rate:g}: {len(doubted) / ROWS:.2g} of rows doubted")


if __name__ == "__main__":
    main()
