"""From a signed plan to estimates in other programs, by the commands alone: keys, broker, centre, agents."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.brokers import PATIENCE, Client, eventually, require_mosquitto
from helpers.said import says
from helpers.small_network import small_network
from veilnet.cli import run
from veilnet.cli._mosquitto import find_mosquitto, free_port
from veilnet.io.acceptance import accept
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.signing import sign_files
from veilnet.io.statements import Statement
from veilnet.live.home_assistant import birth_topic, discovery_topic
from veilnet.live.keys import KeyFolder
from veilnet.live.topics import Topics

TOPICS = Topics()
pytestmark = pytest.mark.slow


class Somewhere:
    """A broker that others started."""

    host = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self.port = port


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed plan and all keys."""
    require_mosquitto()
    folder = tmp_path_factory.mktemp("live")
    vn.design(small_network()).save(folder / "plan")
    assert run(["sign", str(folder / "plan"), "--new-key", str(folder / "designer.key")]) == 0
    return folder


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[Somewhere]:
    """Mosquitto by the very configuration that 'veilnet live keys' wrote."""
    found = Somewhere(free_port())
    arguments = ["--out", str(place / "keys"), "--port", str(found.port), "--reader", "telegraf"]
    assert run(["live", "keys", str(place / "plan"), *arguments]) == 0
    written = place / "keys" / "broker" / "mosquitto.conf"
    with written.open("a") as file:
        file.write(f"user {getpass.getuser()}\n")
    with started(find_mosquitto(), "-c", str(written)):

        def answers() -> bool:
            with Client(found, KeyFolder(place / "keys").centre) as client:
                return client.connected == ["Success"]

        assert eventually(answers)
        yield found


@contextmanager
def started(*command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def veilnet(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "veilnet", *map(str, arguments)]


def test_keys_are_completed_and_agents_that_left_may_do_nothing(
    place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def keys(plan: Path, *more: str) -> dict[str, list[str]]:
        assert run(["live", "keys", str(plan), "--out", str(tmp_path / "keys"), "--json", *more]) == 0
        return json.loads(capfd.readouterr().out)

    capfd.readouterr()
    first = keys(place / "plan", "--host", "broker.example", "--reader", "telegraf")
    assert first["new"] == ["broker", "centre", "agent hall", "agent attic", "reader telegraf"]
    conf = (tmp_path / "keys" / "broker" / "mosquitto.conf").read_text()
    assert "listener 8883\n" in conf
    assert keys(place / "plan" / "center.json", "--host", "broker.example")["new"] == []
    acl = tmp_path / "keys" / "broker" / "acl"
    assert "user hall" in acl.read_text()
    assert "user @telegraf" not in acl.read_text()
    fewer = vn.Network(
        observe={"hall": [[1, 0], [0, 1]]}, noise=1.0, public=[[1, 0]], private={"g": [[0, 1]]}
    )
    vn.design(fewer).save(tmp_path / "fewer")
    assert keys(tmp_path / "fewer", "--host", "broker.example")["new"] == []
    assert "user attic" not in acl.read_text()


def test_mistakes_are_told(place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        ([str(tmp_path / "none"), "--out", str(tmp_path)], "none"),
        ([str(place / "plan"), "--out", str(tmp_path), "--host", "a b"], "--host: expected broker.example"),
        ([str(place / "plan"), "--out", str(tmp_path), "--root", "#"], "expected one to four levels"),
        ([str(place / "plan"), "--out", str(tmp_path), "--reader", "centre"], "not centre or standby"),
    ):
        capfd.readouterr()
        assert run(["live", "keys", *arguments]) == 2
        assert words in capfd.readouterr().err


@pytest.mark.parametrize("more", [(), ("--second",)])
def test_an_agent_with_the_name_of_the_second_centre_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    """The first run would make keys/agents/@second, and the next one hand that agent a half of each message."""
    rooms = ("@second", "hall", "attic")
    network = vn.Network(
        observe={room: [[1.0, 0.2], [0.3, 1.0]] for room in rooms},
        noise=1.0,
        public=[[1, 0]],
        private={"g": [[0, 1]]},
    )
    vn.design(network, summed=True).save(tmp_path / "plan")
    assert run(["live", "keys", str(tmp_path / "plan"), "--out", str(tmp_path / "keys"), *more]) == 2
    assert "an agent is called @second" in capfd.readouterr().err
    assert not (tmp_path / "keys").exists()


def test_estimates_arrive_at_the_neighbours(place: Path, broker: Somewhere) -> None:
    """A centre that was asked to describes itself, again when Home Assistant starts, and publishes lines."""
    keys = KeyFolder(place / "keys")
    address = f"mqtts://{broker.host}:{broker.port}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    trust = ("--trust", place / "designer.pub")
    (place / "readings.csv").write_text("row,a,b\n" + "".join(f"{row},1.5,2.5\n" for row in range(1, 4)))
    centre = veilnet(
        "center", place / "plan" / "center.json", "--broker", address, "--cert", keys.centre.folder,
        "--out", place / "estimates.sqlite", "--home-assistant", "--influx", "--quiet", *trust,
    )  # fmt: skip
    with Client(broker, keys.reader("telegraf")) as reader:
        discovery = discovery_topic(TOPICS)
        for topic in (discovery, TOPICS.status, TOPICS.influx, TOPICS.estimates, TOPICS.history):
            reader.subscribe(topic)

        def heard(topic: str) -> list[bytes]:
            return [payload for name, payload in reader.received if name == topic]

        with started(*centre, env=environment):
            assert eventually(lambda: heard(TOPICS.status)[-1:] == [b"online"])
            assert eventually(lambda: len(heard(discovery)) == 1)
            described = json.loads(heard(discovery)[0])
            assert {each["p"] for each in described["components"].values()} == {"sensor"}
            assert reader.publish(birth_topic(), b"online") == "Success"
            assert eventually(lambda: len(heard(discovery)) == 2)
            assert heard(discovery)[1] == heard(discovery)[0]
            for agent in ("hall", "attic"):
                arguments = [place / "plan" / f"{agent}.json", "--broker", address, "--begin", *trust]
                arguments += ["--cert", keys.agent(agent).folder, "--in", place / "readings.csv"]
                assert run(["agent", *map(str, arguments)]) == 0
            assert eventually(lambda: len(heard(TOPICS.influx)) >= 3)
            published = heard(TOPICS.estimates) + heard(TOPICS.history)
            estimates = {each["epoch"]: each for each in map(json.loads, published)}
            for line in heard(TOPICS.influx):
                epoch = int(line.decode().rpartition("epoch=")[2].rstrip("i\n"))
                value = float(line.decode().partition("value=")[2].partition(",")[0])
                assert value == estimates[epoch]["estimates"]["warmth"]["value"]
        assert eventually(lambda: heard(TOPICS.status)[-1:] == [b"offline"])
        reader.received.clear()
        with started(*centre, "--backfill", "2", "3", env=environment) as again:
            assert again.wait(PATIENCE) == 0
        assert eventually(lambda: len(heard(TOPICS.history)) == 2)
        assert not heard(TOPICS.estimates)
        for each in map(json.loads, heard(TOPICS.history)):
            first = estimates[each["epoch"]]
            assert (each["newest"], each["delayed"]) == (False, True)
            assert [each[name] for name in ("estimates", "covariance")] == [
                first[name] for name in ("estimates", "covariance")
            ]


AgentRun = Callable[..., tuple[int, str]]


@pytest.fixture
def attic(place: Path, broker: Somewhere, capfd: pytest.CaptureFixture[str]) -> AgentRun:
    """Run the agent of the attic on some readings, the centre being away: exit code, and what it said."""

    def run_it(readings: str, *more: str) -> tuple[int, str]:
        (place / "more.csv").write_text(f"row,a,b\n{readings}\n")
        arguments = [
            place / "plan" / "attic.json", "--broker", f"mqtts://{broker.host}:{broker.port}",
            "--cert", KeyFolder(place / "keys").agent("attic").folder, "--in", place / "more.csv",
            "--store", place / "more.sqlite", "--accepted", place / "more.accepted",
            "--trust", place / "designer.pub", "--patience", 0,
        ]  # fmt: skip
        capfd.readouterr()
        code = run(["agent", *map(str, arguments), *more])
        return code, capfd.readouterr().err

    return run_it


def test_a_live_agent_refuses_a_step_back_and_more_than_was_agreed_to(place: Path, attic: AgentRun) -> None:
    """Its store counts what was ever released: a refused plan adds nothing."""
    file, envelope = place / "plan" / "attic.json", place / "plan" / "attic.json.dsse"
    kept = file.read_bytes(), envelope.read_bytes()
    assert "1 releases up to epoch 1" in attic("1,1.5,2.5", "--begin")[1]
    try:
        plan = json.loads(file.read_text())["plan"]
        save_sanitizer(vn.Sanitizer(np.eye(2), agent="attic", grid=[2.0**-20] * 2), file, plan)
        sign_files([file], place / "designer.key")
        code, said = attic("2,1.5,2.5")
        assert code == 2
        says(said, "tells more", "--confirm")
        file.write_bytes(kept[0])
        sign_files([file], place / "designer.key")
        assert "2 releases up to epoch 2" in attic("2,1.5,2.5")[1]
    finally:
        file.write_bytes(kept[0])
        envelope.write_bytes(kept[1])
    code, said = attic("3,1.5,2.5")
    assert code == 2
    assert "was run already" in said


def test_a_live_agent_stops_when_its_plan_expires(
    place: Path, attic: AgentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is current at the start, and has expired when the first reading comes."""
    for name in ("more.sqlite", "more.sqlite.lock", "more.accepted", "attic.released"):
        (place / name).unlink(missing_ok=True)
    asked = []

    def complaint(_statement: Statement, _now: object = None) -> str:
        asked.append(1)
        return "" if len(asked) == 1 else "it expired"

    monkeypatch.setattr(Statement, "complaint", complaint)
    code, said = attic("1,1.5,2.5", "--begin")
    assert code == 2
    says(said, "nothing more is sent", "expired")
    assert "releases" not in said
    monkeypatch.undo()
    assert "1 releases up to epoch 1" in attic("1,1.5,2.5")[1]


def test_a_centre_refuses_a_step_back(
    place: Path, broker: Somewhere, capfd: pytest.CaptureFixture[str]
) -> None:
    file, envelope = place / "plan" / "center.json", place / "plan" / "center.json.dsse"
    kept, record = envelope.read_bytes(), place / "plan" / "center.accepted"
    newer = sign_files([file], place / "designer.key")[1]
    accept(file, None, newer)
    envelope.write_bytes(kept)
    arguments = [file, "--broker", f"mqtts://{broker.host}:{broker.port}", "--trust", place / "designer.pub"]
    arguments += ["--cert", KeyFolder(place / "keys").centre.folder, "--out", place / "refused.sqlite"]
    assert run(["center", *map(str, arguments)]) == 2
    assert f"version {newer.version} was run already" in capfd.readouterr().err
    assert not (place / "refused.sqlite").exists()
    record.unlink()
