"""A model that does not hold any more is noticed, once, and one that holds is left in peace.

Oracles: rows drawn from the model, with planted changes; the longer studies are in ``benchmarks/drift.py``.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy.stats import poisson

import veilnet as vn
from veilnet import cli
from veilnet.centre.gate import redundancy


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    return vn.design(
        vn.Network(
            observe={
                "left": [[1.0, 0.6], [0.2, 1.0]],
                "right": [[1.0, -0.7], [0.1, 0.8]],
                "far": [[1.0, 0.1]],
            },
            noise=0.3,
            public={"u": [1.0, 0.0]},
            private={"g": [0.0, 1.0]},
            prior=vn.Prior(covariance=np.diag([9.0, 1.0]), mean=[20.0, 0.0]),
        )
    )


def drawn(plan: vn.Plan, rows: int, seed: int, *, persistence: float = 0.0) -> dict[str, np.ndarray]:
    network = plan.network
    rng = np.random.default_rng(seed)
    along = rng.standard_normal((rows, network.L))
    for row in range(1, rows if persistence else 0):
        along[row] = persistence * along[row - 1] + np.sqrt(1 - persistence**2) * along[row]
    x = network.prior.mean + along @ np.linalg.cholesky(network.prior.covariance).T
    noise = rng.standard_normal((rows, network.N)) @ np.linalg.cholesky(network.R.matrix()).T
    readings = x @ network.H.T + noise
    return {
        agent: np.asarray(plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng))
        for place, agent in enumerate(network.agents)
    }


def watched(drift: vn.Drift, messages: dict[str, np.ndarray], block: int = 1024):
    rows = len(next(iter(messages.values())))
    return [
        change
        for start in range(0, rows, block)
        for change in drift.look({agent: z[start : start + block] for agent, z in messages.items()})
    ]


def one_deviation(plan: vn.Plan, agent: str) -> np.ndarray:
    """The change of an agent's messages that moves its residual by one."""
    model = plan.messages
    place = model.agents.index(agent)
    tests = redundancy(model, np.zeros(len(model.agents), bool))
    _, strength, directions = np.linalg.svd(tests.agents[tests.owner == place][:, model.blocks.rows(place)])
    return directions[0] / strength[0]


@pytest.mark.parametrize("gaps", [False, True])
def test_false_alarms_are_no_more_than_stated(plan, gaps: bool) -> None:
    messages = drawn(plan, 60_000, 1)
    if gaps:
        rng = np.random.default_rng(3)
        for values in messages.values():
            values[rng.random(60_000) < 0.2] = np.nan
    per_rows = 10_000
    alarms = watched(vn.Drift(vn.Fusion(plan), per_rows), messages)
    assert len(alarms) <= poisson.isf(1e-6, 60_000 / per_rows)


def test_a_room_that_stays_warm_is_no_drift(plan) -> None:
    messages = drawn(plan, 30_000, 2, persistence=0.95)
    assert not watched(vn.Drift(vn.Fusion(plan)), messages)


def test_a_change_of_one_deviation_is_noticed_soon_and_named(plan) -> None:
    delays, right = [], 0
    for seed in range(12):
        messages = drawn(plan, 8000, 10 + seed)
        messages["right"][4000:] += one_deviation(plan, "right")
        drift = vn.Drift(vn.Fusion(plan))
        alarms = [change for change in watched(drift, messages, 256) if change.until >= 4000]
        named = next(change for change in alarms if change.agent)
        assert named.kind == "bias"
        assert 0.5 < named.size < 2.0
        assert named.since > 3900
        delays.append(named.until - 4000)
        right += named.agent == "right"  # others look off from it, if less, and may be told first
    assert np.median(delays) < 150
    assert right >= 9


def test_how_far_estimates_are_moved_is_told(plan) -> None:
    messages = drawn(plan, 40_000, 4)
    clean = vn.Fusion(plan).estimate(messages)
    for agent in ("left", "far"):
        moved = {name: values.copy() for name, values in messages.items()}
        moved[agent][20_000:] += 2 * one_deviation(plan, agent)
        estimate = vn.Fusion(plan).estimate(moved)
        shift = (estimate.public - clean.public)[-1, 0] / clean.deviation[-1, 0]
        alarms = [c for c in watched(vn.Drift(vn.Fusion(plan)), moved) if c.agent == agent and c.rows >= 512]
        assert alarms[0].public["u"] == pytest.approx(shift, abs=0.15 * max(1, abs(shift)))
        assert f"u by {alarms[0].public['u']:+.2g}" in str(alarms[0])


def test_noise_that_doubled_is_noticed(plan) -> None:
    messages = drawn(plan, 8000, 5)
    rng = np.random.default_rng(0)
    size = one_deviation(plan, "left")
    messages["left"][4000:] += rng.standard_normal((4000, 1)) * 1.8 * size
    alarms = [change for change in watched(vn.Drift(vn.Fusion(plan)), messages) if change.until >= 4000]
    assert {(change.kind, change.agent) for change in alarms} >= {("scatter", "left")}
    assert "scatter" in str(alarms[0])


def test_what_was_wrong_from_the_first_row_is_found(plan) -> None:
    messages = drawn(plan, 3000, 6)
    messages["right"] += 2 * one_deviation(plan, "right")
    assert "right" in {change.agent for change in watched(vn.Drift(vn.Fusion(plan)), messages)}


def test_rows_may_come_one_by_one(plan) -> None:
    messages = drawn(plan, 2600, 7)
    messages["right"][2000:] += 2 * one_deviation(plan, "right")
    whole = watched(vn.Drift(vn.Fusion(plan)), messages, 2600)
    single = watched(vn.Drift(vn.Fusion(plan)), messages, 1)
    assert {change.agent for change in single} >= {"right"}
    assert {change.agent for change in whole} >= {"right"}


@pytest.mark.parametrize(("fusion", "per_rows"), [(None, 1e6), ("plan", 10.0), ("plan", "often")])
def test_what_cannot_be_watched(plan, fusion, per_rows) -> None:
    with pytest.raises(vn.InvalidRequest):
        vn.Drift(vn.Fusion(plan) if fusion else fusion, per_rows)


def test_fuse_says_once_what_changed_and_since_when(plan, tmp_path, capfd) -> None:
    plan.save(tmp_path / "plan")
    messages = drawn(plan, 3000, 8)
    messages["right"][2000:] += 1.5 * one_deviation(plan, "right")
    messages["far"][2500:] += 1e5
    mark = json.loads((tmp_path / "plan/plan.json").read_text())["plan"][:8]
    pairs = []
    for agent, values in messages.items():
        head = ["time", "plan", "agent", *(f"z{k + 1}" for k in range(values.shape[1]))]
        lines = [[60 * row, mark, agent, *map(repr, z)] for row, z in enumerate(values.tolist())]
        with (tmp_path / f"{agent}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *lines])
        pairs.append(f"{agent}={tmp_path / agent}.csv")
    out = tmp_path / "e.csv"
    command = ["fuse", str(tmp_path / "plan/center.json"), *pairs, "--out", str(out), "--json"]
    assert cli.run(command) == 1
    shown = capfd.readouterr()
    said = [line for line in shown.err.splitlines() if " since " in line]
    assert sum("the messages of right are off by" in line for line in said) == 1
    assert sum("the messages of far contradict the model again and again" in line for line in said) == 1
    changes = {(one["kind"], one["agent"]): one for one in json.loads(shown.out)["changes"]}
    since = float(changes["bias", "right"]["since"]) / 60
    assert 1900 <= since < 2200
    assert float(changes["contradictions", "far"]["since"]) / 60 == 2500
    assert "veilnet refit" in shown.err
