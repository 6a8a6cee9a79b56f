"""Every mutant of a deployment is caught; what is deployed soundly is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from helpers.said import says
from veilnet._core.types import Array
from veilnet.auditing import Ledger
from veilnet.auditing.deployed import draws
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.deployed.probing import probe
from veilnet.auditing.deployed.rows import deployed_rows
from veilnet.cli import run
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow

SECTION = "what is deployed"


def noisy_plan(seed: int = 0, noise: str = "per agent", prior: str = "covariance") -> Plan:
    """Agents with noisy, exact and withheld directions, one of them with correlated noise."""
    network = random_network(seed, noise=noise, prior=prior, sizes=(3, 3, 3, 4))
    rng = np.random.default_rng([seed, 5])
    root = rng.standard_normal((2, 2))
    sanitizers = {
        "a0": vn.Sanitizer(rng.standard_normal((2, 3)), np.eye(2), agent="a0"),
        "a1": vn.Sanitizer(rng.standard_normal((2, 3)), [1.0, 0.0], agent="a1"),
        "a2": vn.Sanitizer(rng.standard_normal((2, 3)), root @ root.T + 0.1 * np.eye(2), agent="a2"),
        "a3": vn.Sanitizer(rng.standard_normal((2, 4)), agent="a3"),
    }
    return make_plan(network, sanitizers, "test")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return noisy_plan()


def failures(plan: Plan, deployed: dict[str, Any]) -> dict[str, str]:
    """What fails among the black-box checks of a deployment -> the sentence."""
    rows = deployed_rows(deployment(plan, deployed), 5e-7, 0, lambda _: None)
    return {row.what: row.sentence for row in rows if row.verdict == "fail"}


def as_function(sanitizer: vn.Sanitizer) -> Callable[[Array], Any]:
    """A sanitizer whose numbers the audit cannot read, only its answers."""
    return lambda readings: np.asarray(sanitizer.sanitize(readings))


def functions(plan: Plan, **replaced: Any) -> dict[str, Any]:
    return {agent: as_function(s) for agent, s in plan.sanitizers.items()} | replaced


def test_a_file_that_believes_every_reading(plan: Plan) -> None:
    limited = {a: s.replace(limits=(-1e6, 1e6)) for a, s in plan.sanitizers.items()}
    careful = make_plan(plan.network, limited, "test")
    assert failures(careful, dict(careful.sanitizers)) == {}
    loose = dict(careful.sanitizers) | {"a1": careful.sanitizers["a1"].replace(limits=None)}
    says(failures(careful, loose), "a1", "credible")
    wider = dict(careful.sanitizers) | {"a1": careful.sanitizers["a1"].replace(limits=(-1e7, 1e6))}
    assert "credible" in str(failures(careful, wider))


@pytest.mark.parametrize("noise", ["joint", "per agent"])
@pytest.mark.parametrize("prior", ["none", "covariance", "singular"])
def test_a_sound_deployment_passes(noise: str, prior: str) -> None:
    sound = noisy_plan(3, noise, prior)
    assert failures(sound, dict(sound.sanitizers)) == {}
    assert failures(sound, functions(sound)) == {}


def test_p_values_are_honest(plan: Plan) -> None:
    """Over many audits with seeded noise, small p-values are no more frequent than they claim."""
    small, total, smallest = 0, 0, 1.0
    for seed in range(24):
        rngs = {agent: np.random.default_rng([seed, k, 2**40]) for k, agent in enumerate(plan.sanitizers)}
        deployed = {
            agent: (lambda y, s=s, agent=agent, rngs=rngs: np.asarray(s.sanitize(y, rng=rngs[agent])))
            for agent, s in plan.sanitizers.items()
        }
        measured = probe(deployment(plan, deployed), seed, lambda _: None)
        ps = np.array([each.p for each in measured])
        small += int(np.sum(ps <= 1e-3))
        total += ps.size
        smallest = min(smallest, float(ps.min()))
    assert total > 3000
    assert small <= 1e-3 * total + 6 * np.sqrt(1e-3 * total)
    assert smallest > 1e-6 / total


@pytest.mark.parametrize("agent", ["a0", "a1", "a2"])
@pytest.mark.parametrize("part", [0.25, 0.5, 2.0])
def test_noise_of_another_strength(plan: Plan, agent: str, part: float) -> None:
    mutant = plan.sanitizers[agent].replace(noise=part * plan.sanitizers[agent].noise)
    found = failures(plan, functions(plan, **{agent: as_function(mutant)}))
    assert agent in found["strength of the noise"]
    assert "sanitizers against the plan" in failures(plan, dict(plan.sanitizers) | {agent: mutant})


def same_draws_in_every_call(sanitizer: vn.Sanitizer) -> Callable[[Array], Any]:
    return lambda readings: np.asarray(sanitizer.sanitize(readings, rng=11))


def one_draw_for_two_rows(sanitizer: vn.Sanitizer) -> Callable[[Array], Any]:
    rng = np.random.default_rng([17, 2**40])

    def release(readings: Array) -> Array:
        drawn = rng.standard_normal((len(readings) // 2 + 1, len(sanitizer.noise_root)))
        noise = (drawn @ sanitizer.noise_root).repeat(2, axis=0)[: len(readings)]
        values = (readings - sanitizer.offset) @ sanitizer.compression.T + noise
        return np.rint(values / sanitizer.grid) * sanitizer.grid + 0.0

    return release


def stream_that_starts_again(sanitizer: vn.Sanitizer) -> Callable[[Array], Any]:
    """700 draws made once, used over and over: no two calls begin at the same place."""
    rng = np.random.default_rng([18, 2**40])
    noise = rng.standard_normal((700, len(sanitizer.noise_root))) @ sanitizer.noise_root
    place = [0]

    def release(readings: Array) -> Array:
        rows = (place[0] + np.arange(len(readings))) % 700
        place[0] = (place[0] + len(readings)) % 700
        values = (readings - sanitizer.offset) @ sanitizer.compression.T + noise[rows]
        return np.rint(values / sanitizer.grid) * sanitizer.grid + 0.0

    return release


@pytest.mark.parametrize(
    "mutant", [same_draws_in_every_call, one_draw_for_two_rows, stream_that_starts_again]
)
@pytest.mark.parametrize("agent", ["a0", "a2"])
def test_noise_reused(plan: Plan, mutant: Any, agent: str) -> None:
    found = failures(plan, functions(plan, **{agent: mutant(plan.sanitizers[agent])}))
    assert agent in found["noise used once"]


def test_random_rounding_reused(plan: Plan) -> None:
    found = failures(plan, functions(plan, a3=same_draws_in_every_call(plan.sanitizers["a3"])))
    assert list(found) == ["noise used once"]


def test_a_simulation_deployed_by_mistake(plan: Plan) -> None:
    rng = np.random.default_rng(1)
    seeded = {"a0": lambda y: plan.sanitizers["a0"].sanitize(y, rng=rng)}
    assert "seeded" in failures(plan, functions(plan, **seeded))["noise used once"]


@pytest.mark.parametrize("agent", ["a0", "a1", "a2", "a3"])
def test_one_row_replaced_by_a_raw_reading(plan: Plan, agent: str) -> None:
    sanitizer = plan.sanitizers[agent]
    rows = np.array(sanitizer.compression)
    rows[1] = np.eye(rows.shape[1])[0]
    mutant = sanitizer.replace(compression=rows)
    assert agent in failures(plan, functions(plan, **{agent: as_function(mutant)}))["combinations sent"]
    assert agent in failures(plan, dict(plan.sanitizers) | {agent: mutant})["sanitizers against the plan"]


def test_a_slightly_wrong_row_or_offset(plan: Plan) -> None:
    for agent in ("a0", "a3"):
        sanitizer = plan.sanitizers[agent]
        for mutant in (
            sanitizer.replace(compression=sanitizer.compression * 1.02),
            sanitizer.replace(offset=sanitizer.offset + 1.0),
        ):
            assert failures(plan, functions(plan, **{agent: as_function(mutant)}))


def test_a_sanitizer_of_another_plan(plan: Plan) -> None:
    other = noisy_plan(1)
    for agent in plan.sanitizers:
        assert failures(plan, functions(plan, **{agent: as_function(other.sanitizers[agent])}))
        assert failures(plan, dict(plan.sanitizers) | {agent: other.sanitizers[agent]})


def test_a_seed_shared_by_two_agents(plan: Plan) -> None:
    """Each agent keeps its own generator, but two of them were given the same seed."""
    for one, other in (("a0", "a1"), ("a0", "a2"), ("a1", "a3")):
        rngs = {agent: np.random.default_rng(2**40) for agent in (one, other)}
        shared = {
            agent: (
                lambda y, agent=agent, rngs=rngs: np.asarray(
                    plan.sanitizers[agent].sanitize(y, rng=rngs[agent])
                )
            )
            for agent in (one, other)
        }
        found = failures(plan, functions(plan, **shared))
        assert list(found) == ["agents draw apart"]
        assert f"{one} and {other}" in found["agents draw apart"]


def test_a_seed_shared_among_many(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many pairs to try every lag, two streams that begin alike still show."""
    monkeypatch.setattr(draws, "_MOST_PAIRS", 1)
    assert failures(plan, functions(plan)) == {}
    rngs = {agent: np.random.default_rng(2**40) for agent in ("a0", "a2")}
    shared = {
        agent: (lambda y, agent=agent: np.asarray(plan.sanitizers[agent].sanitize(y, rng=rngs[agent])))
        for agent in rngs
    }
    assert "a0 and a2" in failures(plan, functions(plan, **shared))["agents draw apart"]


def test_a_shared_stream_at_another_place(plan: Plan) -> None:
    """The second agent's generator has drawn a few numbers more."""
    rngs = {agent: np.random.default_rng(5) for agent in ("a0", "a1")}
    rngs["a1"].standard_normal(6)
    shared = {
        agent: (lambda y, agent=agent: np.asarray(plan.sanitizers[agent].sanitize(y, rng=rngs[agent])))
        for agent in rngs
    }
    assert "agents draw apart" in failures(plan, functions(plan, **shared))


@pytest.mark.parametrize("agent", ["a0", "a3"])
def test_ungridded_output(plan: Plan, agent: str) -> None:
    sanitizer = plan.sanitizers[agent]
    root, rng = sanitizer.noise_root, np.random.default_rng([19, 2**40])

    def ungridded(readings: Array) -> Array:
        noise = rng.standard_normal((len(readings), len(root))) @ root
        return np.asarray((readings - sanitizer.offset) @ sanitizer.compression.T + noise)

    assert list(failures(plan, functions(plan, **{agent: ungridded}))) == ["on the public grid"]


def test_nothing_deployed_and_answers_of_another_kind(plan: Plan) -> None:
    missing = {agent: s for agent, s in plan.sanitizers.items() if agent != "a1"}
    assert "nothing is deployed" in failures(plan, missing)["answers to readings"]
    for answer in (lambda y: y[:, :1], lambda y: y[:, :2] * np.nan, lambda _: "hello", lambda y: 1 / 0 * y):
        assert "a0" in failures(plan, functions(plan, a0=answer))["answers to readings"]


# --- exit codes


@pytest.fixture(scope="module")
def saved(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "plan"
    plan.save(folder)
    return folder


def audited(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    code = run(["audit", str(folder), "--quick", "--json", "--only", "deployed", *options])
    return code, json.loads(capsys.readouterr().out)


def test_exit_code_of_a_sound_plan(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = audited(capsys, saved, "--deployed", str(saved))
    assert code == 0
    assert report["ok"] is True


@pytest.mark.parametrize("mutant", ["half", "row", "other plan", "no grid", "missing", "tampered"])
def test_exit_code_of_mutant_files(
    plan: Plan, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mutant: str
) -> None:
    sanitizers = dict(plan.sanitizers)
    one = sanitizers["a0"]
    if mutant == "half":
        sanitizers["a0"] = one.replace(noise=one.noise / 2)
    elif mutant == "row":
        sanitizers["a0"] = one.replace(compression=np.eye(3)[:2])
    elif mutant == "other plan":
        sanitizers = dict(noisy_plan(1).sanitizers)
    elif mutant == "no grid":
        sanitizers["a0"] = one.replace(grid=None)
    elif mutant == "missing":
        del sanitizers["a0"]
    for agent, sanitizer in sanitizers.items():
        sanitizer.save(tmp_path / f"{agent}.json")
    if mutant == "tampered":
        path = tmp_path / "a0.json"
        path.write_text(path.read_text().replace("1.0", "0.5", 1))
    code, report = audited(capsys, saved, "--deployed", str(tmp_path))
    assert code == 1
    assert any(row["verdict"] == "fail" and row["section"] == SECTION for row in report["rows"])


_PROGRAM = """
import json, sys
import numpy as np
agent = json.load(open(sys.argv[1]))
rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else None)
readings = np.loadtxt(sys.stdin, delimiter=",", ndmin=2)
sent = (readings - agent["offset"]) @ np.array(agent["compression"]).T
sent += rng.standard_normal(sent.shape) * np.sqrt(agent["variances"])
sent += (rng.random(sent.shape) - 0.5) * agent["grid"]
sent = np.rint(sent / agent["grid"]) * agent["grid"] + 0.0
print("row," + ",".join(f"z{k}" for k in range(sent.shape[1])))
for row, numbers in enumerate(sent.tolist(), start=1):
    print(row, *map(repr, numbers), sep=",")
"""


def test_exit_code_of_programs(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program with a fixed seed reuses its noise; two with the same one share it."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)

    def option(agent: str, seed: str = "") -> tuple[str, str]:
        return "--run", f"{agent}='{sys.executable}' '{program}' '{saved / agent}.json' {seed}"

    assert audited(capsys, saved, *option("a0"))[0] == 0
    code, report = audited(capsys, saved, *option("a0", "3"), *option("a1", "3"))
    failed = {row["what"] for row in report["rows"] if row["verdict"] == "fail"}
    assert code == 1
    assert {"noise used once", "agents draw apart"} <= failed


def test_exit_code_of_a_ledger_reset(
    plan: Plan, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.create(path, plan.network, -0.99)
    for _ in range(3):
        ledger.record(plan)
    head = ledger.head
    options = ("--ledger", str(path), "--head", head, "--only", "ledger", "--released", "3")
    assert audited(capsys, saved, *options)[0] == 0
    assert run(["audit", str(saved), *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Found: the ledger is intact; nothing else was tested." in said
    assert "agents: the ledger is intact; nothing else was tested." in said
    for untrue in ("every promise holds", "attacks used", "simulated rows", "with --data"):
        assert untrue not in said
    path.unlink()
    Ledger.create(path, plan.network, -0.99).record(plan)
    code, report = audited(capsys, saved, *options[:6])
    assert code == 1
    assert any("set back" in row["sentence"] for row in report["rows"])
    assert audited(capsys, saved, "--ledger", str(path), "--only", "ledger", "--released", "3")[0] == 1
