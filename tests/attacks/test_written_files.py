"""What fit, design and report write: no value of a private column can be worked out from it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

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
