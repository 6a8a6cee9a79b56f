"""From lines of readings to epochs: times by steps, rows by number, and what is left out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.live_networks import Wired, fed, house_plan
from veilnet._core.durations import RowStep
from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet.cli import run
from veilnet.cli._lines import Ending
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.row_keys import COUNTED, ROW, Clock, RowKey
from veilnet.live.agent import Exhausted, LiveAgent
from veilnet.live.centre import Estimated
from veilnet.live.epochs import Epochs, epochs_of
from veilnet.live.showing import as_line, as_table
from veilnet.live.telegraf import lines
from veilnet.live.topics import Topics

QUARTER = 15 * 60 * 10**6


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    yield made
    made.close()


HALL = "temperature,humidity,vibration"


def test_times_fall_into_steps_and_the_first_reading_of_a_step_counts(wired: Wired) -> None:
    lines = [
        f"time,{HALL}",
        "2026-03-01 10:01:00Z,19,7.5,43",
        "2026-03-01 10:14:59Z,19,7.6,43",
        "2026-03-01 10:15:00Z,19,7.7,43",
        "2026-03-01 11:00:00Z,19,nonsense,43",
    ]
    kept, said, missed = fed(wired.agents["hall"], "\n".join(lines) + "\n", "15min")
    first = (Clock().read("2026-03-01 10:01:00Z") - 1) // QUARTER + 1
    assert kept == [(first, True), (first + 1, True), (first + 4, False)]
    assert missed == 1
    assert any("another reading of epoch" in each for each in said)
    assert any("reading 3" in each or "not a number" in each for each in said)
    assert not any("nonsense" in each for each in said)


def test_what_was_told_before_is_passed_over(wired: Wired) -> None:
    text = f"row,{HALL}\n1,19,7.5,43\n2,19,7.5,43\n"
    assert fed(wired.agents["hall"], text)[0] == [(1, True), (2, True)]
    again = wired.start_agent("hall")
    assert fed(again, text + "5,19,7.5,43\n")[0] == [(1, True), (2, True), (5, True)]


def test_a_reading_of_the_future_takes_no_epoch(wired: Wired) -> None:
    soon = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(time.time() + 86400))
    kept, said, _ = fed(wired.agents["hall"], f"time,{HALL}\n{soon},19,7.5,43\n", "15min")
    assert kept == []
    assert "future" in said[0]


def test_a_store_keeps_to_the_way_its_epochs_are_counted(wired: Wired) -> None:
    """With another step every reading that was told would have an epoch that was not."""
    text = f"time,{HALL}\n2026-03-01 10:01:00Z,19,7.5,43\n"
    agent = wired.agents["hall"]
    kept = fed(agent, text, "15min")[0]
    for restarted in (False, True):
        again = wired.start_agent("hall") if restarted else agent
        with pytest.raises(InvalidRequest, match="sent twice"):
            fed(again, text, "1min")
        with pytest.raises(InvalidRequest, match="sent twice"):
            fed(again, text.replace("00Z", "00"), "15min")
        with pytest.raises(InvalidRequest, match="sent twice"):
            fed(again, f"row,{HALL}\n{10**9},19,7.5,43\n")
        assert fed(again, text, "15min")[0] == kept


def test_the_budget_ends_in_the_middle_of_a_block(tmp_path: Path, wired: Wired) -> None:
    begin_agent_store(tmp_path / "few.sqlite", "hall", budget=2)
    store = AgentStore(tmp_path / "few.sqlite", "hall")
    agent = LiveAgent(store, wired.seals["hall"], wired.plan.sanitizers["hall"], wired.id)
    rows = "".join(f"{k},19,7.5,43\n" for k in range(1, 6))
    with pytest.raises(Exhausted):
        fed(agent, f"row,{HALL}\n{rows}")
    assert store.ledger().releases == 2
    store.close()


@pytest.mark.parametrize(
    ("step", "key", "words"),
    [
        (None, RowKey("time", "zoned"), "say how long"),
        ("15min", ROW, "carry no times"),
        ("15min", COUNTED, "--time"),
    ],
)
def test_steps_and_times_go_together(step: str | None, key: RowKey, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        epochs_of(step).check(key)


@pytest.mark.parametrize("step", ["soon", "0s", "5us", "-3s"])
def test_a_step_is_a_duration(step: str) -> None:
    with pytest.raises(VeilnetError, match="--step"):
        epochs_of(step)


def test_an_epoch_knows_when_it_began() -> None:
    assert Epochs(RowStep(900.0)).start(3) == 1800.0
    assert Epochs().start(3) is None


def test_an_epoch_beyond_all_calendars_ends_nobody_who_shows_it(wired: Wired) -> None:
    """A stolen agent may tell any epoch up to 2**62."""
    estimate = wired.centre.fusion.estimate({})
    for epoch in (2**61, 10**9, 281_000_000):
        made = Estimated(epoch, wired.id, 0, estimate)
        table = as_table(made, Epochs(RowStep(900.0)))
        assert (table["time"] is None) == (epoch > 281_558_112)
        assert as_line(made, Epochs(RowStep(900.0))).startswith(f"epoch {epoch}")
        lines(table, Topics())


def test_a_missing_file_of_readings_is_told_before_anything_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house_plan().save(tmp_path / "plan")
    file, readings = tmp_path / "plan" / "kitchen.json", tmp_path / "none.csv"
    options = [
        "--broker",
        "mqtts://broker.example",
        "--cert",
        str(tmp_path),
        "--in",
        str(readings),
        "--begin",
    ]
    assert run(["agent", str(file), *options]) == 2
    assert "--in" in capsys.readouterr().err
    assert not file.with_suffix(".sqlite").exists()


def test_who_is_asked_twice_to_end_still_ends_what_is_being_done() -> None:
    """Ctrl-C reaches an agent from the terminal, and again from the script that started it."""

    def waiting() -> Iterator[Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        yield

    with Ending() as ending:
        assert list(ending.until(waiting())) == []
        os.kill(os.getpid(), signal.SIGINT)  # while what was kept is sent
        time.sleep(0.01)
    assert ending.asked
