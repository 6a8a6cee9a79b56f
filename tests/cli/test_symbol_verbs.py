"""Plans of symbols on the command line: fit, verify, inspect, sanitize, fuse, audit."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

import veilnet as vn
from helpers.said import says
from helpers.symbol_table import AGENTS, fast_table, symbol_table, write_symbol_table
from veilnet.cli import run
from veilnet.cli.fit import _named
from veilnet.io._sealed import seal

FIT = [
    "--agent",
    "hall=a,b",
    "--agent",
    "attic=c,d",
    "--public",
    "activity",
    "--private",
    "person",
    "--symbols",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("symbols")
    write_symbol_table(made / "log.csv", symbol_table())
    later = symbol_table(600, seed=5)
    write_symbol_table(made / "later.csv", later)
    for agent, columns in AGENTS.items():
        write_symbol_table(made / f"{agent}.in.csv", later, *columns)
    assert (
        run(["fit", str(made / "log.csv"), *FIT, "--out", str(made / "plan")]) == 0
    )  # no symbol is sent by chance
    return made


def test_a_star_stands_for_columns() -> None:
    known = ["torso_x", "torso_y", "arm_x", "arm_*"]
    assert _named(["torso=torso_*", "arm=arm_x,arm_*"], known) == {
        "torso": ["torso_x", "torso_y"],
        "arm": ["arm_x", "arm_*"],
    }
    assert _named(["leg=leg_*"], known) == {"leg": ["leg_*"]}, (
        "what is not there is named by the error to come"
    )


def test_fit_says_what_it_made(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan"
    asked = ["fit", str(folder / "log.csv"), *FIT, "--blocks", "session", "--guessed", "person=0.75"]
    assert run([*asked, "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    promise = vn.SymbolPlan.load(out).certificate["person"]
    assert said["certificate"]["person"]["guessed"] == promise.guessed
    assert (said["certificate"]["person"]["rows"], said["certificate"]["person"]["blocks"]) == (300, 100)


def test_verify_confirms_and_notices_another_agents_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(folder / "plan")]) == 0
    assert "Every promise follows from the counts" in capsys.readouterr().out
    path = folder / "plan" / "hall.json"
    content = path.read_bytes()
    path.write_bytes((folder / "plan" / "attic.json").read_bytes())
    assert run(["verify", str(folder / "plan")]) == 1
    assert "hall.json" in capsys.readouterr().out
    path.write_bytes(content)


@pytest.mark.parametrize("promised", [0.3, -0.1])
def test_verify_has_one_answer_about_a_false_promise(
    folder: Path, tmp_path: Path, promised: float, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((folder / "plan" / "plan.json").read_text())
    del document["checksum"]
    document["certificate"][0]["leak"] = promised
    (tmp_path / "plan.json").write_bytes(seal(document))
    assert run(["verify", str(tmp_path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["reasons"][0].startswith("person: ")


def test_inspect_says_what_each_symbol_means(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(folder / "plan" / "hall.json")]) == 0
    assert "activity is most likely" in capsys.readouterr().out


def test_readings_become_symbols_and_symbols_estimates(folder: Path, tmp_path: Path) -> None:
    plan, later = vn.SymbolPlan.load(folder / "plan"), symbol_table(600, seed=5)
    for agent in AGENTS:
        asked = ["sanitize", str(folder / "plan" / f"{agent}.json"), "--in", str(folder / f"{agent}.in.csv")]
        assert run([*asked, "--out", str(tmp_path / f"{agent}.csv"), "--again"]) in (0, 1)
        with (tmp_path / f"{agent}.csv").open() as file:
            sent = {int(line["row"]): float(line["z1"]) for line in csv.DictReader(file)}
        assert sent == {k + 1: s for k, s in enumerate(plan.send(later)[agent].tolist()) if s >= 0}
    messages = [f"{agent}={tmp_path / agent}.csv" for agent in AGENTS]
    assert (
        run(["fuse", str(folder / "plan" / "center.json"), *messages, "--out", str(tmp_path / "out.csv")])
        == 0
    )
    with (tmp_path / "out.csv").open() as file:
        told = [int(line["activity"]) for line in csv.DictReader(file)]
    assert told == plan.estimate(plan.send(later)).public.tolist()


def test_an_agent_makes_windows_of_its_rows(tmp_path: Path) -> None:
    """One symbol for three rows, as the plan says by itself; none for a gap, and none for a missing line."""
    write_symbol_table(tmp_path / "log.csv", fast_table())
    asked = ["fit", str(tmp_path / "log.csv"), *FIT, "--window", "3"]
    assert run([*asked, "--out", str(tmp_path / "plan")]) == 0
    plan, later = vn.SymbolPlan.load(tmp_path / "plan"), fast_table(40, seed=5)
    assert plan.certificate["person"].rows == 200
    write_symbol_table(tmp_path / "in.csv", later, "a", "b")
    lines = (tmp_path / "in.csv").read_text().splitlines()
    lines[5] = "5,,0.5"
    del lines[14]  # row 14
    (tmp_path / "in.csv").write_text("\n".join([*lines, "121,0.5,0.5"]))
    sanitize = ["sanitize", str(tmp_path / "plan" / "hall.json"), "--in", str(tmp_path / "in.csv")]
    assert run([*sanitize, "--out", str(tmp_path / "z.csv")]) == 1
    with (tmp_path / "z.csv").open() as file:
        sent = {int(line["row"]): float(line["z1"]) for line in csv.DictReader(file)}
    expected = {3 * k + 3: s for k, s in enumerate(plan.send(later)["hall"].tolist()) if s >= 0}
    assert {6, 15} <= set(expected)
    assert sent == {row: s for row, s in expected.items() if row not in (6, 15)}
    alone = plan.agents["hall"].send({"a": later["a"][:6], "b": later["b"][:6]})
    assert alone.tolist() == [expected[3], expected[6]]
    (tmp_path / "timed.csv").write_text("time,a,b\n" + "".join(f"{k},0.5,0.5\n" for k in range(9)))
    assert run([*sanitize[:3], str(tmp_path / "timed.csv"), "--out", str(tmp_path / "no.csv")]) == 2
    assert not (tmp_path / "no.csv").exists()


def test_another_law_in_service_ends_with_a_no(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = symbol_table(400, seed=6)
    moved["a"] = 0.2 * moved["a"]  # all like the first activity
    write_symbol_table(tmp_path / "in.csv", moved, "a", "b")
    run(
        [
            "sanitize",
            str(folder / "plan" / "hall.json"),
            "--in",
            str(tmp_path / "in.csv"),
            "--out",
            str(tmp_path / "z.csv"),
        ]
    )
    assert run(["fuse", str(folder / "plan" / "center.json"), f"hall={tmp_path / 'z.csv'}"]) == 1
    assert "void until it is learned anew" in capsys.readouterr().err


def test_an_agent_in_doubt_sends_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("row,a,b\n1,0.5,0.5\n2,999999,0.5\n3,,0.5\n")
    asked = ["sanitize", str(folder / "plan" / "hall.json"), "--in", str(tmp_path / "in.csv")]
    assert run([*asked, "--out", str(tmp_path / "z.csv")]) == 1
    assert len((tmp_path / "z.csv").read_text().splitlines()) == 2
    said = capsys.readouterr().err
    assert "a is outside the range of the calibration" in said
    assert "999999" not in said


def test_a_signed_plan_is_run_and_another_file_is_not(folder: Path, tmp_path: Path) -> None:
    vn.SymbolPlan.load(folder / "plan").save(tmp_path / "plan")
    key, agent = tmp_path / "designer.key", tmp_path / "plan" / "hall.json"
    assert run(["sign", str(tmp_path / "plan"), "--new-key", str(key)]) == 0
    asked = [
        "sanitize",
        str(agent),
        "--in",
        str(folder / "hall.in.csv"),
        "--trust",
        str(key.with_suffix(".pub")),
    ]
    assert run([*asked, "--out", str(tmp_path / "z.csv")]) in (0, 1)
    assert (tmp_path / "z.csv").stat().st_size > 1000
    agent.write_bytes((tmp_path / "plan" / "attic.json").read_bytes())
    assert run([*asked, "--out", str(tmp_path / "other.csv")]) == 2
    assert not (tmp_path / "other.csv").exists()


def test_attackers_stay_under_the_certificate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(folder / "plan"), "--data", str(folder / "later.csv"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {each["rows"] for each in said["attacks"]} == {1, 5}
    assert all((each["ok"] is None) == (each["rows"] > 1) for each in said["attacks"])
    assert run(["audit", str(folder / "plan")]) == 2


def test_too_few_rows_for_any_attacker_are_no_pass(folder: Path, tmp_path: Path) -> None:
    write_symbol_table(tmp_path / "few.csv", symbol_table(90, seed=5))
    assert run(["audit", str(folder / "plan"), "--data", str(tmp_path / "few.csv")]) == 2


@pytest.mark.parametrize(
    "line", [["--guessed", "0.2"], ["--symbols", "--guessed", "0.4"], ["--symbols", "--time", "session"]]
)
def test_what_cannot_be_is_refused(folder: Path, line: list[str]) -> None:
    fit = [each for each in FIT if each != "--symbols"]
    assert run(["fit", str(folder / "log.csv"), *fit, *line]) == (1 if "0.4" in line else 2)


def test_audit_runs_programs_of_agents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """veilnet's own agent passes by itself; another agent's program in its place is found."""
    own = f"{sys.executable} -m veilnet sanitize '{folder}/plan/hall.json' --again"
    assert run(["audit", str(folder / "plan"), "--run", f"hall={own}", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"]
    assert {"combinations sent", "answers to readings"} <= {row["what"] for row in said["programs"]}
    false = f"{sys.executable} -c \"print('row,z1'); [print(k, 0, sep=',') for k in range(9)]\""
    assert run(["audit", str(folder / "plan"), "--run", f"hall={false}"]) == 1
    assert run(["audit", str(folder / "plan"), "--run", f"cellar={own}"]) == 2
    says(capsys.readouterr().err, "--run", "cellar")
