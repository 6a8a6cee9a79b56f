"""What years of service ask of agents and centre: stores that stay small, full disks that pass, alerts that fit."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
import yaml

import veilnet as vn
from helpers.brokers import eventually, require_mosquitto
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.said import says
from veilnet._core.errors import InvalidRequest, Unwritable
from veilnet.cli._lines import log_as, speaker
from veilnet.cli._mosquitto import Broker
from veilnet.io.agent_ledger import Ledger
from veilnet.io.agent_store import AgentStore, Kept, begin_agent_store
from veilnet.live import centre_store, metrics
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import make_keys
from veilnet.live.metrics import MetricsServer, of_agent, of_centre, of_service
from veilnet.live.seals import make_seals
from veilnet.live.sending import Sender
from veilnet.live.status import read_status

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/live"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def test_an_agents_store_writes_little_and_keeps_little_beside(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.sqlite"
    begin_agent_store(path, "kitchen")
    most = 0
    with AgentStore(path, "kitchen") as store:
        for epoch in range(1, 301):
            (reserved,) = store.reserve("p" * 64, [epoch])
            store.keep("p" * 64, [Kept(reserved, os.urandom(120), released=True)])
            store.settle([(reserved.sequence, reserved.sequence)], [])
            most = max(most, path.with_name(path.name + "-wal").stat().st_size)
    assert most < 400_000  # 4 MB by SQLite's own rule
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA page_size").fetchone() == (512,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_old_epochs_are_forgotten_while_the_centre_runs_and_never_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(centre_store, "EPOCHS_KEPT", 4)
    monkeypatch.setattr(centre_store, "_AT_ONCE", 3)
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, 12)
    for agent, own in readings.items():
        wired.agents[agent].take(range(1, 13), own)
    old = wired.outbox("kitchen")[0]
    wired.hand_over()
    store = wired.centre.store
    assert store.forget_before(time.time() - 3600) == 0  # all are new
    store._db.execute("UPDATE estimates SET made = made - 7200 WHERE epoch != 2")
    assert store.forget_before(time.time() - 3600) == 1  # an epoch estimated lately ends it, and stays
    assert [each.epoch for each in wired.centre.kept(1, 3)] == [2, 3]
    counts = []
    while count := store.forget_before(time.time() + 1):
        counts.append(count)
    assert counts == [3, 3, 1]
    status = read_status(store.path)
    assert (status.epochs, status.newest) == (12, 12)
    assert [each.epoch for each in wired.centre.kept(1, 12)] == [9, 10, 11, 12]
    wired.centre.take([(TOPICS.messages("kitchen"), old)], wired.clock)
    assert store.counts["kitchen", "old"] == 1
    wired.close()


def test_what_could_not_be_written_is_forgotten_and_comes_again(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, 400)
    for agent, own in readings.items():
        wired.agents[agent].take(range(1, 401), own)
    store = wired.centre.store
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unwritable) as found:
        wired.hand_over()
    says(found.value, "could not be written", "full", "nothing")
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.reload()
    assert store.newest == {}
    wired.start_centre()
    wired.hand_over()
    status = read_status(store.path)
    assert (status.epochs, {each.messages for each in status.agents}) == (400, {400})
    wired.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are Linux's")
def test_a_centre_whose_disk_was_full_goes_on_by_itself(tmp_path: Path) -> None:
    require_mosquitto()
    wired = Wired(tmp_path, house_plan())
    agents = list(wired.agents)
    keys = make_keys(tmp_path / "keys", agents).keys
    make_seals(keys, agents)
    _, readings = house_readings(wired.plan, 300)
    out = tmp_path / "service.sqlite"
    with Broker(keys.broker, BrokerPlan(agents)) as broker:
        command = [
            sys.executable, "-m", "veilnet", "center", str(tmp_path / "plan/center.json"), "--broker", broker.address,
            "--cert", str(keys.centre.folder), "--out", str(out), "--log", "json", "--quiet", "--wait", "1s",
        ]  # fmt: skip
        said = tmp_path / "said.txt"
        with said.open("w") as words:
            centre = subprocess.Popen(command, stderr=words, env=ENVIRONMENT)
        try:
            assert eventually(lambda: "connected to the broker" in said.read_text())
            unlimited = resource.prlimit(centre.pid, resource.RLIMIT_FSIZE)
            now = out.with_name(out.name + "-wal").stat().st_size
            resource.prlimit(centre.pid, resource.RLIMIT_FSIZE, (now, unlimited[1]))
            senders = []
            for agent, own in readings.items():
                wired.agents[agent].take(range(1, 301), own)
                from veilnet.live.seals import agent_seal

                seal = agent_seal(keys.agent(agent), agent)
                store = wired.agents[agent].store
                with store._db:
                    for sequence, payload in store.waiting(0, 1000):
                        sealed = seal.message(wired.seals[agent].open_message(payload))
                        store._db.execute(
                            "UPDATE outbox SET payload = ? WHERE sequence = ?", (sealed, sequence)
                        )
                address = (broker.host, broker.port)
                senders.append(Sender(store, seal, TOPICS, keys.agent(agent), address, lambda _: None))
                senders[-1].start()
            assert eventually(lambda: "could not be written" in said.read_text())
            resource.prlimit(centre.pid, resource.RLIMIT_FSIZE, unlimited)
            assert all(sender.drain(120) for sender in senders)
            for sender in senders:
                sender.stop()
        finally:
            centre.terminate()
            centre.wait(120)
    wired.close()
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    assert {each["level"] for each in lines if "could not be written" in each["message"]} == {"warning"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["time"]) for each in lines)
    status = read_status(out)
    assert {each.messages for each in status.agents} == {300}
    assert status.epochs == 300


def test_lines_of_a_service_have_time_and_level_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say = speaker("center")
    try:
        for form in ("text", "json", None):
            log_as(form)
            say("connected to the broker")
    finally:
        log_as(None)
    text, as_json, plain = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\S+Z info veilnet center: connected to the broker", text)
    assert json.loads(as_json)["message"] == "connected to the broker"
    assert plain == "veilnet center: connected to the broker"


@pytest.mark.parametrize(
    "place",
    ["0.0.0.0:9464", "[::]:9464", "0:0", "0.0:0", "000.0.0.0:0", "[0::0]:0", "70000", "name", "a b:1"],
)
def test_where_metrics_answer_is_a_port_or_the_name_they_are_asked_by(place: str) -> None:
    with pytest.raises(InvalidRequest) as found:
        MetricsServer(place, list)
    says(found.value, "--metrics", "name:port", place)


def test_who_connects_and_asks_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_PATIENCE", 0.2)
    server = MetricsServer(0, list).start()
    try:
        with socket.create_connection(("127.0.0.1", server._server.server_port), timeout=20.0) as idle:
            assert idle.recv(1) == b""
    finally:
        server.stop()


def test_a_centre_that_does_not_lead_yet_says_how_it_is(tmp_path: Path) -> None:
    """A standby, or one that has no broker: an alert must tell it from one that is down."""
    plan = house_plan()
    plan.save(tmp_path / "plan")
    keys = make_keys(tmp_path / "keys", list(plan.sanitizers)).keys
    make_seals(keys, list(plan.sanitizers))
    command = [
        sys.executable, "-m", "veilnet", "center", str(tmp_path / "plan/center.json"), "--broker", "mqtts://localhost:1",
        "--cert", str(keys.centre.folder), "--out", str(tmp_path / "estimates.sqlite"), "--metrics", "0",
    ]  # fmt: skip
    log = tmp_path / "log.txt"
    with log.open("w") as words, subprocess.Popen(command, stderr=words, env=ENVIRONMENT) as centre:
        try:
            assert eventually(lambda: "no connection" in log.read_text())
            (address,) = re.findall(r"metrics at (\S+)", log.read_text())
            with urllib.request.urlopen(address, timeout=120) as answer:
                found = answer.read().decode().splitlines()
            assert {"veilnet_leads 0", "veilnet_connected 0", "veilnet_epochs_total 0"} <= set(found)
            with pytest.raises(urllib.error.HTTPError) as health:
                urllib.request.urlopen(address.replace("metrics", "health"), timeout=120)
            assert health.value.code == 503
            assert json.load(health.value)["problems"] == ["no connection to the broker"]
        finally:
            centre.terminate()
    assert centre.returncode == 0


def exposed(tmp_path: Path) -> set[str]:
    """The names of all metrics of agents and centres."""
    wired = Wired(tmp_path, house_plan())
    status = read_status(wired.centre.store.path)
    path = wired.centre.store.path
    wired.close()
    keys = make_keys(tmp_path / "keys", ["a"]).keys
    until = keys.centre.expires()
    families = [
        *of_service(path, True, until, until, 1.0),
        *of_centre(status, 1.0, True),
        *of_agent(Ledger(1, 0, 0, 0, 5, 1, "")),
    ]
    return {f"veilnet_{name}" for name, _, _ in families}


def test_alerts_and_the_dashboard_ask_for_what_is_there(tmp_path: Path) -> None:
    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yml").read_text(encoding="utf-8"))
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    board = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for expression in asked for name in re.findall(r"\bveilnet_\w+", expression)}
    assert names
    assert names <= exposed(tmp_path)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    promtool = shutil.which("promtool")
    if promtool is not None:
        ran = subprocess.run(
            [promtool, "check", "rules", str(EXAMPLES / "prometheus-rules.yml")], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
