"""A live agent's store under audit: whole ones pass, whatever is changed is named, and a kept head is continued.

Oracle: the store itself, changed through another connection as somebody with a text editor for SQLite would.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.live_networks import Wired, house_plan, house_readings
from helpers.said import says
from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.cli import run
from veilnet.io.agent_ledger import ReleaseAudit, audit_releases
from veilnet.io.agent_store import begin_agent_store

EPOCHS = 9
HALL = "hall"


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    _, readings = house_readings(made.plan, EPOCHS)
    readings[HALL][3] = np.nan  # told as missed
    made.agents[HALL].take(list(range(1, 6)), readings[HALL][:5])
    made.hand_over(HALL)  # acknowledged: these messages are gone
    made.agents[HALL].take(list(range(6, EPOCHS + 1)), readings[HALL][5:])
    yield made
    made.close()


def copied(wired: Wired, *changes: str) -> Path:
    """A copy of the hall's store, changed."""
    wired.agents[HALL].store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = wired.folder / "copy.sqlite"
    shutil.copy(wired.store_of(HALL), path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for change in changes:
            database.execute(change)
    return path


def test_a_store_is_whole_while_the_agent_runs_and_continues_every_head(wired: Wired) -> None:
    path, store = wired.store_of(HALL), wired.agents[HALL].store
    found = audit_releases(path, HALL)
    assert found.problems == ()
    assert (found.count, found.missed, found.reserved, found.last_row) == (EPOCHS - 1, 1, 0, EPOCHS)
    assert found.head == store.ledger().head
    assert found.left is None
    wired.hand_over(HALL)
    wired.agents[HALL].take([20], house_readings(wired.plan, 1)[1][HALL])
    later = audit_releases(path, HALL, head=found.head, received=EPOCHS)
    assert later.problems == ()
    assert later.count == EPOCHS
    assert audit_releases(path, HALL, received=EPOCHS + 1).problems[0].startswith("the centre received 10")
    with pytest.raises(InvalidPlan, match="the store is of 'hall', not of 'kitchen'"):
        audit_releases(path, "kitchen")
    with pytest.raises(InvalidRequest, match="--head: expected"):
        audit_releases(path, HALL, head="nonsense")


def test_a_run_that_was_ended_in_between_is_remarked_and_told_as_missed(wired: Wired) -> None:
    store = wired.agents[HALL].store
    store.reserve(wired.id[:32], [30, 31])
    found = audit_releases(wired.store_of(HALL), HALL)
    assert (found.problems, found.reserved) == ((), 2)
    assert "2 more reserved" in found.remarks[0]
    assert found.head.startswith(f"{EPOCHS}-")
    wired.start_agent(HALL).recover()
    after = audit_releases(wired.store_of(HALL), HALL, head=found.head)
    assert (after.problems, after.reserved, after.missed, after.count) == ((), 0, 3, EPOCHS - 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["UPDATE releases SET epoch = 2 WHERE sequence = 5"], "epoch 2 was sent twice, in entries 2 and 5"),
        (["UPDATE releases SET epoch = 100 WHERE sequence = 3"], "entry 4 is of epoch 4, after epoch 100"),
        (["UPDATE releases SET epoch = 77 WHERE sequence = 9", "UPDATE about SET epoch = 77"], "entry 9 does not"),
        (["UPDATE releases SET plan = 'other' WHERE sequence = 2"], "entry 2 does not continue the one before"),
        (["UPDATE releases SET state = 'missed' WHERE sequence = 6"], "entry 6 does not continue the one before"),
        (["DELETE FROM releases WHERE sequence = 4"], "entries 4 to 4 are missing: they were cut out"),
        (
            ["DELETE FROM releases WHERE sequence > 7", "DELETE FROM outbox WHERE sequence > 7"],
            "9 sequence numbers were taken, and entries end at 7: its end was cut off",
        ),
        (
            [
                "UPDATE releases SET sequence = -1 WHERE sequence = 2",
                "UPDATE releases SET sequence = 2 WHERE sequence = 3",
                "UPDATE releases SET sequence = 3 WHERE sequence = -1",
            ],
            "the order was changed",
        ),
        (["UPDATE releases SET hash = zeroblob(32) WHERE sequence = 9"], "its head is not that of its last entry"),
        (["UPDATE releases SET digest = NULL WHERE sequence = 3"], "entry 3 does not continue the one before"),
        (["UPDATE releases SET state = 'reserved' WHERE sequence = 3"], "entry 3 was never finished"),
        (["UPDATE outbox SET payload = x'00' WHERE sequence = 8"], "the message of entry 8 in the outbox is not"),
        (["UPDATE about SET budget = 5"], "it has 8 releases, and was begun with a budget of 5"),
        (["UPDATE about SET budget = 500"], "entry 1 does not continue the one before"),
    ],
)  # fmt: skip
def test_what_is_changed_is_named(wired: Wired, changes: list[str], words: str) -> None:
    assert audit_releases(copied(wired), HALL).problems == ()
    found = audit_releases(copied(wired, *changes), HALL)
    assert any(words in problem for problem in found.problems), found.problems


def test_a_store_that_was_set_back_or_made_anew_does_not_continue_the_head(wired: Wired) -> None:
    early = copied(wired).rename(wired.folder / "early.sqlite")
    head = audit_releases(early).head
    wired.agents[HALL].take([20], house_readings(wired.plan, 1)[1][HALL])
    newer = audit_releases(wired.store_of(HALL)).head
    assert audit_releases(early, head=head).problems == ()
    [problem] = audit_releases(early, head=newer).problems
    assert problem == "it was set back: 10 entries at the last audit, now 9"
    begin_agent_store(wired.folder / "anew.sqlite", HALL)
    begun = audit_releases(wired.folder / "anew.sqlite").head
    other = wired.folder / "other.sqlite"
    begin_agent_store(other, HALL)
    says(audit_releases(other, head=begun).problems[0], "rewritten", "begin")
    # another chain of the same length is not this one
    forged = "9-" + "00" * 32
    assert "entry 9" in audit_releases(wired.store_of(HALL), head=forged).problems[0]


def test_a_torn_file_is_a_finding_and_no_traceback(wired: Wired) -> None:
    path = copied(wired)
    whole = path.read_bytes()
    for content in (whole[:6000], whole[:4096] + b"\xff" * (len(whole) - 4096)):
        path.write_bytes(content)
        found = audit_releases(path)
        assert found.problems
        assert any(word in found.problems[0] for word in ("damaged", "torn"))
    path.write_bytes(whole[:100])
    assert audit_releases(path).problems


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM about",
        "UPDATE about SET store = 1000000000000000",
        "UPDATE about SET head = 'text'",
        "UPDATE about SET epoch = 'text'",
        "UPDATE releases SET hash = 'text' WHERE sequence = 2",
        "UPDATE releases SET digest = 10000000000000 WHERE sequence = 2",
        "UPDATE releases SET epoch = 'text' WHERE sequence = 2",
        "UPDATE outbox SET payload = 'text'",
        "DROP TABLE outbox",
    ],
)
def test_cells_that_no_agent_writes_are_a_finding_and_no_traceback(wired: Wired, change: str) -> None:
    [problem] = audit_releases(copied(wired, change)).problems
    says(problem, "damaged")


@pytest.mark.parametrize("head", ["²-00", "9" * 5000 + "-00", "-00", "9-"])
def test_what_is_no_head_is_refused(wired: Wired, head: str) -> None:
    with pytest.raises(InvalidRequest, match="--head: expected what the last audit showed"):
        audit_releases(wired.store_of(HALL), head=head)


def test_the_budget_is_kept_to(tmp_path: Path) -> None:
    begin_agent_store(tmp_path / "hall.sqlite", HALL, 20)
    found = audit_releases(tmp_path / "hall.sqlite")
    assert (found.left, found.problems) == (20, ())


def test_the_verbs_say_so(wired: Wired, capsys: pytest.CaptureFixture[str]) -> None:
    plan, store = wired.folder / "plan", wired.store_of(HALL)
    head = audit_releases(store).head
    options = ["audit", str(plan), "--only", "ledger", "--ledger"]
    assert run([*options, str(store), "--head", head, "--released", str(EPOCHS - 1), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["verdict"] == "ok"
    assert run([*options, str(store), "--json"]) == 0  # and without a head it says what to keep
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["verdict"] == "warn"
    assert "keep its head" in row["why"]
    found = {name: row["figures"][name] for name in ("agent", "releases", "last epoch", "missed")}
    assert found == {"agent": "hall", "releases": 8, "last epoch": 9, "missed": 1}
    assert run([*options, str(store), "--head", "nothing"]) == 2
    capsys.readouterr()
    assert run([*options, str(store), "--released", "50"]) == 1
    capsys.readouterr()
    assert run([*options, str(copied(wired, "UPDATE releases SET epoch = 2 WHERE sequence = 5"))]) == 1
    assert "epoch 2 was sent twice" in capsys.readouterr().out
    assert run(["inspect", str(plan / "hall.json"), "--ledger", str(store), "--head", head]) == 0
    assert f"head {head}" in capsys.readouterr().out
    assert run([*options, str(wired.folder / "estimates.sqlite")]) == 2
    says(capsys.readouterr().err, "expected an agent's store", "found")


@pytest.mark.parametrize("verb", [["live", "status"], ["audit", "--ledger"], ["live", "backup"]])
def test_a_store_of_a_newer_veilnet_is_named(
    wired: Wired, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    newer = copied(wired, "UPDATE kind SET kind = 'veilnet-agent/99'")
    wired.plan.save(wired.folder / "plan")
    options = {
        "status": [str(newer)],
        "backup": [str(newer), str(wired.folder / "backup.sqlite")],
        "--ledger": [str(newer), "--only", "ledger", str(wired.folder / "plan")],
    }[verb[1]]
    assert run([*verb, *options]) == 2
    facts = ("is not copied",) if verb[1] == "backup" else ("newer veilnet", "upgrade", "veilnet-agent/99")
    says(capsys.readouterr().err, newer.name, *facts)
    assert not (wired.folder / "backup.sqlite").exists()


def test_in_python_and_for_streams_too(tmp_path: Path) -> None:
    stream = Wired(tmp_path, house_plan(stream=True))
    try:
        stream.agents[HALL].take([1, 2], house_readings(stream.plan, 2)[1][HALL])
        report = vn.audit(stream.plan, ledger=vn.LedgerCheck(stream.store_of(HALL)), only="ledger")
        assert [row.verdict for row in report.rows] == ["warn"]  # no head was kept
        assert report.rows[0].figures["releases"] == 2
    finally:
        stream.close()
    assert isinstance(audit_releases(tmp_path / "hall.sqlite"), ReleaseAudit)
