"""A stream from readings to estimates by the commands alone, against the library."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from helpers.streams import random_stream, simulated
from veilnet import cli
from veilnet._core.missed import MISSED
from veilnet._core.types import Array

ROWS = 120


class Deployed:
    """A plan for a stream in a folder, and what its agents sent by the command: some missed, some lost, one late."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capfd = capfd
        self.network = random_stream(11)
        self.plan = vn.design(self.network)
        self.plan.save(folder / "plan")
        rng = np.random.default_rng(11)
        _, readings = simulated(self.network, ROWS, rng)
        self.sent: dict[str, Array] = {}
        self.files = []
        for agent, y in readings.items():
            y[rng.random(ROWS) < 0.1] = np.nan
            y[40:45] = np.nan  # nobody reads anything
            source, out = folder / f"{agent}.csv", folder / f"{agent}.sent.csv"
            lines = [
                f"{k + 1},{','.join(map(repr, row))}\n"
                for k, row in enumerate(y.tolist())
                if not np.isnan(row[0])
            ]
            source.write_text("row,p,q\n" + "".join(lines))
            assert (
                self.run(
                    "sanitize",
                    folder / f"plan/{agent}.json",
                    "--in",
                    source,
                    "--out",
                    out,
                )
                == 0
            )
            written = out.read_text().splitlines(keepends=True)
            lost = set(rng.choice(np.arange(1, len(written)), 10, replace=False).tolist()) | set(
                range(71, 74)
            )
            out.write_text("".join(line for k, line in enumerate(written) if k not in lost))
            self.sent[agent] = self._read(out)
            self.files.append(f"{agent}={out}")

    def _read(self, path: Path) -> Array:
        lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
        values = np.full((ROWS, len(lines[0]) - 3), np.nan)
        for line in lines:
            values[int(line[0]) - 1] = MISSED if line[3] == "missed" else [float(text) for text in line[3:]]
        return values

    def run(self, *arguments: object) -> int:
        return cli.run([str(argument) for argument in arguments])

    def fuse(self, *options: object) -> list[dict[str, str]]:
        out = self.folder / "estimates.csv"
        assert self.run("fuse", self.folder / "plan/center.json", *self.files, "--out", out, *options) == 0
        return list(csv.DictReader(out.read_text().splitlines()))


@pytest.fixture
def deployed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Deployed:
    return Deployed(tmp_path, capfd)


def test_from_readings_to_estimates(deployed: Deployed) -> None:
    fusion = vn.Fusion(deployed.plan)
    heard = np.flatnonzero(np.any([~np.isnan(z[:, 0]) for z in deployed.sent.values()], axis=0)) + 1
    assert not {71, 72, 73} & set(heard.tolist())  # lines 71 to 73 of every file are rows 71 to 73
    for options, expected in (
        ((), fusion.estimate(deployed.sent)),
        (("--lag", 0), fusion.estimate(deployed.sent)),
        (("--lag", 5), fusion.smooth(deployed.sent, lag=5)),
        (("--lag", 500), fusion.smooth(deployed.sent)),
    ):
        table = deployed.fuse(*options)
        assert [int(row["row"]) for row in table] == heard.tolist()
        found = np.array([float(row["u"]) for row in table])
        np.testing.assert_allclose(found, expected.public[heard - 1, 0], rtol=1e-9)
        deviations = np.array([float(row["deviation of u"]) for row in table])
        np.testing.assert_allclose(deviations, expected.deviation[heard - 1, 0], rtol=1e-9)


def test_the_summary_counts_what_was_missed(deployed: Deployed) -> None:
    out = deployed.folder / "estimates.csv"
    deployed.capfd.readouterr()
    assert (
        deployed.run("fuse", deployed.folder / "plan/center.json", *deployed.files, "--out", out, "--json")
        == 0
    )
    summary = json.loads(deployed.capfd.readouterr().out)
    for agent, z in deployed.sent.items():
        assert summary["missed"][agent] == np.sum(np.isposinf(z[:, 0]))
        assert summary["received"][agent] == np.sum(np.isfinite(z[:, 0]))


def test_what_does_not_go_together(deployed: Deployed, tmp_path: Path) -> None:
    timed = tmp_path / "timed.csv"
    agent = deployed.network.agents[0]
    count = deployed.plan.sent[agent]
    plan = json.loads((tmp_path / "plan/plan.json").read_text())["plan"][:8]
    numbers = ",".join(["0.0"] * count)
    header = ",".join(f"z{k + 1}" for k in range(count))
    timed.write_text(f"time,plan,agent,{header}\n2026-01-01T00:00:00,{plan},{agent},{numbers}\n")
    assert deployed.run("fuse", tmp_path / "plan/center.json", f"{agent}={timed}") == 2
    assert "which times do not count" in deployed.capfd.readouterr().err
    timed.write_text(
        f"row,plan,agent,{header}\n1,{plan},{agent},{numbers}\n9000000,{plan},{agent},{numbers}\n"
    )
    assert deployed.run("fuse", tmp_path / "plan/center.json", f"{agent}={timed}") == 2
    assert "from 1" in deployed.capfd.readouterr().err
    timed.write_text(f"row,plan,agent,{header}\n1,{plan},{agent},{','.join(['inf'] * count)}\n")
    assert deployed.run("fuse", tmp_path / "plan/center.json", f"{agent}={timed}") == 1
    assert "missing or infinite" in deployed.capfd.readouterr().err
    vn.design(deployed.network.one_row).save(tmp_path / "rows")
    out = tmp_path / f"{agent}.sent.csv"
    assert deployed.run("fuse", tmp_path / "rows/center.json", f"{agent}={out}", "--lag", 3) == 2
    deployed.capfd.readouterr()
    assert deployed.run("fuse", tmp_path / "plan/center.json", f"{agent}={out}", "--gate", "2") == 2
    says(deployed.capfd.readouterr().err, "gate", "expected a false-alarm rate")


def test_messages_that_contradict_the_rows_before_are_left_out_and_named(deployed: Deployed) -> None:
    """In row 60, after rows that nobody sent, so that places among rows and among estimates differ."""
    agent, row = deployed.network.agents[0], 60
    path = deployed.folder / f"{agent}.sent.csv"
    lines = path.read_text().splitlines(keepends=True)
    place = next(
        (k for k, line in enumerate(lines) if line.startswith(f"{row},") and "missed" not in line), 0
    )
    if not place:
        lines = [line for line in lines if not line.startswith(f"{row},")]
        place = next(k for k, line in enumerate(lines[1:], 1) if int(line.split(",")[0]) > row)
        lines.insert(place, f"{row},{lines[1].split(',', 1)[1]}")
    fields = lines[place].strip().split(",")
    fields[3:] = [str(1e4)] * len(fields[3:])
    path.write_text("".join([*lines[:place], ",".join(fields) + "\n", *lines[place + 1 :]]))
    honest = {**deployed.sent, agent: deployed.sent[agent].copy()}
    honest[agent][row - 1] = np.nan
    for lag in (0, 4):
        deployed.capfd.readouterr()
        table = {int(each["row"]): each for each in deployed.fuse("--lag", lag)}
        assert [number for number, each in table.items() if each["contradicting"]] == [row]
        assert table[row]["contradicting"] == agent
        assert f"row {row}: {agent} is" in deployed.capfd.readouterr().err
        expected = vn.Fusion(deployed.plan).smooth(honest, lag=lag).public[:, 0]
        found = np.array([float(each["u"]) for each in table.values()])
        np.testing.assert_allclose(found, expected[np.array(list(table)) - 1], rtol=1e-8)
    kept = {int(each["row"]): each for each in deployed.fuse("--keep")}
    assert kept[row]["contradicting"] == agent
    assert abs(float(kept[row]["u"])) > 10 * abs(float(table[row]["u"]))


def test_rows_that_nobody_read_are_not_rows_of_one_agent_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Everybody tells rows 1 and 60 and misses those between: all row numbers agree."""
    network = random_stream(11)
    vn.design(network).save(tmp_path / "plan")
    _, readings = simulated(network, 2, np.random.default_rng(11))
    files = []
    for agent, y in readings.items():
        source, out = tmp_path / f"{agent}.csv", tmp_path / f"{agent}.sent.csv"
        lines = [f"{row},{','.join(map(repr, y[k].tolist()))}\n" for k, row in enumerate((1, 60))]
        source.write_text("row,p,q\n" + "".join(lines))
        options = ["--in", source, "--out", out]
        assert cli.run(["sanitize", *map(str, [tmp_path / f"plan/{agent}.json", *options])]) in (0, 1)
        assert len(out.read_text().splitlines()) == 61
        files.append(f"{agent}={out}")
    capfd.readouterr()
    assert cli.run(["fuse", str(tmp_path / "plan/center.json"), *files]) == 0
    assert "alone" not in capfd.readouterr().err


def test_design_says_that_it_replaces_a_plan_and_takes_percentages(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random_stream(11).save("stream.json")
    replaced = []
    for part in ("50%", "0.5", "0.9999999"):
        command = ["design", "stream.json", "--out", "plan", "--json", "--gap-privacy", part]
        assert cli.run(command) == 0
        replaced.append(json.loads(capfd.readouterr().out)["replaced"])
    assert replaced == [False, False, True]
    assert cli.run(["design", "stream.json", "--gap-privacy", "much"]) == 2
    assert "--gap-privacy" in capfd.readouterr().err


def test_times_number_the_rows_of_a_plan_with_a_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same log by times and by rows: the same numbers, and the same estimates. Agents begin when they like."""
    network = random_stream(11)
    vn.design(network, step="15min").save(tmp_path / "plan")
    rng = np.random.default_rng(5)
    start, step = datetime(2026, 3, 1, 10), timedelta(minutes=15)
    epoch = (start - datetime(1970, 1, 1)) // step + 1
    sent: dict[str, dict[str, list[list[str]]]] = {"time": {}, "row": {}}
    for (agent, y), begins in zip(simulated(network, 50, rng)[1].items(), (0, 4, 0), strict=True):
        kept = [k for k in range(begins, 50) if k not in (20, 21)]
        late = [timedelta(seconds=int(rng.integers(0, 900))) for _ in range(50)]
        told = {"time": [start + k * step + late[k] for k in range(50)], "row": range(2, 52)}
        for way in sent:
            source, out = tmp_path / f"{way}-{agent}.csv", tmp_path / f"{way}-{agent}.sent.csv"
            lines = [f"{told[way][k]},{','.join(map(repr, y[k].tolist()))}\n" for k in kept]
            source.write_text(f"{way},p,q\n" + "".join(lines))
            options = ["--in", source, "--out", out, "--seed", 7]
            assert cli.run(list(map(str, ["sanitize", tmp_path / f"plan/{agent}.json", *options]))) == 0
            sent[way][agent] = [line.split(",") for line in out.read_text().splitlines()]
        by_time, by_row = sent["time"][agent], sent["row"][agent]
        assert by_time[0] == by_row[0]
        assert [line[1:] for line in by_time] == [line[1:] for line in by_row]
        assert [int(line[0]) - epoch + 2 for line in by_time[1:]] == [int(line[0]) for line in by_row[1:]]
        assert [line[-1] == "missed" for line in by_time[1:3]] == [True, False]
    found = {}
    for way in sent:
        files = [f"{agent}={tmp_path / f'{way}-{agent}.sent.csv'}" for agent in network.agents]
        capfd.readouterr()
        assert cli.run(["fuse", str(tmp_path / "plan/center.json"), *files]) == 0
        found[way] = [line.split(",") for line in capfd.readouterr().out.splitlines()]
    assert [line[1:] for line in found["time"]] == [line[1:] for line in found["row"]]
    assert [int(line[0]) for line in found["time"][1:]] == list(range(epoch - 1, epoch + 50))
