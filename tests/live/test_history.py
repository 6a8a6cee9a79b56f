"""The newest estimate is the newest: revisions and late epochs stand in the history, and can be said once more.

Oracle for what is kept: the table that was published when the estimate was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from veilnet._core.errors import InvalidRequest
from veilnet.centre.fusion import Fusion
from veilnet.cli import run
from veilnet.live import publishing
from veilnet.live.centre import Estimated, Taken
from veilnet.live.epochs import Epochs, epochs_of
from veilnet.live.home_assistant import digits_of
from veilnet.live.keys import KeyFolder
from veilnet.live.messages import Malformed
from veilnet.live.neighbours import Neighbours, Publication
from veilnet.live.publishing import Publisher
from veilnet.live.seals import EstimateReader, EstimateSigner, make_seals
from veilnet.live.showing import as_table


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Wired]:
    wired = Wired(tmp_path, house_plan(), wait=1.0)
    yield wired
    wired.close()


class Said:
    """A publisher whose words are kept, opened."""

    def __init__(self, keys: KeyFolder, neighbours: Neighbours | None = None) -> None:
        make_seals(keys, ["kitchen"], ["telegraf"])
        self.raw: list[Publication] = []
        self._reader = EstimateReader(keys.reader("telegraf"), TOPICS)
        signer = EstimateSigner(keys.centre, TOPICS)
        self._count = 0
        self.publisher = Publisher(self._publish, signer, TOPICS, neighbours or Neighbours(TOPICS, ""))

    def _publish(self, each: Publication) -> int:
        self.raw.append(each)
        self._count += 1
        return self._count

    def say(self, taken: Taken) -> None:
        for made in taken.estimates:
            self.publisher.add(as_table(made, Epochs()))
        self.publisher.flush()

    def told(self) -> list[tuple[str, int, int, bool]]:
        found = []
        for each in self.raw:
            assert isinstance(each.payload, bytes)
            table = self._reader.open(each.payload)
            assert table["newest"] is each.retain is (each.topic == TOPICS.estimates)
            found.append((each.topic, table["epoch"], table["revision"], table["delayed"]))
        self.raw.clear()
        return found


def handed(wired: Wired, epoch: int, *agents: str) -> Taken:
    """What comes of one epoch's messages of some agents, and of the wait after it."""
    arrived = [(TOPICS.messages(agent), wired.outbox(agent)[epoch - 1]) for agent in agents]
    taken = wired.centre.take(arrived, wired.clock)
    wired.clock += 2.0
    taken.estimates += wired.centre.take([], wired.clock).estimates
    return taken


def test_revisions_of_earlier_epochs_are_history(house: Wired, keys: KeyFolder) -> None:
    _, readings = house_readings(house.plan, 3)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3], own)
    late, *others = house.agents
    said = Said(keys)
    said.say(handed(house, 1, *others))
    said.say(handed(house, 3, *others))
    assert said.told() == [(TOPICS.estimates, 1, 0, False), (TOPICS.estimates, 3, 0, False)]
    said.say(handed(house, 1, late))
    said.say(handed(house, 2, *house.agents))
    said.say(handed(house, 3, late))  # the newest epoch is known better
    assert said.told() == [
        (TOPICS.history, 1, 1, False), (TOPICS.history, 2, 0, False), (TOPICS.estimates, 3, 1, False),
    ]  # fmt: skip


def test_of_what_waits_the_last_newest_alone_is_the_newest(house: Wired, keys: KeyFolder) -> None:
    _, readings = house_readings(house.plan, 3)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3], own)
    said = Said(keys)
    for made in house.hand_over().estimates:
        said.publisher.add(as_table(made, Epochs()))
    said.publisher.delay()
    said.publisher.flush()
    assert said.told() == [
        (TOPICS.history, 1, 0, True), (TOPICS.history, 2, 0, True), (TOPICS.estimates, 3, 0, True),
    ]  # fmt: skip


def test_what_the_broker_did_not_confirm_is_said_again_by_the_same_bytes_and_the_newest_anyway(
    house: Wired, keys: KeyFolder
) -> None:
    _, readings = house_readings(house.plan, 3)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3], own)
    late, *others = house.agents
    said = Said(keys)
    for publish in (
        lambda: said.say(handed(house, 1, *others)),
        lambda: said.say(handed(house, 2, *others)),
        lambda: said.say(handed(house, 1, late)),
    ):
        publish()
    newest, revision = said.raw[-2:]
    assert [each[1] for each in said.told()] == [1, 2, 1]
    said.publisher.confirm(1)
    said.publisher.confirm(2)
    said.publisher.delay()
    said.publisher.confirm(3)  # of the next connection, which counts from 1 again
    said.publisher.repeat()
    assert said.raw == [revision, newest]
    with pytest.raises(Malformed, match="repeated"):
        said.told()
    said.raw.clear()
    for number in (4, 5):
        said.publisher.confirm(number)
    assert len(said.publisher) == 0
    said.publisher.repeat()
    assert said.raw == [newest]


def test_no_more_is_said_than_the_broker_keeps_up_with(
    house: Wired, keys: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_AT_ONCE", 2)
    _, readings = house_readings(house.plan, 5)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3, 4, 5], own)
    said = Said(keys)
    said.say(house.hand_over())
    assert [each[1] for each in said.told()] == [1, 2]
    assert (said.publisher.is_due, len(said.publisher)) == (False, 5)
    said.publisher.confirm(1)
    said.publisher.flush()
    assert [each[1] for each in said.told()] == [3]


def test_what_finds_no_room_to_wait_is_counted(
    house: Wired, keys: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_MOST", 2)
    _, readings = house_readings(house.plan, 3)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3], own)
    said = Said(keys)
    said.say(house.hand_over())
    assert [epoch for _, epoch, _, _ in said.told()] == [2, 3]
    assert said.publisher.lost == 1


def published_then(made: list[Estimated]) -> list[dict[str, Any]]:
    tables = [as_table(each, Epochs()) | {"newest": False} for each in made]
    return json.loads(json.dumps(tables))


def test_what_is_kept_is_what_was_published(house: Wired) -> None:
    """To the last bit, through another start of the centre; the last revision of each epoch."""
    _, readings = house_readings(house.plan, 4)
    readings["hall"][2] += 1e3  # contradicts the model
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3, 4], own)
    late, *others = house.agents
    first = handed(house, 1, *others).estimates
    made = [*handed(house, 2, *others).estimates]
    made += handed(house, 3, *house.agents).estimates
    made = handed(house, 1, late).estimates + made
    assert first[0].revision + 1 == made[0].revision == 1
    house.start_centre()
    kept = [as_table(each, Epochs()) for each in house.centre.kept(1, 3)]
    assert json.loads(json.dumps(kept)) == published_then(made)
    assert kept[2]["contradicting"] == ["hall"]
    assert [each["epoch"] for each in map(as_table, house.centre.kept(2, 9), [Epochs()] * 2)] == [2, 3]


def test_without_a_gate_what_contradicts_the_model_is_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Oracle: ``Fusion`` without a gate, of the same messages."""
    wired = Wired(tmp_path, house_plan(), gate=None)
    try:
        _, readings = house_readings(wired.plan, 1)
        readings["hall"] += 1e3
        for agent, own in readings.items():
            wired.agents[agent].take([1], own)
        sent = {
            agent: wired.seals[agent].open_message(wired.outbox(agent)[0]).numbers() for agent in wired.agents
        }
        (made,) = wired.hand_over().estimates
        assert made.estimate.contradicting == ()
        assert made.estimate.public.tobytes() == Fusion(wired.plan).estimate(sent).public.tobytes()
    finally:
        wired.close()
    places = ["--cert", str(tmp_path / "keys"), "--out", str(tmp_path / "none.sqlite")]
    plan = str(tmp_path / "plan" / "center.json")
    for more in (["--keep"], ["--gate", "0.01"]):
        assert run(["center", plan, "--broker", "mqtts://localhost", *places, "--no-gate", *more]) == 2
        assert "--no-gate" in capfd.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()


def test_epochs_are_meant_by_number_or_by_time() -> None:
    hours = epochs_of("1h")
    assert hours.epoch_in("12", "--backfill") == 12
    begun = hours.epoch_in("2026-11-18T09:00", "--backfill")
    assert hours.epoch_in("2026-11-18T10:59:59+01:00", "--backfill") == begun
    assert hours.epoch_in("2026-11-18T10:00Z", "--backfill") == begun + 1
    for epochs, words in ((hours, "soon"), (Epochs(), "2026-11-18T09:00")):
        with pytest.raises(InvalidRequest, match="number of an epoch"):
            epochs.epoch_in(words, "--backfill")


def test_nobody_heard_for_three_epochs_and_the_wait_is_silence(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan(), wait=5.0, step="1min")
    try:
        assert wired.centre.quiet == 185.0
        assert not wired.centre.is_heard(1e9)  # nobody was ever heard
        wired.agents["hall"].take([1], house_readings(wired.plan, 1)[1]["hall"])
        wired.hand_over("hall")
        heard = wired.centre.store.last_heard
        assert wired.centre.is_heard(heard + 185)
        assert not wired.centre.is_heard(heard + 186)
        wired.start_centre()
        assert wired.centre.store.last_heard == pytest.approx(heard)
    finally:
        wired.close()
    assert Epochs().step is None


def test_digits_say_two_of_the_deviation_and_are_described_once(house: Wired) -> None:
    assert [digits_of(each) for each in (0.11, 5.3, 53.0, 1e-9, 0.0, None)] == [2, 1, 0, 6, None, None]
    neighbours = Neighbours(TOPICS, "0.1.0", "homeassistant", name="Our house")
    neighbours.meet(house.centre.fusion, 185.5)
    _, readings = house_readings(house.plan, 2)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2], own)
    tables = [as_table(each, Epochs()) for each in house.hand_over().estimates]
    (described,) = neighbours.tell(tables[0])
    assert neighbours.tell(tables[1]) == []
    found = json.loads(described.payload)
    assert found["device"]["name"] == "Our house"
    sensors = {each["name"]: each for each in found["components"].values()}
    assert {each["expire_after"] for each in sensors.values()} == {186}
    for label, each in tables[0]["estimates"].items():
        expected = digits_of(each["deviation"])
        assert sensors[label]["suggested_display_precision"] == expected
        assert sensors[f"{label} deviation"]["suggested_display_precision"] == expected
    assert [each["topic"] for each in found["availability"]] == [TOPICS.status, TOPICS.heard]
    assert found["availability_mode"] == "all"


def test_what_a_killed_centre_had_not_published_is_published_by_the_next(
    house: Wired, keys: KeyFolder
) -> None:
    """Readers have epoch 1 or nothing; epochs 2 and 3 were committed, and then the centre was killed."""
    agents = tuple(house.agents)
    _, readings = house_readings(house.plan, 3)
    for agent, own in readings.items():
        house.agents[agent].take([1, 2, 3], own)
    made = [each for epoch in (1, 2, 3) for each in handed(house, epoch, *agents).estimates]
    first, _, last = ((each.plan, each.epoch, each.revision) for each in made)
    centre, said = house.start_centre(), Said(keys)

    def unsaid(published: tuple[str, int, int] | None) -> list[tuple[str, int, int, bool]]:
        said.say(Taken(estimates=centre.unsaid([], published)))
        return said.told()

    assert unsaid(None) == [(TOPICS.estimates, 3, 0, False)]
    assert unsaid(first) == [(TOPICS.history, 2, 0, False), (TOPICS.estimates, 3, 0, False)]
    assert unsaid(last) == []
