"""The home's own broker: sensors over TLS, and a bridge over which estimates come in and no raw value goes out."""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from helpers.brokers import Client, eventually, require_mosquitto
from helpers.code_blocks import ROOT, blocks
from helpers.live_networks import TOPICS
from veilnet._core.durations import RowStep
from veilnet.cli._mosquitto import Broker, find_mosquitto, free_port
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import KeyFolder, make_keys
from veilnet.live.sensors import SensorRows, read_sensors

pytestmark = pytest.mark.slow
HOME = (ROOT / "examples/home/home-broker.conf").read_text(encoding="utf-8")
DISCOVERY = "homeassistant/device/veilnet_1/config"
RAW = b'{"temperature": 21.37}'


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    require_mosquitto()
    return make_keys(tmp_path_factory.mktemp("keys"), ["kitchen"], readers=["home", "spy"]).keys


@contextmanager
def mosquitto(folder: Path, configuration: str) -> Iterator[None]:
    """Mosquitto with some lines of configuration."""
    (folder / "home.conf").write_text(f"{configuration}\nuser {getpass.getuser()}\n", encoding="utf-8")
    process = subprocess.Popen([find_mosquitto(), "-c", str(folder / "home.conf")], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


class Home:
    """Somebody on the home's broker, who remembers what came."""

    def __init__(self, port: int, authority: Path | None = None) -> None:
        self.received: list[tuple[str, bytes]] = []
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2)
        if authority is not None:
            self.client.tls_set(str(authority))
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_message = lambda *given: self.received.append((given[2].topic, given[2].payload))
        self._port = port

    def __enter__(self) -> Home:
        assert eventually(self._connected)
        self.client.loop_start()
        return self

    def _connected(self) -> bool:
        try:
            return self.client.connect("localhost", self._port) == 0
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # paho leaves a refused socket open
@pytest.mark.parametrize("known", [True, False], ids=["known authority", "unknown authority"])
def test_sensors_over_tls_are_heard_where_the_machine_knows_the_authority(
    known: bool, keys: KeyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known:
        monkeypatch.setenv("SSL_CERT_FILE", str(keys.broker.authority))
    port, folder, said = free_port(), keys.broker.folder, []
    listener = (
        f"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {folder}/ca.crt\n"
        f"certfile {folder}/party.crt\nkeyfile {folder}/party.key\n"
    )
    sensors = read_sensors([f"mqtts://localhost:{port}/zigbee2mqtt/kitchen#temperature"], ["temperature"], 1)
    with (
        mosquitto(tmp_path, listener),
        Home(port, keys.broker.authority) as home,
        SensorRows(sensors, ["temperature"], RowStep(1.0), say=said.append) as rows,
    ):

        def came() -> bool:
            home.client.publish("zigbee2mqtt/kitchen", RAW)
            return b"21.37" in rows.readline()

        rows.listen()
        assert eventually(lambda: any(("connected" if known else "no connection") in each for each in said))
        if known:
            assert eventually(came, 30)
        else:
            assert not came()


@pytest.mark.parametrize("careless", [False, True], ids=["as on the page", "everything out"])
def test_over_the_bridge_estimates_come_in_and_no_raw_value_goes_out(
    careless: bool, keys: KeyFolder, tmp_path: Path
) -> None:
    """With a line that would send everything out as well: the network's broker lets a reader write nothing of it."""
    broker = Broker(keys.broker, BrokerPlan(["kitchen"], readers=["home", "spy"]))
    with broker:
        with (keys.broker.folder / "acl").open("a", encoding="utf-8") as rules:
            rules.write("\nuser @spy\ntopic read #\n")
        os.kill(broker.pid, signal.SIGHUP)
        port = free_port()
        lines = HOME.replace("listener 1883 localhost", f"listener {port} 127.0.0.1")
        lines = lines.replace("localhost:8883", f"localhost:{broker.port}")
        lines = re.sub("keys/readers/home", str(keys.reader("home").folder), lines)
        lines += "topic # out 1\n" if careless else ""
        with (
            mosquitto(tmp_path, lines),
            Home(port) as home,
            Client(broker, keys.reader("spy")) as spy,
            Client(broker, keys.centre) as centre,
        ):
            assert spy.subscribe("#") == ["Granted QoS 1"]
            told = {
                TOPICS.estimates: b"an estimate",
                TOPICS.status: b"online",
                "veilnet/heard": b"1",
                DISCOVERY: b"{}",
            }

            def crossed() -> bool:
                home.client.publish("zigbee2mqtt/kitchen", RAW, qos=1)
                home.client.publish(TOPICS.messages("kitchen"), RAW, qos=1)
                home.client.publish(TOPICS.estimates, RAW, qos=1)
                for topic, payload in told.items():
                    assert centre.publish(topic, payload) == "Success"
                time.sleep(0.1)
                return all((topic, payload) in home.received for topic, payload in told.items())

            assert eventually(crossed, 60)
            time.sleep(0.3)
            assert set(told.items()) <= set(spy.received)
            assert not any(RAW in payload or "zigbee" in topic for topic, payload in spy.received)
            assert {topic for topic, _ in spy.received} == set(told)


def test_the_lines_on_the_page_are_those_that_run() -> None:
    page = (ROOT / "docs/how-to/live.md").read_text(encoding="utf-8")
    shown = next(block.code for block in blocks(page) if block.code.startswith("connection veilnet"))

    def crossing(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("topic", "bridge_protocol"))]

    assert crossing(shown) == crossing(HOME)
