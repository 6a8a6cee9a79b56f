"""``veilnet sanitize`` of an agent with a memory: restarts, lost and foreign memories, missed rows.

Oracle: the definition in a plain loop over all rows, whatever happened in between.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import sent_row_by_row, with_memory
from veilnet import cli
from veilnet._core.types import Array
from veilnet.io.sanitizer_files import save_sanitizer

PLAN = "cf6785d0" * 8
STEP = 2.0**-14


class Agent:
    """An agent's folder: its file, readings, and what it sent."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._captured = capsysbinary
        self.sanitizer = with_memory(np.random.default_rng(0), readings=2, order=3, sent=2)
        self.file, self.out, self.state = (
            folder / "kitchen.json",
            folder / "sent.csv",
            folder / "kitchen.state",
        )
        save_sanitizer(self.sanitizer, self.file, PLAN)
        self.readings = np.random.default_rng(1).normal(size=(60, 2))

    def write(self, rows: int | None = None, *, name: str = "readings.csv") -> Path:
        """The first readings as a CSV; what is not a number is left empty."""
        path = self.folder / name
        lines = [
            ",".join("" if np.isnan(v) else repr(v) for v in row) for row in self.readings[:rows].tolist()
        ]
        path.write_text("a,b\n" + "".join(f"{line}\n" for line in lines))
        return path

    def run(self, *options: object, piped: bytes | None = None) -> tuple[int, bytes, str]:
        """(exit code, standard output, standard error) of one run."""
        if piped is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        self._captured.readouterr()
        code = cli.run(["sanitize", *map(str, (self.file, *options))])
        out, err = self._captured.readouterr()
        return code, out, err.decode()

    def append(self, source: Path, *options: object) -> tuple[int, bytes, str]:
        return self.run("--in", source, "--out", self.out, "--append", *options)

    def sent(self) -> tuple[list[int], list[list[str]]]:
        lines = [line.split(",") for line in self.out.read_text().splitlines()[1:]]
        return [int(line[0]) for line in lines], [line[3:] for line in lines]

    def check(self, rows: int) -> None:
        """Every row once, each as the loop has it up to its grid, missed where the reading was."""
        numbers, fields = self.sent()
        assert numbers == list(range(1, rows + 1))
        missed = np.array([field == ["missed", "missed"] for field in fields])
        np.testing.assert_array_equal(missed, np.isnan(self.readings[:rows]).any(axis=1))
        found = np.array([field for field, gone in zip(fields, missed, strict=True) if not gone], dtype=float)
        assert np.max(np.abs(found - sent_row_by_row(self.sanitizer, self.readings[:rows]))) < STEP

    def kept(self) -> dict[str, object]:
        return dict(json.loads(self.state.read_text()))


@pytest.fixture
def agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Agent:
    return Agent(tmp_path, monkeypatch, capsysbinary)


def test_runs_continue_the_same_filter(agent: Agent) -> None:
    assert agent.append(agent.write(20), "--begin") == (0, b"", "")
    agent.check(20)
    assert agent.kept()["row"] == 20
    assert stat.S_IMODE(agent.state.stat().st_mode) == 0o600
    agent.readings[25] = np.nan
    code, _, err = agent.append(agent.write(), "--flush")
    assert code == 1
    assert "row 26 missed: reading 1 is not a number" in err
    agent.check(60)
    assert agent.append(agent.write())[0] == 0  # nothing new
    agent.check(60)
    assert sorted(p.name for p in agent.folder.iterdir()) == [
        "kitchen.json",
        "kitchen.state",
        "readings.csv",
        "sent.csv",
    ]


def test_the_first_start_is_said_and_never_happens_by_accident(agent: Agent) -> None:
    code, _, err = agent.append(agent.write(20))
    assert code == 2
    assert (
        "there is no memory of this agent's stream; nothing was sent. At its very first start, give --begin"
        in err
    )
    assert agent.append(agent.write(20), "--begin")[0] == 0
    code, _, err = agent.append(agent.write(30), "--begin")
    assert code == 2
    assert "leave --begin out to go on" in err
    code, _, err = agent.run("--in", agent.write(30), "--begin")  # the memory is there, whatever the output
    assert code == 2
    assert "is the memory of a stream that has begun" in err
    agent.state.unlink()
    for options in ((), ("--begin",)):
        assert agent.append(agent.write(30), *options)[0] == 2
    agent.check(20)


def test_gaps_in_the_rows_are_missed_rows(agent: Agent) -> None:
    agent.readings[[0, 4, 5, 6]] = np.nan
    lines = [
        f"{k + 1},{','.join(map(repr, row))}"
        for k, row in enumerate(agent.readings[:9].tolist())
        if row[0] == row[0]
    ]
    path = agent.folder / "told.csv"
    path.write_text("row,a,b\n" + "\n".join(lines) + "\n")
    code, _, err = agent.append(path, "--begin")
    assert code == 1
    assert "row 1 missed: no reading" in err
    assert "rows 5 to 7 missed: no reading" in err
    agent.check(9)
    path.write_text("row,a,b\n20000000,1,2\n")
    code, _, err = agent.append(path)
    assert code == 2
    assert "number the rows of the stream one by one" in err
    assert agent.kept()["row"] == 9


@pytest.mark.parametrize("there", [0, 3, 10])
def test_what_a_killed_run_kept_is_sent_as_it_was(agent: Agent, there: int) -> None:
    """The file has some of the rows that the memory has taken in: the others are added, the same numbers."""
    agent.append(agent.write(10), "--begin")
    whole, before = agent.out.read_bytes().splitlines(keepends=True), agent.kept()
    agent.state.unlink()
    agent.out.unlink()
    agent.append(agent.write(0), "--begin")
    # as if killed between keeping the memory and the end of sending
    from veilnet.io.state_files import AgentState, open_state

    numbers = np.array([line.split(b",")[3:] for line in whole[1:]], dtype=float)
    with open_state(agent.state, "kitchen", agent.sanitizer.memory_key, 3) as file:
        file.keep(AgentState(10, np.array(before["memory"]), numbers, PLAN))
    agent.out.write_bytes(b"".join(whole[: 1 + there]) + b"11,cf6785d0"[: 5 * (there % 2)])
    code, _, err = agent.append(agent.write(40))
    assert code == 0
    assert (f"rows {there + 1} to 10 were kept by a run that was ended, and are sent now" in err) == (
        there < 10
    )
    agent.check(40)
    assert agent.out.read_bytes().splitlines(keepends=True)[:11] == whole


def test_a_pipe_is_told_what_may_be_missing(agent: Agent) -> None:
    from veilnet.io.state_files import AgentState, open_state

    agent.readings = np.round(agent.readings, 3)
    told = ["row,a,b", *(f"{k + 1},{y[0]!r},{y[1]!r}" for k, y in enumerate(agent.readings.tolist()))]
    lines = ("\n".join(told) + "\n").encode()
    code, first, _ = agent.run("--begin", piped=b"\n".join(lines.split(b"\n")[:11]) + b"\n")
    assert code == 0
    numbers = np.array([line.split(b",")[3:] for line in first.splitlines()[1:]], dtype=float)
    with open_state(agent.state, "kitchen", agent.sanitizer.memory_key, 3) as file:
        file.keep(AgentState(10, file.state.memory, numbers[6:], PLAN))
    code, again, err = agent.run("--resend", piped=lines)
    assert code == 0
    assert "rows 7 to 10 were kept by a run that was ended, and are sent now" in err
    assert again.splitlines()[1:5] == first.splitlines()[7:]
    agent.out.write_bytes(first + b"".join(again.splitlines(keepends=True)[5:]))
    agent.check(60)
    with open_state(agent.state, "kitchen", agent.sanitizer.memory_key, 3) as file:
        file.keep(AgentState(60, file.state.memory, np.zeros((2, 2)), PLAN))
    code, out, err = agent.run(piped=lines)
    assert len(out.splitlines()) == 1
    assert "rows 59 to 60 were being sent by a run that was ended, and may not have arrived" in err
    code, _, err = agent.run(piped=agent.write().read_bytes())  # rows are not told
    assert code == 2
    assert "nothing tells which readings those are" in err


def test_foreign_damaged_and_older_memories_are_refused(agent: Agent) -> None:
    agent.append(agent.write(10), "--begin")
    old = agent.folder / "old"
    shutil.copy(agent.state, old)
    agent.append(agent.write(30))
    newest, sent = agent.state.read_bytes(), agent.out.read_bytes()

    def refused(words: str, *options: object) -> None:
        code, out, err = agent.append(agent.write(60), *options)
        assert (code, out) == (2, b"")
        assert words in err
        assert agent.out.read_bytes() == sent

    shutil.copy(old, agent.state)
    refused("the memory is that after row 10, but")
    agent.state.write_bytes(newest[: len(newest) // 2])
    refused("It is the agent's memory, which no plan can give back")
    agent.state.write_bytes(newest.replace(b'"row": 30', b'"row": 31'))
    refused("the checksum does not match")
    agent.state.write_bytes(newest.replace(b"veilnet-state/2", b"veilnet-state/3"))
    refused("made by a newer veilnet: upgrade this one")
    agent.state.write_bytes(newest)
    other = agent.sanitizer.replace(offset=agent.sanitizer.offset + 1.0)  # another memory, of the same agent
    save_sanitizer(other, agent.file, "0" * 64)
    code, _, err = agent.run("--in", agent.write(60))
    assert code == 2
    assert "of a plan with which this one cannot go on" in err
    save_sanitizer(agent.sanitizer.replace(agent="cellar"), agent.file, PLAN)
    code, _, err = agent.run("--in", agent.write(60))
    assert code == 2
    assert "expected the memory of 'cellar', found that of 'kitchen'" in err
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    assert agent.append(agent.write(60))[0] == 0
    agent.check(60)


def test_the_ledger_is_completed_from_the_memory_and_bounds_the_rows(agent: Agent) -> None:
    ledger = agent.folder / "ledger"
    agent.readings[3] = np.nan
    code, _, err = agent.append(agent.write(10), "--begin", "--ledger", ledger, "--budget", 12)
    assert code == 1
    assert "the ledger has 9 releases, the last of row 10" in err
    code, _, err = agent.append(agent.write(60), "--ledger", ledger)
    assert code == 1
    assert "budget is used up" in err
    agent.check(13)
    agent.out.unlink()  # another file does not bring the budget back
    code, _, err = agent.append(agent.write(60), "--ledger", ledger)
    assert code == 1
    assert "budget is used up" in err
    assert agent.sent() == ([], [])


def test_an_older_memory_than_the_ledger_is_refused(agent: Agent) -> None:
    ledger = agent.folder / "ledger"
    agent.append(agent.write(10), "--begin", "--ledger", ledger)
    old = agent.state.read_bytes()
    agent.append(agent.write(20), "--ledger", ledger)
    agent.state.write_bytes(old)
    agent.out.unlink()
    code, _, err = agent.append(agent.write(30), "--ledger", ledger)
    assert code == 2
    assert "an older copy of it was put back" in err


def test_two_runs_exclude_each_other(agent: Agent) -> None:
    from veilnet.io.state_files import AgentState, open_state

    agent.append(agent.write(5), "--begin")
    with open_state(agent.state, "kitchen", agent.sanitizer.memory_key, 3) as file:
        for _ in range(2):  # also after the file was replaced
            code, _, err = agent.run("--in", agent.write(10))
            assert code == 2
            assert "another run sanitizes with this memory" in err
            file.keep(AgentState(5, file.state.memory, file.state.sending, PLAN))
    assert agent.append(agent.write(10))[0] == 0
    agent.check(10)


def test_simulations_keep_nothing(agent: Agent) -> None:
    code, _, err = agent.run("--in", agent.write(20), "--out", agent.out, "--seed", 1)
    assert code == 0
    assert "NOT private" in err
    assert not agent.state.exists()
    assert all(line.split(",")[3] == "no" for line in agent.out.read_text().splitlines()[1:])
    code, _, err = agent.run("--in", agent.write(20), "--out", agent.out, "--seed", 1, "--append")
    assert code == 2
    assert "an empty memory would not continue" in err
    code, _, err = agent.run("--in", agent.write(20), "--seed", 1, "--begin")
    assert code == 2
    assert "a simulation begins with an empty memory and keeps none" in err


def test_times_do_not_number_the_rows_of_a_stream(agent: Agent) -> None:
    path = agent.folder / "timed.csv"
    path.write_text("time,a,b\n2026-01-01 00:00:00,1,2\n")
    code, _, err = agent.append(path, "--begin")
    assert code == 2
    assert "Put a column 'row' beside the times: 1 in the first row" in err
    agent.sanitizer = agent.sanitizer.replace(names=("a", "b"))
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    path.write_text(
        "row,time,a,b\n"
        + "".join(f"{k + 1},noon,{y[0]!r},{y[1]!r}\n" for k, y in enumerate(agent.readings.tolist()))
    )
    assert agent.append(path, "--begin")[0] == 0
    agent.check(60)


def test_times_beside_counted_rows_of_a_stream_are_told(agent: Agent) -> None:
    agent.sanitizer = agent.sanitizer.replace(names=("a", "b"))
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    path = agent.folder / "timed.csv"
    path.write_text("date,a,b\n2026-01-01 00:00:00,1,2\n")
    code, _, err = agent.append(path, "--begin")
    assert code == 0
    assert "the column 'date' looks like a time and was not used: lines are counted; number them" in err


def test_options_that_do_not_go_together(agent: Agent) -> None:
    code, _, err = agent.run("--in", agent.write(20), "--out", agent.out, "--begin")
    assert code == 2
    assert "add --append" in err
    code, _, err = agent.append(agent.write(20), "--begin", "--state", agent.out)
    assert code == 2
    assert "is another of the files given" in err
    plain = agent.folder / "plain.json"
    vn.Sanitizer(np.eye(2), grid=STEP, agent="kitchen").save(plain)
    agent.file = plain
    for option in (("--begin",), ("--state", agent.state)):
        code, _, err = agent.run("--in", agent.write(20), *option)
        assert code == 2
        assert "keeps nothing from row to row" in err


def test_a_memory_that_cannot_be_written_sends_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.append(agent.write(5), "--begin")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("veilnet.io.state_files.moved_into_place", full)
        code, out, err = agent.append(agent.write(10))
    assert (code, out) == (2, b"")
    assert "could not be written (No space left on device), so nothing may be sent" in err
    agent.check(5)
    assert agent.append(agent.write(10))[0] == 0
    agent.check(10)


def values_of(lines: bytes) -> Array:
    return np.array([json.loads(line)["values"] for line in lines.splitlines() if b"missed" not in line])


def test_json_lines_say_what_was_missed(agent: Agent) -> None:
    agent.readings[2] = np.nan
    code, out, _ = agent.run("--in", agent.write(5), "--json", "--begin")
    assert code == 1
    missed = {"counted": 3, "plan": "cf6785d0", "agent": "kitchen", "missed": True}
    assert json.loads(out.splitlines()[2]) == missed
    assert np.max(np.abs(values_of(out) - sent_row_by_row(agent.sanitizer, agent.readings[:5]))) < STEP


def test_no_change_of_a_memory_goes_unnoticed(agent: Agent) -> None:
    """Cut anywhere, or with any byte changed: refused in words, and nothing is sent."""
    agent.readings[7] = np.nan
    agent.append(agent.write(10), "--begin")
    whole, sent = agent.state.read_bytes(), agent.out.read_bytes()
    rng = np.random.default_rng(0)
    for turn in range(120):
        changed = bytearray(whole)
        place = int(rng.integers(len(whole)))
        changed[place] ^= int(rng.integers(1, 256))
        agent.state.write_bytes(whole[:place] if turn % 4 == 0 else bytes(changed))
        code, out, err = agent.append(agent.write(60))
        same = json.loads(whole) == _parsed(agent.state.read_bytes())
        assert (code, out) == (2, b"") or same, err
        if same:  # white space between keys, which says nothing
            agent.state.write_bytes(whole)
            agent.out.write_bytes(sent)
        assert agent.out.read_bytes() == sent


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None
