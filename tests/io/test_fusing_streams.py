"""The centre's filter: messages of many files in, estimates out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.message_streams import GOOD, mark_of, rows_of
from helpers.said import says
from veilnet.auditing.what_if.variants import changed
from veilnet.io.merging import MessageFile, aligned
from veilnet.io.message_streams import MessageMark
from veilnet.io.sources import RowSource
from veilnet.io.template import house


def write_rows(path: Path, rows, values, mark: MessageMark) -> Path:
    lines = ["row,plan,agent,z1"]
    lines += [
        f"{row},{mark.short_plan},{mark.agent},{float(value)!r}"
        for row, value in zip(rows, values, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_files_are_merged_by_row_in_constant_memory(tmp_path) -> None:
    rng = np.random.default_rng(0)
    kept = {name: np.flatnonzero(rng.random(30_000) < share) + 1 for name, share in (("a", 0.9), ("b", 0.1))}
    kept["c"] = np.arange(29_000, 30_001)
    kept["d"] = np.zeros(0, int)
    marks = {name: MessageMark("0123456789", name) for name in kept}
    paths = {
        name: write_rows(tmp_path / f"{name}.csv", rows, rows * 0.5, marks[name])
        for name, rows in kept.items()
    }

    def fail(path: RowSource, line: int, reason: str) -> None:
        raise AssertionError((path, line, reason))

    files = {
        name: MessageFile(RowSource(str(paths[name])), 1, mark=marks[name], report=fail) for name in paths
    }
    seen: list[int] = []
    for rows, messages in aligned(files):
        assert len(rows) < 20_000
        seen += rows.tolist()
        for name, values in messages.items():
            expected = np.where(np.isin(rows, kept[name]), rows * 0.5, np.nan)
            assert np.array_equal(values[:, 0], expected, equal_nan=True)
    assert seen == sorted(set(np.concatenate(list(kept.values())).tolist()))


def arguments_for(target: Path, agents) -> list[str]:
    return [f"{agent}={target / agent}.csv" for agent in agents]


def test_fuse_writes_the_estimates_of_fusion(folder, plan, messages, pipe) -> None:
    target, sent = messages
    out = target / "estimates.csv"
    command = ["fuse", folder / "center.json", *arguments_for(target, sent), "--out", out]
    code, text, err = pipe([*command, "--json"])
    assert (code, err) == (0, "")
    assert json.loads(text) == {
        "rows": 299, "received": {agent: 289 if agent == "hall" else 299 for agent in sent},
        "with_missing_agents": 10, "not_estimable": 0, "bad_lines": 0, "written": str(out),
        "contradicting": {}, "untested": [], "changes": [],
    }  # fmt: skip
    estimate = vn.Fusion(plan).estimate(sent)
    table = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [int(line["row"]) for line in table] == [row for row in range(1, 301) if row != 40]
    for line in table[:60]:
        place = int(line["row"]) - 1
        found = [float(line["mean temperature"]), float(line["heat loss"])]
        assert np.allclose(found, estimate.public[place], rtol=1e-12)
        found = [float(line["deviation of mean temperature"]), float(line["deviation of heat loss"])]
        assert np.allclose(found, estimate.deviation[place], rtol=1e-12)
        assert line["missing"] == ";".join(estimate.missing[place])
    assert pipe([*command])[0] == 0


def test_fuse_leaves_out_what_cannot_be_known(tmp_path, pipe) -> None:
    network = vn.Network(
        observe={"left": [[1.0, 0.0, 1.0]], "right": [[0.0, 2.0, 0.0]], "=odd=": [[1.0, 0.0, 0.0]]},
        noise=1.0,
        public={"u": [[1.0, 0.0, 1.0]], "v, w": [[0.0, 1.0, 0.0]]},
        private={"g": [[1.0, 0.0, 0.0]]},
    )
    vn.design(network).save(tmp_path / "plan")
    left = tmp_path / "left.csv"
    size = vn.Fusion.load(tmp_path / "plan/center.json").sent
    assert size == {"left": 1, "right": 1, "=odd=": 0}
    mark = mark_of(tmp_path / "plan")
    write_rows(left, [1, 2], [3.0, 4.0], MessageMark(mark, "left"))
    odd = tmp_path / "odd.csv"
    odd.write_text(f"row,plan,agent\n1,{mark},=odd=\n2,{mark},=odd=\n")
    center = tmp_path / "plan/center.json"
    code, out, _ = pipe(["fuse", center, f"left={left}", f"=odd=={odd}"])
    assert code == 0
    table = list(csv.DictReader(out.splitlines()))
    assert [line["v, w"] for line in table] == ["", ""]
    assert [line["deviation of v, w"] for line in table] == ["", ""]
    assert [line["missing"] for line in table] == ["right", "right"]
    code, out, _ = pipe(["fuse", center, f"left={left}", "--json"])
    first = json.loads(out.splitlines()[0])
    assert first["public"]["v, w"] is None
    assert first["deviation"]["v, w"] is None
    assert first["public"]["u"] is not None


def test_fuse_reports_lines_that_are_no_messages(folder, messages, tmp_path, pipe) -> None:
    target, _ = messages
    lines = (target / "hall.csv").read_text().splitlines()
    lines[3] = f"3,{mark_of(folder)},hall,abc,1.0"
    lines.append("999,1.0")
    (tmp_path / "hall.csv").write_text("\n".join(lines) + "\n")
    code, out, err = pipe(["fuse", folder / "center.json", f"hall={tmp_path / 'hall.csv'}"])
    assert code == 1
    says(err, "line 4", "'z1'")
    says(err, "expected 5", "found 2")
    assert 3 not in rows_of(out)


def test_what_a_pipe_brings_once_more_counts_once(folder, messages, tmp_path, pipe) -> None:
    """A run that was killed sends its last messages again, after a header: the same ones count once, others never."""
    target, _ = messages
    lines = (target / "hall.csv").read_text().splitlines()
    again = [*lines[:50], lines[0], *lines[30:]]
    fuse = ["fuse", folder / "center.json", f"hall={tmp_path / 'hall.csv'}"]
    whole = pipe(["fuse", folder / "center.json", f"hall={target / 'hall.csv'}"])
    (tmp_path / "hall.csv").write_text("\n".join(again) + "\n")
    assert pipe(fuse) == whole
    place = again.index(lines[0], 1) + 3
    row, *rest = again[place].split(",")
    again[place] = ",".join([row, *rest[:-1], repr(float(rest[-1]) + 1.0)])
    (tmp_path / "hall.csv").write_text("\n".join(again) + "\n")
    code, _, err = pipe(fuse)
    assert code == 2
    assert f"line {place + 1}: row {row} comes after row {lines[49].partition(',')[0]}" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hal={}"], "the plan has no agent 'hal'"),
        (["hall"], "expected agent=file"),
        (["hall="], "expected agent=file"),
        (["hall={}", "hall={}"], "given twice"),
        (["hall=/nowhere/at/all.csv"], "No such file"),
        (["study={}"], "is it the right file"),
    ],
)
def test_fuse_says_what_is_wrong(arguments, complaint, folder, messages, pipe) -> None:
    hall = messages[0] / "hall.csv"
    if complaint == "is it the right file":
        wrong = messages[0] / "wrong.csv"
        wrong.write_text("row,z1,z2,z3,z4\n1,2,3,4,5\n")
        hall = wrong
    code, _, err = pipe(["fuse", folder / "center.json", *(a.format(hall) for a in arguments)])
    assert code == 2
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_rows_out_of_order_are_wrong_input(folder, tmp_path, pipe) -> None:
    origin = f"{mark_of(folder)},hall"
    content = f"row,plan,agent,z1,z2\n2,{origin},1.0,1.0\n1,{origin},1.0,1.0\n"
    (tmp_path / "hall.csv").write_text(content)
    code, _, err = pipe(["fuse", folder / "center.json", f"hall={tmp_path / 'hall.csv'}"])
    assert code == 2
    says(err, "hall.csv", "line 3", "row 1", "row 2")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_messages_of_another_plan_are_not_fused(folder, pipe, tmp_path, suffix) -> None:
    """A plan made anew, with one agent not yet told: its old messages must not become an estimate."""
    other = tmp_path / "other"
    vn.design(changed(house(), reading_names=None, model_error=0.05)).save(other)
    readings, messages = tmp_path / "readings.csv", tmp_path / f"messages.{suffix}"
    readings.write_text(f"{GOOD}\n{GOOD}\n")
    assert pipe(["sanitize", folder / "kitchen.json", "--in", readings, "--out", messages])[0] == 0
    code, estimates, _ = pipe(["fuse", folder / "center.json", f"kitchen={messages}"])
    assert code == 0
    assert len(estimates.splitlines()) == 3
    code, estimates, complaint = pipe(["fuse", other / "center.json", f"kitchen={messages}"])
    assert code in (1, 2)
    assert "another plan" in complaint
    assert len(estimates.splitlines()) <= 1


def test_json_taken_for_csv_is_told_so(folder, pipe) -> None:
    for line in ('{"T": 20.5, "CO2": 450}', "[20.5, 450, 6.1, 120]"):
        code, out, err = pipe(["sanitize", folder / "kitchen.json"], f"{line}\n".encode())
        assert code == 1
        assert out.count("\n") == 1
        assert "give --format jsonl" in err
