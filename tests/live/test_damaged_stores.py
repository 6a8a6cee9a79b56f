"""Stores with a page that was damaged on the disk are refused when they are opened, before anything is sent."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import veilnet as vn
from veilnet.io._sqlite import create_database, open_database
from veilnet.io.agent_store import AgentStore, begin_agent_store

PAGE = 4096


def fill(database: sqlite3.Connection) -> None:
    database.executemany("INSERT INTO epochs VALUES (?, ?)", [(k, f"{k:0200d}") for k in range(500)])


@pytest.mark.parametrize("place", ["header of a leaf", "cells of a leaf"])
def test_a_store_with_a_damaged_page_is_refused(tmp_path: Path, place: str) -> None:
    """The kind is readable, and so are most rows: only a look at every page tells."""
    path = tmp_path / "store.sqlite"
    create_database(path, "test", "CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, seal TEXT NOT NULL)", fill)
    open_database(path, "test", what="a store").close()
    content = bytearray(path.read_bytes())
    leaf = next(
        at
        for at in range(PAGE, len(content), PAGE)
        if content[at] == 13 and content[at + 3 : at + 5] > b"\0\2"
    )
    start = leaf if place == "header of a leaf" else leaf + 8
    content[start : start + 8] = bytes(8) if place == "header of a leaf" else b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(vn.InvalidPlan, match=r"cannot be read|damaged"):
        open_database(path, "test", what="a store")


def test_of_a_damaged_agent_s_store_no_copy_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    begin_agent_store(path, "hall")
    content = bytearray(path.read_bytes())
    content[PAGE:] = bytes(len(content) - PAGE)
    path.write_bytes(content)
    with pytest.raises(vn.InvalidPlan, match=r"(?s)Never bring back a copy.*--begin"):
        AgentStore(path, "hall")
