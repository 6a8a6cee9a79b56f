"""Estimates in Home Assistant: the centre as a device, each public parameter as a sensor (MQTT device discovery).

The centre publishes :func:`discovery_payload`, retained, on :func:`discovery_topic` when it connects, and again
whenever Home Assistant says that it has started (:func:`is_birth`, on :func:`birth_topic`). The sensors read the
newest estimate from the topic where the centre publishes it anyway, and are available as long as the centre is there
and hears agents, as its retained words say. Everything here makes text; nothing sends.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from veilnet.live.topics import OFFLINE, ONLINE, Topics

PREFIX = "homeassistant"
"""The root of Home Assistant's topics, unless its owner chose another."""

# Units that only one kind of quantity has, and Home Assistant's word for it.
_KINDS = {
    **dict.fromkeys(("°C", "°F", "K"), "temperature"),
    **dict.fromkeys(("W", "kW"), "power"),
    **dict.fromkeys(("Pa", "hPa", "kPa", "mbar"), "pressure"),
    **dict.fromkeys(("A", "mA"), "current"),
    **dict.fromkeys(("V", "mV"), "voltage"),
    "lx": "illuminance",
}


def discovery_topic(topics: Topics, prefix: str = PREFIX) -> str:
    """Where the device is described."""
    return f"{prefix}/device/{_device(topics)}/config"


def birth_topic(prefix: str = PREFIX) -> str:
    """Where Home Assistant says that it has started."""
    return f"{prefix}/status"


def is_birth(topic: str, payload: bytes, prefix: str = PREFIX) -> bool:
    """Whether a message says that Home Assistant has started, so that the device has to be described again."""
    return topic == birth_topic(prefix) and payload == b"online"


def discovery_payload(
    topics: Topics,
    labels: Sequence[str],
    units: Sequence[str],
    version: str,
    *,
    name: str = "",
    classes: Mapping[str, Sequence[Any]] | None = None,
    digits: Mapping[str, int] | None = None,
    expires: float | None = None,
    gone: Iterable[str] = (),
) -> str:
    """The device: for every public parameter its estimate and the deviation of it, and how many agents are missing.

    labels:  names of the public parameters, as in the published estimates; ``units`` theirs, empty for none.
    version: of veilnet.
    name:    of the device; the network's root if empty.
    digits:  after the point, that are shown of a parameter, as far as known.
    expires: seconds after which an estimate says nothing of now; None for never.
    classes: of parameters that are classes, their values; the second sensor is then the chance of the value.
    gone:    names of parameters of an earlier plan, whose sensors are taken away.
    """
    device = _device(topics)
    components: dict[str, dict[str, Any]] = {}
    for label, unit in zip(labels, units, strict=True):
        of_unit = {"unit_of_measurement": unit} if unit else {}
        kind = {"device_class": _KINDS[unit]} if unit in _KINDS else {}
        value, deviation = _components(device, label)
        measured: dict[str, Any] = {"state_class": "measurement", **of_unit}
        shown = {} if label not in (digits or {}) else {"suggested_display_precision": (digits or {})[label]}
        how, what = "deviation", measured | kind | shown
        if classes and label in classes:
            shown = {"suggested_display_precision": 2}
            how, what = "chance", {"device_class": "enum", "options": [str(each) for each in classes[label]]}
        components[value] = _sensor(value, label, _reads(label, "value")) | what
        components[deviation] = _sensor(
            deviation, f"{label} {how}", _reads(label, how), entity_category="diagnostic", **measured, **shown
        )
    for field, words in (
        ("missing", "agents missing"),
        *([("drifted", "agents drifted")] if classes else []),
    ):
        components[f"{device}_{field}"] = _sensor(
            f"{device}_{field}",
            words,
            f"{{{{ value_json.{field} | length }}}}",
            state_class="measurement",
            entity_category="diagnostic",
        )
    if expires is not None:
        for each in components.values():
            each["expire_after"] = math.ceil(expires)
    for label in gone:
        if label not in labels:
            components |= {each: {"p": "sensor"} for each in _components(device, label)}
    return json.dumps(
        {
            "device": {
                "identifiers": [device],
                "name": name or topics.root.replace("/", " "),
                "manufacturer": "veilnet",
                "model": "fusion centre",
                "sw_version": version,
            },
            "origin": {"name": "veilnet", "sw_version": version},
            "components": components,
            "state_topic": topics.estimates,
            "availability": [
                {"topic": topic, "payload_available": ONLINE, "payload_not_available": OFFLINE}
                for topic in (topics.status, topics.heard)
            ],
            "availability_mode": "all",
            "qos": 1,
        },
        ensure_ascii=False,
    )


def digits_of(deviation: float | None) -> int | None:
    """How many digits after the point say two of a deviation; None where there is none."""
    if not deviation or not math.isfinite(deviation):
        return None
    return min(max(1 - math.floor(math.log10(deviation)), 0), 6)


def _sensor(unique: str, name: str, template: str, **more: Any) -> dict[str, Any]:
    return {"p": "sensor", "unique_id": unique, "name": name, "value_template": template, **more}


def _device(topics: Topics) -> str:
    """A name of the device that Home Assistant allows, different for every root."""
    return _plain("veilnet", topics.root)


def _components(device: str, label: str) -> tuple[str, str]:
    """The ids of a parameter's estimate and of its deviation: they stay the same over restarts and plans."""
    name = _plain(device, label)
    return f"{name}_value", f"{name}_deviation"


def _plain(start: str, text: str) -> str:
    """Letters, digits and _, different for different texts."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in text)[:30]
    return f"{start}_{kept}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _reads(label: str, what: str) -> str:
    """A template that takes a number out of an estimate; a number that cannot be estimated becomes unknown."""
    quoted = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{{ value_json.estimates["{quoted}"].{what} }}}}'
