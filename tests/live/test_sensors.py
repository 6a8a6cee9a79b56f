"""Sensors that speak MQTT, growing files and named pipes, as what an agent reads.

Oracle of the rows: the definition of last value and mean over a list of what came. Oracle of the whole: the centre's
estimates of constant readings, which no noise moves further than the plan says.
"""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

import veilnet as vn
from helpers.brokers import PATIENCE, eventually, require_mosquitto
from helpers.said import says
from veilnet._core.durations import RowStep
from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker, find_mosquitto, free_port
from veilnet.io.following import Following
from veilnet.io.streams import source_of
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals
from veilnet.live.sensors import Joined, Sensor, SensorRows, read_sensors, value_in

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
ZIGBEE = (
    b'{"battery":97,"humidity":54.61,"linkquality":123,"temperature":21.37,"voltage":null,"contact":false}'
)
TASMOTA = b'{"Time":"2026-11-18T13:20:11","AM2301":{"Temperature":21.4,"Humidity":"54.2"},"TempUnit":"C"}'
HOME = ("mqtt", "", "home", 1883)


def sensor(field: str = "", **settings: Any) -> Sensor:
    return Sensor(HOME, "a/b", tuple(field.split(".")) if field else (), "T", **settings)


# --- what --source says


def test_sensors_are_found_by_field_topic_or_name() -> None:
    given = [
        "mqtt://home/zigbee2mqtt/living%20room#temperature",
        "mqtts://anna@[::1]:1884/attic/co2",
        "heating=mqtt://home/tele/boiler/STATE#POWER",
    ]
    found = read_sensors(given, ("heating:ON", "co2", "temperature"), 3)
    assert {each.column: (each.broker, each.topic, each.field, each.is_text) for each in found} == {
        "temperature": (HOME, "zigbee2mqtt/living room", ("temperature",), False),
        "co2": (("mqtts", "anna", "::1", 1884), "attic/co2", (), False),
        "heating": (HOME, "tele/boiler/STATE", ("POWER",), True),
    }
    (only,) = read_sensors(["mqtt://home/attic#AM2301.Temperature"], ("T_attic",), 1)
    assert (only.column, only.field) == ("T_attic", ("AM2301", "Temperature"))
    unnamed = read_sensors(["mqtt://home/b", "mqtt://home/a"], (), 2)
    assert [each.topic for each in unnamed] == ["b", "a"]


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (["home/attic#T"], ["expected mqtt://broker/topic#field", "'home/attic#T'"]),
        (["mqtt://home"], ["mqtt://broker/topic#field"]),
        (["mqtt://home:99999/a#T"], ["expected", "99999"]),
        (["mqtt://anna:secret@home/a#T"], ["--source-password FILE", "password"]),
        (["mqtt://home/zigbee2mqtt/+#T"], ["one topic", "zigbee2mqtt/+"]),
        (["mqtt://home/a#T", "mqtt://home/b#T"], ["'T'", "twice"]),
        (["mqtt://home/a#T"], ["T, RH", "'RH'"]),
        (["mqtt://home/a#temp", "mqtt://home/a#RH"], ["'temp'", "T, RH", "READING="]),
    ],
)
def test_wrong_sources_are_refused(given: list[str], facts: list[str]) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_sensors(given, ("T", "RH"), 2)
    says(error.value, *facts)
    assert "secret" not in str(error.value)


# --- what a message says


def test_values_of_zigbee2mqtt_tasmota_and_plain_numbers() -> None:
    assert value_in(ZIGBEE, sensor("temperature")) == 21.37
    assert value_in(ZIGBEE, sensor("contact")) == 0.0
    assert value_in(ZIGBEE, sensor("voltage")) is None
    assert value_in(TASMOTA, sensor("AM2301.Temperature")) == 21.4
    assert value_in(TASMOTA, sensor("AM2301.Humidity")) == 54.2
    assert value_in(b" 21.5\n", sensor()) == 21.5
    assert value_in(b"nan", sensor()) is None
    assert value_in(b"ON", sensor(is_text=True)) == "ON"
    assert value_in(b'{"a": true}', sensor("a", is_text=True)) == "true"
    for payload, field in ((ZIGBEE, "pressure"), (TASMOTA, "Time.hour"), (b"[1]", "T")):
        with pytest.raises(LookupError):
            value_in(payload, sensor(field))
    for payload, field in (
        (b"unavailable", ""), (b"inf", ""), (b"\xff", ""), (b'{"T": [1]}', "T"), (b"{", "T"), (b"1" * 70000, ""),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"number|bytes|decode|Expecting"):
            value_in(payload, sensor(field))


@pytest.mark.parametrize("mean", [False, True])
def test_a_row_is_the_last_value_or_the_mean_and_nothing_when_stale(mean: bool) -> None:
    joined = Joined(["T", "on"], mean, stale=10.0)
    assert joined.row(0.0) == [None, None]
    for when, value in ((1.0, 20.0), (4.0, 24.0), (6.0, 25.0)):
        joined.take("T", when, value)
    joined.take("on", 2.0, "ON")
    assert joined.row(10.0) == [23.0 if mean else 25.0, "ON"]
    assert joined.row(14.0) == [25.0, None]  # nothing came: the last value, for as long as it counts
    assert joined.row(16.5) == [None, None]
    joined.take("T", 17.0, 20.0)
    joined.take("T", 18.0, None)  # the sensor says that it has none
    assert joined.row(20.0) == [None, None]


class Played(SensorRows):
    """Sensors whose messages and clock the test is."""

    def __init__(self, step: RowStep, start: float, **settings: Any) -> None:
        self.now, self.said = start, list[str]()
        names = settings.pop("names", ("T",))
        super().__init__([sensor()], names, step, clock=lambda: self.now, say=self.said.append, **settings)

    def listen(self) -> None:
        self._clients = [MagicMock()]

    def _wait(self, seconds: float) -> Any:
        found = None if self._came.empty() else super()._wait(0.0)
        if found is None:
            self.now += max(seconds, 0.0)
        else:
            self.now = max(self.now, found[0])
        return found

    def at(self, when: float, value: float | None) -> None:
        self._came.put((when, "T", value))


def test_rows_end_with_their_epochs_and_have_their_times() -> None:
    start = 1.8e9  # 2027-01-15T08:00:00Z, a whole quarter of an hour
    rows = Played(RowStep(900.0), start + 1)
    for when, value in ((2, 20.0), (899, 21.0), (900, 22.0), (1000, 23.0)):
        rows.at(start + when, value)
    found = [json.loads(rows.readline()) for _ in range(3)]
    assert found == [
        {"time": "2027-01-15T08:00:00Z", "T": 21.0},
        {"time": "2027-01-15T08:15:00Z", "T": 23.0},
        {"time": "2027-01-15T08:30:00Z", "T": None},  # told all the same: as missed
    ]
    rows.now += 4000  # the machine slept: what passed is passed over, and the next row has its own time
    rows.at(rows.now, 24.0)
    assert json.loads(rows.readline())["T"] is None
    assert json.loads(rows.readline()) == {"time": "2027-01-15T09:45:00Z", "T": 24.0}
    read = Played(RowStep(900.0, 420.0), start + 1, names=(), stale=3600.0)  # rows are read at 7 past
    for when, value in ((2, 20.0), (419, 21.0), (421, 22.0)):
        read.at(start + when, value)
    assert json.loads(read.readline()) == {"time": "2027-01-15T08:07:00Z", "readings": [21.0]}
    assert json.loads(read.readline()) == {"time": "2027-01-15T08:22:00Z", "readings": [22.0]}


def test_a_clock_that_was_never_set_makes_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Played(RowStep(60.0), 0.0)
    monkeypatch.setattr(time, "sleep", lambda _: setattr(rows, "now", 1.8e9))
    assert json.loads(rows.readline())["time"] == "2027-01-15T08:00:00Z"
    says(rows.said, "clock", "never set")


# --- files that grow, and pipes


def test_a_growing_file_is_read_line_by_line_also_when_it_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("row,T\n1,20\n2,2")
    lines = Following(log, again=True)
    assert [lines.readline(), lines.readline(99)] == [b"row,T\n", b"1,20\n"]

    read = threading.Semaphore(0)  # lines; what is not read yet would be gone with the file

    def go_on() -> None:
        with log.open("a") as file:
            file.write("1\n3,22\n")
        read.acquire(timeout=PATIENCE)
        read.acquire(timeout=PATIENCE)
        log.rename(tmp_path / "log.csv.1")
        time.sleep(0.3)
        log.write_text("row,T\n4,23\n")
        read.acquire(timeout=PATIENCE)
        log.write_text("row,T\n")  # emptied: shorter than what was read
        with log.open("a") as file:
            file.write("5,1\n")

    writer = threading.Thread(target=go_on)
    writer.start()
    for expected in (b"2,21\n", b"3,22\n", b"4,23\n"):
        assert lines.readline() == expected
        read.release()
    writer.join()
    (tmp_path / "other.csv").write_text("T,row\n20,6\n")
    (tmp_path / "other.csv").rename(log)
    with pytest.raises(InvalidReading) as error:
        [lines.readline() for _ in range(3)]
    says(error.value, str(log), "first line", "nothing more is sent")
    lines.close()
    long = Following(log, again=False)
    assert [long.readline(4), long.readline(4)] == [b"T,ro", b"w\n"]
    long.close()


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    for path in (tmp_path / "a.parquet", tmp_path / "a.csv.gz", None):
        with pytest.raises(InvalidRequest) as error:
            source_of(path, follow=True)
        says(error.value, "--follow")


# --- the whole way


@contextmanager
def home_broker(folder: Path) -> Iterator[int]:
    """Mosquitto as homes have it: no certificates, on the loopback; its port."""
    port = free_port()
    (folder / "home.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {getpass.getuser()}\n"
    )
    process = subprocess.Popen([find_mosquitto(), "-c", str(folder / "home.conf")], stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def publisher(port: int) -> Iterator[mqtt.Client]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)

    def connected() -> bool:
        try:
            return client.connect("127.0.0.1", port) == 0
        except OSError:
            return False

    assert eventually(connected)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.slow
def test_from_zigbee2mqtt_tasmota_a_pipe_and_a_growing_file_to_estimates(tmp_path: Path) -> None:
    """Three agents, one by sensors on a broker, one by a named pipe, one by a file that grows."""
    require_mosquitto()
    network = vn.Network(
        observe={"kitchen": [[1.0, 0.3], [0.0, 1.0]], "hall": [[0.9, 0.8]], "attic": [[1.0, -0.2]]},
        noise=0.01, public={"temperature": [1, 0]}, private={"gait": [0, 1]},
        resolution=0, reading_names={"kitchen": ["temperature", "W"], "hall": ["T"], "attic": ["T"]},
        prior=vn.Prior(covariance=[[25.0, 0.0], [0.0, 1.0]], mean=[20.0, 0.0]),
    )  # fmt: skip
    vn.design(network, step="1s").save(tmp_path / "plan")
    made = make_keys(tmp_path / "keys", network.agents)
    make_seals(made.keys, network.agents)
    log, out, pipe, grown = (tmp_path / name for name in ("log.txt", "estimates.sqlite", "pipe", "grown.csv"))
    os.mkfifo(pipe)
    grown.write_text("time,T\n")

    def start(*arguments: object) -> subprocess.Popen[bytes]:
        with log.open("ab") as words:
            return subprocess.Popen(
                [sys.executable, "-m", "veilnet", *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=ENVIRONMENT,
            )  # fmt: skip

    def estimates() -> list[Any]:
        if not out.exists():
            return []
        with closing(sqlite3.connect(f"file:{out}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT public, missing FROM latest").fetchall()
        return [json.loads(public) for public, missing in found if not json.loads(missing)]

    broker = Broker(made.keys.broker, BrokerPlan(network.agents))
    with broker, home_broker(tmp_path) as port, publisher(port) as sensors:
        home = f"mqtt://127.0.0.1:{port}"
        options = {
            "kitchen": ("--source", f"{home}/zigbee2mqtt/kitchen#temperature",
                        "--source", f"W={home}/tele/plug/SENSOR#ENERGY.Power", "--join", "mean"),
            "hall": ("--in", pipe, "--follow", "--format", "csv"),
            "attic": ("--in", grown, "--follow"),
        }  # fmt: skip
        running = [start("center", tmp_path / "plan" / "center.json", "--broker", broker.address,
                         "--cert", made.keys.centre.folder, "--out", out, "--wait", "2s")]  # fmt: skip
        for agent, given in options.items():
            running.append(
                start("agent", tmp_path / "plan" / f"{agent}.json", "--broker", broker.address, "--cert",
                      made.keys.agent(agent).folder, "--begin", *given)
            )  # fmt: skip
        try:
            with pipe.open("w") as hall, grown.open("a") as attic:
                hall.write("time,T\n")

                def step() -> bool:
                    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    sensors.publish("zigbee2mqtt/kitchen", b'{"temperature": 22.0, "linkquality": 80}')
                    sensors.publish("tele/plug/SENSOR", b'{"Time": "x", "ENERGY": {"Power": 0}}')
                    for file, value in ((hall, 22.0 * 0.9), (attic, 22.0)):
                        file.write(f"{now},{value}\n")
                        file.flush()
                    time.sleep(0.2)
                    return len(estimates()) >= 3

                assert eventually(step), log.read_text()
        finally:
            for process in running:
                process.terminate()
                process.wait()
    for each in estimates():
        assert abs(each[0] - 22.0) < 2.0
    says(log.read_text(), "raw values are on the broker", f"127.0.0.1:{port}", "bridge only veilnet's topics")


def test_options_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = vn.Network(
        observe={"kitchen": [[1.0, 0.5]], "hall": [[1.0, -0.5]]},
        noise=0.25,
        public={"T": [1, 0]},
        private={"g": [0, 1]},
        resolution=0,
        reading_names={"kitchen": ["T"], "hall": ["T"]},
    )
    vn.design(network).save(tmp_path / "plan")
    made = make_keys(tmp_path / "keys", network.agents)
    make_seals(made.keys, network.agents)
    file = tmp_path / "plan" / "kitchen.json"
    common = [
        "agent",
        str(file),
        "--broker",
        "mqtts://localhost:1",
        "--cert",
        str(made.keys.agent("kitchen").folder),
    ]
    home = ["--source", "mqtt://home/a#T"]
    for options, facts in (
        (["--in", str(tmp_path / "none")], ["--in", "no such file or pipe"]),
        (home, ["--step", "epoch"]),
        ([*home, "--step", "1s", "--in", str(file)], ["--source", "--in"]),
        (["--join", "mean"], ["--join", "--source"]),
        (["--follow"], ["--follow", "--in"]),
        (["--source", "mqtt://anna@home/a#T", "--step", "1s"], ["--source-password FILE"]),
        ([*home, "--step", "1s", "--stale", "soon"], ["--stale", "soon"]),
    ):
        assert run([*common, *options, "--begin"]) == 2
        says(capsys.readouterr().err, *facts)
        assert not file.with_suffix(".sqlite").exists()
