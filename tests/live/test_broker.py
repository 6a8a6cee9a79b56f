"""The real broker refuses whoever is not who they say, and what is not theirs to say."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from helpers.brokers import Client, eventually, require_mosquitto
from helpers.said import says
from live.conftest import AGENTS
from veilnet._core.errors import MissingExtra, VeilnetError
from veilnet.cli import _mosquitto
from veilnet.cli._mosquitto import Broker
from veilnet.live.broker import LARGEST_PACKET, BrokerPlan, access_list, configuration, largest_packet
from veilnet.live.connection import Connection
from veilnet.live.home_assistant import discovery_payload
from veilnet.live.keys import Authority, Credentials, KeyFolder, make_keys
from veilnet.live.neighbours import Publication
from veilnet.live.topics import Topics, identity

TOPICS = Topics()
PLAN = BrokerPlan(AGENTS, TOPICS, ["telegraf"], largest_packet=5000)
REFUSED = "Not authorized"
TAKEN = ("Success", "No matching subscribers")


@pytest.fixture(scope="module")
def broker(keys: KeyFolder) -> Iterator[Broker]:
    require_mosquitto()
    with Broker(keys.broker, PLAN) as running:
        yield running


def test_messages_and_acknowledgements_pass(broker: Broker, keys: KeyFolder) -> None:
    with Client(broker, keys.centre) as centre, Client(broker, keys.agent("Küche/+")) as agent:
        assert centre.connected == agent.connected == ["Success"]
        assert centre.subscribe(TOPICS.all_messages) == ["Granted QoS 1"]
        assert agent.subscribe(TOPICS.acks("Küche/+")) == ["Granted QoS 1"]
        assert agent.publish(TOPICS.messages("Küche/+"), b"z") in TAKEN
        assert eventually(lambda: centre.received == [("veilnet/messages/K=C3=BCche=2F=2B", b"z")])
        assert centre.publish(TOPICS.acks("Küche/+"), b"1") in TAKEN
        assert eventually(lambda: agent.received == [("veilnet/acks/K=C3=BCche=2F=2B", b"1")])


class Talking(Connection):
    """A centre that hears itself."""

    said: list[str]
    answered: list[int]

    def subscriptions(self) -> list[str]:
        return [TOPICS.estimates]

    def answer(self, mid: int) -> None:
        self.answered.append(mid)


def test_what_is_too_large_for_the_broker_is_left_out_and_ends_no_connection(
    broker: Broker, keys: KeyFolder
) -> None:
    said: list[str] = []
    centre = Talking(keys.centre, (broker.host, broker.port), said.append)
    centre.answered = []

    def turned(done: Callable[[], bool]) -> bool:
        return eventually(lambda: done() or bool(centre.turn(0.01)) or done())

    try:
        assert turned(lambda: centre.connected)
        assert centre.publish([Publication(TOPICS.estimates, "x" * 5000)]) == 0
        says(said[-1], TOPICS.estimates, "5000", "live keys")
        number = centre.publish([Publication(TOPICS.estimates, "x" * 4800)])
        assert turned(lambda: number in centre.answered and len(centre.arrived) == 1)
        assert not [words for words in said if "ended" in words]
    finally:
        centre.hang_up()


def test_the_largest_packet_has_room_for_an_estimate_of_all() -> None:
    """Of 80 public parameters, in the longest numbers, with every one of 1,000 agents missing."""
    agents, labels = [f"agent number {k} 🛰" for k in range(1000)], [f"warmth {k} ü" for k in range(80)]
    number = -1.2345678901234567e-100
    table = {
        "epoch": 2**62, "time": "2026-11-19T00:00:00Z", "plan": "f" * 64, "revision": 10**6,
        "estimates": {each: {"value": number, "deviation": number, "unit": "kW m²/s"} for each in labels},
        "covariance": [[number] * len(labels)] * len(labels), "missing": agents, "contradicting": agents,
        "outside": labels, "drifted": [], "newest": True, "delayed": False,
        "published": "2026-11-19T00:00:00.000000Z", "signature": "f" * 128,
    }  # fmt: skip
    described = discovery_payload(
        TOPICS, labels, ["kW m²/s"] * len(labels), "0.2.0", digits=dict.fromkeys(labels, 6)
    )
    largest = largest_packet(agents, labels)
    assert len(json.dumps(table, ensure_ascii=False).encode()) < largest
    assert len(described.encode()) < largest
    assert largest_packet(["kitchen"], ["warmth"]) == LARGEST_PACKET


def test_an_agent_writes_to_no_topic_but_its_own(broker: Broker, keys: KeyFolder) -> None:
    forged = [
        TOPICS.messages("Küche/+"),
        TOPICS.messages("kitchen") + "/more",
        TOPICS.acks("kitchen"),
        TOPICS.acks("Küche/+"),
        TOPICS.estimates,
        TOPICS.status,
        "homeassistant/status",
        "homeassistant/device/veilnet/config",
        "$SYS/broker/version",
        "elsewhere",
    ]
    with Client(broker, keys.centre) as centre, Client(broker, keys.agent("kitchen")) as agent:
        assert centre.subscribe("#") == ["Granted QoS 1"]
        for topic in forged:
            assert agent.publish(topic, b"forged") == REFUSED, topic
            assert agent.publish(topic, b"forged", retain=True) == REFUSED, topic
        assert agent.publish(TOPICS.messages("kitchen"), b"last") in TAKEN
        assert eventually(lambda: bool(centre.received))
        assert centre.received == [(TOPICS.messages("kitchen"), b"last")]


def test_an_agent_reads_nothing_but_its_own_acknowledgements(broker: Broker, keys: KeyFolder) -> None:
    """Mosquitto 2 grants the subscription and delivers nothing, so what counts is what arrives."""
    with (
        Client(broker, keys.centre) as centre,
        Client(broker, keys.agent("kitchen")) as curious,
        Client(broker, keys.agent("Küche/+")) as other,
    ):
        for topic in ("#", TOPICS.all_messages, TOPICS.acks("Küche/+"), TOPICS.estimates, "$SYS/#"):
            curious.subscribe(topic)
        assert other.publish(TOPICS.messages("Küche/+"), b"z") in TAKEN
        assert centre.publish(TOPICS.acks("Küche/+"), b"1") in TAKEN
        assert centre.publish(TOPICS.estimates, b"e") in TAKEN
        assert centre.publish(TOPICS.acks("kitchen"), b"mine") in TAKEN
        assert eventually(lambda: bool(curious.received))
        assert {topic for topic, _ in curious.received} == {TOPICS.acks("kitchen")}


def test_the_centre_cannot_pose_as_an_agent_and_a_reader_only_reads(broker: Broker, keys: KeyFolder) -> None:
    with Client(broker, keys.centre) as centre, Client(broker, keys.reader("telegraf")) as reader:
        assert centre.publish(TOPICS.messages("kitchen"), b"forged") == REFUSED
        assert reader.subscribe("#") == ["Granted QoS 1"]
        for topic in (TOPICS.messages("kitchen"), TOPICS.acks("kitchen"), TOPICS.estimates, TOPICS.status):
            assert reader.publish(topic, b"forged") == REFUSED
        assert centre.publish(TOPICS.acks("kitchen"), b"1") in TAKEN
        assert centre.publish(TOPICS.estimates, b"e") in TAKEN
        assert eventually(lambda: bool(reader.received))
        assert reader.received == [(TOPICS.estimates, b"e")]
        assert centre.subscribe("homeassistant/status") == ["Granted QoS 1"]
        assert reader.publish("homeassistant/status", b"online") in TAKEN
        assert eventually(lambda: centre.received == [("homeassistant/status", b"online")])


def stranger(keys: KeyFolder, party: Credentials | None) -> ssl.SSLContext:
    """TLS that trusts the broker and shows whatever certificate, valid or not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(keys.broker.authority)
    if party is not None:
        context.load_cert_chain(party.certificate, party.key)
    return context


@pytest.mark.parametrize(
    "kind", ["none", "expired", "not yet", "other authority", "the broker's own", "self-signed name"]
)
def test_who_has_no_valid_certificate_is_not_let_in(
    kind: str, broker: Broker, keys: KeyFolder, tmp_path: Path
) -> None:
    authority, party = Authority.open(keys.authority), Credentials(tmp_path / "party")
    if kind == "none":
        shown = None
    elif kind == "expired":
        authority.issue(party, "kitchen", days=1, start=datetime.now(UTC) - timedelta(days=3))
        shown = party
    elif kind == "not yet":
        authority.issue(party, "kitchen", start=datetime.now(UTC) + timedelta(days=3))
        shown = party
    elif kind == "other authority":
        shown = make_keys(tmp_path / "other", ["kitchen"]).keys.agent("kitchen")
    elif kind == "the broker's own":
        shown = keys.broker
    else:  # an authority that calls itself as the right one does
        forged = Authority.open(tmp_path / "forged")
        Authority(forged.key, authority.certificate).issue(party, "kitchen")
        shown = party
    with Client(broker, stranger(keys, shown)) as client:
        assert client.connected == []
        assert client.lost


def test_a_certificate_for_nobody_in_the_plan_lets_in_but_may_do_nothing(
    broker: Broker, keys: KeyFolder, tmp_path: Path
) -> None:
    party = Credentials(tmp_path / "party")
    Authority.open(keys.authority).issue(party, "cellar")
    with Client(broker, keys.centre) as centre, Client(broker, party) as client:
        client.subscribe("#")
        for topic in (TOPICS.messages("cellar"), TOPICS.messages("kitchen"), TOPICS.estimates):
            assert client.publish(topic, b"x") == REFUSED
        assert centre.publish(TOPICS.acks("cellar"), b"x") in TAKEN
        assert centre.publish(TOPICS.estimates, b"x") in TAKEN
        assert client.received == []


def test_nobody_ends_another_s_session_by_its_client_id(broker: Broker, keys: KeyFolder) -> None:
    """The client id is that of the certificate, whatever the client asks for."""
    with Client(broker, keys.centre, "centre") as centre:
        with Client(broker, keys.agent("kitchen"), "@centre") as thief:
            assert thief.connected == ["Success"]
            assert centre.publish(TOPICS.status, b"online") in TAKEN
        assert centre.lost == []
        with Client(broker, keys.centre, "a second one"):
            assert eventually(lambda: bool(centre.lost))


def test_what_is_too_large_ends_the_sender_s_connection_alone(broker: Broker, keys: KeyFolder) -> None:
    with Client(broker, keys.centre) as centre, Client(broker, keys.agent("kitchen")) as agent:
        centre.subscribe(TOPICS.all_messages)
        assert agent.publish(TOPICS.messages("kitchen"), bytes(4900)) in TAKEN
        assert agent.publish(TOPICS.messages("kitchen"), bytes(5000)).startswith("lost")
        assert eventually(lambda: len(centre.received) == 1)
        assert centre.lost == []


def test_without_tls_there_is_no_answer(broker: Broker) -> None:
    import socket

    with socket.create_connection((broker.host, broker.port), timeout=120) as plain:
        plain.sendall(bytes.fromhex("101000044d5154540502003c000003616263"))
        answer = b""
        try:
            while part := plain.recv(1000):
                answer += part
        except ConnectionError:
            pass
        assert not answer.startswith(b"\x20")  # a CONNACK; what comes is an alert of TLS


def test_a_killed_broker_comes_back_at_its_port(keys: KeyFolder) -> None:
    require_mosquitto()
    running = Broker(keys.broker, PLAN).start()
    try:
        port, first = running.port, running.pid
        running.kill()
        with pytest.raises(VeilnetError, match="does not run"):
            _ = running.pid
        running.start()
        assert running.port == port
        assert running.pid != first
        with pytest.raises(VeilnetError, match="runs already"):
            running.start()
        with Client(running, keys.centre) as centre:
            assert centre.connected == ["Success"]
    finally:
        running.stop()
        running.stop()  # once is enough, twice is no mistake


def test_what_is_kept_over_a_restart(keys: KeyFolder, tmp_path: Path) -> None:
    """With a folder for it retained messages survive a restart, without one they do not."""
    require_mosquitto()
    for folder, expected in ((tmp_path, [(TOPICS.status, b"online")]), (None, [])):
        running = Broker(keys.broker, PLAN, persistence=folder).start()
        try:
            with Client(running, keys.centre) as centre:
                assert centre.publish(TOPICS.status, b"online", retain=True) in TAKEN
            running.stop()
            running.start()
            with Client(running, keys.reader("telegraf")) as reader, Client(running, keys.centre) as centre:
                reader.subscribe(TOPICS.status)
                reader.subscribe(TOPICS.estimates)
                assert centre.publish(TOPICS.estimates, b"after") in TAKEN
                assert eventually(lambda found=reader.received: (TOPICS.estimates, b"after") in found)
                assert [each for each in reader.received if each[0] == TOPICS.status] == expected
        finally:
            running.stop()


def test_a_missing_broker_is_an_error_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, keys: KeyFolder
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_mosquitto, "_PLACES", ())
    with pytest.raises(MissingExtra, match="sudo apt-get install mosquitto"):
        Broker(keys.broker, PLAN).start()


def test_the_list_of_who_may_do_what_is_complete_and_minimal() -> None:
    rights: dict[str, set[str]] = {}
    for line in access_list(PLAN).splitlines():
        if line.startswith("user "):
            current = rights.setdefault(line.removeprefix("user "), set())
        elif line.startswith("topic "):
            current.add(line.removeprefix("topic "))
        else:
            assert line == "" or line.startswith("#")
    assert set(rights) == {"@centre", "@standby", "@telegraf", *map(identity, AGENTS)}
    for agent in AGENTS:
        said = {f"write {TOPICS.messages(agent)}", f"write {TOPICS.sums(agent)}"}
        assert rights[identity(agent)] == said | {
            f"read {TOPICS.acks(agent)}",
            f"read {TOPICS.rounds(agent)}",
        }
    assert rights["@standby"] == rights["@centre"]
    for right in rights["@telegraf"]:
        assert right.startswith("read ") or right == "readwrite homeassistant/status"


def test_a_name_cannot_write_lines_of_the_configuration() -> None:
    nasty = "a\nuser root\ntopic readwrite #"
    assert "user root" not in access_list(BrokerPlan([nasty]))
    with pytest.raises(VeilnetError, match="one line"):
        configuration(PLAN, "/keys\nallow_anonymous true")
