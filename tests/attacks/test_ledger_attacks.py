"""Ledgers under attack: many writers, full disks, restarts, copies, files made to be misread."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet import cli
from veilnet.auditing import Ledger
from veilnet.auditing.ledger import verify_ledger
from veilnet.io import _sqlite, outbox
from veilnet.io.agent_store import AgentStore
from veilnet.io.released_rows import ReleasedRows
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.template import house
from veilnet.live.agent import LiveAgent
from veilnet.plans.plan import Plan

ROWS = 30


@pytest.fixture(scope="module")
def plan() -> Plan:
    return vn.design(random_network(0, noise="joint", prior="covariance"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A plan of the house and thirty readings of the kitchen, as a file and with their rows."""
    target = tmp_path_factory.mktemp("ledgers")
    network = house()
    vn.design(network).save(target / "plan")
    place = network.blocks.rows(network.position["kitchen"])
    centre = network.offset[place] + network.H[place] @ network.prior.mean
    readings = centre + 0.01 * np.random.default_rng(0).standard_normal((ROWS, len(centre)))
    names = network.reading_names["kitchen"]
    lines = [[*names], *(map(repr, row) for row in readings.tolist())]
    (target / "counted.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    told = (target / "counted.csv").read_text().splitlines()
    rows = ["row", *range(1, ROWS + 1)]
    (target / "told.csv").write_text("".join(f"{r},{line}\n" for r, line in zip(rows, told, strict=True)))
    return target


@pytest.fixture
def run(capfd):
    """Runs the command; gives the exit code, output and complaints."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def messages(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))[1:]


# --- the auditor's ledger


def test_threads_share_one_ledger(plan: Plan, tmp_path: Path) -> None:
    """Threads that shared a ledger wrote lines that did not continue each other, six times of six."""
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(8):
                ledger.record(plan)
                ledger.privacy()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ledger.count == 48
    assert verify_ledger(tmp_path / "l", plan.network, ledger.head, 48) == []


_RECORD = """
import sys, pickle
ledger, plan = pickle.load(open(sys.argv[1], "rb"))
for _ in range(10):
    ledger.record(plan)
"""


def test_processes_share_one_file(plan: Plan, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    (tmp_path / "both").write_bytes(pickle.dumps((ledger, plan)))
    environment = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1])}
    command = [sys.executable, "-c", _RECORD, str(tmp_path / "both")]
    running = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert verify_ledger(tmp_path / "l", plan.network, releases=20) == []
    assert Ledger(tmp_path / "l", plan.network).count == 20


def test_a_full_disk_leaves_the_ledger_as_it_was(plan: Plan, tmp_path: Path, monkeypatch) -> None:
    """And so does another writer that does not let it go."""
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    ledger.record(plan)
    real = _sqlite.connect

    def without_room(path: Path | None, **options: bool) -> sqlite3.Connection:
        database = real(path, **options)
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        return database

    monkeypatch.setattr(_sqlite, "connect", without_room)
    with pytest.raises(vn.VeilnetError, match="full"):
        list(map(ledger.record, [plan] * 60))  # until the page is full
    monkeypatch.undo()
    before, head, count = (tmp_path / "l").read_bytes(), ledger.head, ledger.count
    monkeypatch.setattr(_sqlite, "_PATIENCE", 0.01)
    with closing(sqlite3.connect(tmp_path / "l")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(vn.VeilnetError, match="locked"):
            ledger.record(plan)
    assert (tmp_path / "l").read_bytes() == before
    again = Ledger(tmp_path / "l", plan.network)
    assert (ledger.count, ledger.head) == (again.count, again.head) == (count, head)
    ledger.record(plan)
    assert ledger.verify(head, count + 1) == []


_KILLED = """
import os, pickle, sys
from veilnet.io import _chain
ledger, plan = pickle.load(open(sys.argv[1], "rb"))
real = _chain.Chain.append
def killed(self, entry):
    self._database.execute("PRAGMA cache_size = 0")  # pages reach the file before the commit
    real(self, entry)
    self._database.executemany("UPDATE entries SET hash = ?", [("0" * 64,)])
    os._exit(9)
_chain.Chain.append = killed
ledger.record(plan)
"""


def test_a_writer_that_is_killed_leaves_the_ledger_as_it_was(plan: Plan, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    for _ in range(3):
        ledger.record(plan)
    (tmp_path / "both").write_bytes(pickle.dumps((ledger, plan)))
    environment = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1])}
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "both")]
    assert subprocess.run(command, env=environment, check=False, timeout=120).returncode == 9
    assert (tmp_path / "l-journal").stat().st_size > 0
    again = Ledger(tmp_path / "l", plan.network)
    assert (again.count, again.head) == (3, ledger.head)
    again.record(plan)
    assert again.verify(ledger.head, 4) == []


def test_another_networks_plan_is_not_recorded(plan: Plan, tmp_path: Path) -> None:
    """The parameters' names were compared, and two houses have the same."""
    other = random_network(5, noise="joint", prior="covariance")
    assert other.parameters == plan.network.parameters
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    for ask in (ledger.record, ledger.remaining):
        with pytest.raises(vn.VeilnetError, match="another"):
            ask(vn.design(other))
    assert ledger.count == 0


def test_deep_nesting_is_refused(plan: Plan, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "l", plan.network, -0.99).record(plan)
    for place in (1, 0):
        for text in ("[" * 200_000, '{"a":' * 200_000 + "1" + "}" * 200_000):
            with closing(sqlite3.connect(tmp_path / "l")) as database, database:
                database.execute("UPDATE entries SET entry = ? WHERE place = ?", (text, place))
            assert f"entry {place} " in "; ".join(verify_ledger(tmp_path / "l", plan.network))


def test_copies_are_sound_each_and_the_centres_count_decides(plan: Plan, tmp_path: Path) -> None:
    one = Ledger.create(tmp_path / "one", plan.network, -0.99)
    one.record(plan)
    (tmp_path / "two").write_bytes((tmp_path / "one").read_bytes())
    other = Ledger(tmp_path / "two", plan.network)
    one.record(plan)
    other.record(plan)
    for ledger in (one, other):
        assert ledger.verify(releases=2) == []
        assert "or recorded in a copy" in "; ".join(ledger.verify(releases=3))


# --- the agent's, in its store


def options(folder: Path, tmp_path: Path, source: str = "counted.csv") -> list[object]:
    agent = tmp_path / "kitchen.json"  # what it released is kept beside it
    if not agent.exists():
        agent.write_bytes((folder / "plan/kitchen.json").read_bytes())
    return [
        "sanitize", agent, "--in", folder / source, "--out", tmp_path / "m.csv", "--store", tmp_path / "store",
    ]  # fmt: skip


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def test_a_restart_draws_no_noise_again(folder: Path, tmp_path: Path, run) -> None:
    """A thousand draws recover a reading; a restarted agent began at its first row again."""
    command = options(folder, tmp_path)
    source = folder / "counted.csv"
    part = tmp_path / "part.csv"
    part.write_text("".join(f"{line}\n" for line in source.read_text().splitlines()[:11]))
    command[command.index(source)] = part
    assert run(*command)[0] == 0
    first = (tmp_path / "m.csv").read_text()
    part.write_text(source.read_text())
    for _ in range(3):
        assert run(*command)[0] == 0
    assert (tmp_path / "m.csv").read_text().startswith(first)
    assert [line[0] for line in messages(tmp_path / "m.csv")] == [str(row) for row in range(1, ROWS + 1)]


def test_the_file_or_the_store_alone_are_noticed(folder: Path, tmp_path: Path, run) -> None:
    command = options(folder, tmp_path)
    part = tmp_path / "part.csv"
    part.write_text("".join(f"{line}\n" for line in (folder / "counted.csv").read_text().splitlines()[:11]))
    assert run(*(part if each == folder / "counted.csv" else each for each in command))[0] == 0
    earlier = (tmp_path / "store").read_bytes()
    assert run(*command)[0] == 0
    sent, recorded = (tmp_path / "m.csv").read_bytes(), (tmp_path / "store").read_bytes()
    (tmp_path / "m.csv").unlink()  # moved away: what was sent is not sent again
    code, _, err = run(*command)
    assert (code, messages(tmp_path / "m.csv")) == (0, [])
    (tmp_path / "m.csv").write_bytes(sent)
    (tmp_path / "store").write_bytes(earlier)  # set back
    code, _, err = run(*command)
    assert code == 2
    assert "did not write" in err
    assert (tmp_path / "m.csv").read_bytes() == sent
    (tmp_path / "store").write_bytes(recorded)


def test_an_agents_ledger_is_audited_by_inspect(folder: Path, tmp_path: Path, run) -> None:
    """Planted: a store set back, one that was rewritten, one that lacks releases, one of another agent."""
    path = tmp_path / "store"
    assert run(*options(folder, tmp_path), "--budget", 12)[0] == 1
    ask = ["inspect", folder / "plan/kitchen.json", "--json", "--ledger", path]
    _, out, _ = run(*ask, "--received", 12)
    found = json.loads(out)["ledger"]
    assert (found["count"], found["last_row"], found["left"], found["problems"]) == (12, 12, 0, [])
    head, content = found["head"], path.read_bytes()
    for received, statement, words in (
        (13, "SELECT 1", "1 were released outside this store"),
        (0, "DELETE FROM releases WHERE sequence > 5", "cut off"),
        (0, "UPDATE releases SET epoch = 40 WHERE sequence = 12", "was changed"),
    ):
        change(path, statement)
        code, out, _ = run(*ask, "--head", head, "--received", received)
        assert code == 1
        assert words in "; ".join(json.loads(out)["ledger"]["problems"])
        path.write_bytes(content)
    place = head.partition("-")[0]
    assert "rewritten" in run(*ask, "--head", f"{place}-00ff")[1]
    assert run(*ask, "--head", "nonsense")[0] == 2
    assert run(*ask[:-2], "--head", head)[0] == 2
    assert run("inspect", folder / "plan/hall.json", "--ledger", path)[0] == 2
    path.write_bytes(b'{"format":"veilnet-releases/2","agent":"kitchen"')
    assert "as an earlier veilnet kept it" in run(*ask)[2]


def test_a_store_belongs_to_one_agent(folder: Path, tmp_path: Path, run) -> None:
    command = options(folder, tmp_path)
    assert run(*command)[0] == 0
    (tmp_path / "m.csv").unlink()
    command[1] = folder / "plan/hall.json"
    code, _, err = run(*command, "--no-header")
    assert code == 2
    assert "'hall'" in err
    assert "'kitchen'" in err


def test_new_plans_do_not_release_a_row_again(folder: Path, tmp_path: Path, run) -> None:
    """A ledger refused the next version and advised a new one: after 21, noise of 100 was down to 20."""
    kitchen = vn.Sanitizer.load(folder / "plan/kitchen.json")
    lines = (folder / "told.csv").read_text().splitlines(keepends=True)
    files = []
    for version in range(21):
        save_sanitizer(kitchen, tmp_path / "kitchen.json", f"{version:032x}"[::-1])
        (tmp_path / "in.csv").write_text("".join(lines[: 10 + version]))  # a row more each time
        files.append(tmp_path / f"m{version}.csv")
        code, _, err = run(
            "sanitize", tmp_path / "kitchen.json", "--in", tmp_path / "in.csv", "--out", files[-1],
            "--store", tmp_path / "store",
        )  # fmt: skip
        assert code == 0, err
    rows = [line[0] for file in files for line in messages(file)]
    assert rows == [str(row) for row in range(1, 30)]
    assert {line[1] for line in messages(files[3])} == {f"{3:032x}"[::-1][:8]}


def test_what_another_plan_recorded_is_not_sent_as_this_ones(
    folder: Path, tmp_path: Path, run, monkeypatch
) -> None:
    command = options(folder, tmp_path, "told.csv")
    with monkeypatch.context() as patched:
        patched.setattr(outbox.Sink, "deliver", lambda _: [])  # killed before anything was sent
        assert run(*command)[0] == 0
    own = (tmp_path / "kitchen.json").read_bytes()
    kitchen = vn.Sanitizer.load(folder / "plan/kitchen.json")
    save_sanitizer(kitchen, tmp_path / "kitchen.json", "f" * 32)
    command[command.index(tmp_path / "m.csv")] = tmp_path / "n.csv"
    code, _, err = run(*command)
    assert (code, messages(tmp_path / "n.csv")) == (0, [])
    assert "wait to be sent" in err
    (tmp_path / "kitchen.json").write_bytes(own)
    assert run(*options(folder, tmp_path, "told.csv"))[0] == 0
    assert [line[0] for line in messages(tmp_path / "m.csv")] == [str(row) for row in range(1, ROWS + 1)]


def test_a_budget_ends_it_for_good(folder: Path, tmp_path: Path, run) -> None:
    command = options(folder, tmp_path)
    code, _, err = run(*command, "--budget", 12)
    assert (code, len(messages(tmp_path / "m.csv"))) == (1, 12)
    assert "budget is used up" in err
    for more in ([], ["--budget", 12]):
        assert run(*command, *more)[0] == 1
    assert len(messages(tmp_path / "m.csv")) == 12
    code, _, err = run(*command, "--budget", 13)
    assert code == 2
    assert "keeps its budget" in err


def test_a_pipe_has_to_tell_its_rows(folder: Path, tmp_path: Path) -> None:
    """Counted from 1 again, new readings would be taken for those that were sent."""
    command = [sys.executable, "-m", "veilnet", *map(str, options(folder, tmp_path))]
    place = command.index("--in")
    del command[place : place + 2]
    environment = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1])}

    def piped(name: str) -> subprocess.CompletedProcess[str]:
        content = (folder / name).read_text()
        return subprocess.run(
            command, input=content, capture_output=True, text=True, env=environment, check=False
        )

    refused = piped("counted.csv")
    assert refused.returncode == 2
    assert "column 'row'" in refused.stderr
    assert not (tmp_path / "store").exists()
    assert piped("told.csv").returncode == 0
    assert piped("told.csv").returncode == 0
    assert len(messages(tmp_path / "m.csv")) == ROWS


def test_two_runs_at_once_are_refused(folder: Path, tmp_path: Path, run) -> None:
    command = options(folder, tmp_path)
    assert run(*command)[0] == 0
    with AgentStore(tmp_path / "store", "kitchen"):
        code, _, err = run(*command)
    assert code == 2
    assert "another run" in err


def test_options_that_make_no_sense_together_are_refused(folder: Path, tmp_path: Path, run) -> None:
    start = ["sanitize", folder / "plan/kitchen.json", "--in", folder / "counted.csv"]
    for wrong in (
        ["--budget", 3],
        ["--store", tmp_path / "s", "--seed", 1],
        ["--store", tmp_path / "s", "--out", tmp_path / "s"],
        ["--flush", "--out", tmp_path / "m"],
        *([old, tmp_path / "l"] for old in ("--ledger", "--state")),
        *([old] for old in ("--append", "--resend", "--begin")),
    ):
        code, out, err = run(*start, *wrong)
        assert (code, out) == (2, ""), wrong
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_messages_are_on_the_disk_before_they_are_sent(
    folder: Path, tmp_path: Path, run, monkeypatch
) -> None:
    """The order, row by row: reserved, drawn for, kept, sent, and only then settled."""
    seen: list[str] = []

    def watch(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def watched(*given: object, **named: object) -> object:
            seen.append(name)
            return real(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    watch(AgentStore, "reserve")
    watch(LiveAgent, "_drawn")
    watch(AgentStore, "keep")
    watch(outbox._File, "write")
    watch(AgentStore, "settle")
    assert run(*options(folder, tmp_path), "--flush")[0] == 0
    assert seen[:2] == ["write", "settle"]  # the header
    assert seen[2:] == ["reserve", "_drawn", "keep", "write", "settle"] * ROWS


# --- without a store


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """An agent with noise, as a plan would have it, and a log of its readings."""
    sanitizer = vn.Sanitizer([[1.0]], [[100.0]], grid=2.0**-8, names=["CO2"], agent="kitchen")
    save_sanitizer(sanitizer, tmp_path / "kitchen.json", "0" * 64)
    rng = np.random.default_rng(0)
    lines = [f"{value:.1f}" for value in 500 + 100 * rng.standard_normal(300)]
    (tmp_path / "log.csv").write_text("\n".join(["CO2", *lines]) + "\n")
    return tmp_path


def sanitize(folder: Path, *more: str, log: str = "log.csv", out: str = "out.csv") -> int:
    return cli.run(
        ["sanitize", f"{folder}/kitchen.json", "--in", f"{folder}/{log}", "--out", f"{folder}/{out}", *more]
    )


def test_the_same_log_is_not_released_twice(noisy: Path, capsys) -> None:
    """The attack: 300 runs on one log, exit 0 each, and the mean of their messages is every reading."""
    assert sanitize(noisy) == 0
    first = (noisy / "out.csv").read_bytes()
    readings = np.loadtxt(noisy / "log.csv", skiprows=1)
    assert np.std(np.loadtxt(io.BytesIO(first), delimiter=",", skiprows=1, usecols=3) - readings) > 8
    for out in ("out.csv", "other.csv"):
        assert sanitize(noisy, out=out) == 2
        assert "released before" in capsys.readouterr().err
    assert (noisy / "out.csv").read_bytes() == first
    assert not (noisy / "other.csv").exists()
    assert sanitize(noisy, "--again") == 0, "whoever knows that nothing has left says so"
    assert (noisy / "out.csv").read_bytes() != first
    assert (noisy / "kitchen.released").stat().st_mode & 0o777 == 0o600
    assert sanitize(noisy, "--seed", "1") == 0, "a simulation releases nothing"


def test_a_log_that_grew_was_cut_or_is_a_part_is_known_again(noisy: Path) -> None:
    header, *lines = (noisy / "log.csv").read_text().splitlines()
    more = [f"{value:.1f}" for value in np.random.default_rng(1).uniform(400, 600, 300)]
    (noisy / "begun.csv").write_text("\n".join([header, *lines[:200]]) + "\n")
    assert sanitize(noisy, log="begun.csv") == 0
    for name, kept in (
        ("grown", lines), ("cut", lines[:150]), ("rolled", lines[60:]), ("among others", [*more, *lines]),
    ):  # fmt: skip
        (noisy / f"{name}.csv").write_text("\n".join([header, *kept]) + "\n")
        assert sanitize(noisy, log=f"{name}.csv", out="other.csv") == 2, name
    (noisy / "later.csv").write_text("\n".join([header, *more]) + "\n")
    assert sanitize(noisy, log="later.csv", out="later-out.csv") == 0


def test_a_quiet_night_is_not_taken_for_the_one_before(noisy: Path) -> None:
    """Long runs of the same few values come again; days that differ a little are other days."""
    night = ["430.0"] * 40 + ["431.0"] * 40
    for day, value in enumerate(("500.0", "510.0")):
        (noisy / f"{day}.csv").write_text("\n".join(["CO2", *night, value]) + "\n")
        assert sanitize(noisy, log=f"{day}.csv", out=f"{day}-out.csv") == 0
    assert sanitize(noisy, log="1.csv", out="1-out.csv") == 2, "the whole of it is the whole of it"


def test_a_run_that_is_killed_has_written_down_what_it_sent(noisy: Path, monkeypatch) -> None:
    """Rows are noted before they are in a file of a store, which alone can go on then."""
    store = ("--store", str(noisy / "store"))
    with monkeypatch.context() as patched:
        patched.setattr(outbox.Sink, "deliver", _killed_with_messages)
        assert sanitize(noisy, *store) == 130
    assert sanitize(noisy, out="other.csv") == 2
    assert sanitize(noisy, *store) == 0
    assert np.loadtxt(noisy / "out.csv", delimiter=",", skiprows=1, usecols=0).tolist() == list(range(1, 301))


def _killed_with_messages(sink: outbox.Sink) -> list[int]:
    if sink.waiting_lines():
        raise KeyboardInterrupt
    return []


def test_a_run_in_one_go_that_is_killed_has_released_nothing(noisy: Path, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            ReleasedRows, "look_at_all", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert sanitize(noisy) == 130
    assert not (noisy / "out.csv").exists()
    assert sanitize(noisy) == 0


def test_rows_that_were_sent_one_by_one_are_known_again(noisy: Path) -> None:
    assert sanitize(noisy, "--store", str(noisy / "store"), "--flush") == 0
    assert sanitize(noisy, out="other.csv") == 2
    header, *lines = (noisy / "log.csv").read_text().splitlines()
    (noisy / "rolled.csv").write_text("\n".join([header, *lines[60:]]) + "\n")
    other = ("--store", str(noisy / "other"), "--flush")
    assert sanitize(noisy, *other, log="rolled.csv", out="rolled-out.csv") == 2
    assert len((noisy / "rolled-out.csv").read_text().splitlines()) == 1


def test_a_short_log_is_known_as_a_whole(noisy: Path) -> None:
    header, *lines = (noisy / "log.csv").read_text().splitlines()
    (noisy / "short.csv").write_text("\n".join([header, *lines[:10]]) + "\n")
    assert sanitize(noisy, "--store", str(noisy / "store"), log="short.csv") == 0
    assert sanitize(noisy, log="short.csv", out="other.csv") == 2
    assert sanitize(noisy, "--store", str(noisy / "other"), log="short.csv", out="other.csv") == 2
    assert len((noisy / "other.csv").read_text().splitlines()) == 1  # the names of its columns


def test_what_comes_again_within_a_log_is_no_second_release(noisy: Path) -> None:
    """A signal with a period: other readings, which happen to be the same."""
    header, *lines = (noisy / "log.csv").read_text().splitlines()
    (noisy / "period.csv").write_text("\n".join([header, *lines * 20]) + "\n")
    assert sanitize(noisy, "--store", str(noisy / "store"), log="period.csv") == 0
    assert sanitize(noisy, log="period.csv", out="other.csv") == 2


def test_of_two_runs_at_once_one_releases(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.released"
    readings = np.random.default_rng(0).standard_normal((40, 2))
    both = [ReleasedRows(path, 2, again=False) for _ in range(2)]
    for each in both:
        each.look(range(1, 41), readings)
        each.look_at_all(sent=False)
    both[0].keep()
    with pytest.raises(vn.VeilnetError, match="released before"):
        both[1].keep()


def test_a_line_that_a_full_disk_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.released"
    path.write_bytes(b"veilnet-released/1\n0123")
    for known in (False, True):
        rows = ReleasedRows(path, 1, again=False)
        try:
            rows.look([1], np.array([[1.0]]))
            rows.look_at_all(sent=False)
            rows.keep()
        except vn.VeilnetError:
            assert known
        else:
            assert not known
