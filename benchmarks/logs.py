"""Real logs: each is fitted and gets its honest headline, or is refused in words. Nothing is downloaded.

    python benchmarks/logs.py FOLDER [--quick]

FOLDER, or a folder in it, holds whatever you have of these, as it was published:

    office               training.csv of Occupancy Detection (UCI Machine Learning Repository, 357)
    wearables            segments_1_to_40.csv.gz, a row a segment of Daily and Sports Activities (UCI 256)
    room                 Occupancy_Estimation.csv of Room Occupancy Estimation (UCI 864)
    room climate         room_climate-location_A-measurement01.csv .. (ESORICS 2017, IoTsec/Room-Climate-Datasets)
    building             KETI/<room>/co2.csv, humidity.csv, light.csv, pir.csv, temperature.csv (Hong et al., 2017)
    raw wearables        a01/p1/s01.txt .. of Daily and Sports Activities (UCI 256)

The table of roles below says who reads what, what may be known and what must not. ``--quick`` takes fewer rows.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

import veilnet as vn
from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet.bounds.detectability import secrets_headlines
from veilnet.calibration.fitting import fit_report
from veilnet.io.tables import column_names, read_columns
from veilnet.model.fitted import log_in_words

Table = dict[str, np.ndarray]
UNITS = ("torso", "right_arm", "left_arm", "right_leg", "left_leg")
AXES = [f"{sensor}_{axis}" for sensor in ("acc", "gyr", "mag") for axis in "xyz"]
KETI = ("co2", "humidity", "light", "pir", "temperature")
MOST_ROOMS = 4
QUICK_ROWS = 2000


@dataclass(frozen=True)
class Log:
    """A log with the part that every column plays.

    table: name -> column; agents: who reads which; public, private: what may be known and what must not; time: the
    column of seconds, None where rows do not follow one another.
    """

    table: Table
    agents: dict[str, list[str]]
    public: dict[str, list[str]]
    private: list[str]
    time: str | None = None

    def first(self, rows: int) -> Log:
        """Its first rows, or evenly so many of them where rows do not follow one another."""
        count = len(next(iter(self.table.values())))
        step = 1 if self.time is not None else max(1, count // rows)
        return Log(
            {name: each[::step][:rows] for name, each in self.table.items()},
            self.agents, self.public, self.private, self.time,
        )  # fmt: skip


def office(path: Path) -> Log:
    """*climate* reads temperature and humidity, *desk* light and CO2; the water in the air may be known."""
    agents = {"climate": ["Temperature", "Humidity"], "desk": ["Light", "CO2"]}
    wanted = ["Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy"]
    table = read_columns(path, wanted, time="date")
    return Log(table, agents, {"HumidityRatio": ["HumidityRatio"]}, ["Occupancy"], "date")


def wearables(path: Path) -> Log:
    """Five units of 18 readings; which activity may be known, which person must not: a column for each but one."""
    table = read_columns(path, column_names(path))
    return _of_segments(table, "person", "activity")


def room(path: Path) -> Log:
    """S1 to S4 read temperature, light and sound, *motion* the two infrared sensors; CO2 may be known."""
    nodes = {f"S{k}": [f"S{k}_Temp", f"S{k}_Light", f"S{k}_Sound"] for k in range(1, 5)}
    agents = nodes | {"motion": ["S6_PIR", "S7_PIR"]}
    readings = [name for each in agents.values() for name in each]
    table = read_columns(path, [*readings, "S5_CO2", "Room_Occupancy_Count"])
    with path.open(encoding="utf-8") as lines:
        heading = lines.readline().strip().split(",")
        days, times = heading.index("Date"), heading.index("Time")
        cells = [line.rstrip("\n").split(",") for line in lines if line.strip()]
    started = [
        datetime.strptime(f"{each[days]} {each[times]}", "%Y/%m/%d %H:%M:%S").timestamp() for each in cells
    ]
    table |= {"occupied": (table["Room_Occupancy_Count"] > 0) * 1.0, "time": np.array(started)}
    return Log(table, agents, {"CO2": ["S5_CO2"]}, ["occupied"], "time")


def room_climate(path: Path) -> Log:
    """Every node but the last reads temperature, humidity and light; the last node's temperature may be known.

    Rows of a node come every four seconds or so: means of ten seconds are taken, one measurement after the other.
    """
    location = re.match(r"room_climate-location_(\w+)-", path.name)
    assert location is not None
    files = sorted(path.parent.glob(f"room_climate-location_{location[1]}-measurement*.csv"))
    tables = [_climate(each) for each in files]
    nodes = sorted(set.intersection(*(set(nodes) for nodes, _ in tables)))
    if len(nodes) < 2:
        raise InvalidRequest(f"{path.parent}: expected two nodes or more in every measurement, found {nodes}")
    *readers, last = nodes
    kinds = ("temperature", "humidity", "light1", "light2")
    agents = {f"node{node}": [f"node{node}_{kind}" for kind in kinds] for node in readers}
    wanted = [name for each in agents.values() for name in each]
    table = {
        name: np.concatenate([found[name] for _, found in tables])
        for name in [*wanted, f"node{last}_temperature", "occupied", "time"]
    }
    return Log(table, agents, {"temperature": [f"node{last}_temperature"]}, ["occupied"], "time")


def _climate(path: Path) -> tuple[list[int], Table]:
    """(nodes, columns) of one measurement, in steps of ten seconds in which every node was heard."""
    rows = _numbers(path, 12)
    bins = np.floor((rows[:, 1] - rows[0, 1]) / 1e4).astype(int)
    nodes = sorted({int(node) for node in rows[:, 3]})
    columns = {"occupied": (rows[:, 8] > 0) * 1.0, "time": rows[0, 1] / 1e3 + 10.0 * bins}
    table = {name: _means(bins, values) for name, values in columns.items()}
    for node in nodes:
        mine = rows[:, 3] == node
        for place, kind in enumerate(("temperature", "humidity", "light1", "light2")):
            table[f"node{node}_{kind}"] = _means(bins, np.where(mine, rows[:, 4 + place], np.nan))
    complete = np.all([np.isfinite(each) for each in table.values()], axis=0)
    table = {name: each[complete] for name, each in table.items()}
    return nodes, table | {"occupied": (table["occupied"] >= 0.5) * 1.0}


def building(path: Path) -> Log:
    """Up to four rooms, each reads CO2, humidity and light; their mean temperature may be known, motion in one not.

    Sensors report every few seconds: means of a minute are taken; motion is any that was seen within five.
    """
    folders = sorted(each for each in path.parent.parent.iterdir() if each.is_dir())
    whole = [each for each in folders if all((each / f"{kind}.csv").is_file() for kind in KETI)][:MOST_ROOMS]
    rooms = {each.name: {kind: _numbers(each / f"{kind}.csv", 2) for kind in KETI} for each in whole}
    starts = [rows[0, 0] for room in rooms.values() for rows in room.values()]
    ends = [rows[-1, 0] for room in rooms.values() for rows in room.values()]
    minutes = int((min(ends) - max(starts)) / 60)
    if minutes < 1:
        raise InvalidRequest(f"{path.parent.parent}: the logs of its rooms have no minute in common")
    table: Table = {"time": max(starts) + 60.0 * np.arange(minutes)}
    for name, found in rooms.items():
        for kind, rows in found.items():
            bins = np.floor((rows[:, 0] - max(starts)) / 60).astype(int)
            inside = (bins >= 0) & (bins < minutes)
            table[f"{name}_{kind}"] = _means(bins[inside], rows[inside, 1], minutes)
    seen = np.nan_to_num(table[f"{whole[0].name}_pir"]) > 0
    table["motion"] = np.convolve(seen, np.ones(5), "full")[:minutes].clip(0, 1).round()
    table["temperature"] = np.mean([table[f"{name}_temperature"] for name in rooms], axis=0)
    agents = {f"room{name}": [f"{name}_{kind}" for kind in ("co2", "humidity", "light")] for name in rooms}
    return Log(table, agents, {"temperature": ["temperature"]}, ["motion"], "time")


def raw_wearables(path: Path) -> Log:
    """As the wearables, from 125 rows of 45 numbers for each segment: their means, and logarithms of spreads."""
    rows = []
    for file in sorted(path.parents[2].glob("a[0-9][0-9]/p[0-9]/s[0-9][0-9].txt")):
        samples = _numbers(file, len(UNITS) * len(AXES))
        place = [int(part[1:].removesuffix(".txt")) for part in file.parts[-3:]]
        rows.append([*place, *np.mean(samples, axis=0), *np.std(samples, axis=0)])
    names = [f"{unit}_{axis}" for unit in UNITS for axis in AXES]
    labels = [
        "activity",
        "person",
        "segment",
        *(f"{name}_{what}" for what in ("mean", "std") for name in names),
    ]
    return _of_segments(dict(zip(labels, np.array(rows).T, strict=True)), "person", "activity")


def _of_segments(table: Table, private: str, public: str) -> Log:
    """Rows by segment, so that blocks of rows are blocks of segments; a column for each class but the first."""
    order = np.argsort(table["segment"], kind="stable")
    found = {name: each[order] for name, each in table.items()}
    found = {n: np.log(each + 1e-3) if n.endswith("_std") else each for n, each in found.items()}
    agents = {unit: [name for name in found if name.startswith(f"{unit}_")] for unit in UNITS}
    named = {}
    for column in (private, public):
        values = np.unique(found[column])[1:]
        named[column] = [f"{column}_{value:g}" for value in values]
        found |= {f"{column}_{value:g}": (found[column] == value) * 1.0 for value in values}
    return Log(found, agents, {public: named[public]}, named[private])


def _numbers(path: Path, columns: int) -> np.ndarray:
    """A file of numbers between commas, without a heading, refused in words where it is something else."""
    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InvalidRequest(f"{path}: expected {columns} numbers a line, between commas: {error}") from error
    if rows.shape[1] != columns or not len(rows):
        raise InvalidRequest(f"{path}: expected {columns} numbers a line, found {rows.shape[1]}")
    return rows


def _means(bins: np.ndarray, values: np.ndarray, count: int | None = None) -> np.ndarray:
    """The mean of what is known in each bin, NaN where nothing is."""
    known = np.isfinite(values)
    count = int(bins.max()) + 1 if count is None else count
    sums, sizes = (np.bincount(bins[known], each, count) for each in (values[known], np.ones(known.sum())))
    return np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)


LOGS: dict[str, tuple[str, Callable[[Path], Log]]] = {
    "office": ("training.csv", office),
    "wearables": ("segments_1_to_40.csv.gz", wearables),
    "room": ("Occupancy_Estimation.csv", room),
    "room climate": ("room_climate-location_*-measurement*.csv", room_climate),
    "building": ("co2.csv", building),
    "raw wearables": ("a01/p1/s01.txt", raw_wearables),
}
"""Which file tells that a log is there, and how it is read."""


def judged(name: str, log: Log, stream: bool | None = None) -> list[str]:
    """What a fit says of a log: the headline of a free plan, and what detectors made of it; or why there is none.

    stream: as of fit; where a stream is refused, single rows are tried.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = fit_report(
                log.table, log.agents, log.public, log.private, time=log.time, missing="drop", stream=stream
            )
            plan = vn.design(made.network)
    except VeilnetError as error:
        again = judged(name, log, stream=False) if log.time is not None and stream is None else []
        return [f"{name}: refused{' as a stream' * bool(again)}. {error}", *again]
    said = secrets_headlines(made.network, plan.detectability)
    if not said:
        said = [f"{each}: {seen.in_words()}" for each, seen in plan.detectability.items()]
    kind = "a stream" if made.network.is_stream else "single rows"
    told = [log_in_words(each, shown) for each, shown in made.network.log_aucs.items()]
    return [f"{name}: {made.report.rows} rows, fitted as {kind}. A free plan:", *said, *told]


def main(words: Sequence[str] | None = None) -> int:
    """Every log that the folder has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of each, and one secret")
    given = parser.parse_args(words)
    if not given.folder.is_dir():
        parser.error(f"folder: expected a folder of logs, found {given.folder}")
    found = 0
    for name, (file, load) in LOGS.items():
        path = min(given.folder.rglob(file), default=None)
        if path is None:
            print(f"{name}: not there; looked for {file}")
            continue
        found += 1
        try:
            log = load(path)
        except (VeilnetError, ValueError, OSError) as error:
            print(f"{name}: refused. {error}")
            continue
        if given.quick:
            log = log.first(QUICK_ROWS)
            log = Log(log.table, log.agents, log.public, log.private[:1], log.time)
        print("\n".join(judged(name, log)), flush=True)
        print()
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
