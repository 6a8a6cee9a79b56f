"""Every kind of table, every refusal, and the command that fits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from helpers.calibration_table import (
    ROLES,
    table,
    write_csv,
)
from veilnet import cli
from veilnet.calibration.fitting import fit_report
from veilnet.io.tables import column_names, read_columns

pytestmark = pytest.mark.slow


# --- tables


def test_every_kind_of_table_gives_the_same_network(tmp_path: Path) -> None:
    data = table(50)
    expected = vn.fit(data, **ROLES)
    structured = np.rec.fromarrays(list(data.values()), names=list(data))
    path = tmp_path / "data.csv"
    write_csv(path, data)
    tables: list[object] = [structured, np.asarray(structured), str(path), path]
    tables.append({name: column.tolist() for name, column in data.items()})
    for frames in ("pandas", "polars"):
        module = pytest.importorskip(frames)
        tables.append(module.DataFrame(data))
    for one in tables:
        network = vn.fit(one, **ROLES)
        np.testing.assert_array_equal(network.H, expected.H)
        np.testing.assert_array_equal(network.R.matrix(), expected.R.matrix())
        assert set(column_names(one)) == set(data)


def test_missing_values_of_every_kind(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = [1.0, np.nan, 3.0]
    nullable = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64")})
    masked = {"a": np.ma.array([1, 2, 3], mask=[0, 1, 0])}
    tables = [
        {"a": [1, None, 3]}, nullable, masked, polars.DataFrame({"a": [1, None, 3]}),
    ]  # fmt: skip
    for text in ("a,b\n1,x\n,x\n3,x\n", "b;a\nx;1\nx; NA\n\nx;3\n", 'a\tb\n1\t"x\ny"\nnan\tx\n3\tx\n'):
        path = tmp_path / "data.csv"
        path.write_text(text)
        tables.append(path)
    for one in tables:
        np.testing.assert_array_equal(read_columns(one, ["a"])["a"], expected)


def test_rows_with_missing_values_are_refused_or_dropped() -> None:
    data = table(60)
    data["T2"][[3, 7]] = np.nan
    data["people"][7] = np.nan
    with pytest.raises(vn.InvalidNetwork, match=r"2 of 60 rows.*'T2': 2.*missing=\"drop\""):
        vn.fit(data, **ROLES)
    made = fit_report(data, **ROLES, missing="drop")
    keep = np.delete(np.arange(60), [3, 7])
    expected = vn.fit({name: column[keep] for name, column in data.items()}, **ROLES)
    np.testing.assert_array_equal(made.network.H, expected.H)
    assert (made.report.rows, made.report.dropped) == (58, 2)
    assert "2 left out" in str(made.report)


@pytest.mark.parametrize(
    ("change", "roles", "words"),
    [
        ({"T2": np.full(40, 21.5)}, {}, r"'T2' is constant \(21.5"),
        ({"people": np.ones(40)}, {}, "'people' is constant"),
        ({"T2": lambda d: d["T1"]}, {}, "'T1' and 'T2' repeat"),
        ({"T2": lambda d: 32 + 1.8 * d["T1"] + d["people"]}, {}, "'T1' and 'T2' repeat"),
        ({"T2": lambda d: d["T1"] + d["T3"]}, {}, r"'T.' is a linear function of T. and T.|T3 and T"),
        ({"T2": lambda d: 3 * d["T_out"] - 1}, {}, "'T2' is an exact linear function of T_out and people"),
        ({"people": lambda d: 2 * d["T_out"]}, {}, "is a linear function of.*leave one out"),
        ({}, {"public": ["T2"]}, "'T2' is a reading of hall and also public"),
        ({}, {"private": ["T_out"]}, "'T_out' is also public"),
        ({}, {"public": ["nix"]}, "no column 'nix'; its columns are 'T_out'"),
        ({}, {"public": ["T_uot"]}, r"no column 'T_uot'; did you mean T_out\?; its columns are 'T_out'"),
        ({}, {"agents": {"a": ["T1"], "b": ["T1"]}}, "'T1' belongs to a and b"),
        ({}, {"agents": {"a": ["T1", "T1"]}}, "used twice"),
        ({}, {"agents": {"a": []}}, "at least one column"),
        ({}, {"agents": {"plan": ["T1"]}}, "plan"),
        ({}, {"agents": ["T1"]}, "agent -> columns"),
        ({}, {"private": []}, "private: expected at least one"),
        ({}, {"public": {"u": 3}}, "expected column names"),
        ({}, {"missing": "fill"}, "'refuse', 'drop'"),
        ({}, {"noise": "none"}, "'joint', 'independent'"),
        ({"T2": ["warm"] * 40}, {}, "'T2': expected numbers"),
        ({"T2": [1.0, "warm"] * 20}, {}, "'T2'"),
        ({"T2": [None, object()] * 20}, {}, "'T2', row 2: expected a number"),
        ({"T2": np.full(40, np.inf)}, {}, "'T2', row 1: expected a finite number"),
        ({"T2": np.arange(40).astype("M8[D]")}, {}, "'T2': expected numbers"),
        ({"T2": np.zeros((40, 2))}, {}, "'T2': expected one value per row"),
        ({"T2": np.arange(39.0)}, {}, "'T2' has 39 rows"),
    ],
)
def test_refusals_name_the_column(change, roles, words) -> None:
    data = table(40)
    data |= {name: made(data) if callable(made) else made for name, made in change.items()}
    asked = roles and roles.get("agents") != {"plan": ["T1"]}  # a name no network may have
    with pytest.raises(vn.InvalidRequest if asked else vn.InvalidNetwork, match=words):
        vn.fit(data, **(ROLES | roles))


def test_too_few_rows_and_wrong_tables() -> None:
    with pytest.raises(vn.InvalidNetwork, match="at least 4 complete rows for 2 parameters, found 3"):
        vn.fit(table(3), **ROLES)
    assert fit_report(table(4), **ROLES).network.N == 6
    with pytest.raises(vn.InvalidNetwork, match="a plain matrix needs names"):
        vn.fit(np.zeros((4, 4)), **ROLES)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(vn.InvalidNetwork, match="'T1' appears twice"):
        vn.fit(pandas.DataFrame(np.zeros((4, 2)), columns=["T1", "T1"]), **ROLES)


# --- the command

OPTIONS = ["--agent", "kitchen=T1,RH1", "--agent", "hall=T2", "--public", "T_out", "--private", "people"]


def test_the_command_writes_the_network_and_says_how_good_it_is(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = table(300)
    data["T1"] = np.round(data["T1"])
    write_csv(Path("data.csv"), data, delimiter=";")
    assert cli.run(["fit", "data.csv", *OPTIONS, "--out", "house.toml"]) == 0
    shown = capsys.readouterr().out
    assert "held out" in shown
    assert "Doubtful (coarse): Coarse readings: T1" in shown
    assert "veilnet check house.toml" in shown
    roles = {"agents": {"kitchen": ["T1", "RH1"], "hall": ["T2"]}, "public": "T_out", "private": "people"}
    expected = fit_report(data, **roles).network
    loaded = vn.Network.load("house.toml")
    np.testing.assert_array_equal(loaded.H, expected.H)
    np.testing.assert_array_equal(loaded.R.matrix(), expected.R.matrix())
    np.testing.assert_array_equal(loaded.offset, expected.offset)
    np.testing.assert_array_equal(loaded.prior.mean, expected.prior.mean)

    assert cli.run(["fit", "data.csv", *OPTIONS[:-2], "--private", "home=people,CO2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [p["name"] for p in answer["report"]["parameters"]] == ["T_out", "people", "CO2"]
    assert answer["written"] is None
    assert answer["warnings"]


def test_the_command_replaces_a_file_only_when_forced(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(Path("data.csv"), table(40))
    Path("house.toml").write_text("written by hand\n")
    command = ["fit", "data.csv", *OPTIONS, "--out", "house.toml"]
    assert cli.run(command) == 2
    shown = capsys.readouterr()
    assert "house.toml: exists already; choose another name, or --force to replace it" in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert Path("house.toml").read_text() == "written by hand\n"
    assert cli.run([*command, "--force"]) == 0
    assert vn.Network.load("house.toml").N == 3


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (None, OPTIONS, "No such file"),
        ("T1,RH1,T2,T_out,people\n1,2,,4,5\n", OPTIONS, "--missing drop"),
        ("", OPTIONS, "names the columns"),
        ("1,2\n3,4\n", OPTIONS, "put the names above"),
        ("T1,T1\n3,4\n", OPTIONS, "'T1' appears twice"),
        ("T1,T2\n3,4\n", OPTIONS, "no column"),
        ("T1,RH1,T2,T_out,people\n1,2,3\n", OPTIONS, "line 2: expected 5 cells, found 3"),
        ('T1,RH1,T2,T_out,people\n1,2,3,"1,5",0\n', OPTIONS, "decimals with a point"),
        ("T1,RH1,T2,T_out,people\n1,2,3,inf,0\n", OPTIONS, "'T_out', row 2: expected a finite"),
        ("T1,RH1,T2,T_out,people\n1,2,3,4,5\n", OPTIONS, "at least 4 complete rows"),
        ("T1,T_out,people\n", ["--agent", "T1", "--public", "T_out", "--private", "people"], "name=column"),
        ("T1,T_out,people\n", [*OPTIONS, "--agent", "hall=T1"], "'hall' is given twice"),
        ("T1,T_out,people\n", [*OPTIONS, "--public", "T_out"], "'T_out' is given twice"),
        ("T1,T_out,people\n", [*OPTIONS, "--missing", "guess"], "'refuse', 'drop'"),
        ("T1,T_out,people\n", OPTIONS[:-2], "--private"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(tmp_path, capsys, text, options, words) -> None:
    path = tmp_path / "data.csv"
    if text is not None:
        path.write_text(text)
    assert cli.run(["fit", str(path), *options, "--out", str(tmp_path / "house.toml")]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "house.toml").exists()


@settings(max_examples=80)
@given(st.data())
def test_damaged_tables_never_end_in_a_traceback(tmp_path_factory, data) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    write_csv(path, {name: np.round(column, 2) for name, column in table(12).items()})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 40))
        content[place : place + length] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b",", b"\n", b'"', b"1e999"])
        )
        if not content:
            break
    path.write_bytes(bytes(content))
    assert cli.run(["fit", str(path), *OPTIONS]) in (0, 2)
