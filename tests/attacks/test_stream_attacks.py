"""Streams that once failed open: names that mean something else, headers taken by position, swapped files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.released import forget
from veilnet import cli
from veilnet.io import _sealed, message_streams, outbox, sanitizer_files
from veilnet.io.agent_store import AgentStore, FileEnd, Kept
from veilnet.io.template import house


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("attacked") / "plan"
    vn.design(house()).save(target)
    return target


@pytest.fixture
def pipe(monkeypatch, capfd):
    """Runs the command with bytes on standard input; gives the exit code, output and complaints."""

    def run(arguments: list[object], content: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8", write_through=True))
        capfd.readouterr()
        forget(arguments)
        code = cli.run([str(argument) for argument in arguments])
        return code, written.getvalue().decode(), capfd.readouterr().err

    return run


def names_of(agent: str) -> list[str]:
    return list(house().reading_names[agent])


def readings_of(agent: str, rows: int, seed: int = 0) -> np.ndarray:
    network = house()
    place = network.blocks.rows(network.position[agent])
    centre = network.offset[place] + network.H[place] @ network.prior.mean
    return centre + 0.01 * np.random.default_rng(seed).standard_normal((rows, len(centre)))


def stream_of(agent: str, rows: int = 3, header: str | None = None) -> bytes:
    lines = [",".join(names_of(agent)) if header is None else header]
    lines += [",".join(map(repr, row)) for row in readings_of(agent, rows).tolist()]
    return "".join(f"{line}\n" for line in lines if line).encode()


def sent_rows(text: str) -> int:
    return max(0, len(text.splitlines()) - 1)


# --- names


@pytest.mark.parametrize(
    "name", ["row", "Row", " time ", "plan", "agent", "private", "values", "readings", "z2", "missing"]
)
def test_names_that_streams_use_are_no_names_of_readings(name: str) -> None:
    """A reading called ``row`` was sent in clear, as the number of its row."""
    model = {"noise": 1.0, "public": [[1.0, 0.0]], "private": {"g": [[0.0, 1.0]]}}
    with pytest.raises(vn.InvalidNetwork, match="may not be called"):
        vn.Network({"a": np.eye(2)}, **model, reading_names={"a": ["T", name]})
    with pytest.raises(vn.InvalidNetwork, match="may not be called"):
        vn.Sanitizer(np.eye(2), names=["T", name])


def test_an_agent_file_with_such_a_name_is_refused(tmp_path, pipe) -> None:
    sanitizer = vn.Sanitizer(np.eye(2), 1.0, grid=2.0**-10, names=["T", "x"])
    document = sanitizer_files.to_document(sanitizer, None)
    (tmp_path / "a.json").write_bytes(_sealed.seal(document | {"names": ["T", "row"]}))
    code, out, err = pipe(["sanitize", tmp_path / "a.json"], b"T,row\n21.5,7\n")
    assert (code, out) == (2, "")
    assert "called 'row'" in err


# --- headers


def hostile_headers() -> dict[str, bytes]:
    names = names_of("kitchen")
    line = ",".join(names)
    return {
        "no header": b"",
        "other names": b"a,b,c,d\n",
        "numeric names": b"1,2,3,4\n",
        "a name twice": f"{line},{names[0]}\n".encode(),
        "a name missing": f"{','.join(names[:-1])},other\n".encode(),
        "UTF-16": f"{line}\n".encode("utf-16"),
        "UTF-16, no mark": f"{line}\n".encode("utf-16-le"),
        "Latin-1": f"{line},Wärme\n".encode("latin-1"),
        "an empty line first": f"\n{line}\n".encode(),
        "other case": line.swapcase().encode() + b"\n",
        "a comment first": f"# logger 7\n{line}\n".encode(),
    }


@pytest.mark.parametrize("trouble", list(hostile_headers()))
def test_a_header_without_each_name_once_sends_nothing(trouble: str, folder, pipe) -> None:
    """Such headers were skipped and columns taken by position, or the header itself was sanitized and sent."""
    content = hostile_headers()[trouble] + stream_of("kitchen", header="")
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], content)
    assert (code, sent_rows(out)) == (2, 0)
    assert "expected a header with" in err
    assert "nothing was sent" in err
    out_file = folder.parent / "never.csv"
    pipe(["sanitize", folder / "kitchen.json", "--out", out_file], content)
    assert not out_file.exists()


def test_columns_in_another_order_are_found_and_no_header_must_be_said(folder, pipe) -> None:
    agent = vn.Sanitizer.load(folder / "kitchen.json")
    names, readings = names_of("kitchen"), readings_of("kitchen", 4)
    turned = [",".join(["note", *names[::-1]])]
    turned += [",".join(["7", *map(repr, row[::-1])]) for row in readings.tolist()]
    code, out, _ = pipe(
        ["sanitize", folder / "kitchen.json", "--seed", 1], ("\n".join(turned) + "\n").encode()
    )
    assert code == 0
    found = np.array([line[4:] for line in csv.reader(out.splitlines())][1:], float)
    assert np.array_equal(found, np.asarray(agent.sanitize(readings, rng=1)))
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--no-header"], stream_of("kitchen", header=""))
    assert (code, sent_rows(out)) == (0, 3)


def test_json_that_does_not_name_its_readings_is_refused(folder, pipe) -> None:
    numbers = readings_of("kitchen", 1)[0].tolist()
    others = dict(zip("abcd", numbers, strict=True))
    lines = [json.dumps(numbers), json.dumps({"readings": numbers}), json.dumps(others)]
    content = "".join(f"{line}\n" for line in lines).encode()
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--format", "jsonl"], content)
    assert (code, out) == (1, "")
    named = json.dumps(dict(zip(names_of("kitchen"), numbers, strict=True))) + "\n"
    code, out, _ = pipe(["sanitize", folder / "kitchen.json", "--format", "jsonl"], named.encode())
    assert (code, len(out.splitlines())) == (0, 1)


# --- lines and files of messages


@pytest.fixture(scope="module")
def sent(folder: Path) -> dict[str, Path]:
    found = {}
    for agent in ("kitchen", "hall"):
        source = folder.parent / f"{agent}.csv"
        source.write_bytes(stream_of(agent, rows=5))
        for suffix in ("csv", "jsonl"):
            out = found[f"{agent}.{suffix}"] = folder.parent / f"{agent}.sent.{suffix}"
            arguments = ["sanitize", folder / f"{agent}.json", "--in", source, "--out", out, "--again"]
            assert cli.run([str(argument) for argument in arguments]) == 0
    return found


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_messages_say_whose_they_are(suffix: str, folder, sent, tmp_path, pipe) -> None:
    """Two agents' files given in each other's place were fused."""
    kitchen, hall = sent[f"kitchen.{suffix}"], sent[f"hall.{suffix}"]
    center = folder / "center.json"
    sizes = vn.Fusion.load(center).sent
    assert sizes["hall"] == sizes["kitchen"], "only then could they be taken for each other"
    assert pipe(["fuse", center, f"kitchen={kitchen}", f"hall={hall}"])[0] == 0
    code, out, err = pipe(["fuse", center, f"kitchen={hall}", f"hall={kitchen}"])
    assert (code, sent_rows(out)) == (2, 0)
    assert "the message is one of" in err
    mixed = tmp_path / f"mixed.{suffix}"
    lines = kitchen.read_bytes().splitlines(keepends=True)
    foreign = hall.read_bytes().splitlines(keepends=True)
    mixed.write_bytes(b"".join([*lines[:3], *foreign[3:]]))
    target = tmp_path / "estimates.csv"
    target.write_text("old\n")
    assert pipe(["fuse", center, f"kitchen={mixed}", "--out", target])[0] == 2
    assert target.read_text() == "old\n"


def test_unmarked_and_headerless_messages_are_refused(folder, sent, tmp_path, pipe) -> None:
    rows = list(csv.reader(sent["kitchen.csv"].read_text().splitlines()))
    hostile = {
        "without a header.csv": rows[1:],
        "as they once were.csv": [[line[0], *line[3:]] for line in rows],
        "nobody's.csv": [rows[0], *([line[0], "", "", *line[3:]] for line in rows[1:])],
        "another plan's.csv": [rows[0], *([line[0], "00000000", *line[2:]] for line in rows[1:])],
        "empty.csv": [],
    }
    for name, lines in hostile.items():
        (tmp_path / name).write_text("".join(",".join(line) + "\n" for line in lines))
    values = json.loads(sent["kitchen.jsonl"].read_text().splitlines()[0])
    for key in ("plan", "agent"):
        line = {name: value for name, value in values.items() if name != key}
        (tmp_path / f"without {key}.jsonl").write_text(json.dumps(line) + "\n")
    for path in tmp_path.iterdir():
        code, out, err = pipe(["fuse", folder / "center.json", f"kitchen={path}"])
        assert (code, sent_rows(out)) == (2, 0), path.name
        assert "is it the right file?" in err


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_line_that_was_cut_off_is_no_row(suffix: str, folder, sent, tmp_path, pipe) -> None:
    """A number cut in half is another number: -50.83 became -5."""
    whole = sent[f"kitchen.{suffix}"].read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    for missing in range(1, 12):
        cut.write_bytes(whole[:-missing])
        code, out, err = pipe(["fuse", folder / "center.json", f"kitchen={cut}"])
        assert (code, sent_rows(out)) == (1, 4)
        assert "cut off" in err
    readings = stream_of("kitchen", rows=4)
    for missing in range(1, 12):
        code, out, err = pipe(["sanitize", folder / "kitchen.json"], readings[:-missing])
        assert (code, sent_rows(out)) == (1, 3)
        assert "row 4 not sent: the line has no end" in err


@pytest.mark.usefixtures("sent")
def test_what_a_seed_made_says_so_in_every_row(folder, tmp_path, pipe) -> None:
    source = folder.parent / "kitchen.csv"
    for suffix, says in (("csv", ",no,"), ("jsonl", '"private": false')):
        out = tmp_path / f"simulated.{suffix}"
        assert pipe(["sanitize", folder / "kitchen.json", "--in", source, "--out", out, "--seed", 3])[0] == 0
        lines = out.read_text().splitlines()[suffix == "csv" :]
        assert len(lines) == 5
        assert all(says in line for line in lines)
        code, estimates, err = pipe(["fuse", folder / "center.json", f"kitchen={out}"])
        assert (code, sent_rows(estimates)) == (0, 5)
        assert "5 messages of kitchen were made with --seed" in err


def test_a_missing_row_is_said_to_tell_something(folder, pipe) -> None:
    readings = readings_of("kitchen", 3)
    readings[1, 0] = np.nan
    lines = [",".join(names_of("kitchen")), *(",".join(map(repr, row)) for row in readings.tolist())]
    code, out, err = pipe(["sanitize", folder / "kitchen.json"], ("\n".join(lines) + "\n").encode())
    assert (code, sent_rows(out)) == (1, 2)
    assert "the centre sees that they are missing" in err


# --- adding to files


def _foreign(suffix: str, ours: bytes) -> dict[str, bytes]:
    """Files that are not the kitchen's, most of them without a line end at the end."""
    lines = ours.splitlines(keepends=True)
    header, message = (lines[0], lines[1]) if suffix == "csv" else (b"", lines[0])
    hall, other = message.replace(b"kitchen", b"hall"), message.replace(b"kitchen", b"kitchen2")
    plan = json.loads(message)["plan"] if suffix == "jsonl" else message.decode().split(",")[1]
    return {
        "no line end": b"precious, no newline",
        "lines": b"precious\nlines\nand a tail",
        "whole lines": b"precious\nlines\n",
        "one line and a tail": b"precious\ntail",
        "bytes": bytes(range(256)) * 300,
        "zeros": bytes(5000),
        "a blank line": header + message + b"\n",
        "a longer beginning": (header[:-1] or b'{"row": 1') + b" precious",
        "another agent, torn": header + hall[:-3],
        "another agent": header + hall,
        "an agent with a longer name, torn": header + other[:-3],
        "another plan, torn": header + message.replace(plan.encode(), b"00000000")[:-3],
        "a foreign line at the end": header + message + b"precious\ntail",
        "another first line": b"precious\n" + message + message[:9],
        "no row": header + (b",x" if header else b'{"row": , '),
    }


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("begun", [False, True])
def test_foreign_files_are_refused_and_stay_as_they_are(
    suffix: str, begun: bool, folder, sent, tmp_path, pipe
) -> None:
    """A text without a line end was emptied and given a header; longer ones lost their last line."""
    source, out = folder.parent / "kitchen.csv", tmp_path / f"out.{suffix}"
    command = [
        "sanitize",
        folder / "kitchen.json",
        "--in",
        source,
        "--out",
        out,
        "--store",
        tmp_path / "store",
    ]
    ours = sent[f"kitchen.{suffix}"].read_bytes()
    if begun:
        assert pipe(command)[0] == 0
    for what, content in {**_foreign(suffix, ours), "of another store": ours}.items():
        out.write_bytes(content)
        code, _, err = pipe(command)
        assert (what, code) == (what, 2)
        assert str(out) in err
        assert out.read_bytes() == content, what


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("agent", ["kitchen", 'é "0", [0.0]}'])
def test_our_own_file_is_continued_wherever_it_was_cut_off(suffix, agent, tmp_path) -> None:
    """Killed after any byte: what is there already is not written again, and what is missing is added."""
    mark = message_streams.MessageMark("cf6785d0ab", agent, key=message_streams.ROW)
    values = np.array([[-50.83, 1e-9], [8.0, -3e22], [0.0, 1.5]])
    header = message_streams.message_header(suffix, 2, mark)
    lines = [message_streams.message_lines(suffix, [10 + k], values[k : k + 1], mark) for k in range(3)]
    whole = header + b"".join(lines)
    out, messages = tmp_path / "out", json.dumps(["cf6785d0", agent, suffix, 2])
    for known in (0, 1, 3):  # messages that the store knows to be there
        there = header + b"".join(lines[:known])
        end = FileEnd(len(there), hashlib.sha256(there).digest(), messages)
        for length in range(len(there), len(whole) + 1):
            out.write_bytes(whole[:length])
            with AgentStore(None, agent) as store:
                _kept(store, agent, values)
                store.settle([(1, known)] if known else [], file=end)
                with outbox.added_to(out, store, suffix, 2, mark, says_missed=False, first=b"") as sink:
                    sink.deliver()
                assert out.read_bytes() == whole
                assert store.count_waiting() == 0


def _kept(store: AgentStore, agent: str, values: np.ndarray) -> None:
    reserved = store.reserve("cf6785d0ab", range(10, 10 + len(values)))
    payloads = [
        outbox.Unsealed().message(
            outbox.Message("cf6785d0ab", agent, store.id, each.sequence, each.epoch, values=row.tobytes())
        )
        for each, row in zip(reserved, values, strict=True)
    ]
    kept = [Kept(each, payload, released=True) for each, payload in zip(reserved, payloads, strict=True)]
    store.keep("cf6785d0ab", kept)


def test_a_file_that_is_older_than_the_store_is_refused(folder, tmp_path, pipe) -> None:
    source, out = folder.parent / "kitchen.csv", tmp_path / "out.csv"
    lines = source.read_text().splitlines(keepends=True)
    command = ["sanitize", folder / "kitchen.json", "--out", out, "--store", tmp_path / "store", "--in"]
    (tmp_path / "in.csv").write_text("".join(lines[:3]))
    assert pipe([*command, tmp_path / "in.csv"])[0] == 0
    older = out.read_bytes()
    assert pipe([*command, source])[0] == 0
    newer = out.read_bytes()
    out.write_bytes(older)
    assert pipe([*command, source])[0] == 2
    assert out.read_bytes() == older
    out.write_bytes(newer)
    assert pipe([*command, source])[0] == 0
    assert out.read_bytes() == newer


# --- output that cannot be written, or should not be


def test_outputs_are_looked_at_before_anything_is_computed(folder, tmp_path, pipe) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old\n")
    missing, damaged = tmp_path / "none.csv", tmp_path / "damaged.csv"
    damaged.write_text("nothing,that,helps\n")
    for source in (missing, damaged):
        assert pipe(["sanitize", folder / "kitchen.json", "--in", source, "--out", out])[0] == 2
        assert pipe(["fuse", folder / "center.json", f"kitchen={source}", "--out", out])[0] == 2
    assert out.read_text() == "old\n"
    house().save(tmp_path / "house.toml")
    code, text, err = pipe(["frontier", tmp_path / "house.toml", "--plot", tmp_path / "nowhere/x.svg"])
    assert (code, text) == (2, "")
    assert "there is no folder" in err
    assert pipe(["frontier", tmp_path / "house.toml", "--csv", tmp_path / "nowhere/x.csv"])[0] == 2


def test_another_networks_plan_is_replaced_by_force_only(tmp_path, pipe) -> None:
    first, second = tmp_path / "one.json", tmp_path / "two.json"
    for path, scale in ((first, 1.0), (second, 2.0)):
        vn.Network(
            {"a": [[scale, 0.3]], "b": [[0.2, 1.0]]},
            noise=1.0,
            public=[[1.0, 0.0]],
            private={"g": [[0.0, 1.0]]},
            prior=vn.Prior(covariance=np.eye(2)),
        ).save(path)
    plan = tmp_path / "plan"
    assert pipe(["design", first, "--out", plan])[0] == 0
    assert pipe(["design", first, "--out", plan])[0] == 0  # its own plan, anew
    before = {path.name: path.read_bytes() for path in plan.iterdir()}
    code, text, err = pipe(["design", second, "--out", plan])
    assert (code, text) == (2, "")
    assert "holds the plan of another network" in err
    assert "--force" in err
    assert {path.name: path.read_bytes() for path in plan.iterdir()} == before
    assert pipe(["design", second, "--out", plan, "--force"])[0] == 0
    assert vn.Plan.load(plan).network.H[0, 0] == 2.0
    (tmp_path / "taken").write_text("")
    assert pipe(["design", first, "--out", tmp_path / "taken/plan"])[0] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("verb", ["sanitize", "fuse"])
def test_a_full_disk_is_one_line_not_a_traceback(verb: str, folder, sent) -> None:
    command = [sys.executable, "-m", "veilnet", verb]
    if verb == "sanitize":
        command += [str(folder / "kitchen.json"), "--in", str(folder.parent / "kitchen.csv")]
    else:
        command += [str(folder / "center.json"), f"kitchen={sent['kitchen.csv']}"]
    source = str(Path(vn.__file__).parents[1])
    for option in ([], ["--out", "/dev/full"]):
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                [*command, *option],
                stdout=full if not option else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PYTHONPATH": source, "PATH": ""},
                text=True,
                check=False,
            )
        assert ran.returncode == 2
        assert ran.stderr.count("\n") == 1
        assert "No space left on device" in ran.stderr
    assert Path("/dev/full").is_char_device()
