"""``veilnet sanitize --store`` of an agent with a memory: restarts, lost and foreign stores, missed rows.

Oracle: the definition in a plain loop over all rows, whatever happened in between.
"""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import sent_row_by_row, with_memory
from helpers.said import says
from veilnet import cli
from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array
from veilnet.io.agent_store import AgentStore
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
        self.file, self.out, self.store = (
            folder / "kitchen.json",
            folder / "sent.csv",
            folder / "kitchen.sqlite",
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
        return self.run("--in", source, "--out", self.out, "--store", self.store, *options)

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

    def opened(self) -> AgentStore:
        return AgentStore(self.store, "kitchen")

    def last(self) -> int:
        """The last row that entered the memory."""
        with self.opened() as store:
            assert store.memory(self.sanitizer.memory_key, 3)[0] == store.last_epoch
            return store.last_epoch


@pytest.fixture
def agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Agent:
    return Agent(tmp_path, monkeypatch, capsysbinary)


def test_runs_continue_the_same_filter(agent: Agent) -> None:
    code, out, err = agent.append(agent.write(20))
    assert (code, out) == (0, b"")
    says(err, "20 releases", "row 20", "head 20-")
    agent.check(20)
    assert agent.last() == 20
    assert stat.S_IMODE(agent.store.stat().st_mode) == 0o600
    agent.readings[25] = np.nan
    code, _, err = agent.append(agent.write(), "--flush")
    assert code == 1
    says(err, "row 26", "reading 1", "missing")
    agent.check(60)
    assert agent.append(agent.write())[0] == 0  # nothing new
    agent.check(60)
    assert sorted(p.name for p in agent.folder.iterdir()) == [
        "kitchen.json",
        "kitchen.released",
        "kitchen.sqlite",
        "kitchen.sqlite.lock",
        "readings.csv",
        "sent.csv",
    ]


def test_gaps_in_the_rows_are_missed_rows(agent: Agent) -> None:
    agent.readings[[0, 4, 5, 6]] = np.nan
    lines = [
        f"{k + 1},{','.join(map(repr, row))}"
        for k, row in enumerate(agent.readings[:9].tolist())
        if row[0] == row[0]
    ]
    path = agent.folder / "told.csv"
    path.write_text("row,a,b\n" + "\n".join(lines) + "\n")
    code, _, err = agent.append(path)
    assert code == 0  # of lines that are not there none is faulty
    assert "3 rows" in err  # 5 to 7; row 1 only says where it begins
    agent.check(9)
    path.write_text("row,a,b\n20000000,1,2\n")
    code, _, err = agent.append(path)
    assert code == 2
    says(err, "number the rows")
    assert agent.last() == 9


@pytest.mark.parametrize("there", [0, 3, 10])
def test_what_a_killed_run_kept_is_sent_as_it_was(
    agent: Agent, there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has some of the rows that the memory has taken in: the others are added, the same numbers."""
    agent.append(agent.write(0))
    with monkeypatch.context() as patched:
        patched.setattr(
            AgentStore, "settle", killed_after_sending
        )  # they are in the file, and nobody knows it
        assert agent.append(agent.write(10))[0] == 130
    whole = agent.out.read_bytes().splitlines(keepends=True)
    assert len(whole) == 11
    torn = whole[there + 1][:5] if there < 10 else b""
    agent.out.write_bytes(b"".join(whole[: 1 + there]) + torn)
    code, _, err = agent.append(agent.write(40))
    assert code == 0
    assert "rows 1 to 10" in err
    agent.check(40)
    assert agent.out.read_bytes().splitlines(keepends=True)[:11] == whole


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def killed_after_sending(_: AgentStore, sent: list[tuple[int, int]], **__: object) -> None:
    if sent:
        raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["keep", "reserve"])
def test_what_was_reserved_and_not_kept_is_read_again(
    agent: Agent, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it has left, and the log still has it: no row is lost, and none comes twice."""
    agent.append(agent.write(10))
    with monkeypatch.context() as patched:
        patched.setattr(AgentStore, where, killed)
        assert agent.append(agent.write(30))[0] == 130
    assert agent.append(agent.write(40))[0] == 0
    agent.check(40)
    with agent.opened() as store:
        assert (store.ledger().releases, store.ledger().missed) == (40, 0)


def test_what_a_pipe_may_not_have_got_comes_once_more(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["row,a,b", *(f"{k + 1},{y[0]!r},{y[1]!r}" for k, y in enumerate(agent.readings.tolist()))]
    lines = ("\n".join(told) + "\n").encode()
    with monkeypatch.context() as patched:
        patched.setattr(AgentStore, "settle", killed)
        code, first, _ = agent.run("--store", agent.store, piped=b"\n".join(lines.split(b"\n")[:11]) + b"\n")
    assert (code, len(first.splitlines())) == (130, 11)
    code, again, err = agent.run("--store", agent.store, piped=lines)
    assert code == 0
    assert "rows 1 to 10" in err
    assert again.splitlines()[:11] == first.splitlines()
    agent.out.write_bytes(again)
    agent.check(60)
    code, out, _ = agent.run("--store", agent.store, piped=lines)
    assert (code, len(out.splitlines())) == (0, 1)
    code, _, err = agent.run("--store", agent.store, piped=agent.write().read_bytes())  # rows are not told
    assert code == 2
    says(err, "'row'", "'time'")


def test_foreign_damaged_and_older_stores_are_refused(agent: Agent) -> None:
    agent.append(agent.write(10))
    old = agent.store.read_bytes()
    agent.append(agent.write(30))
    newest, sent = agent.store.read_bytes(), agent.out.read_bytes()

    def refused(words: str, *options: object) -> None:
        code, out, err = agent.append(agent.write(60), *options)
        assert (code, out) == (2, b"")
        assert words in err
        assert agent.out.read_bytes() == sent

    agent.store.write_bytes(old)
    refused("what this store did not write")
    agent.store.write_bytes(newest[: len(newest) // 2])
    refused(str(agent.store))
    for before in (b'{"format": "veilnet-state/2", "plan"', b'{"format":"veilnet-releases/2","agent"'):
        agent.store.write_bytes(before)
        refused("as an earlier veilnet kept it")
    agent.store.write_bytes(newest)
    save_sanitizer(agent.sanitizer.replace(agent="cellar"), agent.file, PLAN)
    code, _, err = agent.append(agent.write(60))
    assert code == 2
    says(err, "'cellar'", "'kitchen'")
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    assert agent.append(agent.write(60))[0] == 0
    agent.check(60)


def test_the_budget_bounds_the_rows(agent: Agent) -> None:
    agent.readings[3] = np.nan
    code, _, err = agent.append(agent.write(10), "--budget", 12)
    assert code == 1
    says(err, "9 releases", "row 10")
    code, _, err = agent.append(agent.write(60))
    assert code == 1
    assert "budget is used up" in err
    agent.check(13)
    agent.out.unlink()  # another file does not bring the budget back
    code, _, err = agent.append(agent.write(60))
    assert code == 1
    assert "budget is used up" in err
    assert agent.sent() == ([], [])


def test_two_runs_exclude_each_other(agent: Agent) -> None:
    agent.append(agent.write(5))
    with agent.opened():
        code, _, err = agent.append(agent.write(10))
        assert code == 2
        says(err, "another run")
    assert agent.append(agent.write(10))[0] == 0
    agent.check(10)


def test_simulations_keep_nothing(agent: Agent) -> None:
    for _ in range(2):
        code, _, err = agent.run("--in", agent.write(20), "--out", agent.out, "--seed", 1)
        assert code == 0
        assert "NOT private" in err
        assert all(line.split(",")[3] == "no" for line in agent.out.read_text().splitlines()[1:])
    assert sorted(p.name for p in agent.folder.iterdir()) == ["kitchen.json", "readings.csv", "sent.csv"]
    code, _, err = agent.append(agent.write(20), "--seed", 1)
    assert code == 2
    assert "--seed" in err


def test_times_do_not_number_the_rows_of_a_stream(agent: Agent) -> None:
    path = agent.folder / "timed.csv"
    path.write_text("time,a,b\n2026-01-01 00:00:00,1,2\n")
    code, _, err = agent.append(path)
    assert code == 2
    assert "column 'row'" in err
    assert "design --step" in err
    agent.sanitizer = agent.sanitizer.replace(names=("a", "b"))
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    path.write_text(
        "row,time,a,b\n"
        + "".join(f"{k + 1},noon,{y[0]!r},{y[1]!r}\n" for k, y in enumerate(agent.readings.tolist()))
    )
    assert agent.append(path)[0] == 0
    agent.check(60)


def test_times_beside_counted_rows_of_a_stream_are_told(agent: Agent) -> None:
    agent.sanitizer = agent.sanitizer.replace(names=("a", "b"))
    save_sanitizer(agent.sanitizer, agent.file, PLAN)
    path = agent.folder / "timed.csv"
    path.write_text("date,a,b\n2026-01-01 00:00:00,1,2\n")
    code, _, err = agent.append(path)
    assert code == 0
    assert "column 'date'" in err


def test_a_plan_that_was_replaced_says_what_to_do(agent: Agent) -> None:
    """Its messages go to a file of their own; the store, its memory and its rows go on."""
    agent.append(agent.write(10))
    sent = agent.out.read_bytes()
    save_sanitizer(agent.sanitizer, agent.file, "0" * 64)
    code, _, err = agent.append(agent.write(30))
    assert code == 2
    for fact in (str(agent.out), "cf6785d0", "00000000", "--out", "was replaced"):
        assert fact in err
    assert agent.out.read_bytes() == sent
    other = agent.folder / "other.csv"
    assert agent.run("--in", agent.write(30), "--out", other, "--store", agent.store)[0] == 0
    later = other.read_bytes().splitlines(keepends=True)[1:]
    agent.out.write_bytes(sent + b"".join(later))
    agent.check(30)


def test_options_that_do_not_go_together(agent: Agent) -> None:
    code, _, err = agent.append(agent.write(20), "--out", agent.store)
    assert code == 2
    assert "choose another name" in err
    plain = agent.folder / "plain.json"
    vn.Sanitizer(np.eye(2), grid=STEP, agent="kitchen").save(plain)
    agent.file = plain
    code, _, err = agent.append(agent.write(20))
    assert code == 2
    assert "--store:" in err


def test_a_store_that_cannot_be_written_sends_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.append(agent.write(5))

    def full(*_: object, **__: object) -> None:
        raise VeilnetError("the store could not be written (database or disk is full)")

    for method in ("reserve", "keep"):
        with monkeypatch.context() as patched:
            patched.setattr(AgentStore, method, full)
            code, out, _ = agent.append(agent.write(10))
        assert (code, out) == (2, b"")
        agent.check(5)
    assert agent.append(agent.write(10))[0] == 0
    agent.check(10)


def values_of(lines: bytes) -> Array:
    return np.array([json.loads(line)["values"] for line in lines.splitlines() if b"missed" not in line])


def test_json_lines_say_what_was_missed(agent: Agent) -> None:
    agent.readings[2] = np.nan
    code, out, _ = agent.run("--in", agent.write(5), "--json")
    assert code == 1
    missed = {"counted": 3, "plan": "cf6785d0", "agent": "kitchen", "missed": True}
    assert json.loads(out.splitlines()[2]) == missed
    assert np.max(np.abs(values_of(out) - sent_row_by_row(agent.sanitizer, agent.readings[:5]))) < STEP
