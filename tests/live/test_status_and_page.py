"""What is told of a live network: on the command line, for programs, and on a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.said import says
from veilnet.cli import run
from veilnet.live.centre_store import CentreStore
from veilnet.live.status import read_status
from veilnet.studio.live_page import _PAGE, _application, live_page


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    """Four epochs, the study silent in the last two, the hall with a fault in the third; one forged message."""
    made = Wired(tmp_path, house_plan())
    _, readings = house_readings(made.plan, 4)
    readings["hall"][2, 0] = float("nan")
    for agent, own in readings.items():
        count = 2 if agent == "study" else 4
        made.agents[agent].take(range(1, count + 1), own[:count])
    made.hand_over(settle=False)
    made.hand_over("kitchen")
    made.centre.take([(TOPICS.messages("kitchen"), b"forged, and long enough")], made.clock)
    made.clock += 2 * made.wait
    made.centre.take([], made.clock)
    yield made
    made.close()


def test_status_counts_what_happened(wired: Wired) -> None:
    status = read_status(wired.folder / "estimates.sqlite")
    found = {each.agent: each for each in status.agents}
    assert (status.newest, status.epochs, status.estimates) == (4, 4, 4)
    assert (found["study"].messages, found["study"].silent, found["study"].lag) == (2, 2, 2)
    assert (found["hall"].messages, found["hall"].missed, found["hall"].silent) == (3, 1, 0)
    assert (found["kitchen"].duplicates, found["kitchen"].refused, found["kitchen"].lag) == (4, 1, 0)
    assert found["kitchen"].heard > 0
    assert status.counts["kitchen", "seal"] == 1


def test_a_copy_of_a_running_centre_s_store_goes_on_and_an_agent_s_is_not_copied(
    wired: Wired, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.sqlite"
    assert run(["live", "backup", str(wired.folder / "estimates.sqlite"), str(copy)]) == 0
    assert read_status(copy) == read_status(wired.folder / "estimates.sqlite")
    assert copy.stat().st_mode & 0o077 == 0
    with CentreStore(copy) as opened:  # as the one it is a copy of
        assert [each.plan for each in opened.plans()] == [wired.id]
    assert run(["live", "backup", str(wired.folder / "estimates.sqlite"), str(copy)]) == 2
    assert run(["live", "backup", str(wired.store_of("hall")), str(tmp_path / "hall.copy")]) == 2
    says(capsys.readouterr().err, "exists already", "agent's store", "--begin")
    assert not (tmp_path / "hall.copy").exists()


def test_status_on_the_command_line(wired: Wired, capsys: pytest.CaptureFixture[str]) -> None:
    stores = [str(wired.folder / "estimates.sqlite"), str(wired.store_of("hall"))]
    assert run(["live", "status", *stores]) == 0
    shown = capsys.readouterr().out
    says(shown, "4 epochs", "up to 4", "0 revisions")
    assert "Refused 1" in shown
    says(shown, "hall", "3 releases", "epoch 4", "1 epoch missed")
    assert run(["live", "status", *stores, "--json"]) == 0
    centre, agent = json.loads(capsys.readouterr().out)
    assert centre["agents"]["study"]["silent"] == 2
    assert centre["refusals"] == [{"agent": "kitchen", "reason": "seal", "count": 1}]
    assert (agent["agent"], agent["waiting"], agent["left"]) == ("hall", 4, None)


def test_the_page_shows_estimates_with_their_band_and_every_agent(wired: Wired) -> None:
    page = live_page(wired.folder / "estimates.sqlite")
    assert page.startswith("<!doctype html>")
    assert page.count("<figure") == 2
    assert page.count("<polygon") == 2
    for words in ("mean temperature", "heat loss", "living room", "Without study", "behind: study", "°C"):
        assert words in page
    assert "<script" not in page
    assert re.search(r"https?://", page) is None
    newest = json.loads(
        wired.centre.store._db.execute("SELECT public FROM latest ORDER BY epoch DESC").fetchone()[0]
    )
    assert f"now {newest[0]:.4g} ±" in page


def test_a_page_before_the_first_message(tmp_path: Path) -> None:
    made = Wired(tmp_path, house_plan())
    page = live_page(tmp_path / "estimates.sqlite")
    made.close()
    assert "0 epochs estimated" in page
    assert "never" in page


def test_the_page_is_shown_to_whoever_opened_the_address_and_to_nobody_else(wired: Wired) -> None:
    client_of = pytest.importorskip("starlette.testclient").TestClient
    from veilnet.studio.guard import Guard

    guard = Guard(_application(wired.folder / "estimates.sqlite"), page=_PAGE, port=8123, most_bytes=0)
    page, once = guard.address.split("#start=")
    client = client_of(guard, base_url=page)
    for address in _PAGE:  # the empty page and its scripts
        assert client.get(address).status_code == 200
        assert "temperature" not in client.get(address).text
    assert client.get("/now").status_code == 403
    told = {"origin": page.rstrip("/"), "veilnet-page": once}
    word = client.post("/start", headers=told).text
    shown = client.get("/now", headers={"veilnet-page": word})
    assert shown.text == live_page(wired.folder / "estimates.sqlite")
    assert client.post("/start", headers=told).status_code == 403
