"""Loaders of real logs, on small files written as each is published: every number comes out where it belongs."""

from __future__ import annotations

import gzip
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from helpers.code_blocks import ROOT


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("logs", None)
    return import_module("logs")


def room_file(folder: Path, rows: int) -> np.ndarray:
    """UCI 864: a heading, dates with slashes, a row every half minute; people come and go."""
    rng = np.random.default_rng(1)
    people = np.repeat(rng.integers(0, 4, -(-rows // 40)), 40)[:rows]
    nodes = range(1, 5)
    heading = ["Date", "Time", *(f"S{k}_{kind}" for kind in ("Temp", "Light", "Sound") for k in nodes)]
    heading += ["S5_CO2", "S5_CO2_Slope", "S6_PIR", "S7_PIR", "Room_Occupancy_Count"]
    air = 400 + np.convolve(100 * people, np.exp(-np.arange(200) / 50) / 50)[:rows] + rng.normal(size=rows)
    lines = [",".join(heading)]
    for k, count in enumerate(people):
        readings = np.concatenate(
            [
                25 + 0.2 * count + 0.002 * air[k] + 0.1 * rng.normal(size=4),
                100 * (count > 0) + 5 * rng.normal(size=4),
                0.1 * count + 0.05 * rng.random(4),
            ]
        )
        clock = f"2017/12/22,{10 + k // 120:02d}:{k // 2 % 60:02d}:{30 * (k % 2):02d}"
        motion = f"{int(rng.random() < 0.3 * count)},{int(rng.random() < 0.2 * count)}"
        lines.append(f"{clock},{','.join(f'{x:.4f}' for x in readings)},{air[k]:.1f},0.5,{motion},{count}")
    (folder / "Occupancy_Estimation.csv").write_text("\n".join(lines) + "\n")
    return people


def test_room_occupancy_estimation(logs: ModuleType, tmp_path: Path) -> None:
    people = room_file(tmp_path, 500)
    log = logs.room(tmp_path / "Occupancy_Estimation.csv")
    assert log.table["occupied"].tolist() == (people > 0).tolist()
    assert np.all(np.diff(log.table["time"]) == 30)
    assert log.agents["S3"] == ["S3_Temp", "S3_Light", "S3_Sound"]
    assert log.agents["motion"] == ["S6_PIR", "S7_PIR"]
    assert "Room_Occupancy_Count" not in {name for each in log.agents.values() for name in each}


@pytest.mark.slow
def test_a_log_gets_its_honest_headline(
    logs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Light names occupied moments; whatever the free plan sends, the suite says what was measured of it."""
    pytest.importorskip("sklearn")
    room_file(tmp_path, 600)
    assert logs.main([str(tmp_path), "--quick"]) == 0
    said = capsys.readouterr().out
    assert "room: 600 rows" in said
    assert re.search(r"see occupied,.* these 600 rows", said)
    assert re.search(r"^what a free plan sends .* \d\.\d\d to \d\.\d\d", said, re.MULTILINE)
    assert "building: not there; looked for co2.csv" in said


def test_office(logs: ModuleType, tmp_path: Path) -> None:
    heading = "date,Temperature,Humidity,Light,CO2,HumidityRatio,Occupancy"
    lines = [f"2015-02-04 17:{k:02d}:00,23.1,27.2,{k},{700 + k},0.0048,{k % 2}" for k in range(5)]
    (tmp_path / "training.csv").write_text("\n".join([heading, *lines]) + "\n")
    log = logs.office(tmp_path / "training.csv")
    assert log.table["Occupancy"].tolist() == [0, 1, 0, 1, 0]
    assert np.all(np.diff(log.table["date"]) == 60)
    assert (log.private, list(log.public)) == (["Occupancy"], ["HumidityRatio"])


def test_room_climate(logs: ModuleType, tmp_path: Path) -> None:
    """Twelve numbers a line: entry, ms, s, node, °C, %, two lights, occupants, activity, door, window."""
    folder = tmp_path / "datasets-location_A"
    folder.mkdir()
    for measurement in (1, 2):
        lines = []
        for k in range(30):  # two nodes in turn, one of them every two seconds
            node, at = k % 2 + 1, 1458031648545 + 2000 * k
            lines.append(
                f"{k + 1}, {at}, {2 * k}, {node}, {20 + node + k / 100:.2f}, 42.3, 185.7, 492.2, {k // 15}, 0, 0, 0"
            )
        name = f"room_climate-location_A-measurement{measurement:02d}.csv"
        (folder / name).write_text("\n".join(lines) + "\n")
    log = logs.room_climate(folder / "room_climate-location_A-measurement01.csv")
    assert list(log.agents) == ["node1"]
    assert log.public == {"temperature": ["node2_temperature"]}
    assert len(log.table["time"]) == 12  # a minute of each, in steps of ten seconds
    assert log.table["node1_temperature"][0] == pytest.approx(21 + np.mean([0, 2, 4]) / 100)
    assert log.table["node2_temperature"][1] == pytest.approx(22 + np.mean([5, 7, 9]) / 100)
    assert log.table["occupied"].tolist() == [0, 0, 0, 1, 1, 1] * 2


def test_building(logs: ModuleType, tmp_path: Path) -> None:
    """A folder for each room, five files of seconds and values; motion lasts five minutes."""
    start = 1377299100
    for room in ("413", "415"):
        folder = tmp_path / "KETI" / room
        folder.mkdir(parents=True)
        for kind in ("co2", "humidity", "light", "pir", "temperature"):
            values = [float(room) + k // 6 if kind != "pir" else 26.0 * (k == 60) for k in range(120)]
            lines = [f"{start + 10 * k},{value}" for k, value in enumerate(values)]
            (folder / f"{kind}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "KETI" / "601").mkdir()  # a room without files is left out
    log = logs.building(tmp_path / "KETI" / "413" / "co2.csv")
    assert list(log.agents) == ["room413", "room415"]
    assert log.table["413_co2"][:3].tolist() == [413, 414, 415]
    assert log.table["temperature"][0] == 414
    assert np.flatnonzero(log.table["motion"]).tolist() == [10, 11, 12, 13, 14]
    assert "pir" not in " ".join(name for each in log.agents.values() for name in each)


def test_wearables_raw_and_in_segments(logs: ModuleType, tmp_path: Path) -> None:
    """125 lines of 45 numbers in a01/p1/s01.txt: the torso first, nine axes each; both forms give the same."""
    rng, names = np.random.default_rng(2), [f"{unit}_{axis}" for unit in logs.UNITS for axis in logs.AXES]
    heading = [
        "activity",
        "person",
        "segment",
        *(f"{name}_{what}" for name in names for what in ("mean", "std")),
    ]
    lines = [",".join(heading)]
    for activity in (1, 2):
        for person in (1, 2, 3):
            folder = tmp_path / "data" / f"a{activity:02d}" / f"p{person}"
            folder.mkdir(parents=True)
            for segment in (1, 2):
                samples = rng.normal(size=(125, 45)).round(4)
                np.savetxt(folder / f"s{segment:02d}.txt", samples, fmt="%.4f", delimiter=",")
                both = np.stack([samples.mean(axis=0), samples.std(axis=0)], axis=1).ravel()
                lines.append(",".join(map(repr, [activity, person, segment, *both.tolist()])))
    with gzip.open(tmp_path / "segments_1_to_40.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    raw = logs.raw_wearables(tmp_path / "data" / "a01" / "p1" / "s01.txt")
    segments = logs.wearables(tmp_path / "segments_1_to_40.csv.gz")
    assert raw.private == segments.private == ["person_2", "person_3"]
    assert raw.public == segments.public == {"activity": ["activity_2"]}
    assert [len(each) for each in raw.agents.values()] == [18] * 5
    for name in [*raw.private, "activity_2", "torso_acc_x_mean", "left_leg_mag_z_std"]:
        assert raw.table[name] == pytest.approx(segments.table[name], abs=1e-9)
    assert raw.table["segment"].tolist() == [1] * 6 + [2] * 6  # blocks of rows are blocks of segments


def test_what_is_no_such_log_is_refused_in_words(
    logs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "KETI" / "413"
    folder.mkdir(parents=True)
    for kind in ("co2", "humidity", "light", "pir", "temperature"):
        (folder / f"{kind}.csv").write_text("1377299100,20.0\n" if kind != "light" else "time;light\n")
    (tmp_path / "training.csv").write_text("date,Temperature\n2015-02-04 17:51:00,23\n")
    assert logs.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "building: refused." in said
    assert "light.csv: expected 2 numbers a line" in said
    assert "office: refused." in said
    assert "Humidity" in said
    empty = tmp_path / "empty"
    empty.mkdir()
    assert logs.main([str(empty)]) == 1
