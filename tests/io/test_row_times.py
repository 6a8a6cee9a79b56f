"""Rows have a time: what the centre fuses was read at the same moment, or it fuses nothing.

Oracles: a planted truth, whose error must stay at the stated deviation; alignment by brute force.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from helpers.released import forget
from helpers.said import says
from veilnet import cli
from veilnet._core.durations import read_duration
from veilnet._core.missed import MISSED
from veilnet.io import merging
from veilnet.io.merging import MessageFile, aligned
from veilnet.io.message_streams import MessageMark, MessageReader, message_header, message_lines
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.row_keys import Clock, RowKey, as_seconds
from veilnet.io.sources import RowSource

ROWS = 1500
START = datetime(2015, 2, 4, 17, 51)


@pytest.fixture(scope="module")
def network() -> vn.Network:
    """Two rooms that see different mixtures of what is public and private."""
    return vn.Network(
        observe={"left": [[1.0, 0.6], [0.2, 1.0]], "right": [[1.0, -0.7], [0.1, 0.8]]},
        noise=0.3,
        public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.diag([9.0, 1.0])),
        reading_names={"left": ["T1", "W1"], "right": ["T2", "W2"]},
    )


@pytest.fixture(scope="module")
def folder(network, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("times") / "plan"
    vn.design(network).save(target)
    return target


@pytest.fixture(scope="module")
def world(network) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    x = rng.multivariate_normal(np.zeros(2), network.prior.covariance, size=ROWS)
    readings = x @ network.H.T + rng.standard_normal((ROWS, 4)) @ np.linalg.cholesky(network.R.matrix()).T
    return x[:, 0], {"left": readings[:, :2], "right": readings[:, 2:]}


@pytest.fixture
def run(monkeypatch, capfd):
    """The command; gives its exit code, output and complaints."""

    def command(*arguments: object, content: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8", write_through=True))
        capfd.readouterr()
        forget(arguments)
        code = cli.run([str(argument) for argument in arguments])
        return code, written.getvalue().decode(), capfd.readouterr().err

    return command


def write(path: Path, names: list[str], readings: np.ndarray, times=None, column: str = "time") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names if times is None else [column, *names])
        for place, row in enumerate(readings.tolist()):
            writer.writerow(row if times is None else [times[place], *row])
    return path


def read_time(text: str) -> tuple[int, RowKey | None]:
    clock = Clock()
    return clock.read(text), clock.key


def times_of(places, seconds: float = 0.0) -> list[str]:
    return [(START + timedelta(minutes=int(k), seconds=seconds)).isoformat(" ") for k in places]


@pytest.mark.parametrize("told", ["counted", "time", "row"])
def test_lines_missing_from_one_room_do_not_shift_its_others(
    told, folder, network, world, run, tmp_path
) -> None:
    """301 lines were missing from one file: an error of many stated deviations, and exit code 0."""
    truth, readings = world
    kept = {"left": np.arange(ROWS), "right": np.r_[0:400, 701:ROWS]}
    pairs = []
    for agent, places in kept.items():
        mine = {"counted": None, "time": times_of(places), "row": (places + 1).tolist()}[told]
        source = write(
            tmp_path / f"{agent}.csv", list(network.reading_names[agent]), readings[agent][places], mine, told
        )
        out = tmp_path / f"{agent}-sent.csv"
        assert run("sanitize", folder / f"{agent}.json", "--in", source, "--out", out)[0] == 0
        assert out.read_text().startswith(f"{told},plan,agent")
        pairs.append(f"{agent}={out}")
    estimates = tmp_path / "e.csv"
    code, out, err = run("fuse", folder / "center.json", *pairs, "--out", estimates)
    if told == "counted":
        assert code == 2
        says(err, "'left' 1500", "'right' 1199")
        assert not estimates.exists()
        assert run("fuse", folder / "center.json", *pairs)[:2] == (2, "")  # not one line went out
        return
    assert (code, err) == (0, "")
    table = list(csv.DictReader(estimates.read_text().splitlines()))
    assert len(table) == ROWS
    errors = np.array([float(line["u"]) for line in table]) - truth
    stated = np.array([float(line["deviation of u"]) for line in table])
    missing = np.array([line["missing"] for line in table])
    assert list(np.flatnonzero(missing == "right")) == list(range(400, 701))
    assert abs(np.mean((errors / stated) ** 2) - 1) < 5 * np.sqrt(2 / ROWS)
    if told == "time":
        assert table[0]["time"] == "2015-02-04T17:51:00"


def test_counts_are_trusted_where_that_is_asked(folder, network, world, run, tmp_path) -> None:
    _, readings = world
    pairs = []
    for agent, count in (("left", 20), ("right", 19)):
        source = write(tmp_path / f"{agent}.csv", list(network.reading_names[agent]), readings[agent][:count])
        out = tmp_path / f"{agent}-sent.jsonl"
        run("sanitize", folder / f"{agent}.json", "--in", source, "--out", out)
        pairs.append(f"{agent}={out}")
    assert run("fuse", folder / "center.json", *pairs)[0] == 2
    code, out, _ = run("fuse", folder / "center.json", *pairs, "--trust-counts")
    assert code == 0
    assert len(out.splitlines()) == 21


def test_rooms_that_tell_rows_differently_are_not_fused(folder, network, world, run, tmp_path) -> None:
    _, readings = world
    sent = {}
    zoned = [f"{text}+01:00" for text in times_of(range(5))]
    ways = {"counted": None, "time": times_of(range(5)), "zoned": zoned, "row": [1, 2, 3, 4, 5]}
    for (way, told), agent in itertools.product(ways.items(), ("left", "right")):
        column = "row" if way == "row" else "time"
        names = list(network.reading_names[agent])
        source = write(tmp_path / "in.csv", names, readings[agent][:5], told, column)
        sent[way, agent] = tmp_path / f"{way}-{agent}.csv"
        given = ("--in", source, "--out", sent[way, agent], "--again")
        assert run("sanitize", folder / f"{agent}.json", *given)[0] == 0
    assert "2015-02-04T16:51:00Z" in sent["zoned", "left"].read_text()
    for left, right in itertools.product(ways, repeat=2):
        pairs = f"left={sent[left, 'left']}", f"right={sent[right, 'right']}"
        code, _, err = run("fuse", folder / "center.json", *pairs)
        assert code == (0 if left == right else 2)
        assert ("are identified by" in err) == (left != right)


def test_clocks_that_differ_are_aligned_within_a_tolerance(folder, network, world, run, tmp_path) -> None:
    truth, readings = world
    rng = np.random.default_rng(1)
    pairs = []
    for agent in ("left", "right"):
        late = 20.0 if agent == "right" else 0.0
        times = [times_of([k], late + float(rng.uniform(-2, 2)))[0] for k in range(ROWS)]
        source = write(
            tmp_path / "in.csv", list(network.reading_names[agent]), readings[agent], times, "date"
        )
        out = tmp_path / f"{agent}.csv"
        assert (
            run("sanitize", folder / f"{agent}.json", "--in", source, "--out", out, "--time", "date")[0] == 0
        )
        pairs.append(f"{agent}={out}")
    code, _, err = run("fuse", folder / "center.json", *pairs)  # a newcomer does not know of --within
    says(err, "one agent", "times", "--within")
    assert "--within 30s" in err
    code, out, err = run("fuse", folder / "center.json", *pairs, "--within", "29s")
    assert (code, err) == (0, "")
    table = list(csv.DictReader(out.splitlines()))
    assert [line["missing"] for line in table] == [""] * ROWS
    errors = np.array([float(line["u"]) for line in table]) - truth
    stated = float(table[0]["deviation of u"])
    assert abs(np.mean((errors / stated) ** 2) - 1) < 5 * np.sqrt(2 / ROWS)
    assert len(run("fuse", folder / "center.json", *pairs)[1].splitlines()) == 2 * ROWS + 1
    code, _, err = run("fuse", folder / "center.json", *pairs, "--within", "5min")
    assert code == 0
    says(err, "--within", "half")
    code, _, err = run("fuse", folder / "center.json", *pairs, "--within", "soon")
    assert code == 2
    assert "such as 30s" in err


def test_a_tolerance_needs_times(folder, world, run, tmp_path) -> None:
    source = write(tmp_path / "in.csv", ["T1", "W1"], world[1]["left"][:3])
    run("sanitize", folder / "left.json", "--in", source, "--out", tmp_path / "m.csv")
    code, _, err = run("fuse", folder / "center.json", f"left={tmp_path / 'm.csv'}", "--within", "1s")
    assert code == 2
    assert "do not tell their time" in err


def by_brute_force(times: dict[str, list[int]], within: int) -> list[tuple[int, dict[str, int]]]:
    """Rows as the definition says: the earliest message left, and of each other agent its first in reach."""
    left = {agent: list(mine) for agent, mine in times.items()}
    rows = []
    while any(left.values()):
        start = min(mine[0] for mine in left.values() if mine)
        # a further message of an agent that is in the row already ends it
        events = sorted(
            (t, list(left).index(a), a) for a, mine in left.items() for t in mine if t <= start + within
        )
        row: dict[str, int] = {}
        for time, _, agent in events:
            if agent in row:
                break
            row[agent] = time
            left[agent].remove(time)
        rows.append((start, row))
    return rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0, 3, 11]), st.integers(1, 3))
def test_alignment_is_that_of_the_definition_in_any_blocks(seed: int, within: int, agents: int) -> None:
    rng = np.random.default_rng(seed)
    key = RowKey("time", "seconds")
    times = {
        f"a{k}": sorted({int(t) for t in rng.integers(1, 300, rng.integers(0, 60))}) for k in range(agents)
    }
    files = {}
    for agent, mine in times.items():
        mark = MessageMark("01234567", agent, key=key)
        content = message_header("csv", 1, mark)
        content += message_lines("csv", mine, np.array(mine, float).reshape(-1, 1), mark)
        with mock.patch.object(merging, "_LINES_AT_ONCE", 3):  # so that a row is spread over blocks
            files[agent] = MessageFile(RowSource(agent, content), 1, mark=mark, report=_fail)
    found = [
        (int(row), {agent: int(z[place, 0]) for agent, z in messages.items() if np.isfinite(z[place, 0])})
        for rows, messages in aligned(files, within)
        for place, row in enumerate(rows)
    ]
    assert found == by_brute_force(times, within)


def _fail(path: RowSource, line: int, reason: str) -> None:
    raise AssertionError((path, line, reason))


def test_doubled_and_disordered_times_are_not_sent(folder, run) -> None:
    lines = ["T1,W1,time"]
    lines += [f"1.0,2.0,{time}" for time in (10, 20, 20, 15, 30, "noon", "", "1e99", 40.5)]
    content = "".join(f"{line}\n" for line in lines).encode()
    code, out, err = run("sanitize", folder / "left.json", content=content)
    assert code == 1
    assert [line.split(",")[0] for line in out.splitlines()] == ["time", "10", "20", "30", "40.5"]
    says(err, "time 20", "increase")
    says(err, "time 15", "increase")
    says(err, "line 7", "not readable")
    assert "noon" not in out + err
    assert "not milliseconds" in err


def test_messages_out_of_order_in_time_are_wrong_input(folder, run, tmp_path) -> None:
    plan = json.loads((folder / "plan.json").read_text())["plan"][:8]
    size = vn.Fusion.load(folder / "center.json").sent["left"]
    head = ",".join(["time", "plan", "agent", *(f"z{k + 1}" for k in range(size))])
    for times in (("2020-01-01T00:01:00", "2020-01-01T00:00:00"), ("2020-01-01T00:01:00",) * 2):
        told = zip(times, ["1.0", "2.0"], strict=True)  # the very same message twice would count once
        lines = [head, *(",".join([time, plan, "left", *[value] * size]) for time, value in told)]
        (tmp_path / "m.csv").write_text("\n".join(lines) + "\n")
        code, _, err = run("fuse", folder / "center.json", f"left={tmp_path / 'm.csv'}")
        assert code == 2
        says(err, "line 3", "2020-01-01T00:0")
        says(err, "increase", "sort")


def test_a_restart_goes_on_after_the_last_time(folder, network, world, run, tmp_path) -> None:
    readings = world[1]["left"]
    names, out, store = list(network.reading_names["left"]), tmp_path / "m.csv", tmp_path / "store"
    command = ["sanitize", folder / "left.json", "--out", out, "--store", store, "--in"]
    first = write(tmp_path / "a.csv", names, readings[:10], times_of(range(10)))
    later = write(tmp_path / "b.csv", names, readings[5:20], times_of(range(5, 20)))
    assert run(*command, first)[0] == 0
    code, _, err = run(*command, later)  # another file, of which half was sent
    assert code == 0
    assert "time 2015-02-04T18:10:00" in err
    told = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert told == [text.replace(" ", "T") for text in times_of(range(20))]
    counted = write(tmp_path / "c.csv", names, readings[:3])
    before = out.read_bytes()
    code, _, err = run(*command, counted)
    assert code == 2
    assert "times of logs" in err
    assert "counted" in err
    assert out.read_bytes() == before


def test_no_time_of_a_table_without_names(folder, run) -> None:
    code, out, err = run("sanitize", folder / "left.json", "--time", "date", "--no-header", content=b"1,2\n")
    assert (code, out) == (2, "")
    assert "--time" in err
    code, out, err = run("sanitize", folder / "left.json", "--time", "T1", content=b"T1,W1\n1,2\n")
    assert (code, out) == (2, "")
    assert "'T1' is a reading" in err
    code, out, err = run("sanitize", folder / "left.json", "--time", "date", content=b"T1,W1\n1,2\n")
    assert (code, out) == (2, "")
    assert "column 'date'" in err


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)), st.integers(-12 * 60, 12 * 60))
def test_times_survive_being_written(moment: datetime, offset: int) -> None:
    row, key = read_time(moment.isoformat(" "))
    assert key.style == "local"
    assert datetime.fromisoformat(key.text(row)) == moment
    assert read_time(key.text(row)) == (row, key)
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    zoned = f"{moment.isoformat()}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    exact = datetime.fromisoformat(zoned)
    if exact < datetime(1970, 1, 1, tzinfo=UTC):
        with pytest.raises(ValueError, match="before 1970"):
            read_time(zoned)
        return
    row, key = read_time(zoned)
    assert datetime.fromisoformat(key.text(row)) == exact
    assert key.text(row).endswith("Z")


@given(st.decimals(0, 10**10, places=6))
def test_seconds_survive_being_written(seconds) -> None:
    row, key = read_time(str(seconds))
    assert row == int(seconds * 10**6) + 1
    assert read_time(key.text(row)) == (row, key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30s", 30_000_000), ("500 ms", 500_000), ("1.5min", 90_000_000), ("1h", 3_600_000_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert read_duration(text) == expected


@pytest.mark.parametrize("text", ["30", "s", "-3s", "1 week", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30s"):
        read_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "2015-02-04 17:51:00",
        "2015-02-04T17:51:00.25",
        "2015-02-04 17:51:00+02:00",
        "2015-02-04",
        "04.02.2015 17:51",
        "2015/02/04 17:51:00",
        "1423072260.5",
    ],
)
def test_a_time_means_the_same_in_a_table_and_in_a_stream(text) -> None:
    row, _ = read_time(text)
    assert as_seconds([text, text], "time")[0] == pytest.approx((row - 1) / 1e6, abs=1e-6)


@pytest.mark.parametrize("text", ["20150204T1751", "2015-W06-3", "04/02/2015 17:51", "2015-02-30"])
def test_what_is_not_clear_by_itself_is_no_time_of_a_stream(text) -> None:
    with pytest.raises(ValueError, match=r"not readable|day or the month first"):
        Clock().read(text)


def test_a_column_that_looks_like_times_and_is_not_used_is_told_once(folder, run, tmp_path) -> None:
    said = "the column 'Date' looks like a time and was not used: lines are counted; --time Date goes by it"
    row = "{},1.5,2.5\n"
    for header, first, told in (
        ("Date,T1,W1\n", "2015-02-04 17:51:00", 1),
        ("Date,T1,W1\n", "Wednesday", 0),
        ("floor,T1,W1\n", "3", 0),
        ("row,T1,W1,Date\n", "1", 0),
    ):
        second = "2" if first == "1" else "2015-02-04 17:52:00"
        lines = row.format(first) + row.format(second)
        if "row" in header:
            lines = lines.replace("\n", ",2015-02-04 17:51:00\n")
        code, out, err = run("sanitize", folder / "left.json", content=(header + lines).encode())
        assert (code, len(out.splitlines())) == (0, 3)
        assert err.count(said) == told
        assert err.count("looks like a time") == told
    source = tmp_path / "in.csv"
    source.write_text("Date,T1,W1\n" + row.format("2015-02-04 17:51:00"))
    assert run("sanitize", folder / "left.json", "--in", source, "--time", "Date")[2] == ""


def test_a_stream_keeps_to_one_way_of_writing_times() -> None:
    cells = ["04.02.2015 17:51", "05.02.2015 17:51", "2015-02-06 17:51", "1423400000", "13.02.2015 17:51"]
    clock, read = Clock(), []
    for cell in cells:
        with contextlib.suppress(ValueError):
            read.append(clock.read(cell))
    assert [(row - 1) / 1e6 for row in read] == as_seconds([cells[0], cells[1], cells[4]], "time").tolist()
    for first, other in (("2015-02-04 17:51", "2015-02-04 17:52Z"), ("5", "2015-02-04"), ("2015-02-04", "5")):
        clock = Clock()
        clock.read(first)
        with pytest.raises(ValueError, match="another way"):
            clock.read(other)


def test_lines_that_cannot_be_read_take_no_row_where_rows_are_told() -> None:
    lines = b'{"row": 5, "readings": [1]}\n{broken\n{broken\n{"row": 6, "readings": [2]}\n'
    (block,) = ReadingReader(RowSource("rows", lines, "jsonl"), 1).blocks(9)
    assert (block.rows, [row for _, row, _ in block.refused]) == ([5, 6], [None, None])


def test_messages_are_no_readings() -> None:
    source = RowSource("sent", b"row,plan,agent,T\n1,cf6785d0,kitchen,2.5\n")
    with pytest.raises(vn.InvalidReading, match="sanitized already"):
        list(ReadingReader(source, 1, names=["T"]).blocks(9))


@pytest.mark.parametrize("cells", ["missed,1.0", "1.0,inf", "1.0,nan", "1.0,"])
def test_no_part_of_a_message_is_missing(cells: str) -> None:
    mark = MessageMark("cf6785d0", "kitchen")
    lines = f"row,plan,agent,z1,z2\n1,cf6785d0,kitchen,{cells}\n2,cf6785d0,kitchen,missed,missed\n"
    (block,) = MessageReader(RowSource("sent", lines.encode()), 2, mark=mark).blocks(9)
    assert (block.rows, block.numbers) == ([2], [[MISSED, MISSED]])
    assert [(line, row) for line, row, _ in block.refused] == [(2, 1)]


@pytest.mark.parametrize(
    "header", ["row,plan,agent,z1,z2,z3", "row,plan,agent,z1", "plan,agent,z1,z2", "row,plan,z1,z2"]
)
def test_messages_of_another_size_are_another_file(header: str) -> None:
    reader = MessageReader(
        RowSource("sent", f"{header}\n".encode()), 2, mark=MessageMark("cf6785d0", "kitchen")
    )
    with pytest.raises(vn.InvalidReading, match="is it the right file"):
        list(reader.blocks(9))
