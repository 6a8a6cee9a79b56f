"""The agents' filter: lines in, messages out, nothing of a doubtful row."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.message_streams import GOOD, mark_of, rows_of
from helpers.released import forget
from helpers.said import says
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.sources import LONGEST_LINE, RowSource
from veilnet.io.streams import format_for


def test_csv_goes_through_with_its_row_numbers(folder, plan, pipe) -> None:
    content = f"a,b,c,d\n{GOOD}\n21.0,460.5,5.5,130\n".encode()
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], content)
    assert (code, err) == (0, "")
    lines = list(csv.reader(out.splitlines()))
    assert lines[0] == ["counted", "plan", "agent", "z1", "z2"]
    assert {(line[1], line[2]) for line in lines[1:]} == {(mark_of(folder), "kitchen")}
    kitchen = plan.sanitizers["kitchen"]
    readings = np.array([[20.5, 450, 6.1, 120], [21.0, 460.5, 5.5, 130]])
    exact = (readings - kitchen.offset) @ kitchen.compression.T
    assert [line[0] for line in lines[1:]] == ["1", "2"]
    sent = np.array([line[3:] for line in lines[1:]], dtype=float)
    dither = np.abs(kitchen.compression) @ kitchen.resolution / 2
    assert np.all(np.abs(sent - exact) <= kitchen.grid + dither)
    assert np.array_equal(sent, np.rint(sent / kitchen.grid) * kitchen.grid)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("20.5,nan,6.1,120", "reading 2 is missing"),
        ("20.5,450,inf,120", "reading 3 is infinite"),
        ("20.5,450,6.1", "expected 4 cells, found 3"),
        ("20.5,450,6.1,120,7", "expected 4 cells, found 5"),
        ("20.5,450,,120", "reading 3 is missing"),
        ("20.5,SECRET,6.1,120", "reading 2 is not a number"),
        ("20.5,4_50,6.1,120", "reading 2 is not a number"),
        ("20.5,٤٥٠,6.1,120", "reading 2 is not a number"),
        ("20.5,1e400,6.1,120", "reading 2 is infinite"),
        ('20.5,"450,6.1,120', "not readable as CSV"),
        ("", "the line is empty"),
        ("20.5;450;6.1;120", "expected 4 cells, found 1"),
        ("0x1p3,450,6.1,120", "reading 1 is not a number"),
        ("1" * (LONGEST_LINE + 5), "longer than"),
        ("9" * 5000 + ",450,6.1,120", "reading 1 is infinite"),
    ],
)
def test_nothing_of_a_doubtful_row_leaves(line, reason, folder, pipe) -> None:
    content = f"{GOOD}\n{line}\n{GOOD}\n".encode()
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], content)
    assert code == 1
    assert rows_of(out) == [1, 3]
    assert f"row 2 not sent: {reason}" in err or (reason in err and "row 2 not sent" in err)
    assert "1 of 3 rows" in err
    for value in ("SECRET", "4_50", "1e400", "1e30", "99999"):
        assert value not in err
    flushed = pipe(["sanitize", folder / "kitchen.json", "--flush"], content)
    assert (flushed[0], rows_of(flushed[1]), flushed[2]) == (1, [1, 3], err)


def test_bytes_that_are_no_text_are_refused(folder, pipe) -> None:
    content = GOOD.encode() + b"\n\xff\xfe,1,2,3\n\x00\n" + GOOD.encode() + b"\n"
    code, out, _ = pipe(["sanitize", folder / "kitchen.json"], content)
    assert code == 1
    assert rows_of(out) == [1, 4]


def test_spaces_quotes_returns_and_a_byte_order_mark_are_fine(folder, pipe) -> None:
    content = b'\xef\xbb\xbf 20.5, 450 ,6.1,120\r\n"20.5","450","6.1","120"\r\n' + GOOD.encode() + b"\n"
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], content)
    assert (code, err) == (0, "")
    assert rows_of(out) == [1, 2, 3]


def test_empty_lines_at_the_end_are_no_rows(folder, pipe) -> None:
    assert pipe(["sanitize", folder / "kitchen.json"], f"{GOOD}\n\n \n\n".encode())[0] == 0
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], f"\n\n{GOOD}\n".encode())
    assert (code, rows_of(out)) == (1, [3])
    says(err, "row 1", "empty")
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], b"")
    assert (code, out.count("\n"), out[:7]) == (0, 1, "counted")
    says(err, "standard input", "no readings")


def test_a_first_row_of_gaps_is_not_taken_for_a_header(folder, pipe) -> None:
    for gap in ("ERR,450,6.1,120", "NA,na,1.0,null", "NA,na,n/a,--", "-,1.0,2.0,3.0"):
        code, out, _ = pipe(["sanitize", folder / "kitchen.json"], f"{gap}\n{GOOD}\n".encode())
        assert (code, rows_of(out)) == (1, [2]), gap
    for line in ("ERR,a,b,c", "x,x,x,x", "abc,1.0,2.0,3.0"):  # a header or a bad row?
        code, out, err = pipe(["sanitize", folder / "kitchen.json"], f"{line}\n{GOOD}\n".encode())
        assert (code, out) == (2, ""), line
        says(err, "--header", "--no-header")
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--no-header"], f"a,b,c,d\n{GOOD}\n".encode())
    assert (code, rows_of(out)) == (1, [2])
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--header"], f"1,2,3,4\n{GOOD}\n".encode())
    assert (code, rows_of(out)) == (0, [1])


def test_given_rows_are_kept_and_must_increase(folder, pipe) -> None:
    content = "a,row,b,c,d\n20.5,7,450,6.1,120\n20.5,7,450,6.1,120\n20.5,x,450,6.1,120\n20.5,12,450,6.1,120\n"
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], content.encode())
    assert (code, rows_of(out)) == (1, [7, 12])
    says(err, "row 7", "increase")
    says(err, "line 4", "whole number")


def test_named_columns_are_found_by_name(folder, plan, pipe) -> None:
    agent = folder.parent / "named.json"
    content = b"day,W,RH,CO2,T\n2020,120,6.1,450,20.5\n2021,120,6.1,450,70.5\n"
    code, out, err = pipe(["sanitize", agent, "--seed", 5], content)
    assert (code, rows_of(out)) == (0, [1, 2])
    says(err, "beyond", "limits", ": T")
    both = plan.sanitizers["kitchen"].sanitize([[20.5, 450, 6.1, 120], [60.0, 450, 6.1, 120]], rng=5)
    assert [[float(v) for v in line.split(",")[4:]] for line in out.splitlines()[1:]] == both.tolist()
    expected = plan.sanitizers["kitchen"].sanitize([20.5, 450, 6.1, 120], rng=5)
    code, out, err = pipe(["sanitize", agent], b"T,CO2,RH,P\n20.5,450,6.1,120\n")
    assert code == 2
    assert "column 'W'" in err
    assert "z1" not in out.splitlines()[1:]
    code, out, err = pipe(["sanitize", agent], b"day,T,CO2,RH,W\nnoon,20.5,450,SECRET,120\n")
    assert (code, len(out.splitlines())) == (1, 1)
    says(err, "row 1", "'RH'")
    assert "SECRET" not in err
    jsonl = b'{"W": 120, "RH": 6.1, "CO2": 450, "T": 20.5, "day": "noon"}\n'
    code, out, _ = pipe(["sanitize", agent, "--format", "jsonl", "--seed", "5"], jsonl)
    assert json.loads(out) == {
        "counted": 1, "plan": "", "agent": "kitchen", "private": False, "values": expected.tolist()
    }  # fmt: skip


@pytest.mark.parametrize("header", ["a,b,c", "a,b,c,d,e", "a,a2,b,row"])
def test_a_header_of_another_table_is_wrong_input(header, folder, pipe) -> None:
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], f"{header}\n{GOOD}\n".encode())
    assert code == 2
    assert "is it the right file?" in err
    assert len(out.splitlines()) <= 1


JSON_LINES = [
    ("[20.5, 450, 6.1, 120]", None),
    ("[20.5, 450, 6.1]", "expected 4 numbers, found 3"),
    ("[20.5, 450, 6.1, null]", "expected a JSON list of numbers"),
    ('[20.5, 450, 6.1, "120"]', "expected a JSON list of numbers"),
    ("[20.5, 450, 6.1, true]", "expected a JSON list of numbers"),
    ("[20.5, 450, 6.1, NaN]", "expected a JSON list of numbers"),
    ("[20.5, 450, 6.1, 1e999]", "expected a JSON list of numbers"),
    ("[20.5, 450, 6.1, 120", "expected a JSON list of numbers"),
    ("20.5", "expected a JSON table"),
    ('{"readings": [20.5, 450, 6.1, 120]}', None),
    ('{"readings": [20.5, 450, 6.1, false]}', "reading 4 is not a number"),
    ('{"readings": [20.5, 450, 6.1, 120], "readings": [1, 2, 3, 4]}', "the line is not valid JSON"),
    ('{"readings": [20.5, 450, 6.1, 120], "note": 3}', "there are other keys"),
    ('{"readings": {}}', "expected a list of 4 numbers"),
    ('{"values": [20.5, 450, 6.1, 120]}', 'the key "readings" is missing'),
    ('{"readings": [20.5, 450, 6.1, 1' + "0" * 400 + "]}", "reading 4 is not a number"),
    ("[" * 100_000, "expected a JSON list"),
    ('{"a":' * 100_000, "the line is not valid JSON"),
]


def test_json_lines_go_through_or_do_not(folder, pipe) -> None:
    content = "".join(f"{line}\n" for line, _ in JSON_LINES).encode()
    code, out, err = pipe(["sanitize", folder / "kitchen.json", "--format", "jsonl"], content)
    assert code == 1
    good = [row for row, (_, reason) in enumerate(JSON_LINES, 1) if reason is None]
    assert [json.loads(line)["counted"] for line in out.splitlines()] == good
    for row, (_, reason) in enumerate(JSON_LINES, 1):
        if reason is not None:
            assert f"row {row} not sent: {reason}" in err


def test_json_rows_once_given_stay_given(folder, pipe) -> None:
    lines = [
        '{"row": 5, "readings": [20.5, 450, 6.1, 120]}',
        '{"readings": [20.5, 450, 6.1, 120]}',
        "[20.5, 450, 6.1, 120]",
        '{"row": 5, "readings": [20.5, 450, 6.1, 120]}',
        '{"row": true, "readings": [20.5, 450, 6.1, 120]}',
        '{"row": 9, "readings": [20.5, 450, 6.1, 120]}',
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--format", "jsonl"], content)
    assert code == 1
    assert [json.loads(line)["row"] for line in out.splitlines()] == [5, 9]


def test_a_seed_is_called_what_it_is(folder, pipe) -> None:
    first, second = (
        pipe(["sanitize", folder / "kitchen.json", "--seed", 4], f"{GOOD}\n".encode()) for _ in range(2)
    )
    assert first == second
    assert "NOT private" in first[2]


def test_files_are_read_and_written_and_never_confused(folder, tmp_path, pipe) -> None:
    source = tmp_path / "readings.jsonl"
    source.write_text("[20.5, 450, 6.1, 120]\n" * 5000)
    out = tmp_path / "out.jsonl"
    assert pipe(["sanitize", folder / "kitchen.json", "--in", source, "--out", out])[:2] == (0, "")
    assert [json.loads(line)["counted"] for line in out.read_text().splitlines()] == list(range(1, 5001))
    as_csv = tmp_path / "out.csv"  # each name tells its own format
    assert pipe(["sanitize", folder / "kitchen.json", "--in", source, "--out", as_csv, "--again"])[0] == 0
    assert rows_of(as_csv.read_text()) == list(range(1, 5001))
    code, text, _ = pipe(["sanitize", folder / "kitchen.json", "--json"], f"{GOOD}\n".encode())
    assert (code, json.loads(text)["counted"]) == (0, 1)
    code, _, err = pipe(["sanitize", folder / "kitchen.json", "--in", source, "--out", source])
    assert code == 2
    assert "would replace" in err
    assert source.read_text().count("\n") == 5000
    assert pipe(["sanitize", folder / "kitchen.json", "--in", tmp_path / "none.csv"])[0] == 2
    assert pipe(["sanitize", folder / "nobody.json"])[0] == 2
    assert pipe(["sanitize", folder / "kitchen.json", "--format", "xml"])[0] == 2
    vn.Sanitizer(np.eye(2)).save(tmp_path / "bare.json")
    code, out_text, err = pipe(["sanitize", tmp_path / "bare.json"], b"1,2\n")
    assert (code, out_text) == (2, "")
    assert "no grid" in err


def test_formats_are_told_by_names() -> None:
    assert format_for(None, Path("a.JSONL")) == "jsonl"
    assert format_for(Path("a.csv"), Path("b.jsonl")) == "csv"
    assert format_for(Path("a.dat")) == "csv"
    assert format_for(Path("a.csv"), given="jsonl") == "jsonl"


def test_with_flush_each_row_leaves_at_once_and_memory_stays(folder) -> None:
    """A live pipe: each line is answered before the next is written."""
    command = [sys.executable, "-m", "veilnet", "sanitize", str(folder / "kitchen.json"), "--flush"]
    source = str(Path(vn.__file__).parents[1])
    forget(command)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": source}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for row in range(1, 20):
            process.stdin.write(GOOD.encode() + b"\n")
            process.stdin.flush()
            if row == 1:
                assert process.stdout.readline().startswith(b"counted,plan,agent,z1")
            assert process.stdout.readline().startswith(f"{row},".encode())
        process.stdin.close()
        assert process.wait(timeout=120) == 0


class Endless(io.RawIOBase):
    """A file that goes on without a line end for a while, never held as a whole."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.largest = 0

    def readline(self, limit: int = -1) -> bytes:  # type: ignore[override]
        self.largest = max(self.largest, limit)
        if self.left == 0:
            return b""
        count = min(limit, self.left)
        self.left -= count
        return b"1" * count + (b"\n" if self.left == 0 else b"")


def test_a_line_without_end_is_not_held_in_memory() -> None:
    file = Endless(50 * 2**20)
    blocks = list(ReadingReader(RowSource("endless", file), 1, header=False).blocks(10))  # type: ignore[arg-type]
    assert [len(block.refused) for block in blocks] == [1]
    assert 0 < file.largest < 2 * LONGEST_LINE


def test_blocks_are_as_large_as_asked() -> None:
    content = b"1\n2\nx\n4\n5\n"
    sizes = [
        len(b.rows) + len(b.refused)
        for b in ReadingReader(RowSource("few", content), 1, header=False).blocks(2)
    ]
    assert sizes == [2, 2, 1]
