"""Agents and a centre over a real broker, in threads of this process; ``test_live_processes`` has them in their own.

Oracle for estimates: ``Fusion`` in process, given the numbers in the agents' outboxes before they were sent.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from helpers.brokers import Client, eventually, require_mosquitto
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.said import says
from veilnet.centre.fusion import Fusion
from veilnet.cli._mosquitto import Broker
from veilnet.io.template import house
from veilnet.live.broker import BrokerPlan
from veilnet.live.centre import Centre
from veilnet.live.epochs import Epochs
from veilnet.live.keys import KeyFolder, make_keys
from veilnet.live.metrics import Families, MetricsServer, of_centre, of_service, problems_of
from veilnet.live.reading import Reader
from veilnet.live.receiving import Receiver
from veilnet.live.seals import agent_seal, centre_seals, make_seals
from veilnet.live.sending import Sender
from veilnet.live.showing import as_table
from veilnet.live.status import read_status

pytestmark = pytest.mark.slow
AGENTS = tuple(house().agents)


@pytest.fixture(scope="module")
def house_keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    made = make_keys(tmp_path_factory.mktemp("house"), AGENTS, readers=["screen", "phone"])
    assert make_seals(made.keys, AGENTS, ["screen", "phone"]) == list(AGENTS)
    assert make_seals(made.keys, AGENTS) == []
    return made.keys


@pytest.fixture
def broker(house_keys: KeyFolder) -> Iterator[Broker]:
    require_mosquitto()
    with Broker(house_keys.broker, BrokerPlan(AGENTS, readers=["screen", "phone"])) as running:
        yield running


class Live:
    """The house over a broker."""

    def __init__(self, folder: Path, keys: KeyFolder, broker: Broker) -> None:
        self.keys, self.broker = keys, broker
        self.wired = Wired(folder, house_plan(), wait=120.0)
        self.wired.seals = {agent: agent_seal(keys.agent(agent), agent) for agent in AGENTS}
        assert centre_seals(keys.centre, AGENTS).keys() == self.wired.seals.keys()
        for agent in AGENTS:
            self.wired.start_agent(agent)
        self.said: list[str] = []
        self.senders: dict[str, Sender] = {}
        self.start_centre()

    @property
    def address(self) -> tuple[str, int]:
        return self.broker.host, self.broker.port

    def start_centre(self) -> Centre:
        centre = self.wired.start_centre()
        self._ended = threading.Event()
        self.receiver = Receiver(
            centre, self.wired.seals, TOPICS, self.keys.centre, self.address,
            say=self.said.append, estimated=lambda made: as_table(made, Epochs()),
        )  # fmt: skip
        self._thread = threading.Thread(target=self.receiver.run, args=(self._ended.is_set,), daemon=True)
        self._thread.start()
        return centre

    def stop_centre(self) -> None:
        self._ended.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def start_sender(self, agent: str) -> Sender:
        self.senders[agent] = Sender(
            self.wired.agents[agent].store, self.wired.seals[agent], TOPICS, self.keys.agent(agent), self.address,
            self.said.append,
        )  # fmt: skip
        self.senders[agent].start()
        return self.senders[agent]

    def status(self) -> dict[tuple[str, str], int]:
        return read_status(self.wired.folder / "estimates.sqlite").counts

    def close(self) -> None:
        for sender in self.senders.values():
            sender.stop()
        self.stop_centre()
        self.wired.close()


@pytest.fixture
def live(tmp_path: Path, house_keys: KeyFolder, broker: Broker) -> Iterator[Live]:
    made = Live(tmp_path, house_keys, broker)
    yield made
    made.close()


def test_estimates_have_the_bits_of_fusion_though_broker_and_centre_go_away(live: Live) -> None:
    _, readings = house_readings(live.wired.plan, 6)
    sent: dict[str, list[np.ndarray]] = {agent: [] for agent in AGENTS}
    with Client(live.broker, live.keys.reader("screen")) as screen:
        screen.subscribe(TOPICS.estimates)
        screen.subscribe(TOPICS.history)
        for agent in AGENTS:
            live.start_sender(agent)
        for epoch in range(1, 7):
            for agent, own in readings.items():
                live.wired.agents[agent].take([epoch], own[epoch - 1 : epoch])
                payload = live.wired.agents[agent].store.waiting(0, 100)[-1][1]
                sent[agent].append(live.wired.seals[agent].open_message(payload).numbers())
                live.senders[agent].wake()
            if epoch == 2:
                assert all(sender.drain(120) for sender in live.senders.values())
                assert eventually(lambda: len(screen.received) >= 2)
                live.broker.kill()
            if epoch == 3:
                live.broker.start()
            if epoch == 4:
                live.stop_centre()
            if epoch == 5:
                live.start_centre()
        assert all(sender.drain(120) for sender in live.senders.values())
    fusion = Fusion(live.wired.plan, gate=1e-6)
    with closing(sqlite3.connect(live.wired.folder / "estimates.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (6 * len(AGENTS),)
        found = dict(database.execute("SELECT epoch, public FROM latest"))
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    for epoch in range(1, 7):
        expected = fusion.estimate({agent: numbers[epoch - 1] for agent, numbers in sent.items()}).public
        assert np.array(json.loads(found[epoch])).tobytes() == expected.tobytes()
    for _, payload in screen.received:
        shown = json.loads(payload)
        values = [each["value"] for each in shown["estimates"].values()]
        assert values == json.loads(found[shown["epoch"]])


def test_forged_replayed_and_foreign_messages_end_nothing(live: Live) -> None:
    _, readings = house_readings(live.wired.plan, 1)
    for agent, own in readings.items():
        live.wired.agents[agent].take([1], own)
    assert eventually(lambda: live.receiver.connected)
    genuine = live.wired.outbox("kitchen")[0]
    with Client(live.broker, live.keys.agent("kitchen")) as kitchen:
        assert "Not authorized" in kitchen.publish(TOPICS.messages("hall"), genuine)
        for payload in (b"", b"nonsense", genuine[:-1], genuine[::-1], bytes(60_000), genuine, genuine):
            kitchen.publish(TOPICS.messages("kitchen"), payload)
    assert eventually(lambda: live.status().get(("kitchen", "duplicate"), 0) == 1)
    assert live.status() == {
        ("kitchen", "malformed"): 2, ("kitchen", "seal"): 3, ("kitchen", "duplicate"): 1,
    }  # fmt: skip
    for agent in AGENTS:
        live.start_sender(agent)
    assert all(sender.drain(120) for sender in live.senders.values())
    status = read_status(live.wired.folder / "estimates.sqlite")
    assert (status.newest, status.epochs, [each.messages for each in status.agents]) == (1, 1, [1] * 5)


def test_a_reader_that_checks_is_told_what_the_centre_signed_alone(live: Live) -> None:
    """Whoever can write to the topic of estimates is the broker here; what is retained is the newest epoch."""
    told: list[dict[str, object]] = []
    said: list[str] = []
    reader = Reader(TOPICS, live.keys.reader("screen"), live.address, say=said.append, estimated=told.append)
    reader.start()
    try:
        _, readings = house_readings(live.wired.plan, 3)
        for epoch in (1, 2):
            for agent in AGENTS:
                live.wired.agents[agent].take([epoch], readings[agent][epoch - 1 : epoch])
                (live.senders.get(agent) or live.start_sender(agent)).wake()
            assert eventually(lambda: [each["epoch"] for each in told][-1:] == [epoch]), said  # noqa: B023
        with Client(live.broker, live.keys.reader("phone")) as late:
            late.subscribe(TOPICS.estimates)
            assert eventually(lambda: len(late.received) == 1)
        genuine = late.received[0][1]
        assert json.loads(genuine)["epoch"] == 2
        live.stop_centre()  # its certificate is another's now
        with Client(live.broker, live.keys.centre) as hostile:
            hostile.publish(TOPICS.estimates, genuine.replace(b'"epoch": 2', b'"epoch": 9'), retain=True)
            hostile.publish(TOPICS.estimates, json.dumps({"epoch": 9, "estimates": {}}).encode(), retain=True)
            hostile.publish(TOPICS.estimates, genuine)  # as after a lost connection: it is known already
        assert eventually(lambda: reader.refused == 2), said
        live.start_centre()
        for agent in AGENTS:
            live.wired.agents[agent].take([3], readings[agent][2:])
        assert eventually(lambda: [each["epoch"] for each in told] == [1, 2, 3]), said
    finally:
        reader.stop()


def test_what_was_made_without_a_broker_is_said_later_and_the_last_alone_is_the_newest(live: Live) -> None:
    _, readings = house_readings(live.wired.plan, 3)
    for agent, own in readings.items():
        live.wired.agents[agent].take([1, 2, 3], own)
    live.broker.kill()
    assert eventually(lambda: not live.receiver.connected)

    def arrive(epoch: int) -> bool:
        """Said until heard: the receiver's thread may take its list away just then. Duplicates do nothing."""
        live.receiver.arrived += [
            (TOPICS.messages(agent), live.wired.outbox(agent)[epoch]) for agent in AGENTS
        ]
        return len(live.receiver.estimates) == epoch + 1

    assert all(eventually(lambda: arrive(epoch)) for epoch in range(3))  # noqa: B023
    live.broker.start()
    with Client(live.broker, live.keys.reader("screen")) as screen:
        screen.subscribe(TOPICS.history)
        screen.subscribe(TOPICS.estimates)
        screen.subscribe(TOPICS.heard)
        assert eventually(lambda: live.receiver.has_said_all)
        assert eventually(lambda: any(topic == TOPICS.estimates for topic, _ in screen.received))
        assert eventually(lambda: (TOPICS.heard, b"online") in screen.received)
    newest = [json.loads(payload) for topic, payload in screen.received if topic == TOPICS.estimates]
    assert {(each["epoch"], each["newest"], each["delayed"]) for each in newest} == {(3, True, True)}


def test_metrics_are_on_the_loopback(live: Live) -> None:
    _, readings = house_readings(live.wired.plan, 2)
    for agent, count in (("hall", 2), ("study", 1)):
        live.wired.agents[agent].take(range(1, count + 1), readings[agent][:count])
        assert live.start_sender(agent).drain(120)
    path = live.wired.folder / "estimates.sqlite"
    until = live.keys.centre.expires()

    def families() -> Families:
        status = read_status(path)
        common = of_service(path, live.receiver.connected, until, None, status.made)
        return [*common, *of_centre(status, None, live.receiver.leads)]

    server = MetricsServer(0, families, lambda: 1e-9).start()
    try:
        assert server.address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.address, timeout=120) as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(server.address.replace("metrics", "secrets"), timeout=120)
        refused.value.close()
        health = server.address.replace("metrics", "health")
        with urllib.request.urlopen(health, timeout=120) as answer:
            assert json.loads(answer.read()) == {"healthy": True, "problems": []}
        live.broker.kill()
        assert eventually(lambda: not live.receiver.connected)
        with pytest.raises(urllib.error.HTTPError, match="503") as ill:
            urllib.request.urlopen(health, timeout=120)
        says(json.loads(ill.value.read())["problems"][0], "no connection")
        ill.value.close()
        old = of_service(path, True, until, until, 1e9)
        says(problems_of(old, 60.0)[0], "nothing was made for")
        assert problems_of(old, None) == []
        past = until.replace(year=2020)
        assert problems_of(of_service(path, True, past, past, 1e9), None) == [
            "the certificate has expired", "the plan has expired",
        ]  # fmt: skip
    finally:
        server.stop()
    gauges = dict(line.split() for line in lines if line[0] != "#" and "{" not in line)
    assert float(gauges["veilnet_certificate_expires_seconds"]) == until.timestamp()
    assert float(gauges["veilnet_store_bytes"]) >= path.stat().st_size
    assert 0 <= float(gauges["veilnet_age_seconds"]) < 3600
    assert gauges["veilnet_leads"] == "1"
    assert 'veilnet_messages_total{agent="hall"} 2' in lines
    assert 'veilnet_messages_total{agent="living room"} 0' in lines
    assert 'veilnet_lag_epochs{agent="study"} 1' in lines
    assert "veilnet_connected 1" in lines
