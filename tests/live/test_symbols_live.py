"""Plans of symbols in a live network: the same agents, the same centre.

Oracle for estimates: ``SymbolPlan.estimate`` in process, given the symbols that ``SymbolPlan.send`` finds.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.brokers import Client, eventually, require_mosquitto
from helpers.live_networks import TOPICS, Wired
from helpers.symbol_table import symbol_table, write_symbol_table
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker
from veilnet.io.outbox import Message
from veilnet.live.broker import BrokerPlan
from veilnet.live.epochs import Epochs
from veilnet.live.fusions import WINDOW
from veilnet.live.home_assistant import discovery_topic
from veilnet.live.keys import KeyFolder
from veilnet.live.metrics import as_metrics, of_centre
from veilnet.live.showing import as_line, as_table
from veilnet.live.status import newest_estimates, read_status
from veilnet.live.telegraf import lines
from veilnet.studio.live_page import live_page

AGENTS = {"hall": ["a"], "attic": ["c"], "loft": ["b", "d"]}
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
ROWS = 30


def learned(public: str) -> vn.SymbolPlan:
    # the fewest symbols: no agent tosses a coin, so two runs send the same
    return vn.learn_symbols(symbol_table(600), AGENTS, public, ["person"])


@pytest.fixture(scope="module")
def of_class() -> vn.SymbolPlan:
    return learned("activity")


@pytest.fixture
def wired(tmp_path: Path, of_class: vn.SymbolPlan) -> Any:
    made = Wired(tmp_path, of_class, wait=10.0)
    yield made
    made.close()


def readings(table: dict[str, Any], agent: str) -> np.ndarray:
    return np.stack([table[name] for name in AGENTS[agent]], axis=1)


def take(wired: Wired, table: dict[str, Any], *agents: str, first: int = 1) -> None:
    for agent in agents or AGENTS:
        rows = readings(table, agent)
        wired.agents[agent].take(range(first, first + len(rows)), rows)


def test_a_class_is_estimated_as_in_process_and_once(wired: Wired, of_class: vn.SymbolPlan) -> None:
    table = symbol_table(12, seed=3)
    take(wired, table)
    again = [(TOPICS.messages(agent), each) for agent in AGENTS for each in wired.outbox(agent)]
    made = wired.hand_over().estimates
    expected = of_class.estimate(of_class.send(table))
    assert [each.estimate.value for each in made] == expected.public.tolist()
    np.testing.assert_array_equal([each.estimate.public for each in made], expected.probabilities)
    assert wired.centre.take(again, 0.0).duplicates == 36
    wired.start_centre()
    assert wired.centre.take(again, 1.0).estimates == []
    kept = [as_table(each, Epochs()) for each in wired.centre.kept(1, 12)]
    assert kept == [as_table(each, Epochs()) | {"newest": False} for each in made]
    stored = newest_estimates(wired.folder / "estimates.sqlite", 12)[::-1]
    np.testing.assert_array_equal([each["public"] for each in stored], expected.probabilities)


def test_who_is_missing_is_named_and_a_late_message_revises(wired: Wired, of_class: vn.SymbolPlan) -> None:
    table = symbol_table(4, seed=4)
    take(wired, table, "hall", "attic")
    assert wired.hand_over("hall", "attic").estimates == []
    wired.clock = 11.0
    made = wired.hand_over().estimates
    symbols = of_class.send(table)
    without = of_class.estimate({agent: symbols[agent] for agent in ("hall", "attic")})
    np.testing.assert_array_equal([each.estimate.public for each in made], without.probabilities)
    assert {each.estimate.missing for each in made} == {("loft",)}
    take(wired, table, "loft")
    late = wired.hand_over("loft").estimates
    assert {each.revision for each in late} == {1}
    np.testing.assert_array_equal(
        [each.estimate.public for each in late], of_class.estimate(symbols).probabilities
    )


def test_one_agent_does_not_speak_for_all_and_a_refused_reading_is_missed(wired: Wired) -> None:
    take(wired, symbol_table(3, seed=4), "hall")
    wired.clock = 11.0
    assert wired.hand_over("hall").estimates == []
    outcome = wired.agents["attic"].take([1], np.array([[1e6]]))
    assert (outcome.sent, list(outcome.missed)) == (0, [1])
    assert "outside the range" in outcome.missed[1]


@pytest.mark.parametrize("value", [0.5, -1.0, 99.0])
def test_what_is_no_symbol_of_the_plan_is_refused(wired: Wired, value: float) -> None:
    message = Message(
        plan=wired.agents["hall"].plan, agent="hall", store=b"s" * 8, sequence=1, epoch=1, after=0, private=True,
        values=np.array([value], "<f8").tobytes(),
    )  # fmt: skip
    payload = wired.seals["hall"].message(message)
    taken = wired.centre.take([(TOPICS.messages("hall"), payload)], 0.0)
    assert taken.refused == 1
    assert wired.centre.store.counts["hall", "numbers"] == 1


def test_another_law_voids_the_promise_and_the_same_law_does_not(wired: Wired) -> None:
    store = wired.folder / "estimates.sqlite"
    take(wired, symbol_table(WINDOW + 1, seed=7))
    assert wired.hand_over().estimates[-1].drifted == ()
    assert read_status(store).drifted == ()
    moved = symbol_table(WINDOW + 1, seed=8)
    moved["a"] = np.minimum(moved["a"] + 0.5, 2.4)
    take(wired, moved, first=WINDOW + 2)
    last = wired.hand_over().estimates[-1]
    assert last.drifted == ("hall",)
    wired.start_centre()
    assert wired.centre.drifted(wired.id) == ("hall",)
    status = read_status(store)
    assert (status.drifted, status.refusals, status.agents[0].refused) == (("hall",), {}, 0)
    assert 'veilnet_drifted{agent="hall"} 1' in as_metrics(of_centre(status, None, leads=True))
    assert "promise void: hall" in as_line(last, Epochs())
    assert "void until it is learned anew" in live_page(store)


def test_a_class_is_shown_by_its_name(wired: Wired) -> None:
    take(wired, symbol_table(2, seed=3))
    made = wired.hand_over().estimates[-1]
    shown = json.loads(json.dumps(as_table(made, Epochs())))
    said = shown["estimates"]["activity"]
    assert said["value"] == made.estimate.value
    assert said["chance"] == max(said["probabilities"].values()) == pytest.approx(made.estimate.public.max())
    assert set(said["probabilities"]) == {"0", "1", "2"}
    assert f'class="{said["value"]}",chance={said["chance"]!r},' in lines(shown, TOPICS)
    assert f"activity {said['value']} (chance {said['chance']:.2f})" in as_line(made, Epochs())
    assert f"now {said['value']}, with chance" in live_page(wired.folder / "estimates.sqlite")


def test_a_number_has_its_error_also_without_an_agent(tmp_path: Path) -> None:
    """The stated deviation (4 % by chance) against the error of 600 fresh rows (3 %): three times both is allowed."""
    plan = learned("heat")
    wired, table = Wired(tmp_path, plan, wait=0.0), symbol_table(600, seed=9)
    for agents in (("hall", "attic", "loft"), ("attic", "loft")):
        first = 1 + 600 * (len(agents) == 2)
        take(wired, table, *agents, first=first)
        made = wired.hand_over(*agents).estimates
        symbols = plan.send(table)
        expected = plan.estimate({agent: symbols[agent] for agent in agents})
        np.testing.assert_array_equal([each.estimate.public[0] for each in made], expected.public)
        error = np.sqrt(np.mean((expected.public - table["heat"]) ** 2))
        assert made[0].estimate.deviation[0] == pytest.approx(error, rel=0.15)
    wired.close()


@pytest.mark.slow
def test_from_the_plan_folder_over_a_broker_with_a_centre_killed(
    tmp_path: Path, of_class: vn.SymbolPlan
) -> None:
    """All by the command line: keys, a broker, a centre that is killed and goes on, three agents, a reader."""
    require_mosquitto()
    table, out, log = symbol_table(ROWS, seed=5), tmp_path / "estimates.sqlite", tmp_path / "log.txt"
    of_class.save(tmp_path / "plan")
    assert (
        run(["live", "keys", str(tmp_path / "plan"), "--out", str(tmp_path / "keys"), "--reader", "screen"])
        == 0
    )
    keys = KeyFolder(tmp_path / "keys")
    for agent, columns in AGENTS.items():
        write_symbol_table(tmp_path / f"{agent}.csv", table, *columns)

    def start(*arguments: object) -> subprocess.Popen[bytes]:
        with log.open("ab") as words:
            return subprocess.Popen(
                [sys.executable, "-m", "veilnet", *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=ENVIRONMENT,
            )  # fmt: skip

    def epochs() -> int:
        return read_status(out).epochs if out.exists() else 0

    running = []
    with Broker(keys.broker, BrokerPlan(tuple(AGENTS), readers=["screen"])) as broker:
        common = ("--broker", broker.address)
        centre = (
            "center", tmp_path / "plan/center.json", *common, "--cert", keys.centre.folder, "--out", out,
            "--wait", "60s", "--home-assistant", "--json",
        )  # fmt: skip
        try:
            running.append(start(*centre))
            agents = [
                start(
                    "agent", tmp_path / f"plan/{agent}.json", *common, "--cert", keys.agent(agent).folder, "--in",
                    tmp_path / f"{agent}.csv", "--begin",
                )
                for agent in AGENTS
            ]  # fmt: skip
            running += agents
            assert eventually(lambda: epochs() > 0), log.read_text()
            running[0].kill()
            running[0].wait()
            running.append(start(*centre))
            assert [each.wait(120) for each in agents] == [0, 0, 0], log.read_text()
            assert eventually(lambda: epochs() == ROWS), log.read_text()
            with Client(broker, keys.reader("screen")) as screen:  # both are retained
                topics = {discovery_topic(TOPICS), TOPICS.estimates}
                for topic in topics:
                    screen.subscribe(topic)
                said = eventually(lambda: {topic for topic, _ in screen.received} == topics)
                assert said, (screen.lost, screen.received, log.read_text())
        finally:
            for process in running:
                if process.poll() is None:
                    process.terminate()
                process.wait(120)
    expected = of_class.estimate(of_class.send(table))
    with closing(sqlite3.connect(out)) as database:
        stored = [
            json.loads(each) for (each,) in database.execute("SELECT public FROM latest ORDER BY epoch")
        ]
        assert database.execute("SELECT count(*), count(DISTINCT epoch) FROM messages").fetchone() == (90, 30)
    np.testing.assert_array_equal(stored, expected.probabilities)
    sensors = json.loads(dict(screen.received)[discovery_topic(TOPICS)])["components"].values()
    (value,) = [each for each in sensors if each.get("device_class") == "enum"]
    assert value["options"] == ["0", "1", "2"]
    assert value["value_template"] == '{{ value_json.estimates["activity"].value }}'
    assert not {"state_class", "unit_of_measurement"} & set(value)
    assert {each["name"] for each in sensors} == {
        "activity", "activity chance", "agents missing", "agents drifted"
    }  # fmt: skip
