"""One table, one reader: what fit understands, agents, the centre and audits understand alike.

The log is written as a German spreadsheet writes it: semicolons, decimal commas, dates with points, words where a
sensor failed. Oracle: the numbers before they were written.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from helpers.said import says
from veilnet import cli
from veilnet._core.durations import RowStep
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.row_keys import COUNTED, ROW
from veilnet.io.sources import RowSource
from veilnet.io.tables import read_columns

ROWS = 240
START = datetime(2015, 2, 4, 17, 51)
GAPS = {7: "--", 31: "n/a", 90: "ERR", 91: "", 200: "?"}  # row -> what stands in place of T
AGENTS = {"room": ["T", "RH"], "hall": ["T2"]}


def numbers() -> dict[str, np.ndarray]:
    """What a day was like, to three decimals, as it is written."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((ROWS, 2))
    y = x @ np.array([[0.5, 1.0, 0.2], [1.0, -1.0, 0.5]]) + 0.3 * rng.standard_normal((ROWS, 3))
    columns = np.column_stack([x, y + np.array([20.0, 50.0, 19.0])]).round(3)
    return dict(zip(["T_out", "people", "T", "RH", "T2"], columns.T, strict=True))


def written(kind: str, path: Path) -> Path:
    """The log in a file of a kind."""
    table = numbers()
    moments = [START + timedelta(minutes=k) for k in range(ROWS)]
    if kind == "csv.gz":
        columns = {name: [f"{v:.3f}".replace(".", ",") for v in column] for name, column in table.items()}
        columns["T"] = [GAPS.get(k, cell) for k, cell in enumerate(columns["T"])]
        columns = {"Zeit": [f"{moment:%d.%m.%Y %H:%M}" for moment in moments], **columns}
        lines = [";".join(columns), *(";".join(row) for row in zip(*columns.values(), strict=True))]
        file = path / "log.csv.gz"
        file.write_bytes(gzip.compress(("\r\n".join(lines) + "\r\n").encode("utf-8-sig")))
        return file
    cells: dict[str, list[object]] = {name: column.tolist() for name, column in table.items()}
    cells["T"] = [None if k in GAPS else cell for k, cell in enumerate(cells["T"])]
    cells = {"Zeit": list(moments), **cells}
    file = path / f"log.{kind}"
    if kind == "jsonl":
        cells["Zeit"] = [moment.isoformat() for moment in moments]
        rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [list(cells), *zip(*cells.values(), strict=True)]:
            book.active.append(row)
        book.save(file)
    else:
        arrow = pytest.importorskip("pyarrow")
        write = {"parquet": "pyarrow.parquet", "feather": "pyarrow.feather"}[kind]
        module = pytest.importorskip(write)
        (module.write_table if kind == "parquet" else module.write_feather)(arrow.table(cells), file)
    return file


def run(capfd, *arguments: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = cli.run([str(argument) for argument in arguments])
    shown = capfd.readouterr()
    return code, shown.out, shown.err


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan for the network of the log's whole rows."""
    kept = {name: np.delete(column, list(GAPS)) for name, column in numbers().items()}
    made = vn.design(vn.fit(kept, AGENTS, "T_out", "people"), method="noise", privacy=1.0)
    made.save(tmp_path_factory.mktemp("one-reader") / "plan")
    return tmp_path_factory.getbasetemp() / "one-reader0" / "plan"


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", "feather", "xlsx", "jsonl"])
def test_one_log_goes_through_every_command(kind: str, plan: Path, tmp_path: Path, capfd) -> None:
    """fit read the log, and sanitize asked of the same file: is it the right file?"""
    log = written(kind, tmp_path)
    roles = ["--agent", "room=T,RH", "--agent", "hall=T2", "--public", "T_out", "--private", "people"]
    fit = ["fit", log, *roles, "--time", "Zeit", "--rows", "--out", tmp_path / "net.toml"]
    code, _, err = run(capfd, *fit)
    assert (code, f"{len(GAPS)} of {ROWS} rows have missing values" in err) == (2, True)
    code, out, err = run(capfd, *fit, "--missing", "drop")
    assert (code, err) == (0, "")
    says(out, "2015-02-04 17:51", "2015-02-04 21:50", "1 minute")
    assert np.allclose(vn.Network.load(tmp_path / "net.toml").H, vn.Plan.load(plan).network.H, rtol=1e-9)

    table, kept, pairs = numbers(), np.delete(np.arange(ROWS), list(GAPS)), []
    for agent, names in AGENTS.items():
        given = ["sanitize", plan / f"{agent}.json", "--in", log, "--time", "Zeit", "--seed", 3]
        code, _, err = run(capfd, *given, "--out", tmp_path / f"{agent}.csv")
        out = (tmp_path / f"{agent}.csv").read_text()
        messages = list(csv.DictReader(out.splitlines()))
        rows = kept if "T" in names else np.arange(ROWS)
        times = [(START + timedelta(minutes=int(k))).isoformat() for k in rows]
        assert [line["time"] for line in messages] == times
        assert (code, err.count("not sent: ")) == ((1, len(GAPS)) if "T" in names else (0, 0))
        sanitizer = vn.Sanitizer.load(plan / f"{agent}.json")
        values = np.array([[line[f"z{k + 1}"] for k in range(sanitizer.sent)] for line in messages], float)
        readings = np.column_stack([table[name] for name in names])[rows]
        assert np.array_equal(values, sanitizer.sanitize(readings, rng=3))
        packed = tmp_path / f"{agent}.csv.gz"
        packed.write_bytes(gzip.compress(out.encode()))
        pairs.append(f"{agent}={packed}")
    code, out, _ = run(capfd, "fuse", plan / "center.json", *pairs)
    estimates = list(csv.DictReader(out.splitlines()))
    assert (code, len(estimates)) == (0, ROWS)
    assert [k for k, line in enumerate(estimates) if line["missing"] == "room"] == sorted(GAPS)
    errors = np.array([float(line["T_out"]) for line in estimates]) - table["T_out"]
    stated = np.array([float(line["deviation of T_out"]) for line in estimates])
    assert 0.6 < np.mean((errors / stated) ** 2) < 1.5

    code, out, err = run(capfd, "audit", plan, "--data", log, "--quick", "--only", "attackers", "--json")
    assert (code, err) == (0, "")
    assert any("used for the fit" in row["sentence"] for row in json.loads(out)["rows"])  # the very same rows


def random_table(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """A text in a random dialect, and its numbers; NaN where a word says that there is none."""
    delimiter = str(rng.choice([",", ";", "\t"]))
    comma = delimiter != "," and rng.random() < 0.5
    end = str(rng.choice(["\n", "\r\n"]))
    values = np.round(rng.normal(scale=10.0 ** rng.integers(-3, 6), size=(rng.integers(1, 9), 3)), 4)
    values[rng.random(values.shape) < 0.15] = np.nan
    words = ["", "NA", "n/a", "--", "-", "?", "null", "NaN", "ERR", "fault", " "]

    def cell(value: float) -> str:
        text = str(rng.choice(words)) if np.isnan(value) else repr(float(value))
        text = text.replace(".", ",") if comma else text
        text = f" {text} " if rng.random() < 0.1 else text
        return f'"{text}"' if rng.random() < 0.2 else text

    names = ["T", "W, in the hall", 'the "other"']
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerow(names)
    lines = [delimiter.join(map(cell, row)) for row in values.tolist()]
    mark = "\ufeff" if rng.random() < 0.3 else ""
    return mark + text.getvalue() + end.join([*lines, ""]), values


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_whole_and_line_by_line_are_the_same_rows(seed: int) -> None:
    text, values = random_table(np.random.default_rng(seed))
    names = ["T", "W, in the hall", 'the "other"']
    empty = np.array([all(not c.strip(' "\r,;\t') for c in line) for line in text.splitlines()[1:]], bool)
    source = RowSource("table.csv", text.encode())
    whole = read_columns(source, names)
    assert np.array_equal(np.column_stack(list(whole.values())), values[~empty], equal_nan=True)
    reader = ReadingReader(source, 3, names=names)
    blocks = list(reader.blocks(2))
    found = {row: numbers for block in blocks for row, numbers in zip(block.rows, block.numbers, strict=True)}
    assert reader.key == COUNTED
    told = [row - 1 for row in found]
    assert np.array_equal(np.array(list(found.values())).reshape(-1, 3), values[told], equal_nan=True)
    assert empty[np.setdiff1d(np.arange(len(values)), told)].all()  # what is left out is an empty line


def test_words_of_failure_are_texts_among_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("state,T\nfault,1\nok,ERR\nok,3\n--,4\n")
    found = read_columns(path, ["state", "T"])
    assert np.array_equal(found["state"], [0, 1, 1, np.nan], equal_nan=True)
    assert np.array_equal(found["T"], [1, np.nan, 3, 4], equal_nan=True)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_agents_read_texts_as_the_fit_did(kind: str, tmp_path: Path, capfd) -> None:
    """fit took on and off for 1 and 0, and agents refused every line of the same log."""
    rng = np.random.default_rng(5)
    people, outside = rng.standard_normal((2, 200))
    heat = people + 0.5 * rng.standard_normal(200) > 0
    table = {
        "T": outside + 0.3 * people + 0.3 * rng.standard_normal(200),
        "heat": np.where(heat, "on", "off"),
    }
    table |= {"T_out": outside, "people": people}
    with pytest.raises(vn.InvalidNetwork, match="heat:on"):
        vn.fit(table, {"room": ["T", "heat"]}, "T_out", "people")
    with pytest.warns(match="steps of 1"):
        plan = vn.design(vn.fit(table, {"room": ["T", "heat:on"]}, "T_out", "people"))
    plan.save(tmp_path / "plan")
    rows = [{"heat": str(word), "T": float(t)} for t, word in zip(table["T"], table["heat"], strict=True)]
    rows[7]["heat"], rows[9]["heat"] = "--", 1.0
    log = tmp_path / f"log.{kind}"
    lines = [json.dumps(row) for row in rows]
    if kind == "csv":
        lines = ["heat,T", *(f"{row['heat']},{row['T']!r}" for row in rows)]
    log.write_text("".join(f"{line}\n" for line in lines))
    code, out, err = run(
        capfd, "sanitize", tmp_path / "plan" / "room.json", "--in", log, "--seed", 3, "--format", kind
    )
    assert code == 1
    says(err, "row 8", "'heat:on' is missing")
    says(err, "row 10", "'heat:on' is not a text")
    kept = np.delete(np.arange(200), [7, 9])
    sent = (
        [json.loads(line)["values"] for line in out.splitlines()]
        if kind == "jsonl"
        else [[float(cell) for cell in line.split(",")[4:]] for line in out.splitlines()[1:]]
    )
    expected = plan.sanitizers["room"].sanitize(np.column_stack([table["T"], heat])[kept], rng=3)
    assert np.array_equal(sent, expected)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_agents_read_one_value_of_numbers_as_the_fit_did(kind: str, tmp_path: Path) -> None:
    """fit took ``day:2`` for 1 where the day is 2, and agents refused every line of the same log."""
    days = [2, 1, 2.0, None, 3]
    log = tmp_path / f"log.{kind}"
    texts = ["" if day is None else str(day) for day in days]
    rows = [f'{{"day": {json.dumps(day)}, "T": 1.0}}' for day in days]
    log.write_text(
        "".join(f"{line}\n" for line in (rows if kind == "jsonl" else ["day,T", *(f"{t},1" for t in texts)]))
    )
    fitted = read_columns(log, ["day:2"])["day:2"]
    assert np.array_equal(fitted, [1, 0, 1, np.nan, 0], equal_nan=True)
    reader = ReadingReader(RowSource(str(log)), 2, names=["T", "day:2"])
    (block,) = reader.blocks(10)
    assert np.array_equal(block.values(2)[:, 1], fitted, equal_nan=True)
    log.write_text('{"day": "x", "T": 1.0}\n' if kind == "jsonl" else "day,T\nx,1\n")
    (block,) = ReadingReader(RowSource(str(log)), 2, names=["T", "day:2"]).blocks(10)
    says(block.refused[0][2], "'day:2'", "not a number")


def test_a_cell_goes_on_in_the_next_line_only_where_the_table_is_whole() -> None:
    content = b'a,b\n1,"x\ny"\n2,x\n'
    assert read_columns(RowSource("t.csv", content), ["a"])["a"].tolist() == [1.0, 2.0]
    (block,) = ReadingReader(RowSource("t.csv", content), 1, names=["a"]).blocks(9)
    assert (block.rows, [line for line, _, _ in block.refused]) == ([3], [2, 3])


def test_a_last_line_without_an_end_is_read_and_not_sent() -> None:
    source = RowSource("t.csv", b"a\n1\n23")
    assert read_columns(source, ["a"])["a"].tolist() == [1.0, 23.0]
    (block,) = ReadingReader(source, 1, names=["a"]).blocks(9)
    assert (block.rows, [line for line, _, _ in block.refused]) == ([1], [3])
    source = RowSource("t.jsonl", b'{"a": 1, "b": "\\""}\n{"a": 23, "b": "\\""}')
    assert read_columns(source, ["a"])["a"].tolist() == [1.0, 23.0]
    (block,) = ReadingReader(source, 1, names=["a"]).blocks(9)
    assert (block.rows, [line for line, _, _ in block.refused]) == ([1], [2])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.25, 1.0, 60.0, 900.0]))
def test_times_number_the_rows_of_a_stream_from_one_origin(seed: int, step: float) -> None:
    """The epoch of a live agent, whatever the file begins with; of each step the first reading counts."""
    rng = np.random.default_rng(seed)
    micros = np.cumsum(rng.integers(1, round(3e6 * step), 12)) + int(rng.integers(1, 2 * 10**15))
    lines = [f"{datetime(1970, 1, 1) + timedelta(microseconds=int(t))},{k}" for k, t in enumerate(micros)]
    source = RowSource("log.csv", ("time,T\n" + "\n".join(lines) + "\n").encode())
    reader = ReadingReader(source, 1, names=["T"], step=RowStep(step))
    (block,) = reader.blocks(99)
    epochs = [int(t) // round(step * 1e6) + 1 for t in micros]
    assert reader.key == ROW
    assert block.rows == list(dict.fromkeys(epochs))
    assert [numbers for (numbers,) in block.numbers] == [epochs.index(row) for row in block.rows]
