"""Learned attackers, held-out data, the report as a whole and the command."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet.auditing import Audit
from veilnet.auditing.attack.attackers import attacker_rows, choose_attackers
from veilnet.auditing.attack.held_out import Samples, read_samples, simulate
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.worlds import world_of
from veilnet.cli import run
from veilnet.io.template import template_text
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow

pytest.importorskip("sklearn")


def some_plan(seed: int, prior: str = "covariance") -> Plan:
    network = random_network(seed, noise="per agent", prior=prior)
    rng = np.random.default_rng(seed)
    sanitizers = {
        agent: vn.Sanitizer(
            rng.standard_normal((len(rows) - 1, len(rows))), rng.uniform(1.0, 4.0, len(rows) - 1)
        )
        for agent, rows in network.observe.items()
    }
    return make_plan(network, sanitizers, "test")


def seeded(sanitizers: Any) -> dict[str, Any]:
    """The sanitizers with noise that is the same in every run of the tests."""
    rngs = {agent: np.random.default_rng([7, k]) for k, agent in enumerate(sanitizers)}
    return {
        agent: lambda y, s=s, rng=rngs[agent]: np.asarray(s.sanitize(y, rng=rng))
        for agent, s in sanitizers.items()
    }


def attacked(plan: Plan, count: int, deployed: Any = None, kinds: Any = ("ridge",)) -> list[Any]:
    running = deployment(plan, seeded(plan.sanitizers if deployed is None else deployed))
    attackers = choose_attackers(kinds, False)
    return attacker_rows(world_of(plan.network), running, attackers, count, 0, 1e-7, lambda _: None)


@pytest.mark.parametrize("prior", ["covariance", "none", pytest.param("singular", marks=pytest.mark.long)])
def test_attackers_come_close_to_the_bound_and_no_further(prior: str) -> None:
    plan = some_plan(1, prior)
    rows = attacked(plan, 8000, kinds="auto")
    assert len(rows) == 4 * len(plan.network.private)
    for row in rows:
        assert row.what.endswith(", simulated")
        assert row.figures["from raw readings"] < row.found < 1.02 * row.figures["guessing"]
        if row.what.startswith("ridge"):
            assert row.verdict == "ok"
            assert row.found == pytest.approx(row.promised, rel=0.1)
        elif row.verdict != "ok":
            # Where x may be anything, some attackers are too weak to prove anything, and the row says so.
            assert row.verdict == "cannot tell"
            assert "proves nothing" in row.sentence or "would have been found" in row.sentence


def test_attackers_notice_missing_noise() -> None:
    plan = some_plan(1)
    bare = {agent: s.replace(noise=None) for agent, s in plan.sanitizers.items()}
    rows = attacked(plan, 8000, bare)
    assert any(row.verdict == "fail" for row in rows)


def test_an_attacker_of_ones_own() -> None:
    class Mean:
        def fit(self, _messages: Any, truth: Any) -> None:
            self.mean = truth.mean(axis=0)

        def predict(self, messages: Any) -> Any:
            return np.tile(self.mean, (len(messages), 1))

    plan = some_plan(2)
    rows = attacked(plan, 4000, kinds={"mean": Mean()})
    for row in rows:
        assert row.found == pytest.approx(row.figures["guessing"], rel=1e-9)


def test_names_of_attackers() -> None:
    assert choose_attackers(None, False) == {}
    assert list(choose_attackers("auto", True)) == ["ridge", "neighbours"]
    with pytest.raises(vn.InvalidRequest, match="attackers"):
        choose_attackers(["oracle"], False)


def test_without_scikit_learn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    plan = some_plan(2)
    report = vn.audit(plan, only=["attackers"], trials=vn.Trials(quick=True))
    assert report.ok
    remark = 'Left out: learned attackers need scikit-learn: pip install "veilnet[sklearn]"'
    assert remark in str(report)
    plan.save(tmp_path / "plan")
    assert run(["audit", str(tmp_path / "plan"), "--only", "attackers", "--quick"]) == 0
    assert remark in capsys.readouterr().out
    with pytest.raises(vn.MissingExtra, match="veilnet\\[sklearn\\]"):
        vn.audit(plan, only=["attackers"], trials=vn.Trials(attackers=["neighbours"], quick=True))


# --- held-out data


def table(plan: Plan, samples: Samples, by_parameter: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for place, agent in enumerate(plan.network.agents):
        own = samples.readings[:, plan.network.blocks.rows(place)]
        columns |= {f"{agent}[{k + 1}]": own[:, k] for k in range(own.shape[1])}
    if by_parameter:
        x = np.linalg.lstsq(
            np.concatenate([plan.network.U, *plan.network.private.values()]),
            np.concatenate([samples.public, *samples.private.values()], axis=1).T,  # type: ignore[list-item]
        )[0].T
        return columns | {name: x[:, k] for k, name in enumerate(plan.network.parameters)}
    for name, truth in samples.private.items():
        labels = [name] if truth.shape[1] == 1 else [f"{name}[{k + 1}]" for k in range(truth.shape[1])]
        columns |= {label: truth[:, k] for k, label in enumerate(labels)}
    return columns


@pytest.mark.parametrize("by_parameter", [True, False])
def test_held_out_tables(by_parameter: bool, tmp_path: Path) -> None:
    plan = some_plan(1)
    samples = simulate(plan.network, 3000, 1)
    columns = table(plan, samples, by_parameter)
    path = tmp_path / "held_out.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
    for data in (columns, path):
        read = read_samples(plan.network, plan.sanitizers, data)
        assert np.array_equal(read.readings, samples.readings)
        assert (read.public is not None) == by_parameter
        for name, truth in samples.private.items():
            assert np.allclose(read.private[name], truth, rtol=1e-9, atol=1e-9)
    report = vn.audit(plan, path, only=["attackers"], trials=vn.Trials(attackers=["ridge"]))
    assert "about 0.01 on your data" in str(report)
    assert report.to_dict()["on_data"] == 0.01
    rows = report.rows
    # The model; ridge with and without memory and the plan's own estimate, on two parameters; the public one where
    # its truth is there.
    assert [row.verdict for row in rows] == ["ok"] * (7 + by_parameter)


def test_data_tell_what_a_plan_without_prior_counts_on_nobody_knowing() -> None:
    """g cannot be estimated without a prior; from data one at least learns its mean: that breaks no promise."""
    network = vn.Network(
        observe={"a": [[1, 0, 1], [0, 1, 1], [1, 1, 0]], "b": [[1, 0, 0.5], [0, 1, 2], [1, 0, 3]]},
        noise=0.1,
        public=[[1, 0, 0]],
        private={"g": [0, 0, 1]},
    )
    plan = vn.design(network)
    assert plan.privacy["g"] == np.inf
    # No design takes what is public as private; a plan can have it all the same, with nothing hidden.
    both = network.replace(private={**network.private, "seen": [1, 0, 0]})
    plan = replace(plan, network=both, privacy={**plan.privacy, "seen": 0.0})
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 3))
    data: dict[str, Any] = {
        agent: x @ rows.T + np.sqrt(0.1) * rng.standard_normal((3000, 3))
        for agent, rows in network.observe.items()
    }
    rows = vn.audit(plan, data | {"x": x}, only=["attackers"], trials=vn.Trials(attackers=["ridge"])).rows
    verdicts = {row.what: row.verdict for row in rows}
    assert verdicts.pop("the model against these data") == "ok"
    assert verdicts.pop("best linear on seen") == "ok"
    assert verdicts.pop("public estimate of public") == "ok"
    assert set(verdicts.values()) == {"info"}
    # The unbiased estimate is held to its bound all the same.
    quiet = {agent: y - np.sqrt(0.5) * (y - x @ network.observe[agent].T) for agent, y in data.items()}
    rows = vn.audit(plan, quiet | {"x": x}, only=["attackers"], trials=vn.Trials(attackers=["ridge"])).rows
    assert {row.what for row in rows if row.verdict == "fail"} == {"best linear on seen"}


def test_a_cell_that_is_no_number_is_not_quoted(tmp_path: Path) -> None:
    plan = some_plan(1)
    columns = table(plan, simulate(plan.network, 200, 0), by_parameter=True)
    first = next(iter(columns))
    for cell, words in (("SECRET", "text"), ("77,5", "decimal comma")):
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        lines[3] = f'"{cell}"' + lines[3][lines[3].index(",") :]
        (tmp_path / "held.csv").write_text("\n".join(lines))
        with pytest.raises(vn.InvalidNetwork, match=words) as refused:
            read_samples(plan.network, plan.sanitizers, tmp_path / "held.csv")
        assert f"line 4, column {first!r}" in str(refused.value)
        assert cell not in str(refused.value)
    broken = {first: np.array([1.0, "SECRET"] * 100, dtype=object)}
    for column in (broken[first], broken[first].astype(str)):
        with pytest.raises(vn.InvalidNetwork) as refused:
            read_samples(plan.network, plan.sanitizers, columns | {first: column})
        assert "SECRET" not in str(refused.value)


def test_data_that_cannot_be_read() -> None:
    plan = some_plan(1)
    samples = simulate(plan.network, 200, 0)
    arrays: dict[str, Any] = {
        agent: samples.readings[:, plan.network.blocks.rows(k)] for k, agent in enumerate(plan.network.agents)
    }
    with pytest.raises(vn.InvalidRequest, match="g0"):
        read_samples(plan.network, plan.sanitizers, arrays)
    short = {name: truth[:-1] for name, truth in samples.private.items()}
    with pytest.raises(vn.InvalidRequest, match="same number of rows"):
        read_samples(plan.network, plan.sanitizers, arrays | short)
    few = {name: values[:50] for name, values in (arrays | dict(samples.private)).items()}
    with pytest.raises(vn.InvalidRequest, match="100 complete rows"):
        read_samples(plan.network, plan.sanitizers, few)
    with pytest.raises(vn.InvalidRequest):
        read_samples(plan.network, plan.sanitizers, {"a0[1]": [1.0]})


# --- the whole


def test_the_whole_report() -> None:
    plan = some_plan(3)
    seen: list[float] = []
    report = vn.audit(plan, trials=vn.Trials(quick=True), progress=lambda _what, part: seen.append(part))
    assert report.ok
    assert np.all(np.diff(seen) > -1e-12)
    assert seen[-1] == 1.0
    assert len(report.baselines) == 6
    text = str(report)
    for section in report.sections:
        assert f"\n{section}\n" in text
    assert "at most 1e-06 on simulated rows." in text
    plain = report.to_dict()
    assert len(plain["rows"]) == len(report.rows)
    assert all(row.sentence.endswith(".") for row in report.rows)
    half = {a: s.replace(noise=s.noise / 2) for a, s in plan.sanitizers.items()}
    failed = vn.audit(plan, sanitizers=half, only=["deployed"])
    assert not failed.ok
    assert "FAILED" in str(failed)


@pytest.mark.parametrize(
    ("group", "options", "words"),
    [
        (vn.Trials, {"rows": 10}, "rows"), (vn.Trials, {"rows": "many"}, "rows"), (vn.Trials, {"seed": -1}, "seed"),
        (vn.Trials, {"seed": 0.5}, "seed"), (vn.Trials, {"false_alarm": 1.0}, "false_alarm"),
        (vn.WhatIf, {"releases": 0}, "releases"), (vn.WhatIf, {"releases": [2, 0.5]}, "releases"),
        (vn.WhatIf, {"agents_colluding": 0}, "agents_colluding"), (vn.WhatIf, {"least_privacy": 5.0}, "withstand"),
        (vn.WhatIf, {"model_error": -0.05}, "model_error"),
        (vn.WhatIf, {"model_error": 5.0}, "5 % is model_error=0.05"),
        (vn.DifferentialPrivacy, {"delta": 0.0}, "delta"), (vn.DifferentialPrivacy, {"delta": 1.0}, "delta"),
        (vn.LedgerCheck, {"path": 3}, "path"), (vn.LedgerCheck, {"path": "x", "releases": -1}, "releases"),
    ],
)  # fmt: skip
def test_wrong_options(group: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(vn.InvalidRequest, match=words):
        group(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what_if": vn.WhatIf(releases=2, least_privacy={"nobody": 1.0})}, "least_privacy"),
        ({"what_if": vn.WhatIf(releases=2, least_privacy=-2.0)}, "least_privacy of"),
        ({"only": ["nothing"]}, "only"), ({"only": ["ledger"]}, "ledger"), ({"sanitizers": 3}, "sanitizers"),
        ({"sanitizers": {"a0": 3}}, "sanitizers"),
        ({"what_if": {"releases": 3}}, "what_if: expected a veilnet.WhatIf, found dict"),
        ({"trials": 3}, "trials: expected a veilnet.Trials"), ({"ledger": "x"}, "ledger=vn.LedgerCheck\\(path="),
        ({"differential_privacy": 1e-6}, "differential_privacy: expected"),
        ({"data": {}, "only": ["promise"]}, "data: only the section 'attackers'"),
    ],
)  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], words: str) -> None:
    with pytest.raises(vn.InvalidRequest, match=words):
        vn.audit(some_plan(1), **options)
    with pytest.raises(vn.InvalidRequest, match="plan"):
        vn.audit(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what_if": vn.WhatIf(releases=3)}, "releases: only the section 'repetition' uses it"),
        ({"what_if": vn.WhatIf(agents_colluding=1)}, "only the section 'collusion' or 'dropout' uses it"),
        ({"what_if": vn.WhatIf(model_error=0.1)}, "model_error: only the section 'models'"),
        ({"what_if": vn.WhatIf(agents_colluding=1, least_privacy=1.0), "only": ["dropout"]}, "least_privacy: only"),
        ({"trials": vn.Trials(attackers=["ridge"])}, "attackers: only the section 'attackers'"),
        ({"differential_privacy": vn.DifferentialPrivacy(reading_bounds={})}, "reading_bounds: only the section"),
        ({"differential_privacy": vn.DifferentialPrivacy(delta=1e-5)}, "delta: only the section"),
        ({"ledger": vn.LedgerCheck("x")}, "ledger: only the section 'ledger' uses it"),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(vn.InvalidRequest, match=words):
        vn.audit(some_plan(1), **({"only": ["promise"]} | options))


def test_the_house_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "house.toml").write_text(template_text(), encoding="utf-8")
    vn.design(vn.Network.load(tmp_path / "house.toml")).save(tmp_path / "plan")
    audit, made = vn.audit, list[Audit]()

    def once(*given: Any, **named: Any) -> Audit:
        """Told twice, made once."""
        made.extend([] if made else [audit(*given, **named)])
        return made[0]

    with monkeypatch.context() as patch:
        patch.setattr(vn, "audit", once)
        assert run(["audit", str(tmp_path / "plan"), "--quick"]) == 0
        text = capsys.readouterr().out
        assert "attack on gait" not in text  # it holds: counted, not shown
        assert len(text.splitlines()) < 60
        assert run(["audit", str(tmp_path / "plan"), "--quick", "--verbose"]) == 0
        text = capsys.readouterr().out
    for word in ("what is deployed", "attack on gait", "ridge on presence", "secure summation"):
        assert word in text
    assert "every promise" in text
    assert "Audit of the plan for 5 agents: " in text, "how the plan was found is no word for its reader"
    assert "Secure summation needs cryptographic rounds between agents" in " ".join(text.split())
    assert "What to do next: audit with --data" in text
    # Privacy that three colluders would leave is judged when a limit is given.
    command = ["audit", str(tmp_path / "plan"), "--only", "collusion", "--colluding", "3", "--json"]
    assert run([*command, "--least-privacy", "gait=5"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert any(row["verdict"] == "fail" and row["section"] == "collusion" for row in report["rows"])
    command[command.index("3")] = "1"
    assert run([*command, "--least-privacy", "gait=0"]) == 0
    capsys.readouterr()
    assert run(["audit", str(tmp_path / "nowhere")]) == 2
    assert run(["audit", str(tmp_path / "plan"), "--least-privacy", "much"]) == 2
    assert run(["audit", str(tmp_path / "plan"), "--run", "kitchen"]) == 2
    assert run(["audit", str(tmp_path / "plan"), "--run", "kitchen=an 'open quote"]) == 2
    capsys.readouterr()
    for wrong, words in [
        (["--least-privacy", "gait=5"], "--colluding"),
        (["--least-privacy", "gait=5", "--least-privacy", "7"], "'7'"),
        (["--head", "1-a"], "--head: there is no ledger"), (["--released", "3"], "--released: there is no ledger"),
        (["--model-error", "5"], "0.05"), (["--seed", "-1"], "--seed"),
    ]:  # fmt: skip
        assert run(["audit", str(tmp_path / "plan"), *wrong]) == 2
        assert words in capsys.readouterr().err
    assert run(["audit", str(tmp_path / "plan"), "--deployed", str(tmp_path / "nowhere")]) == 2
