"""A new plan from new rows: what the old one is worth there, and what the new one promises.

Oracle: two planted houses, of which the second has another season and a moved sensor.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet import cli
from veilnet.auditing.refitting import refit

pytestmark = pytest.mark.small_search


def log_of(rows: int, seed: int, *, moved: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    outside = (25 if moved else 8) + 6 * rng.standard_normal(rows)
    people = 2 + rng.standard_normal(rows)
    gain = 0.2 if moved else 0.6
    return {
        "T_out": outside,
        "people": people,
        "T1": 20 + gain * outside + 0.4 * people + 0.5 * rng.standard_normal(rows),
        "W1": 3 * people + 0.1 * outside + rng.standard_normal(rows),
        "T2": 18 + 0.7 * outside - 0.3 * people + 0.5 * rng.standard_normal(rows),
    }


@pytest.fixture(scope="module")
def old() -> vn.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vn.DoubtfulModel)
        network = vn.fit(
            log_of(2000, 1, moved=False), {"kitchen": ["T1", "W1"], "hall": "T2"}, "T_out", "people"
        )
    return vn.design(network)


def test_the_new_plan_is_that_of_fit_and_design(old) -> None:
    table = log_of(2000, 2, moved=True)
    found = refit(old, table)
    expected = vn.fit_report(table, {"kitchen": ["T1", "W1"], "hall": ["T2"]}, "T_out", "people").network
    assert np.allclose(found.new.network.H, expected.H)
    assert found.new.privacy == pytest.approx(vn.design(expected).privacy)
    words = {what: (promised, kept, now) for what, promised, kept, now in found.rows}
    raw = np.sqrt(vn.crlb(expected, old.sanitizers)[0, 0])
    assert float(words["standard error of T_out"][1].removeprefix("±")) == pytest.approx(raw, rel=1e-3)
    assert float(words["standard error of T_out"][2].removeprefix("±")) < raw
    assert "promised" in str(found)


def test_what_the_old_centre_errs_by_is_seen_on_the_new_rows(old) -> None:
    found = refit(old, log_of(2000, 2, moved=True))
    more, rng = log_of(20_000, 9, moved=True), np.random.default_rng(0)
    readings = {"kitchen": np.column_stack([more["T1"], more["W1"]]), "hall": more["T2"][:, None]}
    messages = {agent: old.sanitizers[agent].sanitize(rows, rng=rng) for agent, rows in readings.items()}
    off = vn.Fusion(old).estimate(messages).public[:, 0] - more["T_out"]
    assert found.errors["T_out"] == pytest.approx(np.sqrt(np.nanmean(off**2)), rel=0.1)
    promised = np.sqrt(vn.crlb(old.network, old.sanitizers)[0, 0])
    assert found.errors["T_out"] > 2 * promised
    assert f"T_out ±{found.errors['T_out']:.4g}" in str(found)
    as_before = refit(old, log_of(2000, 3, moved=False))
    assert as_before.errors["T_out"] == pytest.approx(promised, rel=0.1)


def test_rows_that_old_agents_would_not_send_are_left_out_and_counted(old) -> None:
    """A sensor that was moved leaves its old limits in many rows, and one reading is a fault code."""
    table = log_of(2000, 2, moved=True)
    (low, high), highest = (np.array([edge[0] for edge in old.network.limits["hall"]]), table["T2"].max())
    table["T2"] = table["T2"] + (high - np.median(table["T2"]))
    table["W1"][7] = -9999.0
    credible = (table["T2"] >= low) & (table["T2"] <= high)
    credible[7] = False
    assert highest < high
    assert 500 < credible.sum() < 1500
    found = refit(old, table)
    assert found.refused == 2000 - credible.sum()
    kept = {name: values[credible] for name, values in table.items()}
    assert found.errors["T_out"] == pytest.approx(refit(old, kept).errors["T_out"], rel=0.1)
    says(found, f"{found.refused} rows", "limits")


def test_where_old_agents_would_send_nothing_it_is_said(old) -> None:
    table = log_of(500, 2, moved=True)
    table["T2"] = table["T2"] + 1e4
    found = refit(old, table)
    assert not found.errors
    assert found.refused == 500
    says(found, "send nothing")
    assert found.new.certificate.ok


def test_what_was_asked_for_is_asked_for_again(old) -> None:
    table = log_of(2000, 3, moved=True)
    lossy = vn.design(old.network, utility_loss=0.1, starts=1)
    assert refit(lossy, table).new.most_loss == 0.1
    assert refit(lossy, table, utility_loss=0.2).new.most_loss == 0.2
    assert refit(vn.design(old.network, privacy=0.5), table).new.targets == {"people": 0.5}


def test_what_the_old_network_was_is_kept(old) -> None:
    """The error its model was designed for, and that agents refuse nothing."""
    table = log_of(2000, 5, moved=True)
    wary = vn.design(old.network.replace(limits=None), model_error=0.1)
    new = refit(wary, table).new
    assert new.network.model_error == 0.1
    assert not new.network.limits
    assert refit(old, table).new.network.limits
    columns = {"kitchen": ["T1", "W1"], "hall": ["T2"]}
    fitted = vn.fit_report(table, columns, "T_out", "people", limits=False).network
    assert new.privacy == pytest.approx(vn.design(fitted, model_error=0.1).privacy)


def test_rows_are_put_in_order_of_time(old) -> None:
    table = log_of(500, 6, moved=True) | {"date": np.arange(500.0) * 60}
    shuffled = np.random.default_rng(0).permutation(500)
    found = refit(old, {name: values[shuffled] for name, values in table.items()}, time="date")
    assert found.calibration.report.time.out_of_order > 100
    assert np.allclose(found.new.network.H, refit(old, table, time="date").new.network.H, rtol=1e-12)
    assert not found.new.network.is_stream


def test_a_stream_needs_the_time_and_stays_a_stream() -> None:
    def log(seed: int, gain: float) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        x = np.zeros((600, 2))
        for t in range(1, 600):
            x[t] = [0.9, 0.5] * x[t - 1] + rng.standard_normal(2)
        noise = rng.standard_normal((600, 3))
        y = x @ np.array([[1.0, gain, 0.5], [0.5, 1.0, -1.0]]) + noise
        named = dict(zip(["u", "g", "a1", "b1", "b2"], np.column_stack([x, y]).T, strict=True))
        return named | {"date": np.arange(600.0) * 60}

    fitted = vn.fit_report(log(0, 0.2), {"a": "a1", "b": ["b1", "b2"]}, "u", "g", time="date", stream=True)
    plan = vn.design(fitted.network)
    with pytest.raises(vn.InvalidRequest, match="--time"):
        refit(plan, log(1, 0.8))
    found = refit(plan, log(1, 0.8), time="date")
    assert found.new.network.is_stream
    assert {row[0] for row in found.rows} >= {"standard error of u", "standard error of g grows"}
    assert str(found).endswith("the old one has larger errors.")


def test_plans_that_no_table_made_are_refused() -> None:
    model = {"noise": 1.0, "public": [[1.0, 1.0]], "private": {"g": [[0.0, 1.0]]}}
    bare = vn.design(vn.Network({"a": np.eye(2)}, **model))
    with pytest.raises(vn.InvalidRequest, match="no names"):
        refit(bare, {})
    mixed = vn.design(vn.Network({"a": np.eye(2)}, **model, reading_names={"a": ["T", "W"]}))
    with pytest.raises(vn.InvalidRequest, match="a combination"):
        refit(mixed, {})


def test_the_command_compares_and_writes(old, tmp_path: Path, capsys) -> None:
    old.save(tmp_path / "plan")
    table = log_of(1500, 4, moved=True)
    lines = [
        ",".join(table),
        *(",".join(map(repr, row)) for row in zip(*(c.tolist() for c in table.values()), strict=True)),
    ]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    arguments = ["refit", str(tmp_path / "plan"), str(tmp_path / "new.csv")]
    assert cli.run([*arguments, "--out", str(tmp_path / "plan")]) == 2
    assert "choose another folder" in capsys.readouterr().err
    assert cli.run([*arguments, "--out", str(tmp_path / "spring")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "standard error of people grows" in shown
    assert vn.Plan.load(tmp_path / "spring").certificate.ok
    assert cli.run([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {row["what"] for row in answer["promises"]} >= {
        "standard error of T_out",
        "standard error of people grows",
    }


def test_the_command_reads_targets_as_design_does(old, tmp_path: Path, capsys) -> None:
    old.save(tmp_path / "plan")
    table = log_of(1500, 4, moved=True)
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines = [",".join(table), *(",".join(map(repr, row)) for row in rows)]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    arguments = ["refit", str(tmp_path / "plan"), str(tmp_path / "new.csv")]
    assert cli.run([*arguments, "--privacy", "people=0.5", "--out", str(tmp_path / "many")]) == 0
    assert vn.Plan.load(tmp_path / "many").targets["people"] == pytest.approx(0.5)
    assert cli.run([*arguments, "--utility-loss", "0.05", "--out", str(tmp_path / "loss")]) == 0
    assert vn.Plan.load(tmp_path / "loss").most_loss == pytest.approx(0.05)
    capsys.readouterr()
    assert cli.run([*arguments, "--utility-loss", "5"]) == 2
    assert "--public-error 5%" in capsys.readouterr().err
