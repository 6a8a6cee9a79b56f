"""Tables as people have them: packed, with semicolons and decimal commas, texts, row names, Parquet and Excel.

Oracle: the numbers that were written, and pandas where it reads the same file.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilnet as vn
from helpers.said import says
from veilnet.io import sources
from veilnet.io.cells import is_missing
from veilnet.io.tables import column_names, read_columns

TABLE = {"T": [20.5, -3.25, np.nan], "W": [1.0, 2.0, 3.0]}


def same(found: dict[str, np.ndarray], expected: dict[str, list[float]]) -> bool:
    return list(found) == list(expected) and all(
        np.array_equal(found[name], expected[name], equal_nan=True) for name in expected
    )


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "txt.gz", "CSV.GZ"])
def test_packed_tables(tmp_path, ending: str) -> None:
    text = "T,W\n20.5,1\n-3.25,2\n,3\n"
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.lower().endswith("gz") else text.encode())
    assert column_names(path) == ["T", "W"]
    assert same(read_columns(path, ["T", "W"]), TABLE)


def test_an_infinite_number_is_refused_by_its_row(tmp_path) -> None:
    """Rows in memory are counted from 1; in a file they are the lines that an editor shows."""
    path = tmp_path / "a.csv"
    path.write_text("T,day\n1,7\ninf,8\n")
    for table, row in ((path, 3), ({"T": [1.0, np.inf], "day": [7, 8]}, 2), ({"T": [1, float("inf")]}, 2)):
        with pytest.raises(vn.InvalidNetwork) as caught:
            read_columns(table, ["T"])
        says(str(caught.value), "column 'T'", f"row {row}", "inf")
    assert read_columns(path, ["day:7"])["day:7"].tolist() == [1.0, 0.0]


def test_a_torn_packed_table_is_refused(tmp_path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"T,W\n" + b"1,2\n" * 9999)[:-20])
    with pytest.raises(vn.InvalidNetwork, match="not a whole gzip file"):
        read_columns(path, ["T"])
    path.write_bytes(b"T,W\n1,2\n")
    with pytest.raises(vn.InvalidNetwork, match="not a whole gzip file"):
        read_columns(path, ["T"])


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_where_commas_do_not_separate(tmp_path, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "\n".join(delimiter.join(cells) for cells in (["T", "W"], ["20,5", "1"], ["-3,25", "2"], ["", "3"]))
        + "\n"
    )
    notes: list[str] = []
    assert same(read_columns(path, ["T", "W"], notes), TABLE)
    assert notes == ["'T': numbers are written with decimal commas"]
    path.write_text(f"T{delimiter}W\n1.234,5{delimiter}1\n")
    with pytest.raises(vn.InvalidNetwork, match="column 'T'"):
        read_columns(path, ["T", "W"])  # a thousand, or one? nobody can tell


def test_decimal_commas_among_commas_are_refused(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('T,W\n"20,5",1\n')
    with pytest.raises(
        vn.InvalidNetwork, match="a decimal comma; write decimals with a point, or put ; between"
    ):
        read_columns(path, ["T"])


TEXTS = {
    "heating": ["on", "off", None, "on"],
    "weather": ["sun", "rain", "snow", "rain"],
    "T": [1.0, 2.0, 3.0, 4.0],
}


def as_file(tmp_path):
    path = tmp_path / "a.csv"
    lines = [
        ",".join(TEXTS),
        *(",".join("" if c is None else str(c) for c in row) for row in zip(*TEXTS.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["file", "dict", "pandas", "category"])
def test_texts_are_categories_and_said_to_be(tmp_path, kind: str) -> None:
    table = as_file(tmp_path) if kind == "file" else TEXTS if kind == "dict" else pd.DataFrame(TEXTS)
    if kind == "category":
        table = table.astype({"heating": "category", "weather": "category"})
    notes: list[str] = []
    found = read_columns(table, ["heating", "weather:rain", "weather:snow"], notes)
    assert same(
        found, {"heating": [1, 0, np.nan, 1], "weather:rain": [0, 1, 0, 1], "weather:snow": [0, 0, 1, 0]}
    )
    assert notes[0] == "'heating' is a category: 'off' counts as 0, 'on' as 1"
    assert notes[1] == "'weather:rain' is 1 where weather is 'rain' and 0 elsewhere"
    with pytest.raises(vn.InvalidNetwork, match="weather:snow, weather:sun"):
        read_columns(table, ["weather"])
    with pytest.raises(vn.InvalidNetwork, match="has no text 'fog'"):
        read_columns(table, ["weather:fog"])


def test_a_text_among_numbers_is_no_category(tmp_path) -> None:
    path = tmp_path / "a.csv"
    for cells, complaint in (
        (["1", "warm"], "found text; mend that cell"),
        (["warm", "1"], "found a number; mend one"),
    ):
        path.write_text("\n".join(["T", *cells]) + "\n")
        with pytest.raises(vn.InvalidNetwork, match=complaint) as caught:
            read_columns(path, ["T"])
        assert "warm" not in str(caught.value)
    path.write_text("\n".join(["T", *(f"id{k}" for k in range(50))]) + "\n")
    with pytest.raises(vn.InvalidNetwork, match="at most 20 different texts, found 50"):
        read_columns(path, ["T"])


def test_row_names_of_r_are_called_what_they_are(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"T","W"\n"1",20.5,1\n"2",-3.25,2\n"3",NA,3\n')
    with pytest.raises(vn.InvalidNetwork, match=r"as R writes row names.*row.names=FALSE.*pandas.read_csv"):
        read_columns(path, ["T", "W"])
    assert same(read_columns(pd.read_csv(path), ["T", "W"]), TABLE)  # the advice helps
    path.write_text('"row","T","W"\n"1",20.5,1\n"2",-3.25,2\n"3",NA,3\n')
    assert same(read_columns(path, ["T", "W"]), TABLE)


@pytest.mark.parametrize(
    ("ending", "needed"), [("parquet", "pyarrow"), ("feather", "pyarrow"), ("xlsx", "openpyxl")]
)
def test_tables_of_other_programs(tmp_path, ending: str, needed: str) -> None:
    pytest.importorskip(needed)
    path = tmp_path / f"a.{ending}"
    frame = pd.DataFrame(TABLE | {"heating": ["on", "off", "on"]})
    write = {"parquet": frame.to_parquet, "feather": frame.to_feather, "xlsx": frame.to_excel}[ending]
    write(path, **({"index": False} if ending == "xlsx" else {}))
    assert column_names(path) == ["T", "W", "heating"]
    assert same(read_columns(path, ["T", "W", "heating"]), TABLE | {"heating": [1, 0, 1]})
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(vn.InvalidNetwork, match=f"not readable as .{ending}"):
        read_columns(path, ["T"])
    with pytest.raises(FileNotFoundError):
        read_columns(tmp_path / f"none.{ending}", ["T"])


def test_what_is_missing_is_named_with_the_line_that_installs_it(tmp_path, monkeypatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(sources, "import_module", missing)
    for ending, needed in (("parquet", "pyarrow"), ("xlsx", "openpyxl")):
        with pytest.raises(vn.MissingExtra, match=rf'need {needed}: pip install "veilnet\[tables\]"'):
            read_columns(tmp_path / f"a.{ending}", ["T"])


def test_fit_takes_a_category() -> None:
    rng = np.random.default_rng(0)
    heating = rng.random(400) < 0.5
    out = rng.standard_normal(400)
    table = {
        "out": out,
        "heating": np.where(heating, "on", "off"),
        "T": out + 2 * heating + 0.3 * rng.standard_normal(400),
        "W": heating + 0.2 * rng.standard_normal(400),
    }
    made = vn.fit_report(table, {"a": ["T", "W"]}, "out", "heating")
    assert made.network.H[:, 1] == pytest.approx([2.0, 1.0], abs=0.1)
    assert "'heating' is a category: 'off' counts as 0, 'on' as 1." in str(made.report).splitlines()


def test_fit_reads_parquet_with_its_times(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    out, people = rng.standard_normal((2, 300))
    frame = pd.DataFrame(
        {
            "date": pd.date_range("2015-02-04 17:51", periods=300, freq="min"),
            "out": out,
            "people": people,
            "T": out + people + 0.3 * rng.standard_normal(300),
            "W": people + 0.2 * rng.standard_normal(300),
        }
    )
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "log.parquet")
    frame.assign(date=frame["date"].astype(str)).to_csv(tmp_path / "log.csv", index=False)
    made = [
        vn.fit_report(tmp_path / name, {"a": ["T", "W"]}, "out", "people", time="date", stream=False)
        for name in ("log.parquet", "log.csv")
    ]
    assert np.allclose(made[0].network.H, made[1].network.H)
    assert made[0].report.rows == 300


def test_the_page_lists_the_words_for_no_value() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| no value |"))
    everywhere, among_numbers = (set(re.findall(r"`([^` ]+)`", part)) for part in line.split("among numbers"))
    for word in (*everywhere, *among_numbers - {"fit"}):
        assert is_missing(word)
        assert is_missing(word, among_texts=True) == (word in everywhere)
