"""The page of the protocol is true: its tables are the code's, and the centre takes what agents made from it send."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.code_blocks import ROOT, blocks, table_under
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.networks import random_network
from veilnet._core.durations import RowStep
from veilnet.agent.release import release_valid
from veilnet.centre.fusion import Fusion
from veilnet.io.template import house
from veilnet.live import broker, connecting, intake, sending
from veilnet.live.messages import MOST_BYTES, Malformed, Message, Receipt, Seal
from veilnet.live.neighbours import Publication
from veilnet.live.topics import CENTRE, identity
from veilnet.plans.plan import make_plan

PAGE = (ROOT / "docs/reference/protocol.md").read_text(encoding="utf-8")
CODE = [block.code for block in blocks(PAGE) if block.language == "python"]
OF_AGENTS = ("messages", "acks", "sums", "rounds")
PUBLISHED = {  # file and first argument of what publishes -> topic
    ("sending", "self._messages"): "messages",
    ("sum_rounds", "self._messages"): "sums",
    ("second_centre", "self._messages"): "sums",
    ("receiving", "self._topics.acks(agent)"): "acks",
    ("receiving", "self._topics.rounds(agent)"): "rounds",
    ("receiving", "topics.status"): "status",
    ("receiving", "self._topics.status"): "status",
    ("receiving", "topic"): "status",
    ("lease", "topic"): "lease copies",
    ("receiving", "self._topics.heard"): "heard",
    ("publishing", "topic"): "estimates history",
    ("neighbours", "self.topics.influx"): "influx",
}


def test_messages_and_receipts_have_the_elements_of_the_code() -> None:
    assert list(table_under(PAGE, "Elements of a message"))[1:] == list(Message.__struct_fields__)
    assert list(table_under(PAGE, "Elements of a receipt"))[1:] == list(Receipt.__struct_fields__)
    assert f"{MOST_BYTES:,} bytes" in PAGE


def test_topics_are_written_by_whom_the_broker_lets() -> None:
    """Oracle: the access list that 'live keys' writes."""
    rules = broker.access_list(broker.BrokerPlan(["<agent>"], readers=["screen"]))
    allowed: dict[str, str] = {}
    for user, *lines in (part.splitlines() for part in rules.split("user ")[1:]):
        who = {CENTRE: "the centre", identity("<agent>"): "that agent"}.get(user)
        for line in lines:
            if who and line.startswith(("topic write veilnet/", "topic readwrite veilnet/")):
                topic = line.split()[2].replace("+", "<agent>").replace(identity("<agent>"), "<agent>")
                allowed[topic] = who
    assert {topic: cells[0] for topic, cells in table_under(PAGE, "Topics").items()} == allowed


def test_quality_of_service_is_that_of_every_call_that_publishes() -> None:
    found: dict[str, str] = {}
    for file in (ROOT / "src/veilnet/live").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called.endswith("lient.publish") or called == "Publication":
                first = ast.unparse(node.args[0]).replace("client.", "")
                if first == "each.topic" or first.startswith("home_assistant."):
                    continue  # a Publication, looked at where it is made; not a topic of the network
                given = [ast.unparse(each.value) for each in node.keywords if each.arg == "qos"]
                service = given[0] if given else str(Publication("", "").qos)
                for topic in PUBLISHED[file.stem, first].split():
                    assert found.setdefault(topic, service) == service
    table = {topic.split("/")[1]: cells[1] for topic, cells in table_under(PAGE, "Topics").items()}
    assert table == found


def test_words_of_refusal_are_those_of_the_code_in_its_order() -> None:
    table = table_under(PAGE, "What the centre checks")
    kept = {*intake.NOT_USED, "round"}
    assert set(table) == set(intake.REASONS) - kept
    in_code = (ROOT / "src/veilnet/live/intake.py").read_text(encoding="utf-8").split("def look")[1]
    told = set(re.findall(r'RefusedMessage\(agent, "(\w+)", message\)', in_code))
    assert {word for word, cells in table.items() if cells[1] == "yes"} == told | {"old", "conflict"}


def test_times_of_the_connection_are_those_of_the_code() -> None:
    first, most = sending._PATIENCE
    assert f"after {first:.0f} s, then 10, 20, 40 and every {most:.0f} s" in PAGE
    assert f"at most {broker.ON_ITS_WAY} messages" in PAGE
    assert f"keep-alive of {connecting.KEEPALIVE} s" in PAGE


def test_the_centre_takes_what_agents_made_from_the_page_send(
    page_agent: dict[str, Any], tmp_path: Path
) -> None:
    """All agents of the house, by the page alone; oracle for the estimate: Fusion of the numbers they sent."""
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, 5)
    fusion = Fusion(wired.plan, gate=1e-6)
    random = np.random.default_rng(1)
    stores = {agent: random.bytes(8) for agent in readings}
    for row in range(5):
        sent, arrived = {}, []
        for agent, rows in readings.items():
            file = page_agent["read_agent_file"]((tmp_path / f"plan/{agent}.json").read_bytes())
            sent[agent] = page_agent["numbers_sent"](
                file,
                rows[row].tolist(),
                lambda: page_agent["uniform_of"](random.bytes(8)),
                lambda: page_agent["normal_of"](random.bytes(12)),
            )
            secret = agent.encode().ljust(32, b".")
            payload = page_agent["message"](secret, file, stores[agent], row + 1, row + 1, sent[agent])
            arrived.append((TOPICS.messages(agent), payload))
        taken = wired.centre.take(arrived, 0.0)
        assert (taken.new, taken.refused) == (len(readings), 0)
        receipts = dict(taken.receipts)
        assert all(receipts[agent].kept == [(row + 1, row + 1)] for agent in readings)
        (estimate,) = taken.estimates
        numbers = {agent: np.array(each) for agent, each in sent.items()}
        assert np.array_equal(estimate.estimate.public, fusion.estimate(numbers).public)
        assert wired.centre.take(arrived, 0.0).duplicates == len(readings)
    wired.close()


def test_draws_of_the_page_give_the_published_vectors(page_agent: dict[str, Any]) -> None:
    """The page's agent and the file for other implementers agree: bytes in, numbers out, in the same order."""
    vectors = json.loads((ROOT / "examples/device/vectors.json").read_text(encoding="utf-8"))
    each = next(vector for vector in vectors if "memory" not in vector["agent"])
    tape = iter(bytes.fromhex(each["random_bytes"]))

    def take(count: int) -> bytes:
        return bytes(next(tape) for _ in range(count))

    found = [
        page_agent["numbers_sent"](
            each["agent"],
            row,
            lambda: page_agent["uniform_of"](take(8)),
            lambda: page_agent["normal_of"](take(12)),
        )
        for row in each["rows"]
    ]
    assert found == each["numbers"]
    assert not list(tape)


def test_normal_draws_of_the_page_are_the_code_s(page_agent: dict[str, Any]) -> None:
    from veilnet.agent.randomness import normal_from_bits

    random = np.random.default_rng(3)
    drawn = [
        *(random.bytes(12) for _ in range(2000)),
        bytes(12),
        b"\xff" * 12,
        b"\1" + bytes(11),
    ]
    expected = normal_from_bits(
        np.array([int.from_bytes(each[:8], "little") for each in drawn], np.uint64),
        np.array([int.from_bytes(each[8:], "little") for each in drawn], np.uint32),
    )
    assert np.allclose([page_agent["normal_of"](each) for each in drawn], expected, rtol=1e-14)


def test_epochs_of_the_page_are_the_code_s(page_agent: dict[str, Any]) -> None:
    for step, origin in ((900, None), (900, 420), (900, 450), (60, 0), (7, 3)):
        rows = RowStep(float(step), None if origin is None else float(origin))
        for time in (0, 1, 869_999_999, 870_000_000, 1_700_000_000_123_456):
            given = (time, step * 10**6, None if origin is None else origin * 10**6)
            assert page_agent["epoch_of"](*given) == rows.row_at(time)


class Drawn:
    """A source of noise that hands out draws of a list, the same for the next one."""

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def uniform(self, shape: tuple[int, ...] = ()) -> Any:
        return self._rng.random(shape) - 0.5

    def normal(self, shape: tuple[int, ...] = ()) -> Any:
        return self._rng.standard_normal(shape)


@pytest.fixture(scope="module")
def page_agent() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(CODE[0], "protocol.md", "exec"), names)
    return names


def plans() -> Iterator[vn.Plan]:
    yield vn.design(house())
    network = random_network(3, prior="covariance")
    rng = np.random.default_rng(2)
    yield make_plan(
        network,
        {
            name: vn.Sanitizer(rng.standard_normal((2, size)), [0.5, 1e-16], offset=network.offset[mine])
            for name, size, mine in (
                (name, int(network.blocks.sizes[place]), network.blocks.rows(place))
                for place, name in enumerate(network.agents)
            )
        },
        "by hand",
    )
    limited = random_network(4, prior="covariance")
    yield vn.design(
        limited.replace(limits=dict.fromkeys(limited.agents, (-1000000.0, 2000000.0)), resolution=0.125)
    )


def test_an_agent_made_from_the_page_sends_the_same_numbers(
    page_agent: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    compared = noisy = dithered = 0
    for number, plan in enumerate(plans()):
        plan.save(tmp_path / f"plan{number}")
        for agent, sanitizer in plan.sanitizers.items():
            file = page_agent["read_agent_file"]((tmp_path / f"plan{number}/{agent}.json").read_bytes())
            noisy += bool(np.any(sanitizer.noise))
            dithered += sanitizer.dithers
            for seed in range(20):
                reading = sanitizer.offset + rng.standard_normal(sanitizer.readings) * 10.0 ** rng.integers(
                    0, 30
                )
                ours = release_valid(sanitizer.recipe, reading[None], Drawn(seed)).values[0]
                theirs = Drawn(seed)
                sent = page_agent["numbers_sent"](file, reading.tolist(), theirs.uniform, theirs.normal)
                assert sent == ours.tolist()
                compared += 1
            assert page_agent["numbers_sent"](file, [np.nan] * sanitizer.readings, None, None) is None
    assert compared > 200
    assert min(noisy, dithered) > 3


def test_a_message_made_from_the_page_is_the_one_veilnet_makes(page_agent: dict[str, Any]) -> None:
    secret, store = bytes(range(32)), bytes(range(1, 9))
    file = {"plan": "0123456789abcdef0123456789abcdef", "agent": "kitchen"}
    shown = next(block.shown for block in blocks(PAGE) if block.code == CODE[1])
    vector = bytes.fromhex(str(shown).replace("\n", ""))
    assert page_agent["message"](secret, file, store, 1, 1888889, [0.5, -1.25]) == vector
    seal = Seal(secret)
    opened = seal.open_message(vector)
    assert (opened.plan, opened.agent, opened.epoch) == ("0123456789abcdef", "kitchen", 1888889)
    assert seal.message(opened) == vector
    for agent, epoch, sent in (
        ("kitchen", 1, None), ("Küche im ersten Stock, am Fenster nach Norden", 2**40, [1e300] * 40),
        ("a", 127, [0.0]), ("b", 128, []), ("c", 65536, [2.5]),
    ):  # fmt: skip
        values = None if sent is None else np.array(sent, dtype="<f8").tobytes()
        made = seal.message(Message("f" * 16, agent, store, epoch, epoch, 0, True, values))
        file = {"plan": "f" * 32, "agent": agent}
        assert page_agent["message"](secret, file, store, epoch, epoch, sent) == made


@pytest.mark.parametrize(("version", "why"), [(2, "newer"), (0, "malformed"), ("2", "malformed")])
def test_a_message_of_another_version_is_told_from_nonsense(
    page_agent: dict[str, Any], version: Any, why: str
) -> None:
    secret = bytes(32)
    body = page_agent["packed"](
        [version, "f" * 16, "kitchen", bytes(8), 1, 1, 0, True, None, "a field of then"]
    )
    tag = hashlib.blake2b(body, digest_size=16, key=secret, person=b"veilnet message").digest()
    with pytest.raises(Malformed, match=why):
        Seal(secret).open_message(body + tag)
