"""What a refused file or a second owner leaves open: nothing. That nothing else does is counted after every test."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from helpers.open_connections import OpenConnections
from veilnet._core.errors import InvalidPlan
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.live.centre_store import CentreStore


def test_a_connection_that_is_left_open_is_told_by_its_line(tmp_path: Path) -> None:
    counted = OpenConnections()
    with counted.counting():
        kept = sqlite3.connect(tmp_path / "kept.sqlite")
        sqlite3.connect(tmp_path / "closed.sqlite").close()
    (left,) = counted.left_open(lasting=False)
    assert left.startswith(f"{Path(__file__).name}:")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        kept.execute("SELECT 1")
    assert counted.left_open(lasting=True) == []


@pytest.mark.parametrize("damage", ["no database", "another kind", "without its tables", "whose it is not"])
def test_a_store_that_is_refused_is_closed(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "hall.sqlite"
    counted = OpenConnections()
    with counted.counting():
        if damage == "another kind":
            CentreStore(path).close()
        else:
            begin_agent_store(path, "hall")
        if damage == "no database":
            path.write_bytes(b"no database at all, but long enough for a header of one" * 20)
        elif damage == "without its tables":
            stripped = sqlite3.connect(path)
            stripped.execute("DROP TABLE about")
            stripped.close()
        with pytest.raises(InvalidPlan):
            AgentStore(path, "attic" if damage == "whose it is not" else "hall")
    assert counted.left_open(lasting=True) == []


def test_the_end_of_a_with_closes_a_store_for_the_next_owner(tmp_path: Path) -> None:
    path = tmp_path / "hall.sqlite"
    begin_agent_store(path, "hall")
    for _ in range(2):
        with AgentStore(path, "hall") as store:
            assert store.agent == "hall"
    for _ in range(2):
        with CentreStore(tmp_path / "estimates.sqlite") as centre:
            assert centre.plans() == []
