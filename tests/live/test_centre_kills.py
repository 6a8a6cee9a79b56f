"""The centre killed at any line of its work: what it said that it has, it has; what it has, it has once."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from helpers.killing import killed_at, lines_of
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from veilnet.centre.fusion import Fusion

WATCHED = (
    "live/centre.py",
    "live/centre_store.py",
    "io/_sqlite.py",
    "live/estimating.py",
    "live/intake.py",
)
EPOCHS = 120


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
def test_killed_at_any_line_nothing_acknowledged_is_lost_and_nothing_counted_twice(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, EPOCHS)
    for agent, own in readings.items():
        wired.agents[agent].take(range(1, EPOCHS + 1), own)
    payloads = {agent: wired.outbox(agent) for agent in wired.agents}
    acknowledged = tmp_path / "acknowledged.txt"
    wired.centre.store.close()

    def work(epoch: int) -> None:
        centre = wired._new_centre()
        batch = [(TOPICS.messages(agent), each[epoch - 1]) for agent, each in payloads.items()]
        for agent, receipt in centre.take(batch, 0.0).receipts:
            with acknowledged.open("a") as file:
                file.write(json.dumps([agent, receipt.kept]) + "\n")
        centre.store.close()

    lines = lines_of(lambda: work(1), *WATCHED)
    chosen = lines[::4]
    assert len(lines) > 100
    killed = sum(killed_at(lambda: work(epoch), line) for epoch, line in enumerate(chosen, start=2))  # noqa: B023
    assert killed > 0.9 * len(chosen)
    with closing(sqlite3.connect(tmp_path / "estimates.sqlite")) as database:
        there = set(
            database.execute("SELECT a.agent, m.sequence FROM messages m JOIN agents a ON a.number = m.agent")
        )
    for line in acknowledged.read_text().splitlines():
        agent, kept = json.loads(line)
        for start, stop in kept:
            assert all((agent, sequence) in there for sequence in range(start, stop + 1))
    wired.centre = wired._new_centre()
    wired.hand_over()  # whatever was not acknowledged comes again
    fusion = Fusion(wired.plan, gate=1e-6)
    with closing(sqlite3.connect(tmp_path / "estimates.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (EPOCHS * len(wired.agents),)
        found = dict(database.execute("SELECT epoch, public FROM latest"))
    assert sorted(found) == list(range(1, EPOCHS + 1))
    for epoch in range(1, EPOCHS + 1):
        sent = {
            agent: wired.seals[agent].open_message(each[epoch - 1]).numbers()
            for agent, each in payloads.items()
        }
        assert np.array(json.loads(found[epoch])).tobytes() == fusion.estimate(sent).public.tobytes()
    wired.close()
