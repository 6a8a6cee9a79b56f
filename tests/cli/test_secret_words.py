"""A room log with one column of yes and no, from fit to a plan: what is said of it is how surely it is seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet.auditing.promise import certificate_rows, exposure_rows
from veilnet.cli import run


@pytest.fixture
def room(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    occupied = rng.integers(0, 2, 600)
    outside = 10 + 3 * rng.standard_normal(600)
    columns = {
        "co2": 400 + 90 * occupied + 60 * rng.standard_normal(600),
        "warm": outside + occupied + rng.standard_normal(600),
        "cold": outside + rng.standard_normal(600),
        "outside": outside,
        "occupied": occupied,
    }
    rows = "\n".join(",".join(f"{value:.4f}" for value in row) for row in zip(*columns.values(), strict=True))
    (tmp_path / "room.csv").write_text(f"{','.join(columns)}\n{rows}\n")
    return tmp_path


def test_a_room_from_its_log_to_a_plan(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted, log = str(room / "room.toml"), str(room / "room.csv")
    readings = ["--agent", "in=co2,warm", "--agent", "out=cold", "--public", "outside"]
    assert run(["fit", log, *readings, "--private", "occupied", "--out", fitted]) == 0
    capsys.readouterr()
    assert run(["check", fitted]) == 0
    shown = capsys.readouterr().out
    line = shown[shown.index("occupied") :].replace("\n", " ")
    assert "AUC" in line
    assert "AUC" in next(each for each in shown.splitlines() if each.startswith("occupied (private)"))
    assert run(["design", fitted, "--privacy", "occupied=auc:0.6", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["detectability"]["occupied"]
    assert answer["sent"]["auc"] == pytest.approx(0.6, abs=1e-6)
    assert answer["raw"]["auc"] > answer["sent"]["auc"]
    assert answer["change"] == 1
    plan = str(room / "plan")
    assert run(["design", fitted, "--privacy", "occupied=auc:0.6", "--out", plan]) == 0
    capsys.readouterr()
    assert run(["verify", plan, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["detectability"]["occupied"] == answer
    assert run(["verify", plan]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("occupied (private)"))
    assert row.endswith("AUC 0.600")  # and no growth of an error
    assert run(["inspect", f"{plan}/in.json", "--json"]) in (0, 1)
    told = [line for line in json.loads(capsys.readouterr().out)["promise"] if "occupied" in line]
    assert "AUC 0.600" in told[0]
    assert "fold" not in told[0]
    made = vn.Plan.load(plan)
    (changed,) = [each for each in certificate_rows(made) if "change of occupied" in each.what]
    assert changed.verdict == "ok"
    exposed = {row.what: row for row in exposure_rows(made)}
    assert exposed["occupied, its change"].found == pytest.approx(0.6, abs=1e-6)
    assert "occupied, most exposed direction" not in exposed
    assert run(["frontier", fitted, "--privacy", "occupied=auc:0.6,0.55", "--json"]) == 0
    curve = json.loads(capsys.readouterr().out)
    assert [row["detectability"]["occupied"]["sent"]["auc"] for row in curve["rows"]] == pytest.approx(
        [0.6, 0.55], abs=1e-6
    )
    assert curve["measure"] == "AUC of occupied"


def test_changes_are_read_and_wrong_ones_named(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted, log = str(room / "room.toml"), str(room / "room.csv")
    readings = ["--agent", "in=co2,warm", "--agent", "out=cold", "--public", "outside"]
    assert run(["fit", log, *readings, "--private", "occupied:change=0.5", "--out", fitted]) == 0
    assert "change = 0.5" in Path(fitted).read_text()
    for wrong in ("auc:0.4", "auc:much", "chance:0.6"):
        assert run(["design", fitted, "--privacy", f"occupied={wrong}"]) in (1, 2)
        assert "--privacy" in capsys.readouterr().err or wrong == "auc:0.4"


@pytest.mark.parametrize("kind", [pytest.param("numbers", marks=pytest.mark.long), "texts"])
def test_classes_become_a_column_each_and_any_move_between_them(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(8)
    which = rng.integers(0, 3, 900)
    moved = np.array([[0.0, 0.0], [2.0, 0.0], [0.5, 1.5]])[which]
    outside = 3 * rng.standard_normal(900)
    noise = rng.standard_normal((900, 3))
    names = ["1", "2", "5"] if kind == "numbers" else ["rests", "sits", "walks"]
    lines = ["pulse,sound,cold,outside,activity"]
    for row in range(900):
        cells = (moved[row, 0], moved[row, 1] + outside[row], outside[row]) + noise[row]
        lines.append(",".join(f"{cell:.4f}" for cell in (*cells, outside[row])) + f",{names[which[row]]}")
    log, fitted = tmp_path / "log.csv", tmp_path / "fitted.toml"
    log.write_text("\n".join(lines) + "\n")
    agents = {"band": ["pulse", "sound"], "wall": ["cold"]}
    said = ["--agent", "band=pulse,sound", "--agent", "wall=cold", "--public", "outside"]
    assert run(["fit", str(log), *said, "--private", "activity:classes", "--out", str(fitted)]) == 0
    network = vn.Network.load(fitted)
    assert list(network.parameters) == ["outside", *(f"activity:{name}" for name in names[:2])]
    pairs = [vn.Secret(network.private["activity"], pair) for pair in ([1, 0], [0, 1], [1, -1])]
    each = [vn.detectability(network.replace(private={"activity": pair}))["activity"].mu for pair in pairs]
    assert vn.detectability(network)["activity"].mu == pytest.approx(max(each))
    plan = vn.design(network, privacy={"activity": vn.Auc(0.6)})
    assert plan.detectability["activity"].auc == pytest.approx(0.6, abs=1e-3)
    assert plan.detectability["activity"].auc <= 0.6
    changes = {"activity": ("classes", "1h")}
    with pytest.raises(vn.VeilnetError, match="step"):  # it lasts, and nobody said how long a row takes
        vn.fit(log, agents=agents, public="outside", private="activity", changes=changes)
    with pytest.raises(vn.VeilnetError, match="classes"):
        vn.fit(log, agents=agents, public="outside", private="pulse", changes={"pulse": "classes"})
    capsys.readouterr()
