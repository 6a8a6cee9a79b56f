"""Whoever kept last year's messages, as a broker can, must not have them counted again after a rotation.

The seal on such a message is genuine: only the centre's books tell that it has been there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from veilnet._core.errors import InvalidRequest
from veilnet.cli import run
from veilnet.live.centre_store import CentreStore
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


def rotated(wired: Wired, archive: Path) -> int:
    wired.centre.store.close()
    with CentreStore(wired.folder / "estimates.sqlite") as store:
        last = store.put_away(archive, KEPT)
    wired.start_centre()
    return last


def content(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return [
            row
            for table in ("messages", "estimates", "plans")
            for row in database.execute(f"SELECT * FROM {table}")
        ]


def test_what_was_put_away_does_not_count_again(wired: Wired, tmp_path: Path) -> None:
    kept = told(wired, 1, EPOCHS)
    whole, before = content(tmp_path / "estimates.sqlite"), read_status(tmp_path / "estimates.sqlite")
    assert rotated(wired, tmp_path / "old.sqlite") == EPOCHS - KEPT
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


def test_the_centre_goes_on_and_is_rotated_again(wired: Wired, tmp_path: Path) -> None:
    first = told(wired, 1, EPOCHS)
    rotated(wired, tmp_path / "first.sqlite")
    second = told(wired, EPOCHS + 1, 2 * EPOCHS)
    assert rotated(wired, tmp_path / "second.sqlite") == 2 * EPOCHS - KEPT
    assert read_status(tmp_path / "estimates.sqlite").epochs == 2 * EPOCHS
    assert wired.centre.take(first + second, wired.clock).new == 0


def test_nothing_is_lost_where_the_archive_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wired = Wired(tmp_path, house_plan())
    told(wired, 1, EPOCHS)
    wired.centre.store.close()
    before = content(tmp_path / "estimates.sqlite")
    (tmp_path / "there.sqlite").write_bytes(b"something")
    with (
        CentreStore(tmp_path / "estimates.sqlite") as store,
        pytest.raises(InvalidRequest, match=r"there\.sqlite: exists already"),
    ):
        store.put_away(tmp_path / "there.sqlite", KEPT)
    assert (tmp_path / "there.sqlite").read_bytes() == b"something"
    assert content(tmp_path / "estimates.sqlite") == before
    store_and_archive = [str(tmp_path / "estimates.sqlite"), str(tmp_path / "new.sqlite")]
    assert run(["live", "rotate", *store_and_archive]) == 1  # no more than a thousand epochs
    assert not (tmp_path / "new.sqlite").exists()
    assert run(["live", "rotate", *store_and_archive[::-1]]) == 2
    assert "no such file" in capsys.readouterr().err
    wired.close()
