"""ESPHome: sensors of a device as an agent of veilnet. Their readings stay on it; sanitized messages leave it.

Put the agent's C files beside this one: ``veilnet export plan/kitchen.json --c components/veilnet``.
"""

import re
from pathlib import Path

import esphome.codegen as cg
import esphome.config_validation as cv
import esphome.final_validate as fv
from esphome.components import sensor, time
from esphome.const import CONF_ID, CONF_INTERNAL, CONF_LEVEL, CONF_TIME_ID
from esphome.core import CORE

DEPENDENCIES = ["time", "sensor"]
CONF_READINGS, CONF_ROOT, CONF_SEAL = "readings", "root", "seal"
_QUIET = ("NONE", "ERROR", "WARN", "INFO", "CONFIG")

Veilnet = cg.esphome_ns.namespace("veilnet").class_("Veilnet", cg.Component)


def _planned(name):
    """A number of the exported plan."""
    header = Path(__file__).with_name("veilnet_plan.h")
    if not header.is_file():
        raise cv.Invalid(f"no veilnet_plan.h: 'veilnet export plan/AGENT.json --c {header.parent}' writes it")
    return int(re.search(rf"#define VEILNET_{name} (-?\d+)", header.read_text(encoding="utf-8"))[1])


def _as_planned(config):
    readings = _planned("READINGS")
    if len(config[CONF_READINGS]) != readings:
        found = len(config[CONF_READINGS])
        raise cv.Invalid(f"readings: expected {readings} sensors, in the order of the plan, found {found}")
    if _planned("STEP") == 0:
        raise cv.Invalid("the plan does not say how long an epoch is: 'veilnet design ... --step 15min'")
    return config


def _seal(value):
    value = cv.string_strict(value).strip()
    if not re.fullmatch("[0-9a-fA-F]{64}", value):
        raise cv.Invalid("seal: expected the 64 hexadecimal digits in seal.key of 'veilnet live keys'")
    return value


CONFIG_SCHEMA = cv.All(
    cv.Schema(
        {
            cv.GenerateID(): cv.declare_id(Veilnet),
            cv.GenerateID(CONF_TIME_ID): cv.use_id(time.RealTimeClock),
            cv.Required(CONF_READINGS): cv.ensure_list(cv.use_id(sensor.Sensor)),
            cv.Required(CONF_SEAL): cv.sensitive(_seal) if hasattr(cv, "sensitive") else _seal,
            cv.Optional(CONF_ROOT, default="veilnet"): cv.string_strict,
        }
    ).extend(cv.COMPONENT_SCHEMA),
    _as_planned,
)


def _stays_on_the_device(config):
    """Raw readings must not leave by another door: ESPHome publishes sensors, and its log has their values."""
    whole = fv.full_config.get()
    for reading in config[CONF_READINGS]:
        own = whole.get_config_for_path(whole.get_path_for_id(reading)[:-1])
        if not own.get(CONF_INTERNAL):
            raise cv.Invalid(f"readings: {reading} would be published as it is; give it 'internal: true'")
    level = whole.get("logger", {}).get(CONF_LEVEL, "NONE")
    if level not in _QUIET:
        raise cv.Invalid(f"logger: its level {level} writes raw readings into the log; set 'level: INFO'")
    if not CORE.is_host and "mqtt" not in whole:
        raise cv.Invalid("veilnet: messages go over MQTT; add 'mqtt:' with the broker of the network")
    return config


FINAL_VALIDATE_SCHEMA = _stays_on_the_device


async def to_code(config):
    agent = cg.new_Pvariable(config[CONF_ID])
    await cg.register_component(agent, config)
    cg.add(agent.set_clock(await cg.get_variable(config[CONF_TIME_ID])))
    cg.add(agent.set_seal(config[CONF_SEAL]))
    cg.add(agent.set_root(config[CONF_ROOT]))
    for place, reading in enumerate(config[CONF_READINGS]):
        cg.add(agent.set_reading(place, await cg.get_variable(reading)))
