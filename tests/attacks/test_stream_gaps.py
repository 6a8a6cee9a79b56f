"""Gaps, starts and restarts of streams: nobody may learn more around them than the plan states."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import (
    NOISES,
    leaky_stream,
    least_window_error,
    random_stream,
    simulated_stream,
)
from veilnet._core.types import Array, Booleans
from veilnet._core.words import times
from veilnet.bounds.streams.knowledge import raw_stream, stream_knowledge
from veilnet.cli import run
from veilnet.io.signing import make_key
from veilnet.model.stream_size import GAPS_ARE_NOT_COMPUTED
from veilnet.plans.certificate import Promise, certify
from veilnet.plans.in_words import promise_in_words
from veilnet.plans.plan import make_plan
from veilnet.recheck.stream import StreamRecheck

LEFT = 0.99


def _error_with_gaps(plan: vn.Plan, name: str) -> float:
    """The error variance that the plan states around gaps."""
    raw = raw_stream(plan.network)
    rows = np.zeros((len(plan.network.private[name]), len(raw.basis)))
    rows[:, : plan.network.L] = plan.network.private[name]
    return float(np.trace(raw.error(rows, hindsight=True)) * (1 + plan.privacy_with_gaps[name]))


@pytest.mark.parametrize("seed", [0, *(pytest.param(slow, marks=pytest.mark.long) for slow in range(1, 6))])
def test_no_pattern_of_gaps_leaves_less_than_is_stated(seed: int) -> None:
    """The whole window as one Gaussian: gaps of 1, 3 and 10 rows, of one agent and of all, two in a row, restarts."""
    noise = NOISES[seed % 3]
    network = random_stream(seed + 20, noise=noise, joint=seed > 2, sizes=(2, 3, 2), parameters=3, radius=0.7)
    plan = vn.design(network)
    agents = [agent for agent in network.agents if plan.sanitizers[agent].order]
    one, everyone = agents[seed % len(agents)], agents
    patterns: list[dict[str, dict[int, list[str]]]] = []
    for who in ([one], everyone):
        patterns += [{"missed": {30 + k: who for k in range(length)}} for length in (1, 3, 10)]
        patterns.append({"missed": {30: who, 32: who}})
        patterns.append({"anew": {30: who}})
    for name, rows in network.private.items():
        stated = _error_with_gaps(plan, name)
        assert plan.privacy_with_gaps[name] >= LEFT * (1 + plan.privacy[name]) - 1
        found = [least_window_error(network, plan.sanitizers, rows, **pattern) for pattern in patterns]  # type: ignore[arg-type]
        assert min(found) >= LEFT * stated


def test_what_is_stated_is_confirmed_and_a_larger_claim_is_not() -> None:
    plan = vn.design(random_stream(24, radius=0.8))
    findings = {finding.what: finding for finding in plan.certificate.findings}
    for name, least in plan.privacy_with_gaps.items():
        finding = findings[f"privacy of {name} with gaps"]
        assert finding.ok
        assert finding.found == pytest.approx(least, rel=1e-6)
    empty = {
        agent: each.replace(memory=None if each.memory is None else each.memory.with_start(None))
        for agent, each in plan.sanitizers.items()
    }
    promise = Promise(utility=plan.utility, privacy=plan.privacy, with_gaps=plan.privacy_with_gaps)
    assert certify(plan.network, plan.sanitizers, promise).ok
    assert not certify(plan.network, empty, promise).ok
    more = {name: 1.00001 * (1 + least) - 1 for name, least in plan.privacy_with_gaps.items()}
    assert not certify(plan.network, plan.sanitizers, replace(promise, with_gaps=more)).ok


def test_more_is_left_where_more_is_asked_for() -> None:
    network = random_stream(524, sizes=(2, 3, 2), radius=0.9)
    plans = [vn.design(network, gap_privacy=part) for part in (0.0, 0.9999)]
    for name in network.private:
        assert plans[1].privacy_with_gaps[name] >= 0.9999 * (1 + plans[1].privacy[name]) - 1
        assert plans[1].privacy_with_gaps[name] >= plans[0].privacy_with_gaps[name]
    with pytest.raises(vn.InvalidRequest, match="gap_privacy"):
        vn.design(network, gap_privacy=1.0)
    with pytest.raises(vn.InvalidRequest, match="gap_privacy"):
        vn.design(network.one_row, gap_privacy=0.9)


def test_a_memory_that_went_on_without_a_missed_row_left_a_quarter() -> None:
    """What gaps did before memories began anew: the figure that the end-to-end test below is about."""
    network = leaky_stream(163)
    plan = vn.design(network)
    empty = {
        agent: each.replace(memory=None if each.memory is None else each.memory.with_start(None))
        for agent, each in plan.sanitizers.items()
    }
    rows, near = network.private["g"], range(28, 36)
    stated = _error_with_gaps(plan, "g")
    assert least_window_error(network, empty, rows, missed={30: ["a"]}, places=near) < 0.25 * stated
    assert (
        least_window_error(network, plan.sanitizers, rows, missed={30: ["a"]}, places=near) >= LEFT * stated
    )


def test_end_to_end_a_linear_attacker_has_no_more_on_rows_after_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design and sanitize on the command line, 10 % of rows missed: regression on the messages around each gap."""
    monkeypatch.chdir(tmp_path)
    network = leaky_stream(163)
    network.save("stream.json")
    assert run(["design", "stream.json", "--out", "plan"]) == 0
    plan = vn.Plan.load("plan")
    count = 6000
    rng = np.random.default_rng(5)
    x, readings = simulated_stream(network, count, rng)
    missed = rng.random((count, network.S)) < 0.1
    messages = np.zeros((count, 0))
    for place, agent in enumerate(network.agents):
        own = readings[:, network.blocks.rows(place)]
        _write(tmp_path / f"{agent}.csv", own, missed[:, place])
        command = ["sanitize", f"plan/{agent}.json", "--in", f"{agent}.csv", "--out", f"{agent}.out.csv"]
        assert run(command) == 0  # rows missed are counted, and no fault
        messages = np.concatenate([messages, _read(tmp_path / f"{agent}.out.csv", count)], axis=1)
    stated = _error_with_gaps(plan, "g")
    known = stream_knowledge(network, plan.sanitizers)
    usual = float(np.trace(known.error(network.private["g"], hindsight=True)))
    assert stated >= LEFT * usual
    after = np.flatnonzero(missed[:-8, 0]) + 1
    after = after[(after > 8) & ~missed[after, 0]]
    error = _attacked(messages, x @ network.private["g"][0], after)
    # the mean of squared errors, five deviations below what is stated
    assert error > stated * (1 - 5 * np.sqrt(2 / after.size))


def _write(path: Path, readings: Array, missed: Booleans) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *(f"y{k}" for k in range(readings.shape[1]))])
        for row, values in enumerate(readings):
            if not missed[row]:
                writer.writerow([row + 1, *values])


def _read(path: Path, count: int) -> Array:
    """The numbers of each row, zero where the agent said that it missed one."""
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    found = np.zeros((count, len(rows[0]) - 3))
    for fields in rows:
        if fields[3] != "missed":
            found[int(fields[0]) - 1] = [float(each) for each in fields[3:]]
    return found


def _attacked(messages: Array, truth: Array, places: Array) -> float:
    """The error of ridge regression on messages up to six rows before and after, leave-one-half-out."""
    lagged = np.concatenate([messages[places + lag] for lag in range(-6, 7) if lag], axis=1)
    lagged = np.concatenate([lagged, messages[places], np.ones((len(places), 1))], axis=1)
    half = len(places) // 2
    errors = []
    for train, judge in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        a, b = lagged[train], truth[places[train]]
        weights = np.linalg.solve(a.T @ a + 1e-6 * len(a) * np.eye(a.shape[1]), a.T @ b)
        errors.append(np.mean((truth[places[judge]] - lagged[judge] @ weights) ** 2))
    return float(np.mean(errors))


def test_a_deployed_agent_that_begins_empty_is_caught() -> None:
    plan = vn.design(random_stream(24, radius=0.8))
    agent = next(name for name, each in plan.sanitizers.items() if each.memory is not None)
    wrong = plan.sanitizers[agent]
    assert wrong.memory is not None
    deployed = dict(plan.sanitizers) | {agent: wrong.replace(memory=wrong.memory.with_start(None))}
    sound = vn.audit(plan, only=["deployed"])
    assert sound.ok
    found = vn.audit(plan, sanitizers=deployed, only=["deployed"])
    assert not found.ok
    assert any(agent in row.sentence for row in found.rows if row.verdict == "fail")


def test_a_memory_without_a_start_cannot_be_planned_in_small_streams() -> None:
    """Designs give every memory its start: what made_plan returns never begins empty."""
    network = random_stream(21, radius=0.7)
    memory = vn.Memory([[0.5]], [[1.0, 2.0]])
    sent = {
        agent: vn.Sanitizer(
            np.ones((1, 1 + int(size))), 1.0, memory=vn.Memory([[0.5]], np.ones((1, int(size))))
        )
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    }
    assert memory.start is None
    plan = make_plan(network, sent, "test")
    assert all(each.memory is not None and each.memory.start is not None for each in plan.sanitizers.values())


def test_inspect_states_what_gaps_leave_signed_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = vn.design(random_stream(24, radius=0.8))
    plan.save(tmp_path / "plan")
    agent = next(agent for agent in plan.network.agents if plan.sanitizers[agent].order)
    file = tmp_path / "plan" / f"{agent}.json"
    assert run(["inspect", str(file), "--json"]) == 0
    beside = json.loads(capfd.readouterr().out)["promise"]
    for name, least in plan.privacy_with_gaps.items():
        assert np.isfinite(least)
        line = next(line for line in beside if f"of {name} grows" in line)
        assert f"at least {times(1 + least)}" in line
    make_key(tmp_path / "designer.key")
    assert run(["sign", str(tmp_path / "plan"), "--key", str(tmp_path / "designer.key")]) == 0
    (tmp_path / "plan" / "plan.json").unlink()
    capfd.readouterr()
    assert run(["inspect", str(file), "--trust", str(tmp_path / "designer.pub"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["promise"] == beside


def test_a_promise_whose_gaps_were_not_computed_says_so() -> None:
    whole, unknown = (promise_in_words(["u"], 0.0, {"g": 2.0}, None, gaps) for gaps in ({"g": 1.9}, {}))
    assert GAPS_ARE_NOT_COMPUTED in unknown
    assert GAPS_ARE_NOT_COMPUTED not in whole


def test_what_a_short_window_happens_to_find_is_no_promise() -> None:
    """Whose numbers are undone only by very many rows: no window shows it, the steady error does."""
    network = vn.Network(
        {"a": [[1.0]]},
        1.0,
        public={"u": [1.0]},
        private={"g": [1.0]},
        dynamics=vn.Dynamics([[0.9]], [[1.0]]),
    )
    memory = vn.Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0], [0.0]], start=4.0 * np.eye(2))
    differences = {"a": vn.Sanitizer([[0.0, -0.9999, 1.0]], 0.0, memory=memory)}
    assert stream_knowledge(network, differences).privacy["g"] < 1e-6
    assert StreamRecheck(network, differences).growths_with_gaps({"g": 0.0})["g"] < 1e-4
