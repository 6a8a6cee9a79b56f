"""What fit, design and report write: no value of a private column can be worked out from it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet import cli
from veilnet.calibration.fitting import fit_report

ROLES = {"agents": {"kitchen": ["T1", "T2"], "hall": ["T3"]}, "public": ["outside"], "private": ["people"]}
FIT = ["fit", "log.csv", "--agent", "kitchen=T1,T2", "--agent", "hall=T3", "--public", "outside",
       "--private", "people", "--out", "house.toml"]  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def log(rows: int = 1500) -> dict[str, np.ndarray]:
    """A house whose private column has one value far beyond the others, and whose T2 one that nothing explains."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 2))
    y = x @ [[1.0, 0.4, 0.8], [0.3, 1.0, 0.5]] + 0.5 * rng.standard_normal((rows, 3))
    y[1016, 1] += 20 * 0.5
    x[1376, 1] = 23.40718253
    return dict(zip(["outside", "people", "T1", "T2", "T3"], np.column_stack([x, y]).T, strict=True))


def test_no_file_tells_a_value_of_a_private_column(tmp_path: Path, monkeypatch, capsys) -> None:
    """Row and distance of an outlier stood in network, report and plan: with mean and deviation, the value itself."""
    monkeypatch.chdir(tmp_path)
    data = log()
    np.savetxt(
        "log.csv", np.column_stack(list(data.values())), delimiter=",", header=",".join(data), comments=""
    )
    assert cli.run(FIT) == 0
    told = capsys.readouterr().out
    assert cli.run(["design", "house.toml", "--out", "plan"]) == 0
    assert cli.run(["report", "plan", "--out", "report.html"]) == 0
    outliers = fit_report(data, **ROLES).report.outliers
    assert {(one.column, one.row) for one in outliers} == {("people", 1377), ("T2", 1017)}
    secrets = {f"{one.row}" for one in outliers} | {f"{one.deviations:.3g}" for one in outliers}
    assert secrets <= set(NUMBER.findall(told)), "the screen names them, for whoever has the log to look"
    # 1,500 values over a span of 6 and 10,000 numbers agree to 1e-9 by chance once in 200 seeds; this one is fixed
    values = np.sort(data["people"])
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "log.csv"]
    assert {"house.toml", "house.report.json", "plan.json", "report.html"} <= {path.name for path in written}
    for path in written:
        numbers = NUMBER.findall(path.read_text("utf-8", errors="replace"))
        assert not secrets & set(numbers), path
        found = np.array(numbers, dtype=float)
        place = np.clip(np.searchsorted(values, found), 1, len(values) - 1)
        near = np.minimum(np.abs(values[place] - found), np.abs(values[place - 1] - found))
        assert near.size == 0 or np.min(near) > 1e-9, path


@pytest.mark.parametrize("role", ["public", "private"])
def test_few_values_of_any_parameter_are_doubted(role: str) -> None:
    """Heating that is on or off, public: whoever knows that, too, estimates the private parameter better."""
    data = log()
    names = {"public": "outside", "private": "people"}
    data[names[role]] = (data[names[role]] > 0.3).astype(float)
    doubts = {one.name: one.words for one in fit_report(data, **ROLES).network.doubts}
    assert names[role] in doubts["few-values"]


def test_the_law_of_a_public_parameter_is_doubted() -> None:
    data = log()
    data["outside"] = np.exp(data["outside"])
    doubts = {one.name: one.words for one in fit_report(data, **ROLES, limits=False).network.doubts}
    assert "outside" in doubts["parameter-law"]


# --- spreadsheets

FORMULA = '=HYPERLINK("x";"y")'


@pytest.mark.parametrize("name", [FORMULA, "+1+cmd", "-1+cmd", "@sum(a1)", "'quoted", "-1.5"])
def test_no_cell_is_run_by_a_spreadsheet(tmp_path: Path, name: str) -> None:
    """Names of agents and parameters come from whoever made the network: none begins a cell as a formula does."""
    network = vn.Network(
        {name: [[1.0, 0.3], [0.0, 1.0]], "hall": [[0.9, 0.8], [0.2, 0.1]]}, 0.25, {name: [1, 0]}, {"g": [0, 1]},
        resolution=0, prior=vn.Prior(np.eye(2)),
    )  # fmt: skip
    plan = vn.design(network)
    plan.save(tmp_path / "plan")
    files = plan_files(tmp_path / "plan")
    np.savetxt(tmp_path / "in.csv", [[-1.0, 2.0], [3.0, -4.0]], delimiter=",")
    for file in files.values():
        place = str(tmp_path / f"{file.stem}.csv")
        assert cli.run(["sanitize", str(file), "--in", str(tmp_path / "in.csv"), "--out", place]) == 0
    given = [f"{agent}={tmp_path / file.stem}.csv" for agent, file in files.items() if agent == "hall"]
    out = tmp_path / "estimates.csv"
    center = str(tmp_path / "plan" / "center.json")
    assert cli.run(["fuse", center, "--out", str(out), "--", *given]) == 0, (
        "without the other agent, who is named as missing"
    )
    for path in (out, tmp_path / f"{files[name].stem}.csv"):
        cells = [cell for row in csv.reader(path.read_text().splitlines()) for cell in row]
        assert any(name in cell for cell in cells), path
        assert [cell for cell in cells if cell[:1] in "=+-@" and cell and not is_number(cell)] == []
    whole = [*given, f"{name}={tmp_path / files[name].stem}.csv"]
    assert cli.run(["fuse", center, "--out", str(tmp_path / "all.csv"), "--", *whole]) == 0, (
        "messages are read again"
    )
    rows = list(csv.reader((tmp_path / "all.csv").read_text().splitlines()))
    assert [row[3] for row in rows[1:]] == ["", ""]


def plan_files(folder: Path) -> dict[str, Path]:
    """agent -> its file."""
    loaded = {
        path: vn.Sanitizer.load(path) for path in folder.glob("*.json") if path.stem not in ("plan", "center")
    }
    return {sanitizer.agent: path for path, sanitizer in loaded.items()}


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
