"""Small files that become large: refused before they are in memory, not after it is full."""

from __future__ import annotations

import gzip
import resource
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import veilnet as vn
from veilnet.io.sources import _unpacked
from veilnet.io.tables import column_names, read_columns

ROOM = 2**30  # bytes that reading may take beyond what the process has already


@pytest.fixture
def _little_memory() -> Iterator[None]:
    """Whoever goes on to take gigabytes fails at once, instead of filling the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


pytestmark = [
    pytest.mark.usefixtures("_little_memory"),
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does"),
]


def packed(path: Path, part: bytes, count: int, header: bytes = b"") -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(count):
            file.write(part)
    return path


def test_a_packed_table_that_becomes_gigabytes(tmp_path: Path) -> None:
    """Of 4.6 MB became 4.4 GB; here it is less than 1 MB."""
    path = packed(tmp_path / "a.csv.gz", b"0" + b" " * 2**16 + b",0\n", 1200, header=b"T,W\n")
    assert path.stat().st_size < 2**20
    with pytest.raises(vn.InvalidNetwork, match="oversized"):
        read_columns(path, ["T"])


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_table_of_one_endless_line(tmp_path: Path, ending: str) -> None:
    part, count = b"abcdefg," * 2**17, 40
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        path.write_bytes(part * count)
    else:
        packed(path, part, count)
    with pytest.raises(vn.InvalidNetwork, match="longer than"):
        column_names(path)


def test_a_sheet_that_is_almost_empty_and_immense(tmp_path: Path) -> None:
    """Two cells in opposite corners are 17 billion cells to whoever fills in the others."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active["XFD1"], book.active["A1048576"] = "T", 1.0
    book.save(tmp_path / "a.xlsx")
    assert (tmp_path / "a.xlsx").stat().st_size < 10_000
    with pytest.raises(vn.InvalidNetwork, match="oversized"):
        read_columns(tmp_path / "a.xlsx", ["T"])


def test_a_sheet_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"<c><v>0</v></c>" * (5 * 2**20))
    with pytest.raises(vn.InvalidNetwork, match="oversized"):
        column_names(tmp_path / "a.xlsx")


def test_a_parquet_file_of_one_number_repeated(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    # one number, half a billion times: a dictionary of one, and runs of its index
    part = arrow.table(
        {"T": arrow.DictionaryArray.from_arrays(arrow.nulls(2**20, arrow.int8()), arrow.array([1.0]))}
    )
    with parquet.ParquetWriter(tmp_path / "a.parquet", part.schema) as writer:
        for _ in range(300):
            writer.write_table(part, row_group_size=2**20)
    assert (tmp_path / "a.parquet").stat().st_size < 2**20
    with pytest.raises(vn.InvalidNetwork, match="oversized"):
        column_names(tmp_path / "a.parquet")


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_feather_file_of_long_texts_that_repeat(
    tmp_path: Path, compression: str, dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few cells, each of a megabyte that is packed into kilobytes."""
    arrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    texts = arrow.array([f"{k}" + "a" * 2**20 for k in range(16)])
    texts = texts.dictionary_encode() if dictionary else texts
    table = arrow.table({"time": texts, "T": [20.5] * 16})
    feather.write_feather(table, tmp_path / "a.feather", compression=compression)
    assert (tmp_path / "a.feather").stat().st_size < 2**20
    assert read_columns(tmp_path / "a.feather", ["T"])["T"].tolist() == [20.5] * 16
    monkeypatch.setattr("veilnet.io.sources.ARRAY_LIMIT", 2**22)
    with pytest.raises(vn.InvalidNetwork, match="oversized"):
        read_columns(tmp_path / "a.feather", ["T"])
    monkeypatch.setattr("veilnet.io.sources.ARRAY_LIMIT", 2**26)
    read_columns(tmp_path / "a.feather", ["T"])


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_what_a_feather_file_unpacks_to_is_known_to_the_byte(tmp_path: Path, compression: str) -> None:
    arrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    table = arrow.table({"t": [f"{k:04d}" for k in range(5000)], "T": [k % 7 / 2 for k in range(5000)]})
    feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=1024)
    with (tmp_path / "a.feather").open("rb") as file:
        found = _unpacked(arrow, file)
    assert found == pytest.approx(5000 * (4 + 4 + 8), abs=5 * 200)


def test_a_packed_log_of_ordinary_numbers_is_read(tmp_path: Path) -> None:
    """Numbers that repeat as those of a log do stay well below the limit."""
    rows = "".join(
        f"2024-01-01 {k // 60 % 24:02d}:{k % 60:02d},{20 + k % 7 / 10},{40 + k % 3}\n" for k in range(50_000)
    )
    path = packed(tmp_path / "a.csv.gz", b"time,T,W\n" + rows.encode(), 1)
    assert len(read_columns(path, ["T"])["T"]) == 50_000
