"""Who kept last year's messages, as a broker can, must not have them counted again when the centre forgot them.

The seal on such a message is genuine: only the centre's books tell that it has been there.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from veilnet.cli import run
from veilnet.live import centre_store
from veilnet.live.status import read_status

EPOCHS, KEPT = 9, 3


@pytest.fixture(params=[False, True], ids=["rows", "stream"])
def wired(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan(stream=request.param))
    yield made
    made.close()


def told(wired: Wired, first: int, last: int) -> list[tuple[str, bytes]]:
    """What agents send of some epochs, and the centre takes: kept by a broker, too."""
    _, readings = house_readings(wired.plan, last - first + 1, seed=first)
    for agent, own in readings.items():
        wired.agents[agent].take(range(first, last + 1), own)
    kept = [(TOPICS.messages(agent), payload) for agent in wired.agents for payload in wired.outbox(agent)]
    assert wired.hand_over().new == len(kept)
    return kept


def forgotten(wired: Wired, archive: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Back up, and forget all but some epochs while the centre runs; how many were forgotten."""
    monkeypatch.setattr(centre_store, "EPOCHS_KEPT", KEPT)
    assert run(["live", "backup", str(wired.folder / "estimates.sqlite"), str(archive)]) == 0
    return wired.centre.store.forget_before(time.time() + 1)


def content(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return [
            row
            for table in ("messages", "estimates", "plans")
            for row in database.execute(f"SELECT * FROM {table}")
        ]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_forgotten_does_not_count_again(
    wired: Wired, tmp_path: Path, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = told(wired, 1, EPOCHS)
    whole, before = content(tmp_path / "estimates.sqlite"), read_status(tmp_path / "estimates.sqlite")
    assert forgotten(wired, tmp_path / "old.sqlite", monkeypatch) == EPOCHS - KEPT
    if restarted:
        wired.start_centre()
    assert content(tmp_path / "old.sqlite") == whole
    assert (tmp_path / "old.sqlite").stat().st_mode & 0o077 == 0
    assert read_status(tmp_path / "estimates.sqlite") == before
    left = content(tmp_path / "estimates.sqlite")
    again = wired.centre.take(kept, wired.clock)
    assert (again.new, again.refused) == (0, len(kept) * (EPOCHS - KEPT) // EPOCHS)
    assert {reason for _, reason in wired.centre.store.counts} == {"old", "duplicate"}
    wired.clock += 2 * wired.wait
    assert wired.centre.take([], wired.clock).estimates == []
    assert content(tmp_path / "estimates.sqlite") == left


def test_the_centre_goes_on_and_forgets_again(
    wired: Wired, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = told(wired, 1, EPOCHS)
    assert forgotten(wired, tmp_path / "first.sqlite", monkeypatch) == EPOCHS - KEPT
    second = told(wired, EPOCHS + 1, 2 * EPOCHS)
    assert forgotten(wired, tmp_path / "second.sqlite", monkeypatch) == EPOCHS
    assert read_status(tmp_path / "estimates.sqlite").epochs == 2 * EPOCHS
    assert wired.centre.take(first + second, wired.clock).new == 0
