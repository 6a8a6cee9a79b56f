"""A clock that was wrong for a moment must neither silence an agent for as long, nor let a reading be told twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.live_networks import Wired, fed, house_plan, house_readings
from veilnet._core.errors import VeilnetError
from veilnet.cli import run
from veilnet.cli._repairing import _agrees
from veilnet.io.agent_ledger import audit_releases
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals

HALL = "temperature,humidity,vibration"
STEP = 900.0
YEARS = 34 * 365 * 86400.0


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    yield made
    made.close()


class Clock:
    """The clock of this machine, which can be wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = (time.time() // STEP + 1) * STEP + 100.0  # stores are begun before
        monkeypatch.setattr(time, "time", lambda: self.now)

    def line(self, later: float = 0.0, *, style: str = "zoned") -> str:
        """A reading taken now, or so much later, by this clock."""
        taken = self.now + later
        text = (
            f"{taken:.0f}" if style == "seconds" else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(taken))
        )
        return f"{text}{'Z' if style == 'zoned' else ''},19,7.5,43\n"

    def epoch(self, later: float = 0.0) -> int:
        return int((self.now + later) // STEP) + 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def told(wired: Wired, *lines: str) -> tuple[list[int], list[str], int]:
    """(epochs of all that waits for the centre, what was said, how many readings were not told)."""
    kept, said, missed = fed(wired.agents["hall"], f"time,{HALL}\n" + "".join(lines), "15min")
    return [epoch for epoch, _ in kept], said, missed


def repair(wired: Wired, *more: str) -> int:
    """``veilnet agent --repair-clock`` of the hall, which then starts again."""
    keys = make_keys(wired.folder / "keys", ["hall"]).keys
    make_seals(keys, ["hall"])
    wired.agents["hall"].store.close()
    code = run(
        [
            "agent", str(wired.folder / "plan" / "hall.json"), "--broker", "mqtts://broker.example", "--cert",
            str(keys.agent("hall").folder), "--store", str(wired.store_of("hall")), "--step", "15min",
            "--repair-clock", *more,
        ]
    )  # fmt: skip
    wired.start_agent("hall")
    return code


@pytest.mark.parametrize("style", ["zoned", "local", "seconds"])
def test_a_reading_of_the_future_takes_no_epoch_in_any_kind_of_time(
    wired: Wired, clock: Clock, style: str
) -> None:
    lines = [clock.line(style=style), clock.line(30 * 86400, style=style), clock.line(STEP, style=style)]
    epochs, said, _ = told(wired, *lines[:2])
    assert epochs == [clock.epoch()]
    assert any("future" in each for each in said)
    clock.now += STEP
    assert told(wired, lines[2])[0] == [clock.epoch(-STEP), clock.epoch()]


@pytest.mark.parametrize("style", ["zoned", "seconds"])
def test_what_is_dropped_is_said(wired: Wired, clock: Clock, style: str) -> None:
    told(wired, clock.line(-3 * STEP, style=style), clock.line(style=style))
    _, said, missed = told(wired, clock.line(-STEP, style=style), clock.line(style=style))
    assert missed == 1  # the other was told before, and is passed over as after every restart
    assert len(said) == 1
    assert f"epoch {clock.epoch(-STEP)} left out" in said[0]
    assert "--repair-clock" not in said[0]


@pytest.mark.parametrize("jump", [30 * 86400.0, YEARS])
@pytest.mark.parametrize("style", ["zoned", "seconds"])
def test_a_repair_goes_on_in_the_present_and_tells_nothing_twice(
    wired: Wired, clock: Clock, capsys: pytest.CaptureFixture[str], jump: float, style: str
) -> None:
    before = clock.epoch()
    told(wired, clock.line(style=style))
    clock.now += jump + STEP
    ahead = clock.epoch()
    assert told(wired, clock.line(style=style))[0] == [before, ahead]
    clock.now -= jump
    epochs, said, missed = told(wired, clock.line(style=style))
    assert (epochs, missed) == ([before, ahead], 1)
    assert "--repair-clock" in said[0]

    assert repair(wired) == 1  # nobody agreed
    asked = capsys.readouterr().err
    assert f"1 epoch ahead of now, {ahead} to {ahead}" in asked
    assert "are given up" in asked
    assert told(wired, clock.line(style=style))[2] == 1
    assert repair(wired, "--confirm") == 0
    capsys.readouterr()

    # what was read until now may have been told by the wrong clock: only what comes is told
    zones = 14 * 3600.0 if style == "seconds" else 0.0
    assert told(wired, clock.line(style=style), clock.line(-STEP, style=style))[0] == [before, ahead]
    clock.now += STEP + zones
    assert told(wired, clock.line(style=style))[0] == [before, ahead, clock.epoch()]
    # nor is the epoch that was told ahead of its time told again when its time has come
    last = clock.epoch()
    clock.now += jump - STEP - zones
    assert clock.epoch() == ahead
    assert told(wired, clock.line(style=style))[0] == [before, ahead, last]
    with pytest.raises(VeilnetError, match="sent before"):
        wired.agents["hall"].store.reserve("plan", [ahead])
    clock.now += STEP
    assert told(wired, clock.line(style=style))[0] == [before, ahead, last, ahead + 1]
    audit = audit_releases(wired.store_of("hall"))
    assert audit.problems == ()
    assert audit.repaired == (2,)


def test_nothing_is_repaired_where_nothing_is_ahead(
    wired: Wired, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    told(wired, clock.line())
    clock.now += 1.0
    assert repair(wired, "--confirm") == 1
    assert "nothing to repair" in capsys.readouterr().err
    assert audit_releases(wired.store_of("hall")).repaired == ()


def test_numbered_rows_go_on_where_they_were(wired: Wired, clock: Clock) -> None:
    _, readings = house_readings(wired.plan, 3)
    hall = wired.agents["hall"]
    hall.store.keep_to("rows")
    hall.take([1], readings["hall"][:1])
    clock.now += YEARS
    hall.take([2], readings["hall"][1:2])
    clock.now -= YEARS
    with pytest.raises(VeilnetError, match="--repair-clock"):
        hall.take([3], readings["hall"][2:])
    assert repair(wired, "--confirm") == 0
    wired.agents["hall"].take([3], readings["hall"][2:])
    assert wired.agents["hall"].store.last_epoch == 3
    assert audit_releases(wired.store_of("hall")).problems == ()


def test_seconds_that_are_counted_from_elsewhere_are_not_repaired(
    wired: Wired, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    told(wired, "5000,19,7.5,43\n")
    clock.now += YEARS
    told(wired, clock.line(style="seconds"))
    clock.now -= YEARS
    assert repair(wired, "--confirm") == 2
    assert "not counted from 1970" in capsys.readouterr().err


def test_a_memory_of_wrong_times_is_given_up_and_the_centre_follows(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a run was ended while it sanitized a reading of the wrong time."""
    wired = Wired(tmp_path, house_plan(stream=True))
    _, readings = house_readings(wired.plan, 3)
    first = clock.epoch()
    hall = wired.agents["hall"]
    hall.store.keep_to("steps of 900 s in times with a zone")
    hall.take([first], readings["hall"][:1])
    clock.now += YEARS
    hall.store.reserve(hall.plan, [clock.epoch()])
    clock.now -= YEARS
    assert repair(wired, "--confirm") == 0
    assert "1 epoch ahead of now" in capsys.readouterr().err
    hall = wired.agents["hall"]
    assert hall.recover() == [int((clock.now + YEARS) // STEP) + 1]
    clock.now += 2 * STEP
    assert hall.take([first + 2], readings["hall"][2:]).sent == 1
    messages = [wired.seals["hall"].open_message(payload) for payload in wired.outbox("hall")]
    assert [(each.epoch - first, each.after) for each in messages if each.values is not None] == [
        (0, 0),
        (2, 0),
    ]
    for agent, own in readings.items():
        if agent != "hall":
            wired.agents[agent].take([first, first + 1, first + 2], own)
    taken = wired.hand_over()
    wired.clock += 2 * wired.wait
    made = taken.estimates + wired.centre.take([], wired.clock).estimates
    assert [each.epoch - first for each in made] == [0, 1, 2]
    assert np.isfinite(made[-1].estimate.public).all()
    assert audit_releases(wired.store_of("hall")).problems == ()
    wired.close()


@pytest.mark.parametrize(("answer", "agrees"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("", False)])
def test_only_a_yes_at_a_terminal_is_one(monkeypatch: pytest.MonkeyPatch, answer: str, agrees: bool) -> None:
    for is_terminal in (True, False):
        monkeypatch.setattr(
            "sys.stdin", SimpleNamespace(isatty=lambda yes=is_terminal: yes, readline=lambda: answer)
        )
        assert _agrees("Give that up?") is (agrees and is_terminal)
