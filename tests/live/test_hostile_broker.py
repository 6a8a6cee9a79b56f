"""A broker that answers nonsense ends neither agent nor centre, and nothing is lost by it.

It is a few lines on the loopback with the broker's own certificate: whoever took over the broker has that.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from helpers.brokers import eventually
from helpers.live_networks import Wired, house_plan, house_readings
from veilnet.live import connecting, connection
from veilnet.live.keys import KeyFolder, make_keys
from veilnet.live.receiving import Receiver
from veilnet.live.seals import make_seals
from veilnet.live.sending import Sender
from veilnet.live.topics import Topics

TOPICS = Topics()
pytestmark = pytest.mark.xdist_group("hostile")
CONNACK = b"\x20\x03\x00\x00\x00"
SUBACK = b"\x90\x04\x00\x01\x00\x01"


def publish(topic: bytes, payload: bytes, *, qos: int = 0) -> bytes:
    body = len(topic).to_bytes(2, "big") + topic + (b"\x00\x07" if qos else b"") + b"\x00" + payload
    return bytes([0x30 | qos << 1, *_length(len(body))]) + body


def _length(count: int) -> list[int]:
    found = []
    while True:
        count, digit = divmod(count, 128)
        found.append(digit | (0x80 if count else 0))
        if not count:
            return found


ANSWERS = {
    "garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "a cut packet": CONNACK[:3],
    "a version of before": b"\x20\x02\x00\x00",
    "an unknown reason": b"\x20\x03\x00\xee\x00",
    "properties cut off": b"\x20\x05\x00\x00\x7f\x21\x00",
    "unknown properties": b"\x20\x05\x00\x00\x02\x7e\x7e",
    "no length": b"\x20\xff\xff\xff\xff\xff",
    "a huge length": b"\x30\xff\xff\xff\x7f" + b"z" * 10_000,
    "a topic beyond the packet": CONNACK + SUBACK + b"\x30\x03\xff\xffz",
    "a topic that is no text": CONNACK + SUBACK + publish(b"\xff\xfe\xfd", b"z"),
    "no receipt, no message": CONNACK + SUBACK + publish(b"veilnet/acks/kitchen", b"\x00" * 99, qos=1),
    "an empty subscription": CONNACK + b"\x90\x03\x00\x01\x00",
    "an acknowledgement of nothing": CONNACK + SUBACK + b"\x40\x02\xff\xff",
    "reserved": CONNACK + SUBACK + b"\x00\x00" + b"\xf0\x00",
}


class Hostile:
    """Answers whoever connects with the same bytes, and hangs up."""

    def __init__(self, keys: KeyFolder, answer: bytes) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.broker.certificate, keys.broker.key)
        self._context, self._answer = context, answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = ("localhost", int(self._server.getsockname()[1]))
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._server.accept()
            except OSError:
                return
            plain.settimeout(5)
            with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as wrapped:
                wrapped.recv(4096)
                wrapped.sendall(self._answer)
                self.connections += 1
                wrapped.settimeout(0.1)
                with suppress(OSError):
                    while wrapped.recv(4096):
                        pass
            plain.close()

    def close(self) -> None:
        self._server.close()


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wired, KeyFolder]]:
    folder = Path(tmp_path_factory.mktemp("hostile"))
    made = Wired(folder, house_plan())
    made.agents["kitchen"].take([1, 2, 3], house_readings(made.plan, 3)[1]["kitchen"])
    keys = make_keys(folder / "keys", list(made.agents)).keys
    make_seals(keys, [])
    yield made, keys
    made.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PAUSE", 0.02)
    monkeypatch.setattr(connection, "_PAUSE", (0.02, 0.02))


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_agent_tries_again_and_keeps_what_it_has(
    answer: str, wired: tuple[Wired, KeyFolder], capfd: pytest.CaptureFixture[str]
) -> None:
    network, keys = wired
    store, said = network.agents["kitchen"].store, []
    hostile = Hostile(keys, ANSWERS[answer])
    sender = Sender(
        store, network.seals["kitchen"], TOPICS, keys.agent("kitchen"), hostile.address, said.append
    )
    sender._client.reconnect_delay_set(0.05, 0.05)  # type: ignore[arg-type]
    sender.start()
    try:
        assert eventually(lambda: hostile.connections >= 2, 20.0), said
    finally:
        hostile.close()
        sender.stop()
    assert sender.failure is None
    assert store.count_waiting() == 3
    assert said
    assert len(set(said)) < 6  # not a line for every packet
    assert all("\n" not in each for each in said)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_centre_tries_again_and_loses_nothing(
    answer: str, wired: tuple[Wired, KeyFolder], capfd: pytest.CaptureFixture[str]
) -> None:
    network, keys = wired
    said: list[str] = []
    hostile = Hostile(keys, ANSWERS[answer])
    receiver = Receiver(
        network.centre, dict(network.seals), TOPICS, keys.centre, hostile.address, say=said.append
    )
    try:
        receiver.run(lambda: hostile.connections >= 2)
    finally:
        hostile.close()
    assert said
    assert network.centre.store.plans()
    assert not network.centre.take([], 0.0).new
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("who", ["agent", "centre"])
def test_whatever_paho_raises_ends_nothing(
    who: str,
    wired: tuple[Wired, KeyFolder],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Version 2.2 reports every packet above as an error; earlier ones raise some, which is played here."""
    network, keys = wired
    said: list[str] = []
    hostile = Hostile(keys, CONNACK)

    def stumble(_self: mqtt.Client) -> None:
        raise IndexError("index out of range")

    monkeypatch.setattr(mqtt.Client, "_packet_handle", stumble)
    try:
        if who == "centre":
            seals = dict(network.seals)
            receiver = Receiver(network.centre, seals, TOPICS, keys.centre, hostile.address, say=said.append)
            receiver.run(lambda: hostile.connections >= 3)
        else:
            store, seal = network.agents["kitchen"].store, network.seals["kitchen"]
            sender = Sender(store, seal, TOPICS, keys.agent("kitchen"), hostile.address, said.append)
            sender.start()
            assert eventually(lambda: hostile.connections >= 3, 20.0), said
            sender.stop()
            assert sender.failure is None
            assert store.count_waiting() == 3
    finally:
        hostile.close()
    assert any("MQTT 5 (IndexError)" in each for each in said)
    assert "Traceback" not in capfd.readouterr().err
