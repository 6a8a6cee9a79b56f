"""What Home Assistant and Telegraf are told: every field their documentation asks for, and templates that render.

Oracles: Jinja, which Home Assistant renders templates with, and a reader of the line protocol written here from its
rules.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.brokers import Client, eventually, require_mosquitto
from helpers.code_blocks import ROOT
from veilnet.cli._mosquitto import Broker
from veilnet.live import home_assistant, telegraf
from veilnet.live.broker import BrokerPlan
from veilnet.live.keys import KeyFolder
from veilnet.live.topics import Topics, reader_identity

TOPICS = Topics("home/veilnet")
TELEGRAF = {  # documented settings of Telegraf's inputs.mqtt_consumer: it refuses a file with any other
    "servers", "topics", "topic_tag", "topic_fields", "qos", "connection_timeout", "max_undelivered_messages",
    "persistent_session", "client_id", "username", "password", "tls_ca", "tls_cert", "tls_key", "tls_server_name",
    "insecure_skip_verify", "keepalive", "ping_timeout", "client_trace", "data_format", "topic_parsing", "tags",
    "name_override", "interval", "precision", "alias",
}  # fmt: skip
LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


def published(values: dict[str, tuple[float | None, float | None, str]], **changes: Any) -> dict[str, Any]:
    """An estimate as the centre publishes it."""
    return {
        "epoch": 96,
        "time": "2025-11-17T09:30:00Z",
        "plan": "cf6785d0",
        "revision": 1,
        "estimates": {
            label: {"value": value, "deviation": deviation, "unit": unit}
            for label, (value, deviation, unit) in values.items()
        },
        "covariance": [],
        "missing": ["hall"],
        "contradicting": [],
    } | changes


HOUSE = {"warmth": (21.25, 0.5, "°C"), "load": (3.0, 0.125, "kW"), "noise": (None, None, "")}


def described(labels: list[str], units: list[str], **options: Any) -> dict[str, Any]:
    return json.loads(home_assistant.discovery_payload(TOPICS, labels, units, "0.1.0", **options))


def test_the_device_has_what_discovery_asks_for() -> None:
    found = described(["warmth", "load", "noise"], ["°C", "kW", ""])
    assert found["device"]["identifiers"]
    assert found["device"]["name"]
    assert found["origin"] == {"name": "veilnet", "sw_version": "0.1.0"}
    assert found["state_topic"] == TOPICS.estimates
    assert found["availability"] == [
        {"topic": topic, "payload_available": "online", "payload_not_available": "offline"}
        for topic in (TOPICS.status, TOPICS.heard)
    ]
    assert not any("expire_after" in each for each in found["components"].values())  # rows have no time
    assert len(found["components"]) == 7
    for name, each in found["components"].items():
        assert each["p"] == "sensor"
        assert each["unique_id"] == name
        assert re.fullmatch(r"[A-Za-z0-9_]+", name)
    by_name = {each["name"]: each for each in found["components"].values()}
    assert (by_name["warmth"]["device_class"], by_name["warmth"]["unit_of_measurement"]) == (
        "temperature",
        "°C",
    )
    assert by_name["load"]["device_class"] == "power"
    assert "unit_of_measurement" not in by_name["noise"]
    assert "device_class" not in by_name["warmth deviation"]  # a deviation of 1 °C is no temperature of 1 °C


def test_the_topic_is_one_that_home_assistant_looks_at_and_the_broker_allows() -> None:
    topic = home_assistant.discovery_topic(TOPICS)
    assert re.fullmatch(r"homeassistant/device/[A-Za-z0-9_-]+/config", topic)
    assert topic != home_assistant.discovery_topic(Topics("home_veilnet"))
    assert home_assistant.discovery_topic(TOPICS, "ha").startswith("ha/device/")


def test_the_birth_message() -> None:
    assert home_assistant.is_birth("homeassistant/status", b"online")
    assert not home_assistant.is_birth("homeassistant/status", b"offline")
    assert not home_assistant.is_birth("veilnet/status", b"online")
    assert home_assistant.is_birth("ha/status", b"online", "ha")


def rendered(component: dict[str, Any], estimate: dict[str, Any]) -> str:
    template = jinja2.Environment(autoescape=False).from_string(component["value_template"])
    return str(template.render(value_json=json.loads(json.dumps(estimate))))


@settings(max_examples=60, deadline=None)
@given(st.lists(LABELS, unique=True, min_size=1, max_size=4))
def test_templates_read_what_is_published(labels: list[str]) -> None:
    estimate = published({label: (k + 0.5, k + 0.25, "") for k, label in enumerate(labels)})
    found = described(labels, [""] * len(labels))["components"].values()
    for k, label in enumerate(labels):
        value = next(
            each for each in found if each["name"] == label and each["value_template"].endswith("value }}")
        )
        assert rendered(value, estimate) == f"{k + 0.5}"
    assert [rendered(each, estimate) for each in found if each["name"] == "agents missing"][-1] == "1"


def test_what_cannot_be_estimated_is_unknown() -> None:
    found = described(["noise"], [""])["components"].values()
    value = next(each for each in found if each["name"] == "noise")
    assert rendered(value, published(HOUSE)) == "None"  # Home Assistant's word for unknown


def test_ids_stay_and_what_is_gone_is_taken_away() -> None:
    before, after = described(["warmth"], ["°C"]), described(["warmth", "load"], ["°C", "kW"])
    assert set(before["components"]) < set(after["components"])
    shrunk = described(["warmth"], ["°C"], gone=["warmth", "load"])["components"]
    assert set(shrunk) == set(after["components"])
    removed = [each for each in shrunk.values() if each == {"p": "sensor"}]
    assert len(removed) == 2


def read_line(line: str) -> tuple[str, dict[str, str], dict[str, Any], int | None]:
    """(measurement, tags, fields, time) of a line: split at what has no backslash before it."""
    parts = re.split(r"(?<!\\) ", line)
    assert len(parts) in (2, 3)
    measurement, *tags = re.split(r"(?<!\\),", parts[0])

    def plain(text: str) -> str:
        return re.sub(r"\\([,= ])", r"\1", text)

    pairs = [re.split(r"(?<!\\)=", each) for each in tags]
    assert all(len(pair) == 2 and pair[1] for pair in pairs)
    fields: dict[str, Any] = {}
    for each in parts[1].split(","):
        name, value = each.split("=")
        fields[name] = int(value[:-1]) if value.endswith("i") else float(value)
    time = int(parts[2]) if len(parts) == 3 else None
    return measurement, {plain(name): plain(value) for name, value in pairs}, fields, time


def test_a_line_for_every_number_that_is_known() -> None:
    first, second = (read_line(each) for each in telegraf.lines(published(HOUSE), TOPICS).splitlines())
    assert first == (
        "veilnet",
        {"network": "home/veilnet", "parameter": "warmth", "unit": "°C"},
        {"value": 21.25, "deviation": 0.5, "missing": 1, "revision": 1, "epoch": 96},
        1_763_371_800 * 10**9,
    )
    assert second[1]["parameter"] == "load"


def test_rows_have_no_time() -> None:
    assert read_line(telegraf.lines(published({"a": (1.0, None, "")}, time=None), TOPICS).strip()) == (
        "veilnet",
        {"network": "home/veilnet", "parameter": "a"},
        {"value": 1.0, "missing": 1, "revision": 1, "epoch": 96},
        None,
    )
    assert telegraf.lines(published({"a": (None, None, "")}), TOPICS) == ""
    assert telegraf.lines(published({"a": (float("inf"), None, "")}), TOPICS) == ""


@settings(max_examples=100, deadline=None)
@given(LABELS.filter(lambda text: "\\" not in text), st.floats(allow_nan=False, allow_infinity=False))
def test_lines_read_back_to_the_same_bits(label: str, value: float) -> None:
    found = telegraf.lines(published({label: (value, 1.0, "m s")}), TOPICS)
    assert found.count("\n") == 1
    _, tags, fields, _ = read_line(found.removesuffix("\n"))
    assert tags["parameter"] == (" ".join(label.split()) or "_")
    assert tags["unit"] == "m s"
    assert fields["value"] == value


@pytest.mark.parametrize("label", ["a\\", "\\", "a\nveilnet value=1", "a\r\nb"])
def test_a_name_cannot_end_or_add_a_line(label: str) -> None:
    found = telegraf.lines(published({label: (1.0, 1.0, "")}), TOPICS).splitlines()
    assert len(found) == 1
    assert read_line(found[0])[2]["value"] == 1.0


def test_telegraf_s_configuration_reads_what_is_published() -> None:
    text = (ROOT / "examples" / "live" / "telegraf.conf").read_text()
    consumer = tomllib.loads(text)["inputs"]["mqtt_consumer"][0]
    assert consumer["servers"] == ["ssl://broker.example:8883"]
    assert consumer["topics"] == [Topics().influx]
    assert consumer["persistent_session"] is True
    assert consumer["client_id"] == reader_identity("telegraf")
    assert (consumer["data_format"], consumer["qos"]) == ("influx", 1)
    assert set(consumer) <= TELEGRAF
    keys = [Path(consumer[name]).name for name in ("tls_ca", "tls_cert", "tls_key")]
    assert keys == ["ca.crt", "party.crt", "party.key"]
    assert "insecure_skip_verify" not in text


def test_all_of_it_passes_the_broker(keys: KeyFolder) -> None:
    """The centre describes itself, Home Assistant restarts, the centre hears it; Telegraf gets its lines."""
    require_mosquitto()
    topics = Topics()
    with (
        Broker(keys.broker, BrokerPlan(["kitchen"], topics, ["telegraf"])) as broker,
        Client(broker, keys.centre) as centre,
    ):
        topic = home_assistant.discovery_topic(topics)
        payload = home_assistant.discovery_payload(topics, ["warmth"], ["°C"], "0.1.0").encode()
        centre.subscribe(home_assistant.birth_topic())
        assert centre.publish(topic, payload, retain=True) != "Not authorized"
        assert centre.publish(topics.status, b"online", retain=True) != "Not authorized"
        with Client(broker, keys.reader("telegraf")) as reader:
            for each in (topic, topics.status, topics.influx):
                reader.subscribe(each)
            assert eventually(lambda: (topic, payload) in reader.received)  # retained: it was said before
            assert eventually(lambda: (topics.status, b"online") in reader.received)
            assert reader.publish(home_assistant.birth_topic(), b"online") == "Success"
            assert eventually(lambda: bool(centre.received))
            assert home_assistant.is_birth(*centre.received[0])
            line = telegraf.lines(published(HOUSE), topics).encode()
            assert centre.publish(topics.influx, line) == "Success"
            assert eventually(lambda: (topics.influx, line) in reader.received)
