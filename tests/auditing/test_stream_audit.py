"""The audit of stream plans: sound ones pass, planted leaks are caught, and what has no meaning is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.honest_streams import honest_plan
from helpers.said import says
from helpers.stream_plans import Kind, noisy_stream_plan, stream_network
from veilnet._core.types import Array
from veilnet.auditing.attack.attackers import attacker_rows, choose_attackers
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.deployed.response import planned_answers
from veilnet.auditing.deployed.rows import deployed_rows
from veilnet.auditing.differential_privacy import sensitivity
from veilnet.auditing.promise import simulation_rows
from veilnet.auditing.sections import Section
from veilnet.auditing.streams.world import StreamWorld, window_rows
from veilnet.auditing.worlds import world_of
from veilnet.cli import run
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow

QUICK = vn.Trials(quick=True, rows=2000)
CHANCE = 2e-7


def silent(_: float) -> None:
    """No progress is shown."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return noisy_stream_plan(stream_network(11))


def as_function(sanitizer: vn.Sanitizer) -> Callable[[Array], Any]:
    """A sanitizer whose numbers the audit cannot read, only its answers; every call is a new stream."""
    if sanitizer.memory is None:
        return lambda readings: np.asarray(sanitizer.sanitize(readings))
    return lambda readings: np.asarray(sanitizer.stream().sanitize(readings))


def functions(plan: Plan, **replaced: Any) -> dict[str, Any]:
    return {agent: as_function(s) for agent, s in plan.sanitizers.items()} | replaced


def failures(plan: Plan, deployed: dict[str, Any]) -> dict[str, str]:
    """What fails among the black-box checks of a deployment -> the sentence."""
    rows = deployed_rows(deployment(plan, deployed), 5e-7, 0, silent)
    return {row.what: row.sentence for row in rows if row.verdict == "fail"}


def attacked(plan: Plan, deployed: dict[str, Any], count: int = 12_000) -> dict[str, str]:
    """What fails when the best estimators with memory attack simulated streams."""
    world = StreamWorld(plan.network)
    rows = window_rows(world, plan.sanitizers)
    rows += simulation_rows(world, deployment(plan, deployed), CHANCE, 0, count, silent)
    return {row.what: row.sentence for row in rows if row.verdict == "fail"}


@pytest.mark.parametrize("kind", ["white", "joint", "coloured", "dithered", "walk"])
def test_a_sound_deployment_passes(kind: Kind) -> None:
    sound = noisy_stream_plan(stream_network(3, kind))
    assert failures(sound, dict(sound.sanitizers)) == {}
    assert failures(sound, functions(sound)) == {}
    assert attacked(sound, functions(sound), 3000) == {}


def test_a_perfect_plan_passes_every_section() -> None:
    """All but the comparison with others, which has tests of its own."""
    perfect = vn.design(stream_network(5))
    sections = [section.value for section in Section if section not in (Section.BASELINES, Section.LEDGER)]
    report = vn.audit(perfect, trials=QUICK, only=sections)
    assert report.ok, str(report)
    assert len(report.sections) >= 8
    promised = {row.what: row for row in report.of("the promise")}
    hindsight = promised["attack on g, with hindsight"]
    raw = vn.crlb(perfect.network, when="hindsight")
    rows = perfect.network.private["g"]
    assert hindsight.promised == pytest.approx(
        (1 + perfect.privacy["g"]) * float(np.trace(rows @ raw @ rows.T)), rel=1e-4
    )
    assert hindsight.figures["effective rows"] < 2001 * 2


# --- planted leaks


def tampered(sanitizer: vn.Sanitizer, transition: float = 1.0, gain: float = 1.0) -> vn.Sanitizer:
    memory = sanitizer.memory
    assert memory is not None
    return sanitizer.replace(memory=vn.Memory(transition * memory.transition, gain * memory.gain))


def test_a_memory_that_goes_on_otherwise(plan: Plan) -> None:
    mutant = tampered(plan.sanitizers["a1"], transition=0.5)
    found = failures(plan, functions(plan, a1=as_function(mutant)))
    assert "a1" in found["combinations sent"]
    found = failures(plan, dict(plan.sanitizers) | {"a1": mutant})
    says(found["sanitizers against the plan"], "a1", "memory")


def test_a_memory_that_takes_in_too_much(plan: Plan) -> None:
    mutant = tampered(plan.sanitizers["a0"], gain=1.05)
    assert "a0" in failures(plan, functions(plan, a0=as_function(mutant)))["combinations sent"]
    found = failures(plan, dict(plan.sanitizers) | {"a0": mutant})
    assert "takes in readings otherwise" in found["sanitizers against the plan"]


@pytest.mark.parametrize("part", [0.5, 2.0])
def test_noise_of_another_strength(plan: Plan, part: float) -> None:
    mutant = plan.sanitizers["a2"].replace(noise=part * plan.sanitizers["a2"].noise)
    assert "a2" in failures(plan, functions(plan, a2=as_function(mutant)))["strength of the noise"]


def test_a_filter_that_is_reset_now_and_then(plan: Plan) -> None:
    """A restart that forgets: every hundredth row the memory begins anew."""
    own = plan.sanitizers["a1"]

    def release(readings: Array) -> Array:
        parts = [readings[start : start + 100] for start in range(0, len(readings), 100)]
        return np.concatenate([np.asarray(own.stream().sanitize(part)) for part in parts])

    assert failures(plan, functions(plan, a1=release)).keys() & {"combinations sent", "strength of the noise"}


def test_noise_drawn_once_for_two_rows(plan: Plan) -> None:
    own, rng = plan.sanitizers["a0"], np.random.default_rng([17, 2**40])

    def release(readings: Array) -> Array:
        drawn = rng.standard_normal((len(readings) // 2 + 1, own.sent)) @ own.noise_root
        values = planned_answers(own, readings) + drawn.repeat(2, axis=0)[: len(readings)]
        return np.asarray(np.rint(values / own.grid) * own.grid + 0.0)

    assert "a0" in failures(plan, functions(plan, a0=release))["noise used once"]


def test_a_raw_reading_in_place_of_a_number(plan: Plan) -> None:
    own = plan.sanitizers["a2"]

    def release(readings: Array) -> Array:
        values = np.asarray(own.stream().sanitize(readings))
        values[:, 0] = np.rint((readings - own.offset)[:, 0] / own.grid[0]) * own.grid[0]
        return values

    assert failures(plan, functions(plan, a2=release)).keys() & {"combinations sent", "strength of the noise"}


def test_a_memory_that_was_left_out(plan: Plan) -> None:
    own = plan.sanitizers["a0"]
    memoryless = own.replace(
        memory=None,
        compression=own.compression[:, own.order :] + own.compression[:, : own.order] @ own.memory.gain,
    )
    found = failures(plan, dict(plan.sanitizers) | {"a0": memoryless})
    says(found["sanitizers against the plan"], "a0", "nothing of its past")


def without_noise(plan: Plan) -> dict[str, Any]:
    return {
        agent: as_function(s.replace(noise=np.zeros_like(s.noise))) for agent, s in plan.sanitizers.items()
    }


def test_attackers_with_memory_notice_that_noise_is_missing() -> None:
    """Noise that hides most: who filters what is sent without it does better than the plan promises."""
    loud = noisy_stream_plan(stream_network(11), noise=2.0)
    assert attacked(loud, functions(loud), 6000) == {}
    found = attacked(loud, without_noise(loud), 6000)
    assert any("attack on g" in what or "public" in what for what in found)
    pytest.importorskip("sklearn")
    ridge = choose_attackers(["ridge"], quick=True)
    world = world_of(loud.network)
    sound = attacker_rows(world, deployment(loud, functions(loud)), ridge, 6000, 0, CHANCE, silent)
    assert [row.verdict for row in sound] == ["ok"]
    assert sound[0].found == pytest.approx(sound[0].promised, rel=0.1)  # it learns what can be learned
    leaking = attacker_rows(world, deployment(loud, without_noise(loud)), ridge, 6000, 0, CHANCE, silent)
    assert [row.verdict for row in leaking] == ["fail"]
    assert leaking[0].found < leaking[0].promised


def test_a_promise_for_single_rows_is_no_promise_for_a_stream() -> None:
    """What the row model leaves open, somebody who listens for long learns: the audit says how much."""
    network = stream_network(6)
    row_plan = vn.design(network.one_row)
    row_promise = row_plan.privacy["g"]
    report = vn.audit(noisy_stream_plan(network, 0.0), trials=QUICK, only=["promise", "repetition"])
    assert report.ok
    told = report.of("repeated releases")[0]
    assert told.promised == pytest.approx(
        vn.privacy(network, noisy_stream_plan(network, 0.0).sanitizers)["g"], rel=1e-6
    )
    assert row_promise != pytest.approx(told.promised, rel=1e-3)


# --- what if


def test_collusion_is_that_of_raw_readings(plan: Plan) -> None:
    """The figures of the rows, recomputed by the public function with the colluders' readings raw."""
    rows = vn.audit(plan, trials=QUICK, only=["collusion"]).of("collusion")
    for row in rows:
        kind = "readings" if "readings" in row.what else "noise"
        sanitizers = dict(plan.sanitizers)
        for agent in row.figures["who"]:
            own = sanitizers[agent]
            sanitizers[agent] = (
                vn.Sanitizer.raw(own.readings)
                if kind == "readings"
                else vn.Sanitizer(own.compression, memory=own.memory)
            )
        assert row.found == pytest.approx(vn.privacy(plan.network, sanitizers)["g"], rel=1e-6)
    two = [row for row in rows if len(row.figures["who"]) == 2]
    one = [row for row in rows if len(row.figures["who"]) == 1]
    assert len(one) == len(two) == 2
    assert two[0].found <= one[0].found
    # The worst pair is the worst of all three.
    pairs = [
        vn.privacy(
            plan.network,
            {a: vn.Sanitizer.raw(2) if a != left else plan.sanitizers[a] for a in plan.sanitizers},
        )["g"]
        for left in plan.sanitizers
    ]
    assert two[0].found == pytest.approx(min(pairs), rel=1e-6)


def test_collusion_can_break_a_floor(plan: Plan) -> None:
    ask = vn.WhatIf(agents_colluding=1, least_privacy=1e3)
    report = vn.audit(plan, what_if=ask, trials=QUICK, only=["collusion"])
    assert not report.ok


def test_dropout_is_the_loss_of_the_others(plan: Plan) -> None:
    row = vn.audit(plan, trials=QUICK, only=["dropout"]).of("dropout")[0]
    (gone,) = row.figures["who"]
    quiet = {**plan.sanitizers, gone: vn.Sanitizer.silent(2)}
    assert row.found == pytest.approx(-vn.utility(plan.network, quiet), rel=1e-6)
    raw = vn.utility(plan.network, {gone: vn.Sanitizer.silent(2)})
    assert row.figures["raw readings of the others"] == pytest.approx(-raw, rel=1e-6)
    single = row.figures["single agents"]
    assert set(single) == set(plan.sanitizers)
    assert single[gone] == {"sanitized": row.found, "raw": row.figures["raw readings of the others"]}
    assert max(each["sanitized"] for each in single.values()) == row.found


def test_a_wrong_model_costs_something(plan: Plan) -> None:
    ask = vn.WhatIf(model_error=0.2)
    rows = vn.audit(plan, what_if=ask, trials=QUICK, only=["models"]).of("wrong models")
    privacy, public = rows[:2]
    assert privacy.interval is not None
    assert privacy.interval[0] < privacy.promised < privacy.interval[1]
    assert public.found > public.promised
    assert public.promised == pytest.approx(-plan.utility, rel=1e-3)  # a window of rows, not all of them
    still = vn.audit(plan, what_if=vn.WhatIf(model_error=0.0), trials=QUICK, only=["models"]).of(
        "wrong models"
    )
    assert still[0].found == pytest.approx(still[0].promised, rel=1e-9)
    assert still[1].found == pytest.approx(still[1].promised, rel=1e-6)


def test_what_has_no_meaning_on_streams_is_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(vn.InvalidRequest, match="releases: "):
        vn.audit(plan, what_if=vn.WhatIf(releases=5))
    with pytest.raises(vn.InvalidRequest, match="ledger"):
        vn.audit(plan, ledger=vn.LedgerCheck(tmp_path / "ledger.jsonl"))
    with pytest.raises(vn.InvalidRequest, match="dynamics"):
        vn.Ledger.create(tmp_path / "ledger.jsonl", plan.network, 1.0)
    assert not (tmp_path / "ledger.jsonl").exists()


def test_differential_privacy_counts_every_later_row(plan: Plan) -> None:
    """The sensitivity with a memory against the impulse response written out over 400 rows, at every corner."""
    own = plan.sanitizers["a1"]
    widths = np.array([0.7, 2.0])
    impulses = np.zeros((2, 400, 2))
    impulses[0, 0, 0], impulses[1, 0, 1] = 1.0, 1.0
    centred = own.replace(offset=np.zeros(2))
    moved = np.stack([planned_answers(centred, one).reshape(-1) for one in impulses], axis=1)
    whitened = np.kron(np.eye(400), np.linalg.inv(np.linalg.cholesky(own.noise))) @ moved
    corners = [whitened @ (widths * np.array(signs)) for signs in ((1, 1), (1, -1))]
    assert sensitivity(own, widths) == pytest.approx(max(np.linalg.norm(c) for c in corners), rel=1e-8)
    exact = own.replace(noise=np.zeros_like(own.noise))
    assert np.isinf(sensitivity(exact, widths))
    bounds = {"a1": (np.zeros(2), widths)}
    ask = vn.DifferentialPrivacy(reading_bounds=bounds)
    row = vn.audit(plan, differential_privacy=ask, only=["differential privacy"]).rows[0]
    assert "differ in one row" in row.shown["why"]


# --- data


def long_stream(network: vn.Network, rows: int, seed: int) -> dict[str, Array]:
    """One stream drawn by a plain loop, as arrays by agent and x."""
    rng = np.random.default_rng(seed)
    dynamics = network.dynamics
    assert dynamics is not None
    x = np.zeros((rows, network.L))
    root = np.linalg.cholesky(dynamics.noise)
    current = np.zeros(network.L)
    for row in range(rows):
        current = dynamics.transition @ current + root @ rng.standard_normal(network.L)
        x[row] = current
    data: dict[str, Array] = {"x": x}
    for agent, observe in network.observe.items():
        data[agent] = x @ observe.T + np.sqrt(0.5) * rng.standard_normal((rows, len(observe)))
    return data


def test_data_are_one_stream(plan: Plan) -> None:
    pytest.importorskip("sklearn")
    data = long_stream(plan.network, 4000, 1)
    report = vn.audit(plan, data, trials=vn.Trials(attackers=["ridge"]), only=["attackers"])
    rows = {row.what: row for row in report.rows}
    assert report.ok, str(report)
    for what in ("best linear on g", "ridge on g"):
        assert rows[what].found == pytest.approx(rows[what].promised, rel=0.2)
    public = rows["public estimate of public, now"]
    assert public.found == pytest.approx(public.promised, rel=0.15)


@pytest.mark.long
def test_gaps_of_data_were_missed_by_every_agent_and_times_number_the_rows(plan: Plan) -> None:
    """One row in ten is missing; the same log as a table with times, shuffled and with clocks that are off, is the
    same stream. Agents begin anew after a gap, which the model knows: public errors are as it says.
    """
    pytest.importorskip("sklearn")
    network = plan.network.replace(step="10min from 0s")
    memory = make_plan(network, vn.design(plan.network).sanitizers, "test")
    assert all(each.memory is not None for each in memory.sanitizers.values())
    data, rng = long_stream(network, 4000, 1), np.random.default_rng(5)
    lost = np.flatnonzero(rng.uniform(size=4000) < 0.1)
    data["a0"][lost] = np.nan
    trials = vn.Trials(attackers=["ridge"])
    report = vn.audit(memory, data, trials=trials, only=["attackers"])
    rows = {row.what: row for row in report.rows}
    assert report.ok, str(report)
    assert 3300 < rows["best linear on g"].figures["tested rows"] < 3600
    assert (
        rows["best linear on g"].found > rows["best linear on g"].promised
    )  # gaps hide, and are not promised
    public = rows["public estimate of public, now"]
    assert public.found == pytest.approx(public.promised, rel=0.15)

    kept = rng.permutation(np.setdiff1d(np.arange(4000), lost))
    table: dict[str, Array] = {"date": 1.5e9 + 600.0 * kept + rng.uniform(-200, 200, len(kept))}
    for agent in network.agents:
        table |= {f"{agent}[{k + 1}]": data[agent][kept, k] for k in range(data[agent].shape[1])}
    table |= dict(zip(network.parameters, data["x"][kept].T, strict=True))
    timed = vn.audit(memory, table, trials=replace(trials, time="date"), only=["attackers"])
    for row in timed.rows:  # agents draw anew what they begin with
        assert row.found == pytest.approx(rows[row.what].found, rel=0.05)
    run_on = vn.audit(
        memory, {name: table[name] for name in table if name != "date"}, trials=trials, only=["attackers"]
    )
    assert run_on.rows[1].found > 1.2 * timed.rows[1].found


def test_a_function_is_shown_a_gap_by_beginning_anew(plan: Plan) -> None:
    calls: list[int] = []

    def counted(readings: Array) -> Array:
        calls.append(len(readings))
        return np.asarray(memory.sanitizers["a0"].stream().sanitize(readings))

    memory = make_plan(plan.network, vn.design(plan.network).sanitizers, "test")
    running = deployment(memory, {**memory.sanitizers, "a0": counted})
    places = np.array([0, 1, 2, 5, 6])
    readings = np.zeros((5, memory.network.N))
    assert {len(each) for each in running.release_all(readings, places).values()} == {5}
    assert calls == [3, 2]


def test_times_without_a_step_or_a_table_are_refused(plan: Plan) -> None:
    data = long_stream(plan.network, 300, 1)
    with pytest.raises(vn.VeilnetError, match=r"time: .*table"):
        vn.audit(plan, data, trials=vn.Trials(time="date"), only=["attackers"])
    with pytest.raises(vn.VeilnetError, match=r"time: .*data="):
        vn.audit(plan, trials=vn.Trials(time="date"))
    table = {"date": np.arange(300.0)} | dict(zip(plan.network.parameters, data["x"].T, strict=True))
    for agent in plan.network.agents:
        table |= {f"{agent}[{k + 1}]": data[agent][:, k] for k in range(data[agent].shape[1])}
    with pytest.raises(vn.VeilnetError, match=r"time: .*step"):
        vn.audit(plan, table, trials=vn.Trials(time="date"), only=["attackers"])


def test_data_that_the_model_does_not_describe(plan: Plan) -> None:
    """Readings with a tenth of the noise: the messages tell more than the plan thinks."""
    pytest.importorskip("sklearn")
    network = plan.network
    data = long_stream(network, 6000, 2)
    data |= {agent: data["x"] @ rows.T for agent, rows in network.observe.items()}
    perfect = noisy_stream_plan(network, 0.0)
    report = vn.audit(perfect, data, trials=vn.Trials(attackers=["ridge"]), only=["attackers"])
    assert not report.ok
    assert any("does not describe these data" in row.why for row in report.failed)


def test_an_error_promised_without_bound_is_not_called_broken() -> None:
    """A private walk of which nothing is sent: whatever an attacker errs by on data is less than that."""
    pytest.importorskip("sklearn")
    network = vn.Network(
        observe={"a": [[1.0, 0.0]], "b": [[0.0, 1.0]]}, noise=0.5, public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]}, dynamics=vn.Dynamics(np.diag([0.8, 1.0]), np.eye(2)),
    )  # fmt: skip
    plan = vn.design(network)
    assert plan.privacy["g"] == np.inf
    rng = np.random.default_rng(0)
    g = np.repeat(rng.integers(0, 2, 400), 10).astype(float)
    data = long_stream(network, 4000, 3)
    data["x"][:, 1] = g
    data["b"] = g[:, None] + np.sqrt(0.5) * rng.standard_normal((4000, 1))
    report = vn.audit(plan, data, trials=vn.Trials(attackers=["ridge"]), only=["attackers"])
    rows = {row.what: row for row in report.rows if "on g" in row.what}
    assert {"best linear on g", "ridge on g"} < rows.keys()
    assert any("(values)" in what for what in rows)
    for row in rows.values():
        assert row.verdict == "info"
        assert row.shown["promised"] == "nothing"
        says(row.why, "full prior", "promise", "attackers who learn")


# --- on the command line


def test_from_the_command_line(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sound plan ends with 0, an agent's file with half the noise with 1, what has no meaning with 2."""
    folder, deployed = tmp_path / "plan", tmp_path / "deployed"
    plan.save(folder)
    sections = ["--only", "deployed", "--only", "promise", "--quick"]
    assert run(["audit", str(folder), *sections]) == 0
    shown = capsys.readouterr().out
    assert "attack on g, with hindsight" in shown
    assert "every promise holds" in shown
    weak = {agent: s.replace(noise=s.noise / 2) for agent, s in plan.sanitizers.items()}
    make_plan(plan.network, weak, "test").save(deployed)
    assert run(["audit", str(folder), "--deployed", str(deployed), *sections]) == 1
    says(capsys.readouterr().out, "noise", "covariance")
    assert run(["audit", str(folder), "--releases", "5"]) == 2
    assert "x that stays" in capsys.readouterr().err


# --- false alarms


def smallest_adjusted(seed: int) -> float:
    """The smallest p-value of everything that a random honest plan is probed for, times how many there are."""
    rows = deployed_rows(deployment(honest_plan(seed), None), 1e-12, seed, silent)
    assert [row.sentence for row in rows if row.verdict == "fail"] == [], seed
    tried = [row.figures for row in rows if "smallest p" in row.figures]
    return min(figures["smallest p"] for figures in tried) * sum(figures["measurements"] for figures in tried)


@pytest.mark.parametrize("seed", [10, 11, 20, 33])
def test_readings_beyond_the_reach_of_a_memory_are_no_probes(seed: int) -> None:
    """A long memory shortens the reach of its grid: probes beyond it were refused, and honest plans called broken."""
    assert smallest_adjusted(seed) > 1e-6


@pytest.mark.long
def test_the_rate_of_false_alarms_on_two_hundred_honest_plans() -> None:
    """p-values are valid at every size: no more than 5 % below 0.05, give or take what 200 leave to chance (1e-4)."""
    found = np.array([smallest_adjusted(seed) for seed in range(200)])
    for level, most in ((0.05, 23), (0.01, 9), (1e-6, 0)):
        assert np.sum(found <= level) <= most, (level, np.sort(found)[:30])
