"""Several centres, each of a part of the agents, and one that merges: the estimates of one centre for all.

Oracle: ``Fusion.estimate`` of the whole plan, given all messages at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

import veilnet as vn
from helpers.brokers import PATIENCE, eventually, require_mosquitto
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.said import says
from veilnet.centre.partial_sums import PartialSum, messages_of_part, partial_sum
from veilnet.cli import run
from veilnet.cli._mosquitto import Broker
from veilnet.cli.center import _Service
from veilnet.io._sealed import seal
from veilnet.io.acceptance import PlanFile
from veilnet.io.centre_files import centre_document
from veilnet.live.broker import BrokerPlan
from veilnet.live.centre_store import CentreStore
from veilnet.live.epochs import Epochs
from veilnet.live.keys import KeyFolder, make_keys
from veilnet.live.merging import Merger, read_part
from veilnet.live.neighbours import Neighbours
from veilnet.live.reading import Reader
from veilnet.live.seals import make_seals
from veilnet.live.showing import as_table
from veilnet.live.topics import Topics

PARTS = (("kitchen", "living room"), ("hall", "bedroom", "study"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


class Split:
    """The house, whose rooms send to two centres."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.wired = Wired(folder, house_plan(), wait=1.0)
        _, readings = house_readings(self.wired.plan, rows)
        for agent, own in readings.items():
            self.wired.agents[agent].take(range(1, rows + 1), own)
        self.whole = vn.Fusion(self.wired.plan, gate=1e-6)
        self.payloads = {agent: self.wired.outbox(agent) for agent in readings}
        self.centres = []
        for number, agents in enumerate(PARTS):
            path = folder / f"center-{number}.json"
            model = vn.Fusion.load(folder / "plan/center.json").model
            path.write_bytes(seal(centre_document(messages_of_part(model, agents))))
            self.wired.document = path.read_bytes()
            self.centres.append(self.wired._new_centre(f"part-{number}.sqlite"))

    def published(
        self, part: int, epoch: int, *, without: tuple[str, ...] = (), now: float
    ) -> list[dict[str, Any]]:
        """What a centre says when the messages of its agents came, and the wait is over."""
        arrived = [
            (TOPICS.messages(agent), self.payloads[agent][epoch - 1])
            for agent in PARTS[part]
            if agent not in without and self.payloads[agent]
        ]
        centre = self.centres[part]
        made = [*centre.take(arrived, now).estimates, *centre.take([], now + 2.0).estimates]
        tables = [as_table(each, Epochs()) | {"sum": centre.sum_of(each)} for each in made]
        return json.loads(json.dumps(tables))

    def expected(self, epoch: int, *missing: str) -> Any:
        """The estimate of one centre."""
        sent = {
            agent: self.wired.seals[agent].open_message(each[epoch - 1]).numbers()
            for agent, each in self.payloads.items()
            if agent not in missing
        }
        return self.whole.estimate(sent)

    def close(self) -> None:
        for centre in self.centres:
            centre.store.close()
        self.wired.close()


@pytest.fixture
def split(tmp_path: Path):
    made = Split(tmp_path, 3)
    yield made
    made.close()


def same(table: dict[str, Any], expected: Any) -> None:
    values = [each["value"] for each in table["estimates"].values()]
    np.testing.assert_allclose(values, expected.public, rtol=1e-11)
    np.testing.assert_allclose(table["covariance"], expected.covariance, rtol=1e-10, atol=1e-13)
    assert set(table["missing"]) == set(expected.missing)


def test_parts_merge_to_the_estimates_of_one_centre_revisions_included(split: Split) -> None:
    merger = Merger(split.whole, ["one", "two"], 10.0, Epochs())
    for table in split.published(0, 1, now=0.0):
        merger.tell("one", table, 0.0)
    assert list(merger.due(0.0)) == []
    for table in split.published(1, 1, without=("study",), now=0.0):
        merger.tell("two", table, 1.0)
    (first,) = merger.due(1.0)
    same(first, split.expected(1, "study"))
    assert (first["revision"], first["newest"], first["parts_missing"]) == (0, True, [])
    late = split.published(1, 1, without=("hall", "bedroom"), now=5.0)
    for table in [*late, *late]:  # a broker may hand it on twice
        merger.tell("two", table, 6.0)
    (second,) = merger.due(6.0)
    same(second, split.expected(1))
    assert second["revision"] == 1
    assert list(merger.due(100.0)) == []


def test_a_part_that_is_silent_is_waited_for_and_then_named(split: Split) -> None:
    merger = Merger(split.whole, ["one", "two"], 10.0, Epochs())
    for table in split.published(1, 2, now=0.0):
        merger.tell("two", table, 0.0)
    assert list(merger.due(9.0)) == []
    (alone,) = merger.due(10.0)
    assert alone["parts_missing"] == ["one"]
    expected = split.expected(2, *PARTS[0])
    np.testing.assert_allclose(
        [each["value"] for each in alone["estimates"].values()], expected.public, rtol=1e-11
    )
    for table in split.published(0, 2, now=11.0):
        merger.tell("one", table, 12.0)
    (both,) = merger.due(12.0)
    same(both, split.expected(2))
    assert (both["revision"], both["parts_missing"]) == (1, [])


def test_what_cannot_be_merged_is_refused(split: Split) -> None:
    merger = Merger(split.whole, ["one", "two"], 10.0, Epochs())
    (table,) = split.published(0, 1, now=0.0)
    with pytest.raises(vn.InvalidRequest) as found:
        merger.tell("one", table | {"sum": table["sum"] | {"basis": "another"}}, 0.0)
    says(found.value, "same network")
    for part in ("one", "two"):  # the same one twice
        merger.tell(part, json.loads(json.dumps(table)), 0.0)
    (other,) = split.published(1, 1, now=0.0)
    merger.tell("two", other | {"revision": 1}, 0.0)
    assert len(list(merger.due(0.0))) == 1
    third = Merger(split.whole, ["one", "two", "three"], 10.0, Epochs())
    for part, each in (("one", table), ("two", other), ("three", table)):
        third.tell(part, json.loads(json.dumps(each)), 0.0)
    with pytest.raises(vn.InvalidRequest) as found:
        list(third.due(0.0))
    says(found.value, "--part", "two of them")
    with pytest.raises(vn.InvalidRequest) as found:
        Merger(vn.Fusion(house_plan(stream=True)), ["one"], 10.0, Epochs())
    says(found.value, "streams")


def test_what_has_no_sum_is_left_out_and_said_once(split: Split) -> None:
    """A part that is started anew with --sums still has an estimate without them on its broker, retained."""
    said: list[str] = []
    merger = Merger(split.whole, ["one", "two"], 10.0, Epochs(), said.append)
    (table,) = split.published(0, 1, now=0.0)
    for revision in range(3):
        before = {key: each for key, each in table.items() if key != "sum"}
        merger.tell("one", before | {"revision": revision}, 0.0)
    assert list(merger.due(100.0)) == []
    (words,) = said
    says(words, "one", "--sums")
    merger.tell("one", table, 100.0)
    (made,) = merger.due(200.0)
    assert made["agents"] == len(PARTS[0])


def test_a_part_that_is_given_twice_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    house_plan().save(tmp_path / "plan")
    part = ["--part", f"{tmp_path}/keys=mqtts://localhost:1/house"]
    assert run(["live", "merge", str(tmp_path / "plan/center.json"), *part, *part]) == 2
    says(capfd.readouterr().err, "--part", "twice")


def test_a_centre_with_sums_does_not_take_up_a_plan_whose_sums_cannot_be_published(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, topics = tmp_path / "plan", Topics()
    house_plan().save(folder)
    assert run(["live", "keys", str(folder), "--out", str(tmp_path / "keys")]) == 0
    file, credentials = folder / "center.json", KeyFolder(tmp_path / "keys").centre
    with CentreStore(tmp_path / "estimates.sqlite") as store:
        service = _Service(
            PlanFile(file),
            store,
            topics,
            {},
            credentials,
            Neighbours(topics, "1", None, False, ""),
            "",
            None,
            sums=True,
        )
        service.take_up(file.read_bytes(), None)
        before = service._centre.plan
        house_plan(stream=True).save(folder, force=True)
        assert not service._watch.check()
        says(capfd.readouterr().err, "previous plan continues", "streams")
        assert service._centre.plan == before


def test_a_reader_whose_subscription_is_refused_is_not_called_connected(tmp_path: Path) -> None:
    keys, said = make_keys(tmp_path / "keys", ["a"], readers=("all",)).keys, list[str]()
    make_seals(keys, ["a"], ("all",))
    reader = Reader(
        Topics(),
        keys.reader("all"),
        ("localhost", 1),
        say=said.append,
        estimated=lambda _: None,
        history=None,
    )
    granted, refused = (ReasonCode(PacketTypes.SUBACK, name) for name in ("Granted QoS 1", "Not authorized"))
    reader._client.on_subscribe(reader._client, None, 1, [granted, refused], None)
    (words,) = said
    says(words, "refuses", "Not authorized")
    reader._client.on_subscribe(reader._client, None, 1, [granted, granted], None)
    assert said[1:] == ["connected to the broker"]


def test_agents_that_do_not_determine_x_give_nothing_rather_than_something() -> None:
    network = vn.Network({"a": [[1.0, 0.0]], "b": [[0.0, 1.0]]}, 0.5, {"level": [1, 1]}, {"gait": [1, -1]})
    fusion = vn.Fusion(vn.design(network))
    sent = {agent: np.ones(size) for agent, size in fusion.sent.items()}
    merger = Merger(fusion, ["one", "two"], 1.0, Epochs())
    for part, agent in (("one", "a"), ("two", "b")):
        total = partial_sum(fusion, {agent: sent[agent]})
        words = json.loads(json.dumps(total.as_words(fusion.model.basis)))
        again = PartialSum.of_words(words, fusion)
        assert np.array_equal(again.information, total.information)
        assert np.array_equal(again.vector, total.vector)
        merger.tell(part, {"epoch": 1, "revision": 0, "missing": [], "contradicting": [], "sum": words}, 0.0)
        (table,) = merger.due(2.0)
        value = table["estimates"]["level"]["value"]
        if part == "one":
            assert value is None
    assert value == pytest.approx(fusion.estimate(sent).public[0], rel=1e-12)


def test_a_split_writes_over_no_file_of_an_agent_and_goes_with_its_plan(tmp_path: Path) -> None:
    def save(first: str) -> None:
        rows = {first: [[1.0, 0.2]], "hall": [[0.3, 1.0]]}
        prior = vn.Prior(np.eye(2))
        network = vn.Network(rows, 0.5, {"level": [1, 0]}, {"gait": [0, 1]}, prior, resolution=0)
        vn.design(network).save(folder, force=True)

    folder = tmp_path / "plan"
    save("center-1")
    before = (folder / "center-1.json").read_bytes()
    split = ["live", "split", str(folder), "--parts"]
    assert run([*split, "2"]) != 0  # that is an agent's file
    assert (folder / "center-1.json").read_bytes() == before
    save("study")
    assert run([*split, "3"]) != 0
    assert run([*split, "2"]) == 0
    assert [vn.Fusion.load(folder / f"center-{part}.json").agents for part in (1, 2)] == [
        ("study",),
        ("hall",),
    ]
    vn.Plan.load(folder)
    save("attic")
    assert sorted(path.name for path in folder.glob("*.json")) == [
        "attic.json", "center.json", "hall.json", "plan.json"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["keys", "=mqtts://a:1/b", "keys=mqtt://a:1", "keys=mqtts:///b"])
def test_a_part_is_a_folder_and_a_place(text: str) -> None:
    with pytest.raises(vn.InvalidRequest) as found:
        read_part(text)
    says(found.value, "--part", "mqtts://")


@pytest.mark.slow
def test_two_centres_and_a_merger_by_the_command_line(tmp_path: Path) -> None:
    """Two brokers, two roots; the merged lines are the estimates of all agents."""
    require_mosquitto()
    plan, rows = house_plan(), 4
    plan.save(tmp_path / "plan")
    assert run(["live", "split", str(tmp_path / "plan"), "--parts", "2"]) == 0
    _, readings = house_readings(plan, rows)
    with ExitStack() as opened:
        running: list[subprocess.Popen[bytes]] = []

        def start(*arguments: object, **how: Any) -> subprocess.Popen[bytes]:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "veilnet", *map(str, arguments)], env=ENVIRONMENT, **how
                )
            )
            return running[-1]

        places, agents = [], []
        for part in ("1", "2"):
            file, keys = tmp_path / f"plan/center-{part}.json", KeyFolder(tmp_path / f"keys-{part}")
            mine = ["live", "keys", str(file), "--out", str(keys.folder), "--root", f"house/{part}"]
            assert run([*mine, "--reader", "all"]) == 0
            names = vn.Fusion.load(file).agents
            broker_plan = BrokerPlan(names, Topics(f"house/{part}"), ["all"])
            broker = opened.enter_context(Broker(keys.broker, broker_plan))
            common = ("--broker", broker.address, "--root", f"house/{part}")
            places += ["--part", f"{keys.reader('all').folder}={broker.address}/house/{part}"]
            start(
                "center", file, *common, "--cert", keys.centre.folder, "--out", tmp_path / f"{part}.sqlite", "--sums",
                "--quiet",
            )  # fmt: skip
            for agent in names:
                own = tmp_path / f"{agent}.csv"
                names_of = plan.network.reading_names[agent]
                lines = [
                    f"{k + 1},{','.join(map(repr, row.tolist()))}\n" for k, row in enumerate(readings[agent])
                ]
                own.write_text(f"row,{','.join(names_of)}\n{''.join(lines)}")
                given = ("--cert", keys.agent(agent).folder, "--in", own, "--begin")
                agents.append((f"plan/{agent}.json", *common, *given))
        try:
            words = tmp_path / "words.txt"
            with (tmp_path / "merged.jsonl").open("w") as merged, words.open("w") as beside:
                arguments = ("live", "merge", tmp_path / "plan/center.json", *places, "--wait", "1h")
                start(*arguments, stdout=merged, stderr=beside)
            assert eventually(lambda: words.read_text().count("connected") >= 2)  # history is not retained
            for file, *given in agents:
                start("agent", tmp_path / file, *given)

            def tables() -> dict[int, dict[str, Any]]:
                lines = (tmp_path / "merged.jsonl").read_text().splitlines()
                return {each["epoch"]: each for each in map(json.loads, lines)}

            assert eventually(lambda: len(tables()) == rows)
        finally:
            for process in running:
                if process.poll() is None:
                    process.terminate()
                process.wait(PATIENCE)
        reports: dict[int, dict[str, Any]] = {}
        for part in ("1", "2"):
            with CentreStore(tmp_path / f"{part}.sqlite") as store:
                for epoch in range(1, rows + 1):
                    sent = {agent: values for agent, (_, values) in store.reports([1], epoch).items()}
                    reports.setdefault(epoch, {}).update(sent)
        for epoch, table in tables().items():
            same(table, vn.Fusion(plan).estimate(reports[epoch]))
            assert (table["parts_missing"], table["agents"]) == ([], len(reports[epoch]))
